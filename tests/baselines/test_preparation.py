"""The matrix that all systems get, against scikit-learn's transformers."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from skinnytrees.baselines.preparation import MOST_LEVELS, Preparation

NUMBERS = np.zeros(4, dtype=bool)


@pytest.fixture
def gaps():
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(50, 4))
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def prepared(X, is_categorical, standardize, weight=None):
    preparation = Preparation.learn(X, np.ones(X.shape[0]) if weight is None else weight, is_categorical, standardize)
    return preparation, preparation.encode(X[:, preparation.features])


def test_missing_numbers_become_the_median_and_columns_are_standardised(gaps):
    expected = StandardScaler().fit_transform(SimpleImputer(strategy="median").fit_transform(gaps))
    np.testing.assert_allclose(prepared(gaps, NUMBERS, True)[1], expected, atol=1e-12)


def test_weights_count_as_repetitions_in_means_and_scales(gaps):
    filled = np.nan_to_num(gaps)
    weight = np.arange(50) % 3 + 1.0
    repeated = np.repeat(filled, weight.astype(int), axis=0)
    one, _ = prepared(filled, NUMBERS, True, weight)
    other, _ = prepared(repeated, NUMBERS, True)
    np.testing.assert_allclose(one.mean, other.mean)
    np.testing.assert_allclose(one.scale, other.scale)


def test_a_category_is_one_feature_with_a_column_per_level_and_one_for_missing():
    X = np.array([[0.0, 5.0], [1.0, 6.0], [2.0, 7.0], [np.nan, 8.0]])
    preparation, matrix = prepared(X, np.array([True, False]), False)
    assert preparation.feature.tolist() == [0, 0, 0, 0, 1]
    np.testing.assert_array_equal(matrix[:, :4], np.eye(4))
    unknown = preparation.encode(np.array([[-1.0, 5.0]]))
    np.testing.assert_array_equal(unknown, [[0, 0, 0, 0, 5.0]])


def test_columns_that_do_not_vary_are_left_out():
    X = np.column_stack([np.full(5, 0.1), np.arange(5.0), np.full(5, np.nan), np.zeros(5), 1e6 + 1e-7 * np.arange(5)])
    is_categorical = np.array([False, False, False, True, False])
    assert prepared(X, is_categorical, True)[0].feature.tolist() == [1]


def test_many_levels_are_limited_to_the_most_frequent():
    codes = np.append(np.repeat(np.arange(MOST_LEVELS), 2), np.arange(MOST_LEVELS, MOST_LEVELS + 30)).astype(float)
    preparation, _ = prepared(codes[:, None], np.array([True]), False)
    assert preparation.level.tolist() == list(range(MOST_LEVELS))


def test_sparse_columns_are_scaled_and_stay_sparse():
    X = sparse.random(60, 4, 0.3, "csr", rng=np.random.default_rng(0))
    _, matrix = prepared(X, NUMBERS, True)
    assert sparse.issparse(matrix)
    np.testing.assert_allclose(matrix.toarray(), StandardScaler(with_mean=False).fit_transform(X).toarray())


def test_selected_columns_are_those_of_the_whole_matrix(gaps):
    is_categorical = np.array([False, True, False, False])
    codes = np.where(np.isnan(gaps), np.nan, np.floor(gaps * 2))
    preparation, matrix = prepared(codes, is_categorical, True)
    columns = np.flatnonzero(np.isin(preparation.feature, [1, 3]))
    some = preparation.select(columns)
    assert some.features.tolist() == [1, 3]
    np.testing.assert_array_equal(some.encode(codes[:, [1, 3]]), matrix[:, columns])
