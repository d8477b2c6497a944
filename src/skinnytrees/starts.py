"""Where training starts: the weights of a new ensemble.

A start knows the design that will be trained on, but neither the loss nor the optimiser.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.state import Trees, start_trees


class Start(Protocol):
    """What training asks of a start."""

    def trees(self, X: Any, n_trees: int, depth: int, n_outputs: int, rng: np.random.Generator) -> Trees:
        """A new ensemble for the design X."""


@dataclass(frozen=True)
class Glorot:
    """Small random weights on all columns, as in the authors' program; every split sends about half of a row to each side.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.starts import Glorot
    >>> Glorot().trees(np.zeros((5, 3), np.float32), 2, 1, 1, np.random.default_rng(0)).W.shape
    (3, 2)
    """

    def trees(self, X: Any, n_trees: int, depth: int, n_outputs: int, rng: np.random.Generator) -> Trees:
        """A new ensemble for the design X."""
        return start_trees(X.shape[1], n_trees, depth, n_outputs, rng)


@dataclass(frozen=True)
class AxisAligned:
    """Every split asks whether one random column exceeds the value of one random row, as in extremely randomised trees.

    With Glorot's weights all rows reach all leaves alike, so an interaction of two columns has almost no gradient; here each pair
    of columns meets in some tree from the first step on. Training then moves the thresholds and adds other columns to a split.

    Parameters
    ----------
    steepness : float, default=3.0
        Weight of the column, whose values have a deviation of about one: the larger, the harder the split.
    leaf_scale : float, default=0.1
        Factor of Glorot's leaf weights. Small leaves let the first steps decide what a leaf says.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.starts import AxisAligned
    >>> X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    >>> trees = AxisAligned(steepness=2.0).trees(X, 4, 2, 1, np.random.default_rng(0))
    >>> bool((np.abs(trees.W).sum(axis=0) == 2).all())
    True
    """

    steepness: float = 3.0
    leaf_scale: float = 0.1

    def __post_init__(self) -> None:
        """Refuse splits that are flat."""
        refuse_unless(self.steepness > 0, f"steepness={self.steepness!r} must be a positive number, such as 3.0.")

    def trees(self, X: Any, n_trees: int, depth: int, n_outputs: int, rng: np.random.Generator) -> Trees:
        """A new ensemble for the design X."""
        trees = start_trees(X.shape[1], n_trees, depth, n_outputs, rng)
        n_columns, n_splits = trees.W.shape
        trees.O[:] *= self.leaf_scale
        trees.W[:] = 0
        if n_columns == 0:
            return trees
        splits = np.arange(n_splits)
        column = np.asarray(rng.integers(n_columns, size=n_splits))
        row = np.asarray(rng.integers(X.shape[0], size=n_splits))
        weight = self.steepness * rng.choice([-1.0, 1.0], size=n_splits)
        trees.W[column, splits] = weight
        trees.b[:] = -weight * _values_at(X, row, column)
        return trees


def _values_at(X: Any, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float64]:
    """The value of each row in its column, of a dense array, a view or a sparse matrix."""
    picked = X[rows]
    picked = picked.tocsr() if sparse.issparse(picked) else picked
    return np.asarray(picked[np.arange(len(rows)), columns], dtype=np.float64).ravel()
