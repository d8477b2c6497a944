"""Prediction: the ensemble's outputs for design rows, without BLAS.

Every row takes the same way through the same loops, alone or among others. So its outputs are the same to the last bit
whatever stands beside it and however many threads BLAS has, and a single row does not wait for what only many rows need.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.compilation import kernel, part, pointer
from skinnytrees.kernels.copying import repeat_row
from skinnytrees.kernels.routing import descend
from skinnytrees.kernels.state import Trees
from skinnytrees.kernels.views import in_row, rows_of, top

# Rows whose scores stand in the second-level cache together, and splits whose weights of eight columns fill the first.
_ROWS_AT_ONCE = 64
_SPLITS_AT_ONCE = 768


class Room(NamedTuple):
    """What some rows' way through the trees needs: their scores, and one row's slopes and reach."""

    scores: NDArray[Any]
    slope: NDArray[Any]
    reach: NDArray[Any]


def make_room(trees: Trees, n_rows: int) -> Room:
    """Room for predictions of up to ``n_rows`` rows."""
    n_splits, n_places, dtype = trees.W.shape[1], trees.W.shape[1] + trees.O.shape[0], trees.flat.dtype
    return Room(
        scores=np.empty((min(n_rows, _ROWS_AT_ONCE), n_splits), dtype),
        slope=np.empty(n_splits, dtype),
        reach=np.empty((1, n_places), dtype),
    )


@kernel
def predict_rows(design, W, b, leaves, base, activation, theta, room, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (rows, outputs); ``leaves`` has one row an output, and ``base`` is added to the trees' sum."""
    n_rows, n_splits = out.shape[0], b.shape[0]
    n_trees = leaves.shape[1] - n_splits
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        n = min(_ROWS_AT_ONCE, n_rows - start)
        _score_rows(rows_of(design, start, start + n), W, b, top(room.scores, n))
        for i in range(n):
            scores = rows_of(room.scores, i, i + 1)
            activation(pointer(scores), pointer(room.slope), n_splits, theta)
            descend(1, n_trees, scores, room.reach)
            for c in range(leaves.shape[0]):
                out[start + i, c] = base[c] + _dot(in_row(room.reach, 0, n_splits, room.reach.shape[1]), leaves[c])


@part
def _score_rows(design, W, b, scores):  # type: ignore[no-untyped-def]
    """w.x + b of every row."""
    n_columns, n_splits = W.shape
    in_eights = n_columns - n_columns % 8
    repeat_row(b, scores)
    for first in range(0, n_splits, _SPLITS_AT_ONCE):
        end = min(first + _SPLITS_AT_ONCE, n_splits)
        for k in range(0, in_eights, 8):
            for i in range(scores.shape[0]):
                _add_eight_columns(in_row(design, i, k, k + 8), W, k, first, in_row(scores, i, first, end))
        for k in range(in_eights, n_columns):
            for i in range(scores.shape[0]):
                _add_column(design[i, k], in_row(W, k, first, end), in_row(scores, i, first, end))


@kernel
def _add_eight_columns(x, W, k, first, z):  # type: ignore[no-untyped-def]
    # Eight at once: a score is read and written once for eight multiplications.
    x0, x1, x2, x3, x4, x5, x6, x7 = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
    end = first + z.shape[0]
    w0, w1, w2, w3 = (
        in_row(W, k, first, end),
        in_row(W, k + 1, first, end),
        in_row(W, k + 2, first, end),
        in_row(W, k + 3, first, end),
    )
    w4, w5, w6, w7 = (
        in_row(W, k + 4, first, end),
        in_row(W, k + 5, first, end),
        in_row(W, k + 6, first, end),
        in_row(W, k + 7, first, end),
    )
    for j in range(z.shape[0]):
        z[j] += x0 * w0[j] + x1 * w1[j] + x2 * w2[j] + x3 * w3[j] + x4 * w4[j] + x5 * w5[j] + x6 * w6[j] + x7 * w7[j]


@kernel
def _add_column(x, w, z):  # type: ignore[no-untyped-def]
    for j in range(z.shape[0]):
        z[j] += x * w[j]


@kernel
def _dot(left, right):  # type: ignore[no-untyped-def]
    total = left.dtype.type(0)
    for j in range(left.shape[0]):
        total += left[j] * right[j]
    return total
