"""Epochs at a fixed support, on dense data: plain gradient steps, or steps of Adam."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.epoch import train_epochs
from skinnytrees.kernels.numba_bridge.calls import SameTypes
from skinnytrees.kernels.state import Schedule, make_workspace, no_moments, no_samples
from skinnytrees.training.epoch_runners.runner import Movement, Snapshot, TableInPlace, Task, put_back


class FixedSupportRunner:
    """Training at a fixed support, on dense data."""

    def __init__(self, task: Task) -> None:
        self.task, self.trees, self.call = task, task.trees, SameTypes()
        self.in_place = TableInPlace.of(task.data)
        self.groups = np.arange(len(task.offsets) - 1)
        self.work = make_workspace(task.trees, task.batch_size, task.data.Y.shape[1], task.data.X.shape[1])
        self.samples, self.moments = no_samples(task.trees.flat.dtype), no_moments(task.trees)

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        return self.epochs(schedule, order[None]).loss

    def epochs(self, schedule: Schedule, orders: NDArray[np.intp]) -> Movement:
        """A pass over the rows in each of these orders, without Python between them.

        How far the weights may have moved is known in sample space only.
        """
        found = self.call(
            train_epochs, self.trees, self.in_place.data, self.in_place.columns, self.task.functions, self.work, self.samples,
            self.moments, schedule, self.in_place.places(orders), self.task.batch_size, self.task.l2,
        )  # fmt: skip
        return Movement(*found)

    def sync(self) -> None:
        """Weights are always up to date."""

    def snapshot(self) -> Snapshot:
        """All columns."""
        self.sync()
        kept = np.arange(len(self.trees.W)), self.trees.copy()
        return lambda: kept

    def to_checkpoint(self) -> dict[str, NDArray[Any]]:
        """Weights, and what Adam remembers."""
        moments = self.moments
        return {"weights": self.trees.flat, "first": moments.first, "second": moments.second, "steps": moments.steps}

    def from_checkpoint(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Become a runner of the same task that had this state."""
        put_back(FixedSupportRunner.to_checkpoint(self), kept)
