"""Routing functions against their definitions."""

import numpy as np
import pytest
from reference import route, run_activation
from scipy.special import expit

from skinnytrees.activations import Sigmoid, SmoothStep

THETAS = [0.1, 1.0, 3.0]
BOTH = pytest.mark.parametrize("kind", [Sigmoid, SmoothStep])


@BOTH
@pytest.mark.parametrize("theta", THETAS)
def test_slope_is_the_derivative_of_the_probability(kind, theta):
    z = theta * np.linspace(-2.03, 2.03, 204)  # no point is within h of the smooth-step's ends
    h = 1e-5 * theta
    difference = (run_activation(kind(theta), z + h)[0] - run_activation(kind(theta), z - h)[0]) / (2 * h)
    np.testing.assert_allclose(run_activation(kind(theta), z)[1], difference, rtol=1e-6, atol=1e-9 / theta)


@BOTH
@pytest.mark.parametrize("theta", THETAS)
def test_probability_is_that_of_the_formula(kind, theta):
    z = theta * np.linspace(-5, 5, 101)
    np.testing.assert_allclose(run_activation(kind(theta), z), route(kind(theta), z), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("theta", THETAS)
def test_float32_sigmoid_is_exact_to_rounding(theta):
    z = (theta * np.linspace(-30, 30, 100_001)).astype(np.float32)
    probability, slope = run_activation(Sigmoid(theta), z)
    exact = expit(z.astype(np.float64) / theta)
    np.testing.assert_allclose(probability, exact, rtol=0, atol=4e-7)
    np.testing.assert_allclose(slope, exact * (1 - exact) / theta, rtol=0, atol=4e-7 / theta)
    assert probability.min() >= 0
    assert probability.max() <= 1


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_is_passed_on_so_that_divergence_shows(kind, dtype):
    probability, slope = run_activation(kind(), np.array([0.3, np.nan, -0.3], dtype=dtype))
    assert np.isnan(probability).tolist() == [False, True, False]
    assert np.isnan(slope).tolist() == [False, True, False]


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinity_is_routed_to_one_side(kind, dtype):
    probability, slope = run_activation(kind(), np.array([-np.inf, -1e30, 1e30, np.inf], dtype=dtype))
    np.testing.assert_allclose(probability, [0, 0, 1, 1], atol=4e-7)
    np.testing.assert_allclose(slope, 0, atol=4e-7)


@pytest.mark.parametrize("theta", [*THETAS, 0.7, 1 / 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_smooth_step_is_exactly_zero_and_one_beyond_theta(theta, dtype):
    beyond = (theta * np.array([1.000001, 1.01, 2, 1e6])).astype(dtype)
    for z, side in [(beyond, 1), (-beyond, 0)]:
        probability, slope = run_activation(SmoothStep(theta), z)
        assert (probability == side).all()
        assert (slope == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("theta", [1.0, 0.7])
def test_smooth_step_stays_between_zero_and_one_next_to_theta(theta, dtype):
    steps = np.arange(-2000, 2000) * np.finfo(dtype).eps
    edge = (theta * (1 + steps)).astype(dtype)
    for z in (edge, -edge):
        probability, slope = run_activation(SmoothStep(theta), z)
        assert probability.min() >= 0
        assert probability.max() <= 1
        assert slope.min() >= 0


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probability_never_falls_as_the_sample_moves_left(kind, dtype):
    z = np.linspace(-8, 8, 4001).astype(dtype)
    probability, slope = run_activation(kind(), z)
    assert (np.diff(probability) >= -np.finfo(dtype).eps).all()
    assert (slope >= 0).all()
    np.testing.assert_allclose(probability + probability[::-1], 1, atol=4 * np.finfo(dtype).eps)  # S(-z) = 1 - S(z)


@BOTH
@pytest.mark.parametrize("theta", [0.0, -1.0, float("nan")])
def test_softness_that_is_not_positive_is_refused(kind, theta):
    with pytest.raises(ValueError, match=r"theta=.* must be a positive number"):
        kind(theta)
