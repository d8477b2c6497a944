"""Predictions of a fitted estimator, and what weights and the order of rows do to them."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.class_weight import compute_sample_weight

from estimators.helpers import (
    EVERY_WAY,
    assert_same_fit,
    classifier,
    diabetes,
    fitted,
    fitted_regressor,
    regressor,
    wine,
)
from skinnytrees import SkinnyTreesClassifier

# Few epochs on few rows: what a penalty removes, or whether it removes anything, is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


# ------------------------------------------------------------------------------------------------ predictions


@EVERY_WAY
def test_predictions_of_a_classifier_agree_with_each_other(way):
    X, _ = wine()
    model = fitted(way)
    raw = model.decision_function(X)
    assert raw.shape == (len(X), 3)
    np.testing.assert_allclose(model.predict_proba(X), softmax(raw, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[raw.argmax(axis=1)])


@EVERY_WAY
def test_two_classes_have_one_score_the_log_odds_of_the_second(way):
    X, y = wine()
    X, y = X[y > 0], y[y > 0]
    model = classifier(way).fit(X, y)
    score, proba = model.decision_function(X), model.predict_proba(X)
    assert score.shape == (len(X),)
    np.testing.assert_allclose(np.log(proba[:, 1] / proba[:, 0]), score, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), np.where(score > 0, 2, 1))


@EVERY_WAY
def test_fit_learns_something(way):
    X, y = wine()
    assert fitted(way).score(X, y) > 0.85
    assert fitted(way).score(X, y) == accuracy_score(y, fitted(way).predict(X))
    X, y = diabetes()
    assert fitted_regressor(way).score(X, y) > 0.2
    assert fitted_regressor(way).score(X, y) == r2_score(y, fitted_regressor(way).predict(X))


@EVERY_WAY
def test_labels_may_be_words(way):
    X, y = wine()
    words = np.array(["barbera", "grignolino", "nebbiolo"])
    model = classifier(way).fit(X, words[y])
    assert model.classes_.tolist() == words.tolist()
    assert_same_fit(model, fitted(way))
    np.testing.assert_array_equal(model.predict(X), words[fitted(way).predict(X)])


@pytest.mark.parametrize("labels", [[True, False, True], [-7, 3, 100], ["b", "a", "c"]], ids=["bool", "int", "str"])
def test_predicted_labels_are_those_of_y_in_type_and_value(labels):
    X, y = wine()
    y = np.array(labels)[y]
    model = classifier("group_l0").fit(X, y)
    assert model.predict(X).dtype == y.dtype
    assert set(model.predict(X)) <= set(y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))


def test_rare_class_with_one_row_is_kept_for_training():
    X, y = wine()
    y = y.copy()
    y[0] = 3
    model = classifier("path").fit(X, y)
    assert model.predict_proba(X).shape == (len(X), 4)


@EVERY_WAY
def test_prediction_of_a_row_does_not_depend_on_its_neighbours(way):
    X, _ = wine()
    many = np.tile(X, (12, 1))  # more than one piece of rows
    whole = fitted(way).predict_proba(many)
    np.testing.assert_allclose(whole[-len(X) :], fitted(way).predict_proba(X), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(whole[:1], fitted(way).predict_proba(X[:1]), rtol=1e-5, atol=1e-7)


# ------------------------------------------------------------------------------------------------ weights and rows


@EVERY_WAY
def test_balanced_class_weights_are_the_sample_weights_that_scikit_learn_gives(way):
    X, y = wine()
    X, y = X[20:], y[20:]
    balanced = classifier(way, class_weight="balanced").fit(X, y)
    assert_same_fit(balanced, classifier(way).fit(X, y, compute_sample_weight("balanced", y)))
    assert (balanced.predict_proba(X) != classifier(way).fit(X, y).predict_proba(X)).any()


def test_balanced_class_weights_count_a_weight_of_two_as_two_rows():
    X, y = wine()
    weight = np.where(y == 0, 3, 1)
    repeated = np.repeat(np.arange(len(y)), weight)
    model = classifier("path", class_weight="balanced")
    assert_same_fit(clone(model).fit(X, y, weight), clone(model).fit(X[repeated], y[repeated]), X)


def test_class_weights_by_class_multiply_the_sample_weights():
    X, y = wine()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    by_class = classifier("path", class_weight={0: 1.0, 1: 3.0, 2: 0.5}).fit(X, y, weight)
    assert_same_fit(by_class, classifier("path").fit(X, y, weight * np.array([1.0, 3.0, 0.5])[y]))


@EVERY_WAY
@pytest.mark.parametrize("make", [classifier, regressor])
def test_whole_weights_are_the_same_as_repeating_or_leaving_out_rows(way, make):
    X, y = wine() if make is classifier else diabetes()
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    assert_same_fit(make(way).fit(X, y, weight), make(way).fit(X[repeated], y[repeated]), X)


@EVERY_WAY
@pytest.mark.parametrize("make", [classifier, regressor])
def test_order_of_the_rows_does_not_matter(way, make):
    X, y = wine() if make is classifier else diabetes()
    shuffled = np.random.default_rng(0).permutation(len(y))
    reference = fitted(way) if make is classifier else fitted_regressor(way)
    assert_same_fit(make(way).fit(X[shuffled], y[shuffled]), reference, X)


def test_order_of_the_rows_does_not_matter_to_pruning():
    """Enough rows for the second phase of the path."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:400, :4], y[:400]
    model = SkinnyTreesClassifier(2, max_epochs=2, n_estimators=5, random_state=0)
    assert_same_fit(clone(model).fit(X[::-1], y[::-1]), clone(model).fit(X, y), X)


@EVERY_WAY
def test_fit_leaves_its_arguments_alone(way):
    X, y = (part.copy() for part in diabetes())
    X[::7, 0] = np.nan
    weight = np.ones(len(y))
    kept = [part.copy() for part in (X, y, weight)]
    regressor(way).fit(X, y, weight, X_val=X, y_val=y, sample_weight_val=weight)
    for ours, theirs in zip((X, y, weight), kept, strict=True):
        np.testing.assert_array_equal(ours, theirs)
