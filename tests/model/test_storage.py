"""Model files: what is written is read again, and nothing else is."""

import copy
import dataclasses
import io
import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

from model.make_data import FOLDER as KEPT
from model.make_data import predictions
from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor, load
from skinnytrees.activations import SmoothStep
from skinnytrees.exceptions import ModelFileError
from skinnytrees.losses import Huber, Poisson, Quantile, SquaredError
from skinnytrees.model.storage import archive
from skinnytrees.model.storage.values import Arrays, StoredArrays, describe, make
from skinnytrees.optimizers import Adam, OneCycle
from skinnytrees.penalties import PENALTIES, GroupL0, GroupLasso

# Few epochs on few rows: what a penalty removes, or whether it removes anything, is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")

FEW = {"max_epochs": 2, "n_estimators": 4, "random_state": 0}


@pytest.fixture(scope="module")
def frame():
    """Numbers, words, categories, times, missing values."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.standard_normal(90),
            "gaps": np.where(rng.random(90) < 0.3, np.nan, rng.standard_normal(90)),
            "word": rng.choice(["red", "green", "blue"], 90),
            "category": pd.Categorical(rng.choice([1, 2, 3], 90)),
            "time": pd.date_range("2020-01-01", periods=90),
        }
    )
    return frame, np.where(frame.number + (frame.word == "red") > 0.3, "yes", "no")


def saved_and_loaded(model, file):
    model.save(file)
    return load(file)


def sorted_state(estimator):
    return dict(sorted(vars(estimator).items()))


def assert_same_state(one, other):
    """Attributes are equal to the last bit, whatever they hold."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert_same_state(list(one.values()), list(other.values()))
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same_state(a, b)
    elif hasattr(one, "__dataclass_fields__"):
        for name in one.__dataclass_fields__:
            assert_same_state(getattr(one, name), getattr(other, name))
    else:
        assert one == other or (one != one and other != other)


def test_classifier_on_a_frame_comes_back_with_its_words_names_classes_and_path(frame, tmp_path):
    X, y = frame
    costs = {name: 1.0 + place for place, name in enumerate(X.columns)}
    model = SkinnyTreesClassifier(9, feature_costs=costs, always_select=["number"], **FEW).fit(X, y)
    again = saved_and_loaded(model, tmp_path / "model.skinny")
    assert_same_state(sorted_state(model), sorted_state(again))
    np.testing.assert_array_equal(model.predict(X), again.predict(X))
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    for n_features in model.path_.n_features:
        np.testing.assert_array_equal(model.at(n_features).predict_proba(X), again.at(n_features).predict_proba(X))
    assert again.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()
    clone(again).fit(X, y)


@pytest.mark.parametrize(
    "parameters",
    [
        {"loss": "huber", "penalty": GroupL0(0.5, rate=0.1)},
        {"loss": Quantile(0.8), "penalty": GroupLasso(0.01), "activation": SmoothStep(0.5)},
        {"loss": Poisson(), "penalty": None, "optimizer": Adam(), "schedule": OneCycle(warm_up=0.2)},
        {"loss": Huber(2.0), "feature_budget": 0.5, "feature_groups": [[0, 1], [2, 3]], "cv": 2},
        {"loss": SquaredError(), "feature_budget": 3, "always_select": np.array([1]), "categorical_features": (1,)},
    ],
    ids=str,
)
def test_regressor_comes_back_with_parameters_of_all_kinds(parameters, tmp_path):
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:80], y[:80]
    model = SkinnyTreesRegressor(**parameters, **FEW).fit(X, y)
    again = saved_and_loaded(model, tmp_path / "model")
    assert_same_state(sorted_state(model), sorted_state(again))
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


def test_several_targets_come_back(tmp_path):
    X, y = load_diabetes(return_X_y=True)
    model = SkinnyTreesRegressor(3, **FEW).fit(X[:80], np.column_stack([y, X[:, 2]])[:80])
    np.testing.assert_array_equal(model.predict(X), saved_and_loaded(model, tmp_path / "model").predict(X))


def test_costs_as_a_series_come_back_as_a_mapping(frame, tmp_path):
    X, y = frame
    model = SkinnyTreesClassifier(9, feature_costs=pd.Series(2, index=X.columns), **FEW).fit(X, y)
    assert saved_and_loaded(model, tmp_path / "model").feature_costs == dict.fromkeys(X.columns, 2)


def test_what_only_a_fit_needs_is_left_out_and_what_cannot_be_written_is_refused(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:80], y[:80]
    parameters = {**FEW, "random_state": np.random.RandomState(0)}
    model = SkinnyTreesClassifier(3, callbacks=[lambda report: False], **parameters).fit(X, y)
    again = saved_and_loaded(model, tmp_path / "model")
    assert again.callbacks is None
    assert again.random_state is None
    model = SkinnyTreesClassifier(3, cv=KFold(2), **FEW).fit(X, y)
    with pytest.raises(TypeError, match=r"cv holds KFold.*joblib\.dump"):
        model.save(tmp_path / "other")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


@pytest.fixture(scope="module")
def small():
    X, y = load_breast_cancer(return_X_y=True)
    return SkinnyTreesClassifier(3, **FEW).fit(X[:80], y[:80])


def test_places_that_are_no_file_are_refused_and_nothing_is_left_there(small, tmp_path):
    model = small
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match=r"is a folder\. Name a file in it"):
        model.save(tmp_path / "folder")
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        model.save(tmp_path / "nowhere" / "model")
    with pytest.raises(TypeError, match="neither a path nor a binary file"):
        model.save(None)
    with pytest.raises(TypeError, match=r"takes text\. Open the file with mode 'wb'"):
        model.save(io.StringIO())
    with pytest.raises(TypeError, match="neither a path nor a binary file"):
        load(3)
    assert [file.name for file in tmp_path.rglob("*")] == ["folder"]


def test_categories_that_cannot_be_written_are_named(tmp_path):
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X["bin"] = pd.cut(X["mean radius"], 3)
    model = SkinnyTreesClassifier(3, always_select=["bin"], **FEW).fit(X[:80], y[:80])
    with pytest.raises(TypeError, match=r"vocabulary holds Interval.*Convert it before fit"):
        model.save(tmp_path / "model")


def test_an_unfitted_estimator_has_nothing_to_save(tmp_path):
    with pytest.raises(NotFittedError):
        SkinnyTreesClassifier().save(tmp_path / "model")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"age,income\n41,20000\n", "looks like text.*read_csv"),
        (pickle.dumps([1]), "its first bytes are others"),
        (b"PK\x03\x04", "not a whole skinnytrees model file"),
    ],
)
def test_a_foreign_file_is_refused_with_advice_that_never_speaks_of_pickle(content, message, tmp_path):
    (tmp_path / "customers.csv").write_bytes(content)
    with pytest.raises(ModelFileError, match=f"customers.csv.*{message}") as caught:
        load(tmp_path / "customers.csv")
    assert "pickle" not in str(caught.value)


def test_a_missing_file_and_a_stream_of_text_are_named(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing here")
    with pytest.raises(TypeError, match="mode 'rb'"):
        load(io.StringIO("some text"))


def test_an_endless_device_is_not_read():
    with pytest.raises(ModelFileError):
        load("/dev/zero")


def edited(model, change):
    """The file of a model whose document and arrays were changed, with the right check sum."""
    file = io.BytesIO()
    model.save(file)
    document, arrays = archive.unpack(archive.Members(file.getvalue()))
    change(document, arrays)
    return io.BytesIO(archive.pack(document, arrays))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document, arrays: document.update(format=99), "newer version of skinnytrees.*Upgrade"),
        (lambda document, arrays: document.update(format="new"), "its format is 'new'"),
        (lambda document, arrays: document.update(kind="ranker"), "'ranker', which is none of"),
        (lambda document, arrays: document.update(more=1), "other fields"),
        (lambda document, arrays: document["parameters"].update(predict=None), r"not know: \['predict'\]"),
        (lambda document, arrays: document["learned"].update(predict=None), r"has \['predict'\]"),
        (lambda document, arrays: document["learned"].update(n_features=10**12), "its support has the shape"),
        (lambda document, arrays: document["parameters"].update(size_rule="worst"), "size_rule"),
        (
            lambda document, arrays: document["parameters"].update(
                penalty={"is": "penalty", "name": "Popen", "fields": {}}
            ),
            "an object that is unknown",
        ),
    ],
)
def test_a_document_that_says_something_else_is_refused(small, change, message):
    with pytest.raises(ModelFileError, match=message):
        load(edited(small, change))


def test_a_value_changed_without_the_check_sum_is_noticed(small):
    file = io.BytesIO()
    small.save(file)
    content = file.getvalue()
    members = archive.Members(content)
    name = next(name for name in members.by_name if name.endswith(".npy") and len(members.read(name)) > 1000)
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w") as rewritten:
        for one in members.by_name:
            data = members.read(one)
            rewritten.writestr(one, data[:-1] + bytes([data[-1] ^ 1]) if one == name else data)
    with pytest.raises(ModelFileError, match="check sum"):
        load(io.BytesIO(changed.getvalue()))


def test_equal_models_have_equal_files(small):
    one, other = io.BytesIO(), io.BytesIO()
    small.save(one)
    load(io.BytesIO(one.getvalue())).save(other)
    assert one.getvalue() == other.getvalue()


def test_numpy_opens_the_arrays(small):
    file = io.BytesIO()
    small.save(file)
    with np.load(io.BytesIO(file.getvalue()), allow_pickle=False) as archive_of_arrays:
        arrays = [archive_of_arrays[name] for name in archive_of_arrays.files if name.startswith("arrays/")]
    assert any(np.array_equal(array, small.model_.trees.W) for array in arrays)


def test_a_file_without_the_path_is_small_and_predicts_the_same(small, tmp_path):
    X, _ = load_breast_cancer(return_X_y=True)
    small.save(tmp_path / "whole")
    small.save(tmp_path / "model", path=False)
    again = load(tmp_path / "model")
    assert (tmp_path / "model").stat().st_size < 0.3 * (tmp_path / "whole").stat().st_size
    assert not hasattr(again, "path_")
    np.testing.assert_array_equal(again.predict_proba(X), small.predict_proba(X))


def test_a_registered_penalty_is_saved_and_an_unregistered_one_is_refused(monkeypatch, tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Halved(GroupL0):
        name = "halved"

        def thresholds(self, step, eta):
            hard, soft = super().thresholds(step, eta)
            return hard / 2, soft

    X, y = load_diabetes(return_X_y=True)
    model = SkinnyTreesRegressor(penalty=Halved(0.5), **FEW).fit(X[:80], y[:80])
    with pytest.raises(TypeError, match=r"penalty holds.*cannot hold"):
        model.save(tmp_path / "model")
    monkeypatch.setitem(PENALTIES, "halved", Halved)
    assert saved_and_loaded(model, tmp_path / "model").penalty == Halved(0.5)


def test_what_set_output_has_set_comes_back(small, tmp_path):
    X, _ = load_breast_cancer(return_X_y=True)
    model = copy.copy(small).set_output(transform="pandas")
    assert isinstance(saved_and_loaded(model, tmp_path / "model").transform(X), pd.DataFrame)


_numbers = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text())
_values = st.recursive(
    _numbers,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.integers() | st.text(), inner, max_size=3),
    ),
    max_leaves=10,
)


@given(_values)
def test_any_nesting_of_plain_values_comes_back(value):
    arrays = Arrays()
    described = json.loads(json.dumps(describe(value, "value", arrays), allow_nan=False))
    assert_same_state(value, make(described, StoredArrays(arrays.all)))


@pytest.mark.parametrize("name", sorted(file.stem for file in KEPT.glob("*.skinny")))
def test_a_kept_file_gives_the_predictions_that_it_gave_when_it_was_written(name):
    model = load(KEPT / f"{name}.skinny")
    np.testing.assert_allclose(predictions(model), np.load(KEPT / f"{name}.npy"), rtol=1e-6)


def test_a_file_of_the_first_format_has_no_curves_and_is_read():
    with np.load(KEPT / "regressor_format2.skinny") as kept:
        arrays = dict(kept)
    description = json.loads(str(arrays.pop("description")))
    del description["state"]["model_"]["fields"]["encoder"]["fields"]["curves"]
    description["format"] = 1
    file = io.BytesIO()
    np.savez(file, description=np.array(json.dumps(description)), **arrays)
    file.seek(0)
    np.testing.assert_allclose(predictions(load(file)), np.load(KEPT / "regressor_format2.npy"), rtol=1e-6)


def test_an_old_description_that_asks_for_another_class_is_refused(tmp_path):
    stranger = {"is": "Popen", "fields": {"args": "true"}}
    text = json.dumps({"format": 1, "kind": "SkinnyTreesClassifier", "state": {"penalty": stranger}})
    with (tmp_path / "model").open("wb") as stream:
        np.savez(stream, description=np.array(text))
    with pytest.raises(ModelFileError, match="'Popen', which is unknown"):
        load(tmp_path / "model")


def test_callable_scoring_comes_back_as_none_and_a_name_as_the_name():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:80], y[:80]

    def mean_error(estimator, X, y):
        return -np.abs(estimator.predict(X) - y).mean()

    for scoring, expected in [(mean_error, None), ("r2", "r2")]:
        model = SkinnyTreesRegressor(3, scoring=scoring, **FEW).fit(X, y)
        file = io.BytesIO()
        model.save(file)
        file.seek(0)
        again = load(file)
        assert again.scoring == expected
        assert model.scoring == scoring, "the fitted estimator keeps its own"
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        clone(again).fit(X, y)
