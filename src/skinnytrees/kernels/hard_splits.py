"""Prediction that visits only the nodes a row reaches, for ensembles whose splits are mostly exact zeros and ones.

A split that sends all of a row to one side makes the other side's whole subtree unnecessary: neither its hyperplanes nor its
leaves are read. That is faster where few nodes are reached, because the loops over all nodes run in SIMD lanes and these do not:
:func:`visits_pay` compares the two. As there, a row takes the same steps alone or among others.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from skinnytrees.kernels.compilation import kernel
from skinnytrees.kernels.loops import dot_rows
from skinnytrees.kernels.numba_bridge.pointers import pointer
from skinnytrees.kernels.numba_bridge.views import rows_of
from skinnytrees.kernels.state import Trees

# Nanoseconds of a node: reached and visited by itself, or one of all in the loops that take every node; each with its columns.
_VISIT, _VISIT_COLUMN = 30.0, 0.08
_LOOP, _LOOP_COLUMN = 0.9, 0.05
# Rows that go down a tree, one by one, while its hyperplanes stay in the cache.
_ROWS_AT_ONCE = 256


class Nodes(NamedTuple):
    """An ensemble node by node, tree after tree: the children of a tree's node i are its nodes 2i + 1 and 2i + 2.

    W (trees x splits, columns) are the hyperplanes, b (trees x splits, 1) their biases, leaves (trees x leaves, outputs).
    """

    W: NDArray[Any]
    b: NDArray[Any]
    leaves: NDArray[Any]


class Descent(NamedTuple):
    """What a row's descent in a tree needs: one split's probability and slope, and a stack of subtrees with their reach."""

    probability: NDArray[Any]
    slope: NDArray[Any]
    node: NDArray[np.int64]
    reach: NDArray[Any]


def reached_fraction(trees: Trees, theta: float) -> float:
    """Fraction of the split nodes that a row reaches, where a split is exact beyond ``theta`` and the columns are gaussian noise.

    Known from the weights alone, it does not depend on the rows that are predicted.
    """
    spread = np.maximum(np.linalg.norm(trees.W, axis=0).astype(np.float64), np.finfo(np.float32).tiny)
    goes_left, goes_right = ndtr((theta + trees.b) / spread), ndtr((theta - trees.b) / spread)
    reach = np.ones(len(trees.b))
    at, width = 0, trees.n_trees
    while at + width < len(reach):
        here, below, last = slice(at, at + width), at + width, at + 2 * width
        reach[below:last] = reach[here] * goes_left[here]
        reach[last : last + width] = reach[here] * goes_right[here]
        at, width = below, 2 * width
    return float(reach.mean())


def visits_pay(trees: Trees, theta: float) -> bool:
    """Whether to visit the reached nodes one by one is faster than to take all nodes in SIMD lanes."""
    n_columns = len(trees.W)
    visit, loop = _VISIT + _VISIT_COLUMN * n_columns, _LOOP + _LOOP_COLUMN * n_columns
    return reached_fraction(trees, theta) * visit < loop


def node_by_node(trees: Trees) -> Nodes:
    """The same ensemble, laid out for a descent in one tree."""
    n_trees, n_splits = trees.n_trees, trees.W.shape[1] // trees.n_trees
    place = np.empty((n_trees, 2 * n_splits + 1), np.intp)
    place[:, 0] = np.arange(n_trees)
    for i in range(n_splits):
        width = n_trees << (i + 1).bit_length() - 1
        place[:, 2 * i + 1] = place[:, i] + width
        place[:, 2 * i + 2] = place[:, i] + 2 * width
    splits, leaves = place[:, :n_splits].ravel(), place[:, n_splits:].ravel() - trees.W.shape[1]
    return Nodes(
        np.ascontiguousarray(trees.W.T[splits]), trees.b[splits, None], np.ascontiguousarray(trees.O.T[leaves])
    )


def make_descent(nodes: Nodes) -> Descent:
    """Room for a descent in trees as deep as these."""
    dtype, deepest = nodes.W.dtype, len(nodes.leaves).bit_length()
    return Descent(
        np.empty((1, 1), dtype), np.empty((1, 1), dtype), np.empty(deepest, np.int64), np.empty(deepest, dtype)
    )


@kernel
def predict_reached(design, nodes, base, activation, theta, descent, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` (rows, outputs): ``base`` and the leaves that each row reaches."""
    n_rows, n_outputs = out.shape
    n_trees = nodes.leaves.shape[0] - nodes.W.shape[0]
    n_splits, n_leaves = nodes.W.shape[0] // n_trees, nodes.leaves.shape[0] // n_trees
    for i in range(n_rows):
        for c in range(n_outputs):
            out[i, c] = base[c]
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        for tree in range(n_trees):
            for i in range(start, min(start + _ROWS_AT_ONCE, n_rows)):
                row = rows_of(design, i, i + 1)
                descent.node[0], descent.reach[0] = 0, 1
                waiting = 1
                while waiting > 0:
                    waiting -= 1
                    node, reach = descent.node[waiting], descent.reach[waiting]
                    while node < n_splits:
                        at = tree * n_splits + node
                        dot_rows(row, rows_of(nodes.W, at, at + 1), descent.probability)
                        descent.probability[0, 0] += nodes.b[at, 0]
                        activation(pointer(descent.probability), pointer(descent.slope), 1, theta)
                        left = reach * descent.probability[0, 0]
                        right = reach - left
                        node = 2 * node + 1
                        if left == 0:
                            node += 1
                        elif right != 0:
                            descent.node[waiting], descent.reach[waiting] = node + 1, right
                            waiting += 1
                            reach = left
                    leaf = tree * n_leaves + node - n_splits
                    for c in range(n_outputs):
                        out[i, c] += reach * nodes.leaves[leaf, c]
