"""The fitted ensemble on the columns it selected: small, immutable, apart from everything that trains."""

import functools
import html
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import ACTIVATIONS, Activation, SmoothStep
from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.hard_splits import Nodes, make_descent, node_by_node, predict_reached, visits_pay
from skinnytrees.kernels.numba_bridge.notice import compilation_notice
from skinnytrees.kernels.prediction import make_room, predict_rows
from skinnytrees.kernels.state import Trees, check_trees
from skinnytrees.losses import TargetScale
from skinnytrees.tables.encoding import Encoder, cached_pieces

# Beyond these, the inverse of the width of a split is not a finite number in single precision.
_SOFTEST = 1e-37, 1e37


@dataclass(frozen=True, repr=False)
class SoftTrees:
    """Soft trees that read only the features they selected.

    Attributes
    ----------
    encoder : Encoder
        Turns the selected features into the columns that the trees read.
    trees : Trees
        Weights.
    base : array of shape (n_outputs,)
        Added to the trees' sum, in double precision.
    activation : Activation
        Routing function.
    """

    encoder: Encoder
    trees: Trees
    base: NDArray[np.float64]
    activation: Activation

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together: kernels read them without looking."""
        check_trees(self.trees)
        n_outputs, n_columns = len(self.trees.O), len(self.trees.W)
        refuse_unless(
            len(self.encoder.feature) == n_columns,
            f"The trees read {n_columns} columns, but the encoder makes {len(self.encoder.feature)}.",
        )
        refuse_unless(
            self.base.shape == (n_outputs,) and self.base.dtype == np.float64,
            f"base has the shape {self.base.shape}, but the trees have {n_outputs} outputs.",
        )
        theta = self.activation.theta
        refuse_unless(
            isinstance(self.activation, tuple(ACTIVATIONS.values())) and _SOFTEST[0] < theta < _SOFTEST[1],
            f"The routing function {self.activation!r} is too hard or too soft for single precision.",
        )
        refuse_unless(
            _stays_finite(self),
            "The ensemble's weights are not finite, or so large that predictions would not be. Bring the target and the columns "
            "of X to ordinary sizes first.",
        )

    @classmethod
    def from_training(cls, trees: Trees, encoder: Encoder, activation: Activation, target: TargetScale) -> "SoftTrees":
        """Keep the groups that have any weight, and put the target's scale into leaves and base."""
        used = np.logical_or.reduceat(trees.W.any(axis=1), encoder.offsets[:-1])
        columns = np.repeat(used, np.diff(encoder.offsets))
        small = trees.select(np.flatnonzero(columns))
        small.O[:] *= target.raw_scale.astype(small.O.dtype)[:, None]
        ordered, columns = encoder.select(np.flatnonzero(used)).in_table_order()
        return cls(ordered, small.select(columns), target.raw_shift, activation)

    def __repr__(self) -> str:
        n_outputs, n_leaves = self.trees.O.shape
        depth = int(np.log2(n_leaves // self.trees.n_trees))
        return (
            f"<SoftTrees: {self.trees.n_trees} trees of depth {depth} on {len(self.features)} features "
            f"({len(self.trees.W)} design columns), {n_outputs} outputs>"
        )

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"

    @property
    def features(self) -> NDArray[np.intp]:
        """The features of the table that the trees read, in order."""
        return np.unique(self.encoder.feature)

    @functools.cached_property
    def narrowed(self) -> "SoftTrees":
        """The same trees for a table that has only the features they read."""
        place = np.searchsorted(self.features, self.encoder.feature)
        return replace(self, encoder=replace(self.encoder, feature=place))

    @functools.cached_property
    def reached_nodes(self) -> Nodes | None:
        """The trees node by node, if splits are so hard that visiting only the nodes that a row reaches is faster."""
        exact = isinstance(self.activation, SmoothStep)
        return node_by_node(self.trees) if exact and visits_pay(self.trees, self.activation.theta) else None

    def __getstate__(self) -> dict[str, Any]:
        """Fields only: what is derived from them is made again when it is needed."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def raw(self, X: Any) -> NDArray[np.float64]:
        """Raw outputs (rows, outputs) for a table of numbers, of which only the trees' features are read."""
        out = np.empty((X.shape[0], len(self.base)))
        predict = self._predictor(len(out))
        with compilation_notice():
            for rows in cached_pieces(len(out), len(self.trees.W)):
                predict(self.encoder.encode_dense(X[rows]), out[rows])
        return out

    def _predictor(self, n_rows: int) -> Callable[[NDArray[Any], NDArray[np.float64]], None]:
        """What fills the outputs of up to ``n_rows`` rows from their design."""
        trees, nodes, base = self.trees, self.reached_nodes, self.base
        activation, theta = self.activation.kernel(trees.flat.dtype), float(self.activation.theta)
        if nodes is not None:
            descent = make_descent(nodes)
            return lambda design, out: predict_reached(design, nodes, base, activation, theta, descent, out)
        room = make_room(trees, n_rows)
        return lambda design, out: predict_rows(design, trees.W, trees.b, trees.O, base, activation, theta, room, out)

    def column_importances(self) -> NDArray[np.float64]:
        """Weights of each column in all splits, each times what the split changes in the outputs.

        Weights alone are not enough: splits begin with large weights on random columns, and it is the leaves that learn which of
        them matter. A split changes the outputs by the distance between the mean leaves on its two sides, and a row reaches a
        split at depth d with a probability of about 2**-d.
        """
        value, effects = self.trees.O.astype(np.float64), []
        while value.shape[1] > self.trees.n_trees:
            # On a level, all left children come before all right ones.
            left, right = np.split(value, 2, axis=1)
            effects.append(np.linalg.norm(left - right, axis=0))
            value = (left + right) / 2
        by_split = [effect / 2**depth for depth, effect in enumerate(reversed(effects))]
        return np.abs(self.trees.W.astype(np.float64)) @ np.concatenate([*by_split, []])


def _stays_finite(model: SoftTrees) -> bool:
    """Whether no row can lead to a number that is not finite."""
    largest = max(1.0, model.encoder.farthest, np.abs(model.encoder.curves.heights).max(initial=0.0))
    scores = largest * np.abs(model.trees.W).sum(axis=0, dtype=np.float64) + np.abs(model.trees.b)
    outputs = np.abs(model.trees.O).sum(axis=1, dtype=np.float64)
    # Written so that NaN is not within the limits.
    limit = np.finfo(np.float32).max
    in_range = np.all(scores < limit) and np.all(outputs < limit) and np.isfinite(model.base).all()
    return bool(in_range) and model.encoder.is_finite
