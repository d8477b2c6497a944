"""Evidence: the losses of the path's ensembles on rows that their training did not see, and the scores that follow from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skinnytrees.columns import Groups
from skinnytrees.kernels.state import Data, Trees
from skinnytrees.losses import evaluate_loss
from skinnytrees.path.points import Branch, PathPoint, data_of
from skinnytrees.path.trainer import Trainer


class RowLosses(NamedTuple):
    """Loss of every point of a branch, from large to small, on every row that judges it, and the rows' weights."""

    losses: NDArray[np.float64]
    weight: NDArray[np.float64]

    def mean(self, i: int) -> float:
        """Mean loss of a point."""
        return float(np.average(self.losses[i], weights=self.weight))

    def with_point(self, i: int, losses: NDArray[np.float64]) -> "RowLosses":
        """The same but for one point."""
        changed = self.losses.copy()
        changed[i] = losses
        return RowLosses(changed, self.weight)

    def scores(self, perfect: float, constant: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Fraction of the loss between a constant and a perfect prediction that each point explains; its standard error."""
        fraction = self.weight / self.weight.sum()
        mean = self.losses @ fraction
        span = max(constant - perfect, np.finfo(float).tiny)
        error = np.sqrt(((self.losses - mean[:, None]) ** 2) @ fraction**2)
        return 1 - (mean - perfect) / span, error / span


@dataclass(frozen=True)
class HeldOutRows:
    """Rows that judge the path's ensembles."""

    data: Data
    groups: Groups
    trainer: Trainer

    @property
    def weight(self) -> NDArray[np.float64]:
        """Weights of the rows."""
        return self.data.weight.astype(float)

    def row_losses(self, groups: NDArray[np.intp], trees: Trees) -> NDArray[np.float64]:
        """Loss on every row of an ensemble on these groups."""
        return self.trainer.row_losses(trees, self._rows_of(groups))

    def ranking(self, point: PathPoint) -> float:
        """How well a point's ensemble ranks the rows."""
        return self.trainer.ranking(point.trees, self._rows_of(point.groups))

    def _rows_of(self, groups: NDArray[np.intp]) -> Data:
        return data_of(self.data, self.groups.columns(groups))


def evidence_of(branch: Branch, held_out: HeldOutRows | None, folds: RowLosses | None) -> RowLosses | None:
    """What is known about a branch: losses by folds, where there are any, else on held-out rows; None without either."""
    if folds is not None:
        return folds._replace(losses=folds.losses[: len(branch.points)])
    return None if held_out is None else RowLosses(np.array(branch.losses), held_out.weight)


def join_folds(
    losses: Sequence[NDArray[np.float64]], weights: Sequence[NDArray[np.float64]], starts_differ: bool
) -> list[RowLosses]:
    """For each branch, the losses by walks that did not see the row; a fold's losses are of shape (branches, points, rows).

    Where the branches are starts from different random trees, they are numbered by chance: the first of one fold is not the first
    of another, and all get the mean.
    """
    if starts_differ:
        losses = [np.broadcast_to(one.mean(axis=0), one.shape) for one in losses]
    weight = np.concatenate(weights)
    return [RowLosses(np.ascontiguousarray(branch), weight) for branch in np.concatenate(losses, axis=2)]


def reference_losses(trainer: Trainer, n_outputs: int, data: Data) -> tuple[float, float]:
    """Mean loss of a perfect prediction, and of the best constant one."""
    Y, fraction, functions = data.Y, data.weight / data.weight.sum(), trainer.functions

    def mean_loss(constant: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        F = np.tile(constant.astype(np.float32), (len(Y), 1))
        row_loss, G = evaluate_loss(functions.loss, functions.loss_parameter, F, Y)
        return float(row_loss @ fraction), (fraction @ G).astype(np.float64)

    best = minimize(mean_loss, np.zeros(n_outputs), jac=True, method="L-BFGS-B")
    return float(fraction @ trainer.loss.least_loss(Y)), float(best.fun)
