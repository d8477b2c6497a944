"""Epochs at a fixed support of more columns than rows, in the space of the samples (``kernels/sample_space.py``)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.kernels.numba_bridge.calls import call
from skinnytrees.kernels.sample_space import add_gram
from skinnytrees.kernels.state import Samples, Schedule
from skinnytrees.tables.table_views import PickedRows, pieces, view
from skinnytrees.training.epoch_runners.fixed_support import FixedSupportRunner
from skinnytrees.training.epoch_runners.runner import Movement, Task, put_back

_GRAM_BANDS = 8
# The factor by which W has shrunk; Z, A, biases and leaves.
State = tuple[float, list[NDArray[Any]]]


class SampleSpaceRunner(FixedSupportRunner):
    """Training at a fixed support of more columns than rows, dense or sparse."""

    def __init__(self, task: Task) -> None:
        X = self.X = task.data.X
        Z = np.ascontiguousarray(X @ task.trees.W)
        K = gram_matrix(X)
        # The kernel reads K in the place of X.
        super().__init__(task._replace(data=task.data._replace(X=K)))
        self.samples = Samples(Z, K, np.zeros_like(Z))
        self.shrinkage = 1.0

    def epochs(self, schedule: Schedule, orders: NDArray[np.intp]) -> Movement:
        """A pass over the rows in each of these orders, and how far the weights may have moved."""
        movement = super().epochs(schedule, orders)
        self.shrinkage *= movement.shrinkage
        return movement

    def sync(self) -> None:
        """Form W."""
        self.trees.W[:] = form_weights(self.trees.W, self.shrinkage, self.X, self.samples.A)
        self.samples.A[:] = 0
        self.shrinkage = 1.0

    def to_checkpoint(self) -> dict[str, NDArray[Any]]:
        """Weights that are not up to date, and what it takes to bring them there."""
        return {
            **super().to_checkpoint(),
            "Z": self.samples.Z,
            "A": self.samples.A,
            "shrinkage": np.array(self.shrinkage),
        }

    def from_checkpoint(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Become a runner of the same task that had this state."""
        super().from_checkpoint(kept)
        put_back({"Z": self.samples.Z, "A": self.samples.A}, kept)
        self.shrinkage = float(kept["shrinkage"])

    def state(self) -> State:
        """A copy of all that epochs change."""
        arrays = (self.samples.Z, self.samples.A, self.trees.b, self.trees.O)
        return self.shrinkage, [array.copy() for array in arrays]

    def restore(self, state: State) -> None:
        """Undo what epochs have done since."""
        self.shrinkage, (self.samples.Z[:], self.samples.A[:], self.trees.b[:], self.trees.O[:]) = state


def form_weights(W: NDArray[Any], shrinkage: float, X: Any, A: NDArray[Any]) -> NDArray[Any]:
    """What W has become in sample space: shrinkage W + X'A."""
    formed = transposed_product(X, A)
    formed += W.dtype.type(shrinkage) * W
    return formed


def transposed_product(X: Any, A: NDArray[Any]) -> NDArray[Any]:
    """X'A, dense."""
    if not isinstance(X, PickedRows):
        return np.asarray(X.T @ A)
    product = np.empty((X.shape[1], A.shape[1]), dtype=A.dtype)
    for columns, block in X.blocks():
        np.matmul(block.T, A, out=product[columns])
    return product


def gram_matrix(X: Any) -> NDArray[Any]:
    """XX', dense."""
    if not sparse.issparse(X):
        return _dense_gram_matrix(view(X))
    columns = X.tocsc()
    columns.sort_indices()
    K = np.zeros((X.shape[0], X.shape[0]), dtype=X.dtype)
    call(add_gram, columns.indptr, columns.indices, columns.data, K)
    return K + np.triu(K, 1).T


def _dense_gram_matrix(X: PickedRows) -> NDArray[Any]:
    """A triangle is summed over ranges of columns, in bands of rows, which need little room; then it is mirrored."""
    n = len(X)
    K = np.zeros((n, n), dtype=X.dtype)
    bands = list(pieces(n, 1, -(-n // _GRAM_BANDS)))
    for _, block in X.blocks():
        for band in bands:
            K[band, : band.stop] += block[band] @ block[: band.stop].T
    for band in bands:
        K[: band.start, band] = K[band, : band.start].T
    return K
