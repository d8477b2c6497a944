"""Parts of a table are read where they stand, and training on them is training on copies of them."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.state import Data, start_trees
from skinnytrees.losses import Multinomial
from skinnytrees.optimizers import SGD, Adam, FixedSupportSGD
from skinnytrees.penalties import GroupL0, NoPenalty
from skinnytrees.tables import table_views
from skinnytrees.tables.table_views import PickedRows, StackedRows
from skinnytrees.training.epoch_runners.active_set import largest_column_norms
from skinnytrees.training.epoch_runners.sample_space import gram_matrix, transposed_product
from skinnytrees.training.loop import TrainingSettings, evaluate, train

seeds = st.integers(0, 2**32 - 1)
SETTINGS = TrainingSettings(Multinomial(), Sigmoid(), n_epochs=5, batch_size=16, learning_rate=0.1, l2=0.1)
WAYS = {
    "penalised": replace(SETTINGS, n_epochs=20, penalty=GroupL0(gamma=0.3, rate=0.02)),
    "penalised on two threads": replace(SETTINGS, penalty=GroupL0(gamma=0.3, rate=0.02), n_threads=2),
    "plain steps": replace(SETTINGS, penalty=NoPenalty(), optimizer=FixedSupportSGD()),
    "Adam": replace(SETTINGS, penalty=NoPenalty(), optimizer=Adam(), learning_rate=0.01),
}


@pytest.fixture
def small_pieces(monkeypatch):
    """Tables of tests are small: read them in pieces all the same, and copy no part of them."""
    monkeypatch.setattr(table_views, "_MULTIPLIED_AT_ONCE", 100)
    monkeypatch.setattr(table_views, "_SMALL", 0)


def picked(rng, n_rows, n_columns, picks_columns):
    """Rows of a larger table in a random order, all of its columns or some; and a copy of them."""
    table = rng.standard_normal((2 * n_rows, 2 * n_columns if picks_columns else n_columns), dtype=np.float32)
    rows = rng.permutation(len(table))[:n_rows]
    columns = rng.permutation(table.shape[1])[:n_columns] if picks_columns else None
    view = PickedRows(table, rows, columns)
    return view, np.ascontiguousarray(table[rows] if columns is None else table[rows][:, columns])


@given(seeds, st.integers(1, 12))
def test_picked_rows_are_the_rows_and_columns_that_indexing_gives(seed, n_columns):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((20, 12))
    rows, again = rng.integers(0, 20, 15), rng.integers(0, 15, 6)
    columns = rng.integers(0, 12, n_columns)
    picked = PickedRows(table, rows)[:, columns]
    assert picked.shape == (15, n_columns)
    np.testing.assert_array_equal(picked[3:9], table[rows][:, columns][3:9])
    np.testing.assert_array_equal(np.asarray(picked.take(again)), table[rows][again][:, columns])
    np.testing.assert_array_equal(picked[:, np.array([0])][:], table[rows][:, columns[:1]])
    whole = PickedRows(table)
    np.testing.assert_array_equal(whole[:, columns][2:7], table[2:7][:, columns])
    np.testing.assert_array_equal(whole.take(rows)[:], table[rows])


@given(seeds, st.integers(0, 6), st.integers(0, 6))
def test_stacked_rows_are_those_of_the_tables_one_below_the_other(seed, first, n):
    rng = np.random.default_rng(seed)
    upper, lower, columns = rng.standard_normal((4, 3)), rng.standard_normal((5, 3)), rng.integers(0, 3, 2)
    stacked, copy = StackedRows((PickedRows(upper, np.array([2, 0])), lower)), np.concatenate([upper[[2, 0]], lower])
    assert stacked.shape == copy.shape
    np.testing.assert_array_equal(stacked[first : first + n], copy[first : first + n])
    np.testing.assert_array_equal(np.asarray(stacked[:, columns]), copy[:, columns])


@pytest.mark.parametrize("picks_columns", [False, True])
@pytest.mark.parametrize("picks_rows", [False, True])
def test_products_with_a_part_are_those_with_a_copy_of_it(picks_rows, picks_columns, small_pieces):
    rng = np.random.default_rng(0)
    view, copy = picked(rng, 30, 40, picks_columns)
    if not picks_rows:
        view, copy = PickedRows(copy if view.columns is None else view.table, None, view.columns), copy
        copy = np.asarray(view)
    W, A = rng.standard_normal((40, 7), dtype=np.float32), rng.standard_normal((len(copy), 6), dtype=np.float32)
    np.testing.assert_allclose(view @ W, copy @ W, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(transposed_product(view, A), copy.T @ A, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gram_matrix(view), copy @ copy.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(largest_column_norms(view, 8), largest_column_norms(copy, 8), rtol=1e-6)
    trees, functions = start_trees(40, 5, 2, 2, rng), SETTINGS.functions(np.float32)
    np.testing.assert_allclose(evaluate(trees, view, functions), evaluate(trees, copy, functions), atol=1e-6)


@pytest.mark.parametrize("n_columns", [12, 300], ids=["tall", "wide"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_training_on_a_part_is_training_on_a_copy_of_it(way, n_columns, small_pieces):
    """To the last bit where rows are gathered batch by batch, to rounding in sample space."""
    rng = np.random.default_rng(1)
    view, copy = picked(rng, 60, n_columns, picks_columns=not isinstance(way.optimizer, SGD))
    Y, weight = rng.integers(0, 2, (60, 1)).astype(np.float32), rng.uniform(0.5, 2, 60).astype(np.float32)
    trained = []
    for X in (view, copy):
        trees = start_trees(n_columns, 5, 2, 2, np.random.default_rng(2))
        reports = train(trees, Data(X, Y, weight), np.arange(n_columns + 1), way, np.random.default_rng(3))
        trained.append((trees.flat, [(report.loss, report.n_features) for report in reports]))
    (ours, seen), (theirs, seen_on_copy) = trained
    if n_columns < 60 or isinstance(way.optimizer, Adam):
        np.testing.assert_array_equal(ours, theirs)
        assert seen == seen_on_copy
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(seen, seen_on_copy, rtol=1e-4)


def test_small_part_is_copied_and_a_large_one_is_not():
    table = np.zeros((2000, 4000), dtype=np.float32)
    few, many = (PickedRows(table, None, np.arange(n)).copied_if_small() for n in (100, 3000))
    assert isinstance(few, np.ndarray)
    assert isinstance(many, PickedRows)


def fit_and_measure(model, X, y, **validation):
    """The fitted model, and the peak of the memory that was taken, in megabytes."""
    tracemalloc.start()
    try:
        model.fit(X, y, **validation)
        return model, tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def rows_to_fit(n_rows, n_columns):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    return X, (X[:, 0] + X[:, 1] + X[:, 2] > 0).astype(int)


@pytest.mark.parametrize("way", ["penalty", "dense"])
@pytest.mark.parametrize("shape", [(12000, 1000), (600, 24000)], ids=["tall", "wide"])
def test_table_that_needs_no_change_is_not_copied(way, shape):
    X, y = rows_to_fit(*shape)
    penalty = GroupL0(1e-3) if way == "penalty" else None
    model = SkinnyTreesClassifier(
        penalty=penalty, standardize=False, n_estimators=2, max_depth=1, max_epochs=2, random_state=0
    )
    model.fit(X[:50], y[:50])  # compiles
    on_float32, megabytes = fit_and_measure(model, X, y)
    # Pieces, norms of columns, and in sample space the products of all rows, but no second table, which would take 46 and more.
    assert megabytes < 28
    on_float64 = model.__sklearn_clone__().fit(X.astype(np.float64), y)
    np.testing.assert_array_equal(on_float32.support_, on_float64.support_)
    np.testing.assert_allclose(on_float32.predict_proba(X), on_float64.predict_proba(X), atol=1e-5)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")
@pytest.mark.parametrize("order", [np.ascontiguousarray, np.asfortranarray], ids=["C", "Fortran"])
@pytest.mark.parametrize("value", [np.nan, 1e20], ids=["missing", "far"])
def test_table_of_single_precision_that_needs_a_change_is_fitted_as_any_other(order, value):
    X, y = rows_to_fit(80, 6)
    X[3, 2] = value
    models = [
        SkinnyTreesClassifier(penalty=GroupL0(1e-3), standardize=False, max_epochs=3, random_state=0).fit(table, y)
        for table in (order(X), X.astype(np.float64))
    ]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))
    assert np.isnan(X).sum() == np.isnan(value)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")
def test_table_that_may_not_be_written_to_is_fitted_as_any_other():
    X, y = rows_to_fit(80, 6)
    model = SkinnyTreesRegressor(penalty=GroupL0(1e-3), standardize=False, max_epochs=3, random_state=0)
    expected = model.fit(X, y).predict(X)
    X.flags.writeable = False
    np.testing.assert_array_equal(model.fit(X, y).predict(X), expected)


@pytest.mark.parametrize("validation", ["held out", "given"])
def test_path_makes_no_more_than_one_copy_of_the_table(validation):
    """One copy, standardised; beside it ensembles, and copies of few columns."""
    X, y = rows_to_fit(4000, 3000)
    model = SkinnyTreesClassifier(10, max_epochs=1, random_state=0)
    model.fit(X[:500, :200], y[:500])  # compiles
    given = {} if validation == "held out" else {"X_val": X[:500], "y_val": y[:500]}
    model, megabytes = fit_and_measure(model, X, y, **given)
    one_copy = (4 * X.size + 4 * len(given.get("X_val", ())) * X.shape[1]) / 2**20
    assert megabytes < one_copy + 38
    assert {0, 1, 2} <= set(model.get_support(indices=True))
