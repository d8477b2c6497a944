"""Shift and scale of columns: what they are in ordinary columns, and in those with a few wild cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from skinnytrees import SkinnyTreesClassifier
from skinnytrees.tables.scaling import Scaling

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(3, 2, size=2_000)
ORDINARY = {
    "normal": NORMAL,
    "exponential": RNG.exponential(size=2_000),
    "log-normal": np.exp(RNG.normal(size=2_000)),
    "heavy tails": RNG.standard_t(2, size=2_000),
    "a long tail": np.exp(2 * RNG.normal(size=2_000)),
    "counts, mostly zero": RNG.poisson(30, size=2_000) * (RNG.random(2_000) < 0.2),
    "counts, often zero": RNG.poisson(30, size=2_000) * (RNG.random(2_000) < 0.35),
    "rare indicator": (np.arange(2_000) % 500 == 0).astype(float),
    "two clusters": np.append(RNG.normal(size=1_900), RNG.normal(1_000, 1, size=100)),
    "constant": np.full(2_000, 0.1),
    "missing": np.full(2_000, np.nan),
}


@pytest.mark.parametrize("x", ORDINARY.values(), ids=ORDINARY.keys())
def test_ordinary_column_keeps_its_mean_and_deviation_to_the_last_bit(x):
    table, weight = np.column_stack([x, NORMAL]), RNG.uniform(0.5, 2, 2_000)
    plain, robust = Scaling.learn(table, weight), Scaling.learn_robust(table, weight)
    np.testing.assert_array_equal(plain.mean, robust.mean)
    np.testing.assert_array_equal(plain.scale, robust.scale)


@pytest.mark.parametrize("wild", [[1e6], [-1e6], [1e6, -3e9], [1e150]], ids=str)
@pytest.mark.parametrize("n_rows", [40, 2_000])
def test_wild_cells_do_not_inflate_the_scale(wild, n_rows):
    x = NORMAL[:n_rows].copy()
    x[: len(wild) if n_rows > 100 else 1] = wild if n_rows > 100 else wild[0]
    scaling = Scaling.learn_robust(np.column_stack([x, NORMAL[:n_rows]]), np.ones(n_rows))
    assert abs(scaling.mean[0] - 3) < 1
    assert 1.5 < scaling.scale[0] < 3.5
    # BLAS may add up one column in another order than two.
    assert scaling.scale[1] == pytest.approx(Scaling.learn(NORMAL[:n_rows, None], np.ones(n_rows)).scale[0], rel=1e-12)


@pytest.mark.filterwarnings("ignore:overflow")
def test_cell_whose_square_is_infinite_does_no_harm():
    x = np.append(NORMAL, 1e300)
    assert 1.5 < Scaling.learn_robust(x[:, None], np.ones(len(x))).scale[0] < 2.5


def test_wild_cells_in_a_column_with_gaps_and_in_single_precision():
    x = np.where(np.arange(2_000) % 3 == 0, np.nan, NORMAL).astype(np.float32)
    x[1] = 1e9
    assert 1.5 < Scaling.learn_robust(x[:, None], np.ones(2_000)).scale[0] < 2.5


@pytest.mark.parametrize(
    "others", [[1.0, 2.0, 1e6], np.ones(200), np.geomspace(1, 40, 200), [*np.ones(200), *np.full(9, 1e6)]]
)
def test_column_that_has_one_value_in_most_rows_is_left_alone_unless_one_of_many_others_is_wild(others):
    x = np.zeros((2_000, 1))
    x[: len(others), 0] = others
    np.testing.assert_array_equal(Scaling.learn_robust(x, np.ones(2_000)).scale, Scaling.learn(x, np.ones(2_000)).scale)


@given(st.integers(0, 1000))
def test_weight_is_the_same_as_repeated_rows(seed):
    rng = np.random.default_rng(seed)
    x, times = np.append(rng.normal(size=300), 1e7), rng.integers(1, 4, size=301)
    weighted = Scaling.learn_robust(x[:, None], times.astype(float))
    repeated = Scaling.learn_robust(np.repeat(x, times)[:, None], np.ones(times.sum()))
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-12)
    np.testing.assert_allclose(weighted.scale, repeated.scale, rtol=1e-12)
    assert weighted.scale < 2


def test_sparse_columns_without_outliers_are_scaled_as_ever():
    rng = np.random.default_rng(0)
    counts = rng.geometric(0.3, size=2_000) * (rng.random(2_000) < 0.2)
    X = sparse.csr_array(np.column_stack([NORMAL, np.exp(NORMAL), counts, counts > 0]).astype(float))
    np.testing.assert_array_equal(Scaling.learn_robust(X, np.ones(2_000)).scale, Scaling.learn(X, np.ones(2_000)).scale)


@pytest.mark.parametrize(("common", "unit"), [(0.0, 1.0), (7.0, 1.0), (0.0, 1e200), (0.0, 1e-200)])
def test_wild_cell_does_not_inflate_the_scale_of_a_column_that_has_one_value_in_most_rows(common, unit):
    x = np.full(2_000, common)
    x[:600] += RNG.normal(size=600)
    plain = Scaling.learn_robust(x[:, None] * unit, np.ones(2_000))
    x[0] = 1e6
    wild = Scaling.learn_robust(x[:, None] * unit, np.ones(2_000))
    assert wild.scale[0] == pytest.approx(plain.scale[0], rel=0.05)
    assert abs(wild.mean[0] - plain.mean[0]) < 0.02 * plain.scale[0]


def test_wild_cell_of_a_sparse_column_does_not_inflate_its_scale():
    X = sparse.csr_array(np.column_stack([NORMAL, np.append(NORMAL[1:], 1e6)]))
    plain, wild = Scaling.learn_robust(X, np.ones(2_000)).scale
    assert wild == pytest.approx(plain, rel=0.05)


def test_one_wild_cell_does_not_disable_a_column():
    X = np.random.default_rng(1).normal(size=(3_000, 4))
    y = X[:, 0] > 0
    X[5, 0] = 1e6
    model = SkinnyTreesClassifier(1, random_state=0).fit(X[:2_000], y[:2_000])
    assert model.support_[0]
    assert model.score(X[2_000:], y[2_000:]) > 0.98
