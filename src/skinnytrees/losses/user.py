"""Losses that users write in plain Python."""

import ctypes
import math
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless
from skinnytrees.losses.base import Loss, TargetScale, signature_for


class UserLoss:
    """Lets an object with ``value(y, raw)`` and ``gradient(y, raw)``, written in plain Python, stand for a loss.

    Compiled code calls Python once per batch. An error in the user's code is kept, the batch's loss becomes NaN,
    which stops training, and ``error`` tells why.
    """

    parameter = 0.0
    can_be_calibrated = False  # what zero means to the user's loss is unknown

    def __init__(self, loss: Any) -> None:
        for method in ("value", "gradient"):
            if not callable(getattr(loss, method, None)):
                raise TypeError(
                    f"loss={loss!r} has no method {method}(y, raw). Use a name such as 'squared_error', or an object with "
                    "value(y, raw) -> (n,) and gradient(y, raw) -> shape of raw."
                )
        self.loss = loss
        self.error: BaseException | None = None

    def function(self, dtype: Any) -> Any:
        """Call the user's loss from compiled code."""
        return _PythonFunction(self, np.dtype(dtype))

    def target_scale(self, mean: NDArray[Any], deviation: NDArray[Any]) -> TargetScale:
        """Targets as they are: the user's loss may depend on their scale."""
        return TargetScale.none(len(mean))

    def to_prediction(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Raw outputs, unless the user's loss has ``to_prediction``."""
        convert = getattr(self.loss, "to_prediction", None)
        return raw if convert is None else np.asarray(convert(raw))

    def check_target(self, y: NDArray[Any]) -> None:
        """Leave that to the user's loss."""

    def for_targets(self, y: NDArray[Any]) -> "Loss":
        """The loss itself."""
        return self

    def least_loss(self, y: NDArray[Any]) -> NDArray[Any]:
        """Taken to be zero."""
        return np.zeros(len(y))

    def ranking(self, y: NDArray[Any], raw: NDArray[Any], weight: NDArray[Any]) -> float:
        """Unknown."""
        return math.nan

    def evaluate(self, Y: NDArray[Any], F: NDArray[Any], G: NDArray[Any], row_loss: NDArray[Any]) -> None:
        """Fill gradient and value, both NaN after an error."""
        y, raw = (Y[:, 0], F[:, 0]) if F.shape[1] == 1 else (Y, F)
        try:
            gradient, value = np.asarray(self.loss.gradient(y, raw)), np.asarray(self.loss.value(y, raw))
            for name, result, shape in (("gradient", gradient, raw.shape), ("value", value, (len(raw),))):
                refuse_unless(
                    result.shape == shape,
                    f"{name}(y, raw) of the loss {self.loss!r} gave an array of shape {result.shape} where {shape} was expected. "
                    "Return one value per row, and a gradient of the shape of raw.",
                )
            G[:] = gradient.reshape(G.shape)
            row_loss[:] = value
        except BaseException as error:  # Ctrl-C, too, would be lost on its way through compiled code
            self.error = error
            G[:] = row_loss[:] = np.nan

    def raise_error(self) -> None:
        """Raise what went wrong in the user's code, if anything did."""
        if self.error is not None:
            error, self.error = self.error, None
            raise error


class _PythonFunction(types.WrapperAddressProtocol):
    def __init__(self, loss: UserLoss, dtype: np.dtype) -> None:
        array = ctypes.POINTER(np.ctypeslib.as_ctypes_type(dtype))
        count = ctypes.c_int64

        def call(F: Any, Y: Any, G: Any, row_loss: Any, n: int, n_outputs: int, width: int, parameter: float) -> None:
            view = np.ctypeslib.as_array
            loss.evaluate(view(Y, (n, width)), view(F, (n, n_outputs)), view(G, (n, n_outputs)), view(row_loss, (n,)))

        kind = ctypes.CFUNCTYPE(None, array, array, array, array, count, count, count, ctypes.c_double)
        self._callback = kind(call)
        self._signature = signature_for(dtype)

    def __wrapper_address__(self) -> int | None:
        return ctypes.cast(self._callback, ctypes.c_void_p).value

    def signature(self) -> types.Type:
        return self._signature
