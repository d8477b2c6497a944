"""From a table of numbers to the float32 design that kernels read, learned from training rows only.

Every feature of the table becomes one contiguous range of design columns: its standardised values, where values are missing an
indicator of that, and the further views that ``skinnytrees.tables.column_views`` decides on; or one 0/1 column per category. The
columns of a group of features stand together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.encoding import encode_rows
from skinnytrees.kernels.state import contiguous_ranges
from skinnytrees.tables.column_views import (
    Curves,
    Distinct,
    MoreViews,
    Views,
    common_levels,
    distinct_values,
    is_offsets,
    learn_views,
)
from skinnytrees.tables.groups import Groups
from skinnytrees.tables.table_views import PickedRows, pieces, view

# Values worked on at once: with their copy in single precision they fill a second-level cache. Not fewer rows than these,
# because each block of rows reads all weights of the ensemble.
_VALUES_AT_ONCE = 2**15
_FEWEST_ROWS_AT_ONCE = 64
# Values are clipped at this many standard deviations from the mean: a few of them must not dominate a fit. Without standard
# deviations, no sum of products may overflow in single precision.
_FARTHEST = 5.0
_FARTHEST_AS_THEY_ARE = 1e15
# A column of missing-value indicators is worth having from this many missing and this many known rows on.
_INDICATOR_NEEDS_ROWS = 5
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
    >>> from skinnytrees.tables.encoding import Scaling
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
        >>> from skinnytrees.tables.encoding import Scaling
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
        is_cut = moments.farthest / _FARTHEST > moments.spread
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


@dataclass(frozen=True)
class Encoder:
    """Turns rows of a table into design rows; every array but ``offsets`` has one entry per design column.

    Attributes
    ----------
    feature : array of int
        Feature of the table that the column is made of.
    mean, scale : array of float
        Of a column of values.
    level : array of float
        Category that a 0/1 column stands for (NaN: missing); not used elsewhere.
    is_indicator, is_level : array of bool
        Whether the column tells of missing values, or of one category.
    curves : Curves
        Of the columns that are ranks; missing values are zero there, as among the standardised values.
    offsets : array of int
        Design columns ``offsets[g]`` to ``offsets[g + 1]`` make up group g.
    farthest : float
        Standardised values beyond this, on either side, are taken to be this.
    """

    feature: NDArray[np.intp]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    level: NDArray[np.float64]
    is_indicator: NDArray[np.bool_]
    is_level: NDArray[np.bool_]
    curves: Curves
    offsets: NDArray[np.intp]
    farthest: float

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together, or numbers that no column can have."""
        columns = (self.feature, self.mean, self.scale, self.level, self.is_indicator, self.is_level)
        shapes, types = {one.shape for one in columns}, [one.dtype for one in columns]
        n_columns = self.feature.size
        refuse_unless(
            shapes == {(n_columns,)} and types == [np.intp, *[np.float64] * 3, *[np.bool_] * 2],
            f"The arrays of an encoder have the shapes {sorted(shapes)}. All must have one entry per design column.",
        )
        refuse_unless(
            is_offsets(self.offsets, n_columns) and len(self.curves.offsets) == n_columns + 1,
            f"The groups or curves of an encoder do not cover its {n_columns} columns.",
        )
        is_one_thing = (self.is_indicator + self.is_level.astype(int) + self.curves.exists < 2) & ~np.isinf(self.level)
        is_limit = isinstance(self.farthest, int | float) and 0 < self.farthest <= _FARTHEST_AS_THEY_ARE
        refuse_unless(
            bool(is_limit and np.all(is_one_thing & (self.feature >= 0))),
            "A column of an encoder is of two kinds at once, or of a feature or a level that cannot be.",
        )

    @property
    def is_finite(self) -> bool:
        """Whether finite values become finite numbers in all columns."""
        return bool(np.isfinite(self.mean).all() and np.isfinite(self.scale).all() and np.all(self.scale > 0))

    @classmethod
    def learn(
        cls, X: Any, weight: NDArray[Any], groups: Groups, is_categorical: NDArray[np.bool_],
        standardize: bool, views: Views,
    ) -> "Encoder":  # fmt: skip
        """Learn from training rows how to encode the features of these groups.

        Sparse tables and columns that are left as they are (``standardize=False``) get their values only, whatever ``views`` say.
        """
        features = groups.features
        is_categorical, is_sparse = is_categorical[features], sparse.issparse(X)
        if len(features) < X.shape[1] or not (is_sparse or np.array_equal(features, np.arange(X.shape[1]))):
            X, places = X[:, features], np.arange(len(features))
        else:
            places = features  # a sparse table is not copied only to reorder its columns
        scaling = Scaling.learn_robust(X, weight) if standardize else Scaling.none(X.shape[1])
        scaling = Scaling(scaling.mean[places], scaling.scale[places])
        n_missing = _count_missing(X)[places]
        numeric = np.flatnonzero(~is_categorical)
        more = learn_views(X, weight, numeric, Views.linear_only() if is_sparse or not standardize else views)
        levels = {k: _categories(_column(X, places[k])) for k in np.flatnonzero(is_categorical).tolist()} | more.levels

        # Columns of a number: value, indicator, ranks, levels. Columns of a category: levels.
        has_indicator = ~is_categorical & (np.minimum(n_missing, X.shape[0] - n_missing) >= _INDICATOR_NEEDS_ROWS)
        n_ranks, n_levels = np.zeros((2, len(features)), dtype=int)
        n_ranks[list(more.ranks)] = len(more.scores)
        n_levels[list(levels)] = [len(one) for one in levels.values()]
        ranks_from = np.where(is_categorical, 0, 1 + has_indicator)
        levels_from = ranks_from + n_ranks
        n_columns = levels_from + n_levels
        of = np.repeat(np.arange(len(features)), n_columns)
        place = np.arange(len(of)) - np.repeat(np.cumsum(n_columns) - n_columns, n_columns)
        is_level = place >= levels_from[of]
        is_value = ~is_level & (place == 0)
        level = np.full(len(of), np.nan)
        level[is_level] = np.concatenate([*(levels[k] for k in sorted(levels)), []])
        ends = np.cumsum(n_columns)[groups.offsets[1:] - 1]
        return cls(
            feature=features[of].astype(np.intp),
            mean=np.where(is_value, scaling.mean[of], 0.0),
            scale=np.where(is_value, scaling.scale[of], 1.0),
            level=level,
            is_indicator=(place == 1) & has_indicator[of],
            is_level=is_level,
            curves=_rank_curves(more, (place >= ranks_from[of]) & ~is_level),
            offsets=np.append(0, ends).astype(np.intp),
            farthest=_FARTHEST if standardize else _FARTHEST_AS_THEY_ARE,
        )

    def select(self, groups: NDArray[np.intp]) -> "Encoder":
        """The encoder of some of the groups."""
        return self._reordered(*contiguous_ranges(self.offsets, groups))

    def in_table_order(self) -> tuple["Encoder", NDArray[np.intp]]:
        """The same with groups, and features within a group, in the order of the table; and where its columns were before."""
        sizes = np.diff(self.offsets)
        first = np.minimum.reduceat(self.feature, self.offsets[:-1]) if len(self.feature) else np.zeros(0)
        columns = np.lexsort((self.feature, np.repeat(first, sizes)))
        return self._reordered(columns, np.append(0, np.cumsum(sizes[np.argsort(first, kind="stable")]))), columns

    def _reordered(self, columns: NDArray[np.intp], offsets: NDArray[np.intp]) -> "Encoder":
        return Encoder(
            feature=self.feature[columns],
            mean=self.mean[columns],
            scale=self.scale[columns],
            level=self.level[columns],
            is_indicator=self.is_indicator[columns],
            is_level=self.is_level[columns],
            curves=self.curves.select(columns),
            offsets=offsets.astype(np.intp),
            farthest=self.farthest,
        )

    def encode(self, X: Any) -> Any:
        """Design rows in float32: row-major, or CSR for a sparse table whose zeros stay zeros.

        Only the features of the encoder are read. An infinite value among them is refused, as scikit-learn refuses it.
        """
        if sparse.issparse(X) and not (self.is_level.any() or self.curves.exists.any() or self.mean.any()):
            return self._encode_sparse(X[:, self.feature].tocsr())
        design = np.empty((X.shape[0], len(self.feature)), dtype=np.float32)
        is_sparse, curves = sparse.issparse(X), self.curves
        picked = X if is_sparse else view(X)[:, self.feature]
        for rows in cached_pieces(*design.shape):
            values = X[rows][:, self.feature] if is_sparse else picked[rows]
            values = np.ascontiguousarray(values.toarray() if is_sparse else values, dtype=np.float64)
            n_infinite = encode_rows(
                values, self.mean, self.scale, self.farthest, self.level, self.is_indicator, self.is_level,
                curves.knots, curves.heights, curves.offsets, design[rows],
            )  # fmt: skip
            if n_infinite > 0:
                assert_all_finite(values, allow_nan=True, input_name="X")
        return design

    def _encode_sparse(self, picked: Any) -> Any:
        """Scaled values and indicators of missing ones, as a CSR matrix of the same entries; missing values are zero."""
        design = np.empty(len(picked.data), dtype=np.float32)
        n_missing = 0
        for some in pieces(len(design), 1):
            values, column = picked.data[some].astype(np.float64), picked.indices[some]
            missing = np.isnan(values)
            n_missing += int(np.count_nonzero(missing))
            values /= self.scale[column]
            np.clip(values, -self.farthest, self.farthest, out=values)
            values[missing] = 0.0
            design[some] = np.where(self.is_indicator[column], missing, values)
        encoded = sparse.csr_array((design, picked.indices, picked.indptr), shape=picked.shape)
        if n_missing or self.is_indicator.any():
            encoded.eliminate_zeros()
        return encoded

    @property
    def _is_made_up(self) -> NDArray[np.bool_]:
        """Which columns are something else than shifted and scaled values."""
        return self.is_indicator | self.is_level | self.curves.exists

    def training_design(self, X: Any) -> Any:
        """Design rows to train on: the table's own, not copied, where encoding would change nothing."""
        if self._changes_nothing(X):
            return view(X)
        design = self.encode(X)
        return design if sparse.issparse(design) else PickedRows(design)

    def _changes_nothing(self, X: Any) -> bool:
        """Whether kernels can read a table as it stands."""
        X = view(X)
        if not isinstance(X, PickedRows) or X.columns is not None or X.dtype != np.float32 or not X.table.flags.carray:
            return False
        is_changed = self._is_made_up | (self.mean != 0) | (self.scale != 1)
        if is_changed.any() or not np.array_equal(self.feature, np.arange(X.shape[1])):
            return False
        # Written so that a missing value is not within the limits.
        return all(np.all(np.abs(X[rows]) <= self.farthest) for rows in pieces(*X.shape))

    def encode_dense(self, X: Any) -> NDArray[np.float32]:
        """Design rows, row-major also for a sparse table."""
        design = self.encode(X)
        return np.ascontiguousarray(design.toarray()) if sparse.issparse(design) else design


def cached_pieces(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Blocks of rows that stay in the processor's cache while they are worked on.

    Examples
    --------
    >>> from skinnytrees.tables.encoding import cached_pieces
    >>> list(cached_pieces(1000, n_columns=50))
    [slice(0, 655, None), slice(655, 1310, None)]
    """
    n_at_once = max(_FEWEST_ROWS_AT_ONCE, _VALUES_AT_ONCE // max(1, n_columns))
    for start in range(0, n_rows, n_at_once):
        yield slice(start, start + n_at_once)


def varying_features(X: Any) -> NDArray[np.bool_]:
    """Which features have more than one value (missing counts as a value)."""
    if sparse.issparse(X):
        if np.isnan(X.data).any():
            X = X.copy()
            X.data[np.isnan(X.data)] = np.inf  # a value that does not occur elsewhere
        top, low = X.max(axis=0), X.min(axis=0)
        return np.asarray(top.toarray() != low.toarray()).ravel()
    first = X[:1]
    varies = np.zeros(X.shape[1], dtype=bool)
    for piece in pieces(*X.shape):
        rows = X[piece]
        varies |= np.any((rows != first) & ~(np.isnan(rows) & np.isnan(first)), axis=0)
    return varies


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
        with np.errstate(
            over="ignore"
        ):  # of values of both signs near the largest number, the distance may be infinite
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
    return (
        (mean, spread) if not _are_few(distinct, distance > _FARTHEST) else _tamed_moments(distinct, median, suggested)
    )


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
    is_inflated = largest / _FARTHEST > size and 0 < suggested < size / _INFLATED
    return 2 * suggested if is_inflated and _are_few(others, distance / _FARTHEST > suggested) else None


def _are_few(distinct: Distinct, is_wild: NDArray[np.bool_]) -> bool:
    """Whether so few values are outliers that they may be corrected."""
    n_rows, weight = distinct.n_rows[is_wild].sum(), distinct.weight[is_wild].sum()
    return bool(n_rows <= 1 or weight <= _FEW_CELLS * distinct.weight.sum())


def _tamed_moments(distinct: Distinct, median: float, suggested: float) -> tuple[float, float]:
    """Mean and deviation, with outliers as far from the median as a value can be."""
    distance = distinct.value / suggested - median / suggested
    tamed = np.clip(distance, -_FARTHEST, _FARTHEST)
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
    doubtful = np.flatnonzero(largest / _FARTHEST > size)
    part = values[:, doubtful].tocsc()
    for k, first, end in zip(doubtful.tolist(), part.indptr[:-1], part.indptr[1:], strict=True):
        distance = np.abs(part.data[first:end]).astype(np.float64)
        distance = distance[~np.isnan(distance)]
        suggested = float(np.median(distance)) / _NORMAL_DISTANCE
        n_wild = int(np.count_nonzero(distance / _FARTHEST > suggested))
        if 0 < suggested < size[k] / _INFLATED and n_wild <= max(1, _FEW_CELLS * len(distance)):
            size[k] = suggested * np.sqrt(np.mean(np.minimum(distance / suggested, _FARTHEST) ** 2))
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


def _count_missing(X: Any) -> NDArray[np.intp]:
    if sparse.issparse(X):
        X = X.tocsr()
        return np.bincount(X.indices[np.isnan(X.data)], minlength=X.shape[1])
    count = np.zeros(X.shape[1], dtype=np.intp)
    for rows in pieces(*X.shape):
        count += np.isnan(X[rows]).sum(axis=0)
    return count


def _categories(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return common_levels(*np.unique(values, return_counts=True))


def _column(X: Any, k: int) -> NDArray[np.float64]:
    column = X[:, np.array([k])]
    return np.asarray(column.toarray() if sparse.issparse(X) else column, dtype=np.float64).ravel()


def _rank_curves(more: MoreViews, is_rank: NDArray[np.bool_]) -> Curves:
    """For each feature that has ranks, in order, a curve for each function of the rank."""
    points = [more.ranks[k] for k in sorted(more.ranks)]
    knots = [knots for knots, _ in points for _ in more.scores]
    heights = [score(rank) for _, rank in points for score in more.scores]
    n_points = np.zeros(len(is_rank), dtype=np.intp)
    n_points[is_rank] = [len(one) for one in knots]
    offsets = np.append(0, np.cumsum(n_points)).astype(np.intp)
    return Curves(np.concatenate([*knots, []]), np.concatenate([*heights, []]), offsets)
