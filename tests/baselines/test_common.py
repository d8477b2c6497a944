"""What every system must do, whatever it is."""

import numpy as np
import pytest

from tests.baselines.helpers import (
    BOTH,
    CLASSIFIERS,
    CONSTANT,
    DETERMINISTIC,
    N_COLUMNS,
    fitted,
    new,
    output,
    small_table,
)

BUDGETS = [1, 2, 0.25, N_COLUMNS]
# What a system needs to see two columns among fifty, where the quick settings see too little.
ENOUGH = {
    "group_lasso_tree": {"n_strengths": 15, "max_epochs": 40, "max_depth": 3},
    "skinny_tree": {"n_strengths": 15, "max_epochs": 40, "max_depth": 3},
    "dense_soft_trees": {"n_estimators": 10, "max_epochs": 30, "max_depth": 2},
    "forest": {"n_estimators": 40},
    "rfe": {"n_estimators": 30, "step": 0.5},
    "permutation": {"n_estimators": 40},
    "boruta": {"n_estimators": 10, "n_search_trees": 30, "max_iter": 8},
    "controlburn": {"n_estimators": 10, "n_alphas": 50, "max_depth": 5, "max_trees": 20},
    "l1_path": {"n_penalties": 30},
    "lassonet": {"hidden": (10,), "lambdas": tuple(np.geomspace(100, 1500, 15)), "max_epochs": (100, 10)},
    "algnet": {"max_epochs": 200, "path_epochs": 20, "n_xi": 10},
    "dfs": {"n_repeats": 40, "n_steps": 2, "max_rounds": 4},
    "stg": {"max_epochs": 50},
    "deep_lasso": {"max_epochs": 50},
}


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_budget_is_met(name, kind):
    for budget in BUDGETS:
        model = fitted(name, kind, budget)
        allowed = budget if isinstance(budget, int) else int(budget * N_COLUMNS)
        assert 0 < model.n_features_selected_ <= allowed
        assert model.n_features_selected_ == model.support_.sum() == model.transform(small_table(kind)[0]).shape[1]


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_same_seed_gives_the_same_support_and_predictions(name, kind):
    X, y = small_table(kind)
    first, again = fitted(name, kind, 2), new(name, kind, 2).fit(X, y)
    np.testing.assert_array_equal(first.support_, again.support_)
    np.testing.assert_array_equal(output(first, X), output(again, X))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_permuted_columns_permute_the_support(name):
    X, y = small_table("classifier")
    order = np.random.default_rng(0).permutation(N_COLUMNS)
    first, permuted = fitted(name, "classifier", 2), new(name, budget=2).fit(X[:, order], y)
    if name in DETERMINISTIC:
        np.testing.assert_array_equal(permuted.support_, first.support_[order])
    else:
        assert abs(permuted.score(X[:, order], y) - first.score(X, y)) < 0.2


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_constant_column_is_never_selected(name, kind):
    for budget in BUDGETS:
        assert not fitted(name, kind, budget).support_[CONSTANT]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_two_columns_of_a_sum_are_found_among_fifty(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 50))
    y = np.sign(X[:, 0] + X[:, 1])
    model = new(name, budget=2, **ENOUGH.get(name, {})).fit(X, y)
    assert model.get_support(indices=True).tolist() == [0, 1]


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_budget_of_all_columns_is_no_restriction(name, kind):
    X, y = small_table(kind)
    whole, unrestricted = fitted(name, kind, N_COLUMNS), new(name, kind).fit(X, y)
    np.testing.assert_array_equal(whole.support_, unrestricted.support_)
    np.testing.assert_array_equal(output(whole, X), output(unrestricted, X))


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_fit_and_predict_do_not_change_their_input(name, kind):
    X, y = (array.copy() for array in small_table(kind))  # of which the helper's are read-only
    weight = np.ones(len(y)) if new(name, kind)._honours_weights else None
    kept = X.copy(), y.copy()
    model = new(name, kind, 2).fit(X, y, weight, X_val=X[:30], y_val=y[:30])
    output(model, X)
    np.testing.assert_array_equal(X, kept[0])
    np.testing.assert_array_equal(y, kept[1])


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_predictions_read_selected_columns_only(name, kind):
    X, _ = small_table(kind)
    model = fitted(name, kind, 2)
    other = np.where(model.support_, X, np.random.default_rng(1).normal(size=X.shape))
    np.testing.assert_array_equal(output(model, X), output(model, other))
