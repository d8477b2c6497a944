"""Facts about a model's columns for those who measure them: usual range, typical value, scale, direction, importance."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless
from skinnytrees.model.export.evaluation import Columns, raw_outputs
from skinnytrees.model.export.portable import Input, Level, PortableModel

# The usual range is that between these quantiles.
_QUANTILES = (0.05, 0.5, 0.95)
# Without quantiles, this many deviations on either side of the mean; for normal values about the same range.
_DEVIATIONS = 1.645
# A direction is followed over this many steps through the usual range, in up to this many rows.
_N_STEPS = 24
_MOST_ROWS = 50
# Steps against the direction that make up less than this fraction of all movement do not count.
_AGAINST = 0.05


@dataclass(frozen=True)
class Range:
    """Usual values of a number; ``lowest`` and ``highest`` are those of the training rows, where the model knows them."""

    low: float
    typical: float
    high: float
    lowest: float | None = None
    highest: float | None = None


def usual_range(one: Input, values: NDArray[np.float64] | None) -> Range | None:
    """Usual values of an input that is a number, from rows if there are any, else from what the model knows.

    The model knows the ranks of a column that has curves, the values of one that has few, and otherwise mean and deviation.
    None where it knows none of that: with ``standardize=False``, or if the input is a category.
    """
    if one.value is None:
        return None
    if values is not None and np.isfinite(values).any():
        known = values[np.isfinite(values)]
        low, typical, high = np.quantile(known, _QUANTILES).tolist()
        return Range(low, typical, high, float(known.min()), float(known.max()))
    if one.curves:
        ranks = np.array(one.curves[-1]) / np.sqrt(12) + 0.5
        low, typical, high = np.interp(_QUANTILES, ranks, one.knots).tolist()
        return Range(low, typical, high, one.knots[0], one.knots[-1])
    if one.categories:
        levels = np.array(one.categories)
        nearest = levels[np.abs(levels - one.value.mean).argmin()]
        return Range(*(float(value) for value in (levels.min(), nearest, levels.max())))
    mean, scale = one.value.mean, one.value.scale
    if (mean, scale) == (0.0, 1.0):
        return None
    mean = _tidy(mean, scale)
    return Range(_tidy(mean - _DEVIATIONS * scale, scale), mean, _tidy(mean + _DEVIATIONS * scale, scale))


def _tidy(value: float, scale: float) -> float:
    """Without digits that do not matter next to the scale."""
    return round(value, 3 - math.floor(math.log10(scale)))


def typical_value(one: Input, values: Sequence[Any] | NDArray[Any] | None) -> Level:
    """The median of a number and the most frequent category, or without rows the first category."""
    if one.value is not None:
        usual = usual_range(one, None if values is None else _as_numbers(values))
        return 0.0 if usual is None else usual.typical
    frequency = dict.fromkeys(one.categories, 0)
    for value in [] if values is None else values:
        if value in frequency:
            frequency[value] += 1
    return max(frequency, key=lambda level: frequency[level]) if frequency else None


def ranges(model: PortableModel, X: Columns | None) -> list[Range | None]:
    """Usual range of every input."""
    return [
        usual_range(one, None if X is None or one.kind == "text" else _as_numbers(X[one.name])) for one in model.inputs
    ]


def typical_row(model: PortableModel, X: Columns | None) -> dict[str, Level]:
    """The typical value of every input."""
    return {one.name: typical_value(one, None if X is None else X[one.name]) for one in model.inputs}


def outcome_names(model: PortableModel) -> list[str]:
    """Outcomes that have a direction: the second of two classes, each of several classes, or each predicted number."""
    return list(model.output_names[1:] if len(model.labels) == 2 else model.output_names)


def directions(model: PortableModel, X: Columns | None) -> list[list[str]]:
    """For every input, how each outcome moves while the input increases through its usual range and the others stay fixed.

    "+" and "-" where it moves one way, "non-monotone" where it does not, "none" where it does not move, "by category" for
    categories, and "" where no range is known. The movement is the mean over rows of X, or that of the typical row.
    """
    rows = _some_rows(model, X)
    return [_directions_of(model, one, usual, rows) for one, usual in zip(model.inputs, ranges(model, X), strict=True)]


def check_units(model: PortableModel, units: Mapping[str, str] | None) -> dict[str, str]:
    """The units by column, where every column must be one that the model reads."""
    names = [one.name for one in model.inputs]
    for name in units or {}:
        refuse_unless(
            name in names, f"units names the column {name!r}, which the model does not read. It reads {names}."
        )
    return dict(units or {})


def _directions_of(model: PortableModel, one: Input, usual: Range | None, rows: dict[str, list[Any]]) -> list[str]:
    n_outcomes = len(outcome_names(model))
    if one.value is None:
        return ["by category"] * n_outcomes
    if usual is None:
        return [""] * n_outcomes
    grid, n_rows = np.linspace(usual.low, usual.high, _N_STEPS + 1), len(next(iter(rows.values())))
    repeated = {name: [value for value in column for _ in grid] for name, column in rows.items()}
    repeated[one.name] = np.tile(grid, n_rows).tolist()
    effect = _outcomes(model, raw_outputs(model, repeated)).reshape(n_rows, len(grid), n_outcomes).mean(axis=0)
    return [_direction(moves) for moves in np.diff(effect, axis=0).T]


def _outcomes(model: PortableModel, raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithms of odds or probabilities, so that nothing is hidden where a probability is near one; or raw predictions."""
    if model.link != "softmax":
        return raw
    logarithms = raw - np.logaddexp.reduce(raw, axis=1, keepdims=True)
    return logarithms[:, 1:] - logarithms[:, :1] if len(model.labels) == 2 else logarithms


def _direction(moves: NDArray[np.float64]) -> str:
    up, down = float(moves[moves > 0].sum()), float(-moves[moves < 0].sum())
    if up + down == 0:
        return "none"
    if min(up, down) > _AGAINST * (up + down):
        return "non-monotone"
    return "+" if up > down else "-"


def _some_rows(model: PortableModel, X: Columns | None) -> dict[str, list[Any]]:
    if X is None:
        return {name: [value] for name, value in typical_row(model, None).items()}
    n_rows = len(X[model.inputs[0].name])
    chosen = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _MOST_ROWS)).round().astype(int))
    return {one.name: [X[one.name][i] for i in chosen] for one in model.inputs}


def _as_numbers(values: Sequence[Any] | NDArray[Any]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
