"""Elimination: what a group's removal costs, and which groups go."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from reference import Ensemble, loss_and_gradient, predict, random_data, random_trees, single_columns

from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.state import Data
from skinnytrees.losses import Multinomial, SquaredError
from skinnytrees.optimizers import Adam, Constant
from skinnytrees.path.elimination import Costs, Elimination, eliminate
from skinnytrees.path.rules import EliminationRules, Recipe
from skinnytrees.path.targets import Target

from .helpers import make_groups, make_trainer

RULES = EliminationRules()


def elimination_case(loss, n_outputs, n_columns=5, n_rows=80, seed=0):
    rng = np.random.default_rng(seed)
    trees = random_trees(n_columns, n_outputs, rng, dtype=np.float32)
    data = random_data(loss, n_rows, n_columns, n_outputs, rng, np.float32)
    mixing = np.eye(n_columns) + 0.4 * rng.normal(size=(n_columns, n_columns))
    return trees, data._replace(X=(data.X @ mixing + 0.3).astype(np.float32)), make_trainer(loss, n_outputs).functions


def summed_loss(trees, data, loss, X):
    outputs = predict(Ensemble.of(trees), X, Sigmoid())
    return float(data.weight.astype(float) @ loss_and_gradient(loss, outputs, data.Y)[0])


def filled_in(X, present, gone):
    """Columns that are gone, predicted from those that are present by ridge regression; zeros for other columns."""
    centred = X.astype(float) - X.mean(axis=0, dtype=float)
    covariance = centred.T @ centred / len(X)
    ridge = np.diag(RULES.ridge * np.diagonal(covariance))
    B = np.linalg.solve((covariance + ridge)[np.ix_(present, present)], covariance[np.ix_(present, gone)])
    return X.mean(axis=0, dtype=float)[gone] + centred[:, present] @ B


LOSSES = pytest.mark.parametrize(("loss", "n_outputs"), [(SquaredError(), 2), (Multinomial(), 3)])
GROUPS = pytest.mark.parametrize("offsets", [single_columns(5), np.array([0, 2, 3, 5])], ids=["columns", "groups"])


@LOSSES
@GROUPS
def test_plain_cost_is_the_rise_of_the_loss_when_a_group_is_at_its_mean(loss, n_outputs, offsets):
    trees, data, functions = elimination_case(loss, n_outputs)
    state = Elimination(trees, data, offsets, functions, RULES, fill_in=False)
    whole = summed_loss(trees, data, loss, data.X)
    for g, (first, end) in enumerate(pairwise(offsets)):
        without = data.X.copy()
        without[:, first:end] = data.X[:, first:end].mean(axis=0)
        assert state.cost(g) == pytest.approx(summed_loss(trees, data, loss, without) - whole, abs=1e-3)


@LOSSES
@GROUPS
def test_filled_in_cost_is_the_rise_of_the_loss_with_the_others_predicting_the_group(loss, n_outputs, offsets):
    trees, data, functions = elimination_case(loss, n_outputs)
    state = Elimination(trees, data, offsets, functions, RULES, fill_in=True)
    whole = summed_loss(trees, data, loss, data.X)
    for g, (first, end) in enumerate(pairwise(offsets)):
        gone = np.arange(first, end)
        replaced = data.X.copy()
        replaced[:, gone] = filled_in(data.X, np.delete(np.arange(5), gone), gone)
        assert state.cost(g) == pytest.approx(summed_loss(trees, data, loss, replaced) - whole, abs=2e-3)


@pytest.mark.parametrize("fill_in", [True, False])
@GROUPS
def test_removing_group_after_group_keeps_books_that_agree_with_the_weights(fill_in, offsets):
    loss = SquaredError()
    trees, data, functions = elimination_case(loss, 1)
    state = Elimination(trees, data, offsets, functions, RULES, fill_in)
    for g in (1, 0):
        predicted = state.loss + state.cost(g)
        state.remove(g, state.cost(g))
        assert not trees.W[offsets[g] : offsets[g + 1]].any()
        np.testing.assert_allclose(state.Z, data.X @ trees.W + trees.b, atol=1e-4)
        assert state.loss == pytest.approx(predicted, rel=1e-5)
        assert state.loss == pytest.approx(summed_loss(trees, data, loss, data.X), rel=1e-4)


def test_second_removal_is_filled_in_by_what_is_left_only():
    loss = SquaredError()
    trees, data, functions = elimination_case(loss, 1)
    state = Elimination(trees, data, single_columns(5), functions, RULES, fill_in=True)
    state.remove(2, state.cost(2))
    replaced = data.X.copy()
    replaced[:, [4]] = filled_in(data.X, np.array([0, 1, 3]), np.array([4]))
    cost = summed_loss(trees, data, loss, replaced) - summed_loss(trees, data, loss, data.X)
    assert state.cost(4) == pytest.approx(cost, abs=2e-3)


def test_column_that_others_make_up_for_exactly_goes_without_a_trace():
    rules = replace(RULES, ridge=1e-7)
    trees, data, functions = elimination_case(SquaredError(), 1)
    data.X[:, 3] = 2 * data.X[:, 0] - data.X[:, 1] + 0.5
    state = Elimination(trees, data, single_columns(5), functions, rules, fill_in=True)
    before = data.X @ trees.W + trees.b
    assert state.cost(3) == pytest.approx(0, abs=1e-3 * state.loss)
    state.remove(3, state.cost(3))
    np.testing.assert_allclose(data.X @ trees.W + trees.b, before, atol=2e-3)
    assert not trees.W[3].any()


def trained_case(twins=None, constant=None):
    """An ensemble for which every column matters, but for a constant one and one of two equal ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)).astype(np.float32)
    if twins:
        X[:, twins[1]] = X[:, twins[0]]
    if constant is not None:
        X[:, constant] = 0
    data = Data(X, X.sum(axis=1, keepdims=True), np.ones(200, dtype=np.float32))
    trainer = make_trainer()
    recipe = Recipe(
        n_trees=10,
        depth=2,
        learning_rate=0.05,
        l2=0.1,
        n_epochs=30,
        batch_size=20,
        optimizer=Adam(),
        schedule=Constant(),
    )
    trees, loss = trainer.start(data, recipe, rng)
    assert loss < 0.5
    return trees, data, trainer.functions


@pytest.mark.parametrize("twins", [(0, 1), (2, 4)])
def test_of_two_equal_columns_one_goes_first_and_at_no_cost(twins):
    trees, data, functions = trained_case(twins)
    state = Elimination(trees, data, single_columns(5), functions, RULES, fill_in=True)
    plain = Elimination(trees, data, single_columns(5), functions, RULES, fill_in=False)
    costs, plain_costs = (np.array([one.cost(g) for g in range(5)]) for one in (state, plain))
    others = np.delete(costs, twins)
    assert np.abs(costs[list(twins)]).max() < 0.02 * others.min()
    assert plain_costs[list(twins)].min() > 0.2 * others.min(), "without filling in, either looks dear"
    kept, _ = eliminate(trees, data, make_groups(np.ones(5)), Target(4, 4.0), functions, RULES, fill_in=True)
    assert len(kept) == 4
    assert len(set(twins) & set(kept)) == 1
    loss = summed_loss(trees, data, SquaredError(), data.X)
    assert loss == pytest.approx(state.loss, abs=0.02 * others.min())


@pytest.mark.parametrize("fill_in", [True, False])
@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_first_to_go_is_the_group_that_costs_least_for_its_price(fill_in, power):
    price = np.array([1.0, 2, 5, 1, 3])
    for seed in range(5):
        trees, data, functions = elimination_case(SquaredError(), 1, seed=seed)
        state = Elimination(trees.copy(), data, single_columns(5), functions, RULES, fill_in)
        rate = np.array([state.cost(g) for g in range(5)]) / price**power
        kept, _ = eliminate(
            trees, data, make_groups(price), Target(1, price.sum() - 0.5, power), functions, RULES, fill_in
        )
        assert np.setdiff1d(np.arange(5), kept).tolist() == [rate.argmin()]


@pytest.mark.parametrize("fill_in", [True, False])
@pytest.mark.parametrize("budget", [4, 2, 1])
def test_elimination_stops_at_the_budget_and_spares_what_is_always_selected(fill_in, budget):
    trees, data, functions = elimination_case(SquaredError(), 1)
    trees.W[1] *= 1e-3
    groups = make_groups(np.ones(5), always_selected=[1])
    kept, _ = eliminate(trees, data, groups, Target(1, budget), functions, RULES, fill_in)
    assert len(kept) == budget
    assert 1 in kept
    assert kept.tolist() == np.flatnonzero(trees.W.any(axis=1)).tolist()


@pytest.mark.parametrize("fill_in", [True, False])
@pytest.mark.parametrize(("budget", "n_left"), [(0.0, 4), (1.0, 4), (2.0, 2)])
def test_stage_ends_where_the_budget_is_reached_and_within_it_at_the_number_of_groups(fill_in, budget, n_left):
    """Four free groups and one that costs 2: once that is gone, nothing more has to go."""
    trees, data, functions = trained_case()
    target = Target(2, budget, power=1.0)
    kept, _ = eliminate(trees, data, make_groups([0, 0, 2, 0, 0]), target, functions, RULES, fill_in)
    assert len(kept) == n_left
    assert budget == 2 or kept.tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("fill_in", [True, False])
def test_constant_column_costs_nothing_and_goes_first(fill_in):
    trees, data, functions = trained_case(constant=2)
    assert Elimination(trees, data, single_columns(5), functions, RULES, fill_in).cost(2) == pytest.approx(0, abs=1e-3)
    kept, _ = eliminate(trees, data, make_groups(np.ones(5)), Target(4, 4.0), functions, RULES, fill_in)
    assert kept.tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("fill_in", [True, False])
@pytest.mark.parametrize("error", [0.75, 1.0, 1.25])
def test_old_costs_spare_measurements_and_change_nothing(fill_in, error, monkeypatch):
    def removed(old_costs):
        trees, data, functions = elimination_case(SquaredError(), 1)
        measured = []
        cost = Elimination.cost
        monkeypatch.setattr(Elimination, "cost", lambda state, g: measured.append(g) or cost(state, g))
        kept, costs = eliminate(
            trees, data, make_groups(np.ones(5)), Target(4, 4.0), functions, RULES, fill_in, old_costs
        )
        monkeypatch.undo()
        assert len(costs.rise) == len(kept) == 4
        return set(range(5)) - set(kept), measured

    trees, data, functions = elimination_case(SquaredError(), 1)
    state = Elimination(trees, data, single_columns(5), functions, RULES, fill_in)
    old_costs = Costs(error * np.array([state.cost(g) for g in range(5)]))
    gone, all_measured = removed(None)
    gone_with_old, measured = removed(old_costs)
    assert gone_with_old == gone
    assert len(measured) < len(all_measured) == 5


def first_removed(noise_costs, importance):
    """Which of five columns goes first, and what the removal of each costs."""
    trees, data, functions = trained_case()
    rules = replace(RULES, noise_costs=noise_costs)
    state = Elimination(trees, data, single_columns(5), functions, rules, fill_in=False)
    costs = np.array([state.cost(g) for g in range(5)])
    groups, target = make_groups(np.ones(5)), Target(4, 4.0)
    kept, _ = eliminate(trees, data, groups, target, functions, rules, False, None, np.array(importance))
    return int(np.setdiff1d(np.arange(5), kept)[0]), costs


def test_of_costs_that_may_be_noise_the_product_with_the_importance_decides():
    by_cost, costs = first_removed(0.0, np.zeros(5))
    assert by_cost == costs.argmin()
    importance = np.where(np.arange(5) == costs.argmin(), 100.0, 1.0)
    gone, _ = first_removed(4.0, importance)
    assert gone == (costs * importance).argmin() != by_cost


def test_costs_above_the_limit_count_alone():
    """The cheapest column is unimportant to the trees, but costs more than is expected of noise."""
    _, costs = first_removed(0.0, np.zeros(5))
    order = costs.argsort()
    importance = np.ones(5)
    importance[order[-1]] = 0.0
    assert first_removed(1e-9, importance)[0] == order[0]
    assert first_removed(4.0, importance)[0] == order[-1]


def test_limit_of_noise_is_learned_from_the_least_important_groups_and_stays():
    trees, data, functions = trained_case()
    state = Elimination(trees, data, single_columns(5), functions, RULES, fill_in=False)
    importance = np.array([0.1, 0.5, 0.2, 0.9, 0.8])
    expected = RULES.noise_costs * np.median([state.cost(0), state.cost(2)])
    groups, rules = make_groups(np.ones(5)), (functions, RULES, False)
    kept, costs = eliminate(trees, data, groups, Target(4, 4.0), *rules, None, importance)
    assert costs.limit == pytest.approx(expected, rel=1e-6)
    again = trees.select(kept), data._replace(X=np.ascontiguousarray(data.X[:, kept]))
    _, later = eliminate(*again, make_groups(np.ones(4)), Target(2, 4.0), *rules, costs, importance[kept])
    assert later.limit == costs.limit
