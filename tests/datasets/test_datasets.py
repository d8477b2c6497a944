"""Loaders of the paper's data sets, on small files of the same form."""

import numpy as np
import pytest
from scipy import sparse

from skinnytrees.datasets import available, data_folder, load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SKINNYTREES_DATA", str(tmp_path))
    return tmp_path


def store_numbers(folder, name, **more):
    rng = np.random.default_rng(0)
    X = np.column_stack([5 + 3 * rng.standard_normal(100), rng.integers(0, 2, 100), np.arange(100.0)])
    X[::10, 0] = np.nan
    np.savez(folder / f"{name}.npz", X=X, y=np.arange(100) % 4, **more)
    return X


def rows_of(data):
    """Original row numbers of the parts, read off a column that counted them, whatever its scale."""
    parts = [part[:, 2] for part in (data.X_train, data.X_val, data.X_test)]
    order = np.argsort(np.argsort(np.concatenate(parts)))
    return np.split(order, np.cumsum([len(part) for part in parts])[:-1])


def test_rows_are_split_64_16_20_with_equal_classes_and_no_row_twice(folder):
    store_numbers(folder, "numbers")
    data = load("numbers")
    assert [len(y) for y in (data.y_train, data.y_val, data.y_test)] == [64, 16, 20]
    assert all(len(set(np.bincount(y))) == 1 for y in (data.y_train, data.y_val, data.y_test))
    np.testing.assert_array_equal(np.sort(np.concatenate(rows_of(data))), np.arange(100))


def test_another_seed_gives_another_split_and_the_same_seed_the_same(folder):
    store_numbers(folder, "numbers")
    own, again, other = load("numbers"), load("numbers", seed=8), load("numbers", seed=9)
    np.testing.assert_array_equal(own.X_test, again.X_test)
    assert set(rows_of(own)[2]) != set(rows_of(other)[2])


def test_columns_are_scaled_by_training_rows_alone_and_binary_ones_left(folder):
    X = store_numbers(folder, "numbers")
    data = load("numbers")
    train, _, test = rows_of(data)
    mean, deviation = np.nanmean(X[train, 0]), np.nanstd(X[train, 0])
    expected = np.nan_to_num((X[test, 0] - mean) / deviation, nan=0.0)  # a missing value becomes the mean
    np.testing.assert_allclose(data.X_test[:, 0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(data.X_test[:, 1], X[test, 1])


def test_official_validation_rows_are_the_test_rows(folder):
    X = store_numbers(folder, "madelon", split=np.arange(100) >= 60)
    data = load("madelon")
    np.testing.assert_array_equal(np.sort(rows_of(data)[2]), np.arange(60, 100))
    assert len(X) == len(data.y_train) + len(data.y_val) + len(data.y_test)


def test_categories_of_churn_become_one_column_a_level(folder):
    names = ["area code", "international plan", "voice mail plan", "number customer service calls", "total day minutes"]
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, n, 100) for n in (3, 2, 2, 4)] + [rng.standard_normal(100)])
    np.savez(folder / "churn.npz", X=X, y=np.arange(100) % 2, feature_names=np.array(names))
    data = load("churn")
    assert data.X_train.shape == (64, 3 + 2 + 2 + 4 + 1)
    np.testing.assert_array_equal(data.X_train[:, :3].sum(axis=1), np.ones(64))


def test_a_sparse_set_stays_sparse(folder):
    X = sparse.random_array((100, 30), density=0.1, format="csr", rng=np.random.default_rng(0))
    np.savez(folder / "cells.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=np.arange(100) % 2)
    data = load("cells")
    assert sparse.issparse(data.X_train)
    assert data.X_train.nnz + data.X_val.nnz + data.X_test.nnz == X.nnz


def test_a_missing_folder_or_set_says_what_to_do(folder, monkeypatch):
    store_numbers(folder, "numbers")
    assert available() == ["numbers"]
    with pytest.raises(FileNotFoundError, match=r"no data set 'numbrs'. Use one of \['numbers'\]"):
        load("numbrs")
    monkeypatch.delenv("SKINNYTREES_DATA")
    with pytest.raises(FileNotFoundError, match="Set it to the folder"):
        data_folder()
