"""Extremely randomised trees (Geurts, Ernst and Wehenkel, 2006): what starts and importances need of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.growing import GrownTree, grow_tree, make_tree
from skinnytrees.kernels.numba_bridge.calls import SameTypes


def grow_trees(
    columns: NDArray[np.float32], steps: NDArray[Any], weight: NDArray[Any], *, depth: int, rng: np.random.Generator,
    n_trees: int, n_candidates: int | None = None, min_rows_per_leaf: int = 1, bootstrap: bool = False,
    rows_per_tree: int | None = None,
) -> Iterator[GrownTree]:  # fmt: skip
    """Trees, one after the other, in the same memory: copy what has to be kept before the next.

    Parameters
    ----------
    columns : array of float32 of shape (n_columns, n_rows)
        The design, transposed: few of many columns are read for a split, which is quicker where each is contiguous.
    steps : array of shape (n_rows, n_outputs)
        What the trees predict; splits are chosen by the squared error, summed over outputs.
    weight : array of shape (n_rows,)
        Weights; rows without weight are not seen.
    depth : int
        Depth of every tree; a node that is not split has no column, and all below it has its value.
    rng : numpy.random.Generator
        Where random numbers come from.
    n_trees : int
        Number of trees.
    n_candidates : int or None
        Number of columns drawn for a split; None for all.
    min_rows_per_leaf : int, default=1
        Rows that a leaf has at least, each counted once however often it is drawn.
    bootstrap : bool, default=False
        Whether every tree is grown on a bootstrap sample of the rows.
    rows_per_tree : int or None
        Of more rows than this, every tree is given a random part of this size.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.extra_trees import grow_trees
    >>> columns = np.arange(6, dtype=np.float32).reshape(1, 6)
    >>> steps = np.where(columns.T < 2.5, -1.0, 1.0)
    >>> trees = grow_trees(columns, steps, np.ones(6), depth=1, rng=np.random.default_rng(0), n_trees=3)
    >>> [tree.column.tolist() for tree in trees]
    [[0], [0], [0]]
    """
    columns, steps = np.ascontiguousarray(columns), np.ascontiguousarray(steps, dtype=np.float64)
    weight = np.asarray(weight, dtype=np.float64)
    n_columns, n_rows = columns.shape
    tree, room = make_tree(depth, n_columns, n_rows, steps.shape[1])
    grow, seen = SameTypes(), np.flatnonzero(weight > 0)
    for seed in rng.integers(2**63, size=n_trees, dtype=np.uint64):
        rows, weight_here = seen, weight
        if bootstrap:
            times_drawn = np.bincount(rng.choice(seen, len(seen)), minlength=n_rows)
            rows, weight_here = np.flatnonzero(times_drawn), weight * times_drawn
        elif rows_per_tree is not None and len(seen) > rows_per_tree:
            rows = rng.choice(seen, rows_per_tree, replace=False, shuffle=False)
        grow(
            grow_tree, columns, steps, weight_here, rows.copy(), seed, n_candidates or n_columns, min_rows_per_leaf, tree, room
        )  # fmt: skip
        yield tree


def importances(trees: Iterator[GrownTree], n_columns: int) -> NDArray[np.float64]:
    """By how much splits at each column reduce the variance, relative to all splits of a tree; the mean over the trees."""
    summed, n_trees = np.zeros(n_columns), 0
    for tree in trees:
        is_split = tree.column >= 0
        gained = np.bincount(tree.column[is_split], tree.gain[is_split], n_columns)
        summed += gained / max(gained.sum(), np.finfo(float).tiny)
        n_trees += 1
    return summed / max(n_trees, 1)
