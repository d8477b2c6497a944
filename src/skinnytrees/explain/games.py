"""A fitted ensemble as a game: the features of a row play, and those that stay out are taken from background rows."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.coalitions import (
    Room,
    Routing,
    add_all_coalitions,
    add_all_coalitions_by_sums,
    add_small_coalitions,
    add_walks,
    add_walks_by_sums,
    make_room,
)
from skinnytrees.kernels.numba_bridge.notice import compilation_notice
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.threads import one_blas_thread, side_by_side

Link = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Products of factors exp(-score) must stay within single precision, which ends at exp(88).
_LARGEST_SCORE = 80.0
# Rows that a thread works on before it takes the next ones.
_ROWS_AT_ONCE = 4
# Splits of trees that are evaluated together: bounds the memory; fewer were slower, because loops over trees become short.
_SPLITS_AT_ONCE = 4096


class SomeTrees(NamedTuple):
    """Trees that are evaluated together: hyperplanes by feature, biases, and leaves of the explained outputs."""

    W: list[NDArray[np.float64]]
    b: NDArray[np.float64]
    leaves: NDArray[np.float32]


class BackgroundParts(NamedTuple):
    """Parts of the background rows for some trees, as kernels take them."""

    start: NDArray[np.float32]
    parts: NDArray[np.float32]
    origin: NDArray[np.float32]
    undo: NDArray[np.float32]


@dataclass(frozen=True)
class Game:
    """What the ensemble says when some features of a row are replaced by those of background rows.

    Attributes
    ----------
    model : SoftTrees
        The ensemble, for tables that have only the features it reads.
    mixing : array of shape (n_mixed, n_raw)
        Combinations of the ensemble's raw outputs.
    link : callable
        From combined outputs (rows, n_mixed) to what is explained (rows, n_outputs).
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
    def splits_per_coalition(self) -> int:
        """Splits to evaluate for one coalition of one row and one background row, once per output."""
        return max(1, self.model.trees.W.shape[1] * len(self.mixing))

    def only(self, output: int) -> "Game":
        """The game of one output."""
        return replace(self, link=lambda scores: self.link(scores)[:, [output]])

    def scores(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is explained, for whole rows, by the ensemble's own prediction."""
        return self.link(self.model.raw(table) @ self.mixing.T)

    # --- what coalitions are worth --------------------------------------------------------------------------------

    def all_coalitions(self, summary: Callable[..., NDArray[np.float64]]) -> NDArray[np.float64]:
        """For each row, a summary of what coalitions are worth, which is the mean over background rows.

        ``summary`` is given the worth of shape (2**n_features, n_outputs); bit f of a coalition's number stands for feature f.
        """

        def add(of_row: Any, some: SomeTrees, background: BackgroundParts, room: Room, out: Any, i: int) -> None:
            arrays = background.start, of_row, background.parts, some.leaves
            if self._routing.by_products and self.n_features > 1:
                add_all_coalitions(*arrays, room, out)
            else:
                add_all_coalitions_by_sums(*arrays, self._routing, room, out)

        return self._for_each_row(1 << self.n_features, add, lambda worth, i: summary(worth.mean(axis=0)))

    def small_coalitions(self, features: NDArray[np.intp]) -> NDArray[np.float64]:
        """Worth of the empty coalition, of each of some features and of each pair, as the mean over background rows."""
        places = (np.arange(len(self.background))[:, None] * self.n_features + features).ravel()
        undo = {id(one): np.ascontiguousarray(one.undo[places]) for one in self._background_parts}

        def add(of_row: Any, some: SomeTrees, background: BackgroundParts, room: Room, out: Any, i: int) -> None:
            parts = background.origin, of_row[features], undo[id(background)]
            add_small_coalitions(*parts, some.leaves, self._routing, room, out)

        n_coalitions = 1 + len(features) + len(features) * (len(features) - 1) // 2
        return self._for_each_row(n_coalitions, add, lambda worth, i: worth.mean(axis=0))

    def walks(
        self, orders: Callable[[int], NDArray[np.intp]], summary: Callable[..., NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """For each row, a summary of what features add when they join in some orders, and in the reverse ones.

        ``orders`` gives those of a row, two per background row, in the shape (n_background, 2, n_features); ``summary`` is given
        these and the worth after each step, of shape (n_background, 2, 2, n_features + 1, n_outputs).
        """
        drawn = functools.cache(orders)  # asked for once per part of the trees
        shape = len(self.background), 2, 2, self.n_features + 1, -1

        def add(of_row: Any, some: SomeTrees, background: BackgroundParts, room: Room, out: Any, i: int) -> None:
            arrays = background.origin, of_row, background.undo, drawn(i).reshape(-1, self.n_features), some.leaves
            if self._routing.by_products:
                add_walks(*arrays, room, out)
            else:
                add_walks_by_sums(*arrays, self._routing, room, out)

        def summarised(worth: NDArray[np.float64], i: int) -> NDArray[np.float64]:
            worth = worth.reshape(shape)
            worth[:, :, :, [0, -1]] = worth[:, :1, :1, [0, -1]]  # all walks begin and end alike
            return summary(drawn(i), worth)

        return self._for_each_row(4 * (self.n_features + 1), add, summarised)

    def _for_each_row(
        self, n_coalitions: int, add: Callable[..., None], summary: Callable[..., NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Stacked summaries of what the coalitions of each row are worth, (n_background, n_coalitions, n_outputs) each."""

        def some_rows(first: int) -> list[NDArray[np.float64]]:
            rows = self.rows[first : first + _ROWS_AT_ONCE]
            out = np.zeros((len(rows), len(self.background) * n_coalitions, len(self.mixing)))
            for some, background in zip(self._trees, self._background_parts, strict=True):
                room = make_room(self.n_features, len(some.b), some.leaves.shape[1])
                for i, of_row in enumerate(self._as_parts(self._terms(rows, some))):
                    add(of_row, some, background, room, out[i], first + i)
            shape = len(self.background), n_coalitions, -1
            worth = [self.link(values + self._base).reshape(shape) for values in out]
            return [summary(one, first + i) for i, one in enumerate(worth)]

        tasks = [functools.partial(some_rows, first) for first in range(0, len(self.rows), _ROWS_AT_ONCE)]
        with compilation_notice(), one_blas_thread():
            _ = self._background_parts, self._base  # made once, before threads read them
            return np.array([row for rows in side_by_side(tasks, self.n_threads) for row in rows])

    # --- parts of scores ------------------------------------------------------------------------------------------

    @functools.cached_property
    def _trees(self) -> list[SomeTrees]:
        trees, encoder = self.model.trees, self.model.encoder
        n_trees = trees.n_trees
        W = trees.W.astype(np.float64).reshape(len(trees.W), -1, n_trees)
        b = trees.b.astype(np.float64).reshape(-1, n_trees)
        leaves = (self.mixing @ trees.O.astype(np.float64)).reshape(len(self.mixing), -1, n_trees)
        of_feature = [encoder.feature == f for f in range(self.n_features)]
        n_at_once = max(1, _SPLITS_AT_ONCE // max(1, len(b)))
        return [
            SomeTrees(
                W=[W[columns][:, :, first : first + n_at_once].reshape(columns.sum(), -1) for columns in of_feature],
                b=b[:, first : first + n_at_once].ravel(),
                leaves=np.ascontiguousarray(
                    leaves[:, :, first : first + n_at_once].reshape(len(self.mixing), -1), np.float32
                ),
            )
            for first in range(0, n_trees, n_at_once)
        ]

    @functools.cached_property
    def _routing(self) -> Routing:
        activation = self.model.activation
        return Routing(self._by_products, activation.kernel(np.dtype(np.float32)), float(activation.theta))

    @functools.cached_property
    def _by_products(self) -> bool:
        """Whether routing is logistic, and no product of factors can leave single precision."""
        if not isinstance(self.model.activation, Sigmoid):
            return False
        limit = _LARGEST_SCORE * self.model.activation.theta
        designs = self._design(self.rows), self._design(self.background)
        farthest = [np.maximum(*(np.abs(design[k]).max(axis=0) for design in designs)) for k in range(self.n_features)]
        return all(
            np.all(np.abs(some.b) + sum(far @ np.abs(W) for far, W in zip(farthest, some.W, strict=True)) < limit)
            for some in self._trees
        )

    @functools.cached_property
    def _base(self) -> NDArray[np.float64]:
        return self.mixing @ self.model.base

    def _design(self, table: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Design columns of each feature."""
        encoder = self.model.encoder
        design = encoder.encode_dense(table).astype(np.float64)
        return [design[:, encoder.feature == f] for f in range(self.n_features)]

    def _terms(self, table: NDArray[np.float64], some: SomeTrees) -> NDArray[np.float64]:
        """What each feature adds to the score of every split: (rows, features, splits)."""
        terms = np.empty((len(table), self.n_features, len(some.b)))
        for f, (design, W) in enumerate(zip(self._design(table), some.W, strict=True)):
            terms[:, f] = design @ W
        return terms

    def _as_parts(self, terms: NDArray[np.float64]) -> NDArray[np.float32]:
        """Terms as they are, or the factors exp(-term / theta)."""
        if self._by_products:
            terms = np.exp(terms / -self.model.activation.theta)
        return terms.astype(np.float32)

    @functools.cached_property
    def _background_parts(self) -> list[BackgroundParts]:
        return [self._parts_of_background(some) for some in self._trees]

    def _parts_of_background(self, some: SomeTrees) -> BackgroundParts:
        terms = self._terms(self.background, some)
        parts = self._as_parts(terms.reshape(-1, len(some.b)))
        return BackgroundParts(
            start=self._as_parts(some.b[None, :]),
            parts=parts,
            origin=self._as_parts(terms.sum(axis=1) + some.b),
            undo=1 / parts if self._by_products else -parts,
        )
