"""Prediction: the ensemble's outputs for design rows, without BLAS.

Every row is computed by the same loops, alone or among others. So its outputs are the same to the last bit whatever the other
rows and the number of threads of BLAS are, and a single row does not wait for what only many rows need.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.compilation import kernel
from skinnytrees.kernels.copying import repeat_row
from skinnytrees.kernels.loops import add_combinations, dot_rows
from skinnytrees.kernels.numba_bridge.pointers import pointer
from skinnytrees.kernels.numba_bridge.views import block_of, rows_of, top
from skinnytrees.kernels.routing import descend
from skinnytrees.kernels.state import Trees

# Rows whose scores stand in the second-level cache together.
_ROWS_AT_ONCE = 64


class Room(NamedTuple):
    """What the evaluation of some rows needs: their scores, and one row's slopes and reach."""

    scores: NDArray[Any]
    slope: NDArray[Any]
    reach: NDArray[Any]


def make_room(trees: Trees, n_rows: int) -> Room:
    """Room for predictions of up to ``n_rows`` rows."""
    n_splits, n_places, dtype = trees.W.shape[1], trees.W.shape[1] + trees.O.shape[1], trees.flat.dtype
    return Room(
        scores=np.empty((min(n_rows, _ROWS_AT_ONCE), n_splits), dtype),
        slope=np.empty(n_splits, dtype),
        reach=np.empty((1, n_places), dtype),
    )


@kernel
def predict_rows(design, W, b, leaves, base, activation, theta, room, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (rows, outputs); ``leaves`` has one row per output, and ``base`` is added to the trees' sum."""
    n_rows, n_splits = out.shape[0], b.shape[0]
    n_trees = leaves.shape[1] - n_splits
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        n = min(_ROWS_AT_ONCE, n_rows - start)
        repeat_row(b, top(room.scores, n))
        add_combinations(rows_of(design, start, start + n), W, room.scores)
        for i in range(n):
            scores = rows_of(room.scores, i, i + 1)
            activation(pointer(scores), pointer(room.slope), n_splits, theta)
            descend(1, n_trees, scores, room.reach)
            outputs = rows_of(out, start + i, start + i + 1)
            dot_rows(block_of(room.reach, 0, 1, n_splits, room.reach.shape[1]), leaves, outputs)
            for c in range(base.shape[0]):
                outputs[0, c] += base[c]
