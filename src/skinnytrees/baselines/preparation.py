"""One preparation for all systems: a table of numbers with category codes and gaps becomes a plain matrix of numbers.

A numeric feature becomes one column, with the training median where a value is missing. A category becomes one 0/1 column per
level, a missing one a level of its own. All columns of a feature belong to it: a budget counts features, never columns. Columns
that do not vary over the training rows are left out, so that no system can select them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

# Levels of a category that get a column: the most frequent ones. The rest are zero in all of them.
MOST_LEVELS = 50
# A standard deviation below this fraction of the largest value is rounding, not variation.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Preparation:
    """How a table becomes a matrix; every array has one entry per column of the matrix.

    Attributes
    ----------
    feature : array of int
        Feature of the table that the column is made of, in increasing order.
    is_level : array of bool
        Whether the column is a level of a category.
    level : array of float
        The level's code, NaN for missing ones; not used elsewhere.
    fill : array of float
        What stands for missing numbers.
    mean, scale : array of float
        The column is ``(value - mean) / scale``.
    """

    feature: NDArray[np.intp]
    is_level: NDArray[np.bool_]
    level: NDArray[np.float64]
    fill: NDArray[np.float64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def learn(
        cls, X: Any, weight: NDArray[np.float64], is_categorical: NDArray[np.bool_], standardize: bool
    ) -> "Preparation":
        """From training rows, dense with NaN for what is missing, or sparse.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            Numbers and category codes.
        weight : array of shape (n_samples,)
            Weights of the rows, for means and scales.
        is_categorical : array of bool of shape (n_features,)
            Which features hold category codes.
        standardize : bool
            Whether columns get mean 0 and standard deviation 1. Sparse columns are only scaled.

        Returns
        -------
        Preparation

        Examples
        --------
        >>> import numpy as np
        >>> from skinnytrees.baselines.preparation import Preparation
        >>> X = np.array([[1.0, 0.0, 7.0], [np.nan, 1.0, 7.0], [3.0, 2.0, 7.0]])
        >>> preparation = Preparation.learn(X, np.ones(3), np.array([False, True, False]), False)
        >>> preparation.feature.tolist()
        [0, 1, 1, 1]
        >>> preparation.encode(X[:, preparation.features]).tolist()
        [[1.0, 1.0, 0.0, 0.0], [2.0, 0.0, 1.0, 0.0], [3.0, 0.0, 0.0, 1.0]]
        """
        plain = cls._sparse(X) if sparse.issparse(X) else cls._dense(X, is_categorical)
        values = plain.encode(X[:, plain.features])
        mean, scale, varies = _moments(values, weight)
        varying = plain.select(np.flatnonzero(varies))
        if not standardize:
            return varying
        mean = np.zeros(int(varies.sum())) if sparse.issparse(X) else mean[varies]
        return cls(varying.feature, varying.is_level, varying.level, varying.fill, mean, scale[varies])

    @classmethod
    def _dense(cls, X: NDArray[np.float64], is_categorical: NDArray[np.bool_]) -> "Preparation":
        feature: list[int] = []
        levels: list[float] = []
        for k in range(X.shape[1]):
            of_feature = _levels(X[:, k]) if is_categorical[k] else [np.nan]
            feature += [k] * len(of_feature)
            levels += of_feature
        index = np.array(feature, dtype=np.intp)
        has_value = ~np.isnan(X).all(axis=0)
        median = np.zeros(X.shape[1])
        median[has_value] = np.nanmedian(X[:, has_value], axis=0)
        return cls._plain(index, is_categorical[index], np.array(levels), median[index])

    @classmethod
    def _sparse(cls, X: Any) -> "Preparation":
        n = X.shape[1]
        return cls._plain(np.arange(n), np.zeros(n, dtype=bool), np.full(n, np.nan), np.zeros(n))

    @classmethod
    def _plain(cls, feature: Any, is_level: Any, level: Any, fill: Any) -> "Preparation":
        return cls(feature, is_level, level, fill, np.zeros(len(feature)), np.ones(len(feature)))

    @property
    def features(self) -> NDArray[np.intp]:
        """The features that have a column, in increasing order."""
        return np.unique(self.feature)

    def select(self, columns: NDArray[np.intp]) -> "Preparation":
        """The preparation of these columns of the matrix, given in increasing order."""
        return Preparation(
            self.feature[columns], self.is_level[columns], self.level[columns],
            self.fill[columns], self.mean[columns], self.scale[columns],
        )  # fmt: skip

    def encode(self, X: Any) -> Any:
        """The matrix of rows whose columns are ``features``; a sparse table stays sparse (CSR)."""
        if sparse.issparse(X):
            scaled = sparse.csr_matrix(X.multiply(1 / self.scale[None, :]) if len(self.scale) else X)
            # Boosting libraries read indices of 32 bits only.
            if max(scaled.nnz, scaled.shape[1]) < 2**31:
                scaled.indices, scaled.indptr = scaled.indices.astype(np.int32), scaled.indptr.astype(np.int32)
            return scaled
        given = np.asarray(X, dtype=np.float64)[:, np.searchsorted(self.features, self.feature)]
        missing = np.isnan(given)
        is_level = np.where(np.isnan(self.level), missing, given == self.level)
        values = np.where(self.is_level, is_level, np.where(missing, self.fill, given))
        return np.ascontiguousarray((values - self.mean) / self.scale)


def _levels(codes: NDArray[np.float64]) -> list[float]:
    """The most frequent codes of a category, in increasing order, NaN last."""
    found, counts = np.unique(codes, return_counts=True)  # one entry for all missing ones
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
    return [float(code) for code in found[kept]]


def _moments(
    values: Any, weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Weighted means and standard deviations, and which columns vary."""
    fraction = weight / weight.sum()
    if sparse.issparse(values):
        mean = np.asarray(values.T @ fraction).ravel()
        square = np.asarray(values.multiply(values).T @ fraction).ravel()
        scale = np.sqrt(np.maximum(square - mean**2, 0))
        low, high = values.min(axis=0).toarray().ravel(), values.max(axis=0).toarray().ravel()
    else:
        mean = fraction @ values
        scale = np.sqrt(fraction @ (values - mean) ** 2)
        low, high = values.min(axis=0, initial=np.inf), values.max(axis=0, initial=-np.inf)
    varies = (high > low) & (scale > _ROUNDING * np.maximum(np.abs(low), np.abs(high)))
    return mean, scale, varies
