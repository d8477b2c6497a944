"""A fit depends on what columns hold, not on where they stand or how the table is stored."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.penalties import GroupL0
from skinnytrees.tables.column_order import column_hashes
from skinnytrees.tables.frames import read_table
from skinnytrees.tables.rows import Rows

pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")

QUICK = {"max_epochs": 3, "n_estimators": 4, "random_state": 0}
WAYS = {"path": {"feature_budget": 4}, "group_l0": {"penalty": GroupL0(0.5)}}


def table(seed=0, n_rows=80, n_columns=12):
    """Numbers, codes and counts that are mostly zero; the target depends on four of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, ::3] = rng.integers(0, 3, size=X[:, ::3].shape)
    X[:, 1::3] *= rng.random(X[:, 1::3].shape) < 0.3
    return X, X[:, 0] + X[:, 1] - X[:, 5] * X[:, 3] + 0.1 * rng.normal(size=n_rows)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(3))
def test_reordered_columns_give_the_same_model_on_the_reordered_columns(way, seed):
    X, y = table(seed)
    shuffled = np.random.default_rng(seed).permutation(X.shape[1])
    reference = SkinnyTreesRegressor(**QUICK, **WAYS[way]).fit(X, y)
    model = SkinnyTreesRegressor(**QUICK, **WAYS[way]).fit(X[:, shuffled], y)
    np.testing.assert_array_equal(model.support_, reference.support_[shuffled])
    np.testing.assert_allclose(model.predict(X[:, shuffled]), reference.predict(X), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_reordered_groups_costs_and_categories_go_with_their_columns():
    X, y = table()
    names = [f"c{k}" for k in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names).assign(c3=np.where(X[:, 3] > 1, "high", "low"))
    settings = {
        **QUICK, "feature_budget": 5, "feature_groups": {"a": ["c0", "c7"], "b": ["c1", "c2", "c9"]},
        "feature_costs": {"c5": 2.0, "c4": 0.5}, "always_select": ["c8"],
    }  # fmt: skip
    reference = SkinnyTreesRegressor(**settings).fit(frame, y)
    model = SkinnyTreesRegressor(**settings).fit(frame[names[::-1]], y)
    assert set(model.get_feature_names_out()) == set(reference.get_feature_names_out())
    np.testing.assert_allclose(model.predict(frame[names[::-1]]), reference.predict(frame), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("store", [sparse.csr_array, sparse.csc_matrix, np.asfortranarray])
def test_sparse_and_dense_versions_of_a_table_give_the_same_model(way, store):
    X, y = table()
    X = np.where(np.random.default_rng(1).random(X.shape) < 0.6, 0, X)
    reference = SkinnyTreesClassifier(**QUICK, **WAYS[way]).fit(X, y > 0)
    model = SkinnyTreesClassifier(**QUICK, **WAYS[way]).fit(store(X), y > 0)
    np.testing.assert_array_equal(model.support_, reference.support_)
    np.testing.assert_array_equal(model.predict_proba(X), reference.predict_proba(X))


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_large_sparse_table_with_few_zeros_gives_the_model_of_the_dense_one():
    """One row more than are read as a dense table for their size alone; zeros that are stored do not count."""
    X, y = table(n_rows=2**17 + 1, n_columns=32)
    stored = sparse.csr_array(X)
    assert math.prod(X.shape) > 2**22
    assert 0.5 < stored.nnz / X.size < 0.8
    settings = {**QUICK, "penalty": GroupL0(0.01), "max_epochs": 1}
    reference = SkinnyTreesRegressor(**settings).fit(X, y)
    model = SkinnyTreesRegressor(**settings).fit(stored, y)
    np.testing.assert_array_equal(model.support_, reference.support_)
    np.testing.assert_array_equal(model.predict(X[:100]), reference.predict(X[:100]))


def test_large_sparse_table_of_mostly_zeros_stays_sparse_also_if_zeros_are_stored():
    stored = sparse.csr_array(
        (np.zeros(2**22 + 1), np.zeros(2**22 + 1, dtype=int), [0, 2**22 + 1]), shape=(1, 2**22 + 1)
    )
    stored.indices = np.arange(2**22 + 1, dtype=np.int32)
    stored.data[:5] = 1
    numbers = read_table(SkinnyTreesRegressor(), stored, None)
    assert sparse.issparse(numbers)
    assert numbers.nnz == 5


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_reordered_columns_of_a_large_sparse_table_give_the_same_support(monkeypatch):
    monkeypatch.setattr("skinnytrees.tables.frames._DENSE_UP_TO", 0)
    monkeypatch.setattr("skinnytrees.tables.frames._DENSE_FROM", 1.1)
    X, y = table(n_columns=200)
    X = sparse.csr_array(np.where(np.random.default_rng(1).random(X.shape) < 0.6, 0, X))
    shuffled = np.random.default_rng(2).permutation(X.shape[1])
    reference = SkinnyTreesRegressor(5, **QUICK).fit(X, y)
    model = SkinnyTreesRegressor(5, **QUICK).fit(X[:, shuffled], y)
    np.testing.assert_array_equal(model.support_, reference.support_[shuffled])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_hashes_of_columns_are_their_own_and_follow_the_columns(dtype):
    """Columns of zeros and ones with equal sums are the hard case: only their rows tell them apart."""
    rng = np.random.default_rng(0)
    X = np.zeros((40, 300), dtype=dtype)
    for column in X.T:
        column[rng.choice(40, size=10, replace=False)] = 1
    X[:, 299] = np.nan
    rows, columns, Y = rng.permutation(40), rng.permutation(300), rng.integers(0, 2, size=(40, 1)).astype(float)
    hashes = column_hashes(Rows(X, Y, np.ones(40)))
    assert len(np.unique(hashes)) == 300
    moved = column_hashes(Rows(X[rows][:, columns], Y[rows], np.ones(40)))
    np.testing.assert_array_equal(moved, hashes[columns])
    np.testing.assert_array_equal(column_hashes(Rows(sparse.csr_array(X), Y, np.ones(40))), hashes)
