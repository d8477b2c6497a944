"""Properties that hold for every input: proximal operators, merging and splitting rows, schedules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from reference import prox
from scipy import sparse

from skinnytrees.kernels import active_set
from skinnytrees.kernels.compilation import kernel
from skinnytrees.kernels.prox import threshold_group
from skinnytrees.kernels.state import Data, make_active, make_workspace, view_trees
from skinnytrees.optimizers import SCHEDULES, Constant, OneCycle
from skinnytrees.penalties import GroupL0, GroupLasso, NoPenalty, hard_threshold, soft_threshold
from skinnytrees.tables.rows import Rows, merge_rows, split_rows

# ------------------------------------------------------------------------------------------------ proximal operators

weights = arrays(np.float64, st.integers(1, 12), elements=st.floats(-10, 10))
rates = st.floats(1e-3, 10)
strengths = st.floats(0, 20)
seeds = st.integers(0, 2**32 - 1)


def assert_minimises(result, z, eta, penalty, seed):
    """No candidate has a smaller ||w - z||^2 / (2 eta) + penalty(w): zero, z, z scaled, random points."""

    def objective(w):
        return np.sum((w - z) ** 2) / (2 * eta) + penalty(w)

    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(30, len(z))) * 10 ** rng.uniform(-4, 1, size=(30, 1))
    candidates = [0 * z, *(factor * z for factor in np.linspace(0, 1.5, 31)), *(z + noise), *(result + noise)]
    best = min(objective(w) for w in candidates)
    assert objective(result) <= best + 1e-9 * (1 + abs(best))


@given(weights, rates, strengths, seeds)
def test_hard_threshold_minimises_its_proximal_objective(z, eta, lambda0, seed):
    result = hard_threshold(z, np.sqrt(2 * eta * lambda0))
    assert_minimises(result, z, eta, lambda w: lambda0 * np.any(w != 0), seed)


@given(weights, rates, strengths, seeds)
def test_soft_threshold_minimises_its_proximal_objective(z, eta, lam, seed):
    result = soft_threshold(z, eta * lam)
    assert_minimises(result, z, eta, lambda w: lam * np.linalg.norm(w), seed)


@given(weights, st.floats(0, 30))
def test_thresholding_leaves_its_argument_alone_and_keeps_its_shape(z, threshold):
    before = z.copy()
    assert hard_threshold(z, threshold).shape == soft_threshold(z, threshold).shape == z.shape
    np.testing.assert_array_equal(z, before)


@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 5)), elements=st.floats(-1, 1)), st.floats(0, 3))
def test_group_l0_keeps_all_rows_of_a_group_or_none(group, threshold):
    result = group.copy()
    in_use = threshold_group(result, threshold, 0.0)
    norm = np.linalg.norm(group)
    if abs(norm - threshold) > 1e-12:
        assert in_use == (norm > threshold)
    np.testing.assert_array_equal(result, group if in_use else 0 * group)


# Parts of a step, which otherwise only kernels can call.
begin_step, step_on_blocks, drop_dead = (
    kernel(part.py_func) for part in (active_set.begin_step, active_set.step_on_blocks, active_set.drop_dead)
)


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=6),
    st.sampled_from([GroupL0(gamma=0.5), GroupLasso(lam=0.8), NoPenalty()]),
    st.sampled_from([8, 10**5, 10**7]),
    seeds,
)
def test_proximal_step_is_a_gradient_step_then_the_prox_of_whole_groups(sizes, penalty, bytes_a_column, seed):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    W, X, D = rng.normal(size=(offsets[-1], 3)), rng.normal(size=(7, offsets[-1])), rng.normal(size=(7, 3))
    eta, shrink = 0.3, 0.9
    expected = prox(penalty, (shrink * W - eta * X.T @ D).T, offsets, 1, eta).T
    hard, soft = (float(threshold[0]) for threshold in penalty.thresholds(np.array([1]), np.array([eta])))
    active = make_active(offsets, bytes_a_column, np.linalg.norm(X, axis=0))
    trees = view_trees(np.concatenate([W.ravel(), np.zeros(3 + 4)]), len(W), 3, (4, 1))
    work = make_workspace(trees, 7, 1)._replace(X=X.copy(), D=D)
    data, rows = Data(X, np.zeros((7, 1)), np.ones(7)), np.arange(7)
    n_blocks = begin_step(trees, data, active, work, rows, eta, max(hard, soft))
    step_on_blocks(0, n_blocks, 7, trees, active, work, shrink, eta, hard, soft)
    drop_dead(active, trees.W)
    n_columns = active.n_alive[1]
    unpacked = np.zeros_like(W)
    unpacked[active.columns[:n_columns]] = trees.W[:n_columns]
    np.testing.assert_allclose(unpacked, expected, rtol=1e-10, atol=1e-12)
    in_use = np.flatnonzero(np.logical_or.reduceat(expected.any(axis=1), offsets[:-1]))
    np.testing.assert_array_equal(np.sort(active.groups[: active.n_alive[0]]), in_use)


# ------------------------------------------------------------------------------------------------ penalties and rates


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 10), st.integers(1, 10**6), st.floats(1e-6, 10))
def test_annealed_penalty_and_its_threshold_are_those_of_the_paper(gamma, rate, t, eta):
    lambda0 = gamma * (1 - np.exp(-np.longdouble(rate) * t))  # section 5.3
    hard, soft = GroupL0(gamma, rate).thresholds(np.array([t]), np.array([eta]))
    assert GroupL0(gamma, rate).strength(t) == pytest.approx(float(lambda0), rel=1e-9)
    assert hard[0] == pytest.approx(float(np.sqrt(2 * eta * lambda0)), rel=1e-9)  # equation 5
    assert soft[0] == 0


def test_annealing_has_begun_at_the_first_step():
    assert GroupL0(gamma=3.0, rate=0.5).strength(1) == pytest.approx(3 * (1 - np.exp(-0.5)))


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 10))
def test_constant_penalties_do_not_change_with_the_step(strength, eta):
    steps, etas = np.arange(1, 5), np.full(4, eta)
    for penalty, hard, soft in [
        (GroupL0(strength), np.sqrt(2 * eta * strength), 0),
        (GroupLasso(strength), 0, eta * strength),
        (NoPenalty(), 0, 0),
    ]:
        np.testing.assert_allclose(penalty.thresholds(steps, etas), [[hard] * 4, [soft] * 4], rtol=1e-12)


@pytest.mark.parametrize("make", [lambda: GroupL0(-1.0), lambda: GroupL0(1.0, rate=0.0), lambda: GroupLasso(-0.1)])
def test_penalty_that_is_no_penalty_is_refused(make):
    with pytest.raises(ValueError, match=r"must not be negative|must be positive"):
        make()


@given(st.integers(2, 400), st.floats(0.05, 0.95), st.floats(1e-5, 10))
def test_one_cycle_stays_within_the_full_rate_and_peaks_at_the_end_of_the_warm_up(n_steps, warm_up, learning_rate):
    rate = OneCycle(warm_up=warm_up).rates(np.arange(1, n_steps + 1), n_steps, learning_rate)
    assert (rate > 0).all()
    assert (rate <= learning_rate * (1 + 1e-12)).all()
    done = np.arange(n_steps) / (n_steps - 1)
    assert abs(done[np.argmax(rate)] - warm_up) <= 1 / (n_steps - 1) + 1e-12
    assert (np.diff(rate[done < warm_up]) > 0).all()
    assert (np.diff(rate[done >= warm_up]) < 0).all()


def test_one_cycle_begins_peaks_and_ends_where_it_says():
    rate = OneCycle(warm_up=0.25, start=0.1, end=0.01).rates(np.arange(1, 102), 101, 2.0)
    np.testing.assert_allclose(rate[[0, 25, 100]], [0.2, 2.0, 0.02])


@pytest.mark.parametrize("schedule", SCHEDULES.values())
def test_rates_asked_epoch_by_epoch_are_those_of_the_whole(schedule):
    whole = schedule().rates(np.arange(1, 13), 12, 0.3)
    parts = [schedule().rates(np.arange(first, first + 4), 12, 0.3) for first in (1, 5, 9)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_one_cycle_of_a_single_step_and_constant_rates_are_positive():
    assert OneCycle().rates(np.array([1]), 1, 0.5)[0] > 0
    np.testing.assert_array_equal(Constant().rates(np.arange(1, 4), 3, 0.5), 0.5)


# ------------------------------------------------------------------------------------------------ merging rows


@st.composite
def tables(draw):
    """Rows with few distinct values, missing ones too, so that many are equal; weights whose sums are exact."""
    n_rows, n_columns = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    value = st.sampled_from([0.0, 1.0, -2.5, np.nan])
    return Rows(
        draw(arrays(np.float64, (n_rows, n_columns), elements=value)),
        draw(arrays(np.float64, (n_rows, 1), elements=st.sampled_from([0.0, 1.0]))),
        draw(arrays(np.float64, n_rows, elements=st.sampled_from([0.0, 0.5, 1.0, 3.0]))),
    )


def assert_same(left: Rows, right: Rows):
    for ours, theirs in zip(left, right, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(tables(), seeds)
def test_merged_rows_do_not_depend_on_the_order_of_the_rows(rows, seed):
    shuffled = rows.take(np.random.default_rng(seed).permutation(len(rows.X)))
    assert_same(merge_rows(shuffled), merge_rows(rows))


@given(tables(), st.data())
def test_repeating_a_row_is_the_same_as_weight_two(rows, data):
    row = data.draw(st.integers(0, len(rows.X) - 1))
    repeated = rows.take(np.append(np.arange(len(rows.X)), row))
    heavier = rows._replace(weight=rows.weight * np.where(np.arange(len(rows.X)) == row, 2, 1))
    assert_same(merge_rows(repeated), merge_rows(heavier))


@given(tables())
def test_row_of_weight_zero_is_the_same_as_no_row(rows):
    assert_same(merge_rows(rows.take(np.flatnonzero(rows.weight))), merge_rows(rows))


@given(tables())
def test_merged_rows_are_distinct_and_hold_every_rows_weight(rows):
    expected: dict[str, float] = {}
    for x, y, weight in zip(*rows[:3], strict=True):
        if weight > 0:
            expected[str((x, y))] = expected.get(str((x, y)), 0) + weight
    merged = merge_rows(rows)
    assert len(merged.X) == len(expected)
    assert {str((x, y)): weight for x, y, weight in zip(*merged[:3], strict=True)} == expected


def test_rows_that_differ_in_the_sign_of_zero_are_equal():
    merged = merge_rows(Rows(np.array([[0.0], [-0.0]]), np.array([[-0.0], [0.0]]), np.ones(2)))
    assert merged.weight.tolist() == [2]


@given(seeds)
def test_sparse_rows_are_merged_as_dense_ones_are(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(12, 3)) * rng.integers(-1, 2, size=(12, 3)).astype(float)
    rows = Rows(X, rng.integers(0, 2, size=(12, 1)).astype(float), rng.integers(0, 3, size=12).astype(float))
    merged = merge_rows(rows._replace(X=sparse.csr_array(X)))
    assert_same(merged._replace(X=merged.X.toarray()), merge_rows(rows))


@given(seeds)
def test_rows_of_a_wide_table_that_differ_in_one_column_stay_apart(seed):
    """Only some columns of a wide table are read to put rows in order; equality is settled by all of them."""
    rng = np.random.default_rng(seed)
    X = np.tile(rng.normal(size=300), (8, 1))
    X[np.arange(4), rng.integers(300, size=4)] += 1 + np.arange(4)
    rows = Rows(X, np.zeros((8, 1)), np.ones(8))
    merged = merge_rows(rows)
    assert sorted(merged.weight) == [1, 1, 1, 1, 4]
    assert_same(merge_rows(rows.take(rng.permutation(8))), merged)


# ------------------------------------------------------------------------------------------------ splitting rows


@given(st.integers(2, 200), st.floats(0, 0.9), seeds)
def test_split_puts_every_row_on_one_side_and_holds_out_its_share(n_rows, fraction, seed):
    training, held_out = split_rows(n_rows, fraction, np.random.default_rng(seed))
    np.testing.assert_array_equal(np.sort(np.concatenate([training, held_out])), np.arange(n_rows))
    assert abs(len(held_out) - fraction * n_rows) <= max(0.5, 1 - n_rows * (1 - fraction))
    assert len(training) > 0


@given(st.lists(st.integers(0, 4), min_size=1, max_size=150), st.floats(0, 0.95), seeds)
def test_stratified_split_takes_its_share_of_every_class_and_leaves_it_a_training_row(labels, fraction, seed):
    labels = np.array(labels)
    training, held_out = split_rows(len(labels), fraction, np.random.default_rng(seed), labels)
    np.testing.assert_array_equal(np.sort(np.concatenate([training, held_out])), np.arange(len(labels)))
    for label in np.unique(labels):
        size, held = np.sum(labels == label), np.sum(labels[held_out] == label)
        assert np.sum(labels[training] == label) >= 1
        assert held == size - 1 or abs(held - fraction * size) <= 0.5


def test_split_holds_out_different_rows_for_different_seeds():
    first, second = (set(split_rows(100, 0.2, np.random.default_rng(seed))[1]) for seed in (0, 1))
    assert first != second
