"""Which rows are trained on and which are held out, independent of the order in which they were given."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.table_views import StackedRows, pick_rows

# Columns read to put rows in order; rows that agree in all of them are compared in full.
_KEY_COLUMNS = 64
# Rows whose keys are made at once: bounds the memory.
_KEYS_AT_ONCE = 1024


class Rows(NamedTuple):
    """Rows of a table of numbers: features X, targets Y (rows, width), weights."""

    X: Any
    Y: NDArray[np.float64]
    weight: NDArray[np.float64]

    def take(self, rows: NDArray[np.intp]) -> "Rows":
        """Some of the rows."""
        return Rows(pick_rows(self.X, rows), self.Y[rows], self.weight[rows])

    def join(self, other: "Rows") -> "Rows":
        """These rows and others; of dense ones nothing is copied."""
        is_sparse = sparse.issparse(self.X)
        X = sparse.vstack([self.X, other.X], format="csr") if is_sparse else StackedRows((self.X, other.X))
        return Rows(X, np.concatenate([self.Y, other.Y]), np.concatenate([self.weight, other.weight]))


def merge_rows(rows: Rows) -> Rows:
    """Put rows in an order that depends only on their content, and give equal rows one place with their summed weight.

    A fit then depends neither on the order of the rows nor on whether a row is repeated or has the weight two. Rows of
    weight zero are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.rows import Rows, merge_rows
    >>> merged = merge_rows(Rows(np.array([[1.0], [2.0], [1.0]]), np.zeros((3, 1)), np.ones(3)))
    >>> sorted(zip(merged.X[:][:, 0].tolist(), merged.weight.tolist()))
    [(1.0, 2.0), (2.0, 1.0)]
    """
    X, Y, weight = rows
    used = np.flatnonzero(weight > 0)
    some_columns = np.arange(0, X.shape[1], max(1, X.shape[1] // _KEY_COLUMNS))
    quick = _row_keys(pick_rows(X[:, some_columns], used)) ^ _row_keys(Y[used])
    order = np.argsort(quick, kind="stable")
    used, quick = used[order], quick[order]
    next_is_tied = quick[1:] == quick[:-1]
    in_a_tie = np.append(next_is_tied, False) | np.append(False, next_is_tied)
    if not in_a_tie.any():
        return rows.take(used)
    full = np.zeros_like(quick)
    full[in_a_tie] = _row_keys(X[used[in_a_tie]])
    order = np.lexsort((weight[used], full, quick))  # weights of equal rows are summed in one order, to the last bit
    used, quick, full = used[order], quick[order], full[order]
    tied = np.flatnonzero((quick[1:] == quick[:-1]) & (full[1:] == full[:-1]))
    same = _rows_equal(X, used[tied], used[tied + 1]) & _rows_equal(Y, used[tied], used[tied + 1])
    starts = np.delete(np.arange(len(used)), tied[same] + 1)
    return Rows(pick_rows(X, used[starts]), Y[used[starts]], np.add.reduceat(weight[used], starts))


def _row_keys(values: Any) -> NDArray[np.uint64]:
    """One number a row, made of the bits of its values, the same wherever the row stands."""
    multipliers = np.random.default_rng(0).integers(1, 2**63, size=values.shape[1], dtype=np.uint64) | np.uint64(1)
    if sparse.issparse(values):
        values = values.tocsr()
        values.sum_duplicates()
        products = _mixed_bits(values.data) * multipliers[values.indices]
        running = np.append(np.uint64(0), np.cumsum(products, dtype=np.uint64))
        keys = running[values.indptr[1:]] - running[values.indptr[:-1]]
    else:
        keys = np.empty(len(values), dtype=np.uint64)
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            piece = slice(start, start + _KEYS_AT_ONCE)
            keys[piece] = (_mixed_bits(values[piece]) * multipliers).sum(axis=1, dtype=np.uint64)
    return keys ^ (keys >> np.uint64(29))


def _mixed_bits(values: Any) -> NDArray[np.uint64]:
    # Adding zero makes -0.0 the same as 0.0. The bits of round numbers end in zeros: fold the high half onto the low one.
    bits = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)
    return bits ^ (bits >> np.uint64(32))


def _rows_equal(values: Any, left: NDArray[np.intp], right: NDArray[np.intp]) -> NDArray[np.bool_]:
    a, b = values[left], values[right]
    if sparse.issparse(values):
        return np.asarray((a != b).sum(axis=1)).ravel() == 0
    return np.all((a == b) | ((a != a) & (b != b)), axis=1)


def split_rows(
    n_rows: int, fraction: float, rng: np.random.Generator, labels: NDArray[Any] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Training and validation rows; with ``labels``, each class gives its share and keeps at least one training row.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.rows import split_rows
    >>> train, held_out = split_rows(10, 0.2, np.random.default_rng(0))
    >>> len(train), len(held_out)
    (8, 2)
    """
    shuffled = rng.permutation(n_rows)
    strata = np.zeros(n_rows, dtype=int) if labels is None else np.unique(labels, return_inverse=True)[1].ravel()
    by_stratum = shuffled[np.argsort(strata[shuffled], kind="stable")]
    sizes = np.bincount(strata)
    rank = np.arange(n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    share = np.minimum(np.round(sizes * fraction), sizes - 1)
    held_out = rank < np.repeat(share, sizes)
    return np.sort(by_stratum[~held_out]), np.sort(by_stratum[held_out])
