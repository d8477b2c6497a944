"""Screening, and training at a fixed support."""

from itertools import pairwise

import numpy as np
import pytest
from reference import random_data
from scipy import sparse

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.kernels.state import Data, start_trees
from skinnytrees.losses import SquaredError
from skinnytrees.optimizers import Constant, FixedSupportSGD
from skinnytrees.path.rules import DEFAULT_RULES, Recipe, SizeRules, replace_rule
from skinnytrees.path.screening import screen
from skinnytrees.path.targets import falling_targets

from .helpers import make_groups, make_inputs, make_trainer, random_problem


def test_screening_finds_the_columns_that_carry_the_signal():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 1000))
    y = (X[:, 7] + X[:, 500] - X[:, 901] > 0).astype(int)
    model = SkinnyTreesClassifier(6, random_state=0, max_epochs=5).fit(X, y)
    assert {7, 500, 901} <= set(model.get_support(indices=True))


def heights_of_curves(model):
    curves = model.model_.encoder.curves
    return np.split(curves.heights, curves.offsets[1:-1])


@pytest.mark.parametrize("seed", [2, 6])
def test_screening_keeps_columns_that_matter_only_symmetrically(seed):
    """Inside or outside of a sphere. Without folded ranks no true column has a linear effect, and these two draws lose one."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 150))
    y = ((X[:, [7, 50, 120]] ** 2).sum(axis=1) > 2.366).astype(int)
    model = SkinnyTreesClassifier(6, random_state=0, max_epochs=5).fit(X, y)
    assert {7, 50, 120} <= set(model.get_support(indices=True))
    assert all(np.all(np.diff(height) >= 0) for height in heights_of_curves(model)), (
        "no folded rank in the final ensemble"
    )


def test_screening_gives_one_point_per_size_and_keeps_what_is_always_selected():
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 60, 20, 1, rng, np.float32)
    data = data._replace(Y=data.X[:, :1].copy())
    groups = make_groups(np.ones(20), always_selected=[13])
    targets = falling_targets(groups, 4, SizeRules())
    points = list(screen(make_inputs(data, groups), targets, rng))
    assert [len(point.groups) for point in points] == [target.n_groups for target in targets]
    for point in points:
        assert 13 in point.groups
        assert len(point.groups) == 1 or 0 in point.groups
        assert point.trees.W.shape[0] == len(point.groups)
        assert np.isfinite(point.train_loss)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_training_in_sample_space_is_training_in_feature_space(kind, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 80)) * (rng.random((30, 80)) < 0.3)
    data = Data(X.astype(np.float32), X[:, :1].astype(np.float32), np.ones(30, dtype=np.float32))
    start = start_trees(80, 4, 2, 1, rng)
    recipe = Recipe(
        n_trees=4, depth=2, learning_rate=0.1, l2=0.1, n_epochs=5, batch_size=8, optimizer=FixedSupportSGD(),
        schedule=Constant(),
    )  # fmt: skip

    def trained(table):
        trees = start.copy()
        loss = make_trainer().train(trees, data._replace(X=table), recipe, np.random.default_rng(1))
        return loss, trees.flat

    in_sample_space = trained(data.X if kind == "dense" else sparse.csr_array(data.X))
    monkeypatch.setattr("skinnytrees.training.epoch_runners.choice._SAMPLE_SPACE_ROWS", 0)
    in_feature_space = trained(data.X)
    assert in_sample_space[0] == pytest.approx(in_feature_space[0], rel=1e-5)
    np.testing.assert_allclose(in_sample_space[1], in_feature_space[1], rtol=1e-4, atol=1e-5)
    assert (in_sample_space[1] != in_feature_space[1]).any(), "two computations, not one"


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_rate_that_overflows_is_cut_until_the_path_arrives():
    X, y = random_problem(0, 4, n_rows=60)
    model = SkinnyTreesRegressor(learning_rate=1e8, max_epochs=3, n_estimators=5, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_screening_stops_where_pruning_takes_over():
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 60, 40, 1, rng, np.float32)
    rules = replace_rule(replace_rule(DEFAULT_RULES, "pruning.needs_rows", 60), "pruning.starts_at", 10)
    inputs = make_inputs(data, rules=rules)
    sizes = [len(point.groups) for point in screen(inputs, falling_targets(inputs.groups, 4, rules.sizes), rng)]
    assert sizes[0] == 40
    assert sizes[-1] == 11


def test_swaps_bring_back_what_screening_has_lost():
    """Without swaps groups only leave; with them a later point may have a group that an earlier one had not."""
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 60, 30, 1, rng, np.float32)

    def supports(rules):
        inputs = make_inputs(data, rules=rules)
        targets = falling_targets(inputs.groups, 4, rules.sizes)
        return [set(point.groups) for point in screen(inputs, targets, np.random.default_rng(1))]

    without = supports(replace_rule(DEFAULT_RULES, "swaps.groups_per_row", 0.0))
    assert all(small <= large for large, small in pairwise(without))
    assert not all(small <= large for large, small in pairwise(supports(DEFAULT_RULES)))
