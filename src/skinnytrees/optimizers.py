"""Optimisers and learning-rate schedules as small parts.

A schedule gives the rate of every step. An optimiser turns an ensemble into a function that runs one compiled epoch.
"""

from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.epoch import middle_of_step, train_epoch
from skinnytrees.kernels.feature_space import (
    add_scores,
    begin_step,
    count_pieces,
    drop_dead,
    gather_batch,
    step_on_blocks,
)
from skinnytrees.kernels.state import (
    Data,
    Functions,
    Samples,
    Schedule,
    Trees,
    make_active,
    make_cells,
    make_moments,
    make_workspace,
    no_moments,
    no_samples,
)


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

    @property
    def n_groups(self) -> int:
        """Number of groups that have weights."""

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows in this order; returns the summed loss."""

    def sync(self) -> None:
        """Bring the trees' weights up to date."""

    def snapshot(self) -> tuple[NDArray[np.intp], Trees]:
        """Columns in use and a copy of the ensemble on them."""

    def split_gradients(self) -> NDArray[Any]:
        """Gradient of the mean loss with respect to every row's w.x + b at every split, where a batch has all rows."""


class Optimizer(Protocol):
    """What training asks of an optimiser."""

    has_prox: ClassVar[bool]

    def begin(
        self,
        trees: Trees,
        data: Data,
        functions: Functions,
        offsets: NDArray[np.intp],
        batch_size: int,
        l2: float,
        n_threads: int = 1,
    ) -> Run:
        """Prepare to train these trees in place; design columns ``offsets[g]`` to ``offsets[g + 1]`` are group g."""


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

    def begin(
        self,
        trees: Trees,
        data: Data,
        functions: Functions,
        offsets: NDArray[np.intp],
        batch_size: int,
        l2: float,
        n_threads: int = 1,
    ) -> Run:
        """Prepare to train these trees in place."""
        rest = (trees, data, functions, offsets, batch_size, l2, largest_column_norms(data.X, batch_size))
        return _FeatureSpaceSGD(*rest) if n_threads == 1 else _ThreadedSGD(n_threads, *rest)


@dataclass(frozen=True)
class FixedSupportSGD:
    """Plain gradient steps without a threshold: in sample space where there are more columns than rows.

    Examples
    --------
    >>> from skinnytrees.optimizers import FixedSupportSGD
    >>> FixedSupportSGD().has_prox
    False
    """

    has_prox: ClassVar[bool] = False

    def begin(
        self,
        trees: Trees,
        data: Data,
        functions: Functions,
        offsets: NDArray[np.intp],
        batch_size: int,
        l2: float,
        n_threads: int = 1,
    ) -> Run:
        """Prepare to train these trees in place."""
        n_rows, n_columns = data.X.shape
        kind = _SampleSpaceSGD if n_columns > n_rows else _FeatureSpaceSGD
        return kind(trees, data, functions, offsets, batch_size, l2)


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

    def begin(
        self,
        trees: Trees,
        data: Data,
        functions: Functions,
        offsets: NDArray[np.intp],
        batch_size: int,
        l2: float,
        n_threads: int = 1,
    ) -> Run:
        """Prepare to train these trees in place."""
        return _FeatureSpaceAdam(trees, data, functions, offsets, batch_size, l2)


class _FeatureSpaceSGD:
    def __init__(
        self, trees: Trees, data: Data, functions: Functions, offsets: NDArray[np.intp], batch_size: int, l2: float,
        column_size: NDArray[np.float64] | None = None,
    ) -> None:  # fmt: skip
        self.trees, self.functions = trees, functions
        self.batch_size, self.l2 = batch_size, float(l2)
        dtype, n_columns = trees.flat.dtype, data.X.shape[1]
        self.cells = make_cells(data.X, dtype)
        is_dense = len(self.cells.starts) == 0
        self.data = data if is_dense else data._replace(X=np.zeros((0, 0), dtype=dtype))
        self.work = make_workspace(trees, batch_size, data.Y.shape[1], n_columns if is_dense else 0)
        # Where no group is thresholded none has to return, so no column needs a size.
        column_size = np.zeros(trees.W.shape[0]) if column_size is None else column_size
        self.active = make_active(offsets, trees.W.strides[0], column_size)
        self.samples, self.moments = no_samples(dtype), no_moments(trees)
        self.shrinkage = 1.0

    @property
    def n_groups(self) -> int:
        return int(self.active.n_alive[0])

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        loss, shrinkage = train_epoch(
            self.trees, self.data, self.cells, self.functions, self.work, self.active, self.samples, self.moments, schedule,
            order, self.batch_size, self.l2,
        )  # fmt: skip
        self.shrinkage *= shrinkage
        return float(loss)

    def sync(self) -> None:
        """Weights are always up to date."""

    def snapshot(self) -> tuple[NDArray[np.intp], Trees]:
        self.sync()
        n_columns = int(self.active.n_alive[1])
        return self.active.columns[:n_columns].copy(), self.trees.select(slice(n_columns))

    def split_gradients(self) -> NDArray[Any]:
        # A step of size zero leaves the trees as they are and the gradient in the workspace.
        nothing = np.zeros(1)
        self.epoch(Schedule(nothing, nothing, nothing), np.arange(self.batch_size))
        return self.work.D


class _ThreadedSGD(_FeatureSpaceSGD):
    """The same steps, bit for bit, with large products shared by threads.

    Steps are driven from here and not by one compiled call: that costs some microseconds a step, which do not count beside
    products of milliseconds, and no thread spins while there is nothing to share.
    """

    def __init__(self, n_threads: int, *args: Any) -> None:
        super().__init__(*args)
        self.n_threads = n_threads

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        if self._count_pieces(self.batch_size) <= 1:
            return super().epoch(schedule, order)
        with ThreadPoolExecutor(self.n_threads) as pool:
            return sum(
                self._step(pool, order[i * self.batch_size : (i + 1) * self.batch_size], *numbers)
                for i, numbers in enumerate(zip(*schedule, strict=True))
            )

    def _count_pieces(self, n_rows: int) -> int:
        return int(count_pieces(n_rows, self.trees, self.cells, self.active))

    def _step(self, pool: Executor, rows: NDArray[np.intp], eta: float, hard: float, soft: float) -> float:
        trees, data, cells, active, work, n = self.trees, self.data, self.cells, self.active, self.work, len(rows)
        shrink = 1 - 2 * eta * self.l2 / trees.W.shape[1]
        gather_batch(trees, data, cells, active, work, rows)
        n_pieces = self._count_pieces(n)
        list(pool.map(lambda piece: add_scores(piece, n_pieces, n, trees, active, work), range(n_pieces)))
        loss = middle_of_step(trees, data, self.functions, work, rows, eta)
        n_blocks = begin_step(trees, data, cells, active, work, rows, shrink, eta, max(hard, soft))

        def step(share: int) -> None:
            first, end = share * n_blocks // self.n_threads, (share + 1) * n_blocks // self.n_threads
            step_on_blocks(first, end, n, trees, cells, active, work, shrink, eta, hard, soft)

        list(pool.map(step, range(self.n_threads)))
        if hard > 0 or soft > 0:
            drop_dead(active, trees.W)
        return float(loss)


class _FeatureSpaceAdam(_FeatureSpaceSGD):
    def __init__(self, trees: Trees, *args: Any) -> None:
        super().__init__(trees, *args)
        self.moments = make_moments(trees)


class _SampleSpaceSGD(_FeatureSpaceSGD):
    def __init__(self, trees: Trees, data: Data, *args: Any) -> None:
        self.X = data.X
        gram = data.X @ data.X.T
        Z = np.ascontiguousarray(data.X @ trees.W)
        K = np.ascontiguousarray(gram.toarray() if sparse.issparse(gram) else gram, dtype=Z.dtype)
        # The kernel reads K in the place of X.
        super().__init__(trees, data._replace(X=K), *args)
        self.samples = Samples(Z, K, np.zeros_like(Z))

    def sync(self) -> None:
        self.trees.W[:] *= self.trees.W.dtype.type(self.shrinkage)
        self.trees.W[:] += self.X.T @ self.samples.A
        self.samples.A[:] = 0
        self.shrinkage = 1.0


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
