"""The terms, or factors, that features have in the scores of splits: what kernels need to evaluate coalitions."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.coalitions import Routing
from skinnytrees.model.soft_trees import SoftTrees

# Products of factors exp(-score) must stay within single precision, which ends at exp(88).
_LARGEST_SCORE = 80.0
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
class Parts:
    """Parts of rows and background rows; see ``Game`` for the fields."""

    model: SoftTrees
    mixing: NDArray[np.float64]
    rows: NDArray[np.float64]
    background: NDArray[np.float64]

    @property
    def n_features(self) -> int:
        """Number of features that the trees read."""
        return self.rows.shape[1]

    @functools.cached_property
    def trees(self) -> list[SomeTrees]:
        """The ensemble, some trees at a time."""
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
    def routing(self) -> Routing:
        """How joined parts become probabilities."""
        activation = self.model.activation
        return Routing(self.by_products, activation.kernel(np.dtype(np.float32)), float(activation.theta))

    @functools.cached_property
    def by_products(self) -> bool:
        """Whether routing is logistic, and no product of factors can leave single precision."""
        if not isinstance(self.model.activation, Sigmoid):
            return False
        limit = _LARGEST_SCORE * self.model.activation.theta
        designs = self._design(self.rows), self._design(self.background)
        farthest = [np.maximum(*(np.abs(design[k]).max(axis=0) for design in designs)) for k in range(self.n_features)]
        return all(
            np.all(np.abs(some.b) + sum(far @ np.abs(W) for far, W in zip(farthest, some.W, strict=True)) < limit)
            for some in self.trees
        )

    @functools.cached_property
    def base(self) -> NDArray[np.float64]:
        """What is added to the trees' sum."""
        return self.mixing @ self.model.base

    def _design(self, table: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Design columns of each feature."""
        encoder = self.model.encoder
        design = encoder.encode_dense(table).astype(np.float64)
        return [design[:, encoder.feature == f] for f in range(self.n_features)]

    def terms(self, table: NDArray[np.float64], some: SomeTrees) -> NDArray[np.float64]:
        """What each feature adds to the score of every split: (rows, features, splits)."""
        terms = np.empty((len(table), self.n_features, len(some.b)))
        for f, (design, W) in enumerate(zip(self._design(table), some.W, strict=True)):
            terms[:, f] = design @ W
        return terms

    def as_parts(self, terms: NDArray[np.float64]) -> NDArray[np.float32]:
        """Terms as they are, or the factors exp(-term / theta)."""
        if self.by_products:
            terms = np.exp(terms / -self.model.activation.theta)
        return terms.astype(np.float32)

    @functools.cached_property
    def of_background(self) -> list[BackgroundParts]:
        """Parts of the background rows, for each of ``trees``."""
        return [self._parts_of_background(some) for some in self.trees]

    def _parts_of_background(self, some: SomeTrees) -> BackgroundParts:
        terms = self.terms(self.background, some)
        parts = self.as_parts(terms.reshape(-1, len(some.b)))
        return BackgroundParts(
            start=self.as_parts(some.b[None, :]),
            parts=parts,
            origin=self.as_parts(terms.sum(axis=1) + some.b),
            undo=np.reciprocal(parts) if self.by_products else -parts,
        )
