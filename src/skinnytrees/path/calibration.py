"""Calibration: one factor of the raw outputs, which corrects over- or under-confidence on rows that were held out."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

# The factor is sought between these. Beyond them an ensemble predicts nothing, or the held-out rows are too few.
_LEAST, _MOST = 0.1, 3.0
# A factor of e, up or down, has to lower the summed loss by this much: with few rows it stays near one.
_PRIOR = 1.0


def best_factor(mean_loss: Callable[[float], float], n_rows: float) -> float:
    """The factor of least loss, drawn towards one where rows are few.

    Parameters
    ----------
    mean_loss : callable
        Mean loss over the rows as a function of the factor of the raw outputs.
    n_rows : float
        Number of rows.

    Returns
    -------
    float

    Examples
    --------
    >>> from skinnytrees.path.calibration import best_factor
    >>> round(best_factor(lambda factor: (factor - 0.5) ** 2, n_rows=1e6), 2)
    0.5
    """

    def penalised(log_factor: float) -> float:
        return mean_loss(float(np.exp(log_factor))) + _PRIOR * log_factor**2 / n_rows

    found = minimize_scalar(
        penalised, bounds=(np.log(_LEAST), np.log(_MOST)), method="bounded", options={"xatol": 0.01}
    )
    return float(np.exp(found.x)) if np.isfinite(found.fun) else 1.0


def effective_rows(weight: NDArray[np.float64]) -> float:
    """The effective sample size: how many equally weighted rows would be as informative."""
    return float(weight.sum() ** 2 / np.square(weight).sum())
