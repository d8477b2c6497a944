"""Losses of one sample: value and gradient with respect to the ensemble's raw outputs.

A loss of the library is one small class around one compiled function; a loss of a user is any object with ``value`` and
``gradient``. Weighting and averaging over a batch are done elsewhere.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import carray
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from sklearn.metrics import roc_auc_score

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.compilation import function_argument, kernel
from skinnytrees.kernels.numba_bridge.calls import call
from skinnytrees.kernels.numba_bridge.pointers import pointer
from skinnytrees.losses.base import Loss, TargetScale, as_columns, signature_for
from skinnytrees.losses.user import UserLoss

__all__ = [
    "REGRESSION_LOSSES",
    "CompiledLoss",
    "Huber",
    "Loss",
    "Multinomial",
    "Poisson",
    "Quantile",
    "SquaredError",
    "TargetScale",
    "UserLoss",
    "as_columns",
    "evaluate_loss",
    "fill_loss",
    "regression_loss",
]


class CompiledLoss:
    """Base of the library's losses: a subclass brings ``fill`` and, where they differ, link, start and checks."""

    fill: ClassVar[Any]
    parameter: float = 0.0
    # Whether smaller raw outputs are a more cautious prediction, nearer to the best constant.
    can_be_calibrated: bool = True

    def function(self, dtype: Any) -> Any:
        """Compiled value and gradient."""
        return _compiled(type(self).fill, np.dtype(dtype))

    def target_scale(self, mean: NDArray[Any], deviation: NDArray[Any]) -> TargetScale:
        """To mean zero and deviation one."""
        return TargetScale(mean, deviation, mean, deviation)

    def to_prediction(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Raw outputs as they are."""
        return raw

    def check_target(self, y: NDArray[Any]) -> None:
        """Any finite number is a valid target."""

    def for_targets(self, y: NDArray[Any]) -> "Loss":
        """The loss itself."""
        return self

    def least_loss(self, y: NDArray[Any]) -> NDArray[Any]:
        """Zero."""
        return np.zeros(len(y))

    def ranking(self, y: NDArray[Any], raw: NDArray[Any], weight: NDArray[Any]) -> float:
        """Numbers are predicted, not ranked."""
        return math.nan

    def raise_error(self) -> None:
        """Compiled losses have no errors to raise."""

    def value(self, y: ArrayLike, raw: ArrayLike) -> NDArray[Any]:
        """Loss of each row.

        Parameters
        ----------
        y : array of shape (n,) or (n, n_outputs)
            Targets.
        raw : array of the same number of rows
            Raw outputs of the ensemble.

        Returns
        -------
        array of shape (n,)
        """
        return self._evaluate(y, raw)[0]

    def gradient(self, y: ArrayLike, raw: ArrayLike) -> NDArray[Any]:
        """Gradient of each row's loss with respect to its raw outputs.

        Parameters
        ----------
        y : array of shape (n,) or (n, n_outputs)
            Targets.
        raw : array of the same number of rows
            Raw outputs of the ensemble.

        Returns
        -------
        array of the shape of ``raw``
        """
        return self._evaluate(y, raw)[1].reshape(np.shape(raw))

    def _evaluate(self, y: ArrayLike, raw: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
        outputs = as_columns(np.ascontiguousarray(raw))
        if outputs.dtype != np.float32:
            outputs = outputs.astype(np.float64)
        targets = np.ascontiguousarray(as_columns(np.asarray(y)), dtype=outputs.dtype)
        return evaluate_loss(self.function(outputs.dtype), float(self.parameter), outputs, targets)


@dataclass(frozen=True)
class SquaredError(CompiledLoss):
    """Half the squared distance, summed over outputs.

    Examples
    --------
    >>> from skinnytrees.losses import SquaredError
    >>> SquaredError().value([1.0, 2.0], [1.0, 4.0]).tolist()
    [0.0, 2.0]
    """

    name: ClassVar[str] = "squared_error"

    @staticmethod
    def fill(F_, Y_, G_, row_loss_, n, n_outputs, width, parameter):  # type: ignore[no-untyped-def] # noqa: D102
        F, Y = carray(F_, (n, n_outputs)), carray(Y_, (n, n_outputs))
        G, row_loss = carray(G_, (n, n_outputs)), carray(row_loss_, n)
        for i in range(n):
            row_loss[i] = 0
            for c in range(n_outputs):
                residual = F[i, c] - Y[i, c]
                G[i, c] = residual
                row_loss[i] += 0.5 * residual * residual


@dataclass(frozen=True)
class Huber(CompiledLoss):
    """Squared error near zero, absolute error beyond ``delta``: the gradient of outliers is bounded.

    Parameters
    ----------
    delta : float, default=1.0
        Where the absolute part begins, in standard deviations of the target (or in the target's own unit when the
        estimator does not standardise).

    Examples
    --------
    >>> from skinnytrees.losses import Huber
    >>> Huber(delta=1.0).gradient([0.0, 0.0], [0.5, 9.0]).tolist()
    [0.5, 1.0]
    """

    delta: float = 1.0
    name: ClassVar[str] = "huber"

    def __post_init__(self) -> None:
        """Refuse a delta that is not positive."""
        refuse_unless(self.delta > 0, f"delta={self.delta!r} must be a positive number, such as 1.0.")

    @property
    def parameter(self) -> float:  # type: ignore[override]
        """Number that the compiled function takes."""
        return self.delta

    @staticmethod
    def fill(F_, Y_, G_, row_loss_, n, n_outputs, width, parameter):  # type: ignore[no-untyped-def] # noqa: D102
        F, Y = carray(F_, (n, n_outputs)), carray(Y_, (n, n_outputs))
        G, row_loss = carray(G_, (n, n_outputs)), carray(row_loss_, n)
        for i in range(n):
            row_loss[i] = 0
            for c in range(n_outputs):
                residual = F[i, c] - Y[i, c]
                if abs(residual) <= parameter:
                    G[i, c] = residual
                    row_loss[i] += 0.5 * residual * residual
                else:
                    G[i, c] = math.copysign(parameter, residual)
                    row_loss[i] += parameter * (abs(residual) - 0.5 * parameter)


@dataclass(frozen=True)
class Quantile(CompiledLoss):
    """Pinball loss: its minimiser is the given quantile.

    Parameters
    ----------
    level : float in (0, 1), default=0.5
        Which quantile; 0.5 is the median.

    Examples
    --------
    >>> from skinnytrees.losses import Quantile
    >>> Quantile(level=0.9).value([1.0, 0.0], [0.0, 1.0]).round(3).tolist()
    [0.9, 0.1]
    """

    level: float = 0.5
    name: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        """Refuse a level outside (0, 1)."""
        refuse_unless(0 < self.level < 1, f"level={self.level!r} must lie between 0 and 1, such as 0.9.")

    @property
    def parameter(self) -> float:  # type: ignore[override]
        """Number that the compiled function takes."""
        return self.level

    @staticmethod
    def fill(F_, Y_, G_, row_loss_, n, n_outputs, width, parameter):  # type: ignore[no-untyped-def] # noqa: D102
        F, Y = carray(F_, (n, n_outputs)), carray(Y_, (n, n_outputs))
        G, row_loss = carray(G_, (n, n_outputs)), carray(row_loss_, n)
        for i in range(n):
            row_loss[i] = 0
            for c in range(n_outputs):
                residual = F[i, c] - Y[i, c]
                G[i, c] = 1 - parameter if residual > 0 else -parameter
                row_loss[i] += G[i, c] * residual


@dataclass(frozen=True)
class Poisson(CompiledLoss):
    """Poisson deviance for counts and rates; predictions are ``exp(raw)``, so they are positive.

    Parameters
    ----------
    ceiling : float, default=inf
        Where ``exp(raw)`` exceeds this, and twice the count, the loss goes on as a straight line. Estimators train with twice
        the largest count, which no mean of counts exceeds: the minimiser stays where it is, and a step that went too far
        is not answered by one that is exponentially larger.

    Examples
    --------
    >>> from skinnytrees.losses import Poisson
    >>> Poisson().gradient([3.0], [0.0]).tolist()
    [-2.0]
    >>> Poisson(ceiling=10.0).gradient([3.0], [50.0]).tolist()
    [7.0]
    """

    ceiling: float = math.inf
    name: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        """Refuse a ceiling that is not positive."""
        refuse_unless(self.ceiling > 0, f"ceiling={self.ceiling!r} must be a positive number, such as 100.0.")

    @property
    def parameter(self) -> float:  # type: ignore[override]
        """Number that the compiled function takes."""
        return self.ceiling

    @staticmethod
    def fill(F_, Y_, G_, row_loss_, n, n_outputs, width, parameter):  # type: ignore[no-untyped-def] # noqa: D102
        F, Y = carray(F_, (n, n_outputs)), carray(Y_, (n, n_outputs))
        G, row_loss = carray(G_, (n, n_outputs)), carray(row_loss_, n)
        for i in range(n):
            row_loss[i] = 0
            for c in range(n_outputs):
                mean = math.exp(F[i, c])
                ceiling = max(parameter, 2 * Y[i, c])
                loss = mean
                if mean > ceiling:
                    mean, loss = ceiling, ceiling * (1 + F[i, c] - math.log(ceiling))
                G[i, c] = mean - Y[i, c]
                row_loss[i] += loss - Y[i, c] * F[i, c]

    def for_targets(self, y: NDArray[Any]) -> Any:
        """With a ceiling of twice the largest count."""
        return Poisson(ceiling=min(self.ceiling, 2 * float(y.max())))

    def target_scale(self, mean: NDArray[Any], deviation: NDArray[Any]) -> TargetScale:
        """To mean one: a factor of the target is a shift of its logarithm."""
        return TargetScale(np.zeros_like(mean), mean, np.log(mean), np.ones_like(mean))

    def to_prediction(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Mean of the count."""
        return np.exp(raw)

    def least_loss(self, y: NDArray[Any]) -> NDArray[Any]:
        """Loss where the mean is the count itself."""
        return (y - xlogy(y, y)).sum(axis=1)

    def check_target(self, y: NDArray[Any]) -> None:
        """Counts are not negative, and some are positive."""
        refuse_unless(
            bool(np.all(y >= 0) and np.all(y.sum(axis=0) > 0)),
            f"loss='poisson' needs y >= 0 with a positive sum, but the smallest y is {y.min():g} and the largest "
            f"{y.max():g}. Use loss='squared_error' for such targets.",
        )


@dataclass(frozen=True)
class Multinomial(CompiledLoss):
    """Cross-entropy of the softmax of the outputs; the target is the class number, two classes included.

    Examples
    --------
    >>> from skinnytrees.losses import Multinomial
    >>> Multinomial().value([0], [[0.0, 0.0]]).round(4).tolist()
    [0.6931]
    """

    name: ClassVar[str] = "multinomial"

    @staticmethod
    def fill(F_, Y_, G_, row_loss_, n, n_outputs, width, parameter):  # type: ignore[no-untyped-def] # noqa: D102
        F, Y = carray(F_, (n, n_outputs)), carray(Y_, (n, width))
        G, row_loss = carray(G_, (n, n_outputs)), carray(row_loss_, n)
        for i in range(n):
            top = F[i, 0]
            for c in range(1, n_outputs):
                top = max(top, F[i, c])
            total = 0.0
            for c in range(n_outputs):
                G[i, c] = math.exp(F[i, c] - top)
                total += G[i, c]
            for c in range(n_outputs):
                G[i, c] /= total
            label = int(Y[i, 0])
            G[i, label] -= 1
            row_loss[i] = math.log(total) + top - F[i, label]

    def to_prediction(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Class probabilities."""
        powers = np.exp(raw - raw.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def ranking(self, y: NDArray[Any], raw: NDArray[Any], weight: NDArray[Any]) -> float:
        """Area under the ROC curve, the mean over classes of each class against the rest."""
        counts = weight > 0
        with np.errstate(over="ignore", invalid="ignore"):
            labels, P = y[counts, 0], self.to_prediction(raw[counts])
        present = [c for c in np.unique(labels).astype(int) if np.any(labels != c)]
        if not present or not np.isfinite(P).all():
            return math.nan
        return float(np.mean([roc_auc_score(labels == c, P[:, c], sample_weight=weight[counts]) for c in present]))


# The losses that the regressor and model files know by name. A new loss is registered here, and nowhere else.
REGRESSION_LOSSES: dict[str, type[CompiledLoss]] = {
    kind.name: kind for kind in (SquaredError, Huber, Quantile, Poisson)
}


def regression_loss(loss: Any) -> Loss:
    """The loss behind a name, a loss object of the library or a user's own.

    Parameters
    ----------
    loss : str or object
        A name of ``REGRESSION_LOSSES``, one of its objects, or an object with ``value`` and ``gradient``.

    Returns
    -------
    Loss
    """
    if isinstance(loss, CompiledLoss):
        return loss
    if isinstance(loss, str):
        refuse_unless(loss in REGRESSION_LOSSES, f"loss={loss!r} is not known. Use one of {sorted(REGRESSION_LOSSES)}.")
        return REGRESSION_LOSSES[loss]()
    return UserLoss(loss)


@functools.cache
def _compiled(fill: Any, dtype: np.dtype) -> Any:
    return function_argument(signature_for(dtype), fill)


def evaluate_loss(
    function: Any, parameter: float, F: NDArray[Any], Y: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Loss of every row and its gradient, for outputs F (rows, outputs) and targets Y (rows, width)."""
    row_loss, G = np.empty(len(F), dtype=F.dtype), np.empty_like(F)
    call(fill_loss, function, parameter, F, Y, G, row_loss)
    return row_loss, G


@kernel
def fill_loss(function, parameter, F, Y, G, row_loss):  # type: ignore[no-untyped-def]
    """Fill the loss of every row and its gradient."""
    function(pointer(F), pointer(Y), pointer(G), pointer(row_loss), F.shape[0], F.shape[1], Y.shape[1], parameter)
