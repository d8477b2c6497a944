"""What training asks of an epoch runner, and what a runner is given."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.state import Data, Functions, Schedule, Trees
from skinnytrees.tables.table_views import PickedRows


class Movement(NamedTuple):
    """What some epochs at a fixed support did.

    How many there were, fewer than asked for if numbers were not finite after the last one, and the summed loss of that one. In
    sample space also the factor by which W shrank, and the sum and the largest of ``eta ||D||`` of all steps.
    """

    n_epochs: int
    loss: float
    shrinkage: float = 1.0
    total_step: float = 0.0
    longest_step: float = 0.0


class EpochRunner(Protocol):
    """Runs one epoch after another; it owns whatever an optimiser remembers."""

    @property
    def trees(self) -> Trees:
        """The ensemble."""

    @property
    def groups(self) -> NDArray[np.intp]:
        """The groups that have weights."""

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows in this order; returns the summed loss."""

    def sync(self) -> None:
        """Bring the trees' weights up to date."""

    def snapshot(self) -> "Snapshot":
        """What the ensemble is now."""

    def to_checkpoint(self) -> dict[str, NDArray[Any]]:
        """All that the next epochs depend on, besides the task."""

    def from_checkpoint(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Become a runner of the same task that had this state."""


# Gives, whatever has been trained since, the columns that were in use and the ensemble on them.
Snapshot = Callable[[], tuple[NDArray[np.intp], Trees]]


class Task(NamedTuple):
    """What is to be trained: design columns ``offsets[g]`` to ``offsets[g + 1]`` are group g.

    ``penalty_factors`` multiply the penalty's strength for each group; None stands for 1.
    """

    trees: Trees
    data: Data
    functions: Functions
    offsets: NDArray[np.intp]
    batch_size: int
    l2: float
    n_threads: int = 1
    penalty_factors: NDArray[np.float64] | None = None


class TableInPlace(NamedTuple):
    """Data as kernels read it: tables where they stand, targets and weights at the places of their rows.

    ``rows`` are the rows to train on, or None for all; ``columns`` those of X to read, or none for all.
    """

    data: Data
    rows: NDArray[np.intp] | None
    columns: NDArray[np.intp]

    @classmethod
    def of(cls, data: Data) -> "TableInPlace":
        """Take the rows and columns of a view apart from its table."""
        X: Any = data.X
        if not isinstance(X, PickedRows):
            return cls(data, None, np.zeros(0, dtype=np.intp))
        columns = np.zeros(0, dtype=np.intp) if X.columns is None else np.ascontiguousarray(X.columns, dtype=np.intp)
        if X.rows is None:
            return cls(data._replace(X=X.table), None, columns)
        Y = np.zeros((len(X.table), data.Y.shape[1]), dtype=data.Y.dtype)
        weight = np.zeros(len(X.table), dtype=data.weight.dtype)
        Y[X.rows], weight[X.rows] = data.Y, data.weight
        return cls(Data(X.table, Y, weight), X.rows, columns)

    def places(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where in the table the rows of this order stand."""
        return order if self.rows is None else self.rows[order]


def put_back(arrays: Mapping[str, NDArray[Any]], state: Mapping[str, NDArray[Any]]) -> None:
    """Overwrite arrays by those of a state that have the same names."""
    for name, array in arrays.items():
        array[...] = state[name]
