"""The path: budgets, groups and costs, the choice of a size, elimination, and what a user can ask of it afterwards."""

import contextlib
import functools
import itertools
from dataclasses import replace
from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import Ensemble, loss_and_gradient, predict, random_data, random_trees, single_columns
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, ShuffleSplit

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor, elimination, fitting
from skinnytrees import path as path_module
from skinnytrees.activations import Sigmoid
from skinnytrees.elimination import Elimination, eliminate
from skinnytrees.fitting import Walk
from skinnytrees.kernels.state import Data, start_trees
from skinnytrees.losses import Multinomial, SquaredError
from skinnytrees.optimizers import SGD, Adam, Constant, FixedSupportSGD
from skinnytrees.path import (
    Groups,
    Recipe,
    Trainer,
    choose_point,
    choose_size,
    falling_budgets,
    keep_worthiest,
    path_rules,
    screen,
)

mpl.use("Agg")

QUICK = {"max_epochs": 2, "n_estimators": 5, "random_state": 0}


@contextlib.contextmanager
def pruning_from(n_rows):
    """Let the second phase of the path begin with so few rows that tests are quick."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(path_module, "PRUNING_NEEDS_ROWS", n_rows)
        yield


BOTH_PHASES = pytest.mark.parametrize("prune", [False, True], ids=["screen", "prune"])


def phases(prune):
    return pruning_from(30 if prune else 10**9)


def random_problem(seed, n_features, n_rows=50):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, X @ rng.normal(size=n_features) + 0.1 * rng.normal(size=n_rows)


@functools.cache
def wine_model():
    return SkinnyTreesClassifier(5, random_state=0).fit(*load_wine(return_X_y=True))


@functools.cache
def pruned_model():
    """Enough rows for pruning all the way."""
    X, y = load_breast_cancer(return_X_y=True)
    return SkinnyTreesClassifier(5, max_epochs=3, random_state=0).fit(X[:, :12], y)


# ------------------------------------------------------------------------------------------------ budgets

FEW_EXAMPLES = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@BOTH_PHASES
@FEW_EXAMPLES
@given(st.integers(0, 1000), st.integers(2, 8), st.data())
def test_budget_in_columns_is_met(prune, seed, n_features, data):
    X, y = random_problem(seed, n_features)
    budget = data.draw(st.integers(1, n_features))
    rule = data.draw(st.sampled_from(["best", "one_se", "full"]))
    with phases(prune):
        model = SkinnyTreesRegressor(budget, size_rule=rule, **QUICK).fit(X, y)
    assert 1 <= model.n_features_selected_ <= budget
    if rule == "full":
        assert model.n_features_selected_ == budget


@pytest.mark.parametrize(
    ("share", "n_features", "n_allowed"),
    [(0.5, 5, 2), (0.01, 5, 1), (1.0, 5, 5), (0.29, 100, 29), (0.3, 10, 3), (0.7, 10, 7)],
)
def test_budget_as_a_share_is_rounded_down_but_to_one_column_at_least(share, n_features, n_allowed):
    X, y = random_problem(0, n_features)
    assert SkinnyTreesRegressor(share, size_rule="full", **QUICK).fit(X, y).n_features_selected_ == n_allowed


def test_budget_of_one_column_and_of_all_columns_differ():
    X, y = random_problem(0, 6)
    assert SkinnyTreesRegressor(1, size_rule="full", **QUICK).fit(X, y).n_features_selected_ == 1
    assert SkinnyTreesRegressor(1.0, size_rule="full", **QUICK).fit(X, y).n_features_selected_ == 6
    assert SkinnyTreesRegressor(None, size_rule="full", **QUICK).fit(X, y).n_features_selected_ == 6


@BOTH_PHASES
@FEW_EXAMPLES
@given(st.integers(0, 1000), st.lists(st.integers(1, 5), min_size=2, max_size=7), st.data())
def test_budget_of_total_cost_is_met(prune, seed, costs, data):
    X, y = random_problem(seed, len(costs))
    budget = data.draw(st.integers(min(costs), sum(costs)))
    with phases(prune):
        model = SkinnyTreesRegressor(budget, feature_costs=costs, **QUICK).fit(X, y)
    assert 0 < np.sum(costs, where=model.support_) <= budget
    assert not any(np.array_equal(*pair) for pair in pairwise(model.path_.supports))
    assert np.array_equal(model.path_.supports[model.path_.chosen], model.get_support(indices=True))


@BOTH_PHASES
@FEW_EXAMPLES
@given(st.integers(0, 1000), st.lists(st.integers(0, 3), min_size=4, max_size=9), st.data())
def test_groups_are_taken_whole_and_within_the_budget(prune, seed, labels, data):
    X, y = random_problem(seed, len(labels))
    groups = [set(np.flatnonzero(np.array(labels) == label)) for label in set(labels)]
    budget = data.draw(st.integers(min(map(len, groups)), len(labels)))
    with phases(prune):
        model = SkinnyTreesRegressor(budget, feature_groups=labels, **QUICK).fit(X, y)
    assert 0 < model.n_features_selected_ <= budget
    for support in [model.get_support(indices=True), *model.path_.supports]:
        for group in groups:
            assert group <= set(support) or group.isdisjoint(support)


@BOTH_PHASES
@FEW_EXAMPLES
@given(st.integers(0, 1000), st.integers(3, 8), st.data())
def test_columns_that_must_be_in_are_in_and_those_of_infinite_cost_are_not(prune, seed, n_features, data):
    X, y = random_problem(seed, n_features)
    X[:, 0], y = 1e-3 * X[:, 0], y + 3 * X[:, 1]  # the first says little, the second a lot
    costs = np.ones(n_features)
    costs[1] = np.inf
    budget = data.draw(st.integers(1, n_features - 1))
    with phases(prune):
        model = SkinnyTreesRegressor(budget, always_select=[0], feature_costs=costs, **QUICK).fit(X, y)
    for support in [model.get_support(indices=True), *model.path_.supports]:
        assert 0 in support
        assert 1 not in support
    assert model.n_features_selected_ <= budget


@BOTH_PHASES
def test_wanted_budget_is_met_where_the_dearest_column_is_the_most_worth(prune):
    """At a cost of four the best single buy is the column of cost three, after which two cannot be reached by removal."""
    X, _ = random_problem(0, 3, n_rows=60)
    with phases(prune):
        model = SkinnyTreesRegressor(2, feature_costs=[3, 2, 2], **QUICK).fit(X, 5 * X[:, 0] + X[:, 1])
    assert model.get_support(indices=True).tolist() in ([1], [2])


@BOTH_PHASES
def test_small_group_is_found_where_a_large_one_is_worth_more(prune):
    X, _ = random_problem(0, 4, n_rows=60)
    with phases(prune):
        model = SkinnyTreesRegressor(1, feature_groups=[[0, 1, 2], [3]], **QUICK).fit(X, X[:, :3].sum(axis=1))
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


def test_cheapest_groups_first_when_all_are_worth_the_same():
    groups = Groups(np.arange(6), np.array([5.0, 1, 3, 1, 2]), np.zeros(5, dtype=bool))
    assert keep_worthiest(np.zeros(5), groups, 5).tolist() == [1, 3, 4]
    fixed = groups._replace(fixed=np.arange(5) == 2)
    assert keep_worthiest(np.zeros(5), fixed, 5).tolist() == [1, 2, 3]


def cheap_signal(seed):
    """Six cheap columns explain y together; the dear one is y with noise. All the cheap ones cost as much as the dear."""
    rng = np.random.default_rng(seed)
    cheap = rng.normal(size=(240, 6))
    y = cheap.sum(axis=1)
    return np.column_stack([y + 1.5 * rng.normal(size=240), cheap]), y, np.array([6.0, 1, 1, 1, 1, 1, 1])


@BOTH_PHASES
@pytest.mark.parametrize("dear_first", [True, False])
def test_many_cheap_features_are_not_missed(prune, dear_first):
    """The final ensemble is no worse on held-out rows than one on the cheapest columns that fit the budget."""
    X, y, costs = cheap_signal(0)
    if not dear_first:
        X, costs = X[:, ::-1], costs[::-1]
    held = np.arange(240) % 4 == 0
    cheap = costs == 1
    rows = {"X_val": X[held], "y_val": y[held]}
    with phases(prune):
        model = SkinnyTreesRegressor(6, feature_costs=costs, refit=False, random_state=0).fit(
            X[~held], y[~held], **rows
        )
        rows["X_val"] = X[held][:, cheap]
        baseline = SkinnyTreesRegressor(refit=False, size_rule="full", random_state=0).fit(
            X[~held][:, cheap], y[~held], **rows
        )
    assert np.sum(costs, where=model.support_) <= 6
    assert model.score(X[held], y[held]) > baseline.score(X[held][:, cheap], y[held]) - 0.01


@pytest.mark.parametrize("seed", [0, 1])
def test_path_and_model_agree_also_when_the_cheapest_columns_win(seed):
    """The final ensemble is tried on the cheapest columns, too, which need not be a point of the path."""
    X, y, costs = cheap_signal(seed)
    X, costs = X[:100, ::-1], costs[::-1]
    model = SkinnyTreesRegressor(6, feature_costs=costs, random_state=0).fit(X, y[:100])
    for n in range(1, 8):
        assert model.at(n).n_features_selected_ <= n
    np.testing.assert_array_equal(model.path_.supports[model.path_.chosen], model.get_support(indices=True))


# ------------------------------------------------------------------------------------------------ budgets to visit


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=60),
    st.lists(st.integers(0, 59), max_size=3),
    st.floats(0, 1),
    st.sampled_from([1.0, 0.37]),
)
def test_budgets_fall_from_the_total_over_the_wanted_one_to_the_least(price, fixed, where, unit):
    price = unit * np.array(price)
    groups = Groups(np.arange(len(price) + 1), price, np.isin(np.arange(len(price)), fixed))
    least = max(price.min(), price[groups.fixed].sum())
    wanted = least + where * (price.sum() - least)
    budgets = falling_budgets(groups, wanted)
    assert np.all(np.diff(budgets) < 0)
    assert budgets[0] == pytest.approx(price.sum())
    assert budgets[-1] == pytest.approx(least)
    assert np.isclose(budgets, wanted).any()


@pytest.mark.parametrize("n_groups", [1, 5, 16, 17, 100, 5000])
def test_every_size_is_visited_at_the_end_and_few_at_the_start(n_groups):
    groups = Groups(np.arange(n_groups + 1), np.ones(n_groups), np.zeros(n_groups, dtype=bool))
    budgets = falling_budgets(groups, min(40, n_groups))
    assert set(range(1, min(16, n_groups) + 1)) <= set(budgets)
    assert min(40, n_groups) in budgets
    assert len(budgets) <= 40
    ratios = budgets[1:] / budgets[:-1]
    assert (ratios[budgets[1:] >= 16] > 0.7).all()


# ------------------------------------------------------------------------------------------------ choosing a size


def test_clear_winner_is_chosen_by_every_rule_but_full():
    losses = np.array([[1.0, 1, 1, 1], [0, 0, 0, 0], [2, 2, 2, 2]])
    assert [choose_point(losses, np.ones(4), rule) for rule in ("best", "one_se", "full")] == [1, 1, 0]


@pytest.mark.parametrize("share_of_noise", [0.9, 1.1])
def test_differences_within_the_noise_keep_the_larger_size_or_the_smaller_one(share_of_noise):
    """Excess over the best of standard error 0.1 on both sides of it: rows of deviation 0.2, four of them."""
    spread = 0.2 * np.array([1, -1, 1, -1])
    near = 0.1 * share_of_noise
    losses = np.array([spread + path_module.NOISE * near, np.zeros(4), spread + near])
    within = share_of_noise < 1
    assert choose_point(losses, np.ones(4), "best") == (0 if within else 1)
    assert choose_point(losses, np.ones(4), "one_se") == (2 if within else 1)
    assert choose_point(losses, np.ones(4), "full") == 0


def test_equal_losses_keep_the_largest_or_the_smallest_size():
    losses = np.ones((5, 7))
    assert [choose_point(losses, np.ones(7), rule) for rule in ("best", "one_se", "full")] == [0, 4, 0]


def test_noise_is_that_of_paired_differences():
    """Rows that are hard for every size do not hide a difference that all rows agree on."""
    hard = np.array([0.0, 100, 3, 50])
    losses = np.array([hard + 0.01, hard, hard + 0.02])
    assert choose_point(losses, np.ones(4), "best") == 1


def test_one_se_is_the_smallest_size_within_the_standard_error_of_the_best():
    best = np.array([0.0, 4, 0, 4])  # deviation 2, standard error 1
    losses = np.array([best + 0.5, best, best + 0.9, best + 1.1])
    assert choose_point(losses, np.ones(4), "one_se") == 2


def losses_of_two_sizes(excess_in_noise):
    """Losses of a large and a small size, of which the large one is worse by so many standard errors."""
    noise = np.random.default_rng(0).standard_normal(400)
    noise = (noise - noise.mean()) / noise.std() / 20  # one standard error is 1/400
    return np.stack([np.ones(400) + noise + excess_in_noise / 400, np.ones(400)])


@pytest.mark.parametrize(
    ("excess", "rankings", "chosen"),
    [
        (0.9, [0.6, 0.9], 0),  # within the noise: nobody is asked
        (1.5, [0.9, 0.9], 0),
        (1.5, [0.8, 0.9], 1),
        (1.5, [np.nan, np.nan], 1),  # nobody knows
        (2.1, [0.9, 0.6], 1),  # clearly worse: nobody is asked
    ],
)
def test_ranking_decides_where_the_loss_is_in_doubt(excess, rankings, chosen):
    losses = losses_of_two_sizes(excess)
    assert choose_size(losses, np.ones(400), "best", rankings.__getitem__) == chosen


def test_second_opinion_is_for_the_best_size_only():
    losses, rankings = losses_of_two_sizes(1.5), [1.0, 0.5]
    for rule in ("one_se", "full"):
        expected = choose_point(losses, np.ones(400), rule)
        assert choose_size(losses, np.ones(400), rule, rankings.__getitem__) == expected


def test_of_several_sizes_that_rank_well_enough_the_largest_is_taken():
    small = losses_of_two_sizes(1.5)
    losses = np.stack([small[0], small[0], small[0], small[1]])
    assert choose_size(losses, np.ones(400), "best", [0.8, 0.95, 0.99, 0.9].__getitem__) == 1


@BOTH_PHASES
def test_fit_asks_for_the_ranking_of_held_out_rows(prune, monkeypatch):
    """Where all is in doubt and larger sizes rank better, the budget is filled; where they rank worse, the loss decides."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 12))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)

    def size(doubt, ranking):
        monkeypatch.setattr(path_module, "DOUBT", doubt)
        monkeypatch.setattr(Trainer, "ranking", lambda trainer, trees, data: ranking(data.X.shape[1]))
        with phases(prune):
            return SkinnyTreesClassifier(10, random_state=0, refit=False).fit(X, y).n_features_selected_

    by_loss = size(0.0, float)
    assert by_loss < 10
    assert size(1e9, float) == 10
    assert size(1e9, lambda n: -float(n)) == by_loss


def test_rows_without_weight_have_no_say():
    losses = np.array([[0.0, 0, 9, 9], [1, 1, 0, 0]])
    assert choose_point(losses, np.array([1.0, 1, 0, 0]), "one_se") == 0
    assert choose_point(losses, np.array([0.0, 0, 1, 1]), "best") == 1


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 20))
def test_one_se_is_never_larger_than_the_minimum_and_best_never_smaller(seed, n_points, n_rows):
    rng = np.random.default_rng(seed)
    losses, weight = rng.exponential(size=(n_points, n_rows)), rng.uniform(0.1, 2, n_rows)
    full, best, one_se = (choose_point(losses, weight, rule) for rule in ("full", "best", "one_se"))
    assert 0 == full <= best <= np.argmin(losses @ weight) <= one_se < n_points


def test_sizes_are_ordered_by_their_rule():
    X, y = load_wine(return_X_y=True)
    sizes = [
        SkinnyTreesClassifier(9, size_rule=rule, max_epochs=3, random_state=0).fit(X, y).n_features_selected_
        for rule in ("one_se", "best", "full")
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2] == 9


# ------------------------------------------------------------------------------------------------ what the path tells


@pytest.mark.parametrize("make", [wine_model, pruned_model])
def test_what_the_path_tells_is_consistent(make):
    model = make()
    path = model.path_
    n = len(path)
    assert path.n_features[0] == model.n_features_in_
    assert path.n_features[-1] == 1
    assert (np.diff(path.n_features) <= 0).all()
    assert set(range(1, 13)) <= set(path.n_features), "every size from 16 down is visited"
    assert [len(support) for support in path.supports] == path.n_features.tolist()
    np.testing.assert_array_equal(path.cost, path.n_features)
    assert {len(getattr(path, name)) for name in ("val_score", "val_score_se", "train_loss", "models")} == {n}
    for support, inside in zip(path.supports, path.models, strict=True):
        assert set(inside.encoder.feature) == set(support)
    assert path.n_features[path.chosen] <= 5
    np.testing.assert_array_equal(path.supports[path.chosen], model.get_support(indices=True))
    assert np.isfinite(path.val_score).all()
    assert (path.val_score <= 1).all()
    assert (path.val_score_se > 0).all()
    assert path.val_score[path.chosen] > 0.5


def test_supports_of_a_pruned_path_are_nested():
    for larger, smaller in pairwise(pruned_model().path_.supports):
        assert set(smaller) <= set(larger)


def test_frame_of_the_path_has_one_row_a_size():
    path = wine_model().path_
    frame = path.to_frame()
    assert frame.columns.tolist() == ["n_features", "val_score", "val_score_se", "train_loss", "cost"]
    assert len(frame) == len(path)
    for name in frame:
        np.testing.assert_array_equal(frame[name], getattr(path, name))


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


def test_training_loss_rises_as_features_go():
    """On three columns that all matter."""
    X, y = random_problem(0, 3, n_rows=200)
    y = X.sum(axis=1)
    path = SkinnyTreesRegressor(**QUICK).fit(X, y).path_
    assert np.all(np.diff(path.train_loss) > 0)


# ------------------------------------------------------------------------------------------------ at


@pytest.mark.parametrize("n_features", [1, 3, 5, 12, 1000])
@pytest.mark.parametrize("make", [wine_model, pruned_model])
def test_model_at_another_size_is_that_of_the_path(make, n_features, monkeypatch):
    model = make()

    def refuse(*args, **kwargs):
        raise AssertionError("at() trained")

    monkeypatch.setattr(Trainer, "train", refuse)
    monkeypatch.setattr(Trainer, "start", refuse)
    before = model.model_
    smaller = model.at(n_features)
    entry = next(i for i, size in enumerate(model.path_.n_features) if size <= n_features)
    expected = model.model_ if entry == model.path_.chosen else model.path_.models[entry]
    assert smaller.model_ is expected
    assert smaller.n_features_selected_ == model.path_.n_features[entry] <= n_features
    np.testing.assert_array_equal(smaller.get_support(indices=True), model.path_.supports[entry])
    assert smaller.feature_importances_.sum() == pytest.approx(1)
    assert model.model_ is before, "the model itself stays as it is"
    assert smaller.get_params() == model.get_params()


def test_model_at_another_size_predicts_and_transforms():
    X, y = load_wine(return_X_y=True)
    smaller = wine_model().at(2)
    assert smaller.predict_proba(X).shape == (len(X), 3)
    assert smaller.score(X, y) > 0.6
    np.testing.assert_array_equal(smaller.transform(X), X[:, smaller.support_])
    assert smaller.transform(X).shape[1] == 2
    assert smaller.at(5).n_features_selected_ == wine_model().at(5).n_features_selected_


def test_entries_of_the_path_are_in_the_unit_of_the_target():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:200], 1e6 + 1e4 * y[:200]
    model = SkinnyTreesRegressor(random_state=0).fit(X, y)
    for n in (2, 5, 10):
        assert model.at(n).score(X, y) > 0.2


# ------------------------------------------------------------------------------------------------ pictures


def test_plot_shows_the_curve_and_the_chosen_size():
    path = wine_model().path_
    ax = path.plot()
    assert "number of features" in ax.get_xlabel()
    assert "validation score" in ax.get_ylabel()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    chosen = path.n_features[path.chosen]
    assert any(f"{chosen} features" in label for label in labels)
    assert any("standard error" in label for label in labels)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), path.n_features)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), path.val_score)
    ax.figure.canvas.draw()
    plt.close(ax.figure)


def test_plot_without_held_out_rows_shows_the_training_loss_on_the_given_axes():
    X, y = random_problem(0, 4)
    path = SkinnyTreesRegressor(validation_fraction=None, **QUICK).fit(X, y).path_
    figure, ax = plt.subplots()
    assert path.plot(ax) is ax
    assert ax.get_ylabel() == "training loss"
    figure.canvas.draw()
    plt.close(figure)


# ------------------------------------------------------------------------------------------------ folds


@BOTH_PHASES
def test_folds_choose_the_size_and_all_rows_train_the_model(prune):
    X, y = random_problem(3, 6, n_rows=90)
    y = X[:, 0] - X[:, 4]
    with phases(prune):
        model = SkinnyTreesRegressor(3, cv=3, random_state=0).fit(X, y)
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


# ------------------------------------------------------------------------------------------------ interrupts


@BOTH_PHASES
@pytest.mark.parametrize("share_done", [0, 0.3, 0.6, 1])
def test_interrupted_path_meets_the_budget(prune, share_done):
    """Ctrl-C early and late, in either way of pruning, with costs, a fixed column and groups."""
    X, y = random_problem(6, 8)
    costs = np.array([1, 2, 1, 3, 1, 1, 2, 4])
    demands = {"feature_costs": costs, "feature_groups": [[0, 2]], "always_select": [6]}
    reports = []

    def interrupt(report):
        reports.append(report)
        if len(reports) == 1 + round(share_done * (n_reports - 1)):
            raise KeyboardInterrupt

    with phases(prune):
        whole = SkinnyTreesRegressor(7, **demands, callbacks=[reports.append], **QUICK).fit(X, y)
        n_reports = len(reports)
        reports.clear()
        with pytest.warns(UserWarning, match="interrupted"):
            cut = SkinnyTreesRegressor(7, **demands, callbacks=[interrupt], **QUICK).fit(X, y)
    for model in (whole, cut):
        assert costs[model.support_].sum() <= 7
        assert model.support_[6]
        assert model.support_[0] == model.support_[2]
        assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(("refit", "message"), [(False, "final ensemble"), (True, "final ensemble"), (True, "refit")])
def test_interrupt_after_the_walk_keeps_what_there_is(refit, message, monkeypatch):
    X, y = random_problem(6, 8)
    model = SkinnyTreesRegressor(4, refit=refit, **QUICK)
    whole = clone(model).fit(X, y)
    finish = Walk.finish

    def interrupt(*arguments):
        raise KeyboardInterrupt

    def finish_and_then(walk, *arguments):
        if message == "refit":
            final = finish(walk, *arguments)
        monkeypatch.setattr(Trainer, "start_each", interrupt)
        return final if message == "refit" else finish(walk, *arguments)

    monkeypatch.setattr(Walk, "finish", finish_and_then)
    with pytest.warns(UserWarning, match=f"{message} was interrupted"):
        cut = clone(model).fit(X, y)
    np.testing.assert_array_equal(cut.support_, whole.support_)
    assert np.isfinite(cut.predict(X)).all()
    assert cut.path_.n_features.tolist() == whole.path_.n_features.tolist()


# ------------------------------------------------------------------------------------------------ screening


def test_screening_finds_the_columns_that_carry_the_signal():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 1000))
    y = (X[:, 7] + X[:, 500] - X[:, 901] > 0).astype(int)
    model = SkinnyTreesClassifier(6, random_state=0, max_epochs=5).fit(X, y)
    assert {7, 500, 901} <= set(model.get_support(indices=True))


def test_screening_gives_one_point_a_budget_and_keeps_what_is_fixed():
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 60, 20, 1, rng, np.float32)
    data = data._replace(Y=data.X[:, :1].copy())
    groups = Groups(single_columns(20), np.ones(20), np.arange(20) == 13)
    budgets = falling_budgets(groups, 4)
    points = list(screen(data, groups, 1, budgets, Trainer(SquaredError(), Sigmoid()), path_rules(60), rng))
    assert [len(point.groups) for point in points] == budgets.tolist()
    for point in points:
        assert 13 in point.groups
        assert len(point.groups) == 1 or 0 in point.groups
        assert point.trees.W.shape[0] == len(point.groups)
        assert np.isfinite(point.train_loss)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_training_in_sample_space_is_training_in_feature_space(kind, monkeypatch):
    monkeypatch.setattr("skinnytrees.runs._WIDE", np.inf)  # SGD stays in feature space
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 80)) * (rng.random((30, 80)) < 0.3)
    data = Data(X.astype(np.float32), X[:, :1].astype(np.float32), np.ones(30, dtype=np.float32))
    start = start_trees(80, 4, 2, 1, rng)
    trainer = Trainer(SquaredError(), Sigmoid())
    results = []
    for optimizer in (SGD(), FixedSupportSGD()):
        recipe = Recipe(4, 2, 0.1, 0.1, 5, 8, optimizer, Constant())
        table = data.X if isinstance(optimizer, SGD) or kind == "dense" else sparse.csr_array(data.X)
        trees = start.copy()
        loss = trainer.train(trees, data._replace(X=table), recipe, np.random.default_rng(1))
        results.append((loss, trees.flat))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-4, atol=1e-5)


def test_rate_that_overflows_is_cut_until_the_path_arrives():
    X, y = random_problem(0, 4, n_rows=60)
    model = SkinnyTreesRegressor(learning_rate=1e8, max_epochs=3, n_estimators=5, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


# ------------------------------------------------------------------------------------------------ elimination


def elimination_case(loss, n_outputs, n_columns=5, n_rows=80, seed=0):
    rng = np.random.default_rng(seed)
    trees = random_trees(n_columns, n_outputs, rng, dtype=np.float32)
    data = random_data(loss, n_rows, n_columns, n_outputs, rng, np.float32)
    mixing = np.eye(n_columns) + 0.4 * rng.normal(size=(n_columns, n_columns))
    return trees, data._replace(X=(data.X @ mixing + 0.3).astype(np.float32)), Trainer(loss, Sigmoid()).functions


def summed_loss(trees, data, loss, X):
    outputs = predict(Ensemble.of(trees), X, Sigmoid())
    return float(data.weight.astype(float) @ loss_and_gradient(loss, outputs, data.Y)[0])


def filled_in(X, present, gone):
    """Columns that are gone, predicted from those that are present by ridge regression; zeros for other columns."""
    centred = X.astype(float) - X.mean(axis=0, dtype=float)
    covariance = centred.T @ centred / len(X)
    ridge = np.diag(elimination._RIDGE * np.diagonal(covariance))
    B = np.linalg.solve((covariance + ridge)[np.ix_(present, present)], covariance[np.ix_(present, gone)])
    return X.mean(axis=0, dtype=float)[gone] + centred[:, present] @ B


LOSSES = pytest.mark.parametrize(("loss", "n_outputs"), [(SquaredError(), 2), (Multinomial(), 3)])
GROUPS = pytest.mark.parametrize("offsets", [single_columns(5), np.array([0, 2, 3, 5])], ids=["columns", "groups"])


@LOSSES
@GROUPS
def test_plain_cost_is_the_rise_of_the_loss_when_a_group_is_at_its_mean(loss, n_outputs, offsets):
    trees, data, functions = elimination_case(loss, n_outputs)
    state = Elimination(trees, data, offsets, functions, fill_in=False)
    whole = summed_loss(trees, data, loss, data.X)
    for g, (first, end) in enumerate(pairwise(offsets)):
        without = data.X.copy()
        without[:, first:end] = data.X[:, first:end].mean(axis=0)
        assert state.cost(g) == pytest.approx(summed_loss(trees, data, loss, without) - whole, abs=1e-3)


@LOSSES
@GROUPS
def test_filled_in_cost_is_the_rise_of_the_loss_with_the_others_predicting_the_group(loss, n_outputs, offsets):
    trees, data, functions = elimination_case(loss, n_outputs)
    state = Elimination(trees, data, offsets, functions, fill_in=True)
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
    state = Elimination(trees, data, offsets, functions, fill_in)
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
    state = Elimination(trees, data, single_columns(5), functions, fill_in=True)
    state.remove(2, state.cost(2))
    replaced = data.X.copy()
    replaced[:, [4]] = filled_in(data.X, np.array([0, 1, 3]), np.array([4]))
    cost = summed_loss(trees, data, loss, replaced) - summed_loss(trees, data, loss, data.X)
    assert state.cost(4) == pytest.approx(cost, abs=2e-3)


def test_column_that_others_make_up_for_exactly_goes_without_a_trace(monkeypatch):
    monkeypatch.setattr(elimination, "_RIDGE", 1e-7)
    trees, data, functions = elimination_case(SquaredError(), 1)
    data.X[:, 3] = 2 * data.X[:, 0] - data.X[:, 1] + 0.5
    state = Elimination(trees, data, single_columns(5), functions, fill_in=True)
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
    trainer = Trainer(SquaredError(), Sigmoid())
    trees, loss = trainer.start(data, 1, Recipe(10, 2, 0.05, 0.1, 30, 20, Adam(), Constant()), rng)
    assert loss < 0.5
    return trees, data, trainer.functions


@pytest.mark.parametrize("twins", [(0, 1), (2, 4)])
def test_of_two_equal_columns_one_goes_first_and_at_no_cost(twins):
    trees, data, functions = trained_case(twins)
    state = Elimination(trees, data, single_columns(5), functions, fill_in=True)
    plain = Elimination(trees, data, single_columns(5), functions, fill_in=False)
    costs, plain_costs = (np.array([one.cost(g) for g in range(5)]) for one in (state, plain))
    others = np.delete(costs, twins)
    assert np.abs(costs[list(twins)]).max() < 0.02 * others.min()
    assert plain_costs[list(twins)].min() > 0.2 * others.min(), "without filling in, either looks dear"
    kept, _ = eliminate(trees, data, single_columns(5), np.ones(5), np.zeros(5, dtype=bool), 4, functions, True)
    assert len(kept) == 4
    assert len(set(twins) & set(kept)) == 1
    loss = summed_loss(trees, data, SquaredError(), data.X)
    assert loss == pytest.approx(state.loss, abs=0.02 * others.min())


@pytest.mark.parametrize("fill_in", [True, False])
def test_first_to_go_is_the_group_that_costs_least_for_its_price(fill_in):
    price = np.array([1.0, 2, 5, 1, 3])
    for seed in range(5):
        trees, data, functions = elimination_case(SquaredError(), 1, seed=seed)
        state = Elimination(trees.copy(), data, single_columns(5), functions, fill_in)
        rate = np.array([state.cost(g) for g in range(5)]) / price
        kept, _ = eliminate(
            trees, data, single_columns(5), price, np.zeros(5, dtype=bool), price.sum() - 0.5, functions, fill_in
        )
        assert np.setdiff1d(np.arange(5), kept).tolist() == [rate.argmin()]


@pytest.mark.parametrize("fill_in", [True, False])
@pytest.mark.parametrize("budget", [5, 4, 2, 1])
def test_elimination_stops_at_the_budget_and_spares_what_is_fixed(fill_in, budget):
    trees, data, functions = elimination_case(SquaredError(), 1)
    trees.W[1] *= 1e-3
    fixed = np.arange(5) == 1
    kept, _ = eliminate(trees, data, single_columns(5), np.ones(5), fixed, budget, functions, fill_in)
    assert len(kept) == budget
    assert 1 in kept
    assert kept.tolist() == np.flatnonzero(trees.W.any(axis=1)).tolist()


@pytest.mark.parametrize("fill_in", [True, False])
def test_constant_column_costs_nothing_and_goes_first(fill_in):
    trees, data, functions = trained_case(constant=2)
    assert Elimination(trees, data, single_columns(5), functions, fill_in).cost(2) == pytest.approx(0, abs=1e-3)
    kept, _ = eliminate(trees, data, single_columns(5), np.ones(5), np.zeros(5, dtype=bool), 4, functions, fill_in)
    assert kept.tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("fill_in", [True, False])
@pytest.mark.parametrize("error", [0.75, 1.0, 1.25])
def test_old_costs_spare_measurements_and_change_nothing(fill_in, error, monkeypatch):
    def removed(old_costs):
        trees, data, functions = elimination_case(SquaredError(), 1)
        measured = []
        cost = Elimination.cost
        monkeypatch.setattr(Elimination, "cost", lambda state, g: measured.append(g) or cost(state, g))
        price, fixed = np.ones(5), np.zeros(5, dtype=bool)
        kept, costs = eliminate(trees, data, single_columns(5), price, fixed, 4, functions, fill_in, old_costs)
        monkeypatch.undo()
        assert len(costs) == len(kept) == 4
        return set(range(5)) - set(kept), measured

    trees, data, functions = elimination_case(SquaredError(), 1)
    state = Elimination(trees, data, single_columns(5), functions, fill_in)
    old_costs = error * np.array([state.cost(g) for g in range(5)])
    gone, all_measured = removed(None)
    gone_with_old, measured = removed(old_costs)
    assert gone_with_old == gone
    assert len(measured) < len(all_measured) == 5


# ------------------------------------------------------------------------------------------------ starts


@pytest.mark.parametrize("cv", [None, 3])
def test_few_rows_take_the_best_of_several_starts(cv, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 40)), rng.normal(size=90)
    candidates, one_candidate = [], Walk._candidate
    monkeypatch.setattr(Walk, "_candidate", lambda *of: candidates.append(one_candidate(*of)) or candidates[-1])
    model = SkinnyTreesRegressor(5, size_rule="full", cv=cv, **QUICK).fit(X, y)
    assert len(candidates) == fitting.N_STARTS
    assert len({tuple(one.support) for one in candidates}) > 1, "nothing to choose from"
    if cv:
        # No rows are held out from the walks themselves, and a start's number means nothing from fold to fold.
        assert len({one.path_losses()[0] for one in candidates}) == 1
        best = min(candidates, key=lambda one: one.path_losses()[1])
    else:
        losses = np.array([one.losses[one.chosen] for one in candidates])
        best = candidates[choose_point(losses, candidates[0].weight, "best")]
    np.testing.assert_array_equal(np.flatnonzero(model.support_), best.support)


def test_start_that_is_clearly_better_is_taken_and_the_first_of_equals():
    X, y = random_problem(0, 6, n_rows=60)
    walks, go = [], Walk.go
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Walk, "go", lambda walk, rng: walks.append(walk) or go(walk, rng))
        SkinnyTreesRegressor(3, **QUICK).fit(X, y)
    walk = walks[0]
    candidates = [walk._candidate(i, None) for i in range(4)]
    n_rows = len(candidates[0].weight)
    rng = np.random.default_rng(0)

    def with_losses(means):
        return [
            one._replace(losses=[mean + rng.normal(size=n_rows)] * len(one.losses))
            for one, mean in zip(candidates, means, strict=True)
        ]

    for means, expected in [((99, 99, 1, 99), 2), ((99, 99, 99, 1), 3)]:
        made = with_losses(means)
        assert walk._best_fork(made) is made[expected]
    alike = [one._replace(losses=[np.ones(n_rows)] * len(one.losses)) for one in candidates]
    assert walk._best_fork(alike) is alike[0]


# ------------------------------------------------------------------------------------------------ recipes


def test_users_choices_reach_the_final_ensemble():
    X, y = random_problem(0, 4, n_rows=60)
    model = SkinnyTreesRegressor(n_estimators=7, max_depth=3, max_epochs=2, random_state=0).fit(X, y)
    n_trees = model.model_.trees.n_trees
    assert n_trees in (14, 28), "the mean of two or four ensembles of seven"
    assert model.model_.trees.W.shape[1] == 7 * n_trees, "seven splits at depth three"
    rules = path_rules(100, n_trees=7, depth=3, learning_rate=0.5, n_epochs=2, batch_size=9, l2=0.7)
    blends = rules.final(100, 4)
    assert len(blends) == 2, "with rate and ridge chosen, there is one large ensemble beside the averaged ones"
    for recipe in itertools.chain(*blends):
        chosen = (recipe.n_trees, recipe.depth, recipe.learning_rate, recipe.n_epochs, recipe.batch_size, recipe.l2)
        assert chosen == (7, 3, 0.5, 2, 9, 0.7)


def test_large_ensembles_are_calmer_where_there_are_more_columns():
    few, many = (path_rules(5000).final(5000, n_columns) for n_columns in (8, 160))
    for blends in (few, many):
        both, (free,), (calm,) = blends
        assert both == (free, calm)
        assert free.learning_rate >= calm.learning_rate
        assert free.l2 < calm.l2
    assert many[1][0].learning_rate < few[1][0].learning_rate
    assert many[2][0].l2 > few[2][0].l2
    assert path_rules(50).final(50, 60) == ((path_rules(50).averaged,),), "more columns than rows"


@pytest.mark.parametrize("refit", [True, False])
def test_final_ensemble_is_calm_where_a_free_one_would_follow_the_noise(refit, monkeypatch):
    """A weak effect in each of many columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1700, 40))
    y = X[:, :20].sum(axis=1) + 8 * rng.normal(size=1700)
    held_out = {"X_val": X[1000:1300], "y_val": y[1000:1300]}
    finals, finish = [], Walk.finish
    monkeypatch.setattr(Walk, "finish", lambda *of: finals.append(finish(*of)) or finals[-1])
    model = SkinnyTreesRegressor(size_rule="full", max_epochs=10, refit=refit, random_state=0)
    model.fit(X[:1000], y[:1000], **held_out)
    _, (free,), (calm,) = path_rules(1000, n_epochs=10).final(1000, 40)
    assert finals[0].blend == (calm,)
    assert model.model_.trees.n_trees == calm.n_copies * calm.n_trees

    def only_free(rules, n_rows, n_columns):
        return ((free,),)

    monkeypatch.setattr(path_module.PathRules, "final", only_free)
    other = clone(model).fit(X[:1000], y[:1000], **held_out)
    assert model.score(X[1300:], y[1300:]) > other.score(X[1300:], y[1300:]) + 0.05


def test_without_held_out_rows_the_final_ensemble_is_the_mean_of_a_free_and_a_calm_one():
    X, y = random_problem(0, 4, n_rows=60)
    model = SkinnyTreesRegressor(cv=3, max_epochs=2, random_state=0).fit(X, y)
    grown = path_rules(60).grown
    assert model.model_.trees.n_trees == 2 * grown.n_copies * grown.n_trees


def test_averaged_copies_predict_the_mean_of_the_copies():
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 40, 6, 2, rng, np.float32)
    trainer = Trainer(SquaredError(), Sigmoid())
    recipe = Recipe(3, 2, 0.1, 0.1, 2, 8, FixedSupportSGD(), Constant())
    whole, _ = trainer.start(data, 2, replace(recipe, n_copies=3), np.random.default_rng(1))
    stream = np.random.default_rng(1)
    copies = [trainer.start(data, 2, recipe, stream)[0] for _ in range(3)]
    mean = np.mean([predict(Ensemble.of(copy), data.X, Sigmoid()) for copy in copies], axis=0)
    np.testing.assert_allclose(predict(Ensemble.of(whole), data.X, Sigmoid()), mean, atol=1e-6)


# ------------------------------------------------------------------------------------------------ very many rows


def test_sparse_table_of_many_rows_stays_sparse_and_selects_as_in_sample_space(monkeypatch):
    """Neither the products between all rows nor the dense table are formed where they would be too large."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 400), density=0.05, format="csr", random_state=1, data_sampler=rng.standard_normal)
    y = np.asarray(X[:, [1, 2]].sum(axis=1)).ravel() > 0
    expected = SkinnyTreesClassifier(20, random_state=0).fit(X, y)
    monkeypatch.setattr("skinnytrees.runs._SAMPLE_SPACE_ROWS", 10)
    monkeypatch.setattr("skinnytrees.path._MOST_DENSE_CELLS", 0)
    model = SkinnyTreesClassifier(20, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.path_.supports[3], expected.path_.supports[3])
    assert 1 <= model.n_features_selected_ <= 20
    assert model.score(X, y) > 0.8


def test_many_categories_are_pruned_without_a_linear_prediction(monkeypatch):
    monkeypatch.setattr("skinnytrees.elimination._MOST_FILLED_IN", 5)
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(600, 6)).astype(float)
    y = (X[:, 2] == 1) ^ (rng.random(600) < 0.05)
    model = SkinnyTreesClassifier(2, categorical_features=list(range(6)), random_state=0).fit(X, y)
    assert model.support_[2]
