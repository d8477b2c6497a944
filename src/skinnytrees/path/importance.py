"""What says something about every group besides an ensemble of ours: trees that are grown at random, and marginal effects.

On few rows the norms of one small ensemble are mostly noise; with many groups, so are most removal costs. An importance is an
average over hundreds of trees, and noise has little of it: a split at a random threshold does not search for the threshold at
which noise looks best, and trees of limited depth do not split small parts of the rows.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.stats import rankdata

from skinnytrees.extra_trees import grow_trees, importances
from skinnytrees.kernels.state import Data
from skinnytrees.path.points import PathInputs
from skinnytrees.path.rules import ImportanceRules
from skinnytrees.path.trainer import steps_towards_targets
from skinnytrees.tables.table_views import pick_rows

# Rows that are transposed at once, which bounds the memory for those of a view.
_ROWS_AT_ONCE = 64
# Values that are copied for the trees, unless that leaves fewer rows than a tree is given: 16 MB.
_MOST_VALUES = 2**22
# Variances below this fraction of the mean square are rounding.
_ROUNDING = 1e-6


def importance_for_screening(inputs: PathInputs, rng: np.random.Generator) -> NDArray[np.float64] | None:
    """The sum of the ranks of all groups by extra trees and by their largest marginal effect; None where groups are few."""
    rules, groups = inputs.rules.importance, inputs.groups
    if len(groups) < rules.from_groups:
        return None
    data = some_rows(inputs.data, rules, rng)
    columns, steps = transposed(data.X), steps_towards_targets(inputs.trainer, data)
    effects = marginal_effects(columns, steps, data.weight)
    by_trees = np.zeros(len(effects))
    read = np.arange(len(effects))
    if sparse.issparse(columns):  # as many columns as rows, those of largest marginal effect, become dense
        n_read = min(len(steps), max(rules.most_rows_per_tree, _MOST_VALUES // len(steps)))
        read = np.sort(np.argsort(-effects, kind="stable")[:n_read])
        columns = columns[read].toarray()
    by_trees[read] = tree_importances(columns, steps, data.weight, rules, rules.n_trees_for_screening, rng)
    offsets = groups.column_offsets[:-1]
    return np.asarray(rankdata(np.add.reduceat(by_trees, offsets)) + rankdata(np.maximum.reduceat(effects, offsets)))


def importance_before_pruning(
    inputs: PathInputs, alive: NDArray[np.intp], rng: np.random.Generator
) -> NDArray[np.float64] | None:
    """The importance of all groups in extra trees on those that are alive; None where these are few, or too many to be dense."""
    rules = inputs.rules.importance
    if len(alive) < rules.from_groups:
        return None
    data = inputs.rows_of(alive)
    if sparse.issparse(data.X):
        return None
    data = some_rows(data, rules, rng)
    steps = steps_towards_targets(inputs.trainer, data)
    by_trees = tree_importances(transposed(data.X), steps, data.weight, rules, rules.n_trees_before_pruning, rng)
    importance = np.zeros(len(inputs.groups))
    importance[alive] = np.add.reduceat(by_trees, inputs.groups.take(alive).column_offsets[:-1])
    return importance


def tree_importances(
    columns: NDArray[np.float32], steps: NDArray[Any], weight: NDArray[Any], rules: ImportanceRules, n_trees: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:  # fmt: skip
    """By how much splits at each design column reduce the variance in extra trees, relative to all of them.

    The trees are grown for the steps of the rows towards their targets, so that they serve every loss: for the squared error they
    are the usual ones, for classes those of Gini's impurity. Of many rows, each tree is given a part.
    """
    if steps.shape[1] == 2 and np.array_equal(steps[:, 0], -steps[:, 1]):
        steps = steps[:, :1]  # with two classes, the second output doubles every gain, and the time
    trees = grow_trees(
        columns, steps, weight, depth=rules.depth, rng=rng, n_trees=n_trees,
        n_candidates=max(1, math.isqrt(len(columns))), rows_per_tree=rules.most_rows_per_tree,
    )  # fmt: skip
    return importances(trees, len(columns))


def some_rows(data: Data, rules: ImportanceRules, rng: np.random.Generator) -> Data:
    """A random part of the rows where they are many, and a smaller one where a copy of them would take much memory."""
    X: Any = data.X
    n_rows, n_columns = X.shape
    values_per_row = X.nnz / n_rows if sparse.issparse(X) else n_columns
    most = max(rules.most_rows_per_tree, min(rules.most_rows, int(_MOST_VALUES / max(values_per_row, 1))))
    if n_rows <= most:
        return data
    seen = np.flatnonzero(data.weight > 0)
    rows = np.sort(rng.choice(seen, min(most, len(seen)), replace=False))
    return Data(pick_rows(X, rows), data.Y[rows], data.weight[rows])


def marginal_effects(columns: Any, steps: NDArray[Any], weight: NDArray[Any]) -> NDArray[np.float64]:
    """The fraction of the variance of the steps towards the targets that each design column explains linearly, alone."""
    fraction = (weight / weight.sum()).astype(np.float64)
    centred = steps - fraction @ steps
    covariance = (columns @ (fraction[:, None] * centred).astype(np.float32)).astype(np.float64)
    single = fraction.astype(np.float32)
    mean = (columns @ single).astype(np.float64)
    if sparse.issparse(columns):
        square = (columns.power(2) @ single).astype(np.float64)
    else:
        square = np.einsum("ji,ji,i->j", columns, columns, single).astype(np.float64)
    variance = square - mean**2
    explained = np.square(covariance).sum(axis=1)
    total = fraction @ np.square(centred).sum(axis=1)
    varies = (variance > _ROUNDING * square) & (total > _ROUNDING * (fraction @ np.square(steps).sum(axis=1)))
    return np.divide(explained, variance * total, out=np.zeros(len(explained)), where=varies)


def transposed(X: Any) -> Any:
    """The design with a contiguous row for each column: a sparse one stays sparse, of an array or a view one copy is made."""
    if sparse.issparse(X):
        return sparse.csr_array(X.T)
    columns = np.empty(X.shape[::-1], dtype=np.float32)
    for start in range(0, X.shape[0], _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        columns[:, rows] = np.asarray(X[rows]).T
    return columns
