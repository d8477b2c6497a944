"""Constant and equal columns, types of numbers and layouts of arrays."""

import numpy as np
import pytest

from skinnytrees import SkinnyTreesRegressor
from tables.helpers import QUICK, N

# Whether a penalty removes anything is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


def test_constant_columns_are_never_chosen():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(N, 7.0), rng.normal(size=(N, 2)), np.full(N, 1e9 / 3), np.zeros(N)])
    model = SkinnyTreesRegressor(size_rule="full", **QUICK).fit(X, X[:, 1])
    assert model.get_support(indices=True).tolist() == [1, 2]
    assert model.path_.n_features[0] == 2


def test_constant_column_is_taken_when_it_must_be():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(N, 7.0), rng.normal(size=(N, 2))])
    model = SkinnyTreesRegressor(2, always_select=[0], size_rule="full", **QUICK).fit(X, X[:, 1])
    assert model.get_support(indices=True).tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_table_of_constants_gives_the_constant():
    y = np.arange(40.0)
    model = SkinnyTreesRegressor(**QUICK).fit(np.ones((40, 3)), y)
    assert np.ptp(model.predict(np.ones((5, 3)))) == 0
    assert abs(model.predict(np.ones((1, 3)))[0] - y.mean()) < y.std()


@pytest.mark.parametrize("n_rows", [100, 360])
def test_of_two_equal_columns_one_is_enough(n_rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5))
    X[:, 3] = X[:, 0]
    y = X[:, 0] + X[:, 1]
    model = SkinnyTreesRegressor(2, max_epochs=10, n_estimators=20, random_state=0).fit(X, y)
    selected = set(model.get_support(indices=True))
    assert selected in ({0, 1}, {1, 3})
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool, np.float16, np.float32, object])
def test_type_of_the_numbers_does_not_matter(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2 if dtype is bool else 9, size=(N, 4)).astype(dtype)
    y = X[:, 1].astype(float)
    reference = SkinnyTreesRegressor(2, **QUICK).fit(X.astype(np.float64), y)
    model = SkinnyTreesRegressor(2, **QUICK).fit(X, y)
    np.testing.assert_array_equal(model.support_, reference.support_)
    np.testing.assert_allclose(model.predict(X), reference.predict(X.astype(np.float64)), rtol=1e-5)


def test_layout_of_the_array_does_not_matter():
    X = np.random.default_rng(0).normal(size=(N, 4))
    reference = SkinnyTreesRegressor(2, **QUICK).fit(X, X[:, 0])
    wide = np.repeat(X, 2, axis=1)
    for other in (np.asfortranarray(X), wide[:, ::2], X.tolist()):
        model = SkinnyTreesRegressor(2, **QUICK).fit(other, X[:, 0])
        np.testing.assert_array_equal(model.predict(other), reference.predict(X))
