"""Growing one extremely randomised tree: every split is the best of one random threshold for each of some random columns.

scikit-learn's trees are the same, but take a millisecond of Python each, ten times as long as growing them; a path on few rows
grows two thousand. Trees have a fixed depth, and their nodes are in the order of ``routing.py``.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.compilation import inner_kernel, kernel
from skinnytrees.kernels.content_hash import mixed

_NEXT = np.uint64(0x9E3779B97F4A7C15)
_UNUSED_BITS = np.uint64(11)
_UNIT = 2.0**-53
# A split has to reduce the sum of squares by more than rounding does.
_LEAST_GAIN = 1e-10


class GrownTree(NamedTuple):
    """For every split its column, or -1 where there is none, its threshold and its gain; for every node its value per output."""

    column: NDArray[np.intp]
    threshold: NDArray[np.float64]
    gain: NDArray[np.float64]
    value: NDArray[np.float64]


class Room(NamedTuple):
    """What growing needs: where the rows of every node begin and end, the columns as they are drawn, and sums per output.

    The last two are those of a node's rows, in their order: a candidate's values, and what is summed of every row, which is its
    weight and then its weighted steps.
    """

    begin: NDArray[np.intp]
    end: NDArray[np.intp]
    columns: NDArray[np.intp]
    total: NDArray[np.float64]
    left: NDArray[np.float64]
    values: NDArray[np.float32]
    summands: NDArray[np.float64]


def make_tree(depth: int, n_columns: int, n_rows: int, n_outputs: int) -> tuple[GrownTree, Room]:
    """An empty tree, and room for growing it again and again on up to so many rows."""
    n_splits = 2**depth - 1
    n_nodes = 2 * n_splits + 1
    tree = GrownTree(
        np.empty(n_splits, dtype=np.intp), np.empty(n_splits), np.empty(n_splits), np.empty((n_nodes, n_outputs))
    )
    begin, end = np.empty((2, n_nodes), dtype=np.intp)
    values, summands = np.empty(n_rows, dtype=np.float32), np.empty((1 + n_outputs, n_rows))
    return tree, Room(begin, end, np.arange(n_columns), np.empty(n_outputs), np.empty(n_outputs), values, summands)


@kernel
def grow_tree(columns, steps, weight, rows, seed, n_candidates, min_rows, tree, room):  # type: ignore[no-untyped-def]
    """Grow a tree on these rows, whose order changes; every leaf has at least ``min_rows`` of them.

    ``columns`` has a contiguous row for each design column, because few of many are read for a split. Their numbers are drawn
    from ``room``, where their order changes, too.
    """
    n_splits, n_outputs = tree.column.shape[0], steps.shape[1]
    state = seed
    room.begin[0], room.end[0] = 0, rows.shape[0]
    first, n_in_level = 0, 1
    while first <= n_splits:
        for i in range(n_in_level):
            node = first + i
            begin, end = room.begin[node], room.end[node]
            weight_here = _add_up(steps, weight, rows, begin, end, room)
            parent = node if node == 0 else (first - 1) // 2 + i % (n_in_level // 2)
            for k in range(n_outputs):
                tree.value[node, k] = room.total[k] / weight_here if end > begin else tree.value[parent, k]
            if node >= n_splits:
                continue
            state += _NEXT
            tree.column[node] = -1
            # Where there is no split, no row goes further, and all nodes below have this one's value.
            middle, last = begin, begin
            if end - begin >= 2 * min_rows and _differ(steps, rows, begin, end):
                _find_split(columns, rows, node, weight_here, state, n_candidates, min_rows, tree, room)
                if tree.column[node] >= 0:
                    middle, last = _divide(columns[tree.column[node]], rows, begin, end, tree.threshold[node]), end
            left = 2 * first + 1 + i
            right = left + n_in_level
            room.begin[left], room.end[left] = begin, middle
            room.begin[right], room.end[right] = middle, last
        first, n_in_level = 2 * first + 1, 2 * n_in_level


@kernel
def add_outputs(columns, tree, factor, outputs):  # type: ignore[no-untyped-def]
    """Add what a tree says about every row, times a factor, to the outputs."""
    for r in range(outputs.shape[0]):
        first, n_in_level, place = 0, 1, 0
        while first < tree.column.shape[0]:
            c = tree.column[first + place]
            if c >= 0 and columns[c, r] > tree.threshold[first + place]:
                place += n_in_level
            first = 2 * first + 1
            n_in_level *= 2
        for k in range(outputs.shape[1]):
            outputs[r, k] += factor * tree.value[first + place, k]


@inner_kernel
def _find_split(columns, rows, node, weight_here, seed, n_candidates, min_rows, tree, room):  # type: ignore[no-untyped-def]
    """Put the best split of a node into the tree; columns that are constant on its rows do not count as candidates."""
    begin, end, drawable = room.begin[node], room.end[node], room.columns
    n_rows = end - begin
    state = mixed(seed)
    unsplit = _sum_of_squares(room.total, weight_here)
    best = unsplit + _LEAST_GAIN * abs(unsplit)
    n_tried = drawn = 0
    while drawn < drawable.shape[0] and n_tried < n_candidates:
        state += _NEXT
        place = drawn + int(_uniform(state) * (drawable.shape[0] - drawn))
        drawable[drawn], drawable[place] = drawable[place], drawable[drawn]
        c = drawable[drawn]
        drawn += 1
        low, high = _read(columns[c], rows, begin, end, room.values)
        if low == high:
            continue
        n_tried += 1
        state += _NEXT
        threshold = low + _uniform(state) * (float(high) - low)
        if threshold >= high:
            threshold = float(low)
        n_left, weight_left = _add_up_left(threshold, n_rows, room)
        if n_left < min_rows or n_rows - n_left < min_rows:
            continue
        split = _sum_of_squares(room.left, weight_left)
        for k in range(room.left.shape[0]):
            room.left[k] = room.total[k] - room.left[k]
        split += _sum_of_squares(room.left, weight_here - weight_left)
        if split > best:
            best = split
            tree.column[node], tree.threshold[node], tree.gain[node] = c, threshold, split - unsplit


@inner_kernel
def _read(x, rows, begin, end, values):  # type: ignore[no-untyped-def]
    """Copy a column's values of a node's rows, and return the least and the largest of them."""
    low = high = x[rows[begin]]
    for r in range(begin, end):
        value = x[rows[r]]
        values[r - begin] = value
        low = value if value < low else low
        high = value if value > high else high
    return low, high


@inner_kernel
def _add_up_left(threshold, n_rows, room):  # type: ignore[no-untyped-def]
    """Fill ``room.left`` with the sums over the rows up to the threshold; return their number and the sum of their weights.

    Zero is added for other rows: a branch that is taken for every other row would take longer.
    """
    n_left, weight_left = 0, 0.0
    for r in range(n_rows):
        is_left = room.values[r] <= threshold
        n_left += 1 if is_left else 0
        weight_left += room.summands[0, r] if is_left else 0.0
    for k in range(room.left.shape[0]):
        left = 0.0
        for r in range(n_rows):
            left += room.summands[1 + k, r] if room.values[r] <= threshold else 0.0
        room.left[k] = left
    return n_left, weight_left


@inner_kernel
def _differ(steps, rows, begin, end):  # type: ignore[no-untyped-def]
    """Whether the rows have different steps: if not, as where all are of one class, no split reduces any variance."""
    for r in range(begin + 1, end):
        for k in range(steps.shape[1]):
            if steps[rows[r], k] != steps[rows[begin], k]:
                return True
    return False


@inner_kernel
def _add_up(steps, weight, rows, begin, end, room):  # type: ignore[no-untyped-def]
    """Fill ``room.total`` with the weighted sums of the rows' steps and return the sum of their weights."""
    total, summands = room.total, room.summands
    for k in range(total.shape[0]):
        total[k] = 0
    sum_of_weights = 0.0
    for r in range(begin, end):
        row = rows[r]
        summands[0, r - begin] = weight[row]
        sum_of_weights += weight[row]
        for k in range(total.shape[0]):
            summands[1 + k, r - begin] = weight[row] * steps[row, k]
            total[k] += summands[1 + k, r - begin]
    return sum_of_weights


@inner_kernel
def _sum_of_squares(total, weight):  # type: ignore[no-untyped-def]
    """By how much the mean reduces the sum of squares of rows with this total."""
    squares = 0.0
    for k in range(total.shape[0]):
        squares += total[k] * total[k]
    return squares / weight


@inner_kernel
def _divide(x, rows, begin, end, threshold):  # type: ignore[no-untyped-def]
    """Put rows up to the threshold before the others, and return where these begin."""
    middle = begin
    for r in range(begin, end):
        if x[rows[r]] <= threshold:
            rows[middle], rows[r] = rows[r], rows[middle]
            middle += 1
    return middle


@inner_kernel
def _uniform(state):  # type: ignore[no-untyped-def]
    """A number from 0 to 1, without 1."""
    return (mixed(state) >> _UNUSED_BITS) * _UNIT
