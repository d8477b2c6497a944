"""The choice of a size, of a branch and of a start."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import random_data, random_trees
from sklearn.datasets import load_wine

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.losses import SquaredError
from skinnytrees.path.evidence import HeldOutRows, RowLosses
from skinnytrees.path.points import Branch, PathPoint
from skinnytrees.path.rules import DEFAULT_RULES, SizeRules, replace_rule
from skinnytrees.path.size_choice import Candidate, SizeChooser, choose_point, choose_size
from skinnytrees.path.trainer import Trainer

from .helpers import BOTH_PHASES, PRUNING, QUICK, SCREENING, make_groups, make_inputs, with_rules


def test_clear_winner_is_chosen_by_every_rule_but_full():
    losses = np.array([[1.0, 1, 1, 1], [0, 0, 0, 0], [2, 2, 2, 2]])
    assert [choose_point(losses, np.ones(4), rule) for rule in ("best", "one_se", "full")] == [1, 1, 0]


@pytest.mark.parametrize("fraction_of_noise", [0.9, 1.1])
def test_differences_within_the_noise_keep_the_larger_size_or_the_smaller_one(fraction_of_noise):
    """Excess over the best of standard error 0.1 on both sides of it: rows of deviation 0.2, four of them."""
    spread = 0.2 * np.array([1, -1, 1, -1])
    near = 0.1 * fraction_of_noise
    losses = np.array([spread + near, np.zeros(4), spread + near])
    within = fraction_of_noise < 1
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
    assert choose_size(losses, np.ones(400), "best", rankings.__getitem__, SizeRules()) == chosen


def test_second_opinion_is_for_the_best_size_only():
    losses, rankings = losses_of_two_sizes(1.5), [1.0, 0.5]
    for rule in ("one_se", "full"):
        expected = choose_point(losses, np.ones(400), rule)
        assert choose_size(losses, np.ones(400), rule, rankings.__getitem__, SizeRules()) == expected


def test_of_several_sizes_that_rank_well_enough_the_largest_is_taken():
    small = losses_of_two_sizes(1.5)
    losses = np.stack([small[0], small[0], small[0], small[1]])
    rankings = [0.8, 0.95, 0.99, 0.9]
    assert choose_size(losses, np.ones(400), "best", rankings.__getitem__, SizeRules()) == 1


@BOTH_PHASES
def test_fit_asks_for_the_ranking_of_held_out_rows(rules, monkeypatch):
    """Where all is in doubt and larger sizes rank better, the budget is filled; where they rank worse, the loss decides."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 12))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)

    def size(doubt, ranking):
        monkeypatch.setattr(Trainer, "ranking", lambda trainer, trees, data: ranking(data.X.shape[1]))
        doubtful = with_rules(SkinnyTreesClassifier, replace_rule(rules, "sizes.doubt", doubt))
        return doubtful(10, random_state=0, refit=False).fit(X, y).n_features_selected_

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


# ------------------------------------------------------------------------------------------------ starts


@pytest.mark.parametrize("cv", [None, 3])
def test_few_rows_take_the_best_of_several_starts(cv, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 40)), rng.normal(size=90)
    candidates, one_candidate = [], SizeChooser.candidate
    monkeypatch.setattr(SizeChooser, "candidate", lambda *of: candidates.append(one_candidate(*of)) or candidates[-1])
    model = SkinnyTreesRegressor(5, size_rule="full", cv=cv, **QUICK).fit(X, y)
    assert len(candidates) == DEFAULT_RULES.screening.n_starts
    assert len({tuple(one.support) for one in candidates}) > 1, "nothing to choose from"
    if cv:
        # No rows are held out from the walks themselves, and a start's number means nothing from fold to fold.
        assert len({one.path_losses()[0] for one in candidates}) == 1
        best = min(candidates, key=lambda one: one.path_losses()[1])
    else:
        losses = np.array([one.evidence.losses[one.chosen_index] for one in candidates])
        best = candidates[choose_point(losses, candidates[0].evidence.weight, "best")]
    np.testing.assert_array_equal(np.flatnonzero(model.support_), best.support)


def chooser_and_candidates(means, rules, noise=1.0):
    """Branches of one point each, whose losses on the held-out rows have these means."""
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 60, 3, 1, rng, np.float32)
    inputs = make_inputs(data, rules=rules)
    chooser = SizeChooser(inputs, HeldOutRows(data, inputs.groups, inputs.trainer), budget=3, size_rule="best")
    point = PathPoint(np.arange(3), random_trees(3, 1, rng, dtype=np.float32), 1.0)
    losses = [mean + noise * rng.normal(size=60) for mean in means]
    evidence = [RowLosses(one[None], np.ones(60)) for one in losses]
    return chooser, [Candidate(Branch([point], [], []), 0, one, point.groups) for one in evidence]


@pytest.mark.parametrize(("means", "expected"), [((99, 99, 1, 99), 2), ((99, 99, 99, 1), 3), ((1.001, 1.002, 1, 9), 0)])
def test_start_that_is_clearly_better_is_taken_and_the_first_within_noise(means, expected):
    chooser, candidates = chooser_and_candidates(means, SCREENING)
    assert chooser.best_branch(candidates) is candidates[expected]


def test_first_of_equal_starts_is_taken():
    chooser, candidates = chooser_and_candidates((1, 1, 1), SCREENING, noise=0)
    assert chooser.best_branch(candidates) is candidates[0]


def test_branch_of_pruning_is_taken_by_its_mean_loss_alone():
    chooser, candidates = chooser_and_candidates((1.001, 1), PRUNING, noise=0)
    assert chooser.best_branch(candidates) is candidates[1]


def chooser_with_prices(price, budget, rules):
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 60, len(price), 1, rng, np.float32)
    inputs = make_inputs(data, make_groups(price), rules)
    return SizeChooser(inputs, HeldOutRows(data, inputs.groups, inputs.trainer), budget=budget, size_rule="best")


@BOTH_PHASES
@pytest.mark.parametrize(("means", "expected"), [((9, 2, 1.999, 9), 1), ((9, 2, 9, 1), 3), ((2, 2, 2, 2), 0)])
def test_second_power_of_prices_is_taken_only_where_it_is_clearly_better(rules, means, expected):
    """Four branches: two for each power. Those of one power are compared as ever."""
    _, candidates = chooser_and_candidates(means, rules, noise=0.05)
    if means == (2, 2, 2, 2):
        candidates = [one._replace(evidence=candidates[0].evidence) for one in candidates]
    chooser = chooser_with_prices([1, 2, 3], 3, rules)
    assert chooser.best_branch(candidates) is candidates[expected]


def test_without_evidence_the_first_power_of_prices_is_taken():
    _, candidates = chooser_and_candidates((1, 1), PRUNING)
    candidates = [one._replace(evidence=None) for one in candidates]
    candidates[1].branch.points[0] = candidates[1].branch.points[0]._replace(train_loss=0.1)
    assert chooser_with_prices([1, 2, 3], 3, PRUNING).best_branch(candidates) is candidates[0]


@pytest.mark.parametrize(
    ("price", "losses", "expected"),
    [
        ([1, 1, 0.01, 0.01], [1, 1, 1, 1], 2),  # what is nearly free and contributes nothing goes, what costs 1 stays
        ([1, 1, 0.01, 0.01], [1, 1.5, 1.5, 1.5], 0),  # what contributes stays, however cheap
        ([1, 1, 0.5, 0.5], [1, 1, 1, 1], 0),  # they cost too much to be called free
        ([1, 1, 1, 1], [1, 1, 1, 1], 0),  # with equal prices the largest within noise is taken
    ],
)
def test_of_sizes_at_about_the_same_price_the_one_of_fewest_groups_is_taken(price, losses, expected):
    chooser = chooser_with_prices(price, 4, PRUNING)
    trees = random_trees(4, 1, np.random.default_rng(0), dtype=np.float32)
    points = [PathPoint(np.arange(4), trees, 1.0).cut(chooser.inputs.groups, np.arange(n)) for n in (4, 3, 2, 1)]
    noise = np.random.default_rng(1).normal(size=(4, 60))
    noise = 0.5 * (noise - noise.mean(axis=1, keepdims=True))
    branch = Branch(points, [mean + one for mean, one in zip(losses, noise, strict=True)], [])
    assert chooser.candidate(branch, None).chosen_index == expected


def test_rules_say_whether_every_branch_gets_a_final_ensemble():
    _, candidates = chooser_and_candidates((1, 2), PRUNING)
    branches = [one.branch._replace(losses=[one.evidence.losses[0]]) for one in candidates]
    for each in (False, True):
        rules = replace_rule(PRUNING, "pruning.branches_compared_by_final", each)
        chooser, _ = chooser_and_candidates((1, 2), rules)
        assert len(chooser.candidates(branches, None)) == (2 if each else 1)
