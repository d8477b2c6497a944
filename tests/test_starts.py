"""Where training starts: the weights of new ensembles."""

from dataclasses import replace

import numpy as np
import pytest
from reference import Ensemble, predict
from scipy import sparse

from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.state import Data, start_trees
from skinnytrees.losses import SquaredError
from skinnytrees.optimizers import Adam, OneCycle
from skinnytrees.path.rules import Recipe
from skinnytrees.path.trainer import Trainer
from skinnytrees.starts import AxisAligned, Glorot
from skinnytrees.tables.table_views import view


def table(n_rows=40, n_columns=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n_rows, n_columns)).astype(np.float32)


def test_glorots_start_is_that_of_the_authors():
    trees = Glorot().trees(table(), 3, 2, 2, np.random.default_rng(1))
    np.testing.assert_array_equal(trees.flat, start_trees(6, 3, 2, 2, np.random.default_rng(1)).flat)


@pytest.mark.parametrize("steepness", [0.5, 3.0])
def test_every_split_reads_one_column_and_its_threshold_is_a_value_of_that_column(steepness):
    X = table()
    trees = AxisAligned(steepness).trees(X, 5, 3, 2, np.random.default_rng(1))
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
    dense, other = (AxisAligned().trees(one, 5, 3, 1, np.random.default_rng(2)) for one in (X, kind(X)))
    np.testing.assert_array_equal(dense.flat, other.flat)


def test_leaves_are_small_random_numbers():
    glorot, axes = (one.trees(table(), 4, 2, 1, np.random.default_rng(1)) for one in (Glorot(), AxisAligned()))
    np.testing.assert_allclose(axes.O, 0.1 * glorot.O, rtol=1e-6)


def test_table_without_columns_has_a_start():
    trees = AxisAligned().trees(np.zeros((5, 0), np.float32), 2, 1, 1, np.random.default_rng(0))
    assert trees.W.shape == (0, 2)
    assert np.isfinite(trees.flat).all()


@pytest.mark.parametrize("steepness", [0, -1.0])
def test_flat_splits_are_refused(steepness):
    with pytest.raises(ValueError, match=r"steepness=.* must be a positive number, such as 3"):
        AxisAligned(steepness)


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
