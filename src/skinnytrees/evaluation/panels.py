"""How much the panels of repeated selections agree."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

# Below these values of the index, panels are said to agree hardly at all, or in part (Nogueira et al., section 4.2).
POOR, EXCELLENT = 0.4, 0.75


class Stability(NamedTuple):
    """The stability index of some panels, with its confidence interval."""

    index: float
    low: float
    high: float

    @property
    def in_words(self) -> str:
        """What the index says."""
        if np.isnan(self.index):
            return "cannot be judged (all panels have every column, or none)"
        return "poor" if self.index < POOR else "excellent" if self.index > EXCELLENT else "moderate"


def stability_index(selected: ArrayLike, level: float = 0.95) -> Stability:
    """The stability index of Nogueira, Sechidis and Brown (JMLR 2018), with its confidence interval.

    It is 1 where all panels are equal and 0, on average, where columns are drawn by chance; the number of columns and the
    sizes of the panels are taken into account.

    Parameters
    ----------
    selected : array of bool of shape (n_panels, n_features)
        Which features each panel has.
    level : float, default=0.95
        Level of the confidence interval, which is asymptotic in the number of panels.

    Returns
    -------
    Stability
        ``index``, ``low`` and ``high``.

    Examples
    --------
    >>> from skinnytrees.evaluation.panels import stability_index
    >>> stability_index([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]).index
    1.0
    >>> round(stability_index([[1, 1, 0, 0], [0, 0, 1, 1]]).index, 3)
    -1.0
    """
    Z = np.asarray(selected, dtype=np.float64)
    n_panels, n_features = Z.shape
    sizes, frequency = Z.sum(axis=1), Z.mean(axis=0)
    mean_size = sizes.mean()
    by_chance = mean_size / n_features * (1 - mean_size / n_features)
    if n_panels < 2 or by_chance <= 0:
        return Stability(np.nan, np.nan, np.nan)
    variance = n_panels / (n_panels - 1) * frequency * (1 - frequency)
    index = 1 - variance.mean() / by_chance
    # The influence of each panel (their equation for the variance of the estimate).
    shares = (sizes * mean_size) / n_features**2
    correction = 2 * shares - (sizes + mean_size) / n_features + 1
    influence = ((Z @ frequency) / n_features - shares + index / 2 * correction) / by_chance
    error = np.sqrt(4 / n_panels**2 * ((influence - influence.mean()) ** 2).sum())
    margin = float(ndtri((1 + level) / 2)) * error
    return Stability(float(index), float(index - margin), float(min(1.0, index + margin)))


def mean_overlap(selected: NDArray[np.bool_]) -> float:
    """Mean over pairs of panels of the columns that both have, as a fraction of those that either has."""
    Z = np.asarray(selected, dtype=np.float64)
    common = Z @ Z.T
    sizes = np.diag(common)
    either = sizes[:, None] + sizes[None, :] - common
    pairs = np.triu_indices(len(Z), 1)
    if len(pairs[0]) == 0:
        return float("nan")
    return float(np.mean(np.divide(common, either, out=np.ones_like(common), where=either > 0)[pairs]))
