"""A fitted ensemble as a cooperative game.

The players are the features of a row; features outside a coalition are taken from background rows.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.explain.parts import BackgroundParts, Parts, SomeTrees
from skinnytrees.kernels.coalitions import (
    Room,
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

# Rows that a thread works on before it takes the next ones.
_ROWS_AT_ONCE = 4


@dataclass(frozen=True)
class Game:
    """Scores of the ensemble when some features of a row are replaced by those of background rows.

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

    @functools.cached_property
    def parts(self) -> Parts:
        """What features have to do with the scores of splits."""
        return Parts(self.model, self.mixing, self.rows, self.background)

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

    # --- worth of coalitions --------------------------------------------------------------------------------------

    def all_coalitions(self, summary: Callable[..., NDArray[np.float64]]) -> NDArray[np.float64]:
        """For each row, a summary of the worth of coalitions, which is the mean over background rows.

        ``summary`` is given the worth of shape (2**n_features, n_outputs); bit f of a coalition's number stands for feature f.
        """

        def add(of_row: Any, some: SomeTrees, background: BackgroundParts, room: Room, out: Any, i: int) -> None:
            arrays = background.start, of_row, background.parts, some.leaves
            if self.parts.routing.by_products and self.n_features > 1:
                add_all_coalitions(*arrays, room, out)
            else:
                add_all_coalitions_by_sums(*arrays, self.parts.routing, room, out)

        return self._for_each_row(1 << self.n_features, add, lambda worth, i: summary(worth.mean(axis=0)))

    def small_coalitions(self, features: NDArray[np.intp]) -> NDArray[np.float64]:
        """Worth of the empty coalition, of each of some features and of each pair, as the mean over background rows."""
        places = (np.arange(len(self.background))[:, None] * self.n_features + features).ravel()
        undo = {id(one): np.ascontiguousarray(one.undo[places]) for one in self.parts.of_background}

        def add(of_row: Any, some: SomeTrees, background: BackgroundParts, room: Room, out: Any, i: int) -> None:
            parts = background.origin, of_row[features], undo[id(background)]
            add_small_coalitions(*parts, some.leaves, self.parts.routing, room, out)

        n_coalitions = 1 + len(features) + len(features) * (len(features) - 1) // 2
        return self._for_each_row(n_coalitions, add, lambda worth, i: worth.mean(axis=0))

    def walks(
        self, orders: Callable[[int], NDArray[np.intp]], summary: Callable[..., NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """For each row, a summary of what features add when they join in some orders, and in the reverse ones.

        ``orders`` returns the orders of a row, two per background row, in the shape (n_background, 2, n_features); ``summary`` is
        given these and the worth after each step, of shape (n_background, 2, 2, n_features + 1, n_outputs).
        """
        drawn = functools.cache(orders)  # asked for once per part of the trees
        shape = len(self.background), 2, 2, self.n_features + 1, -1

        def add(of_row: Any, some: SomeTrees, background: BackgroundParts, room: Room, out: Any, i: int) -> None:
            arrays = background.origin, of_row, background.undo, drawn(i).reshape(-1, self.n_features), some.leaves
            if self.parts.routing.by_products:
                add_walks(*arrays, room, out)
            else:
                add_walks_by_sums(*arrays, self.parts.routing, room, out)

        def summarised(worth: NDArray[np.float64], i: int) -> NDArray[np.float64]:
            worth = worth.reshape(shape)
            worth[:, :, :, [0, -1]] = worth[:, :1, :1, [0, -1]]  # all walks begin and end alike
            return summary(drawn(i), worth)

        return self._for_each_row(4 * (self.n_features + 1), add, summarised)

    def _for_each_row(
        self, n_coalitions: int, add: Callable[..., None], summary: Callable[..., NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Stacked summaries of the worth of the coalitions of each row, (n_background, n_coalitions, n_outputs) each."""

        def some_rows(first: int) -> list[NDArray[np.float64]]:
            rows = self.rows[first : first + _ROWS_AT_ONCE]
            out = np.zeros((len(rows), len(self.background) * n_coalitions, len(self.mixing)))
            for some, background in zip(self.parts.trees, self.parts.of_background, strict=True):
                room = make_room(self.n_features, len(some.b), some.leaves.shape[1])
                for i, of_row in enumerate(self.parts.as_parts(self.parts.terms(rows, some))):
                    add(of_row, some, background, room, out[i], first + i)
            shape = len(self.background), n_coalitions, -1
            worth = [self.link(values + self.parts.base).reshape(shape) for values in out]
            return [summary(one, first + i) for i, one in enumerate(worth)]

        tasks = [functools.partial(some_rows, first) for first in range(0, len(self.rows), _ROWS_AT_ONCE)]
        with compilation_notice(), one_blas_thread():
            _ = self.parts.of_background, self.parts.base  # made once, before threads read them
            return np.array([row for rows in side_by_side(tasks, self.n_threads) for row in rows])
