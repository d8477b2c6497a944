"""Backward elimination of groups from a fitted ensemble, in two ways.

*Plain*: a removed column is zero, its mean. *Filled in*: the columns that stay fill in for those that go. A column that others
can replace should be removed first, but its weight is often distributed over them: removing it without changing the others would
seem expensive. So a removed column x is replaced by its best linear prediction from the columns that stay, x = B x_rest + r,
which is a change of their weights and biases and needs no training. What the ensemble loses is r alone, and the loss with Z - r w
instead of Z = XW + b is the cost of the removal. Of two equal columns, one is free; of all the 0/1 columns of a category, one is.

Where columns carry the same signal with noise of their own, however, keeping several is better, which the plain cost takes into
account: held-out rows decide which of the two is better.
"""

import heapq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.kernels.epoch import evaluate_scores
from skinnytrees.kernels.numba_bridge.calls import SameTypes
from skinnytrees.kernels.state import Data, Functions, Trees, make_workspace
from skinnytrees.losses import fill_loss
from skinnytrees.path.rules import EliminationRules
from skinnytrees.path.targets import Target, worth_for_price
from skinnytrees.tables.groups import Groups

# Rows whose loss is evaluated at once.
_PIECE = 64


class Elimination:
    """State of the elimination: weights and costs with everything removed so far filled in for."""

    def __init__(
        self, trees: Trees, data: Data, offsets: NDArray[np.intp], functions: Functions, rules: EliminationRules,
        fill_in: bool,
    ) -> None:  # fmt: skip
        n_rows = np.clip(rules.rows_times_groups // (len(offsets) - 1), rules.least_rows, rules.most_rows)
        step = -(-len(data.Y) // int(n_rows))
        X: Any = data.X[::step]
        X = X.toarray() if sparse.issparse(X) else X
        self.rows = Data(*(np.ascontiguousarray(part) for part in (X, data.Y[::step], data.weight[::step])))
        self.trees, self.functions = trees, functions
        self.offsets = offsets
        self.mean = X.mean(axis=0, dtype=np.float64)
        self.centred = X - self.mean.astype(np.float32)
        # Without a precision matrix, no column is taken to predict another.
        fill_in = fill_in and X.shape[1] <= rules.most_filled_in
        self.precision = _precision(self.centred, rules.ridge) if fill_in else None
        self.Z = self.rows.X @ trees.W + trees.b
        self.work = make_workspace(trees, _PIECE, data.Y.shape[1], 0)
        self.outputs, self.gradient = np.empty((2, len(self.Z), trees.O.shape[0]), dtype=self.Z.dtype)
        self.evaluate, self.fill = SameTypes(), SameTypes()
        self.losses = np.empty(len(self.Z), dtype=self.Z.dtype)
        self.loss = self._loss(np.zeros((len(self.Z), 0), dtype=np.float32), slice(0, 0))

    def cost(self, group: int) -> float:
        """By how much the summed loss rises when the group goes and the rest fills in."""
        columns = self._columns(group)
        return self._loss(self._residual(columns), columns) - self.loss

    def remove(self, group: int, cost: float) -> None:
        """Take the group out, which costs so much, and let the rest fill in."""
        columns = self._columns(group)
        W_group = self.trees.W[columns].copy()
        self.loss += cost
        self.Z -= self._residual(columns) @ W_group
        self.trees.b[:] += (self.mean[columns] @ W_group).astype(self.trees.b.dtype)
        if self.precision is not None:
            self._fill_in(columns, W_group)
        self.trees.W[columns] = 0

    def _fill_in(self, columns: slice, W_group: NDArray[Any]) -> None:
        # x_group = mean_group + B (x_rest - mean_rest) + r with B = -P_rest,group P_group,group^-1, P the precision matrix.
        assert self.precision is not None
        own = np.linalg.inv(self.precision[columns, columns])
        B = -self.precision[:, columns] @ own
        B[columns] = 0
        self.trees.W[:] += (B @ W_group).astype(self.trees.W.dtype)
        self.trees.b[:] -= (self.mean @ B @ W_group).astype(self.trees.b.dtype)
        self.precision += B @ self.precision[columns]
        self.precision[columns] = 0
        self.precision[:, columns] = 0

    def _columns(self, group: int) -> slice:
        return slice(int(self.offsets[group]), int(self.offsets[group + 1]))

    def _residual(self, columns: slice) -> NDArray[np.float32]:
        """The part of the group's columns that the others cannot predict."""
        if self.precision is None:
            return np.ascontiguousarray(self.centred[:, columns])
        own = np.linalg.inv(self.precision[columns, columns])
        return np.ascontiguousarray(self.centred @ (self.precision[:, columns] @ own).astype(np.float32))

    def _loss(self, lost: NDArray[np.float32], columns: slice) -> float:
        functions, outputs = self.functions, self.outputs
        self.evaluate(
            evaluate_scores, self.trees, self.Z, lost, self.trees.W[columns], functions, self.work, outputs
        )  # fmt: skip
        self.fill(fill_loss, functions.loss, functions.loss_parameter, outputs, self.rows.Y, self.gradient, self.losses)
        return float(self.losses.astype(np.float64) @ self.rows.weight)


def _precision(centred: NDArray[np.float32], ridge: float) -> NDArray[np.float64]:
    covariance = (centred.T @ centred).astype(np.float64) / len(centred)
    variance = np.where(np.diagonal(covariance) > 0, np.diagonal(covariance), 1.0)
    return np.asarray(np.linalg.inv(covariance + ridge * np.diag(variance)), dtype=np.float64)


class Costs(NamedTuple):
    """What the removal of each group would cost, and the limit up to which that may be the cost of noise."""

    rise: NDArray[np.float64]
    limit: float = -np.inf

    def take(self, groups: NDArray[np.intp]) -> "Costs":
        """The costs of some of the groups."""
        return self._replace(rise=self.rise[groups])

    def lower_bounds(self, slack: float) -> "Costs":
        """What is certain of the costs after more training."""
        return self._replace(rise=self.rise - slack * np.abs(self.rise))

    def worth(self, group: int, importance: NDArray[np.float64] | None, negligible: float) -> tuple[bool, float]:
        """A sort key of the groups, the least first: groups that may be noise, and the others by their costs."""
        rise = float(self.rise[group])
        if importance is None or rise > self.limit:
            return True, rise
        return False, float(importance[group]) * max(rise, negligible * self.limit)


def eliminate(
    trees: Trees, data: Data, groups: Groups, target: Target, functions: Functions, rules: EliminationRules, fill_in: bool,
    old_costs: Costs | None = None, importance: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.intp], Costs]:  # fmt: skip
    """Remove groups from ``trees`` in place, always the one that costs least for its price, until the target is met.

    Costs mostly rise as groups go, so an old cost is taken for a lower bound, and only groups that look cheapest are
    measured again. Costs from before the last training, ``old_costs``, give bounds to begin with.

    Noise, too, reduces the training loss, and which of two costs of this size is larger is chance. With an ``importance`` of
    the groups from elsewhere, groups whose cost may be that of noise go first, by the product of both.

    Returns
    -------
    kept, costs : array of int, Costs
        Groups that are left, and what each would have cost when that was measured last.
    """
    state, price = Elimination(trees, data, groups.column_offsets, functions, rules, fill_in), groups.price
    kept, n_removed, power = np.ones(len(price), dtype=bool), 0, target.power_at(price.sum())
    if old_costs is None:
        costs, when_measured = _first_costs(state, importance, rules), 0
    else:
        costs, when_measured = old_costs.lower_bounds(rules.slack), -1
    starts_within = not target.exceeded_by(price.sum())

    def entry(g: int, measured: int) -> tuple[bool, float, int, int]:
        matters, worth = costs.worth(g, importance, rules.negligible)
        return matters, float(worth_for_price(worth, price[g], power)), g, measured

    heap = [entry(g, when_measured) for g in np.flatnonzero(~groups.always_selected).tolist()]
    heapq.heapify(heap)
    while heap and kept.sum() > max(target.n_groups, 1) and (starts_within or target.exceeded_by(price[kept].sum())):
        *_, g, measured = heapq.heappop(heap)
        if measured < n_removed:
            costs.rise[g] = state.cost(g)
            heapq.heappush(heap, entry(g, n_removed))
            continue
        state.remove(g, costs.rise[g])
        kept[g] = False
        n_removed += 1
    left = np.flatnonzero(kept)
    return left, costs.take(left)


def _first_costs(state: Elimination, importance: NDArray[np.float64] | None, rules: EliminationRules) -> Costs:
    """The costs of all groups; with an importance, the limit by those of the least important ones."""
    rise = np.array([state.cost(g) for g in range(len(state.offsets) - 1)])
    if importance is None:
        return Costs(rise)
    least = importance <= np.quantile(importance, rules.least_important)
    limit = rules.noise_costs * float(np.median(rise[least]))
    return Costs(rise, limit if limit > 0 else -np.inf)
