"""A forest that helps to rank groups on few rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestRegressor

from skinnytrees import SkinnyTreesRegressor
from skinnytrees.kernels.state import Data
from skinnytrees.losses import Multinomial
from skinnytrees.path import walk
from skinnytrees.path.forest import forest_importance
from skinnytrees.path.points import PathPoint, keep_by_norm, keep_by_norm_and
from skinnytrees.path.screening import screen
from skinnytrees.path.targets import Target, falling_targets
from skinnytrees.tables.groups import Groups

from .helpers import make_groups, make_inputs, random_problem


def table(n_rows=80, n_columns=12, kind=np.asarray):
    X = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    X[np.abs(X) < 0.3] = 0
    y = np.round(X[:, :1] ** 2 * 4) / 4  # steps to such targets are exact
    return Data(kind(X.astype(np.float32)), y.astype(np.float32), np.ones(n_rows, dtype=np.float32))


def test_importance_is_that_of_a_forest_for_the_targets():
    data = table()
    seed = int(np.random.default_rng(1).integers(2**31))
    forest = RandomForestRegressor(100, max_features="sqrt", random_state=seed).fit(data.X, data.Y[:, 0], data.weight)
    importance = forest_importance(make_inputs(data), np.random.default_rng(1))
    np.testing.assert_allclose(importance, forest.feature_importances_, rtol=1e-4)
    assert importance.argmax() == 0


def test_importance_of_a_group_is_that_of_all_its_columns():
    data = table()
    groups = make_groups(np.ones(4), column_offsets=np.array([0, 1, 4, 10, 12]))
    single = forest_importance(make_inputs(data), np.random.default_rng(1))
    grouped = forest_importance(make_inputs(data, groups), np.random.default_rng(1))
    np.testing.assert_allclose(grouped, [single[0], single[1:4].sum(), single[4:10].sum(), single[10:].sum()])


def many_places(X):
    X = sparse.csr_array(X)
    return sparse.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, many_places])
def test_sparse_tables_have_a_forest(kind):
    importance = forest_importance(make_inputs(table(kind=kind)), np.random.default_rng(1))
    assert importance.argmax() == 0
    assert importance.sum() == pytest.approx(1.0)


def test_classes_have_a_forest():
    data = table()
    data = data._replace(Y=(data.Y > 0.5).astype(np.float32))
    inputs = make_inputs(data, loss=Multinomial(), n_outputs=2)
    assert forest_importance(inputs, np.random.default_rng(1)).argmax() == 0


def test_groups_are_kept_by_the_sum_of_two_ranks():
    data, groups = table(n_columns=4), Groups.singles(4)
    inputs = make_inputs(data, groups)
    trees, loss = inputs.trainer.start(data, inputs.recipes.screen, np.random.default_rng(0))
    trees.W[:] = np.array([[4.0], [3.0], [2.0], [1.0]])
    point = PathPoint(np.arange(4), trees, loss)
    assert keep_by_norm(point, groups, Target(2, 9)).tolist() == [0, 1]
    assert keep_by_norm_and(np.array([0.1, 0.0, 0.3, 0.6]), point, groups, Target(2, 9)).tolist() == [0, 2]


def test_importance_counts_only_at_sizes_that_are_large_for_the_rows():
    """The forest is told to prefer columns of noise: they stay until there are fewer than a fifth of the rows."""
    X, y = random_problem(0, 60, n_rows=100)
    y = X[:, 0] * 3
    data = Data(X.astype(np.float32), y.astype(np.float32).reshape(-1, 1), np.ones(100, dtype=np.float32))
    misleading = np.where(np.arange(60) >= 50, 1.0, 0.0)
    inputs = make_inputs(data)
    targets = falling_targets(inputs.groups, 5, inputs.rules.sizes)
    points = list(screen(inputs, targets, np.random.default_rng(0), misleading))
    kept = {len(point.groups): np.isin(np.arange(50, 60), point.groups).sum() for point in points}
    assert kept[min(size for size in kept if size >= 20)] >= 8
    assert kept[1] == 0, "the one column that matters is left"


@pytest.mark.parametrize(("n_columns", "n_forests"), [(5, 0), (60, 6)])
def test_forest_is_grown_once_for_every_walk_where_columns_are_many(n_columns, n_forests, monkeypatch):
    grown = []

    def counted(*arguments):
        grown.append(1)
        return forest_importance(*arguments)

    monkeypatch.setattr(walk, "forest_importance", counted)
    X, y = random_problem(0, n_columns, n_rows=100)
    SkinnyTreesRegressor(max_epochs=1, n_estimators=5, random_state=0).fit(X, y)
    assert len(grown) == n_forests, "on all rows and on those of five folds"


def test_columns_of_noise_do_not_crowd_out_weak_effects():
    """Forty weak effects among 160 columns: at forty columns, more than half are true ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 160))
    y = X[:, :40].sum(axis=1) + rng.normal(size=200)
    model = SkinnyTreesRegressor(40, size_rule="full", random_state=0).fit(X, y)
    assert (model.get_support(indices=True) < 40).sum() > 20
