"""Several views of one numeric feature: which of them it gets, and the curves that turn its values into ranks.

Axis-aligned trees do not depend on monotone transformations of a column, linear splits do. A feature may therefore have several
design columns in its one group: its scaled value, the normal score of its rank or the rank's distance from the middle, its
uniform rank, and one 0/1 column per value where it has few of them. ``skinnytrees.tables.encoding`` puts these columns together.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.state import contiguous_ranges
from skinnytrees.tables.table_views import pieces, view

# With two values, a 0/1 column per value would repeat the scaled value.
_LEVELS_FROM = 3
# Normal scores beyond this are those of rows with next to no weight; the scaled values are clipped there, too.
_FARTHEST_SCORE = 5.0
# Values that are sorted together, which bounds the memory.
_SORTED_AT_ONCE = 2**19
# Rarer values than this have no 0/1 column: a column that is zero in all rows but one only remembers that row.
_LEVEL_NEEDS_ROWS = 2
_MOST_LEVELS = 256


@dataclass(frozen=True)
class Views:
    """Which design columns a numeric feature gets besides its scaled value.

    Attributes
    ----------
    ranks : bool
        Whether there are two columns of ranks: the normal score and the uniform rank. A single transformation in place of
        the scaled value helps some tables and harms others, so that the trees are given all three.
    folded : bool
        Whether the distance of the rank from the middle takes the place of the normal score: it makes symmetric effects linear.
    ranks_from : int
        Features with fewer distinct values than this get no ranks. The ranks of two values are their scaled values again,
        and those of three differ from them in one number.
    n_knots : int
        Ranks are piecewise-linear functions through at most this many knots. 128 knots of two columns take 4 kB per feature
        in a model file, and the ranks of 20,000 normal or log-normal values are then off by 0.0015 at most.
    max_levels : int
        Features with 3 to ``max_levels`` distinct values get one 0/1 column per value, because such values are often codes
        without an order; 0 means that none do.
    max_cells : int
        Where rows times design columns would exceed this, all features have their scaled values only: a wide table must not
        take several times the memory. 2**22 values take 16 MB.
    max_features_per_row : float
        With more features per row than this, all have their scaled values only: on such tables ranks cost time and gain nothing.

    Examples
    --------
    >>> from skinnytrees.tables.column_views import Views
    >>> Views().ranks, Views.linear_only().ranks
    (True, False)
    """

    ranks: bool = True
    folded: bool = False
    ranks_from: int = 4
    n_knots: int = 128
    max_levels: int = 12
    max_cells: int = 2**22
    max_features_per_row: float = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers of knots that make no curve."""
        refuse_unless(self.n_knots >= 2, f"n_knots={self.n_knots} does not make a curve. Use at least 2.")

    @classmethod
    def linear_only(cls) -> "Views":
        """The scaled value and nothing else."""
        return cls(ranks=False, max_levels=0)

    @property
    def is_linear_only(self) -> bool:
        """Whether no feature can get more than its scaled value."""
        return not self.ranks and self.max_levels < _LEVELS_FROM


@dataclass(frozen=True)
class Curves:
    """Piecewise-linear functions, at most one per design column.

    The curve of column j goes through the points ``(knots, heights)`` from ``offsets[j]`` to ``offsets[j + 1]`` and is constant
    beyond them. Within a curve, knots increase. A column for which the range is empty has none.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.column_views import Curves
    >>> curves = Curves(knots=np.array([0.0, 1.0]), heights=np.array([-1.0, 1.0]), offsets=np.array([0, 2, 2]))
    >>> curves.exists.tolist(), curves.select(np.array([1])).knots.tolist()
    ([True, False], [])
    """

    knots: NDArray[np.float64]
    heights: NDArray[np.float64]
    offsets: NDArray[np.intp]

    def __post_init__(self) -> None:
        """Refuse what is no set of curves."""
        offsets, knots, heights = self.offsets, self.knots, self.heights
        refuse_unless(
            is_offsets(offsets, len(knots)) and knots.shape == heights.shape == (len(knots),),
            f"Curves of the shapes {knots.shape}, {heights.shape} and {offsets.shape} do not fit together.",
        )
        is_number = (
            knots.dtype == heights.dtype == np.float64 and np.isfinite(knots).all() and np.isfinite(heights).all()
        )
        within = np.ones(max(0, len(knots) - 1), dtype=bool)
        ends = offsets[(offsets > 0) & (offsets < len(knots))]
        within[ends - 1] = False
        rises = np.all(np.diff(knots)[within] > 0)
        refuse_unless(
            bool(is_number and rises), "The knots of a curve must be finite and increase, and heights be finite."
        )

    @classmethod
    def none(cls, n_columns: int) -> "Curves":
        """No curve for any of the columns."""
        return cls(np.zeros(0), np.zeros(0), np.zeros(n_columns + 1, dtype=np.intp))

    @property
    def exists(self) -> NDArray[np.bool_]:
        """Which columns have a curve."""
        return np.diff(self.offsets) > 0

    def select(self, columns: NDArray[np.intp]) -> "Curves":
        """The curves of some of the columns."""
        points, offsets = contiguous_ranges(self.offsets, columns)
        return Curves(self.knots[points], self.heights[points], offsets)


class Distinct(NamedTuple):
    """A column's values without repeats and without missing ones, in increasing order."""

    value: NDArray[np.float64]
    n_rows: NDArray[np.intp]
    weight: NDArray[np.float64]

    def ranks(self) -> NDArray[np.float64]:
        """For each value, the fraction of the weight below it and half of that at it, between 0 and 1."""
        end = np.cumsum(self.weight)
        return (end - 0.5 * self.weight) / end[-1]

    def quantiles(self, fractions: list[float]) -> list[float]:
        """The least values that at least these fractions of the weight do not exceed."""
        end = np.cumsum(self.weight)
        return self.value[np.searchsorted(end, np.array(fractions) * end[-1])].tolist()


class MoreViews(NamedTuple):
    """What features get besides their scaled values, by their positions in the table: levels, and knots with their ranks.

    ``scores`` are functions of the rank, and each of them makes one column of every feature that has ranks.
    """

    levels: dict[int, NDArray[np.float64]]
    ranks: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]]
    scores: tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], ...]

    @classmethod
    def none(cls) -> "MoreViews":
        """Nothing more."""
        return cls({}, {}, ())


def is_offsets(offsets: NDArray[Any], n_items: int) -> bool:
    """Whether these are the ends of ranges that cover this many items in their order.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.column_views import is_offsets
    >>> is_offsets(np.array([0, 2, 2, 5]), 5), is_offsets(np.array([0, 6, 5]), 5)
    (True, False)
    """
    if offsets.ndim != 1 or len(offsets) == 0 or offsets.dtype != np.intp:
        return False
    return bool(offsets[0] == 0 and offsets[-1] == n_items and np.all(offsets[1:] >= offsets[:-1]))


def learn_views(X: Any, weight: NDArray[Any], numeric: NDArray[np.intp], views: Views) -> MoreViews:
    """The levels of features that have few, and knots with the ranks of those that have many, of a dense table."""
    levels, ranks = {}, {}
    n_rows, n_columns = X.shape[0], len(numeric)
    is_wide = n_columns > n_rows * views.max_features_per_row or n_rows * n_columns > views.max_cells
    if views.is_linear_only or is_wide:
        return MoreViews.none()
    for k, distinct in zip(numeric.tolist(), distinct_values(X, weight, numeric), strict=True):
        n_values = len(distinct.value)
        if _LEVELS_FROM <= n_values <= views.max_levels:
            levels[k] = common_levels(distinct.value, distinct.n_rows)
        if views.ranks and n_values >= views.ranks_from:
            ranks[k] = _thin_out(distinct, views.n_knots)
    n_columns += sum(map(len, levels.values()))
    scores = (folded_scores if views.folded else normal_scores, uniform_scores)
    fits = n_rows * (n_columns + len(scores) * len(ranks)) <= views.max_cells
    return MoreViews(levels, ranks, scores) if fits else MoreViews.none()


def normal_scores(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantiles of the standard normal distribution at these ranks.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.column_views import normal_scores
    >>> normal_scores(np.array([0.0, 0.5, 0.975])).round(2).tolist()
    [-5.0, 0.0, 1.96]
    """
    return np.clip(ndtri(ranks), -_FARTHEST_SCORE, _FARTHEST_SCORE)


def uniform_scores(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks between 0 and 1, shifted and scaled to mean zero and deviation one.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.column_views import uniform_scores
    >>> uniform_scores(np.array([0.0, 0.5, 1.0])).round(2).tolist()
    [-1.73, 0.0, 1.73]
    """
    return (ranks - 0.5) * np.sqrt(12)


def folded_scores(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances of ranks from the middle, shifted and scaled to mean zero and deviation one.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.column_views import folded_scores
    >>> folded_scores(np.array([0.0, 0.25, 0.5, 1.0])).round(2).tolist()
    [1.73, 0.0, -1.73, 1.73]
    """
    return (np.abs(ranks - 0.5) - 0.25) * np.sqrt(48)


def distinct_values(X: Any, weight: NDArray[Any], columns: NDArray[np.intp]) -> Iterator[Distinct]:
    """The distinct values of some columns of a dense table, of which a few columns at a time are copied."""
    has_equal_weights = bool(np.all(weight == weight[0]))
    for some in pieces(len(columns), X.shape[0], _SORTED_AT_ONCE):
        block = np.array(view(X)[:, columns[some]][:].T, dtype=np.float64, order="C")
        if has_equal_weights:
            block.sort(axis=1)
            yield from (_distinct(values, None) for values in block)
        else:
            # Stable, so that the weights of equal values are summed in the same order everywhere.
            orders = np.argsort(block, axis=1, kind="stable")
            yield from (_distinct(values[order], weight[order]) for values, order in zip(block, orders, strict=True))


def common_levels(levels: NDArray[np.float64], n_rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Without those that few rows have, unless all are like that."""
    often = n_rows >= min(_LEVEL_NEEDS_ROWS, n_rows.max())
    common = np.argsort(-n_rows, kind="stable")[:_MOST_LEVELS]
    return levels[np.sort(common[often[common]])]


def _distinct(values: NDArray[np.float64], weight: NDArray[Any] | None) -> Distinct:
    """From values in increasing order, missing ones last; without weights all rows count the same."""
    known = values[: len(values) - np.count_nonzero(np.isnan(values))]
    starts = np.flatnonzero(np.append(True, known[1:] != known[:-1])[: len(known)])
    n_rows = np.diff(starts, append=len(known))
    if weight is None or len(known) == 0:
        return Distinct(known[starts], n_rows, n_rows.astype(np.float64))
    return Distinct(known[starts], n_rows, np.add.reduceat(weight[: len(known)].astype(np.float64), starts))


def _thin_out(distinct: Distinct, n_knots: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Knots and their ranks: the values themselves if they are few, otherwise a choice that has the first and the last.

    Half of the knots are spread evenly over the ranks and half over the normal scores, so that tails have knots of their own.
    A value that many rows have would take up as many steps as it has ranks; it is therefore counted as one step at most.
    """
    value, ranks = distinct.value, distinct.ranks()
    if len(value) <= n_knots:
        return value, ranks
    step = distinct.weight.sum() / n_knots
    even = distinct._replace(weight=np.minimum(distinct.weight, step)).ranks()
    score = normal_scores(even)
    place = even / (even[-1] - even[0]) + score / (score[-1] - score[0])
    knots = np.searchsorted(place, np.linspace(place[0], place[-1], n_knots))
    knots[-1] = len(value) - 1
    knots = np.unique(knots)
    return value[knots], ranks[knots]
