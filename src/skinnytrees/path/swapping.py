"""Swaps: exchange the weakest groups inside for those outside with the largest gradients, where rows are too few for pruning."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.state import Data, view_trees
from skinnytrees.path.points import PathInputs, PathPoint, group_norms
from skinnytrees.tables.groups import Groups
from skinnytrees.training.epoch_runners.choice import split_gradients
from skinnytrees.training.epoch_runners.sample_space import transposed_product


@dataclass(frozen=True)
class Candidates:
    """The groups that may come in."""

    groups: NDArray[np.intp]
    inputs: PathInputs

    @cached_property
    def rows(self) -> Data:
        """The training rows with their design columns; the table itself, where all groups may come in."""
        return self.inputs.data if len(self.groups) == len(self.inputs.groups) else self.inputs.rows_of(self.groups)

    def among(self, groups: NDArray[np.intp]) -> "Candidates":
        """Only those that are left, as long as the candidates are too many for the rows."""
        most = len(self.inputs.data.Y) * self.inputs.rules.swaps.candidates_per_row
        return replace(self, groups=groups) if len(self.groups) > most else self


def swap(point: PathPoint, inputs: PathInputs, candidates: Candidates, rng: np.random.Generator) -> PathPoint:
    """Exchange groups for candidates while that lowers the training loss.

    Shrinking by norm makes early mistakes on few rows; this repairs them. Half as many are exchanged after a failure.
    """
    rules, trainer = inputs.rules.swaps, inputs.trainer
    n_exchanged = max(1, int(len(point.groups) * rules.first_fraction))
    point = _measured(point, inputs)
    pull = pull_of_groups(point, candidates)
    for _ in range(rules.rounds):
        changed = exchange(point, pull, inputs.groups, n_exchanged)
        if changed is None:
            break
        trainer.train(changed.trees, inputs.rows_of(changed.groups), inputs.recipes.screen_stage, rng)
        changed = _measured(changed, inputs)
        if changed.train_loss < rules.gain * point.train_loss:
            point, pull = changed, pull_of_groups(changed, candidates)
        else:
            n_exchanged //= 2
    return point


def pull_of_groups(point: PathPoint, candidates: Candidates) -> NDArray[np.float64]:
    """The norm of the gradient x' D of the loss with respect to the weights of every candidate, also where these are zero.

    It is -1 for all other groups.
    """
    inputs = candidates.inputs
    D = split_gradients(point.trees, inputs.rows_of(point.groups), inputs.trainer.functions)
    pull = np.full(len(inputs.groups), -1.0)
    here = inputs.groups.take(candidates.groups)
    pull[candidates.groups] = group_norms(transposed_product(candidates.rows.X, D), here)
    return pull


def exchange(point: PathPoint, pull: NDArray[np.float64], groups: Groups, n_exchanged: int) -> PathPoint | None:
    """Exchange groups of least norm for as many of largest gradient, with zero weights; None if that exceeds the budget."""
    here = groups.take(point.groups)
    movable = np.flatnonzero(~here.always_selected)
    outside = np.delete(pull, point.groups)
    n_exchanged = min(n_exchanged, len(movable), int((outside >= 0).sum()))
    if n_exchanged == 0:
        return None
    leaving = movable[np.argsort(group_norms(point.trees.W, here)[movable])[:n_exchanged]]
    coming = np.delete(np.arange(len(pull)), point.groups)[np.argpartition(-outside, n_exchanged - 1)[:n_exchanged]]
    together = np.sort(np.append(np.delete(point.groups, leaving), coming))
    if groups.price[together].sum() > here.price.sum() * (1 + 1e-12):
        return None
    columns = groups.columns(together)
    W = np.zeros((len(columns), point.trees.W.shape[1]), dtype=point.trees.W.dtype)
    _, new, old = np.intersect1d(columns, groups.columns(point.groups), return_indices=True)
    W[new] = point.trees.W[old]
    flat = np.concatenate([W.ravel(), point.trees.b, point.trees.O.ravel()])
    return PathPoint(together, view_trees(flat, len(columns), W.shape[1], point.trees.O.shape), point.train_loss)


def _measured(point: PathPoint, inputs: PathInputs) -> PathPoint:
    """The point with the loss that its ensemble has now on the training rows."""
    losses = inputs.trainer.row_losses(point.trees, inputs.rows_of(point.groups))
    return point._replace(train_loss=float(np.average(losses, weights=inputs.data.weight)))
