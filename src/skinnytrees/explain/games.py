"""A fitted ensemble as a game: the features of a row play, and those that stay out are taken from background rows."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.coalitions import Ensemble, Room, all_coalitions, make_room, small_coalitions, walk_orders
from skinnytrees.kernels.compilation import compilation_notice
from skinnytrees.activations import Sigmoid
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.threads import one_blas_thread, side_by_side

Link = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Products of factors exp(-score) must stay within single precision, which ends at exp(88).
_LARGEST_SCORE = 80.0
# Rows that a thread works on before it takes the next ones.
_ROWS_AT_ONCE = 4


@dataclass(frozen=True)
class Game:
    """What the ensemble says when some features of a row are replaced by those of background rows.

    Attributes
    ----------
    model : SoftTrees
        The ensemble, for tables that have only the features it reads.
    mixing : array of shape (n_outputs, n_raw)
        Explained outputs are these combinations of the ensemble's raw outputs.
    link : callable
        From combined outputs (rows, n_outputs) to what is explained.
    rows, background : arrays of float64 of shapes (n_rows, n_features), (n_background, n_features)
        Tables of numbers.
    n_threads : int
        Upper limit of threads; results do not depend on it.
    """

    model: SoftTrees
    mixing: NDArray[np.float64]
    link: Link
    rows: NDArray[np.float64]
    background: NDArray[np.float64]
    n_threads: int = 1

    @property
    def n_features(self) -> int:
        """Number of players."""
        return self.rows.shape[1]

    @property
    def n_outputs(self) -> int:
        """Number of explained outputs."""
        return len(self.mixing)

    @property
    def cost_per_coalition(self) -> int:
        """Numbers to compute for one coalition of one row and one background row."""
        n_splits = self.model.trees.W.shape[1]
        return max(1, n_splits * self.n_outputs)

    def scores(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is explained, for whole rows, by the ensemble's own prediction."""
        return self.link(self.model.raw(table) @ self.mixing.T)

    # --- what coalitions are worth --------------------------------------------------------------------------------

    def all_coalitions(self) -> NDArray[np.float64]:
        """Worth (n_rows, 2**n_features, n_outputs) of every coalition, as the mean over background rows."""
        n_coalitions = 1 << self.n_features
        start = np.ascontiguousarray(self._origin_of_nothing[None, :])

        def worth(of_row: NDArray[np.float32], room: Room) -> NDArray[np.float64]:
            out = np.empty((len(self.background) * n_coalitions, self.n_outputs))
            all_coalitions(start, of_row, self._background_parts, self._ensemble, room, out)
            linked = self.link(out + self._base)
            return linked.reshape(len(self.background), n_coalitions, self.n_outputs).mean(axis=0)

        return self._for_each_row(worth)

    def small_coalitions(self) -> NDArray[np.float64]:
        """Worth of the empty coalition, of each feature and of each pair, as the mean over background rows."""
        n_coalitions = 1 + self.n_features + self.n_features * (self.n_features - 1) // 2

        def worth(of_row: NDArray[np.float32], room: Room) -> NDArray[np.float64]:
            out = np.empty((len(self.background) * n_coalitions, self.n_outputs))
            small_coalitions(self._origins, of_row, self._undo_background, self._ensemble, room, out)
            linked = self.link(out + self._base)
            return linked.reshape(len(self.background), n_coalitions, self.n_outputs).mean(axis=0)

        return self._for_each_row(worth)

    def walks(self, orders: NDArray[np.intp], summary: Callable[..., NDArray[np.float64]]) -> NDArray[np.float64]:
        """For each row, a summary of what features add when they join in these orders, and in the reverse ones.

        ``orders`` has the shape (n_rows, n_background, n_repeats, n_features); ``summary`` is given the orders of one row and
        the worth after each step, of shape (n_background, n_repeats, 2, n_features + 1, n_outputs).
        """
        n_background, n_repeats, n_features = orders.shape[1:]
        shape = n_background, n_repeats, 2, n_features + 1, self.n_outputs

        def walked(of_row: NDArray[np.float32], room: Room, i: int) -> NDArray[np.float64]:
            out = np.empty((int(np.prod(shape[:-1])), self.n_outputs))
            flat = np.ascontiguousarray(orders[i].reshape(-1, n_features))
            walk_orders(self._origins, of_row, self._undo_background, flat, self._ensemble, room, out)
            return summary(orders[i], self.link(out + self._base).reshape(shape))

        return self._for_each_row(walked, with_number=True)

    def _for_each_row(self, work: Callable[..., NDArray[np.float64]], with_number: bool = False) -> NDArray[np.float64]:
        n_splits, n_leaves = self.model.trees.W.shape[1], self.model.trees.O.shape[1]

        def some_rows(first: int) -> list[NDArray[np.float64]]:
            parts = self._parts(self.rows[first : first + _ROWS_AT_ONCE])
            room = make_room(max(self.n_features, 1), n_splits, n_leaves)
            return [work(part, room, first + i) if with_number else work(part, room) for i, part in enumerate(parts)]

        tasks = [functools.partial(some_rows, first) for first in range(0, len(self.rows), _ROWS_AT_ONCE)]
        with compilation_notice(), one_blas_thread():
            self._prepare()
            return np.array([row for rows in side_by_side(tasks, self.n_threads) for row in rows])

    def _prepare(self) -> None:
        """Make what all threads read."""
        _ = self._ensemble, self._background_parts, self._origins, self._undo_background, self._base

    # --- parts of scores ------------------------------------------------------------------------------------------

    @functools.cached_property
    def _by_products(self) -> bool:
        """Whether routing is logistic, and no product of factors can leave single precision."""
        if not isinstance(self.model.activation, Sigmoid):
            return False
        farthest = np.abs(self.model.trees.b.astype(np.float64))
        tables = [self.rows, self.background]
        parts = zip(*(self._scores_by_feature(table) for table in tables), strict=True)
        for of_rows, of_background in parts:
            farthest = farthest + np.maximum(np.abs(of_rows).max(axis=0), np.abs(of_background).max(axis=0))
        return bool(farthest.max(initial=0.0) / self.model.activation.theta < _LARGEST_SCORE)

    @functools.cached_property
    def _ensemble(self) -> Ensemble:
        activation = self.model.activation
        leaves = (self.mixing @ self.model.trees.O.astype(np.float64)).astype(np.float32)
        kernel = activation.kernel(np.dtype(np.float32))
        return Ensemble(np.ascontiguousarray(leaves), self._by_products, kernel, float(activation.theta))

    @functools.cached_property
    def _base(self) -> NDArray[np.float64]:
        return self.mixing @ self.model.base

    def _scores_by_feature(self, table: NDArray[np.float64]) -> "list[NDArray[np.float64]]":
        """For each feature, its term (rows, splits) of the score of every split."""
        encoder, W = self.model.encoder, self.model.trees.W
        design = encoder.encode_dense(table).astype(np.float64)
        of_feature = [np.flatnonzero(encoder.feature == f) for f in range(self.n_features)]
        return [design[:, columns] @ W[columns].astype(np.float64) for columns in of_feature]

    def _parts(self, table: NDArray[np.float64]) -> NDArray[np.float32]:
        """Parts (rows, features, splits) of a table."""
        return self._as_parts(self._scores(table))

    def _scores(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        out = np.empty((len(table), self.n_features, self.model.trees.W.shape[1]))
        for f, scores in enumerate(self._scores_by_feature(table)):
            out[:, f] = scores
        return out

    def _as_parts(self, scores: NDArray[np.float64]) -> NDArray[np.float32]:
        """Terms as they are, or the factors exp(-term / theta)."""
        if self._by_products:
            scores = np.exp(scores / -self.model.activation.theta)
        return scores.astype(np.float32)

    @functools.cached_property
    def _background_scores(self) -> NDArray[np.float64]:
        return self._scores(self.background)

    @functools.cached_property
    def _background_parts(self) -> NDArray[np.float32]:
        """Parts (background rows x features, splits)."""
        return self._as_parts(self._background_scores).reshape(-1, self.model.trees.W.shape[1])

    @functools.cached_property
    def _undo_background(self) -> NDArray[np.float32]:
        """What takes a background row's part out again."""
        return self._as_parts(-self._background_scores).reshape(-1, self.model.trees.W.shape[1])

    @functools.cached_property
    def _origin_of_nothing(self) -> NDArray[np.float32]:
        return self._as_parts(self.model.trees.b.astype(np.float64))

    @functools.cached_property
    def _origins(self) -> NDArray[np.float32]:
        """Joined parts (background rows, splits) of the background rows."""
        return self._as_parts(self._background_scores.sum(axis=1) + self.model.trees.b.astype(np.float64))
