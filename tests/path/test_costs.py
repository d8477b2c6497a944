"""Costs: cheap columns must contribute like dear ones; free columns; prices of groups; budgets that count groups."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor

from .helpers import BOTH_PHASES, QUICK, random_problem, with_rules


def test_useless_columns_are_not_selected_because_they_cost_next_to_nothing():
    """30 noise columns at 0.001 next to 30 real ones at 1; the price for the money left over must not bring them in."""
    X, y = load_breast_cancer(return_X_y=True)
    X = np.hstack([X, np.random.default_rng(0).normal(size=X.shape)])
    costs = np.repeat([1, 0.001], 30)

    def loss(**parameters):
        model = SkinnyTreesClassifier(
            5, max_epochs=10, n_estimators=20, validation_fraction=0.2, random_state=0, **parameters
        )
        folds = StratifiedKFold(2, shuffle=True, random_state=0)
        return log_loss(y, cross_val_predict(model, X, y, cv=folds, method="predict_proba"))

    model = SkinnyTreesClassifier(5, random_state=0, feature_costs=costs).fit(X, y)
    assert model.support_[30:].sum() <= 2
    assert model.support_[:30].sum() >= 3
    assert loss(feature_costs=costs) < loss() + 0.02


def cost_problem(seed, n_rows=240, n_new=1000):
    """Some real columns at prices around 1, and many useless ones that cost next to nothing or nothing."""
    rng = np.random.default_rng(seed)
    n_real, n_useless = rng.integers(4, 12), rng.integers(10, 30)
    X = rng.normal(size=(n_rows + n_new, n_real + n_useless))
    signal = X[:, :n_real] @ rng.exponential(size=n_real) + np.sin(2 * X[:, 0])
    y = signal + rng.uniform(0.1, 1) * signal.std() * rng.normal(size=len(X))
    costs = np.append(rng.uniform(0.5, 2, n_real), np.full(n_useless, rng.choice([0, 0.001, 0.02])))
    budget = rng.uniform(0.3, 1.1) * costs[:n_real].sum() + costs[n_real:].sum()
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], costs, budget, np.arange(len(costs)) < n_real


@BOTH_PHASES
def test_cheap_useless_columns_do_no_harm_on_new_rows(rules):
    """Never much worse than a fit that is not shown them, and no worse on average."""
    harm = []
    for seed in range(8):
        X, y, X_new, y_new, costs, budget, real = cost_problem(seed)
        model = with_rules(SkinnyTreesRegressor, rules)(
            budget, max_epochs=10, n_estimators=20, validation_fraction=0.2, random_state=0, feature_costs=costs
        )
        score = model.fit(X, y).score(X_new, y_new)
        assert costs[model.support_].sum() <= budget * (1 + 1e-9)
        model.set_params(feature_costs=costs[real], feature_budget=budget - costs[~real].sum())
        harm.append(model.fit(X[:, real], y).score(X_new[:, real], y_new) - score)
    assert max(harm) < 0.15
    assert np.mean(harm) < 0.03


@BOTH_PHASES
def test_useful_columns_are_selected_where_they_are_free(rules):
    X, y = random_problem(0, 6, n_rows=120)
    y = X[:, :3].sum(axis=1)
    costs = np.array([0, 0, 1, 1, 1, 0.0])
    model = with_rules(SkinnyTreesRegressor, rules)(1, max_epochs=10, feature_costs=costs, random_state=0).fit(X, y)
    assert model.support_[:3].all()
    assert not model.support_[3:5].any()


@BOTH_PHASES
@pytest.mark.parametrize("costs", [[0, 0, 0, 0], [0, 0, 0, 5], [0, np.inf, 1, 0], {0: 0}])
@pytest.mark.parametrize("budget", [0.5, 2, None])
def test_budget_is_met_also_with_free_columns(rules, costs, budget):
    X, y = random_problem(2, 4)
    model = with_rules(SkinnyTreesRegressor, rules)(budget, feature_costs=costs, **QUICK).fit(X, y)
    price = np.array([0, 1, 1, 1.0]) if isinstance(costs, dict) else np.array(costs, dtype=float)
    assert 0 <= price[model.support_].sum() <= (np.inf if budget is None else budget)
    assert model.n_features_selected_ >= 1
    assert np.isfinite(model.path_.cost).all()


# ------------------------------------------------------------------------------------------------ groups by name


def frame_problem():
    import pandas as pd

    X, y = random_problem(1, 5)
    return pd.DataFrame(X, columns=list("abcde")), y


def test_price_of_a_group_by_its_name_is_that_of_its_columns_together():
    X, y = frame_problem()
    groups = {"pair": ["a", "e"], "other": ["c"]}
    by_group = {"feature_costs": {"pair": 5, "b": 2, "other": 3}, "feature_groups": groups}
    by_column = {"feature_costs": {"a": 2, "e": 3, "b": 2, "c": 3}, "feature_groups": groups}
    one, two = (SkinnyTreesRegressor(6, **QUICK, **way).fit(X, y) for way in (by_group, by_column))
    np.testing.assert_array_equal(one.path_.cost, two.path_.cost)
    np.testing.assert_array_equal(one.model_.trees.flat, two.model_.trees.flat)


def test_group_of_infinite_price_is_never_selected_and_a_free_one_needs_no_budget():
    X, y = frame_problem()
    groups = {"never": ["a", "b"], "free": ["c", "d"]}
    model = SkinnyTreesRegressor(0.5, **QUICK, feature_costs={"never": np.inf, "free": 0}, feature_groups=groups)
    assert model.fit(X, y).get_feature_names_out().tolist() == ["c", "d"]


@pytest.mark.parametrize("cost", [1e-300, 1e300])
def test_prices_far_from_the_budget_do_not_stop_the_path(cost):
    X, y = random_problem(1, 5)
    model = SkinnyTreesRegressor(3.5 * max(cost, 1), **QUICK, feature_costs=np.full(5, cost)).fit(X, y)
    assert 1 <= model.n_features_selected_ <= (3 if cost > 1 else 5)


@pytest.mark.parametrize(
    ("costs", "groups", "words"),
    [
        ({"a": 2}, {"a": ["a", "b"]}, "'a', which is both a column of X and a group .* Give the group another name"),
        ({"lob": 2}, {"lab": ["a", "b"]}, r"'lob', which is neither a column .* Use one of \['lab'\]"),
        (
            {"lab": 2, "b": 1},
            {"lab": ["a", "b"]},
            "the group 'lab' and its column 'b', too. Price the group as a whole",
        ),
        ({"lab": -2}, {"lab": ["a", "b"]}, "feature_costs holds -2; costs must not be negative or missing. Use 0"),
        ({"lab": np.nan}, {"lab": ["a", "b"]}, "feature_costs holds nan"),
        ({"f": 2}, {"lab": ["a", "b"]}, r"Use one of \['lab', 'a', 'b'"),
        (
            [np.inf, 1, np.inf, 1, 1],
            {"one": ["a", "b"], "two": ["c", "d", "e"]},
            "Every group has a column of infinite cost.* Give all columns of some group finite costs",
        ),
        ({"lab": 2}, [["a", "b"]], "names the column 'lab', which X does not have"),
    ],
)
def test_price_that_cannot_be_meant_is_refused_with_advice(costs, groups, words):
    X, y = frame_problem()
    with pytest.raises(ValueError, match=words):
        SkinnyTreesRegressor(2, **QUICK, feature_costs=costs, feature_groups=groups).fit(X, y)


def test_misspelt_column_is_refused_with_the_nearest_names():
    X, y = frame_problem()
    X.columns = ["weight", "height", "age", "income", "rooms"]
    with pytest.raises(ValueError, match=r"'heigth', which X does not have. Use one of \['height', 'weight'\]"):
        SkinnyTreesRegressor(2, **QUICK, feature_costs={"heigth": 2}).fit(X, y)


# ------------------------------------------------------------------------------------------------ budgets that count groups


def month_problem():
    """Twelve 0/1 columns for a month that decides y, then ten columns of noise."""
    rng = np.random.default_rng(0)
    month = rng.integers(12, size=500)
    X = np.column_stack([np.eye(12)[month], rng.normal(size=(500, 10))])
    return X, (month % 2), {"month": list(range(12))}


def test_budget_that_counts_groups_has_room_for_a_group_of_many_columns():
    X, y, groups = month_problem()
    model = SkinnyTreesClassifier(5, feature_costs="groups", feature_groups=groups, random_state=0).fit(X, y)
    assert model.support_[:12].all()
    assert model.support_[12:].sum() <= 4
    assert model.score(X, y) > 0.99
    assert model.path_.cost[0] == 11


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")  # without the month
def test_budget_counts_columns_unless_told_otherwise():
    X, y, groups = month_problem()
    model = SkinnyTreesClassifier(5, feature_groups=groups, **QUICK).fit(X, y)
    assert not model.support_[:12].any()
    assert model.n_features_selected_ <= 5


def test_budget_as_a_fraction_of_the_groups():
    X, y, groups = month_problem()
    for fraction, n_groups in ((0.2, 2), (0.01, 1), (1.0, 11)):
        model = SkinnyTreesClassifier(
            fraction, size_rule="full", feature_costs="groups", feature_groups=groups, **QUICK
        ).fit(X, y)
        assert model.support_[0] + model.support_[12:].sum() == n_groups


def test_without_groups_a_budget_of_groups_is_one_of_columns():
    X, y = random_problem(0, 6)
    one, two = (SkinnyTreesRegressor(3, feature_costs=costs, **QUICK).fit(X, y) for costs in (None, "groups"))
    np.testing.assert_array_equal(one.model_.trees.flat, two.model_.trees.flat)


def test_more_groups_than_there_are_are_refused():
    X, y, groups = month_problem()
    with pytest.raises(
        ValueError, match=r"feature_budget=12 asks for more groups than X has \(11\). Use a number up to 11"
    ):
        SkinnyTreesClassifier(12, feature_costs="groups", feature_groups=groups, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match=r"'feature_costs' parameter.*'groups'"):
        SkinnyTreesClassifier(5, feature_costs="columns").fit(X, y)


def test_examples_of_the_documentation_run():
    page = (Path(__file__).parents[2] / "docs" / "costs.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 3
    names = {"print": lambda *values: None}
    selected = []
    for example in examples:
        exec(example, names)
        selected.append(np.flatnonzero(names["model"].support_).tolist())
    assert selected[0] == [0, 2, 3]
    assert set(selected[1]) >= {4, 5}
    assert selected[2][:12] == list(range(12))
