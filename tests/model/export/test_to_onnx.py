import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.estimators.onnx_pipelines import register_skl2onnx

from . import cases
from .runners import onnx_feeds, run_onnx

onnx = pytest.importorskip("onnx", reason="onnx is not installed")


def content_of(case, tmp_path, **options):
    case.model.export(tmp_path / "model.onnx", **options)
    return (tmp_path / "model.onnx").read_bytes()


def in_single_precision(case):
    """The case as both sides can read it: numbers of single precision, and no empty text, which ONNX reads as missing."""
    X = case.X[~(case.X == "").any(axis=1)].reset_index(drop=True)
    for column in X:
        if X[column].dtype != object:
            X[column] = X[column].to_numpy(np.float32).astype(np.float64)
    return replace(case, X=X)


@pytest.mark.parametrize("name", cases.ALL)
def test_onnx_gives_predictions_and_labels_of_the_model(name, tmp_path):
    case = in_single_precision(cases.ALL[name]())
    *labels, given = run_onnx(content_of(case, tmp_path), onnx_feeds(case))
    np.testing.assert_allclose(given, case.expected, rtol=1e-5, atol=1e-5)
    for found in labels:
        assert found.tolist() == case.model.predict(case.table).tolist()


@pytest.mark.parametrize("name", ["mixed", "regression", "unscaled", "folded"])
def test_infinite_number_counts_as_one_beyond_all_others(name, tmp_path):
    case = cases.ALL[name]()
    X = pd.concat([case.X.iloc[:8]] * 2, ignore_index=True)
    numbers = [column for column in case.inputs if column not in case.text_columns]
    for k, sign in enumerate((-1, 1)):
        X.loc[8 * k : 8 * k + 7, numbers[k % len(numbers)]] = sign * 3e38
    far = cases.Case(case.model, X)
    infinite = cases.Case(case.model, X.replace({3e38: np.inf, -3e38: -np.inf}))
    given = run_onnx(content_of(far, tmp_path), onnx_feeds(infinite))[-1]
    np.testing.assert_allclose(given, far.expected, rtol=1e-5, atol=1e-5)


def test_ten_thousand_rows_of_mixed_types_agree_to_1e_5(tmp_path):
    case = in_single_precision(replace(cases.mixed(), X=cases.mixed_frame(10_000, 2)[0]))
    labels, given = run_onnx(content_of(case, tmp_path), onnx_feeds(case))
    np.testing.assert_allclose(given, case.expected, rtol=0, atol=1e-5)
    assert (
        np.mean(labels == case.model.predict(case.X)) > 0.999
    )  # where two classes are equally probable, rounding decides


def test_double_inputs_tell_apart_what_single_precision_cannot(tmp_path):
    seconds = 1.7e9 + np.arange(40.0)
    X = pd.DataFrame({"time": seconds})
    model = SkinnyTreesRegressor(1, random_state=0, max_epochs=4).fit(X, np.arange(40.0))
    case = cases.Case(model, X)
    given = run_onnx(content_of(case, tmp_path, input_type="double"), onnx_feeds(case, np.float64))[0]
    np.testing.assert_allclose(given, case.expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="input_type='half'"):
        model.export(tmp_path / "model.onnx", input_type="half")


def test_file_states_its_opsets_and_passes_the_checker(tmp_path):
    case = cases.mixed()
    model = onnx.load_from_string(content_of(case, tmp_path))
    onnx.checker.check_model(model, full_check=True)
    assert {opset.domain: opset.version for opset in model.opset_import} == {"": 15, "ai.onnx.ml": 2}
    assert [one.name for one in model.graph.input] == list(case.inputs)
    assert [one.name for one in model.graph.output] == ["label", "probabilities"]


def test_output_gets_another_name_where_a_column_has_it(tmp_path):
    X = pd.DataFrame({"variable": np.arange(40.0)})
    model = SkinnyTreesRegressor(penalty=None, max_epochs=2).fit(X, np.arange(40.0))
    graph = onnx.load_from_string(content_of(cases.Case(model, X), tmp_path)).graph
    assert [one.name for one in graph.output] == ["variable_"]


def test_missing_text_has_another_mark_where_the_empty_text_is_a_category(tmp_path):
    X = pd.DataFrame({"city": np.array(["", "a", None, "b"] * 10, dtype=object)})
    case = cases.Case(SkinnyTreesClassifier(penalty=None, max_epochs=20, random_state=0).fit(X, [0, 1, 2, 0] * 10), X)
    content = content_of(case, tmp_path)
    properties = {one.key: one.value for one in onnx.load_from_string(content).metadata_props}
    mark = json.loads(properties["missing_text"])["city"]
    assert mark == "<missing>"
    given = run_onnx(content, onnx_feeds(case, missing_text=mark))[1]
    np.testing.assert_allclose(given, case.expected, atol=1e-5)
    assert len(np.unique(given.round(5), axis=0)) == 4


def test_extra_is_named_where_onnx_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    with pytest.raises(ImportError, match=r"skinnytrees\[onnx\]"):
        cases.regression().model.export(tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the converter's own code
class TestPipelines:
    def setup_method(self):
        pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
        register_skl2onnx()

    def test_pipeline_with_a_classifier_converts(self):
        from skl2onnx import to_onnx

        X, y = load_wine(return_X_y=True)
        X = X.astype(np.float32)
        pipeline = make_pipeline(StandardScaler(), SkinnyTreesClassifier(4, **cases.SMALL)).fit(X, y)
        converted = to_onnx(pipeline, X[:1], options={"zipmap": False})
        labels, given = run_onnx(converted.SerializeToString(), {"X": X})
        np.testing.assert_allclose(given, pipeline.predict_proba(X), atol=1e-5)
        assert labels.tolist() == pipeline.predict(X).tolist()

    def test_pipeline_with_a_regressor_converts(self):
        from skl2onnx import to_onnx

        X, y = load_diabetes(return_X_y=True)
        X = X.astype(np.float32)
        pipeline = make_pipeline(StandardScaler(), SkinnyTreesRegressor(penalty=None, **cases.SMALL)).fit(X, y)
        converted = to_onnx(pipeline, X[:1])
        given = run_onnx(converted.SerializeToString(), {"X": X})[0]
        np.testing.assert_allclose(given[:, 0], pipeline.predict(X), rtol=1e-5)

    def test_model_alone_converts_from_one_input_per_column_text_included(self):
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType, StringTensorType

        case = in_single_precision(cases.mixed())
        kinds = [StringTensorType if name in case.text_columns else FloatTensorType for name in case.X]
        types = [(f"in{k}", kind([None, 1])) for k, kind in enumerate(kinds)]
        converted = to_onnx(case.model, initial_types=types, options={"zipmap": False})
        feeds = {f"in{k}": onnx_feeds(case)[name] for k, name in enumerate(case.X)}
        given = run_onnx(converted.SerializeToString(), feeds)[1]
        np.testing.assert_allclose(given, case.expected, atol=1e-5)
