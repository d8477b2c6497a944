"""Non-negative lasso for squared and logistic loss, by coordinate descent on a working set.

Minimises ``sum_n s_n loss(y_n, (A w)_n) + alpha * u'w`` over ``w >= 0``, where the row weights s sum to 1. With ``v = u w`` and
the columns ``a_t / u_t`` this is an ordinary lasso; columns are scaled once, and the scaled problem is solved.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skinnytrees.kernels.compilation import kernel

Array = NDArray[np.float64]

# Violations of the optimality conditions that are left, as a fraction of the largest alpha.
_TOLERANCE = 1e-8
_MOST_SWEEPS = 10_000
_MOST_STEPS = 200
# Columns that enter the working set at once.
_NEW_COLUMNS = 20


@kernel
def descend(H: Any, gradient: Any, v: Any, tolerance: float, most_sweeps: int) -> int:
    """Coordinate descent on ``gradient'(z - v) + (z - v)'H(z - v) / 2`` over ``z >= 0``; v and gradient become those at z."""
    n = len(v)
    for sweep in range(most_sweeps):
        worst = 0.0
        for t in range(n):
            slope = gradient[t] if v[t] > 0 else min(gradient[t], 0.0)
            worst = max(worst, abs(slope))
            if H[t, t] <= 0.0:
                continue
            step = max(v[t] - gradient[t] / H[t, t], 0.0) - v[t]
            if step != 0.0:
                v[t] += step
                for k in range(n):
                    gradient[k] += H[t, k] * step
        if worst <= tolerance:
            return sweep
    return most_sweeps


@dataclass(frozen=True)
class NonNegativeLasso:
    """One problem for all alphas.

    Attributes
    ----------
    A : array of shape (n_samples, n_columns)
        Columns, scaled by their prices.
    y : array of shape (n_samples,)
        Numbers, or 0 and 1 for the logistic loss.
    row_weight : array of shape (n_samples,)
        Row weights that sum to 1.
    price : array of shape (n_columns,)
        u, positive.
    is_logistic : bool
        The loss ``log(1 + exp(eta)) - y eta``; else ``(eta - y)^2``.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines.nonnegative_lasso import NonNegativeLasso
    >>> problem = NonNegativeLasso.of(np.eye(2), np.array([1.0, -1.0]), np.ones(2), np.ones(2), is_logistic=False)
    >>> float(problem.alpha_max), problem.solve(0.5).tolist()
    (1.0, [0.5, 0.0])
    """

    A: Array
    y: Array
    row_weight: Array
    price: Array
    is_logistic: bool

    @classmethod
    def of(cls, A: Array, y: NDArray[Any], weight: Array, price: Array, is_logistic: bool) -> "NonNegativeLasso":
        """From columns as they are, any row weights and positive prices."""
        return cls(np.asfortranarray(A / price), np.asarray(y, dtype=float), weight / weight.sum(), price, is_logistic)

    @property
    def alpha_max(self) -> float:
        """The smallest alpha at which all weights are zero."""
        return float(max(0.0, (-self._gradient(np.zeros(len(self.y)))).max(initial=0.0)))

    def objective(self, w: Array, alpha: float) -> float:
        """Loss and penalty of the weights w."""
        eta = self.A @ (w * self.price)
        return self._loss(eta) + alpha * float(self.price @ w)

    def solve(self, alpha: float, start: Array | None = None) -> Array:
        """The weights w at one alpha, from zero or from those at another alpha."""
        v = np.zeros(len(self.price)) if start is None else start * self.price
        tolerance = _TOLERANCE * max(self.alpha_max, np.finfo(float).tiny)
        working = np.flatnonzero(v > 0)
        for _ in range(_MOST_STEPS):
            gradient = self._gradient(self.A @ v) + alpha
            violation = np.where(v > 0, 0.0, -gradient)
            violation[working] = 0.0
            outside = np.argsort(-violation, kind="stable")[:_NEW_COLUMNS]
            working = np.union1d(working, outside[violation[outside] > tolerance])
            slope = np.where(v > 0, gradient, np.minimum(gradient, 0.0))
            if np.abs(slope).max(initial=0.0) <= tolerance:
                break
            if not self._improve(v, working, alpha, tolerance):
                break  # smaller steps are below the precision of the numbers
        return v / self.price

    def path(self, alphas: Array) -> Array:
        """Weights of shape (n_alphas, n_columns), each started from the previous one."""
        weights = np.zeros((len(alphas), len(self.price)))
        w = None
        for i, alpha in enumerate(alphas):
            w = self.solve(float(alpha), w)
            weights[i] = w
        return weights

    def _improve(self, v: Array, working: NDArray[np.intp], alpha: float, tolerance: float) -> bool:
        """One Newton step within the working set, cut until the objective falls; v is changed in place."""
        A = self.A[:, working]
        eta = A @ v[working]
        curvature = self.row_weight * (expit(eta) * expit(-eta) if self.is_logistic else 2.0)
        gradient = A.T @ (self.row_weight * self._residual(eta)) + alpha
        target, slope = v[working].copy(), gradient.copy()
        descend(np.ascontiguousarray(A.T @ (curvature[:, None] * A)), slope, target, tolerance / 10, _MOST_SWEEPS)
        step = target - v[working]
        change = A @ step
        before, expected = self._loss(eta), float(gradient @ step)
        length = 1.0
        while length > 1e-10:
            after = self._loss(eta + length * change) + alpha * length * float(step.sum())
            if after <= before + 1e-4 * length * expected + 1e-15 * abs(before):
                v[working] = np.maximum(v[working] + length * step, 0.0)
                return bool(np.any(step != 0.0))
            length /= 2
        return False

    def _residual(self, eta: Array) -> Array:
        return expit(eta) - self.y if self.is_logistic else 2 * (eta - self.y)

    def _gradient(self, eta: Array) -> Array:
        return np.asarray(self.A.T @ (self.row_weight * self._residual(eta)))

    def _loss(self, eta: Array) -> float:
        loss = np.logaddexp(0.0, eta) - self.y * eta if self.is_logistic else (eta - self.y) ** 2
        return float(self.row_weight @ loss)
