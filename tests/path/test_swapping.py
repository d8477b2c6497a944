"""Swaps: what is exchanged, what must stay, and when it is given up."""

from dataclasses import replace

import numpy as np
import pytest
from reference import Ensemble, central_differences, loss_and_gradient, predict, random_data, random_trees

from skinnytrees.activations import Sigmoid
from skinnytrees.losses import SquaredError
from skinnytrees.path.points import PathPoint
from skinnytrees.path.rules import DEFAULT_RULES
from skinnytrees.path.swapping import Candidates, exchange, pull_of_groups, swap

from .helpers import make_groups, make_inputs


def all_of(inputs):
    return Candidates(np.arange(len(inputs.groups)), inputs)


def point_on(groups, n_columns, seed=0):
    return PathPoint(np.array(groups), random_trees(n_columns, 1, np.random.default_rng(seed), dtype=np.float32), 1.0)


def test_weakest_group_leaves_for_the_strongest_pull_with_zero_weights():
    point = point_on([1, 3, 4], 3)
    point.trees.W[1] *= 1e-3
    pull = np.array([1.0, 99, 5, 99, 99, 2])
    changed = exchange(point, pull, make_groups(np.ones(6)), n_exchanged=1)
    assert changed.groups.tolist() == [1, 2, 4]
    np.testing.assert_array_equal(changed.trees.W[[0, 2]], point.trees.W[[0, 2]])
    assert not changed.trees.W[1].any()
    np.testing.assert_array_equal(changed.trees.b, point.trees.b)
    np.testing.assert_array_equal(changed.trees.O, point.trees.O)


def test_groups_of_several_columns_are_exchanged_whole():
    groups = make_groups(np.ones(3), column_offsets=np.array([0, 2, 3, 6]))
    point = point_on([0, 1], 3)
    point.trees.W[2] *= 1e-3
    changed = exchange(point, np.array([0.0, 0, 1]), groups, n_exchanged=1)
    assert changed.groups.tolist() == [0, 2]
    assert changed.trees.W.shape[0] == 5
    np.testing.assert_array_equal(changed.trees.W[:2], point.trees.W[:2])


@pytest.mark.parametrize(
    "groups",
    [make_groups(np.ones(4), always_selected=[0, 1]), make_groups([1, 1, 2, 2])],
    ids=["all inside must stay", "all outside cost more"],
)
def test_nothing_is_exchanged_where_it_cannot_be(groups):
    assert exchange(point_on([0, 1], 2), np.ones(4), groups, n_exchanged=1) is None


def test_pull_is_the_norm_of_the_gradient_of_every_groups_weights():
    """By differences of the loss, in the weights of a column that is not in use."""
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 40, 3, 1, rng, np.float32)
    inputs = make_inputs(data)
    point = point_on([0, 2], 2)
    pull = pull_of_groups(point, all_of(inputs))
    whole = random_trees(3, 1, rng, dtype=np.float32)
    whole.put(np.array([0, 2]), point.trees)
    ensemble = Ensemble.of(whole)

    def mean_loss(weights):
        ensemble.W[:, :, 1] = weights.reshape(ensemble.W.shape[:2])
        losses, _ = loss_and_gradient(SquaredError(), predict(ensemble, data.X, Sigmoid()), data.Y)
        return float(data.weight @ losses) / len(losses)

    gradient = central_differences(mean_loss, np.zeros(whole.W.shape[1]))
    assert pull[1] == pytest.approx(np.linalg.norm(gradient), rel=1e-4)


def test_swap_finds_the_column_that_matters_and_never_raises_the_loss():
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 80, 8, 1, rng, np.float32)
    data = data._replace(Y=data.X[:, 5:6].copy())
    inputs = make_inputs(data)
    trees, loss = inputs.trainer.start(inputs.rows_of(np.array([0, 1])), inputs.recipes.screen, rng)
    swapped = swap(PathPoint(np.array([0, 1]), trees, loss), inputs, all_of(inputs), rng)
    assert 5 in swapped.groups
    assert swapped.train_loss < 0.95 * loss


def test_swap_that_gains_too_little_for_the_rules_is_not_made():
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 80, 8, 1, rng, np.float32)
    data = data._replace(Y=data.X[:, 5:6].copy())
    inputs = make_inputs(data, rules=replace(DEFAULT_RULES, swaps=replace(DEFAULT_RULES.swaps, gain=0.0)))
    trees, loss = inputs.trainer.start(inputs.rows_of(np.array([0, 1])), inputs.recipes.screen, rng)
    assert swap(PathPoint(np.array([0, 1]), trees, loss), inputs, all_of(inputs), rng).groups.tolist() == [0, 1]


def test_candidates_are_those_left_when_there_were_few_enough_for_the_rows():
    data = random_data(SquaredError(), 10, 200, 1, np.random.default_rng(0), np.float32)
    inputs = make_inputs(data, rules=replace(DEFAULT_RULES, swaps=replace(DEFAULT_RULES.swaps, candidates_per_row=5.0)))
    sizes, candidates = [], all_of(inputs)
    for n_left in (200, 90, 45, 20, 5):
        candidates = candidates.among(np.arange(n_left))
        sizes.append(len(candidates.groups))
    assert sizes == [200, 90, 45, 45, 45]
    np.testing.assert_array_equal(candidates.rows.X, data.X[:, :45])


def test_only_candidates_come_in():
    data = random_data(SquaredError(), 40, 6, 1, np.random.default_rng(0), np.float32)
    inputs = make_inputs(data)
    point = point_on([1, 3], 2)
    every = pull_of_groups(point, all_of(inputs))
    some = pull_of_groups(point, Candidates(np.array([1, 2, 3]), inputs))
    np.testing.assert_allclose(some, np.where(np.isin(np.arange(6), [1, 2, 3]), every, -1), rtol=1e-5)
    changed = exchange(point, some, inputs.groups, n_exchanged=2)
    assert set(changed.groups) <= {1, 2, 3}
    assert len(changed.groups) == 2
    assert exchange(point, pull_of_groups(point, Candidates(np.array([1, 3]), inputs)), inputs.groups, 1) is None
