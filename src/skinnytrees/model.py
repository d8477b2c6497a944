"""The fitted ensemble on the columns it selected: small, immutable, apart from everything that trains."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import Activation
from skinnytrees.encoding import Encoder, cached_pieces
from skinnytrees.kernels.compilation import compilation_notice
from skinnytrees.kernels.prediction import make_room, predict_rows
from skinnytrees.kernels.state import Trees
from skinnytrees.losses import TargetScale


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
        small.O[:] *= target.raw_scale.astype(small.O.dtype)[:, None]
        return cls(encoder.select(np.flatnonzero(used)), small, target.raw_shift, activation)

    @property
    def features(self) -> NDArray[np.intp]:
        """The features of the table that the trees read, in order."""
        return np.unique(self.encoder.feature)

    def narrowed(self) -> "SoftTrees":
        """The same trees for a table that has only the features they read."""
        place = np.searchsorted(self.features, self.encoder.feature)
        return replace(self, encoder=replace(self.encoder, feature=place))

    def raw(self, X: Any) -> NDArray[np.float64]:
        """Raw outputs (rows, outputs) for a table of numbers, of which only the trees' features are read."""
        trees, dtype = self.trees, self.trees.flat.dtype
        activation, theta = self.activation.kernel(dtype), float(self.activation.theta)
        out = np.empty((X.shape[0], len(self.base)))
        room = make_room(trees, len(out))
        with compilation_notice():
            for rows in cached_pieces(len(out), len(trees.W)):
                design = self.encoder.encode_dense(X[rows])
                predict_rows(design, trees.W, trees.b, trees.O, self.base, activation, theta, room, out[rows])
        return out

    def column_norms(self) -> NDArray[np.float64]:
        """Norm of each column's hyperplane weights."""
        return np.linalg.norm(self.trees.W.astype(np.float64), axis=1)
