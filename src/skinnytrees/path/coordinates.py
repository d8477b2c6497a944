"""Coordinates in which design columns are uncorrelated, for ensembles that read small differences between columns."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.kernels.state import Data, Trees
from skinnytrees.tables.table_views import pieces

# Tables of more values than this are trained on as they are: the coordinates of 2**24 values take 64 MB.
_MOST_VALUES = 2**24
# Values that are converted to double precision at a time.
_CONVERTED_AT_ONCE = 2**20


class Coordinates:
    """Rows in uncorrelated coordinates of one scale, and the way between weights of columns and weights of coordinates.

    Where columns are nearly equal, such as neighbouring points of a curve, what matters may be a small difference between them.
    Gradient steps along the columns themselves need thousands of epochs to find it, because a step along the difference hardly
    changes the outputs. In these coordinates all directions have the same scale. The ensemble is the same in both: weights w of
    the columns correspond to weights v of the coordinates with w = R v, where R is the inverse root of the covariance.

    Parameters
    ----------
    data : Data
        Rows with their design columns.
    variance_floor : float or None
        Is added to the variance of every direction, in which a standardised column has 1: directions of much less variance stay
        small, because they are noise. None means the columns themselves; sparse and very large tables are never transformed.

    Attributes
    ----------
    data : Data
        The rows in these coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.kernels.state import Data
    >>> from skinnytrees.path.coordinates import Coordinates
    >>> level, difference = np.random.default_rng(0).normal(size=(2, 500))
    >>> X = np.column_stack([level, level + 0.1 * difference]).astype(np.float32)
    >>> data = Data(X, np.zeros((500, 1), np.float32), np.ones(500, np.float32))
    >>> np.corrcoef(Coordinates(data, 1e-4).data.X.T).round(1).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, data: Data, variance_floor: float | None) -> None:
        n_rows, n_columns = data.X.shape
        self.data = data
        self._root: NDArray[np.float64] | None = None
        if variance_floor is None or sparse.issparse(data.X) or not 0 < n_rows * n_columns <= _MOST_VALUES:
            return
        variance, directions = np.linalg.eigh(_covariance(data))
        deviation = np.sqrt(np.maximum(variance, 0.0) + variance_floor)
        # Symmetric roots: the coordinates of columns that are uncorrelated already are these columns.
        self._root = (directions * deviation) @ directions.T
        self._inverse = (directions / deviation) @ directions.T
        self.data = data._replace(X=_product(data.X, self._inverse))

    def enter(self, trees: Trees) -> None:
        """Turn an ensemble's weights of columns into weights of coordinates, in place."""
        if self._root is not None:
            trees.W[:] = self._root @ trees.W

    def leave(self, trees: Trees) -> None:
        """Turn an ensemble's weights of coordinates into weights of columns, in place."""
        if self._root is not None:
            trees.W[:] = self._inverse @ trees.W


def _covariance(data: Data) -> NDArray[np.float64]:
    fraction = data.weight.astype(np.float64) / data.weight.sum(dtype=np.float64)
    n_rows, n_columns = data.X.shape
    mean, squares = np.zeros(n_columns), np.zeros((n_columns, n_columns))
    for rows in pieces(n_rows, n_columns, _CONVERTED_AT_ONCE):
        X = np.asarray(data.X[rows], dtype=np.float64)
        weighted = X * fraction[rows, None]
        mean += weighted.sum(axis=0)
        squares += X.T @ weighted
    return squares - np.outer(mean, mean)


def _product(X: Any, matrix: NDArray[np.float64]) -> NDArray[np.float32]:
    """Of rows and a matrix; in double precision, since nearly equal columns cancel."""
    product = np.empty((X.shape[0], matrix.shape[1]), dtype=np.float32)
    for rows in pieces(X.shape[0], X.shape[1], _CONVERTED_AT_ONCE):
        product[rows] = np.asarray(X[rows], dtype=np.float64) @ matrix
    return product
