"""Budgets: in columns, in groups and in costs; which sizes are visited and which groups fit."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skinnytrees import SkinnyTreesRegressor
from skinnytrees.path.rules import PriceRules, SizeRules
from skinnytrees.path.targets import Target, falling_targets, keep_worthiest, price_powers

from .helpers import BOTH_PHASES, QUICK, make_groups, random_problem, with_rules

# Two epochs on few rows of few columns often explain nothing, and a budget is met all the same.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")

FEW_EXAMPLES = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@BOTH_PHASES
@FEW_EXAMPLES
@given(st.integers(0, 1000), st.integers(2, 8), st.data())
def test_budget_in_columns_is_met(rules, seed, n_features, data):
    X, y = random_problem(seed, n_features)
    budget = data.draw(st.integers(1, n_features))
    rule = data.draw(st.sampled_from(["best", "one_se", "full"]))
    model = with_rules(SkinnyTreesRegressor, rules)(budget, size_rule=rule, **QUICK).fit(X, y)
    assert 1 <= model.n_features_selected_ <= budget
    if rule == "full":
        assert model.n_features_selected_ == budget


@pytest.mark.parametrize(
    ("fraction", "n_features", "n_allowed"),
    [(0.5, 5, 2), (0.01, 5, 1), (1.0, 5, 5), (0.29, 100, 29), (0.3, 10, 3), (0.7, 10, 7)],
)
def test_budget_as_a_fraction_is_rounded_down_but_to_one_column_at_least(fraction, n_features, n_allowed):
    X, y = random_problem(0, n_features)
    assert SkinnyTreesRegressor(fraction, size_rule="full", **QUICK).fit(X, y).n_features_selected_ == n_allowed


def test_budget_of_one_column_and_of_all_columns_differ():
    X, y = random_problem(0, 6)
    assert SkinnyTreesRegressor(1, size_rule="full", **QUICK).fit(X, y).n_features_selected_ == 1
    assert SkinnyTreesRegressor(1.0, size_rule="full", **QUICK).fit(X, y).n_features_selected_ == 6
    assert SkinnyTreesRegressor(None, size_rule="full", **QUICK).fit(X, y).n_features_selected_ == 6


@BOTH_PHASES
@FEW_EXAMPLES
@given(st.integers(0, 1000), st.lists(st.integers(1, 5), min_size=2, max_size=7), st.data())
def test_budget_of_total_cost_is_met(rules, seed, costs, data):
    X, y = random_problem(seed, len(costs))
    budget = data.draw(st.integers(min(costs), sum(costs)))
    model = with_rules(SkinnyTreesRegressor, rules)(budget, feature_costs=costs, **QUICK).fit(X, y)
    assert 0 < np.sum(costs, where=model.support_) <= budget
    assert not any(np.array_equal(*pair) for pair in pairwise(model.path_.supports))
    assert np.array_equal(model.path_.supports[model.path_.chosen_index], model.get_support(indices=True))


@BOTH_PHASES
@FEW_EXAMPLES
@given(st.integers(0, 1000), st.lists(st.integers(0, 3), min_size=4, max_size=9), st.data())
def test_groups_are_taken_whole_and_within_the_budget(rules, seed, labels, data):
    X, y = random_problem(seed, len(labels))
    groups = [set(np.flatnonzero(np.array(labels) == label)) for label in set(labels)]
    budget = data.draw(st.integers(min(map(len, groups)), len(labels)))
    model = with_rules(SkinnyTreesRegressor, rules)(budget, feature_groups=labels, **QUICK).fit(X, y)
    assert 0 < model.n_features_selected_ <= budget
    for support in [model.get_support(indices=True), *model.path_.supports]:
        for group in groups:
            assert group <= set(support) or group.isdisjoint(support)


@BOTH_PHASES
@FEW_EXAMPLES
@given(st.integers(0, 1000), st.integers(3, 8), st.data())
def test_columns_that_must_be_in_are_in_and_those_of_infinite_cost_are_not(rules, seed, n_features, data):
    X, y = random_problem(seed, n_features)
    X[:, 0], y = 1e-3 * X[:, 0], y + 3 * X[:, 1]  # the first says little, the second a lot
    costs = np.ones(n_features)
    costs[1] = np.inf
    budget = data.draw(st.integers(1, n_features - 1))
    model = with_rules(SkinnyTreesRegressor, rules)(budget, always_select=[0], feature_costs=costs, **QUICK).fit(X, y)
    for support in [model.get_support(indices=True), *model.path_.supports]:
        assert 0 in support
        assert 1 not in support
    assert model.n_features_selected_ <= budget


@BOTH_PHASES
def test_wanted_budget_is_met_where_the_dearest_column_is_the_most_worth(rules):
    """At a cost of four the best single buy is the column of cost three, after which two cannot be reached by removal."""
    X, _ = random_problem(0, 3, n_rows=60)
    model = with_rules(SkinnyTreesRegressor, rules)(2, feature_costs=[3, 2, 2], **QUICK).fit(X, 5 * X[:, 0] + X[:, 1])
    assert model.get_support(indices=True).tolist() in ([1], [2])


@BOTH_PHASES
def test_small_group_is_found_where_a_large_one_is_worth_more(rules):
    X, _ = random_problem(0, 4, n_rows=60)
    model = with_rules(SkinnyTreesRegressor, rules)(1, feature_groups=[[0, 1, 2], [3]], **QUICK).fit(
        X, X[:, :3].sum(axis=1)
    )
    assert model.get_support(indices=True).tolist() == [3]


def test_costs_and_groups_by_name_are_those_by_number():
    import pandas as pd

    X, y = random_problem(1, 5)
    frame = pd.DataFrame(X, columns=list("abcde"))
    by_number = {"feature_costs": [3, 1, 1, 1, 2], "feature_groups": [[0, 4]], "always_select": [2]}
    by_name = {"feature_costs": {"a": 3, "e": 2}, "feature_groups": {"pair": ["a", "e"]}, "always_select": ["c"]}
    by_series = {**by_name, "feature_costs": pd.Series({"e": 2, "a": 3}), "feature_groups": list("pqrsp")}
    models = [
        SkinnyTreesRegressor(6, **QUICK, **by_number).fit(X, y),
        SkinnyTreesRegressor(6, **QUICK, **by_name).fit(frame, y),
        SkinnyTreesRegressor(6, **QUICK, **by_series).fit(frame, y),
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.model_.trees.flat, models[0].model_.trees.flat)
        np.testing.assert_array_equal(model.path_.cost, models[0].path_.cost)


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        (Target(1, 4.0, power=0.0), [0]),
        (Target(1, 7.5, power=0.0), [0, 2]),  # 0.5 is left, and no cheap group comes in for it
        (Target(3, 7.5, power=0.0), [0, 1, 2]),  # enough for one stage, though over the budget
        (Target(1, 5.5, power=1.0), [1, 2, 3]),  # for its price, group 0 is worth more than group 3, but does not fit
        (Target(1, 3.0, power=1.0), [1, 3]),
        (Target(2, 18.0, power=1.0), [0, 2]),  # within the budget the price does not count
    ],
)
def test_worthiest_groups_are_kept_and_the_price_counts_until_the_budget_is_met(target, kept):
    price, worth = [4, 1, 3, 1, 9], np.array([8, 4, 7, 1.5, 0])
    assert keep_worthiest(worth, make_groups(price), target).tolist() == kept


def test_what_is_always_selected_is_kept_first():
    groups = make_groups([5, 1, 3, 1, 2], always_selected=[2])
    assert keep_worthiest(np.zeros(5), groups, Target(1, 5.0, power=1.0)).tolist() == [1, 2, 3]
    assert keep_worthiest(np.arange(5.0)[::-1], groups, Target(1, 5.0)).tolist() == [2]


def test_free_groups_stay_until_the_budget_is_met_and_go_by_worth_from_there():
    groups = make_groups([0, 1, 0, 1])
    worth = np.array([0.0, 3, 2, 4])
    assert keep_worthiest(worth, groups, Target(1, 1.0, power=1.0)).tolist() == [0, 2, 3]
    assert keep_worthiest(worth, groups, Target(2, 2.0, power=1.0)).tolist() == [1, 3]


def test_prices_are_tried_in_several_powers_only_where_they_matter():
    rules = PriceRules(powers=(0.0, 0.5, 1.0))
    assert price_powers(make_groups([1, 2]), 2.0, rules) == (0.0, 0.5, 1.0)
    assert price_powers(make_groups([1, 2]), 3.0, rules) == (0.0,)
    assert price_powers(make_groups([2, 2]), 2.0, rules) == (0.0,)


def cheap_signal(seed):
    """Six cheap columns explain y together; the dear one is y with noise. All the cheap ones cost as much as the dear."""
    rng = np.random.default_rng(seed)
    cheap = rng.normal(size=(240, 6))
    y = cheap.sum(axis=1)
    return np.column_stack([y + 1.5 * rng.normal(size=240), cheap]), y, np.array([6.0, 1, 1, 1, 1, 1, 1])


@BOTH_PHASES
@pytest.mark.parametrize("dear_first", [True, False])
def test_many_cheap_features_are_not_missed(rules, dear_first):
    """The final ensemble is no worse on held-out rows than one on the cheapest columns that fit the budget."""
    X, y, costs = cheap_signal(0)
    if not dear_first:
        X, costs = X[:, ::-1], costs[::-1]
    held = np.arange(240) % 4 == 0
    cheap = costs == 1
    rows = {"X_val": X[held], "y_val": y[held]}
    model = with_rules(SkinnyTreesRegressor, rules)(6, feature_costs=costs, refit=False, random_state=0).fit(
        X[~held], y[~held], **rows
    )
    rows["X_val"] = X[held][:, cheap]
    baseline = with_rules(SkinnyTreesRegressor, rules)(refit=False, size_rule="full", random_state=0).fit(
        X[~held][:, cheap], y[~held], **rows
    )
    assert np.sum(costs, where=model.support_) <= 6
    assert model.score(X[held], y[held]) > baseline.score(X[held][:, cheap], y[held]) - 0.01


# ------------------------------------------------------------------------------------------------ sizes to visit


@given(
    st.lists(st.sampled_from([0, 0.37, 1, 2, 1000]), min_size=1, max_size=60),
    st.lists(st.integers(0, 59), max_size=3),
    st.floats(0, 1),
)
def test_sizes_fall_from_all_groups_to_the_least_possible_number(price, always_selected, where):
    groups = make_groups(price, always_selected)
    targets = falling_targets(groups, where * groups.price.sum(), SizeRules(), power=0.5)
    sizes = [target.n_groups for target in targets]
    assert sizes == sorted(set(sizes), reverse=True)
    assert sizes[0] == len(price)
    assert sizes[-1] == max(1, groups.always_selected.sum())
    assert {(target.budget, target.power) for target in targets} == {(where * groups.price.sum(), 0.5)}


@pytest.mark.parametrize("price", [1.0, 0.1, 3.0])
@pytest.mark.parametrize("n_wanted", [1, 3, 21, 40, 99])
def test_number_of_groups_that_the_budget_allows_is_visited_where_all_cost_the_same(price, n_wanted):
    targets = falling_targets(make_groups(np.full(100, price)), n_wanted * price, SizeRules())
    assert n_wanted in [target.n_groups for target in targets]


def test_equal_costs_of_any_amount_are_costs_of_one():
    X, y = random_problem(3, 8)
    one = SkinnyTreesRegressor(4, **QUICK).fit(X, y)
    for cost in (2, 0.1):
        other = SkinnyTreesRegressor(4 * cost, feature_costs=np.full(8, cost), **QUICK).fit(X, y)
        np.testing.assert_array_equal(other.model_.trees.flat, one.model_.trees.flat)


@pytest.mark.parametrize("n_groups", [1, 5, 16, 17, 100, 5000])
def test_every_size_is_visited_at_the_end_and_few_at_the_start(n_groups):
    targets = falling_targets(make_groups(np.ones(n_groups)), min(40, n_groups), SizeRules())
    sizes = np.array([target.n_groups for target in targets])
    assert set(range(1, min(16, n_groups) + 1)) <= set(sizes)
    assert min(40, n_groups) in sizes
    assert len(sizes) <= 40
    ratios = sizes[1:] / sizes[:-1]
    assert (ratios[(sizes[1:] >= 16) & (sizes[:-1] <= 1000)] > 0.7).all()
    assert (ratios[sizes[:-1] > 1000] == 0.5).all()


def test_of_many_groups_each_size_is_another_fraction_of_the_one_before():
    few_after = SizeRules(ratio=0.8, every_size_below=4, many_groups=100, ratio_of_many=0.25)
    sizes = [target.n_groups for target in falling_targets(make_groups(np.ones(1600)), 1, few_after)]
    assert sizes[:6] == [1600, 400, 100, 80, 64, 51]
    never = falling_targets(make_groups(np.ones(1600)), 1, SizeRules(ratio=0.8, many_groups=1600))
    assert [target.n_groups for target in never][:3] == [1600, 1280, 1024]


def test_rules_say_which_sizes_are_visited():
    groups = make_groups(np.ones(1000))
    coarse = falling_targets(groups, 1, SizeRules(ratio=0.5, every_size_below=4))
    assert [target.n_groups for target in coarse] == [1000, 500, 250, 125, 62, 31, 15, 7, 4, 3, 2, 1]
