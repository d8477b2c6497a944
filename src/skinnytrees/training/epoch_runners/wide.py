"""Epochs in which groups enter and leave, in sample space for as long as none does."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.active_set import SAFETY
from skinnytrees.kernels.state import Schedule, Trees, view_trees
from skinnytrees.training.epoch_runners.active_set import ActiveSetRunner
from skinnytrees.training.epoch_runners.runner import Movement, Snapshot
from skinnytrees.training.epoch_runners.sample_space import SampleSpaceRunner, form_weights

# Groups that enter and leave are trained in sample space from this many columns per row on: norms have to be formed at times.
_COLUMNS_PER_ROW = 2


def is_wide(n_rows: int, n_columns: int) -> bool:
    """Whether sample space is cheaper, with the norms of groups that have to be formed at times."""
    return n_columns >= _COLUMNS_PER_ROW * n_rows


class WideRunner:
    """Training in which groups enter and leave, in sample space while none does: the same steps at a fraction of their cost.

    A step moves a group's weights by no more than ``eta ||x|| ||D||``, so its norm has a lower bound that is known without
    its weights. While all bounds stay above the threshold, and no group outside can be lifted above it, the support is
    fixed. An epoch that might break this is undone and tried once more with exact norms; then the plain runner makes it.
    """

    def __init__(self, plain: ActiveSetRunner) -> None:
        self.plain = plain
        self.inside: SampleSpaceRunner | None = None
        self.least_norm = np.zeros(len(plain.groups))

    @property
    def trees(self) -> Trees:
        """The ensemble; its W is not up to date in sample space."""
        return self.plain.trees

    @property
    def groups(self) -> NDArray[np.intp]:
        """The groups that have weights."""
        return self.plain.groups

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
        if not is_wide(len(self.plain.task.data.Y), len(self.plain.columns)) or schedule.soft.any():
            return False
        self.least_norm = _norms(self.plain)
        steps = schedule.eta * np.linalg.norm(self.plain.work.D)
        return self._support_stays(schedule, Movement(1, 0.0, 1.0, steps.sum(), steps.max()))

    def _epoch_inside(self, schedule: Schedule, order: NDArray[np.intp]) -> float | None:
        """An epoch in sample space; None, with all as it was before, if a group might have crossed the threshold."""
        norms_are_exact = self.inside is None
        if self.inside is None:
            self.inside = _enter_sample_space(self.plain)
        while True:
            before = self.inside.state()
            movement = self.inside.epochs(schedule, order[None])
            if self._support_stays(schedule, movement):
                self.least_norm = _bounds(self.least_norm, self.plain, movement)
                return movement.loss
            self.inside.restore(before)
            if norms_are_exact:
                return None
            self.sync()
            self.least_norm, norms_are_exact = _norms(self.plain), True

    def _support_stays(self, schedule: Schedule, movement: Movement) -> bool:
        """Whether no group can have crossed the threshold; no, where numbers are not finite."""
        active, bounds = self.plain.active, _bounds(self.least_norm, self.plain, movement)
        is_alive = np.zeros(len(bounds), dtype=bool)
        is_alive[self.groups] = True
        factor = active.hard_factor
        stays = (bounds > SAFETY * schedule.hard.max() * factor) | (factor == 0)
        nobody_leaves = not schedule.hard.any() or np.all(stays[is_alive])
        nobody_comes = np.all(
            SAFETY * movement.longest_step * active.column_norm_bound[~is_alive]
            <= schedule.hard.min() * factor[~is_alive]
        )
        return bool(nobody_leaves and nobody_comes)

    def sync(self) -> None:
        """Form W in a new place: snapshots may hold the old one."""
        if self.inside is not None:
            self.plain.trees = self.trees.copy()
            self.inside.trees = self.plain.packed_trees()
            self.inside.sync()

    def snapshot(self) -> Snapshot:
        """Columns of the groups that have weights; in sample space their W is formed when it is asked for."""
        if self.inside is None:
            return self.plain.snapshot()
        columns, X, trees = self.plain.columns.copy(), self.inside.X, self.plain.packed_trees()
        shrinkage, (_, A, b, leaves) = self.inside.state()

        def formed() -> tuple[NDArray[np.intp], Trees]:
            W = form_weights(trees.W, shrinkage, X, A)
            flat = np.concatenate([W.ravel(), b, leaves.ravel()])
            return columns, view_trees(flat, len(columns), W.shape[1], leaves.shape)

        return formed

    def to_checkpoint(self) -> dict[str, NDArray[Any]]:
        """That of the plain runner, the bounds, and in sample space what stands for W there."""
        inside = {} if self.inside is None else self.inside.to_checkpoint()
        return {
            **self.plain.to_checkpoint(),
            "least_norm": self.least_norm,
            **{f"inside_{name}": inside[name] for name in ("Z", "A", "shrinkage") if inside},
        }

    def from_checkpoint(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Become a runner of the same task that had this state."""
        self.plain.from_checkpoint(kept)
        self.least_norm = kept["least_norm"].copy()
        self.inside = None
        if "inside_Z" in kept:
            self.inside = _enter_sample_space(self.plain)
            arrays = [kept["inside_Z"], kept["inside_A"], self.trees.b, self.trees.O]
            self.inside.restore((float(kept["inside_shrinkage"]), arrays))


def _enter_sample_space(plain: ActiveSetRunner) -> SampleSpaceRunner:
    """A runner at the present support."""
    task, columns = plain.task, plain.columns
    X = task.data.X if np.array_equal(columns, np.arange(task.data.X.shape[1])) else task.data.X[:, columns]
    return SampleSpaceRunner(task._replace(trees=plain.packed_trees(), data=task.data._replace(X=X)))


def _norms(plain: ActiveSetRunner) -> NDArray[np.float64]:
    """Norms of all groups; zero outside."""
    W, active, n_alive = plain.packed_trees().W, plain.active, len(plain.groups)
    norms = np.zeros(len(active.column_norm_bound))
    squares = np.einsum("kj,kj->k", W, W).astype(np.float64)
    norms[active.groups[:n_alive]] = np.sqrt(np.add.reduceat(squares, active.starts[:n_alive]))
    return norms


def _bounds(least_norm: NDArray[np.float64], plain: ActiveSetRunner, movement: Movement) -> NDArray[np.float64]:
    """How small the norms may have become."""
    return least_norm * movement.shrinkage - plain.active.column_norm_bound * movement.total_step
