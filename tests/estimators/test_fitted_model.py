"""What a fitted model reads, how important its columns are, and what penalties leave of it."""

import numpy as np
import pytest
from model.test_prediction import plain_encoder
from reference import random_trees

from estimators.helpers import EVERY_WAY, L0, classifier, diabetes, fitted, fitted_regressor, regressor, wine
from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.hard_splits import node_by_node
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.penalties import GroupL0, GroupLasso

# Few epochs on few rows: what a penalty removes, or whether it removes anything, is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


@EVERY_WAY
@pytest.mark.parametrize("make", [classifier, regressor])
def test_model_reads_nothing_but_the_selected_columns(way, make):
    X, _ = wine() if make is classifier else diabetes()
    model = (fitted if make is classifier else fitted_regressor)(way)
    changed = X.copy()
    changed[:, ~model.support_] = np.random.default_rng(0).normal(size=(len(X), (~model.support_).sum())) * 1e6
    changed[::2, ~model.support_] = np.nan
    np.testing.assert_array_equal(model.predict(changed), model.predict(X))
    assert set(model.model_.encoder.feature) == set(model.get_support(indices=True))
    assert len(model.model_.trees.W) == len(model.model_.encoder.feature)


@EVERY_WAY
def test_every_selected_column_matters(way):
    X, _ = wine()
    model = fitted(way)
    for k in model.get_support(indices=True):
        changed = X.copy()
        changed[:, k] += 3 * X[:, k].std()
        assert (model.predict_proba(changed) != model.predict_proba(X)).any()


@EVERY_WAY
def test_importances_are_fractions_and_zero_outside_the_support(way):
    model = fitted(way)
    assert model.feature_importances_.shape == (13,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    np.testing.assert_array_equal(model.feature_importances_ > 0, model.support_)
    columns = model.model_.column_importances()
    expected = np.array([columns[model.model_.encoder.feature == k].sum() for k in range(13)])
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum())


def test_importance_of_a_column_is_its_weight_times_what_its_splits_change():
    """By its definition, node after node of every tree."""
    trees = random_trees(3, 2, np.random.default_rng(0), n_trees=4, depth=3)
    model = SoftTrees(plain_encoder(range(3)), trees, np.zeros(2), Sigmoid())
    nodes = node_by_node(trees)
    n_splits, n_leaves = len(nodes.W) // 4, len(nodes.leaves) // 4
    expected = np.zeros(3)
    for tree in range(4):
        W, leaves = nodes.W[tree * n_splits :][:n_splits], nodes.leaves[tree * n_leaves :][:n_leaves]
        values = [None] * n_splits + list(leaves)
        for i in reversed(range(n_splits)):
            left, right = values[2 * i + 1], values[2 * i + 2]
            values[i] = (left + right) / 2
            depth = (i + 1).bit_length() - 1
            expected += np.abs(W[i]) * np.linalg.norm(left - right) / 2**depth
    np.testing.assert_allclose(model.column_importances(), expected, rtol=1e-5)


def test_importance_is_that_of_columns_that_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + 0.3 * X[:, 1] + 0.1 * rng.normal(size=300)
    importance = SkinnyTreesRegressor(size_rule="full", random_state=0).fit(X, y).feature_importances_
    assert importance[0] > 1.5 * importance[1] > 1.5 * importance[2:].max()


def test_dense_ensemble_uses_every_feature_and_the_penalty_drops_some():
    assert fitted("dense").n_features_selected_ == 13
    assert 0 < fitted("group_l0").n_features_selected_ < 13


@pytest.mark.parametrize("penalty", [GroupL0(1e6), GroupLasso(1e6)])
def test_penalty_that_removes_every_feature_leaves_the_constant(penalty):
    X, y = diabetes()
    model = regressor("group_l0", penalty=penalty, max_epochs=30).fit(X, y)
    assert model.n_features_selected_ == 0
    assert np.ptp(model.predict(X)) == 0
    assert model.predict(X)[0] == pytest.approx(y.mean(), abs=y.std() / 2)
    np.testing.assert_array_equal(model.feature_importances_, 0)


def test_larger_penalty_leaves_fewer_features():
    X, y = wine()
    penalties = [GroupL0(gamma, rate=0.1) for gamma in (0, 8, 10, 100)]
    left = [classifier("group_l0", penalty=penalty).fit(X, y).n_features_selected_ for penalty in penalties]
    assert left[0] == 13 > left[1] > left[2] > left[3] == 0


@pytest.mark.parametrize("penalty", [L0, GroupLasso(0.1)])
def test_adam_is_refused_with_a_penalty(penalty):
    X, y = wine()
    with pytest.raises(
        ValueError, match=r"optimizer='adam' has no proximal step.*Use optimizer='sgd', or penalty=None"
    ):
        SkinnyTreesClassifier(penalty=penalty, optimizer="adam").fit(X, y)
