"""The walk from all groups to the last one: the order of the phases, the reports on the way, and the result after Ctrl-C."""

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from skinnytrees.path.by_price import screen_and_prune
from skinnytrees.path.evidence import HeldOutRows
from skinnytrees.path.importance import importance_for_screening
from skinnytrees.path.points import Branch, PathInputs, PathPoint, keep_by_norm
from skinnytrees.path.pruning import branches_of_pruning, start_pruning
from skinnytrees.path.screening import screen
from skinnytrees.path.targets import Target, falling_targets, price_powers
from skinnytrees.path.trainer import split_generator
from skinnytrees.threads import in_step
from skinnytrees.training.loop import EpochReport


class Walk:
    """A walk on training rows, measured on held-out rows.

    It begins with screening and branches where pruning takes over: one branch fills in for what is removed, one does not.
    Where rows are too few for pruning, it branches at the very beginning: on few rows, a walk may lose a relevant group early,
    and other random trees lose others. So it does with unequal prices, in the power by which they count.

    Parameters
    ----------
    inputs : PathInputs
        What every phase works on.
    held_out : HeldOutRows or None
        Rows to measure every point on.
    budget : float
        Total price that must be among the sizes visited.
    report : callable
        Is told about the best branch's point at every size, and answers whether to stop once the budget is met.
    """

    def __init__(
        self, inputs: PathInputs, held_out: HeldOutRows | None, budget: float, report: Callable[[EpochReport], bool]
    ) -> None:
        self.inputs, self.held_out, self.budget, self.report = inputs, held_out, budget, report
        self.branches = [Branch([], [], [])]
        self.interrupted = False

    def go(self, rng: np.random.Generator) -> None:
        """Walk; after Ctrl-C, cut the last ensemble to the budget without more training."""
        try:
            self._go(rng)
        except KeyboardInterrupt:
            branch, groups = self.branches[0], self.inputs.groups
            if not branch.points:
                raise
            self.interrupted = True
            self.branches = [branch]
            last = branch.points[-1]
            if not last.is_within(self.budget, groups):
                kept = keep_by_norm(last, groups, Target(1, self.budget))
                self._measure(last.cut(groups, kept), branch)
            warnings.warn(
                "The path was interrupted; the model is cut to the budget from the last finished size.", stacklevel=7
            )

    def _go(self, rng: np.random.Generator) -> None:
        inputs, rules = self.inputs, self.inputs.rules
        powers = price_powers(inputs.groups, self.budget, rules.prices)
        by_power = [falling_targets(inputs.groups, self.budget, rules.sizes, power) for power in powers]
        targets = by_power[0]
        is_screened = len(targets) > 1 and len(inputs.groups) > inputs.recipes.prune_from
        importance = importance_for_screening(inputs, rng) if is_screened else None
        if not inputs.recipes.prune_from:
            each = [targets for targets in by_power for _ in range(rules.screening.n_starts)]
            generators = split_generator(rng, len(each))
            starts = [screen(inputs, *pair, importance) for pair in zip(each, generators, strict=True)]
            self._branch_off(starts, len(targets))
            return
        if len(by_power) > 1:
            self._branch_off_by_price(by_power, importance, rng)
            return
        for point in screen(inputs, targets, rng, importance):
            if self._add([point]):
                return
        screened = self.branches[0].points
        targets = targets[len(screened) :]
        if len(targets) == 0:
            return
        alive = np.arange(len(inputs.groups))
        if screened:
            alive = screened[-1].groups[keep_by_norm(screened[-1], inputs.groups, targets[0], importance)]
        start = start_pruning(inputs, alive, rng)
        if self._add([start]):
            return
        self._branch_off(branches_of_pruning(start, inputs, targets[1:], rng), len(targets) - 1)

    def _branch_off_by_price(
        self, by_power: Sequence[Sequence[Target]], importance: NDArray[np.float64] | None, rng: np.random.Generator
    ) -> None:
        """From the very beginning, go along several branches for each power of prices."""
        generators = split_generator(rng, len(by_power))
        walks = [screen_and_prune(self.inputs, *pair, importance) for pair in zip(by_power, generators, strict=True)]
        self.branches = [Branch([], [], []) for _ in range(len(walks) * len(self.inputs.rules.pruning.fill_in))]
        for points in in_step(walks, len(by_power[0]), self.inputs.trainer.n_threads):
            if self._add(list(itertools.chain(*points))):
                return

    def merge_starts(self) -> None:
        """Make one branch of several starts, where there are any: at every size the start of least training loss."""
        n_each = self.inputs.rules.screening.n_starts
        if self.inputs.recipes.prune_from or len(self.branches) < n_each:
            return
        self.branches = [Branch.best_of(self.branches[i : i + n_each]) for i in range(0, len(self.branches), n_each)]

    def _branch_off(self, branches: Sequence[Iterator[PathPoint]], n_points: int) -> None:
        """From what has been walked so far, go on along several branches in parallel."""
        trunk = self.branches[0]
        self.branches = [trunk.copy() for _ in branches]
        for points in in_step(branches, n_points, self.inputs.trainer.n_threads):
            if self._add(points):
                return

    def _add(self, points: Sequence[PathPoint]) -> bool:
        """Take in a point for every branch and report the best; whether to stop."""
        reports = [self._measure(point, branch) for point, branch in zip(points, self.branches, strict=True)]
        best = min(reports, key=lambda report: report.loss if self.held_out is None else report.val_loss)
        stop = self.report(best)
        return stop and all(point.is_within(self.budget, self.inputs.groups) for point in points)

    def _measure(self, point: PathPoint, branch: Branch) -> EpochReport:
        """Take a point in with its losses and report; all or nothing, whenever Ctrl-C comes."""
        val_loss = np.nan
        n_features = int(self.inputs.groups.n_features[point.groups].sum())
        if self.held_out is not None:
            outputs = self.held_out.outputs(point.groups, point.trees)
            losses = self.inputs.trainer.losses_of(outputs, self.held_out.data.Y)
            val_loss = float(np.average(losses, weights=self.held_out.weight))
            branch.outputs.append(outputs)
        branch.reports.append(EpochReport(len(branch.points), point.train_loss, np.nan, n_features, val_loss))
        branch.points.append(point)
        return branch.reports[-1]
