"""Data that is made up, with known answers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class SyntheticData(NamedTuple):
    """Features, targets and the features that matter."""

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    support: NDArray[np.intp]


def correlated_linear(
    n_samples: int, n_features: int, correlation: float, *, n_informative: int = 8, noise: float = 0.5,
    random_state: int | np.random.Generator | None = None,
) -> SyntheticData:  # fmt: skip
    """The paper's synthetic design: neighbours correlate, a few equally spaced features have coefficient one.

    Parameters
    ----------
    n_samples, n_features : int
        Shape of the table.
    correlation : float in [0, 1)
        Features i and j correlate as ``correlation ** |i - j|``.
    n_informative : int, default=8
        How many features matter; they sit at p/16, p/16 + p/8, ... for the default.
    noise : float, default=0.5
        Standard deviation of the noise.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    SyntheticData

    Examples
    --------
    >>> from skinnytrees.datasets import correlated_linear
    >>> correlated_linear(100, 256, 0.5, random_state=0).support.tolist()
    [16, 48, 80, 112, 144, 176, 208, 240]
    """
    rng = np.random.default_rng(random_state)
    X = rng.standard_normal((n_samples, n_features))
    # An autoregression along the features has exactly this correlation.
    for k in range(1, n_features):
        X[:, k] = correlation * X[:, k - 1] + np.sqrt(1 - correlation**2) * X[:, k]
    support = ((np.arange(n_informative) + 0.5) * n_features / n_informative).astype(np.intp)
    y = X[:, support].sum(axis=1) + noise * rng.standard_normal(n_samples)
    return SyntheticData(X, y, support)
