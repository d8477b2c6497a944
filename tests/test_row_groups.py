"""Folds and held-out rows: whole groups stay together, and training always knows every class."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skinnytrees.rows import fold_rows

seeds = st.integers(0, 2**32 - 1)


@st.composite
def labelled_groups(draw):
    """A class and a group for each row; where groups are pure, all rows of a group have one class."""
    n_rows, n_groups, n_classes = draw(st.integers(1, 60)), draw(st.integers(1, 20)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(seeds))
    groups = rng.integers(n_groups, size=n_rows)
    labels = (
        rng.integers(n_classes, size=n_groups)[groups] if draw(st.booleans()) else rng.integers(n_classes, size=n_rows)
    )
    return labels, groups


def assert_groups_apart_and_classes_kept(kept, held, labels, groups):
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, held])), np.arange(len(labels)))
    assert not set(groups[kept]) & set(groups[held])
    assert set(labels[kept]) == set(labels)


# ------------------------------------------------------------------------------------------------ folds


@given(st.lists(st.integers(0, 5), min_size=2, max_size=80), st.integers(2, 10), seeds)
def test_folds_hold_every_row_out_once_but_for_the_only_row_of_a_class(labels, n_folds, seed):
    labels = np.array(labels)
    folds = fold_rows(len(labels), n_folds, np.random.default_rng(seed), labels)
    held_out = np.concatenate([np.array([], dtype=int), *(held for _, held in folds)])
    sizes = np.bincount(labels)
    np.testing.assert_array_equal(np.sort(held_out), np.flatnonzero(sizes[labels] > 1))
    for kept, held in folds:
        assert len(held) > 0
        assert_groups_apart_and_classes_kept(kept, held, labels, np.arange(len(labels)))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=80), st.integers(2, 10), seeds)
def test_folds_are_equally_large_and_share_every_class_evenly(labels, n_folds, seed):
    labels = np.array(labels)
    held_out = [held for _, held in fold_rows(len(labels), n_folds, np.random.default_rng(seed), labels)]
    held_out += [np.array([], dtype=int)] * (n_folds - len(held_out))
    assert np.ptp([len(held) for held in held_out]) <= 1
    for label in set(labels):
        assert np.ptp([np.sum(labels[held] == label) for held in held_out]) <= 1


@given(labelled_groups(), st.integers(2, 6), seeds, st.booleans())
def test_folds_keep_groups_together_and_every_class_in_training(rows, n_folds, seed, has_classes):
    labels, groups = rows
    labels = labels if has_classes else np.zeros_like(labels)
    folds = fold_rows(len(labels), n_folds, np.random.default_rng(seed), labels if has_classes else None, groups)
    held_out = np.concatenate([np.array([], dtype=int), *(held for _, held in folds)])
    assert len(set(held_out)) == len(held_out)
    for kept, held in folds:
        assert len(held) > 0
        assert_groups_apart_and_classes_kept(kept, held, labels, groups)


def test_folds_of_many_groups_hold_every_row_out_and_keep_class_proportions():
    rng = np.random.default_rng(0)
    groups = rng.integers(60, size=400)
    labels = (rng.random(60) < 0.3).astype(int)[groups]
    folds = fold_rows(400, 5, rng, labels, groups)
    assert sum(len(held) for _, held in folds) == 400
    for _, held in folds:
        assert 70 <= len(held) <= 90
        assert abs(labels[held].mean() - labels.mean()) < 0.05


def test_folds_follow_the_seed_and_nothing_else():
    labels = np.arange(40) % 3

    def held_out(seed):
        return [held.tolist() for _, held in fold_rows(40, 4, np.random.default_rng(seed), labels)]

    assert held_out(0) == held_out(0) != held_out(1)


def test_one_fold_is_refused():
    with pytest.raises(ValueError, match=r"n_folds=1 leaves no rows to train on. Use at least 2"):
        fold_rows(10, 1, np.random.default_rng(0))
