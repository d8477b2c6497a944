"""Where training starts: the weights of a new ensemble.

A start knows the design that will be trained on and, if it asks for it, how far each row's outputs should go. The loss and the
optimiser it does not know.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.exceptions import refuse_unless
from skinnytrees.extra_trees import grow_trees
from skinnytrees.kernels.growing import GrownTree, add_outputs
from skinnytrees.kernels.numba_bridge.calls import SameTypes
from skinnytrees.kernels.state import Trees, start_trees


class StartRows(NamedTuple):
    """The rows that will be trained on: the design, the weights, and a step towards the targets (rows, outputs).

    The steps are how far each row's outputs should go from zero, in the units of raw outputs. They are zero for starts that do
    not read them. ``steps_from`` tells how far they should go from other outputs; without it, what is left of the steps.
    """

    X: Any
    weight: NDArray[Any]
    steps: NDArray[Any]
    steps_from: Callable[[NDArray[np.float32]], NDArray[Any]] | None = None

    def steps_left(self, outputs: NDArray[np.float32]) -> NDArray[Any]:
        """How far each row's outputs should go from these."""
        return self.steps - outputs if self.steps_from is None else self.steps_from(outputs)

    def dense(self) -> NDArray[np.float32]:
        """The design as an array."""
        return self.X.toarray() if sparse.issparse(self.X) else np.asarray(self.X)

    @classmethod
    def without_steps(cls, X: Any, n_outputs: int) -> "StartRows":
        """Rows of equal weight, for starts that look at the design only."""
        return cls(X, np.ones(X.shape[0]), np.zeros((X.shape[0], n_outputs)))


class Start(Protocol):
    """What training asks of a start."""

    reads_steps: ClassVar[bool]

    def trees(self, rows: StartRows, n_trees: int, depth: int, rng: np.random.Generator) -> Trees:
        """A new ensemble for these rows."""


@dataclass(frozen=True)
class Glorot:
    """Small random weights on all columns, as in the authors' program; every split sends about half of a row to each side.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.starts import Glorot, StartRows
    >>> rows = StartRows.without_steps(np.zeros((5, 3), np.float32), n_outputs=1)
    >>> Glorot().trees(rows, 2, 1, np.random.default_rng(0)).W.shape
    (3, 2)
    """

    reads_steps: ClassVar[bool] = False

    def trees(self, rows: StartRows, n_trees: int, depth: int, rng: np.random.Generator) -> Trees:
        """A new ensemble for these rows."""
        return _new_trees(rows, n_trees, depth, rng)


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
    >>> from skinnytrees.starts import AxisAligned, StartRows
    >>> X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    >>> trees = AxisAligned(steepness=2.0).trees(StartRows.without_steps(X, 1), 4, 2, np.random.default_rng(0))
    >>> bool((np.abs(trees.W).sum(axis=0) == 2).all())
    True
    """

    reads_steps: ClassVar[bool] = False

    steepness: float = 3.0
    leaf_scale: float = 0.1

    def __post_init__(self) -> None:
        """Refuse splits that are flat."""
        _refuse_flat_splits(self.steepness)

    def trees(self, rows: StartRows, n_trees: int, depth: int, rng: np.random.Generator) -> Trees:
        """A new ensemble for these rows."""
        X = rows.X
        trees = _new_trees(rows, n_trees, depth, rng)
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


@dataclass(frozen=True)
class Grown:
    """Extremely randomised trees, each grown on a bootstrap sample of the rows, made soft.

    A split is the best of one random threshold per design column for the steps of the rows, and a leaf says the mean step of
    its rows: for the squared error a forest, for classes one of their fractions. The splits depend on the targets from the
    beginning, and the samples make the trees differ, so that their mean is a good ensemble on few rows without any training. A
    branch that ends early goes on with splits that divide every row evenly between equal leaves.

    Parameters
    ----------
    steepness : float, default=10.0
        Weight of the column of a split, whose values have a deviation of about one: the larger, the harder the split.
    min_rows_per_leaf : int, default=2
        Distinct rows of the sample that a leaf has at least.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.starts import Grown, StartRows
    >>> X = np.arange(6, dtype=np.float32).reshape(6, 1)
    >>> rows = StartRows(X, np.ones(6), np.where(X < 2.5, -1.0, 1.0))
    >>> trees = Grown().trees(rows, n_trees=3, depth=2, rng=np.random.default_rng(0))
    >>> trees.W.shape, bool((trees.O < 0).any() and (trees.O > 0).any())
    ((1, 9), True)
    """

    reads_steps: ClassVar[bool] = True

    steepness: float = 10.0
    min_rows_per_leaf: int = 2

    def __post_init__(self) -> None:
        """Refuse splits that are flat."""
        _refuse_flat_splits(self.steepness)

    def trees(self, rows: StartRows, n_trees: int, depth: int, rng: np.random.Generator) -> Trees:
        """A new ensemble for these rows."""
        trees = _new_trees(rows, n_trees, depth, rng)
        trees.flat[:] = 0
        if rows.X.shape[1] == 0:
            return trees
        grown = grow_trees(
            rows.dense().T, rows.steps, rows.weight, depth=depth, rng=rng, n_trees=n_trees, bootstrap=True,
            min_rows_per_leaf=self.min_rows_per_leaf,
        )  # fmt: skip
        for place, tree in enumerate(grown):
            _put_tree(tree, self.steepness, 1 / n_trees, place, trees)
        return trees


@dataclass(frozen=True)
class Boosted:
    """Extremely randomised trees, each grown for the steps that those before it have left, with splits that are almost hard.

    Trained splits are smooth. A function with steps is not: on many rows, thousands of which lie close to a step, hard splits
    that are searched for find it.

    Parameters
    ----------
    rate : float, default=0.15
        Fraction of its steps that every tree takes.
    steepness : float, default=1000.0
        Weight of the column of a split, whose values have a deviation of about one: the larger, the harder the split.
    n_candidates : int, default=64
        Random thresholds of which the best is taken, each of a random design column; of fewer columns, several of each. With
        several outputs, for each of which a threshold takes as long, there are fewer.
    min_rows_per_leaf : int, default=5
        Rows that a leaf has at least.
    most_rows_per_tree : int, default=10000
        Of more rows than this, every tree is grown on a random part of this size.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.starts import Boosted, StartRows
    >>> X = np.arange(20, dtype=np.float32).reshape(20, 1)
    >>> rows = StartRows(X, np.ones(20), np.where(X < 9.5, -1.0, 1.0))
    >>> trees = Boosted().trees(rows, n_trees=30, depth=1, rng=np.random.default_rng(0))
    >>> trees.O.sum(axis=1).shape, float(np.abs(trees.O.reshape(2, 30).sum(axis=1)).min()) > 0.9
    ((1,), True)
    """

    reads_steps: ClassVar[bool] = True

    rate: float = 0.15
    steepness: float = 1000.0
    n_candidates: int = 64
    min_rows_per_leaf: int = 5
    most_rows_per_tree: int = 10_000

    def __post_init__(self) -> None:
        """Refuse splits that are flat."""
        _refuse_flat_splits(self.steepness)

    def trees(self, rows: StartRows, n_trees: int, depth: int, rng: np.random.Generator) -> Trees:
        """A new ensemble for these rows."""
        trees = _new_trees(rows, n_trees, depth, rng)
        trees.flat[:] = 0
        n_rows, n_columns = rows.X.shape
        if n_columns == 0:
            return trees
        n_outputs = rows.steps.shape[1]
        n_candidates = max(1, self.n_candidates // n_outputs)
        columns = np.tile(rows.dense().T, (-(-n_candidates // n_columns), 1))
        outputs, add = np.zeros((n_rows, n_outputs), dtype=np.float32), SameTypes()
        for place in range(n_trees):
            (tree,) = grow_trees(
                columns, rows.steps_left(outputs), rows.weight, depth=depth, rng=rng, n_trees=1,
                n_candidates=n_candidates, min_rows_per_leaf=self.min_rows_per_leaf,
                rows_per_tree=self.most_rows_per_tree,
            )  # fmt: skip
            add(add_outputs, columns, tree, self.rate, outputs)
            _put_tree(tree, self.steepness, self.rate, place, trees)
        return trees


def _put_tree(tree: GrownTree, steepness: float, factor: float, place: int, trees: Trees) -> None:
    """Make a grown tree, whose columns may be those of a repeated design, one of an ensemble: soft, its leaves times a factor."""
    W, b, O = (  # noqa: E741
        part.reshape(*part.shape[:-1], -1, trees.n_trees)[..., place] for part in (trees.W, trees.b, trees.O)
    )
    splits = np.flatnonzero(tree.column >= 0)
    W[tree.column[splits] % len(W), splits] = -steepness
    b[splits] = steepness * tree.threshold[splits]
    O[:] = factor * tree.value[-O.shape[1] :].T


def _new_trees(rows: StartRows, n_trees: int, depth: int, rng: np.random.Generator) -> Trees:
    return start_trees(rows.X.shape[1], n_trees, depth, rows.steps.shape[1], rng)


def _refuse_flat_splits(steepness: float) -> None:
    refuse_unless(steepness > 0, f"steepness={steepness!r} must be a positive number, such as 3.0.")


def _values_at(X: Any, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float64]:
    """The value of each row in its column, of a dense array, a view or a sparse matrix."""
    picked = X[rows]
    picked = picked.tocsr() if sparse.issparse(picked) else picked
    return np.asarray(picked[np.arange(len(rows)), columns], dtype=np.float64).ravel()
