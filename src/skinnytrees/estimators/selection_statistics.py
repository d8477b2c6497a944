"""Numbers about repeated selections: how much they agree, and how many selected features are false."""

import math

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless


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


def false_selection_bound(mean_selected: float, n_features: int, threshold: float) -> float:
    """Bound on the expected number of falsely selected features (Meinshausen & Bühlmann 2010, theorem 1).

    Parameters
    ----------
    mean_selected : float
        Mean number of features selected on a resample.
    n_features : int
        Number of features in all.
    threshold : float in (0.5, 1]
        Share of the resamples that must select a feature.

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
    """The threshold at which the bound is ``max_false_selections``; refused if no share of resamples is that large."""
    threshold = (1 + mean_selected**2 / (max_false_selections * n_features)) / 2
    if threshold > 1 + 1e-12:
        fewer = math.isqrt(int(max_false_selections * n_features + 1e-9))
        least = math.ceil(1000 * mean_selected**2 / n_features) / 1000
        select_fewer = (
            f"select at most {fewer} a resample (feature_budget, or a setting of the estimator), or " if fewer else ""
        )
        raise ValueError(
            f"max_false_selections={max_false_selections:g} cannot be promised: with {mean_selected:g} of {n_features} "
            f"features selected a resample, the threshold would have to be {threshold:.3g}, which is above 1. "
            f"Instead, {select_fewer}set max_false_selections={least:g}."
        )
    return min(threshold, 1.0)
