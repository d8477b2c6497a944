"""The same fit gives the same bits, and a model that was stored or copied predicts the same."""

import copy
import io
import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from estimators.helpers import (
    EVERY_WAY,
    L0,
    PENALISED,
    WAYS,
    assert_same_fit,
    classifier,
    diabetes,
    fitted,
    wine,
)
from skinnytrees import SkinnyTreesRegressor
from skinnytrees.activations import SmoothStep
from skinnytrees.losses import Huber
from skinnytrees.penalties import GroupLasso

# Few epochs on few rows: what a penalty removes, or whether it removes anything, is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


@EVERY_WAY
def test_same_seed_gives_the_same_bits_and_another_does_not(way):
    X, y = wine()
    assert_same_fit(classifier(way).fit(X, y), fitted(way), X)
    assert_same_fit(classifier(way, random_state=np.random.RandomState(0)).fit(X, y), fitted(way), X)
    other = classifier(way, random_state=1).fit(X, y)
    assert (other.predict_proba(X) != fitted(way).predict_proba(X)).any()


@EVERY_WAY
@pytest.mark.parametrize("threads", [1, 2])
def test_result_does_not_depend_on_the_number_of_threads(way, threads):
    X, y = wine()
    with threadpool_limits(threads, user_api="blas"):
        model = classifier(way, n_jobs=threads).fit(X, y)
        assert_same_fit(model, fitted(way), X)


def test_wide_fit_does_not_depend_on_the_number_of_threads():
    """The products are large enough for BLAS to cut them for two threads if it may."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 1500))
    y = X[:, 0] + X[:, 1]
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(SkinnyTreesRegressor(5, max_epochs=2, random_state=0).fit(X, y))
    assert_same_fit(*results, X)


def joblib_copy(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


COPIES = {"pickle": lambda model: pickle.loads(pickle.dumps(model)), "joblib": joblib_copy, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("copy_of", COPIES.values(), ids=COPIES.keys())
@EVERY_WAY
def test_stored_model_predicts_the_same(way, copy_of):
    X, _ = wine()
    model = copy_of(fitted(way))
    assert_same_fit(model, fitted(way), X)
    np.testing.assert_array_equal(model.predict_proba(X), fitted(way).predict_proba(X))
    np.testing.assert_array_equal(model.transform(X), fitted(way).transform(X))
    if "penalty" not in WAYS[way]:
        np.testing.assert_array_equal(model.at(2).predict_proba(X), fitted(way).at(2).predict_proba(X))
        assert model.path_.to_frame().equals(fitted(way).path_.to_frame())


@EVERY_WAY
def test_clone_is_not_fitted_and_fits_the_same(way):
    X, y = wine()
    again = clone(fitted(way))
    assert not hasattr(again, "model_")
    assert_same_fit(again.fit(X, y), fitted(way), X)


def test_objects_as_parameters_survive_cloning_and_storing():
    X, y = diabetes()
    model = SkinnyTreesRegressor(
        loss=Huber(0.5), penalty=GroupLasso(0.01), activation=SmoothStep(2.0), random_state=0, **PENALISED
    )
    fit = clone(model).fit(X, y)
    assert_same_fit(pickle.loads(pickle.dumps(fit)), model.fit(X, y), X)


def test_second_fit_forgets_the_first():
    X, y = wine()
    model = classifier("path").fit(X, y)
    model.set_params(penalty=L0, feature_budget=None, **PENALISED).fit(X[:, :6], y > 0)
    assert_same_fit(model, classifier("group_l0").fit(X[:, :6], y > 0))
    assert model.n_features_in_ == 6
    assert model.classes_.tolist() == [False, True]
    assert not hasattr(model, "path_"), "the path belongs to the first fit"
