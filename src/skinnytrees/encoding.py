"""From a table of numbers to the float32 design that kernels read, learned from training rows only.

Every input feature becomes one run of design columns: its standardised values, an indicator of missing values, or one
0/1 column a category. The columns of a group of features stand together.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Rows scaled at once, so that no second copy of the table is made.
_ROWS_AT_ONCE = 256


@dataclass(frozen=True)
class Scaling:
    """Shift and scale of each column: ``(x - mean) / scale``.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.encoding import Scaling
    >>> scaling = Scaling.learn(np.array([[1.0], [3.0]]), np.ones(2))
    >>> scaling.mean.tolist(), scaling.scale.tolist()
    ([2.0], [1.0])
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def learn(cls, values: NDArray[Any], weight: NDArray[Any]) -> "Scaling":
        """Weighted mean and standard deviation of what is not missing; a constant column is only shifted."""
        total, squares, count = (np.zeros(values.shape[1]) for _ in range(3))
        for rows, w in _pieces(values, weight):
            known = ~np.isnan(rows)
            total += w @ np.where(known, rows, 0.0)
            count += w @ known
        mean = total / np.maximum(count, np.finfo(float).tiny)
        for rows, w in _pieces(values, weight):
            squares += w @ np.nan_to_num(rows - mean, nan=0.0) ** 2
        spread = np.sqrt(squares / np.maximum(count, np.finfo(float).tiny))
        # What rounding leaves of a constant column is not a spread.
        noise = 10 * np.finfo(values.dtype).eps * np.abs(mean)
        return cls(mean, np.where(spread > noise, spread, 1.0))

    @classmethod
    def none(cls, n_columns: int) -> "Scaling":
        """Leave the columns as they are."""
        return cls(np.zeros(n_columns), np.ones(n_columns))

    def select(self, columns: NDArray[np.intp]) -> "Scaling":
        """Scaling of some of the columns."""
        return Scaling(self.mean[columns], self.scale[columns])


@dataclass(frozen=True)
class Encoder:
    """Turns rows of a table into design rows.

    Attributes
    ----------
    features : array of int
        Input features that are read, group by group.
    scaling : Scaling
        Of those features.
    offsets : array of int
        Design columns ``offsets[g]`` to ``offsets[g + 1]`` make up group g.
    """

    features: NDArray[np.intp]
    scaling: Scaling
    offsets: NDArray[np.intp]

    @classmethod
    def learn(cls, X: NDArray[Any], weight: NDArray[Any], standardize: bool) -> "Encoder":
        """Learn from training rows how to encode."""
        n_features = X.shape[1]
        scaling = Scaling.learn(X, weight) if standardize else Scaling.none(n_features)
        return cls(np.arange(n_features), scaling, np.arange(n_features + 1))

    def select(self, groups: NDArray[np.intp]) -> "Encoder":
        """The encoder of some of the groups."""
        columns = np.concatenate([np.arange(self.offsets[g], self.offsets[g + 1]) for g in groups] or [[]]).astype(np.intp)
        sizes = np.diff(self.offsets)[groups]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        return Encoder(self.features[columns], self.scaling.select(columns), offsets)

    def encode(self, X: NDArray[Any]) -> NDArray[np.float32]:
        """Design rows, float32 and row-major."""
        out = np.empty((X.shape[0], len(self.features)), dtype=np.float32)
        whole = len(self.features) == X.shape[1] and np.array_equal(self.features, np.arange(X.shape[1]))
        for start in range(0, len(out), _ROWS_AT_ONCE):
            piece = X[start : start + _ROWS_AT_ONCE]
            values = piece if whole else piece[:, self.features]
            out[start : start + _ROWS_AT_ONCE] = (values - self.scaling.mean) / self.scaling.scale
        return out


def _pieces(values: NDArray[Any], weight: NDArray[Any]) -> Any:
    for start in range(0, len(values), _ROWS_AT_ONCE):
        stop = start + _ROWS_AT_ONCE
        yield values[start:stop].astype(np.float64), weight[start:stop]
