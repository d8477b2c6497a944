"""Calibration: the factor of raw outputs that rows which did not train an ensemble allow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skinnytrees.path.calibration import best_factor, effective_rows


@pytest.mark.parametrize("factor", [0.15, 0.5, 1.0, 2.0])
def test_known_factor_is_recovered_from_many_rows(factor):
    """The mean square of (f x - c x) has its least value at f = c."""
    x = np.random.default_rng(0).normal(size=10_000)
    found = best_factor(lambda f: float(np.mean((f * x - factor * x) ** 2)), n_rows=10_000)
    assert found == pytest.approx(factor, rel=0.02)


def test_fewer_rows_draw_the_factor_towards_one():
    def loss(factor):
        return (np.log(factor) - np.log(0.2)) ** 2

    found = [best_factor(loss, n_rows) for n_rows in (1, 3, 10, 1000)]
    assert found == sorted(found, reverse=True)
    # (log f - log 0.2)^2 + (log f)^2 / n has its least value at log f = log 0.2 n / (n + 1).
    np.testing.assert_allclose(np.log(found), [np.log(0.2) * n / (n + 1) for n in (1, 3, 10, 1000)], atol=0.02)


@given(st.floats(-50, 50), st.floats(1, 1e6))
def test_factor_stays_within_its_limits(slope, n_rows):
    assert 0.09 < best_factor(lambda factor: slope * factor, n_rows) < 3.01


def test_factor_is_one_where_no_loss_is_a_number():
    assert best_factor(lambda factor: np.nan, 100) == 1


def test_flat_loss_leaves_the_outputs_as_they_are():
    assert best_factor(lambda factor: 0.7, 50) == pytest.approx(1, abs=0.02)


def test_effective_rows_are_those_of_equal_weight_and_less_where_weights_differ():
    assert effective_rows(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_rows(np.array([5.0, 5.0, 0.0, 0.0])) == pytest.approx(2)
    assert 1 < effective_rows(np.array([10.0, 1.0, 1.0])) < 3
