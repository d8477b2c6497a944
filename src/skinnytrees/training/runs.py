"""Training under way: one compiled epoch after another, each way to train with what it has to remember."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.kernels.active_set import SAFETY, count_pieces
from skinnytrees.kernels.compilation import SameTypes, call
from skinnytrees.kernels.epoch import train_active, train_cells, train_epoch
from skinnytrees.kernels.sample_space import add_gram
from skinnytrees.kernels.sharing import close, help_until_closed, make_board
from skinnytrees.kernels.state import (
    Data,
    Functions,
    Samples,
    Schedule,
    Trees,
    make_active,
    make_cells,
    make_workspace,
    no_moments,
    no_samples,
    view_trees,
)
from skinnytrees.tables.table_views import PickedRows, pieces, view

# The matrix of all products between rows is worth its time and memory up to this many rows.
_SAMPLE_SPACE_ROWS = 5000
_GRAM_BANDS = 8
# Groups that come and go are trained in sample space from this many columns a row on: norms have to be formed at times.
_WIDE = 2


class Run(Protocol):
    """Training under way: it owns whatever an optimiser remembers."""

    @property
    def trees(self) -> Trees:
        """The ensemble."""

    @property
    def n_groups(self) -> int:
        """Number of groups that have weights."""

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows in this order; returns the summed loss."""

    def sync(self) -> None:
        """Bring the trees' weights up to date."""

    def snapshot(self) -> "Snapshot":
        """What the ensemble is now."""


# Gives, whatever has been trained since, the columns that were in use and the ensemble on them.
Snapshot = Callable[[], tuple[NDArray[np.intp], Trees]]


class Task(NamedTuple):
    """What is to be trained: design columns ``offsets[g]`` to ``offsets[g + 1]`` are group g."""

    trees: Trees
    data: Data
    functions: Functions
    offsets: NDArray[np.intp]
    batch_size: int
    l2: float
    n_threads: int = 1


class InPlace(NamedTuple):
    """Data as kernels read it: tables where they stand, targets and weights at the places of their rows.

    ``rows`` are the rows to train on, or None for all; ``columns`` those of X to read, or none for all.
    """

    data: Data
    rows: NDArray[np.intp] | None
    columns: NDArray[np.intp]

    @classmethod
    def of(cls, data: Data) -> "InPlace":
        """Look through a view."""
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


class FixedRun:
    """Training at a fixed support, on dense data."""

    def __init__(self, task: Task) -> None:
        self.task, self.trees, self.call = task, task.trees, SameTypes()
        self.in_place = InPlace.of(task.data)
        self.n_groups = len(task.offsets) - 1
        self.work = make_workspace(task.trees, task.batch_size, task.data.Y.shape[1], task.data.X.shape[1])
        self.samples, self.moments = no_samples(task.trees.flat.dtype), no_moments(task.trees)

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        return self.measured_epoch(schedule, order).loss

    def measured_epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> "Movement":
        """One pass over the rows, and how far it may have moved the weights; that is known in sample space only."""
        found = self.call(
            train_epoch, self.trees, self.in_place.data, self.in_place.columns, self.task.functions, self.work, self.samples,
            self.moments, schedule, self.in_place.places(order), self.task.batch_size, self.task.l2,
        )  # fmt: skip
        return Movement(*found)

    def sync(self) -> None:
        """Weights are always up to date."""

    def snapshot(self) -> Snapshot:
        """All columns."""
        self.sync()
        kept = np.arange(len(self.trees.W)), self.trees.copy()
        return lambda: kept


class Movement(NamedTuple):
    """An epoch's summed loss, the factor by which W shrank, and the sum and the largest of ``eta ||D||`` of its steps."""

    loss: float
    shrinkage: float
    way: float
    longest_step: float


class SampleSpaceRun(FixedRun):
    """Training at a fixed support of more columns than rows, dense or sparse."""

    def __init__(self, task: Task) -> None:
        X = self.X = task.data.X
        Z = np.ascontiguousarray(X @ task.trees.W)
        K = gram_matrix(X)
        # The kernel reads K in the place of X.
        super().__init__(task._replace(data=task.data._replace(X=K)))
        self.samples = Samples(Z, K, np.zeros_like(Z))
        self.shrinkage = 1.0

    def measured_epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> Movement:
        """One pass over the rows, and how far it may have moved the weights."""
        movement = super().measured_epoch(schedule, order)
        self.shrinkage *= movement.shrinkage
        return movement

    def sync(self) -> None:
        """Form W."""
        self.trees.W[:] = form_weights(self.trees.W, self.shrinkage, self.X, self.samples.A)
        self.samples.A[:] = 0
        self.shrinkage = 1.0


class ActiveRun:
    """Training in which groups come and go."""

    def __init__(self, task: Task) -> None:
        self.task, self.trees, self.call = task, task.trees, SameTypes()
        X = task.data.X
        self.work = make_workspace(task.trees, task.batch_size, task.data.Y.shape[1], self._columns_gathered(X))
        sizes = largest_column_norms(X, task.batch_size)
        self.active, self.board = make_active(task.offsets, task.trees.W.strides[0], sizes), make_board()
        self.in_place = InPlace.of(task.data)
        assert len(self.in_place.columns) == 0  # the kernel picks columns of its own

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
            train_active, self.trees, self.in_place.data, self.task.functions, self.work, self.active, self.board, schedule,
            self.in_place.places(order), self.task.batch_size, self.task.l2,
        )  # fmt: skip
        return float(loss)

    def sync(self) -> None:
        """Weights are always up to date."""

    @property
    def columns(self) -> NDArray[np.intp]:
        """Columns of the groups that have weights, in the order of their rows of W."""
        return self.active.columns[: self.active.n_alive[1]]

    def snapshot(self) -> Snapshot:
        """Columns of the groups that have weights."""
        kept = self.columns.copy(), self.trees.select(slice(len(self.columns)))
        return lambda: kept


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
    """The same steps, bit for bit, with large products shared by threads."""

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        if count_pieces.py_func(self.task.batch_size, self.active.n_alive[1], self.trees.W.shape[1]) == 1:
            return super().epoch(schedule, order)
        board = self.board = make_board()
        with ThreadPoolExecutor(self.task.n_threads - 1) as pool:
            for _ in range(self.task.n_threads - 1):
                pool.submit(help_until_closed, board, self.trees, self.active, self.work, lambda: time.sleep(0))
            try:
                return super().epoch(schedule, order)
            finally:
                close(board)


class WideRun:
    """Training in which groups come and go, in sample space while none does: the same steps at a fraction of their cost.

    A step moves a group's weights by no more than ``eta ||x|| ||D||``, so its norm has a lower bound that is known without
    its weights. While all bounds stay above the threshold, and no group outside can be lifted above it, the support is
    fixed. An epoch that might break this is undone and tried once more with exact norms; then the plain run makes it.
    """

    def __init__(self, plain: ActiveRun) -> None:
        self.plain = plain
        self.inside: SampleSpaceRun | None = None
        self.least_norm = np.zeros(plain.n_groups)

    @property
    def trees(self) -> Trees:
        """The ensemble; its W is not up to date in sample space."""
        return self.plain.trees

    @property
    def n_groups(self) -> int:
        """Number of groups that have weights."""
        return self.plain.n_groups

    def epoch(self, schedule: Schedule, order: NDArray[np.intp]) -> float:
        """One pass over the rows."""
        with np.errstate(over="ignore", invalid="ignore"):  # bounds that are not finite do not hold
            loss = self._epoch_inside(schedule, order) if self._may_enter(schedule) else None
        if loss is not None:
            return loss
        self.sync()
        self.inside = None
        return self.plain.epoch(schedule, order)

    def _may_enter(self, schedule: Schedule) -> bool:
        """Whether sample space is cheaper and, with steps as the last one, no group will cross the threshold."""
        if self.inside is not None:
            return True
        if len(self.plain.columns) < _WIDE * len(self.plain.task.data.Y) or schedule.soft.any():
            return False
        self.least_norm = self._norms()
        steps = schedule.eta * np.linalg.norm(self.plain.work.D)
        return self._support_stays(schedule, Movement(0.0, 1.0, steps.sum(), steps.max()))

    def _epoch_inside(self, schedule: Schedule, order: NDArray[np.intp]) -> float | None:
        """An epoch in sample space; None, with all as it was before, if a group might have crossed the threshold."""
        norms_are_exact = self.inside is None
        if self.inside is None:
            self.inside = self._enter()
        while True:
            before = self._memory(self.inside)
            movement = self.inside.measured_epoch(schedule, order)
            if self._support_stays(schedule, movement):
                self.least_norm = self._bounds(movement)
                return movement.loss
            self._recall(self.inside, before)
            if norms_are_exact:
                return None
            self.sync()
            self.least_norm, norms_are_exact = self._norms(), True

    def _enter(self) -> SampleSpaceRun:
        task, columns = self.plain.task, self.plain.columns
        X = task.data.X if np.array_equal(columns, np.arange(task.data.X.shape[1])) else task.data.X[:, columns]
        return SampleSpaceRun(task._replace(trees=self._packed(), data=task.data._replace(X=X)))

    def _packed(self) -> Trees:
        return self.trees._replace(W=self.trees.W[: len(self.plain.columns)])

    @staticmethod
    def _memory(inside: SampleSpaceRun) -> tuple[float, list[NDArray[Any]]]:
        arrays = (inside.samples.Z, inside.samples.A, inside.trees.b, inside.trees.O)
        return inside.shrinkage, [array.copy() for array in arrays]

    @staticmethod
    def _recall(inside: SampleSpaceRun, memory: tuple[float, list[NDArray[Any]]]) -> None:
        inside.shrinkage, (inside.samples.Z[:], inside.samples.A[:], inside.trees.b[:], inside.trees.O[:]) = memory

    def _norms(self) -> NDArray[np.float64]:
        """Norms of all groups; zero outside."""
        W, active, n_alive = self._packed().W, self.plain.active, self.n_groups
        norms = np.zeros(len(active.size))
        squares = np.einsum("kj,kj->k", W, W).astype(np.float64)
        norms[active.groups[:n_alive]] = np.sqrt(np.add.reduceat(squares, active.starts[:n_alive]))
        return norms

    def _bounds(self, movement: Movement) -> NDArray[np.float64]:
        return self.least_norm * movement.shrinkage - self.plain.active.size * movement.way

    def _support_stays(self, schedule: Schedule, movement: Movement) -> bool:
        """Whether no group can have crossed the threshold; no, where numbers are not finite."""
        active, bounds = self.plain.active, self._bounds(movement)
        is_alive = np.zeros(len(bounds), dtype=bool)
        is_alive[active.groups[: self.n_groups]] = True
        nobody_leaves = not schedule.hard.any() or np.all(bounds[is_alive] > SAFETY * schedule.hard.max())
        nobody_comes = np.all(SAFETY * movement.longest_step * active.size[~is_alive] <= schedule.hard.min())
        return bool(nobody_leaves and nobody_comes)

    def sync(self) -> None:
        """Form W in a new place: snapshots may hold the old one."""
        if self.inside is not None:
            self.plain.trees = self.trees.copy()
            self.inside.trees = self._packed()
            self.inside.sync()

    def snapshot(self) -> Snapshot:
        """Columns of the groups that have weights; in sample space their W is formed when it is asked for."""
        if self.inside is None:
            return self.plain.snapshot()
        columns, X, trees = self.plain.columns.copy(), self.inside.X, self._packed()
        shrinkage, (_, A, b, leaves) = self._memory(self.inside)

        def formed() -> tuple[NDArray[np.intp], Trees]:
            W = form_weights(trees.W, shrinkage, X, A)
            flat = np.concatenate([W.ravel(), b, leaves.ravel()])
            return columns, view_trees(flat, len(columns), W.shape[1], leaves.shape)

        return formed


def begin_penalised(task: Task) -> ActiveRun | WideRun:
    """Training in which groups come and go, as suits the data."""
    kind = CellsRun if sparse.issparse(task.data.X) else ActiveRun if task.n_threads == 1 else ThreadedRun
    n_rows, n_columns = task.data.X.shape
    return WideRun(kind(task)) if n_columns >= _WIDE * n_rows and n_rows <= _SAMPLE_SPACE_ROWS else kind(task)


def begin_at_fixed_support(task: Task) -> FixedRun | CellsRun:
    """Plain gradient steps without a threshold: in sample space where there are more columns than rows, and few rows."""
    n_rows, n_columns = task.data.X.shape
    if n_rows < n_columns and n_rows <= _SAMPLE_SPACE_ROWS:
        return SampleSpaceRun(task)
    return CellsRun(task) if sparse.issparse(task.data.X) else FixedRun(task)


def split_gradients(trees: Trees, data: Data, functions: Functions) -> NDArray[Any]:
    """Gradient of the mean loss with respect to every row's w.x + b at every split."""
    n_rows = len(data.Y)
    run = begin_at_fixed_support(Task(trees, data, functions, np.array([0, len(trees.W)]), n_rows, 0.0))
    # A step of size zero leaves the trees as they are and the gradient in the workspace.
    nothing = np.zeros(1)
    run.epoch(Schedule(nothing, nothing, nothing), np.arange(n_rows))
    return run.work.D


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
    """A triangle is summed over runs of columns, in bands of rows, which need little room; then it is mirrored."""
    n = len(X)
    K = np.zeros((n, n), dtype=X.dtype)
    bands = list(pieces(n, 1, -(-n // _GRAM_BANDS)))
    for _, block in X.blocks():
        for band in bands:
            K[band, : band.stop] += block[band] @ block[: band.stop].T
    for band in bands:
        K[: band.start, band] = K[band, : band.start].T
    return K


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
