"""Folds and held-out rows: whole groups stay together, and training always knows every class."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import GridSearchCV, GroupKFold, GroupShuffleSplit, KFold, LeaveOneGroupOut

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.penalties import GroupL0
from skinnytrees.tables.rows import Rows, fold_rows, merge_rows, split_rows

# Whether a penalty removes anything is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")
seeds = st.integers(0, 2**32 - 1)
QUICK = {"max_epochs": 2, "random_state": 0}


@st.composite
def labelled_groups(draw):
    """A class and a group for each row, two groups or more; in some draws all rows of a group have one class."""
    n_rows, n_groups, n_classes = draw(st.integers(2, 60)), draw(st.integers(2, 20)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(seeds))
    groups = rng.permutation(np.append([0, 1], rng.integers(n_groups, size=n_rows - 2)))
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


# ------------------------------------------------------------------------------------------------ held-out fraction


@given(labelled_groups(), st.floats(0.05, 0.9), seeds, st.booleans())
def test_split_keeps_groups_together_and_every_class_in_training(rows, fraction, seed, has_classes):
    labels, groups = rows
    labels = labels if has_classes else np.zeros_like(labels)
    given_labels = labels if has_classes else None
    kept, held = split_rows(len(labels), fraction, np.random.default_rng(seed), given_labels, groups)
    assert_groups_apart_and_classes_kept(kept, held, labels, groups)
    can_spare_a_group = any(set(labels[groups != group]) == set(labels) for group in set(groups))
    assert (len(held) > 0) == can_spare_a_group
    again = split_rows(len(labels), fraction, np.random.default_rng(seed), given_labels, groups)
    np.testing.assert_array_equal(again[1], held)


@given(seeds, st.floats(0.1, 0.5))
def test_split_of_many_groups_holds_out_its_fraction_of_every_class(seed, fraction):
    rng = np.random.default_rng(seed)
    groups = rng.integers(100, size=500)
    labels = rng.integers(3, size=100)[groups]
    _, held = split_rows(500, fraction, rng, labels, groups)
    largest = np.bincount(groups).max()
    for label in range(3):
        wanted = fraction * np.sum(labels == label)
        assert abs(np.sum(labels[held] == label) - wanted) <= largest / 2 + 1


def test_of_two_large_groups_one_is_held_out():
    groups = np.repeat([0, 1], [30, 20])
    _, held = split_rows(50, 0.2, np.random.default_rng(0), groups=groups)
    assert set(groups[held]) == {1}


def test_group_with_all_rows_of_a_class_is_never_held_out():
    groups = np.arange(20) // 2
    labels = (groups == 3).astype(int)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        splits = [split_rows(20, 0.3, rng, labels, groups), *fold_rows(20, 4, rng, labels, groups)]
        assert all(3 not in groups[held] for _, held in splits)


# ------------------------------------------------------------------------------------------------ merging rows


@st.composite
def grouped_tables(draw):
    """Rows with few distinct values, so that many are equal; weights whose sums are exact."""
    n_rows = draw(st.integers(1, 12))
    return Rows(
        draw(arrays(np.float64, (n_rows, 2), elements=st.sampled_from([0.0, 1.0]))),
        draw(arrays(np.float64, (n_rows, 1), elements=st.sampled_from([0.0, 1.0]))),
        draw(arrays(np.float64, n_rows, elements=st.sampled_from([0.0, 0.5, 1.0]))),
        np.array(draw(st.lists(st.sampled_from("abc"), min_size=n_rows, max_size=n_rows))),
    )


def as_tuples(rows):
    return [(*x, *y, weight, group) for x, y, weight, group in zip(*rows, strict=True)]


@given(grouped_tables(), seeds)
def test_merged_groups_do_not_depend_on_the_order_of_the_rows(rows, seed):
    shuffled = rows.take(np.random.default_rng(seed).permutation(len(rows.X)))
    assert as_tuples(merge_rows(shuffled)) == as_tuples(merge_rows(rows))


@given(grouped_tables())
def test_equal_rows_are_merged_within_groups_only(rows):
    expected: dict[tuple, float] = {}
    for *values, weight, group in as_tuples(rows):
        if weight > 0:
            expected[(*values, group)] = expected.get((*values, group), 0) + weight
    merged = merge_rows(rows)
    # Numbers of groups, in the order of their first rows, stand for the labels: as many rows in each.
    assert len(merged.X) == len(expected)
    assert sorted(np.bincount(merged.group)) == sorted(np.unique([key[-1] for key in expected], return_counts=True)[1])
    assert sorted((*row[:-1],) for row in as_tuples(merged)) == sorted((*key[:-1], w) for key, w in expected.items())
    assert (np.diff(np.unique(merged.group, return_index=True)[1]) > 0).all()


def test_labels_of_groups_do_not_matter():
    rng = np.random.default_rng(0)
    rows = Rows(rng.normal(size=(30, 2)), np.zeros((30, 1)), np.ones(30), rng.integers(5, size=30))
    renamed = rows._replace(group=np.array(["e", "b", "d", "a", "c"])[rows.group])
    np.testing.assert_array_equal(merge_rows(rows).group, merge_rows(renamed).group)


@given(grouped_tables())
def test_rows_of_one_group_are_merged_as_rows_without_groups(rows):
    one, none = (merge_rows(rows._replace(group=group)) for group in (np.zeros(len(rows.X)), None))
    assert none.group is None
    assert [row[:-1] for row in as_tuples(one)] == [row[:-1] for row in as_tuples(none._replace(group=none.weight))]


def test_groups_are_taken_and_joined_with_their_rows():
    rows = Rows(np.eye(3), np.zeros((3, 1)), np.ones(3), np.array(["a", "b", "c"]))
    some = rows.take(np.array([2, 0]))
    assert some.group.tolist() == ["c", "a"]
    assert rows.join(some).group.tolist() == ["a", "b", "c", "c", "a"]
    assert rows.join(some._replace(group=None)).group is None


# ------------------------------------------------------------------------------------------------ estimators


def wine():
    X, y = (part[::2] for part in load_wine(return_X_y=True))
    return X[:, :6], y, np.random.default_rng(0).integers(20, size=len(y))


def assert_same_fit(left, right, X):
    np.testing.assert_array_equal(left.support_, right.support_)
    np.testing.assert_array_equal(left.decision_function(X), right.decision_function(X))


def patients_with_random_labels(seed, n_patients=40, n_visits=8):
    """Visits of a patient are nearly the same, and the label of a patient is drawn: there is nothing to learn."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), n_visits)
    X = rng.normal(size=(n_patients, 10))[patient] + 0.01 * rng.normal(size=(len(patient), 10))
    return X, (rng.permutation(n_patients) % 2)[patient], patient


@pytest.mark.parametrize(
    "evidence", [{"validation_fraction": 0.2}, {"cv": 3}, {}], ids=["fraction", "folds", "default"]
)
@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_repeated_patients_look_predictable_without_groups_only(evidence):
    without, with_groups = [], []
    for seed in range(2):
        X, y, patient = patients_with_random_labels(seed)
        model = SkinnyTreesClassifier(**evidence, max_epochs=5, random_state=0)
        for scores, groups in ((without, None), (with_groups, patient)):
            path = model.fit(X, y, groups=groups).path_
            scores.append(path.val_score[path.chosen_index])
    assert np.mean(without) > 0.7
    assert np.mean(with_groups) < 0.3


@pytest.mark.parametrize(
    "settings",
    [{}, {"cv": 3}, {"cv": GroupKFold(3)}, {"penalty": GroupL0(0.1), "n_estimators": 5}],
    ids=["fraction", "number of folds", "splitter", "penalty"],
)
def test_fit_with_groups_does_not_depend_on_the_order_or_weight_of_rows(settings):
    X, y, groups = wine()
    order = np.random.default_rng(1).permutation(len(y))
    model = SkinnyTreesClassifier(**settings, **QUICK)
    expected = clone(model).fit(X, y, groups=groups)
    assert_same_fit(model.fit(X[order], y[order], groups=groups[order]), expected, X)
    if not isinstance(settings.get("cv"), GroupKFold):  # a splitter balances folds by the rows that it is given
        weight = np.where(np.arange(len(y)) % 4 == 0, 2, 1)
        expected = clone(model).fit(X, y, weight, groups=groups)
        X_again, y_again, groups_again = (np.repeat(part, weight, axis=0) for part in (X, y, groups))
        assert_same_fit(model.fit(X_again, y_again, groups=groups_again), expected, X)


@pytest.mark.parametrize(
    "as_given",
    [list, pd.Series, pl.Series, lambda labels: [f"mouse {label:02d}" for label in labels],
     lambda labels: pd.Series([f"mouse {label:02d}" for label in labels], dtype="category"), lambda labels: labels[:, None]],
    ids=["list", "pandas", "polars", "text", "categories", "column"],
)  # fmt: skip
def test_groups_may_be_given_as_lists_series_and_text(as_given):
    X, y, groups = wine()
    model = SkinnyTreesClassifier(3, **QUICK)
    expected = SkinnyTreesClassifier(3, **QUICK).fit(X, y, groups=groups)
    assert_same_fit(model.fit(X, y, groups=as_given(groups)), expected, X)


@pytest.fixture
def seen_splits(monkeypatch):
    """The rows that fits would train on and hold out; none is made."""
    seen = []

    def watch(problem, splits, *_):
        seen.append(splits)
        raise _Seen

    monkeypatch.setattr("skinnytrees.estimators.base.fit_path", watch)
    return seen


class _Seen(Exception):
    """Ends a fit whose rows have been seen."""


def test_held_out_groups_are_whole_in_the_fit(seen_splits):
    X, y, groups = wine()
    X = np.column_stack([X, groups])
    model = SkinnyTreesClassifier(3, validation_fraction=0.2, **QUICK)
    for rows in ({"groups": groups}, {}):
        with pytest.raises(_Seen):
            model.fit(X, y, **rows)
    (training, held_out), (mixed_training, mixed_held_out) = (
        [set(rows.X[:][:, -1]) for rows in (splits.training, splits.held_out)] for splits in seen_splits
    )
    assert not training & held_out
    assert mixed_training & mixed_held_out


@pytest.mark.parametrize(
    ("cv", "n_folds"),
    [(3, 3), (LeaveOneGroupOut(), 5), (GroupShuffleSplit(2, random_state=0), 2), (None, 5)],
    ids=["number", "leave one out", "shuffle", "default"],
)
@pytest.mark.parametrize("estimator", [SkinnyTreesClassifier, SkinnyTreesRegressor])
def test_folds_of_a_fit_keep_groups_together(cv, n_folds, estimator, seen_splits):
    X, y, groups = wine()
    X, groups = np.column_stack([X, groups % 5]), groups % 5
    model = estimator(3, cv=cv, **QUICK)
    with pytest.raises(_Seen):
        model.fit(X, y, groups=groups)
    (splits,) = seen_splits
    assert len(splits.folds) == n_folds
    for pair in splits.folds:
        kept, held = (set(rows.X[:][:, -1]) for rows in pair)
        assert held
        assert not kept & held


def test_groups_change_nothing_where_no_rows_are_split():
    X, y, groups = wine()
    X = np.repeat(X[:40], 2, axis=0)  # equal rows of different groups are merged as without groups
    y = np.repeat(y[:40], 2)
    groups = groups[:80]
    for settings, rows in (({"validation_fraction": None}, {}), ({}, {"X_val": X[::3], "y_val": y[::3]})):
        model = SkinnyTreesClassifier(3, **settings, **QUICK)
        expected = SkinnyTreesClassifier(3, **settings, **QUICK).fit(X, y, **rows)
        assert_same_fit(model.fit(X, y, groups=groups, **rows), expected, X)
        assert_same_fit(model.fit(X, y, groups=np.zeros(80), **rows), expected, X)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.arange(5), r"groups has 5 labels, but X has 89 rows. Give one label per row."),
        (np.zeros((89, 2)), r"groups has the shape \(89, 2\). Give one label per row"),
        ("patient", r"groups has the shape \(\). Give one label per row"),
        (
            [None, *range(88)],
            r"groups has no label in 1 of 89 rows, such as \[0\]. Give these rows labels of their own",
        ),
        (["a", float("nan"), *["b"] * 87], r"no label in 1 of 89 rows, such as \[1\]"),
        (np.append(np.arange(88.0), np.nan), r"no label in 1 of 89 rows, such as \[88\]"),
        (pd.Series([pd.NA, "a", pd.NA, *["b"] * 86], dtype="string"), r"no label in 2 of 89 rows, such as \[0, 2\]"),
        (pl.Series([*["b"] * 88, None]), r"no label in 1 of 89 rows, such as \[88\]"),
        ([1, "a"] * 44 + [1], r"labels that cannot be put in order, of the types int, str. Use numbers only"),
        (
            np.zeros(89),
            r"groups has the same label in every row.*Give labels of at least 2 groups, or leave groups out",
        ),
    ],
)
def test_groups_that_cannot_work_are_refused(groups, words):
    X, y, _ = wine()
    for estimator in (SkinnyTreesClassifier, SkinnyTreesRegressor):
        with pytest.raises(ValueError, match=words):
            estimator(3, **QUICK).fit(X, y, groups=groups)


def test_one_group_of_positive_weight_is_refused():
    X, y, groups = wine()
    with pytest.raises(ValueError, match=r"groups has the same label in every row \(of positive weight\)"):
        SkinnyTreesRegressor(3, **QUICK).fit(X, y, (groups == 0).astype(float), groups=groups)


@pytest.mark.parametrize("estimator", [SkinnyTreesClassifier, SkinnyTreesRegressor])
def test_more_folds_than_groups_are_refused(estimator):
    X, y, groups = wine()
    with pytest.raises(ValueError, match=r"cv=5 asks for more folds than there are groups \(4\). Use a number up to 4"):
        estimator(3, cv=5, **QUICK).fit(X, y, groups=groups % 4)
    with pytest.raises(ValueError, match=r"groups has the same label in every row"):
        estimator(3, cv=5, **QUICK).fit(X, y, groups=np.zeros(len(y)))


def test_folds_that_tear_groups_apart_are_refused():
    X, y = (part[:60] for part in load_diabetes(return_X_y=True))
    model = SkinnyTreesRegressor(3, cv=list(KFold(3).split(X)), **QUICK)
    with pytest.raises(ValueError, match=r"(?s)cv puts rows of \d+ groups on both sides of a fold.*such as GroupKFold"):
        model.fit(X, y, groups=np.arange(60) % 7)
    model.fit(X, y, groups=np.arange(60) // 20)


def test_groups_are_routed_where_they_are_asked_for():
    X, y, groups = wine()
    model = SkinnyTreesClassifier(3, **QUICK)
    expected = SkinnyTreesClassifier(3, **QUICK).fit(X, y, groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        asking = model.set_fit_request(groups=True)
        search = GridSearchCV(asking, {"feature_budget": [3]}, cv=GroupKFold(2)).fit(X, y, groups=groups)
    assert_same_fit(search.best_estimator_, expected, X)
