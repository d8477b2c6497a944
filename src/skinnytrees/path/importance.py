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
from skinnytrees.path.trainer import steps_towards_targets
from skinnytrees.training.epoch_runners.sample_space import transposed_product

# Variances below this fraction of the mean square are rounding.
_ROUNDING = 1e-6


def importance_on_few_rows(inputs: PathInputs, rng: np.random.Generator) -> NDArray[np.float64] | None:
    """The sum of the ranks of all groups by extra trees and by their largest marginal effect; None where groups are few."""
    rules, groups, data = inputs.rules.importance, inputs.groups, inputs.data
    if len(groups) < rules.from_groups:
        return None
    steps = steps_towards_targets(inputs.trainer, data)
    by_trees = tree_importances(inputs, data, steps, rules.n_trees_on_few_rows, rng)
    offsets = groups.column_offsets[:-1]
    return np.asarray(
        rankdata(np.add.reduceat(by_trees, offsets))
        + rankdata(np.maximum.reduceat(marginal_effects(data, steps), offsets))
    )


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
    steps = steps_towards_targets(inputs.trainer, data)
    by_trees = tree_importances(inputs, data, steps, rules.n_trees_before_pruning, rng)
    importance = np.zeros(len(inputs.groups))
    importance[alive] = np.add.reduceat(by_trees, inputs.groups.take(alive).column_offsets[:-1])
    return importance


def tree_importances(
    inputs: PathInputs, data: Data, steps: NDArray[Any], n_trees: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """By how much splits at each design column reduce the variance in extra trees, relative to all of them.

    The trees are grown for the steps of the rows towards their targets, so that they serve every loss: for the squared error they
    are the usual ones, for classes those of Gini's impurity. Of many rows, each tree is given a part.
    """
    rules, (X, columns) = inputs.rules.importance, _dense_part(data, steps)
    trees = grow_trees(
        X, steps, data.weight, depth=rules.depth, rng=rng, n_trees=n_trees,
        n_candidates=max(1, math.isqrt(len(columns))), rows_per_tree=rules.most_rows_per_tree,
    )  # fmt: skip
    found = np.zeros(data.X.shape[1])
    found[columns] = importances(trees, len(columns))
    return found


def marginal_effects(data: Data, steps: NDArray[Any]) -> NDArray[np.float64]:
    """The fraction of the variance of the steps towards the targets that each design column explains linearly, alone."""
    fraction = (data.weight / data.weight.sum()).astype(np.float64)
    centred = steps - fraction @ steps
    covariance = transposed_product(data.X, (fraction[:, None] * centred).astype(np.float32)).astype(np.float64)
    X, single = data.X, fraction.astype(np.float32)
    if sparse.issparse(X):
        X = sparse.csr_array(X)
        mean, square = X.T @ single, X.power(2).T @ single
    else:
        X = np.asarray(X)
        mean, square = single @ X, np.einsum("i,ij,ij->j", single, X, X)
    variance = square.astype(np.float64) - mean.astype(np.float64) ** 2
    explained = np.square(covariance).sum(axis=1)
    total = fraction @ np.square(centred).sum(axis=1)
    varies = (variance > _ROUNDING * square) & (total > _ROUNDING * (fraction @ np.square(steps).sum(axis=1)))
    return np.divide(explained, variance * total, out=np.zeros(len(explained)), where=varies)


def _dense_part(data: Data, steps: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The design as an array, and which columns that are: of a sparse one as many as rows, those of largest marginal effect."""
    n_rows, n_columns = data.X.shape
    if not sparse.issparse(data.X):
        return np.asarray(data.X), np.arange(n_columns)
    columns = np.sort(np.argsort(-marginal_effects(data, steps), kind="stable")[:n_rows])
    return sparse.csr_array(data.X)[:, columns].toarray(), columns
