"""Pairwise interaction strengths: Friedman's H statistic, from the worth of small coalitions."""

from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.explain.games import Game


class Pair(NamedTuple):
    """Two features, the standard deviation of their joint effect, and its ratio to that of their whole effect."""

    first: int
    second: int
    strength: float
    H: float


def interaction_strengths(game: Game, features: NDArray[np.intp], max_rows: int) -> list[Pair]:
    """Strengths of all pairs of some features (Friedman & Popescu 2008, equation 44), in the order of the features."""
    if len(features) < 2:
        return []
    rows = evenly_spaced(len(game.rows), max_rows)
    worth = replace(game, rows=game.rows[rows]).small_coalitions(features)
    alone = worth[:, 1 : 1 + len(features)]
    pairs = []
    for p, (i, k) in enumerate(combinations(range(len(features)), 2)):
        whole = worth[:, 1 + len(features) + p]
        joint = whole - alone[:, i] - alone[:, k]
        deviation, of_whole = (float(np.sqrt(effect.var(axis=0).mean())) for effect in (joint, whole))
        pairs.append(Pair(int(features[i]), int(features[k]), deviation, deviation / max(of_whole, 1e-300)))
    return pairs


def evenly_spaced(n: int, most: int) -> NDArray[np.intp]:
    """Up to ``most`` of n places, evenly spaced.

    Examples
    --------
    >>> from skinnytrees.explain.interactions import evenly_spaced
    >>> evenly_spaced(10, 4).tolist(), evenly_spaced(2, 4).tolist()
    ([0, 3, 6, 9], [0, 1])
    """
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(np.intp)
