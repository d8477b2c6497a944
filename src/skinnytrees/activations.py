"""How a split sends a sample left and right: the probability to go left as a function of w.x + b."""

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numba import carray, types

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.compilation import function_argument, inner_kernel, scalar_type


class Activation(Protocol):
    """What the ensemble asks of an activation."""

    theta: float

    def kernel(self, dtype: Any) -> Any:
        """Compiled ``(z and probability, slope, n, theta)``: overwrites z by the probability to go left, fills the slope."""


@dataclass(frozen=True)
class Sigmoid:
    """Logistic routing, ``1 / (1 + exp(-z / theta))``.

    Parameters
    ----------
    theta : float, default=1.0
        Softness: the smaller, the harder the split.

    Examples
    --------
    >>> from skinnytrees.activations import Sigmoid
    >>> Sigmoid().theta
    1.0
    """

    theta: float = 1.0
    name: ClassVar[str] = "sigmoid"

    def __post_init__(self) -> None:
        """Refuse a softness that is not positive."""
        refuse_unless(self.theta > 0, f"theta={self.theta!r} must be a positive number, such as 1.0.")

    def kernel(self, dtype: Any) -> Any:
        """Compiled routing function; in float32 a rational function that runs in SIMD lanes."""
        fill = _fill_sigmoid_float32 if np.dtype(dtype) == np.float32 else _fill_sigmoid
        return _compiled(fill, np.dtype(dtype))


@dataclass(frozen=True)
class SmoothStep:
    """Cubic routing with exact zeros and ones: 0 below -theta, 1 above theta, differentiable between.

    Parameters
    ----------
    theta : float, default=1.0
        Half the width of the soft part (paper, assumption A1).

    Examples
    --------
    >>> from skinnytrees.activations import SmoothStep
    >>> SmoothStep(theta=0.5).theta
    0.5
    """

    theta: float = 1.0
    name: ClassVar[str] = "smoothstep"

    def __post_init__(self) -> None:
        """Refuse a width that is not positive."""
        refuse_unless(self.theta > 0, f"theta={self.theta!r} must be a positive number, such as 1.0.")

    def kernel(self, dtype: Any) -> Any:
        """Compiled routing function."""
        return _compiled(_fill_smooth_step, np.dtype(dtype))


ACTIVATIONS: dict[str, type[Sigmoid] | type[SmoothStep]] = {kind.name: kind for kind in (Sigmoid, SmoothStep)}


@functools.cache
def _compiled(fill: Any, dtype: np.dtype) -> Any:
    array = types.CPointer(scalar_type(dtype))
    return function_argument(types.void(array, array, types.int64, types.float64), fill)


def _fill_sigmoid(z_address, slope_address, n, theta):  # type: ignore[no-untyped-def]
    z, slope = carray(z_address, n), carray(slope_address, n)
    for i in range(n):
        probability = 1 / (1 + math.exp(-z[i] / theta))
        z[i] = probability
        slope[i] = probability * (1 - probability) / theta


def _fill_sigmoid_float32(z_address, slope_address, n, theta):  # type: ignore[no-untyped-def]
    _rational_sigmoid(carray(z_address, n), carray(slope_address, n), theta)


@inner_kernel
def _rational_sigmoid(z, slope, theta):  # type: ignore[no-untyped-def]
    # probability = (1 + tanh(z / (2 theta))) / 2 with the minimax rational tanh that numeric libraries use in float32
    # (degree 13 over degree 6, exact to rounding); numba's exp would not run in SIMD lanes. A kernel of its own,
    # because a function argument checks every division, which keeps it out of SIMD lanes, too.
    half, one, limit = np.float32(0.5), np.float32(1), np.float32(7.90531110763549805)
    scale, inverse = np.float32(0.5 / theta), np.float32(1 / theta)
    a1, a3, a5, a7 = (np.float32(4.89352455891786e-03), np.float32(6.37261928875436e-04),
                      np.float32(1.48572235717979e-05), np.float32(5.12229709037114e-08))  # fmt: skip
    a9, a11, a13 = (
        np.float32(-8.60467152213735e-11),
        np.float32(2.00018790482477e-13),
        np.float32(-2.76076847742355e-16),
    )
    b0, b2, b4, b6 = (np.float32(4.89352518554385e-03), np.float32(2.26843463243900e-03),
                      np.float32(1.18534705686654e-04), np.float32(1.19825839466702e-06))  # fmt: skip
    for i in range(z.shape[0]):
        x = z[i] * scale
        x = limit if x > limit else x  # written so that NaN stays NaN and divergence shows
        x = -limit if x < -limit else x
        q = x * x
        above = x * (a1 + q * (a3 + q * (a5 + q * (a7 + q * (a9 + q * (a11 + q * a13))))))
        probability = half + half * (above / (b0 + q * (b2 + q * (b4 + q * b6))))
        z[i] = probability
        slope[i] = probability * (one - probability) * inverse


def _fill_smooth_step(z_address, slope_address, n, theta):  # type: ignore[no-untyped-def]
    z, slope = carray(z_address, n), carray(slope_address, n)
    scale = z.dtype.type(1 / theta)
    one, half, quarter, three = z.dtype.type(1), z.dtype.type(0.5), z.dtype.type(0.25), z.dtype.type(3)
    for i in range(n):
        x = z[i] * scale
        x = one if x > one else x
        x = -one if x < -one else x
        z[i] = half + quarter * x * (three - x * x)
        slope[i] = three * quarter * (one - x * x) * scale
