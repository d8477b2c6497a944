"""Evidence: losses on held-out rows and by folds, and the scores that follow from them."""

import numpy as np
import pytest
from reference import random_data
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, ShuffleSplit

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.losses import Multinomial, SquaredError
from skinnytrees.path.evidence import RowLosses, join_folds, reference_losses

from .helpers import BOTH_PHASES, QUICK, make_inputs, random_problem, with_rules


@BOTH_PHASES
def test_folds_choose_the_size_and_all_rows_train_the_model(rules):
    X, y = random_problem(3, 6, n_rows=90)
    y = X[:, 0] - X[:, 4]
    model = with_rules(SkinnyTreesRegressor, rules)(3, cv=3, random_state=0).fit(X, y)
    assert model.n_features_selected_ <= 3
    assert {0, 4} <= set(model.get_support(indices=True))
    assert np.isfinite(model.path_.val_score).all()
    assert model.path_.val_score[model.path_.chosen] > 0.5
    np.testing.assert_allclose(model.model_.encoder.mean, X[:, model.support_].mean(axis=0), atol=1e-12)


def test_folds_of_classes_are_stratified():
    """Sorted labels: plain folds would leave whole classes out."""
    X, y = load_wine(return_X_y=True)
    model = SkinnyTreesClassifier(4, cv=3, max_epochs=3, random_state=0).fit(X, y)
    assert model.n_features_selected_ <= 4
    assert model.path_.val_score.max() > 0.7


def test_folds_given_as_rows_are_those_of_the_users_table():
    X, y = random_problem(4, 5, n_rows=60)
    folds = list(KFold(3).split(X))
    shuffled = np.random.default_rng(0).permutation(60)
    place = np.argsort(shuffled)
    moved = [tuple(place[part] for part in fold) for fold in folds]
    model = SkinnyTreesRegressor(3, cv=folds, **QUICK).fit(X, y)
    other = SkinnyTreesRegressor(3, cv=moved, **QUICK).fit(X[shuffled], y[shuffled])
    np.testing.assert_allclose(model.path_.val_score, other.path_.val_score, rtol=1e-6)


def test_folds_that_hold_out_some_rows_only_or_twice():
    X, y = random_problem(5, 5, n_rows=80)
    model = SkinnyTreesRegressor(3, cv=ShuffleSplit(2, test_size=0.3, random_state=0), **QUICK).fit(X, y)
    assert np.isfinite(model.path_.val_score).all()
    assert np.isfinite(model.path_.val_score_se).all()


def test_scores_of_the_path_rank_sizes_as_their_loss_on_the_given_rows_does():
    X, y = load_wine(return_X_y=True)
    held = np.arange(len(y)) % 3 == 0
    model = SkinnyTreesClassifier(5, random_state=0, max_epochs=3).fit(X[~held], y[~held], X_val=X[held], y_val=y[held])
    proba = [Multinomial().to_prediction(inside.raw(X[held])) for inside in model.path_.models]
    losses = np.array([log_loss(y[held], p) for p in proba])
    slope, intercept = np.polyfit(losses, model.path_.val_score, 1)
    np.testing.assert_allclose(model.path_.val_score, slope * losses + intercept, atol=1e-5)
    assert intercept == pytest.approx(1, abs=1e-4), "a loss of zero is a score of one"
    rows = np.array([-np.log(p[np.arange(held.sum()), y[held]]) for p in proba])
    error = np.std(rows, axis=1) / np.sqrt(held.sum())
    np.testing.assert_allclose(model.path_.val_score_se, -slope * error, rtol=1e-3)


def test_folds_that_differ_by_chance_share_the_mean_of_their_starts():
    rng = np.random.default_rng(0)
    losses = [rng.random((2, 3, n_rows)) for n_rows in (4, 5)]
    weights = [np.ones(4), np.full(5, 2.0)]
    kept = join_folds(losses, weights, starts_differ=False)
    mixed = join_folds(losses, weights, starts_differ=True)
    for i in range(2):
        np.testing.assert_array_equal(kept[i].losses, np.concatenate([losses[0][i], losses[1][i]], axis=1))
        np.testing.assert_array_equal(mixed[i].losses, np.concatenate([one.mean(axis=0) for one in losses], axis=1))
        np.testing.assert_array_equal(mixed[i].weight, [1, 1, 1, 1, 2, 2, 2, 2, 2])


def test_score_is_the_fraction_of_the_variance_that_is_explained():
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 50, 3, 1, rng, np.float32)
    inputs = make_inputs(data)
    perfect, constant = reference_losses(inputs.trainer, 1, data)
    mean = np.average(data.Y[:, 0], weights=data.weight)
    of_constant = inputs.trainer.loss.value(data.Y[:, 0], np.full(50, mean))
    assert perfect == 0
    assert constant == pytest.approx(np.average(of_constant, weights=data.weight), rel=1e-5)
    score, error = RowLosses(np.array([of_constant, np.zeros(50)]), data.weight.astype(float)).scores(perfect, constant)
    np.testing.assert_allclose(score, [0, 1], atol=1e-5)
    assert error[0] > error[1] == 0
