"""Partial dependence of a fitted ensemble's scores on one feature or on two (Friedman 2001)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.explain.games import Game
from skinnytrees.explain.reading import Columns

# Quantiles between which an axis runs: a few outliers must not take most of it.
_LOW, _HIGH = 0.01, 0.99


class Axis(NamedTuple):
    """Values of a feature at which an effect is computed: its categories, or a grid; ``has_missing`` adds NaN at the end."""

    feature: int
    values: NDArray[np.float64]
    is_categorical: bool
    has_missing: bool

    @property
    def known(self) -> NDArray[np.float64]:
        """The values but for NaN."""
        return self.values[~np.isnan(self.values)]


def effect_axis(game: Game, columns: Columns, feature: int, n_points: int, with_missing: bool = True) -> Axis:
    """Where to compute the effect of a feature: all its values if they are few or categories, else a grid between quantiles."""
    column = game.rows[:, feature]
    known = column[~np.isnan(column)]
    distinct, is_categorical = np.unique(known), feature in columns.words
    if not is_categorical and len(distinct) > n_points:
        low, high = np.quantile(known, [_LOW, _HIGH])
        distinct = np.linspace(low, high, n_points)
    has_missing = with_missing and len(known) < len(column)
    values = np.append(distinct, np.nan) if has_missing or len(distinct) == 0 else distinct
    return Axis(feature, values, is_categorical, has_missing)


def partial_dependence(game: Game, axes: list[Axis]) -> NDArray[np.float64]:
    """Mean score over background rows whose features are set to each value: one dimension per axis, the last for outputs."""
    grid = np.stack(np.meshgrid(*(axis.values for axis in axes), indexing="ij"), axis=-1).reshape(-1, len(axes))
    features = [axis.feature for axis in axes]
    out = []
    for point in grid:
        hybrid = game.background.copy()
        hybrid[:, features] = point
        out.append(game.scores(hybrid).mean(axis=0))
    return np.array(out).reshape(*(len(axis.values) for axis in axes), -1)
