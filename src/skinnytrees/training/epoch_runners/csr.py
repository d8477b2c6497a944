"""Epochs on sparse rows, which stay sparse."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.epoch import train_csr
from skinnytrees.kernels.state import Schedule, make_csr, no_moments
from skinnytrees.training.epoch_runners.active_set import ActiveSetRunner
from skinnytrees.training.epoch_runners.runner import Movement, Task, put_back


class CsrRunner(ActiveSetRunner):
    """Training on sparse rows: none of them becomes dense."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        dtype = task.trees.flat.dtype
        self.csr, self.moments = make_csr(task.data.X, dtype), no_moments(task.trees)
        self.data = task.data._replace(X=np.zeros((0, 0), dtype=dtype))

    @staticmethod
    def _columns_gathered(X: Any) -> int:
        return 0

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        loss = self.call(
            train_csr, self.trees, self.data, self.csr, self.task.functions, self.work, self.active, self.moments,
            schedule, order, self.task.batch_size, self.task.l2,
        )  # fmt: skip
        return float(loss)

    def epochs(self, schedule: Schedule, orders: NDArray[np.intp]) -> Movement:
        """A pass over the rows in each of these orders, at a fixed support."""
        loss, n_done = 0.0, 0
        n_steps = len(schedule.eta) // len(orders)
        for order in orders:
            loss = self.epoch(schedule.part(n_done * n_steps, (n_done + 1) * n_steps), order)
            n_done += 1
            if not (math.isfinite(loss) and np.isfinite(self.trees.b).all()):
                break
        return Movement(n_done, loss)

    def to_checkpoint(self) -> dict[str, NDArray[Any]]:
        """The same, and what Adam remembers."""
        return {**super().to_checkpoint(), **self._moments()}

    def from_checkpoint(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Become a runner of the same task that had this state."""
        super().from_checkpoint(kept)
        put_back(self._moments(), kept)

    def _moments(self) -> dict[str, NDArray[Any]]:
        return {"first": self.moments.first, "second": self.moments.second, "steps": self.moments.steps}
