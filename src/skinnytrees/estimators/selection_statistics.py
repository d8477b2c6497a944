"""Numbers about repeated selections: how much they agree, and how many selected features are false."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skinnytrees.exceptions import refuse_unless


@dataclass(frozen=True)
class Stability:
    """The stability index of some selections, with its confidence interval."""

    index: float
    low: float
    high: float


def stability_index(selected: NDArray[np.bool_]) -> float:
    """How much selections agree beyond chance (Nogueira, Sechidis & Brown 2018, definition 4).

    Parameters
    ----------
    selected : array of bool of shape (n_selections, n_features)
        What each of several fits selected.

    Returns
    -------
    float
        1 where all selections are equal, about 0 where they are random; NaN where it is not defined, because every fit selected
        all features or none, or there is only one fit.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.estimators.selection_statistics import stability_index
    >>> stability_index(np.array([[True, True, False], [True, True, False]]))
    1.0
    """
    selected = np.asarray(selected, dtype=bool)
    n, frequency = len(selected), selected.mean(axis=0)
    mean_fraction = float(frequency.mean())
    by_chance = mean_fraction * (1 - mean_fraction)
    if n < 2 or by_chance == 0:
        return math.nan
    return 1 - float(np.mean(frequency * (1 - frequency))) * n / (n - 1) / by_chance


def stability_interval(selected: NDArray[np.bool_], level: float = 0.95) -> Stability:
    """The stability index with its confidence interval (Nogueira, Sechidis & Brown 2018, section 5).

    Parameters
    ----------
    selected : array of bool of shape (n_selections, n_features)
        What each of several fits selected.
    level : float, default=0.95
        Level of the interval, which is asymptotic in the number of selections.

    Returns
    -------
    Stability
        ``index``, ``low`` and ``high``; NaN where the index is not defined.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.estimators.selection_statistics import stability_interval
    >>> stability_interval(np.array([[True, True, False], [True, True, False]]))
    Stability(index=1.0, low=1.0, high=1.0)
    """
    index = stability_index(selected)
    if math.isnan(index):
        return Stability(math.nan, math.nan, math.nan)
    Z = np.asarray(selected, dtype=np.float64)
    n, n_features = Z.shape
    sizes, frequency = Z.sum(axis=1), Z.mean(axis=0)
    mean_size = float(sizes.mean())
    by_chance = mean_size / n_features * (1 - mean_size / n_features)
    # What each selection contributes to the estimate; its spread over selections gives the variance.
    products = sizes * mean_size / n_features**2
    correction = 2 * products - (sizes + mean_size) / n_features + 1
    influence = (Z @ frequency / n_features - products + index / 2 * correction) / by_chance
    error = math.sqrt(4 / n**2 * float(((influence - influence.mean()) ** 2).sum()))
    margin = float(ndtri((1 + level) / 2)) * error
    return Stability(index, index - margin, min(1.0, index + margin))


def false_selection_bound(mean_selected: float, n_features: int, threshold: float) -> float:
    """Bound on the expected number of falsely selected features (Meinshausen & Bühlmann 2010, theorem 1).

    Parameters
    ----------
    mean_selected : float
        Mean number of features selected on a resample.
    n_features : int
        Number of features in all.
    threshold : float in (0.5, 1]
        Fraction of the resamples that must select a feature.

    Returns
    -------
    float
        The bound; its assumptions are in the notes of ``StabilitySelector``.

    Examples
    --------
    >>> from skinnytrees.estimators.selection_statistics import false_selection_bound
    >>> false_selection_bound(mean_selected=10, n_features=1000, threshold=0.75)
    0.2
    """
    refuse_unless(
        0.5 < threshold <= 1,
        f"threshold={threshold} is outside the range in which the bound holds. Use a number above 0.5, up to 1.",
    )
    return mean_selected**2 / ((2 * threshold - 1) * n_features)


def least_threshold(mean_selected: float, n_features: int, max_false_selections: float) -> float:
    """The threshold at which the bound is ``max_false_selections``; refused if it exceeds 1."""
    threshold = (1 + mean_selected**2 / (max_false_selections * n_features)) / 2
    if threshold > 1 + 1e-12:
        fewer = math.isqrt(int(max_false_selections * n_features + 1e-9))
        least = math.ceil(1000 * mean_selected**2 / n_features) / 1000
        select_fewer = (
            f"select at most {fewer} per resample (feature_budget, or a setting of the estimator), or " if fewer else ""
        )
        raise ValueError(
            f"max_false_selections={max_false_selections:g} cannot be promised: with {mean_selected:g} of {n_features} "
            f"features selected per resample, the threshold would have to be {threshold:.3g}, which is above 1. "
            f"Instead, {select_fewer}set max_false_selections={least:g}."
        )
    return min(threshold, 1.0)
