"""The named tuples of arrays that kernels take, and how they are made."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless

# A block of W is thresholded before it leaves the caches. Smaller blocks were slower: BLAS prepares D again for each.
_BLOCK_BYTES = 2 * 1024 * 1024


class Trees(NamedTuple):
    """An ensemble's weights, views into one flat array.

    W (columns, nodes x trees) are the hyperplanes, b (nodes x trees) their biases, O (outputs, leaves x trees) the leaf
    weights, trees innermost everywhere.
    """

    flat: NDArray[Any]
    W: NDArray[Any]
    b: NDArray[Any]
    O: NDArray[Any]  # noqa: E741

    @property
    def n_trees(self) -> int:
        """Number of trees: a perfect tree has one leaf more than it has split nodes."""
        return int(self.O.shape[1] - self.W.shape[1])

    def copy(self) -> "Trees":
        """Same weights in an array of their own."""
        return view_trees(self.flat.copy(), self.W.shape[0], self.W.shape[1], self.O.shape)

    def select(self, columns: NDArray[np.intp] | slice) -> "Trees":
        """The ensemble that reads these columns only."""
        W = self.W[columns]
        flat = np.concatenate([W.ravel(), self.b, self.O.ravel()])
        return view_trees(flat, W.shape[0], W.shape[1], self.O.shape)

    def put(self, columns: NDArray[np.intp], small: "Trees") -> None:
        """Become the ensemble whose weights are those of ``small`` on these columns and zero on the others."""
        self.W.fill(0)
        self.W[columns] = small.W
        self.b[:] = small.b
        self.O[:] = small.O


def view_trees(flat: NDArray[Any], n_columns: int, n_splits: int, leaf_shape: tuple[int, ...]) -> Trees:
    """Lay an ensemble's weights over a flat array."""
    W, b, leaves = np.split(flat, [n_columns * n_splits, (n_columns + 1) * n_splits])
    return Trees(flat, W.reshape(n_columns, n_splits), b, leaves.reshape(leaf_shape))


def check_trees(trees: Trees) -> None:
    """Refuse weights of which kernels, which do not look at shapes, would read what is not there."""
    W, b, leaves = trees.W, trees.b, trees.O
    shapes = f"{W.shape}, {b.shape} and {leaves.shape}"
    is_sound = W.ndim == 2 and leaves.ndim == 2 and b.shape == W.shape[1:] and len(leaves) > 0
    refuse_unless(is_sound, f"Weights of the shapes {shapes} make no trees. Give W, b and O of one ensemble.")
    n_trees = trees.n_trees
    n_leaves, remainder = divmod(leaves.shape[1], n_trees) if n_trees > 0 else (0, 1)
    is_sound = remainder == 0 and n_leaves > 1 and n_leaves & (n_leaves - 1) == 0
    refuse_unless(is_sound, f"Weights of the shapes {shapes} make no perfect trees. Give W, b and O of one ensemble.")
    dtype = trees.flat.dtype
    same_type = dtype in (np.float32, np.float64) and W.dtype == b.dtype == leaves.dtype == dtype
    in_place = all(part.flags.c_contiguous and part.flags.aligned for part in (W, b, leaves))
    refuse_unless(same_type and in_place, "Weights must be one floating-point type, row by row. Use view_trees.")


def start_trees(
    n_columns: int, n_trees: int, depth: int, n_outputs: int, rng: np.random.Generator, dtype: Any = np.float32
) -> Trees:
    """A fresh ensemble, Glorot-uniform as in the authors' program; biases are zero."""
    n_splits = (2**depth - 1) * n_trees
    n_leaves = 2**depth * n_trees
    flat = np.zeros((n_columns + 1) * n_splits + n_leaves * n_outputs, dtype=dtype)
    trees = view_trees(flat, n_columns, n_splits, (n_outputs, n_leaves))
    trees.W[:] = _uniform(rng, (6 / (n_columns + n_splits)) ** 0.5, trees.W.shape)
    trees.O[:] = _uniform(rng, (6 / (n_outputs + n_trees)) ** 0.5, trees.O.shape)
    return trees


def _uniform(rng: np.random.Generator, limit: float, shape: tuple[int, ...]) -> NDArray[np.float32]:
    # Drawn in float32 whatever the ensemble's precision: the same start, at half the cost.
    return (2 * rng.random(shape, dtype=np.float32) - 1) * np.float32(limit)


class Data(NamedTuple):
    """Rows to learn from: design X (rows, columns), targets Y (rows, width), weights with mean one."""

    X: NDArray[Any]
    Y: NDArray[Any]
    weight: NDArray[Any]


class Functions(NamedTuple):
    """The compiled loss and activation with their numbers."""

    loss: Any
    loss_parameter: float
    activation: Any
    theta: float


class Csr(NamedTuple):
    """A sparse X in compressed rows: row i has ``values[starts[i]:starts[i + 1]]`` in its ``columns``."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[Any]


def make_csr(X: Any, dtype: Any) -> Csr:
    """The arrays of a CSR matrix, as kernels take them."""
    return Csr(X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data.astype(dtype, copy=False))


class Active(NamedTuple):
    """Groups that have weights. Their rows of W are packed at its top, in the order in which they came.

    ``n_alive`` holds the number of such groups and of their columns. The i-th of them is ``groups[i]`` with the packed
    rows ``starts[i]`` to ``starts[i + 1]``; ``columns`` tells the design column of a packed row, ``place`` the packed row
    of a design column or -1. Design columns ``offsets[g]`` to ``offsets[g + 1]`` make up group g, in or out.
    ``column_norm_bound[g]`` is the largest norm that the columns of group g can have in a batch. The thresholds of group g are
    the common ones times ``hard_factor[g]`` and ``soft_factor[g]``; ``return_bound[g]`` is the norm bound over the smaller of
    these, and ``by_return_bound`` lists the groups by falling return bounds.
    ``kept`` and ``blocks`` are room for a step.
    """

    offsets: NDArray[np.intp]
    groups: NDArray[np.intp]
    starts: NDArray[np.intp]
    columns: NDArray[np.intp]
    place: NDArray[np.intp]
    n_alive: NDArray[np.intp]
    column_norm_bound: NDArray[np.float64]
    hard_factor: NDArray[np.float64]
    soft_factor: NDArray[np.float64]
    return_bound: NDArray[np.float64]
    by_return_bound: NDArray[np.intp]
    kept: NDArray[np.bool_]
    blocks: NDArray[np.intp]
    columns_per_block: int


def make_active(
    offsets: NDArray[np.intp],
    bytes_per_column: int,
    column_norm_bound: NDArray[np.float64],
    penalty_factors: NDArray[np.float64] | None = None,
) -> Active:
    """All groups in their order; ``column_norm_bound`` is the largest norm of each column in a batch.

    ``penalty_factors`` multiply the penalty's strength for each group: the hard threshold, which is the root of twice the
    strength, by their roots, and the soft one by themselves. None stands for 1.
    """
    offsets = offsets.astype(np.intp)
    n_groups, n_columns = len(offsets) - 1, int(offsets[-1])
    group_bound = np.sqrt(np.add.reduceat(column_norm_bound**2, offsets[:-1]))
    soft_factor = np.ones(n_groups) if penalty_factors is None else penalty_factors.astype(np.float64)
    hard_factor = np.sqrt(soft_factor)
    # A group without penalty may always return, also where its columns are zero in a batch.
    least_factor = np.minimum(hard_factor, soft_factor)
    return_bound = np.divide(group_bound, least_factor, out=np.full(n_groups, np.inf), where=least_factor > 0)
    return Active(
        offsets=offsets,
        groups=np.arange(n_groups),
        starts=offsets.copy(),
        columns=np.arange(n_columns),
        place=np.arange(n_columns),
        n_alive=np.array([n_groups, n_columns], dtype=np.intp),
        column_norm_bound=group_bound,
        hard_factor=hard_factor,
        soft_factor=soft_factor,
        return_bound=return_bound,
        by_return_bound=np.argsort(-return_bound, kind="stable"),
        kept=np.ones(n_groups, dtype=np.bool_),
        blocks=np.zeros(n_groups + 1, dtype=np.intp),
        columns_per_block=max(1, _BLOCK_BYTES // bytes_per_column),
    )


def contiguous_ranges(offsets: NDArray[np.intp], groups: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Columns of some groups, and where each group's range of columns begins when only those are left."""
    starts = offsets[groups]
    sizes = offsets[groups + 1] - starts
    new_offsets = np.zeros(len(groups) + 1, dtype=np.intp)
    np.cumsum(sizes, out=new_offsets[1:])
    columns = np.repeat(starts - new_offsets[:-1], sizes) + np.arange(new_offsets[-1])
    return columns.astype(np.intp, copy=False), new_offsets


class Schedule(NamedTuple):
    """For each step of an epoch: the learning rate and the two thresholds of the proximal step."""

    eta: NDArray[np.float64]
    hard: NDArray[np.float64]
    soft: NDArray[np.float64]

    def part(self, first: int, end: int) -> "Schedule":
        """That of some steps."""
        return Schedule(self.eta[first:end], self.hard[first:end], self.soft[first:end])


class Moments(NamedTuple):
    """Adam's memory."""

    gradient: Trees
    first: NDArray[Any]
    second: NDArray[Any]
    steps: NDArray[np.int64]


def make_moments(trees: Trees) -> Moments:
    """Adam's moments before the first step."""
    flat = trees.flat
    return Moments(trees.copy(), np.zeros_like(flat), np.zeros_like(flat), np.zeros(1, dtype=np.int64))


class Samples(NamedTuple):
    """Wide data in sample space: Z = XW, K = XX', and A with W = shrinkage W0 + X'A."""

    Z: NDArray[Any]
    K: NDArray[Any]
    A: NDArray[Any]


def no_samples(dtype: Any) -> Samples:
    """For training in feature space."""
    return Samples(*(np.zeros((0, 0), dtype=dtype) for _ in range(3)))


def no_moments(trees: Trees) -> Moments:
    """For plain steps."""
    nothing = np.zeros(0, dtype=trees.flat.dtype)
    return Moments(trees, nothing, nothing, np.zeros(1, dtype=np.int64))


class Workspace(NamedTuple):
    """Room for one batch; see the kernels for what each array holds when."""

    X: NDArray[Any]
    Y: NDArray[Any]
    S: NDArray[Any]
    D: NDArray[Any]
    reach: NDArray[Any]
    leaf_gradient: NDArray[Any]
    F: NDArray[Any]
    G: NDArray[Any]
    row_loss: NDArray[Any]


def make_workspace(trees: Trees, n_rows: int, target_width: int, n_columns: int | None = None) -> Workspace:
    """Room for batches of up to ``n_rows`` rows."""
    dtype = trees.flat.dtype
    n_splits = trees.W.shape[1]
    n_places = n_splits + trees.O.shape[1]
    n_outputs = trees.O.shape[0]

    def room(width: int) -> NDArray[Any]:
        return np.zeros((n_rows, width), dtype=dtype)

    return Workspace(
        X=room(trees.W.shape[0] if n_columns is None else n_columns),
        Y=room(target_width),
        S=room(n_splits),
        D=room(n_splits),
        reach=room(n_places),
        leaf_gradient=room(n_places),
        F=room(n_outputs),
        G=room(n_outputs),
        row_loss=np.zeros(n_rows, dtype=dtype),
    )
