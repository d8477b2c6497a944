"""From a table of numbers to the float32 design that kernels read, learned from training rows only.

Every feature of the table becomes one contiguous range of design columns: its standardised values, where values are missing an
indicator of that, and the further views that ``skinnytrees.tables.column_views`` decides on; or one 0/1 column per category. The
columns of a group of features stand together.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.encoding import encode_rows
from skinnytrees.kernels.state import contiguous_ranges
from skinnytrees.tables.column_views import (
    Curves,
    MoreViews,
    Views,
    common_levels,
    is_offsets,
    learn_views,
)
from skinnytrees.tables.groups import Groups
from skinnytrees.tables.scaling import FARTHEST, Scaling
from skinnytrees.tables.table_views import PickedRows, pieces, view

# Values worked on at once: with their copy in single precision they fill a second-level cache. Not fewer rows than these,
# because each block of rows reads all weights of the ensemble.
_VALUES_AT_ONCE = 2**15
_FEWEST_ROWS_AT_ONCE = 64
# Without standard deviations to clip values at, no sum of products may overflow in single precision.
_FARTHEST_AS_THEY_ARE = 1e15
# A column of missing-value indicators is worth having from this many missing and this many known rows on.
_INDICATOR_NEEDS_ROWS = 5


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
            farthest=FARTHEST if standardize else _FARTHEST_AS_THEY_ARE,
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
