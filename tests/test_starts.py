"""Where training starts: the weights of new ensembles."""

from dataclasses import replace

import numpy as np
import pytest
from reference import Ensemble, predict, values_by_following
from scipy import sparse

from skinnytrees.activations import Sigmoid
from skinnytrees.extra_trees import grow_trees
from skinnytrees.kernels.state import Data, start_trees
from skinnytrees.losses import Huber, Multinomial, SquaredError
from skinnytrees.optimizers import Adam, OneCycle
from skinnytrees.path.rules import DEFAULT_RULES, Recipe
from skinnytrees.path.trainer import Trainer, newton_steps, steps_towards_targets
from skinnytrees.starts import AxisAligned, Boosted, Glorot, Grown, StartRows
from skinnytrees.tables.table_views import view


def table(n_rows=40, n_columns=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns)).astype(np.float32)


def blind(X, n_outputs=1):
    return StartRows.without_steps(X, n_outputs)


def test_glorots_start_is_that_of_the_authors():
    trees = Glorot().trees(blind(table(), 2), 3, 2, np.random.default_rng(1))
    np.testing.assert_array_equal(trees.flat, start_trees(6, 3, 2, 2, np.random.default_rng(1)).flat)


@pytest.mark.parametrize("steepness", [0.5, 3.0])
def test_every_split_reads_one_column_and_its_threshold_is_a_value_of_that_column(steepness):
    X = table()
    trees = AxisAligned(steepness).trees(blind(X, 2), 5, 3, np.random.default_rng(1))
    assert trees.W.shape == (6, 5 * 7)
    assert trees.O.shape == (2, 5 * 8)
    for weight, bias in zip(trees.W.T, trees.b, strict=True):
        (column,) = np.flatnonzero(weight)
        assert abs(weight[column]) == pytest.approx(steepness)
        threshold = -bias / weight[column]
        assert np.abs(X[:, column] - threshold).min() < 1e-5
    assert len(set(np.abs(trees.W).argmax(axis=0))) == 6, "all columns are used"
    assert {-1, 1} == set(np.sign(trees.W.sum(axis=0))), "in both directions"


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.csr_matrix, view])
def test_start_is_the_same_for_a_sparse_table_and_for_a_view(kind):
    X = np.where(np.random.default_rng(1).random((40, 6)) < 0.6, 0, table()).astype(np.float32)
    dense, other = (AxisAligned().trees(blind(one), 5, 3, np.random.default_rng(2)) for one in (X, kind(X)))
    np.testing.assert_array_equal(dense.flat, other.flat)


def test_leaves_are_small_random_numbers():
    glorot, axes = (one.trees(blind(table()), 4, 2, np.random.default_rng(1)) for one in (Glorot(), AxisAligned()))
    np.testing.assert_allclose(axes.O, 0.1 * glorot.O, rtol=1e-6)


def test_table_without_columns_has_a_start():
    trees = AxisAligned().trees(blind(np.zeros((5, 0), np.float32)), 2, 1, np.random.default_rng(0))
    assert trees.W.shape == (0, 2)
    assert np.isfinite(trees.flat).all()


@pytest.mark.parametrize("steepness", [0, -1.0])
def test_flat_splits_are_refused(steepness):
    with pytest.raises(ValueError, match=r"steepness=.* must be a positive number, such as 3"):
        AxisAligned(steepness)


def steep_and_grown(n_rows=60, depth=3, n_outputs=2, weight=None):
    """Rows, and trees with splits so steep that they are as hard as those of scikit-learn."""
    X = table(n_rows)
    steps = np.column_stack([X[:, 0] * X[:, 1], np.abs(X[:, 2]), X[:, 3]])[:, :n_outputs].astype(np.float64)
    rows = StartRows(X, np.ones(n_rows) if weight is None else weight, steps)
    return rows, Grown(steepness=1e7).trees(rows, 8, depth, np.random.default_rng(3))


@pytest.mark.parametrize(("depth", "n_outputs"), [(1, 1), (3, 2), (4, 3)])
def test_hard_grown_trees_say_what_the_grown_trees_say(depth, n_outputs):
    rows, trees = steep_and_grown(depth=depth, n_outputs=n_outputs)
    rng = np.random.default_rng(3)
    start_trees(6, 8, depth, n_outputs, rng)  # draws that are not used
    grown = grow_trees(
        rows.X.T, rows.steps, rows.weight, depth=depth, rng=rng, n_trees=8, bootstrap=True, min_rows_per_leaf=2
    )
    expected = np.mean([values_by_following(tree, rows.X) for tree in grown], axis=0)
    np.testing.assert_allclose(predict(Ensemble.of(trees), rows.X, Sigmoid()), expected, atol=1e-5)


def test_rows_without_weight_are_not_seen_by_grown_trees():
    weight = np.where(np.arange(60) < 40, 1.0, 0.0)
    rows, trees = steep_and_grown(weight=weight)
    rows.steps[40:] = 1e6
    again = Grown(steepness=1e7).trees(rows, 8, 3, np.random.default_rng(3))
    np.testing.assert_array_equal(trees.flat, again.flat)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, view])
def test_trees_grow_alike_on_a_sparse_table_and_on_a_view(kind):
    rows, trees = steep_and_grown()
    again = Grown(steepness=1e7).trees(rows._replace(X=kind(rows.X)), 8, 3, np.random.default_rng(3))
    np.testing.assert_array_equal(trees.flat, again.flat)


def test_constant_columns_and_tables_without_columns_grow_trees_that_say_the_mean_step():
    steps = np.arange(20.0).reshape(-1, 1)
    for n_columns in (0, 2):
        rows = StartRows(np.ones((20, n_columns), np.float32), np.ones(20), steps)
        trees = Grown().trees(rows, 50, 2, np.random.default_rng(0))
        outputs = predict(Ensemble.of(trees), rows.X, Sigmoid())
        assert np.ptp(outputs) < 1e-4
        assert outputs.mean() == pytest.approx(9.5 if n_columns else 0.0, abs=1.0)


@pytest.mark.parametrize(("n_candidates", "n_outputs"), [(6, 1), (20, 2)])
def test_every_boosted_tree_is_grown_for_what_those_before_it_have_left(n_candidates, n_outputs):
    rows, _ = steep_and_grown(n_rows=80, n_outputs=n_outputs)
    start = Boosted(rate=0.3, steepness=1e7, n_candidates=n_candidates, min_rows_per_leaf=3)
    trees = start.trees(rows, 8, 3, np.random.default_rng(3))
    rng = np.random.default_rng(3)
    start_trees(6, 8, 3, n_outputs, rng)  # draws that are not used
    n_candidates //= n_outputs
    repeated = np.tile(rows.X, (1, -(-n_candidates // 6)))
    expected = np.zeros_like(rows.steps)
    for _ in range(8):
        (tree,) = grow_trees(
            repeated.T, rows.steps - expected, rows.weight, depth=3, rng=rng, n_trees=1, n_candidates=n_candidates,
            min_rows_per_leaf=3,
        )  # fmt: skip
        expected += 0.3 * values_by_following(tree, repeated)
    np.testing.assert_allclose(predict(Ensemble.of(trees), rows.X, Sigmoid()), expected, atol=1e-5)


@pytest.mark.parametrize("kind", [sparse.csr_array, view])
def test_boosted_trees_are_the_same_on_a_sparse_table_and_on_a_view(kind):
    rows, _ = steep_and_grown()
    dense, other = (
        Boosted().trees(one, 5, 3, np.random.default_rng(0)) for one in (rows, rows._replace(X=kind(rows.X)))
    )
    np.testing.assert_array_equal(dense.flat, other.flat)


def test_boosted_trees_without_columns_say_nothing():
    rows = StartRows(np.ones((20, 0), np.float32), np.ones(20), np.ones((20, 1)))
    assert not Boosted().trees(rows, 3, 2, np.random.default_rng(0)).flat.any()


@pytest.mark.parametrize(("loss", "n_outputs"), [(SquaredError(), 1), (Multinomial(), 3)])
def test_boosted_trees_follow_the_gradient_of_any_loss(loss, n_outputs):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)).astype(np.float32)
    y = (X[:, 0] > 0.3).astype(int) + (X[:, 1] > 0)
    Y = y.astype(np.float32).reshape(-1, 1)
    recipe = replace(DEFAULT_RULES.final.boosted, n_trees=60, depth=3)
    data = Data(X, Y, np.ones(600, dtype=np.float32))
    trainer = Trainer(loss, Sigmoid(), n_outputs)
    trees, _ = trainer.start(data, recipe, rng)
    outputs = trainer.outputs(trees, X)
    found = outputs.argmax(axis=1) if n_outputs > 1 else outputs[:, 0].round()
    assert np.mean(found == y) > 0.98


def test_steps_from_other_outputs_follow_the_gradient_there():
    y = np.arange(40) % 4
    data, at_zero = trained_on(y.reshape(-1, 1), Multinomial(), 4)
    steps_from = newton_steps(Trainer(Multinomial(), Sigmoid(), 4), data)
    outputs = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    P = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    unit = at_zero[0, 0] / 0.75
    np.testing.assert_allclose(steps_from(outputs), (np.eye(4)[y] - P) * unit, rtol=1e-4, atol=1e-6)


def trained_on(Y, loss, n_outputs=None):
    n_rows, n_outputs = len(Y), n_outputs or Y.shape[1]
    data = Data(table(n_rows), Y.astype(np.float32), np.ones(n_rows, dtype=np.float32))
    return data, steps_towards_targets(Trainer(loss, Sigmoid(), n_outputs), data)


def test_step_of_the_squared_error_ends_at_the_target():
    Y = table(30, 2)
    np.testing.assert_allclose(trained_on(Y, SquaredError())[1], Y, rtol=1e-5)


def test_steps_of_a_class_are_its_residuals_at_even_odds_in_one_unit():
    y = np.arange(40) % 4
    steps = trained_on(y.reshape(-1, 1), Multinomial(), 4)[1]
    residuals = np.eye(4)[y] - 0.25
    np.testing.assert_allclose(steps, residuals * (steps[0, 0] / residuals[0, 0]), atol=1e-6)
    assert 4 < steps[0, 0] / residuals[0, 0] < 6, "the curvature of a class is 3/16 at even odds"


def test_targets_that_a_loss_is_flat_in_give_no_step():
    data, steps = trained_on(np.full((20, 1), 5.0), Huber(1.0))
    assert (steps == 0).all()
    recipe = replace(DEFAULT_RULES.final.grown, n_trees=5)
    trees, loss = Trainer(Huber(1.0), Sigmoid(), 1).start(data, recipe, np.random.default_rng(0))
    assert not trees.O.any()
    assert loss == pytest.approx(4.5)


def test_pure_interaction_is_learned_from_axes_where_glorots_start_stays_on_the_plateau():
    """The product of three signs among five columns: fewer than all three say nothing."""
    X = np.sign(table(400, 5))
    data = Data(X, X[:, :3].prod(axis=1, keepdims=True), np.ones(400, dtype=np.float32))
    recipe = Recipe(
        n_trees=30,
        depth=4,
        learning_rate=0.03,
        l2=0.1,
        n_epochs=6,
        batch_size=32,
        optimizer=Adam(),
        schedule=OneCycle(),
    )
    trainer = Trainer(SquaredError(), Sigmoid(), 1)
    fractions = {}
    for start in (Glorot(), AxisAligned()):
        trees, _ = trainer.start(data, replace(recipe, start=start), np.random.default_rng(0))
        residual = data.Y - predict(Ensemble.of(trees), X, Sigmoid())
        fractions[type(start)] = float(np.mean(residual**2))
    assert fractions[AxisAligned] < 0.2 < 0.8 < fractions[Glorot]
