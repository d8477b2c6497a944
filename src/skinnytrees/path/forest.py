"""What a forest says about every group, where an ensemble alone says little: on few rows, as long as groups are many."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import RandomForestRegressor

from skinnytrees.path.points import PathInputs
from skinnytrees.path.trainer import steps_towards_targets


def forest_importance(inputs: PathInputs, rng: np.random.Generator) -> NDArray[np.float64]:
    """By how much splits at each group reduce the variance in a random forest, relative to all of them.

    The forest is grown for the steps of the rows towards their targets, so that it serves every loss: for the squared error it
    is the usual one, for classes that of Gini's impurity.
    """
    data, steps = inputs.data, steps_towards_targets(inputs.trainer, inputs.data)
    forest = RandomForestRegressor(
        inputs.rules.screening.n_forest_trees,
        max_features="sqrt",
        n_jobs=inputs.trainer.n_threads,
        random_state=int(rng.integers(2**31)),
    )
    forest.fit(_as_scikit_learn_reads(data.X), steps[:, 0] if steps.shape[1] == 1 else steps, data.weight)
    return np.asarray(np.add.reduceat(forest.feature_importances_, inputs.groups.column_offsets[:-1]))


def _as_scikit_learn_reads(X: Any) -> Any:
    """An array or a sparse table by columns; trees refuse places that are not 32-bit numbers."""
    if not sparse.issparse(X):
        return np.asarray(X)
    X = X.tocsc()
    return sparse.csc_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), X.shape)
