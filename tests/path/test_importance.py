"""What says something about every group besides an ensemble: extra trees, and marginal effects."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.feature_selection import f_classif, r_regression

from skinnytrees import SkinnyTreesRegressor
from skinnytrees.kernels.state import Data
from skinnytrees.losses import Multinomial, SquaredError
from skinnytrees.path import importance, pruning, walk
from skinnytrees.path.importance import (
    importance_before_pruning,
    importance_for_screening,
    marginal_effects,
    some_rows,
    transposed,
    tree_importances,
)
from skinnytrees.path.points import PathPoint, keep_by_norm
from skinnytrees.path.rules import DEFAULT_RULES, replace_rule
from skinnytrees.path.screening import screen
from skinnytrees.path.targets import Target, falling_targets
from skinnytrees.path.trainer import steps_towards_targets
from skinnytrees.tables.groups import Groups
from skinnytrees.tables.table_views import view

from .helpers import make_groups, make_inputs, random_problem

ALL_SIZES = replace_rule(DEFAULT_RULES, "importance.from_groups", 1)


def table(n_rows=80, n_columns=12, kind=np.asarray):
    X = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    X[np.abs(X) < 0.3] = 0
    y = np.round(X[:, :1] ** 2 * 4) / 4  # steps to such targets are exact
    return Data(kind(X.astype(np.float32)), y.astype(np.float32), np.ones(n_rows, dtype=np.float32))


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def effects_of(data, steps=None):
    return marginal_effects(transposed(data.X), data.Y if steps is None else steps, data.weight)


def trees_on(data, n_trees=50, **changes):
    """Importance of every design column in extra trees for the targets."""
    inputs = make_inputs(data, rules=ALL_SIZES, **changes)
    steps, rng = steps_towards_targets(inputs.trainer, data), np.random.default_rng(1)
    return tree_importances(transposed(data.X), steps, data.weight, inputs.rules.importance, n_trees, rng)


def test_tree_importance_is_that_of_extra_trees_for_the_targets():
    data = table()
    found = trees_on(data, n_trees=500)
    theirs = ExtraTreesRegressor(500, max_depth=6, max_features="sqrt", random_state=0)
    np.testing.assert_allclose(found, theirs.fit(data.X, data.Y[:, 0]).feature_importances_, atol=0.04)
    assert found.argmax() == 0


def test_second_of_two_classes_changes_no_importance(monkeypatch):
    data = table()
    data = data._replace(Y=(data.Y > 0.5).astype(np.float32))
    of_one = trees_on(data, loss=Multinomial(), n_outputs=2)
    monkeypatch.setattr(np, "array_equal", lambda *_: False)
    np.testing.assert_array_equal(trees_on(data, loss=Multinomial(), n_outputs=2), of_one)


def test_of_a_wide_sparse_table_the_trees_read_the_columns_of_largest_marginal_effect(monkeypatch):
    data = table(n_rows=20, n_columns=100, kind=sparse.csr_array)
    read = []
    monkeypatch.setattr(importance, "tree_importances", lambda *given: read.append(given[0]) or np.zeros(len(given[0])))
    importance_for_screening(make_inputs(data, rules=ALL_SIZES), np.random.default_rng(0))
    largest = np.sort(effects_of(data).argsort()[-20:])
    np.testing.assert_array_equal(read[0], data.X[:, largest].toarray().T)


@pytest.mark.parametrize("kind", [np.asarray, view, sparse.csr_array])
def test_transposed_design_is_the_design(kind):
    X = table(n_rows=150).X
    columns = transposed(kind(X))
    np.testing.assert_array_equal(dense(columns), X.T)


def test_sparse_columns_that_are_too_many_to_be_dense_are_pruned_by_their_costs_alone():
    wide = make_inputs(table(n_rows=20, n_columns=100, kind=sparse.csr_array), rules=ALL_SIZES)
    assert importance_before_pruning(wide, np.arange(100), np.random.default_rng(0)) is None
    assert importance_before_pruning(wide, np.arange(20), np.random.default_rng(0)) is not None


def test_importance_of_a_group_is_that_of_all_its_columns():
    data, alive = table(), np.array([0, 1, 3])
    groups = make_groups(np.ones(4), column_offsets=np.array([0, 1, 4, 10, 12]))
    inputs = make_inputs(data, groups, ALL_SIZES)
    columns = np.array([0, 1, 2, 3, 10, 11])
    of_columns = trees_on(data._replace(X=data.X[:, columns]), n_trees=100)
    grouped = importance_before_pruning(inputs, alive, np.random.default_rng(1))
    np.testing.assert_allclose(grouped, [of_columns[0], of_columns[1:4].sum(), 0, of_columns[4:].sum()])


def many_places(X):
    X = sparse.csr_array(X)
    return sparse.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, many_places])
def test_sparse_tables_have_the_importance_of_dense_ones(kind):
    inputs = [make_inputs(table(kind=kind), rules=ALL_SIZES) for kind in (kind, np.asarray)]
    kept_sparse, dense = (importance_for_screening(one, np.random.default_rng(1)) for one in inputs)
    assert np.abs(kept_sparse - dense).max() <= 2, "ranks of columns that matter as little as each other"
    assert kept_sparse.argmax() == 0
    np.testing.assert_allclose(*[effects_of(one.data) for one in inputs], rtol=1e-3, atol=1e-7)


def test_marginal_effects_on_numbers_are_squared_correlations():
    data = table()
    expected = r_regression(data.X, data.Y[:, 0]) ** 2
    np.testing.assert_allclose(effects_of(data), expected, rtol=1e-3, atol=1e-6)


def test_marginal_effects_on_classes_rank_columns_as_the_f_test():
    rng = np.random.default_rng(0)
    X, label = rng.normal(size=(90, 15)).astype(np.float32), np.repeat([0, 1, 2], 30)
    X += rng.normal(size=(3, 15))[label] * 0.5
    one_hot = np.eye(3)[label]
    data = Data(X.astype(np.float32), label[:, None], np.ones(90, dtype=np.float32))
    F = f_classif(data.X, label)[0]
    np.testing.assert_array_equal(np.argsort(effects_of(data, one_hot)), np.argsort(F))


def test_weights_count_rows_in_marginal_effects():
    data = table(n_rows=30)
    times = np.random.default_rng(2).integers(1, 4, size=30)
    repeated = Data(*(np.repeat(part, times, axis=0) for part in data))
    np.testing.assert_allclose(
        effects_of(data._replace(weight=times.astype(np.float32))),
        effects_of(repeated),
        rtol=1e-3,
        atol=1e-6,
    )


def test_columns_and_targets_that_do_not_vary_have_no_marginal_effect():
    data = table()
    data.X[:, 3] = 2
    assert effects_of(data)[3] == 0
    assert not effects_of(data, np.ones((80, 2))).any()


@pytest.mark.parametrize(("loss", "n_outputs"), [(Multinomial(), 2), (SquaredError(), 1)])
def test_column_that_matters_only_symmetrically_is_seen_by_the_trees(loss, n_outputs):
    data = table()
    if n_outputs == 2:
        data = data._replace(Y=(data.Y > 0.5).astype(np.float32))
    assert trees_on(data, loss=loss, n_outputs=n_outputs).argmax() == 0


def test_groups_are_kept_by_the_sum_of_two_ranks():
    data, groups = table(n_columns=4), Groups.singles(4)
    inputs = make_inputs(data, groups)
    trees, loss = inputs.trainer.start(data, inputs.recipes.screen, np.random.default_rng(0))
    trees.W[:] = np.array([[4.0], [3.0], [2.0], [1.0]])
    point = PathPoint(np.arange(4), trees, loss)
    assert keep_by_norm(point, groups, Target(2, 9)).tolist() == [0, 1]
    assert keep_by_norm(point, groups, Target(2, 9), np.array([0.1, 0.0, 0.3, 0.6])).tolist() == [0, 2]


@pytest.mark.parametrize("kind", [np.asarray, view, sparse.csr_array])
def test_of_many_rows_a_part_with_weight_is_copied(kind):
    data = table(n_rows=90, kind=kind)
    data.weight[:30] = 0
    rules = replace(DEFAULT_RULES.importance, most_rows_per_tree=10, most_rows=50)
    some = some_rows(data, rules, np.random.default_rng(0))
    assert some.X.shape == (50, 12)
    assert some.weight.all()
    together = {tuple(row) for row in np.hstack([dense(data.X), data.Y])}
    assert {tuple(row) for row in np.hstack([dense(some.X), some.Y])} <= together
    assert some_rows(data, replace(rules, most_rows=90), np.random.default_rng(0)) is data


def test_of_wide_tables_no_more_values_are_copied_than_the_trees_need(monkeypatch):
    monkeypatch.setattr(importance, "_MOST_VALUES", 240)
    rules = replace(DEFAULT_RULES.importance, most_rows_per_tree=5)
    assert len(some_rows(table(), rules, np.random.default_rng(0)).Y) == 20
    enough = replace(rules, most_rows_per_tree=40)
    assert len(some_rows(table(), enough, np.random.default_rng(0)).Y) == 40


@pytest.mark.parametrize("costs", [None, {0: 2.0, 1: 3.0}])
def test_screening_before_pruning_asks_the_trees_too(costs, monkeypatch):
    """Groups that an importance prefers are kept until pruning begins."""
    preferred = np.arange(50, 60)
    begun_with = []
    monkeypatch.setattr(walk, "importance_for_screening", lambda *_: np.isin(np.arange(60), preferred).astype(float))
    monkeypatch.setattr(pruning, "importance_before_pruning", lambda _, alive, rng: begun_with.append(alive))
    X, y = random_problem(0, 60, n_rows=200)
    model = SkinnyTreesRegressor(
        5, max_epochs=1, n_estimators=5, random_state=0, feature_costs=costs, validation_fraction=0.2
    )
    model._rules = replace_rule(replace_rule(DEFAULT_RULES, "pruning.needs_rows", 30), "pruning.starts_at", 15)
    model.fit(X, y)
    assert begun_with
    assert min(np.isin(preferred, groups).sum() for groups in begun_with) >= 6, "2.5 of 10 by chance"


def test_screening_without_an_importance_goes_by_norm_alone():
    """An importance that prefers columns of noise keeps them; without one, they go first."""
    X, y = random_problem(0, 60, n_rows=100)
    y = X[:, 0] * 3
    data = Data(X.astype(np.float32), y.astype(np.float32).reshape(-1, 1), np.ones(100, dtype=np.float32))
    misleading = np.where(np.arange(60) >= 50, 1.0, 0.0)
    inputs = make_inputs(data, rules=replace(DEFAULT_RULES, swaps=replace(DEFAULT_RULES.swaps, rounds=0)))
    targets = falling_targets(inputs.groups, 5, inputs.rules.sizes)

    def noise_left(told):
        points = list(screen(inputs, targets, np.random.default_rng(0), told))
        return next(np.isin(np.arange(50, 60), point.groups).sum() for point in points if len(point.groups) == 10)

    assert noise_left(misleading) >= 5 > noise_left(None)


@pytest.mark.parametrize(("n_columns", "n_forests"), [(5, 0), (60, 6)])
def test_trees_are_grown_once_for_every_walk_where_columns_are_many(n_columns, n_forests, monkeypatch):
    found = []

    def counted(*arguments):
        found.append(importance_for_screening(*arguments))
        return found[-1]

    monkeypatch.setattr(walk, "importance_for_screening", counted)
    X, y = random_problem(0, n_columns, n_rows=100)
    SkinnyTreesRegressor(max_epochs=1, n_estimators=5, random_state=0).fit(X, y)
    assert len(found) == 6, "on all rows and on those of five folds"
    assert sum(one is not None for one in found) == n_forests


@pytest.mark.parametrize(("n_columns", "is_asked"), [(10, False), (30, True)])
def test_both_branches_of_pruning_use_one_importance(n_columns, is_asked, monkeypatch):
    given, eliminate = [], pruning.eliminate
    monkeypatch.setattr(pruning, "eliminate", lambda *arguments: given.append(arguments[-1]) or eliminate(*arguments))
    X, y = random_problem(0, n_columns, n_rows=100)
    model = SkinnyTreesRegressor(max_epochs=1, n_estimators=5, random_state=0, validation_fraction=0.2)
    model._rules = replace_rule(DEFAULT_RULES, "pruning.needs_rows", 30)
    model.fit(X, y)
    assert {one is not None for one in given} == {is_asked}
    if is_asked:
        first = [one for one in given if len(one) == n_columns]
        np.testing.assert_array_equal(*first)


def test_columns_of_noise_do_not_crowd_out_weak_effects():
    """Forty weak effects among 160 columns: at forty columns, more than half are true ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 160))
    y = X[:, :40].sum(axis=1) + rng.normal(size=200)
    model = SkinnyTreesRegressor(40, size_rule="full", random_state=0).fit(X, y)
    assert (model.get_support(indices=True) < 40).sum() > 20


def test_columns_of_noise_do_not_crowd_out_redundant_columns_where_there_are_many_rows():
    """Twenty copies of ten columns, each with noise of its own: removing one costs as little as removing a column of noise."""
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(700, 10))
    copies = np.repeat(signal, 2, axis=1) + 0.5 * rng.normal(size=(700, 20))
    X = np.column_stack([copies, rng.normal(size=(700, 40))])
    y = signal.sum(axis=1) + rng.normal(size=700)

    def copies_kept(noise_costs):
        model = SkinnyTreesRegressor(20, size_rule="full", random_state=0)
        model._rules = replace_rule(DEFAULT_RULES, "elimination.noise_costs", noise_costs)
        return int((model.fit(X, y).get_support(indices=True) < 20).sum())

    assert copies_kept(DEFAULT_RULES.elimination.noise_costs) >= copies_kept(0.0)
    assert copies_kept(DEFAULT_RULES.elimination.noise_costs) >= 18
