"""Epochs in which groups enter and leave, on dense data (``kernels/active_set.py``)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.kernels.epoch import train_active
from skinnytrees.kernels.numba_bridge.calls import SameTypes
from skinnytrees.kernels.state import Schedule, Trees, make_active, make_workspace
from skinnytrees.kernels.work_queue import make_work_queue
from skinnytrees.tables.table_views import pieces
from skinnytrees.training.epoch_runners.runner import Snapshot, TableInPlace, Task, put_back


class ActiveSetRunner:
    """Training in which groups enter and leave."""

    def __init__(self, task: Task) -> None:
        self.task, self.trees, self.call = task, task.trees, SameTypes()
        X = task.data.X
        self.work = make_workspace(task.trees, task.batch_size, task.data.Y.shape[1], self._columns_gathered(X))
        sizes = largest_column_norms(X, task.batch_size)
        self.active = make_active(task.offsets, task.trees.W.strides[0], sizes, task.penalty_factors)
        self.queue = make_work_queue()
        self.in_place = TableInPlace.of(task.data)
        assert len(self.in_place.columns) == 0  # the kernel picks columns of its own

    @staticmethod
    def _columns_gathered(X: Any) -> int:
        return int(X.shape[1])

    @property
    def groups(self) -> NDArray[np.intp]:
        """The groups that have weights."""
        return self.active.groups[: self.active.n_alive[0]]

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        loss = self.call(
            train_active, self.trees, self.in_place.data, self.task.functions, self.work, self.active, self.queue, schedule,
            self.in_place.places(order), self.task.batch_size, self.task.l2,
        )  # fmt: skip
        return float(loss)

    def sync(self) -> None:
        """Weights are always up to date."""

    @property
    def columns(self) -> NDArray[np.intp]:
        """Columns of the groups that have weights, in the order of their rows of W."""
        return self.active.columns[: self.active.n_alive[1]]

    def packed_trees(self) -> Trees:
        """The ensemble with the rows of W that are in use, as views."""
        return self.trees._replace(W=self.trees.W[: len(self.columns)])

    def snapshot(self) -> Snapshot:
        """Columns of the groups that have weights."""
        kept = self.columns.copy(), self.trees.select(slice(len(self.columns)))
        return lambda: kept

    def to_checkpoint(self) -> dict[str, NDArray[Any]]:
        """Weights, which groups have any, and the last step's gradient, from which the next one's length is estimated."""
        arrays = {name: value for name, value in self.active._asdict().items() if isinstance(value, np.ndarray)}
        return {**arrays, "weights": self.trees.flat, "gradient": self.work.D}

    def from_checkpoint(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Become a runner of the same task that had this state."""
        put_back(ActiveSetRunner.to_checkpoint(self), kept)


def largest_column_norms(X: Any, batch_size: int) -> NDArray[np.float64]:
    """Upper bound of each column's norm over any batch: that over all rows, or the batch's size times its largest value."""
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=0), dtype=np.float64).ravel()
        largest = np.asarray(abs(X).max(axis=0).toarray(), dtype=np.float64).ravel()
    else:
        squares, largest = np.zeros((2, X.shape[1]))
        for piece in pieces(*X.shape):
            rows = X[piece]
            squares += np.einsum("ij,ij->j", rows, rows, dtype=np.float64)
            np.maximum(largest, np.maximum(rows.max(axis=0), -rows.min(axis=0)), out=largest)
    return np.sqrt(np.minimum(squares, batch_size * largest**2))
