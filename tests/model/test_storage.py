"""Model files: what is written is read again, and nothing else is."""

import io
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor, load
from skinnytrees.activations import SmoothStep
from skinnytrees.losses import Huber, Poisson, Quantile, SquaredError
from skinnytrees.model import storage
from skinnytrees.optimizers import Adam, OneCycle
from skinnytrees.penalties import GroupL0, GroupLasso

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
    assert_same_state(vars(model), vars(again))
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
    assert_same_state(vars(model), vars(again))
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


def test_a_failed_save_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    X, y = load_breast_cancer(return_X_y=True)
    model = SkinnyTreesClassifier(3, **FEW).fit(X[:80], y[:80])
    model.save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()

    def fail(stream, **arrays):
        stream.write(b"half a file")
        raise OSError("No space left on device")

    monkeypatch.setattr(storage.np, "savez", fail)
    with pytest.raises(OSError, match="No space left"):
        model.save(tmp_path / "model")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_bytes() == before


def test_places_that_are_no_file_are_refused_and_nothing_is_left_there(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    model = SkinnyTreesClassifier(3, **FEW).fit(X[:80], y[:80])
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match=r"is a folder\. Name a file in it"):
        model.save(tmp_path / "folder")
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        model.save(tmp_path / "nowhere" / "model")
    with pytest.raises(TypeError, match="neither a path nor a binary file"):
        model.save(None)
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


def test_damaged_and_foreign_files_are_refused(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    file = tmp_path / "model"
    SkinnyTreesClassifier(3, **FEW).fit(X[:80], y[:80]).save(file)
    whole = file.read_bytes()
    foreign = io.BytesIO()
    np.savez(foreign, description=np.array(json.dumps({"kind": "SkinnyTreesClassifier"})))
    for content in (whole[:-100], whole[: len(whole) // 2], b"", b"columns,1,2", pickle.dumps([1]), foreign.getvalue()):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"not a whole skinnytrees model file.*save\(\)"):
            load(file)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing here")
    storage.write(file, "SkinnyTreesRanker", {})
    with pytest.raises(ValueError, match="'SkinnyTreesRanker', which is none of"):
        load(file)


def test_a_description_that_asks_for_another_class_is_refused(tmp_path):
    stranger = {"is": "Popen", "fields": {"args": "true"}}
    text = json.dumps({"format": 1, "kind": "SkinnyTreesClassifier", "state": {"penalty": stranger}})
    with (tmp_path / "model").open("wb") as stream:
        np.savez(stream, description=np.array(text))
    with pytest.raises(ValueError, match="not a whole skinnytrees model file"):
        load(tmp_path / "model")


def test_a_file_of_a_newer_format_asks_for_an_upgrade(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "FORMAT", storage.FORMAT + 1)
    storage.write(tmp_path / "model", "SkinnyTreesClassifier", {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="Upgrade skinnytrees"):
        load(tmp_path / "model")


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
    file = io.BytesIO()
    storage.write(file, "anything", {"value": value})
    file.seek(0)
    kind, state = storage.read(file)
    assert kind == "anything"
    assert_same_state(value, state["value"])


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
