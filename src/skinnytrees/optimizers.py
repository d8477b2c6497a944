"""Optimisers and learning-rate schedules as small parts.

A schedule gives the rate of every step. An optimiser turns an ensemble into a function that runs one compiled epoch.
"""

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels import in_threads
from skinnytrees.kernels.active_set import count_pieces
from skinnytrees.kernels.compilation import SameTypes
from skinnytrees.kernels.epoch import train_active, train_cells, train_epoch
from skinnytrees.kernels.state import (
    Data,
    Functions,
    Samples,
    Schedule,
    Trees,
    Workspace,
    make_active,
    make_cells,
    make_moments,
    make_workspace,
    no_moments,
    no_samples,
)

# The matrix of all products between rows is worth its time and memory up to this many rows.
_SAMPLE_SPACE_ROWS = 5000


class RateSchedule(Protocol):
    """What training asks of a learning-rate schedule."""

    def rates(self, step: NDArray[Any], n_steps: int, learning_rate: float) -> NDArray[np.float64]:
        """Learning rate at each step (the first step is 1) of a training of ``n_steps``."""


@dataclass(frozen=True)
class Constant:
    """The same rate at every step.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.optimizers import Constant
    >>> Constant().rates(np.array([1, 2]), 2, 0.1).tolist()
    [0.1, 0.1]
    """

    name: ClassVar[str] = "constant"

    def rates(self, step: NDArray[Any], n_steps: int, learning_rate: float) -> NDArray[np.float64]:
        """Learning rate at each step."""
        return np.full(len(step), learning_rate)


@dataclass(frozen=True)
class OneCycle:
    """Warm up along a cosine to the full rate, then anneal along a cosine to almost nothing.

    Parameters
    ----------
    warm_up : float, default=0.3
        Share of the steps that go up.
    start : float, default=0.04
        First rate as a share of the full one.
    end : float, default=0.0001
        Last rate as a share of the full one.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.optimizers import OneCycle
    >>> OneCycle(warm_up=0.5).rates(np.array([1, 51, 100]), 100, 1.0).round(2).tolist()
    [0.04, 1.0, 0.0]
    """

    warm_up: float = 0.3
    start: float = 0.04
    end: float = 1e-4
    name: ClassVar[str] = "one_cycle"

    def __post_init__(self) -> None:
        """Refuse a warm-up that is no share."""
        refuse_unless(0 < self.warm_up < 1, f"warm_up={self.warm_up!r} must lie between 0 and 1, such as 0.3.")

    def rates(self, step: NDArray[Any], n_steps: int, learning_rate: float) -> NDArray[np.float64]:
        """Learning rate at each step."""
        done = (np.asarray(step) - 1) / max(1, n_steps - 1)
        up = np.clip(done / self.warm_up, 0, 1)
        down = np.clip((done - self.warm_up) / (1 - self.warm_up), 0, 1)
        rising = self.start + (1 - self.start) * (1 - np.cos(np.pi * up)) / 2
        falling = self.end + (1 - self.end) * (1 + np.cos(np.pi * down)) / 2
        return learning_rate * np.where(done < self.warm_up, rising, falling)


class Run(Protocol):
    """Training under way: it owns whatever an optimiser remembers."""

    trees: Trees
    work: Workspace

    @property
    def n_groups(self) -> int:
        """Number of groups that have weights."""

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows in this order; returns the summed loss."""

    def sync(self) -> None:
        """Bring the trees' weights up to date."""

    def snapshot(self) -> tuple[NDArray[np.intp], Trees]:
        """Columns in use and a copy of the ensemble on them."""


class Task(NamedTuple):
    """What is to be trained: design columns ``offsets[g]`` to ``offsets[g + 1]`` are group g."""

    trees: Trees
    data: Data
    functions: Functions
    offsets: NDArray[np.intp]
    batch_size: int
    l2: float
    n_threads: int = 1


class Optimizer(Protocol):
    """What training asks of an optimiser."""

    has_prox: ClassVar[bool]

    def begin(self, task: Task) -> Run:
        """Prepare to train the task's trees in place."""


@dataclass(frozen=True)
class SGD:
    """The paper's plain proximal gradient steps.

    Examples
    --------
    >>> from skinnytrees.optimizers import SGD
    >>> SGD().has_prox
    True
    """

    name: ClassVar[str] = "sgd"
    has_prox: ClassVar[bool] = True

    def begin(self, task: Task) -> Run:
        """Prepare to train the task's trees in place."""
        if sparse.issparse(task.data.X):
            return CellsRun(task)
        return ActiveRun(task) if task.n_threads == 1 else ThreadedRun(task)


@dataclass(frozen=True)
class FixedSupportSGD:
    """Plain gradient steps without a threshold: in sample space where there are more columns than rows, and few rows.

    Examples
    --------
    >>> from skinnytrees.optimizers import FixedSupportSGD
    >>> FixedSupportSGD().has_prox
    False
    """

    has_prox: ClassVar[bool] = False

    def begin(self, task: Task) -> Run:
        """Prepare to train the task's trees in place."""
        n_rows, n_columns = task.data.X.shape
        if n_rows < n_columns and n_rows <= _SAMPLE_SPACE_ROWS:
            return SampleSpaceRun(task)
        return CellsRun(task) if sparse.issparse(task.data.X) else FixedRun(task)


@dataclass(frozen=True)
class Adam:
    """Adam, for training at a fixed support: it has no proximal step, so it takes no penalty.

    Examples
    --------
    >>> from skinnytrees.optimizers import Adam
    >>> Adam().has_prox
    False
    """

    name: ClassVar[str] = "adam"
    has_prox: ClassVar[bool] = False

    def begin(self, task: Task) -> Run:
        """Prepare to train the task's trees in place."""
        run = CellsRun(task) if sparse.issparse(task.data.X) else FixedRun(task)
        run.moments = make_moments(task.trees)
        return run


class FixedRun:
    """Training at a fixed support, on dense data."""

    def __init__(self, task: Task) -> None:
        self.task, self.trees, self.call = task, task.trees, SameTypes()
        self.n_groups = len(task.offsets) - 1
        self.work = make_workspace(task.trees, task.batch_size, task.data.Y.shape[1], task.data.X.shape[1])
        self.samples, self.moments = no_samples(task.trees.flat.dtype), no_moments(task.trees)
        self.shrinkage = 1.0

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        loss, shrinkage = self.call(
            train_epoch, self.trees, self.task.data, self.task.functions, self.work, self.samples, self.moments, schedule,
            order, self.task.batch_size, self.task.l2,
        )  # fmt: skip
        self.shrinkage *= shrinkage
        return float(loss)

    def sync(self) -> None:
        """Weights are always up to date."""

    def snapshot(self) -> tuple[NDArray[np.intp], Trees]:
        """All columns."""
        self.sync()
        return np.arange(len(self.trees.W)), self.trees.copy()


class SampleSpaceRun(FixedRun):
    """Training at a fixed support of more columns than rows, dense or sparse."""

    def __init__(self, task: Task) -> None:
        X = self.X = task.data.X
        gram = X @ X.T
        Z = np.ascontiguousarray(X @ task.trees.W)
        K = np.ascontiguousarray(gram.toarray() if sparse.issparse(gram) else gram, dtype=Z.dtype)
        # The kernel reads K in the place of X.
        super().__init__(task._replace(data=task.data._replace(X=K)))
        self.samples = Samples(Z, K, np.zeros_like(Z))

    def sync(self) -> None:
        """Form W."""
        self.trees.W[:] *= self.trees.W.dtype.type(self.shrinkage)
        self.trees.W[:] += self.X.T @ self.samples.A
        self.samples.A[:] = 0
        self.shrinkage = 1.0


class ActiveRun:
    """Training in which groups come and go."""

    def __init__(self, task: Task) -> None:
        self.task, self.trees, self.call = task, task.trees, SameTypes()
        X = task.data.X
        self.work = make_workspace(task.trees, task.batch_size, task.data.Y.shape[1], self._columns_gathered(X))
        sizes = largest_column_norms(X, task.batch_size)
        self.active = make_active(task.offsets, task.trees.W.strides[0], sizes)

    @staticmethod
    def _columns_gathered(X: Any) -> int:
        return int(X.shape[1])

    @property
    def n_groups(self) -> int:
        """Number of groups that have weights."""
        return int(self.active.n_alive[0])

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        loss = self.call(
            train_active, self.trees, self.task.data, self.task.functions, self.work, self.active, schedule, order,
            self.task.batch_size, self.task.l2,
        )  # fmt: skip
        return float(loss)

    def sync(self) -> None:
        """Weights are always up to date."""

    def snapshot(self) -> tuple[NDArray[np.intp], Trees]:
        """Columns of the groups that have weights."""
        n_columns = int(self.active.n_alive[1])
        return self.active.columns[:n_columns].copy(), self.trees.select(slice(n_columns))


class CellsRun(ActiveRun):
    """Training on sparse rows: none of them becomes dense."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        dtype = task.trees.flat.dtype
        self.cells, self.moments = make_cells(task.data.X, dtype), no_moments(task.trees)
        self.data = task.data._replace(X=np.zeros((0, 0), dtype=dtype))

    @staticmethod
    def _columns_gathered(X: Any) -> int:
        return 0

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        loss = self.call(
            train_cells, self.trees, self.data, self.cells, self.task.functions, self.work, self.active, self.moments,
            schedule, order, self.task.batch_size, self.task.l2,
        )  # fmt: skip
        return float(loss)


class ThreadedRun(ActiveRun):
    """The same steps, bit for bit, with large products shared by threads.

    Steps are driven from here and not by one compiled call: that costs some microseconds a step, which do not count beside
    products of milliseconds, and no thread spins while there is nothing to share.
    """

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        size = self.task.batch_size
        if self._count_pieces(size) <= 1:
            return super().epoch(schedule, order)
        with ThreadPoolExecutor(self.task.n_threads) as pool:
            steps = enumerate(zip(*schedule, strict=True))
            return sum(self._step(pool, order[i * size : (i + 1) * size], *numbers) for i, numbers in steps)

    def _count_pieces(self, n_rows: int) -> int:
        return int(count_pieces.py_func(n_rows, self.active.n_alive[1], self.trees.W.shape[1]))

    def _step(self, pool: Executor, rows: NDArray[np.intp], eta: float, hard: float, soft: float) -> float:
        trees, data, active, work, n = self.trees, self.task.data, self.active, self.work, len(rows)
        n_threads, shrink = self.task.n_threads, 1 - 2 * eta * self.task.l2 / trees.W.shape[1]
        in_threads.gather_batch(trees, data, active, work, rows)
        n_pieces = self._count_pieces(n)
        list(pool.map(lambda piece: in_threads.add_scores(piece, n_pieces, n, trees, active, work), range(n_pieces)))
        loss = in_threads.middle_of_step(trees, data, self.task.functions, work, rows, eta)
        n_blocks = in_threads.begin_step(trees, data, active, work, rows, eta, max(hard, soft))

        def step(share: int) -> None:
            first, end = share * n_blocks // n_threads, (share + 1) * n_blocks // n_threads
            in_threads.step_on_blocks(first, end, n, trees, active, work, shrink, eta, hard, soft)

        list(pool.map(step, range(n_threads)))
        in_threads.drop_dead(active, trees.W)
        return float(loss)


def split_gradients(trees: Trees, data: Data, functions: Functions) -> NDArray[Any]:
    """Gradient of the mean loss with respect to every row's w.x + b at every split."""
    n_rows = len(data.Y)
    run = FixedSupportSGD().begin(Task(trees, data, functions, np.array([0, len(trees.W)]), n_rows, 0.0))
    # A step of size zero leaves the trees as they are and the gradient in the workspace.
    nothing = np.zeros(1)
    run.epoch(Schedule(nothing, nothing, nothing), np.arange(n_rows))
    return run.work.D


def largest_column_norms(X: Any, batch_size: int) -> NDArray[np.float64]:
    """Upper bound of each column's norm over any batch: that over all rows, or the batch's size times its largest value."""
    if sparse.issparse(X):
        squares = np.asarray(X.multiply(X).sum(axis=0), dtype=np.float64).ravel()
        largest = np.asarray(abs(X).max(axis=0).toarray(), dtype=np.float64).ravel()
    else:
        squares = np.einsum("ij,ij->j", X, X, dtype=np.float64)
        largest = np.maximum(X.max(axis=0), -X.min(axis=0)).astype(np.float64)
    return np.sqrt(np.minimum(squares, batch_size * largest**2))


SCHEDULES: dict[str, type[Constant] | type[OneCycle]] = {kind.name: kind for kind in (Constant, OneCycle)}
OPTIMIZERS: dict[str, type[SGD] | type[Adam]] = {kind.name: kind for kind in (SGD, Adam)}
