"""Extremely randomised trees against their definition and against scikit-learn's."""

import numpy as np
import pytest
from reference import leaf_of, values_by_following
from sklearn.ensemble import ExtraTreesRegressor

from skinnytrees.extra_trees import grow_trees, importances


def problem(n_rows=80, n_columns=8, n_outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns)).astype(np.float32)
    steps = np.column_stack([X[:, 0] * X[:, 1] + X[:, 2], np.abs(X[:, 3]), X[:, 4]])[:, :n_outputs]
    return X, steps.astype(np.float64) + 0.1 * rng.normal(size=(n_rows, n_outputs)), rng.uniform(0.5, 2, size=n_rows)


def grown(X, steps, weight, seed=0, n_trees=5, depth=3, **options):
    trees = grow_trees(X.T, steps, weight, depth=depth, rng=np.random.default_rng(seed), n_trees=n_trees, **options)
    return [type(tree)(*(part.copy() for part in tree)) for tree in trees]


def total_squares(steps, weight):
    return float(weight @ ((steps - np.average(steps, axis=0, weights=weight)) ** 2).sum(axis=1))


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("depth", [1, 4])
def test_leaf_says_the_weighted_mean_of_its_rows(n_outputs, depth):
    X, steps, weight = problem(n_outputs=n_outputs)
    for tree in grown(X, steps, weight, depth=depth):
        leaf, values = leaf_of(tree, X), values_by_following(tree, X)
        for one in np.unique(leaf):
            rows = leaf == one
            mean = np.average(steps[rows], axis=0, weights=weight[rows])
            np.testing.assert_allclose(values[rows], np.tile(mean, (rows.sum(), 1)), rtol=1e-9)


def test_gain_is_what_a_split_takes_from_the_sum_of_squares():
    X, steps, weight = problem(n_outputs=3)
    for tree in grown(X, steps, weight, depth=1, n_trees=20):
        left = X[:, tree.column[0]] <= tree.threshold[0]
        parts = total_squares(steps[left], weight[left]) + total_squares(steps[~left], weight[~left])
        assert tree.gain[0] == pytest.approx(total_squares(steps, weight) - parts, rel=1e-9)


def test_gains_of_a_tree_and_what_its_leaves_leave_are_the_sum_of_squares():
    X, steps, weight = problem()
    for tree in grown(X, steps, weight, depth=4):
        left_over = float(weight @ ((steps - values_by_following(tree, X)) ** 2).sum(axis=1))
        assert tree.gain[tree.column >= 0].sum() + left_over == pytest.approx(total_squares(steps, weight), rel=1e-9)


@pytest.mark.parametrize(("n_rows", "n_columns", "n_outputs", "depth"), [(80, 12, 1, 6), (200, 30, 3, 4)])
def test_importances_are_those_of_scikit_learns_trees(n_rows, n_columns, n_outputs, depth):
    X, steps, weight = problem(n_rows, n_columns, n_outputs)
    ours = importances(
        grow_trees(
            X.T, steps, weight, depth=depth, rng=np.random.default_rng(0), n_trees=2000,
            n_candidates=int(np.sqrt(n_columns)),
        ),
        n_columns,
    )  # fmt: skip
    theirs = ExtraTreesRegressor(1000, max_depth=depth, max_features="sqrt", random_state=0)
    theirs.fit(X, steps if n_outputs > 1 else steps[:, 0], weight)
    np.testing.assert_allclose(ours, theirs.feature_importances_, atol=0.012)
    assert ours.sum() == pytest.approx(1)


def test_mean_of_many_bootstrapped_trees_is_that_of_scikit_learns():
    X, steps, weight = problem()
    options = {"depth": 4, "bootstrap": True, "min_rows_per_leaf": 3}
    ours = np.mean([values_by_following(tree, X) for tree in grown(X, steps, weight, n_trees=1500, **options)], axis=0)
    theirs = ExtraTreesRegressor(
        1500, max_depth=4, bootstrap=True, min_samples_leaf=3, max_features=None, random_state=0
    ).fit(X, steps[:, 0], weight)
    np.testing.assert_allclose(ours[:, 0], theirs.predict(X), atol=0.12)


def test_leaves_have_enough_different_rows():
    X, steps, _ = problem()
    for tree in grown(X, steps, np.ones(len(X)), depth=5, min_rows_per_leaf=7):
        assert np.unique(leaf_of(tree, X), return_counts=True)[1].min() >= 7


def test_rows_without_weight_are_not_seen():
    X, steps, weight = problem()
    weight[50:] = 0
    other = steps.copy()
    other[50:] = 1e6
    for bootstrap in (False, True):
        one, two = (grown(X, Y, weight, bootstrap=bootstrap) for Y in (steps, other))
        for tree, same in zip(one, two, strict=True):
            np.testing.assert_array_equal(tree.value, same.value)


def test_constant_columns_are_never_split_and_do_not_use_up_candidates():
    X, steps, weight = problem()
    X[:, 1:] = 3
    assert all(tree.column[0] == 0 for tree in grown(X, steps, weight, n_candidates=1))
    X[:, 0] = 3
    for tree in grown(X, steps, weight):
        assert (tree.column == -1).all()
        np.testing.assert_allclose(tree.value, np.average(steps, weights=weight[:, None]))


def test_steps_that_are_all_equal_give_no_split():
    X, _, weight = problem()
    assert all((tree.column == -1).all() for tree in grown(X, np.full((80, 2), 0.1), weight))


def test_one_row_that_differs_in_one_output_is_enough_for_a_split():
    X, _, weight = problem()
    for row in (0, 79):
        steps = np.full((80, 3), 0.1)
        steps[row, 2] = 1
        assert all(tree.column[0] >= 0 for tree in grown(X, steps, weight))


def test_of_many_rows_every_tree_is_given_another_part():
    X, steps, _ = problem(n_rows=500)
    steps[:, 0] = np.arange(500)
    means = {float(tree.value[0, 0]) for tree in grown(X, steps, np.ones(500), depth=1, n_trees=6, rows_per_tree=30)}
    assert len(means) == 6
    assert all(abs(mean * 30 - round(mean * 30)) < 1e-6 for mean in means), "means of thirty whole numbers"
    everything = grown(X, steps, np.ones(500), depth=1, rows_per_tree=500)
    assert {float(tree.value[0, 0]) for tree in everything} == {249.5}


def test_same_seed_gives_the_same_trees():
    one, same, other = (grown(*problem(), seed=seed) for seed in (1, 1, 2))
    assert all(
        np.array_equal(a.threshold[a.column >= 0], b.threshold[b.column >= 0]) for a, b in zip(one, same, strict=True)
    )
    assert any(not np.array_equal(a.column, b.column) for a, b in zip(one, other, strict=True))
