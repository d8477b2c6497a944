"""Shift and scale of the columns of a table, dense or sparse, which a few wild cells do not disturb."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.tables.column_views import Distinct, distinct_values
from skinnytrees.tables.table_views import pieces, view

# Values are clipped at this many standard deviations from the mean: a few of them must not dominate a fit.
FARTHEST = 5.0
# A few extreme outliers (a typing error, a code for "unknown") must not inflate a column's deviation until all others seem equal.
# The deviation is corrected where it exceeds the one that the quartiles suggest by this factor. Their ratio is 1 for normal
# values, 1.2 for exponential and 2 for log-normal ones, so that ordinary skewed columns keep their numbers.
_INFLATED = 5.0
# Outliers are corrected only if they are few. More of them are a tail, which may carry the signal; the deviation is right for it.
_FEW_CELLS = 0.01
# Squares of smaller numbers than this lose digits in double precision.
_SMALL_SQUARES = 1e-140
# Interquartile range of normal values with deviation one, and the median of their distances from zero.
_NORMAL_RANGE = 1.349
_NORMAL_DISTANCE = _NORMAL_RANGE / 2


@dataclass(frozen=True)
class Scaling:
    """Shift and scale of each column: ``(x - mean) / scale``.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.scaling import Scaling
    >>> scaling = Scaling.learn(np.array([[1.0], [3.0]]), np.ones(2))
    >>> scaling.mean.tolist(), scaling.scale.tolist()
    ([2.0], [1.0])
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def learn(cls, values: Any, weight: NDArray[Any]) -> "Scaling":
        """Weighted mean and standard deviation of what is not missing; a constant column is only shifted.

        Sparse columns keep their zeros: they are divided by the root mean square of their other values.
        """
        if sparse.issparse(values):
            return cls(np.zeros(values.shape[1]), _nonzero_size(values))
        return cls._of(_moments(values, weight), values.dtype)

    @classmethod
    def learn_robust(cls, values: Any, weight: NDArray[Any]) -> "Scaling":
        """The same, except in columns where a few extreme outliers inflate the deviation.

        There, values count as no farther from the median than five of the deviations that the quartiles suggest. In a
        column that has one value in most rows, and in sparse columns, for which this value is zero, the other values count as
        no farther from it than five of the deviations that their median distance suggests.

        Examples
        --------
        >>> import numpy as np
        >>> from skinnytrees.tables.scaling import Scaling
        >>> values = np.append(np.arange(99.0), 1e6)[:, None]
        >>> Scaling.learn(values, np.ones(100)).scale.round().tolist()
        [99494.0]
        >>> Scaling.learn_robust(values, np.ones(100)).scale.round().tolist()
        [34.0]
        """
        if sparse.issparse(values):
            return cls(np.zeros(values.shape[1]), _robust_nonzero_size(values))
        moments = _moments(values, weight)
        # Where no value is clipped, none is an outlier. Too large numbers give a deviation that is infinite or not a number.
        is_cut = moments.farthest / FARTHEST > moments.spread
        doubtful = np.flatnonzero(is_cut | ~np.isfinite(moments).all(axis=0))
        for k, distinct in zip(doubtful.tolist(), distinct_values(values, weight, doubtful), strict=True):
            moments.mean[k], moments.spread[k] = _robust_moments(distinct, moments.mean[k], moments.spread[k])
        return cls._of(moments, values.dtype)

    @classmethod
    def _of(cls, moments: "_Moments", dtype: np.dtype[Any]) -> "Scaling":
        # What rounding leaves of a constant column is not a spread.
        noise = 10 * np.finfo(dtype).eps * np.abs(moments.mean)
        return cls(moments.mean, np.where(moments.spread > noise, moments.spread, 1.0))

    @classmethod
    def none(cls, n_columns: int) -> "Scaling":
        """Leave the columns as they are."""
        return cls(np.zeros(n_columns), np.ones(n_columns))


class _Moments(NamedTuple):
    """Mean and deviation of each column, and the distance of its value that is farthest from the mean."""

    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    farthest: NDArray[np.float64]


def _moments(values: Any, weight: NDArray[Any]) -> _Moments:
    """Of each column; where squares overflow in double precision, of values divided by a power of two."""
    with np.errstate(over="ignore", invalid="ignore"):
        moments = _plain_moments(values, weight, np.zeros(values.shape[1], dtype=int))
    mean, spread, _ = moments
    too_small = (spread < _SMALL_SQUARES) & (np.abs(mean) < _SMALL_SQUARES)
    extreme = np.flatnonzero(too_small | ~np.isfinite(moments).all(axis=0))
    if len(extreme):
        part = view(values)[:, extreme]
        exponent = _largest_exponent(part)
        again = _plain_moments(part, weight, exponent)
        with np.errstate(over="ignore"):  # the distance of values of both signs near the largest number may be infinite
            for of_all, of_part in zip(moments, again, strict=True):
                of_all[extreme] = np.ldexp(of_part, exponent)
    return moments


def _plain_moments(values: Any, weight: NDArray[Any], exponent: NDArray[np.intp]) -> _Moments:
    """Of the columns divided by two to the power of ``exponent``."""
    total, squares, count, farthest = np.zeros((4, values.shape[1]))
    for rows, w in _pieces(values, weight, exponent):
        missing = np.isnan(rows)
        rows[missing] = 0.0
        total += w @ rows
        count += w.sum()
        if missing.any():
            count -= w @ missing
    mean = total / np.maximum(count, np.finfo(float).tiny)
    for rows, w in _pieces(values, weight, exponent):
        rows -= mean
        rows[np.isnan(rows)] = 0.0
        squares += w @ np.square(rows, out=rows)
        np.maximum(farthest, rows.max(axis=0, initial=0.0), out=farthest)
    return _Moments(mean, np.sqrt(squares / np.maximum(count, np.finfo(float).tiny)), np.sqrt(farthest))


def _largest_exponent(values: Any) -> NDArray[np.intp]:
    """For each column, the exponent of two of its value farthest from zero; 0 where all are zero or missing."""
    largest = np.zeros(values.shape[1])
    for rows in pieces(*values.shape):
        np.maximum(largest, np.nanmax(np.abs(np.nan_to_num(values[rows], nan=0.0)), axis=0, initial=0.0), out=largest)
    return np.frexp(largest)[1].astype(np.intp)


def _robust_moments(distinct: Distinct, mean: float, spread: float) -> tuple[float, float]:
    """Mean and deviation of a column, without its few outliers if these inflate the deviation."""
    low, median, high = distinct.quantiles([0.25, 0.5, 0.75])
    if low == high:
        suggested = _deviation_of_others(distinct, median)
        return (mean, spread) if suggested is None else _tamed_moments(distinct, median, suggested)
    suggested = high / _NORMAL_RANGE - low / _NORMAL_RANGE
    if not 0 < suggested < spread / _INFLATED:
        return mean, spread
    distance = np.abs(distinct.value / suggested - median / suggested)  # a difference of values may be infinite
    return _tamed_moments(distinct, median, suggested) if _are_few(distinct, distance > FARTHEST) else (mean, spread)


def _deviation_of_others(distinct: Distinct, common: float) -> float | None:
    """What the values other than that of most rows suggest, if few of them inflate the size of all; else None."""
    others = Distinct(*(part[distinct.value != common] for part in distinct))
    if len(others.value) == 0:
        return None
    distance = np.abs(others.value / 2 - common / 2)  # a difference of values may be infinite
    largest, order = float(distance.max()), np.argsort(distance)
    (median_distance,) = Distinct(distance[order], others.n_rows[order], others.weight[order]).quantiles([0.5])
    suggested = median_distance / _NORMAL_DISTANCE
    size = largest * float(np.sqrt(np.average((distance / largest) ** 2, weights=others.weight)))
    is_inflated = largest / FARTHEST > size and 0 < suggested < size / _INFLATED
    return 2 * suggested if is_inflated and _are_few(others, distance / FARTHEST > suggested) else None


def _are_few(distinct: Distinct, is_wild: NDArray[np.bool_]) -> bool:
    """Whether so few values are outliers that they may be corrected."""
    n_rows, weight = distinct.n_rows[is_wild].sum(), distinct.weight[is_wild].sum()
    return bool(n_rows <= 1 or weight <= _FEW_CELLS * distinct.weight.sum())


def _tamed_moments(distinct: Distinct, median: float, suggested: float) -> tuple[float, float]:
    """Mean and deviation, with outliers as far from the median as a value can be."""
    distance = distinct.value / suggested - median / suggested
    tamed = np.clip(distance, -FARTHEST, FARTHEST)
    center = float(np.average(tamed, weights=distinct.weight))
    spread_of_tamed = float(np.sqrt(np.average((tamed - center) ** 2, weights=distinct.weight)))
    return median + suggested * center, suggested * spread_of_tamed


def _pieces(
    values: Any, weight: NDArray[Any], exponent: NDArray[np.intp]
) -> Iterator[tuple[NDArray[np.float64], NDArray[Any]]]:
    is_scaled = exponent.any()
    for rows in pieces(*values.shape):
        some = values[rows].astype(np.float64)
        yield np.ldexp(some, -exponent, out=some) if is_scaled else some, weight[rows]


def _nonzero_size(values: Any) -> NDArray[np.float64]:
    """Root mean square of the stored values of each column that are not missing; 1 where there are none."""
    n_columns = values.shape[1]
    values = values.tocsr()
    with np.errstate(over="ignore"):
        squares, count = _stored_squares(values, np.zeros(n_columns, dtype=int))
        size = np.sqrt(squares / np.maximum(count, 1))
    extreme = np.flatnonzero((count > 0) & ~((size > _SMALL_SQUARES) & np.isfinite(size)))
    if len(extreme):
        part = values[:, extreme]
        largest = abs(part).nanmax(axis=0).toarray().ravel().astype(np.float64)
        exponent = np.frexp(largest)[1].astype(np.intp)
        size[extreme] = np.ldexp(np.sqrt(_stored_squares(part, exponent)[0] / count[extreme]), exponent)
    return np.where(size > 0, size, 1.0)


def _robust_nonzero_size(values: Any) -> NDArray[np.float64]:
    """The same without the few outliers of a column, if these inflate its size."""
    values = values.tocsr()
    size, largest = _nonzero_size(values), np.zeros(values.shape[1])
    for some in pieces(len(values.data), 1):
        np.fmax.at(largest, values.indices[some], np.abs(values.data[some]).astype(np.float64))
    doubtful = np.flatnonzero(largest / FARTHEST > size)
    part = values[:, doubtful].tocsc()
    for k, first, end in zip(doubtful.tolist(), part.indptr[:-1], part.indptr[1:], strict=True):
        distance = np.abs(part.data[first:end]).astype(np.float64)
        distance = distance[~np.isnan(distance)]
        suggested = float(np.median(distance)) / _NORMAL_DISTANCE
        n_wild = int(np.count_nonzero(distance / FARTHEST > suggested))
        if 0 < suggested < size[k] / _INFLATED and n_wild <= max(1, _FEW_CELLS * len(distance)):
            size[k] = suggested * np.sqrt(np.mean(np.minimum(distance / suggested, FARTHEST) ** 2))
    return size


def _stored_squares(values: Any, exponent: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each column, the sum of squares of values divided by two to the power of ``exponent``, and their number."""
    squares, count = np.zeros((2, values.shape[1]))
    for some in pieces(len(values.data), 1):
        data, column = values.data[some].astype(np.float64), values.indices[some]
        known = ~np.isnan(data)
        data, column = np.ldexp(data[known], -exponent[column[known]]), column[known]
        np.add.at(squares, column, data**2)
        np.add.at(count, column, 1.0)
    return squares, count
