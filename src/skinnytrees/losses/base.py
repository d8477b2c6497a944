"""What training asks of a loss, whoever wrote it."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import types
from numpy.typing import NDArray

from skinnytrees.kernels.compilation import scalar_type


class TargetScale(NamedTuple):
    """Targets are trained on as ``(y - shift) / scale``; a raw output r then stands for ``raw_scale r + raw_shift``."""

    shift: NDArray[Any]
    scale: NDArray[Any]
    raw_shift: NDArray[Any]
    raw_scale: NDArray[Any]

    @classmethod
    def none(cls, n_outputs: int) -> "TargetScale":
        """Targets as they are."""
        return cls(np.zeros(1), np.ones(1), np.zeros(n_outputs), np.ones(n_outputs))


class Loss(Protocol):
    """What training and the regressor ask of a loss."""

    parameter: float
    can_be_calibrated: bool

    def function(self, dtype: Any) -> Any:
        """Compiled ``(F, Y, G, row_loss, n, n_outputs, target_width, parameter)`` that fills G and row_loss."""

    def target_scale(self, mean: NDArray[Any], deviation: NDArray[Any]) -> TargetScale:
        """How targets of this mean and standard deviation are best brought to size one."""

    def to_prediction(self, raw: NDArray[Any]) -> NDArray[Any]:
        """From raw outputs to the target's scale."""

    def check_target(self, y: NDArray[Any]) -> None:
        """Refuse targets that the loss is not made for."""

    def for_targets(self, y: NDArray[Any]) -> "Loss":
        """The loss to train with on targets like these, which have been brought to size one."""

    def least_loss(self, y: NDArray[Any]) -> NDArray[Any]:
        """Loss of each row under a perfect prediction."""

    def ranking(self, y: NDArray[Any], raw: NDArray[Any], weight: NDArray[Any]) -> float:
        """How well raw outputs rank the rows, the higher the better; not a number where nothing is to be ranked."""

    def raise_error(self) -> None:
        """Raise an error that happened inside compiled code."""


def as_columns(values: NDArray[Any]) -> NDArray[Any]:
    """One-dimensional values as a single column."""
    return values.reshape(-1, 1) if values.ndim == 1 else values


def signature_for(dtype: np.dtype) -> types.Type:
    """How compiled code calls a loss on numbers of this type."""
    array, count = types.CPointer(scalar_type(dtype)), types.int64
    return types.void(array, array, array, array, count, count, count, types.float64)
