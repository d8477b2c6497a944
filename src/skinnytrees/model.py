"""The fitted ensemble on the columns it selected: small, immutable, apart from everything that trains."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import Activation
from skinnytrees.encoding import Encoder
from skinnytrees.kernels.state import Functions, Trees
from skinnytrees.losses import SquaredError, TargetScale
from skinnytrees.training import computing, evaluate

# Rows encoded at once: bounds the memory that prediction needs.
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class SoftTrees:
    """Soft trees that read only the features they selected.

    Attributes
    ----------
    encoder : Encoder
        Turns the selected features into the columns that the trees read.
    trees : Trees
        Weights.
    base : array of shape (n_outputs,)
        Added to the trees' sum, in double precision.
    activation : Activation
        Routing function.
    """

    encoder: Encoder
    trees: Trees
    base: NDArray[np.float64]
    activation: Activation

    @classmethod
    def from_training(cls, trees: Trees, encoder: Encoder, activation: Activation, target: TargetScale) -> "SoftTrees":
        """Keep the groups that have any weight, and put the target's scale into leaves and base."""
        used = np.logical_or.reduceat(trees.W.any(axis=1), encoder.offsets[:-1])
        columns = np.repeat(used, np.diff(encoder.offsets))
        small = trees.select(np.flatnonzero(columns))
        small.O[:] *= target.raw_scale.astype(small.O.dtype)
        return cls(encoder.select(np.flatnonzero(used)), small, target.raw_shift, activation)

    def raw(self, X: Any) -> NDArray[np.float64]:
        """Raw outputs (rows, outputs) for a table with all input features."""
        dtype = self.trees.flat.dtype
        # The loss plays no part in prediction, but the kernels' bundle has a place for one.
        functions = Functions(SquaredError().function(dtype), 0.0, self.activation.kernel(dtype), self.activation.theta)
        out = np.empty((X.shape[0], len(self.base)))
        with computing():
            for start in range(0, len(out), _ROWS_AT_ONCE):
                design = self.encoder.encode_dense(X[start : start + _ROWS_AT_ONCE])
                out[start : start + _ROWS_AT_ONCE] = evaluate(self.trees, design, functions) + self.base
        return out

    def column_norms(self) -> NDArray[np.float64]:
        """Norm of each column's hyperplane weights."""
        return np.linalg.norm(self.trees.W.astype(np.float64), axis=1)
