"""A fit changes the estimator at its end and all at once, or not at all."""

import io

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.estimators.stability import StabilitySelector
from skinnytrees.exceptions import DivergenceError
from skinnytrees.penalties import GroupL0

FEW = {"max_epochs": 2, "n_estimators": 4, "random_state": 0}


class Broken(RuntimeError):
    pass


def fail(report):
    raise Broken


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    return X, (X[:, 0] > 0).astype(int)


def test_a_failed_refit_leaves_trees_labels_and_path_of_the_earlier_fit(table):
    X, y = table
    model = SkinnyTreesClassifier(2, **FEW).fit(X, y)
    before, expected = dict(vars(model)), model.predict_proba(X)
    model.set_params(callbacks=[fail])
    with pytest.raises(Broken):
        model.fit(X[:, :3], np.where(y, "yes", "no"))
    assert {name: value for name, value in vars(model).items() if name != "callbacks"} == {
        name: value for name, value in before.items() if name != "callbacks"
    }
    assert model.predict(X).dtype == y.dtype
    np.testing.assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.parametrize("penalty", ["path", GroupL0(0.1)])
@pytest.mark.parametrize("kind", [SkinnyTreesClassifier, SkinnyTreesRegressor])
def test_an_estimator_whose_first_fit_failed_is_fitted_for_nobody(kind, penalty, table):
    model = kind(penalty=penalty, callbacks=[fail], **FEW)
    names = set(vars(model))
    with pytest.raises(Broken):
        model.fit(*table)
    for use in (check_is_fitted, kind.get_support, lambda model: model.save(io.BytesIO())):
        with pytest.raises(NotFittedError):
            use(model)
    assert set(vars(model)) == names


def test_a_stability_selector_whose_first_fit_failed_is_not_fitted(table):
    selector = StabilitySelector(SkinnyTreesClassifier(2, callbacks=[fail], **FEW), n_resamples=2, n_jobs=1)
    with pytest.raises(Broken):
        selector.fit(*table)
    with pytest.raises(NotFittedError):
        check_is_fitted(selector)


def test_what_an_earlier_fit_has_learned_does_not_outlive_the_next(table):
    model = SkinnyTreesClassifier(2, **FEW).fit(*table)
    model.set_params(feature_budget=None, penalty=GroupL0(0.0)).set_output(transform="pandas").fit(*table)
    assert not hasattr(model, "path_")
    assert list(model.transform(table[0]).columns), "what set_output has set is kept"


def test_a_random_generator_moves_on_with_every_fit(table):
    generator = np.random.RandomState(0)
    model = SkinnyTreesClassifier(2, **{**FEW, "random_state": generator})
    before = generator.get_state()[2]
    model.fit(*table)
    assert generator.get_state()[2] != before
    assert model.random_state is generator


def test_divergence_leaves_the_earlier_model(table):
    X, y = table
    model = SkinnyTreesRegressor(penalty=None, **FEW).fit(X, y)
    expected = model.predict(X)
    model.set_params(learning_rate=1e30)
    with pytest.raises(DivergenceError):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict(X), expected)
