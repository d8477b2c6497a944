"""What every phase of the path works on, and the points that it gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from skinnytrees.kernels.state import Data, Trees
from skinnytrees.path.rules import PathRecipes, PathRules
from skinnytrees.path.targets import Target, keep_worthiest
from skinnytrees.path.trainer import Trainer
from skinnytrees.tables.groups import Groups
from skinnytrees.tables.table_views import PickedRows
from skinnytrees.training.loop import EpochReport

# Sparse data of more values than this stays sparse: dense, it would take 200 MB.
_MOST_DENSE_VALUES = 50_000_000


@dataclass(frozen=True)
class PathInputs:
    """Training rows, their groups, and how to train: what every phase works on."""

    data: Data
    groups: Groups
    trainer: Trainer
    rules: PathRules
    recipes: PathRecipes

    def rows_of(self, groups: NDArray[np.intp]) -> Data:
        """The training rows with the design columns of these groups only."""
        return data_of(self.data, self.groups.columns(groups))


class PathPoint(NamedTuple):
    """The ensemble at one size of the path, on the design columns of its groups."""

    groups: NDArray[np.intp]
    trees: Trees
    train_loss: float

    def cut(self, groups: Groups, kept: NDArray[np.intp]) -> "PathPoint":
        """The point without more training, with the groups at these positions only."""
        trees = self.trees.select(groups.take(self.groups).columns(kept))
        return PathPoint(self.groups[kept], trees, self.train_loss)

    def is_within(self, budget: float, groups: Groups) -> bool:
        """Whether its groups cost no more than this."""
        return not Target(1, budget).exceeded_by(groups.price[self.groups].sum())


class Branch(NamedTuple):
    """Points of the path in order, each with its raw outputs on held-out rows, if there are any, and its report."""

    points: list[PathPoint]
    outputs: list[NDArray[np.float32]]
    reports: list[EpochReport]

    def copy(self) -> "Branch":
        """The same points, to go on from."""
        return Branch(list(self.points), list(self.outputs), list(self.reports))

    @classmethod
    def best_of(cls, starts: Sequence["Branch"]) -> "Branch":
        """Of several starts, at every size the one of least training loss: few held-out rows cannot distinguish them."""
        losses = np.array([[point.train_loss for point in one.points] for one in starts])
        best = [starts[i] for i in losses.argmin(axis=0)]
        return cls(
            [one.points[i] for i, one in enumerate(best)],
            [one.outputs[i] for i, one in enumerate(best) if one.outputs],
            [one.reports[i] for i, one in enumerate(best)],
        )


def data_of(data: Data, columns: NDArray[np.intp]) -> Data:
    """The rows with some of their design columns."""
    return data._replace(X=take_columns(data.X, columns))


def take_columns(X: Any, columns: NDArray[np.intp]) -> Any:
    """Some columns, of a view as a copy where they are few.

    Sparse data becomes dense when its columns are no more than its rows and memory allows.
    """
    if isinstance(X, np.ndarray):
        # Not X[:, columns], which stands by columns and would have to be copied once more.
        return np.ascontiguousarray(X) if len(columns) == X.shape[1] else np.take(X, columns, axis=1)
    X = X if len(columns) == X.shape[1] else X[:, columns]
    if isinstance(X, PickedRows):
        return X.copied_if_small()
    fits = X.shape[1] <= X.shape[0] and X.shape[0] * X.shape[1] <= _MOST_DENSE_VALUES
    return np.ascontiguousarray(X.toarray()) if fits else X.tocsr()


def keep_by_norm(
    point: PathPoint, groups: Groups, target: Target, importance: NDArray[np.float64] | None = None
) -> NDArray[np.intp]:
    """Positions of the point's groups of largest norm that meet the target.

    With an importance of all groups, those are kept that rank highest by the norm and by the importance together.
    """
    here = groups.take(point.groups)
    worth = group_norms(point.trees.W, here)
    if importance is not None:
        worth = rankdata(worth) + rankdata(importance[point.groups])
    return keep_worthiest(worth, here, target)


def group_norms(W: NDArray[Any], groups: Groups) -> NDArray[np.float64]:
    """Root mean square over its rows of each group's norm: a group of many columns has no advantage."""
    squares = np.einsum("kj,kj->k", W, W).astype(np.float64)
    offsets = groups.column_offsets
    return np.sqrt(np.add.reduceat(squares, offsets[:-1]) / np.diff(offsets))
