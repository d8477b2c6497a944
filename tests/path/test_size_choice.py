"""The choice of a size, of a branch and of a start."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import random_trees

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.losses import SquaredError
from skinnytrees.path.comparison import LossComparison
from skinnytrees.path.evidence import Evidence, Judge
from skinnytrees.path.points import Branch, PathPoint
from skinnytrees.path.rules import DEFAULT_RULES, SizeRules, replace_rule
from skinnytrees.path.scoring import Scorer
from skinnytrees.path.size_choice import SizeChooser, choose_point, choose_size
from skinnytrees.training.loop import EpochReport

from .helpers import BOTH_PHASES, QUICK, SCREENING, make_groups, make_judge, with_rules

# Clearly worse from two standard errors on, in doubt from one on.
IN_DOUBT = SizeRules(noise=1.0, doubt=2.0)


def equal_rows(losses):
    return LossComparison(losses, np.ones(losses.shape[1]))


def test_clear_winner_is_chosen_by_every_rule_but_full():
    losses = np.array([[1.0, 1, 1, 1], [0, 0, 0, 0], [2, 2, 2, 2]])
    assert [choose_point(equal_rows(losses), rule) for rule in ("best", "one_se", "full")] == [1, 1, 0]


@pytest.mark.parametrize("fraction_of_noise", [0.9, 1.1])
def test_differences_within_the_noise_keep_the_larger_size_or_the_smaller_one(fraction_of_noise):
    """Excess over the best of standard error 0.1 on both sides of it: rows of deviation 0.2, four of them."""
    spread = 0.2 * np.array([1, -1, 1, -1])
    near = 0.1 * fraction_of_noise
    losses = np.array([spread + near, np.zeros(4), spread + near])
    within = fraction_of_noise < 1
    assert choose_point(equal_rows(losses), "best") == (0 if within else 1)
    assert choose_point(equal_rows(losses), "one_se") == (2 if within else 1)
    assert choose_point(equal_rows(losses), "full") == 0


def test_equal_losses_keep_the_largest_or_the_smallest_size():
    losses = np.ones((5, 7))
    assert [choose_point(equal_rows(losses), rule) for rule in ("best", "one_se", "full")] == [0, 4, 0]


def test_noise_is_that_of_paired_differences():
    """Rows that are hard for every size do not hide a difference that all rows agree on."""
    hard = np.array([0.0, 100, 3, 50])
    losses = np.array([hard + 0.01, hard, hard + 0.02])
    assert choose_point(equal_rows(losses), "best") == 1


def test_one_se_is_the_smallest_size_within_the_standard_error_of_the_best():
    best = np.array([0.0, 4, 0, 4])  # deviation 2, standard error 1
    losses = np.array([best + 0.5, best, best + 0.9, best + 1.1])
    assert choose_point(equal_rows(losses), "one_se") == 2


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
    assert choose_size(equal_rows(losses), "best", rankings.__getitem__, IN_DOUBT) == chosen


def test_second_opinion_is_for_the_best_size_only():
    losses, rankings = losses_of_two_sizes(1.5), [1.0, 0.5]
    for rule in ("one_se", "full"):
        expected = choose_point(equal_rows(losses), rule)
        assert choose_size(equal_rows(losses), rule, rankings.__getitem__, IN_DOUBT) == expected


def test_of_several_sizes_that_rank_well_enough_the_largest_is_taken():
    small = losses_of_two_sizes(1.5)
    losses = np.stack([small[0], small[0], small[0], small[1]])
    rankings = [0.8, 0.95, 0.99, 0.9]
    assert choose_size(equal_rows(losses), "best", rankings.__getitem__, IN_DOUBT) == 1


@BOTH_PHASES
def test_fit_asks_for_the_ranking_of_held_out_rows(rules, monkeypatch):
    """Where all is in doubt and larger sizes rank better, the budget is filled; where they rank worse, the loss decides."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 12))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)

    def size(doubt, ranking):
        # Sizes fall as their numbers grow, and the first is the largest within the budget.
        monkeypatch.setattr(Judge, "ranking", lambda judge, evidence, i: ranking(10 - i))
        unsure = replace_rule(replace_rule(rules, "sizes.noise", 0.0), "sizes.doubt", doubt)
        model = with_rules(SkinnyTreesClassifier, unsure)(10, validation_fraction=0.3, refit=False, **QUICK)
        return model.fit(X, y).n_features_selected_

    by_loss = size(0.0, float)
    assert by_loss < 10
    assert size(1e9, float) == 10
    assert size(1e9, lambda n: -float(n)) == by_loss


def test_rules_say_how_much_worse_a_larger_size_may_be():
    compared = equal_rows(losses_of_two_sizes(1.5))
    for noise, chosen in [(1.0, 1), (2.0, 0)]:
        assert choose_size(compared, "best", lambda i: np.nan, SizeRules(noise=noise, doubt=noise)) == chosen


def test_rows_without_weight_have_no_say():
    losses = np.array([[0.0, 0, 9, 9], [1, 1, 0, 0]])
    assert choose_point(LossComparison(losses, np.array([1.0, 1, 0, 0])), "one_se") == 0
    assert choose_point(LossComparison(losses, np.array([0.0, 0, 1, 1])), "best") == 1


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 20))
def test_one_se_is_never_larger_than_the_minimum_and_best_never_smaller(seed, n_points, n_rows):
    rng = np.random.default_rng(seed)
    losses, weight = rng.exponential(size=(n_points, n_rows)), rng.uniform(0.1, 2, n_rows)
    compared = LossComparison(losses, weight)
    full, best, one_se = (choose_point(compared, rule) for rule in ("full", "best", "one_se"))
    assert 0 == full <= best <= np.argmin(losses @ weight) <= one_se < n_points


def test_sizes_are_ordered_by_their_rule():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 12))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    sizes = [
        SkinnyTreesClassifier(9, size_rule=rule, validation_fraction=0.2, **QUICK).fit(X, y).n_features_selected_
        for rule in ("one_se", "best", "full")
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2] == 9


# ------------------------------------------------------------------------------------------------ branches


def branch_of(train_losses, rng, with_outputs=True):
    """Points of falling size with these training losses."""
    n = len(train_losses)
    trees = random_trees(3, 1, rng, dtype=np.float32)
    points = [PathPoint(np.arange(n - i), trees, loss) for i, loss in enumerate(train_losses)]
    outputs = [rng.random((4, 1), dtype=np.float32) for _ in range(n)] if with_outputs else []
    return Branch(points, outputs, [EpochReport(i, loss, np.nan, n - i, np.nan) for i, loss in enumerate(train_losses)])


@pytest.mark.parametrize("with_outputs", [True, False])
def test_of_several_starts_each_size_is_that_of_least_training_loss(with_outputs):
    rng = np.random.default_rng(0)
    starts = [branch_of(losses, rng, with_outputs) for losses in ([1.0, 5, 2], [3, 4, 2], [2, 6, 1])]
    best = Branch.best_of(starts)
    for i, start in enumerate([starts[0], starts[1], starts[2]]):
        assert best.points[i] is start.points[i]
        assert best.reports[i] is start.reports[i]
        if with_outputs:
            assert best.outputs[i] is start.outputs[i]
    assert len(best.outputs) == (3 if with_outputs else 0)


def test_first_of_equal_starts_is_taken():
    rng = np.random.default_rng(0)
    starts = [branch_of([1.0, 1.0], rng) for _ in range(3)]
    assert Branch.best_of(starts).points == starts[0].points


@pytest.mark.parametrize("n_starts", [1, 3])
@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_few_rows_take_the_best_of_several_starts(n_starts, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 40)), rng.normal(size=90)
    tried, best_of = [], Branch.best_of
    monkeypatch.setattr(Branch, "best_of", lambda starts: tried.append(starts) or best_of(starts))
    rules = replace_rule(SCREENING, "screening.n_starts", n_starts)
    model = with_rules(SkinnyTreesRegressor, rules)(5, validation_fraction=None, standardize=False, **QUICK).fit(
        X, y
    )  # columns keep their order
    ((*starts,),) = tried
    assert len(starts) == n_starts
    losses = np.array([[point.train_loss for point in start.points] for start in starts])
    np.testing.assert_array_equal(model.path_.train_loss, losses.min(axis=0))
    at_five = [start.points[model.path_.chosen_index] for start in starts]
    assert n_starts == 1 or len({tuple(point.groups) for point in at_five}) > 1, "nothing to choose from"
    best = min(at_five, key=lambda point: point.train_loss)
    np.testing.assert_array_equal(np.flatnonzero(model.support_), best.groups)


@pytest.mark.parametrize(("offs", "expected"), [((9, 9, 0, 9), 2), ((1.0, 1.0, 9), 0)])
def test_start_that_is_clearly_better_on_held_out_rows_is_taken_and_else_the_first_within_noise(offs, expected):
    chooser, branches, evidence = chooser_and_branches(offs)
    if expected == 0:
        evidence[1] = evidence[0]._replace(outputs=evidence[0].outputs * np.float32(0.999))
    assert replace(chooser, branch_noise=1.0).choose(branches, evidence).branch_index == expected


def chooser_and_branches(offs, noise=0.1, price=(1, 1, 1), budget=2):
    """Branches of one point on two of three groups, whose outputs are off the target by this much, and their evidence."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(60, 1)).astype(np.float32)
    chooser = SizeChooser(make_groups(price), make_judge(), DEFAULT_RULES, budget, size_rule="best")
    trees = random_trees(2, 1, rng, dtype=np.float32)
    branches = [Branch([PathPoint(np.array([0, 1]), trees, 10.0 - i)], [], []) for i in range(len(offs))]
    outputs = [Y + off * rng.choice([-1, 1], size=Y.shape) + noise * rng.normal(size=Y.shape) for off in offs]
    return chooser, branches, [Evidence(one[None].astype(np.float32), Y, np.ones(60)) for one in outputs]


@pytest.mark.parametrize(("offs", "expected"), [((9, 0, 9), 1), ((9, 9, 0), 2), ((0.2, 0.1), 1)])
def test_branch_of_least_mean_loss_is_taken(offs, expected):
    chooser, branches, evidence = chooser_and_branches(offs)
    candidate = chooser.choose(branches, evidence)
    assert candidate.branch is branches[expected]
    assert candidate.branch_index == expected
    assert candidate.support.tolist() == [0, 1]


def test_without_evidence_the_branch_of_least_training_loss_is_taken():
    chooser, branches, _ = chooser_and_branches((0, 0, 0))
    candidate = chooser.choose(branches, None)
    assert candidate.branch is branches[2]
    assert candidate.evidence is None


def test_scorer_decides_between_sizes_and_branches():
    """By absolute errors one is better, by squares the other: a single row is far off."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(100, 1)).astype(np.float32)
    even, outlier = np.full_like(Y, 0.3), np.where(np.arange(100)[:, None] == 0, 4, 0.1)
    outputs = np.stack([Y + rng.choice([-1, 1], size=Y.shape) * one for one in (even, outlier)]).astype(np.float32)
    evidence = [Evidence(one[None], Y, np.ones(100)) for one in outputs]
    chooser, branches, _ = chooser_and_branches((0, 0))
    scorer = Scorer("neg_median_absolute_error", None, SquaredError().to_prediction)
    by_score = replace(chooser, judge=make_judge(scorer=scorer))
    assert [one.choose(branches, evidence).branch_index for one in (chooser, by_score)] == [0, 1]


# ------------------------------------------------------------------------------------------------ prices


@pytest.mark.parametrize(
    ("offs", "expected"), [((9, 0.5, 0.499, 9), 1), ((9, 0.5, 9, 0.1), 3), ((0.5, 9, 0.499, 9), 0)]
)
def test_second_power_of_prices_is_taken_only_where_it_is_clearly_better(offs, expected):
    """Four branches, two for each power. Those of one power are compared by their means."""
    chooser, branches, evidence = chooser_and_branches(offs, noise=0.2, price=(1, 2, 3), budget=3)
    assert chooser.choose(branches, evidence).branch_index == expected


@pytest.mark.parametrize(("price", "expected"), [((1, 2, 3), 1), ((1, 1, 1), 3)])
def test_without_evidence_the_first_power_of_prices_is_taken(price, expected):
    chooser, branches, _ = chooser_and_branches((0, 0, 0, 0), price=price, budget=3)
    assert chooser.choose(branches, None).branch_index == expected


@pytest.mark.parametrize(
    ("price", "offs", "expected"),
    [
        (
            [1, 1, 0.01, 0.01],
            [0.3, 0.3, 0.3, 0.3],
            2,
        ),  # nearly free and without a contribution: goes; what costs 1 stays
        ([1, 1, 0.01, 0.01], [0.3, 0.9, 0.9, 0.9], 0),  # what contributes stays, however cheap
        ([1, 1, 0.5, 0.5], [0.3, 0.3, 0.3, 0.3], 0),  # they cost too much to be called free
        ([1, 1, 1, 1], [0.3, 0.3, 0.3, 0.3], 0),  # with equal prices the largest within noise is taken
    ],
)
def test_of_sizes_at_about_the_same_price_the_one_of_fewest_groups_is_taken(price, offs, expected):
    rng = np.random.default_rng(0)
    groups = make_groups(price)
    chooser = SizeChooser(groups, make_judge(), DEFAULT_RULES, budget=4, size_rule="best")
    whole = PathPoint(np.arange(4), random_trees(4, 1, rng, dtype=np.float32), 1.0)
    branch = Branch([whole.cut(groups, np.arange(n)) for n in (4, 3, 2, 1)], [], [])
    Y = rng.normal(size=(60, 1)).astype(np.float32)
    signs = np.array([rng.permutation(np.repeat([-1, 1], 30))[:, None] for _ in offs])
    outputs = (Y + np.array(offs)[:, None, None] * signs).astype(np.float32)
    # Sizes at the same distance from the target are as good as each other up to noise.
    evidence = Evidence(outputs, Y, np.ones(60))
    chosen = chooser.candidate([branch], 0, evidence)
    assert chosen.chosen_index == expected
