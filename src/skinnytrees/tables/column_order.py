"""An order of columns that depends on what they hold and not on where they stand.

Random numbers belong to places: the first column gets the first initial weights, and of equal candidates the first is taken. With
this order a fit on reordered columns chooses the same columns, and so does one on a sparse version of the table.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.kernels.content_hash import add_cell_hashes, add_stored_hashes
from skinnytrees.kernels.numba_bridge.calls import call
from skinnytrees.tables.rows import Rows
from skinnytrees.tables.table_views import pieces, view

# Columns are distinguished by their values and the hashes of their rows, and rows by their values and the hashes of their
# columns. Two rounds distinguish columns of zeros and ones with equal sums, for which one round uses the target only.
_N_ROUNDS = 2


def column_keys(rows: Rows, may_reorder: bool) -> NDArray[np.uint64]:
    """Numbers by which columns are put in order: of their content, or of their places.

    Columns that are left as they are (``standardize=False``) keep their places, because kernels may read such a table where it
    stands.
    """
    return column_hashes(rows) if may_reorder else np.arange(rows.X.shape[1], dtype=np.uint64)


def column_hashes(rows: Rows) -> NDArray[np.uint64]:
    """One number per column, made of its values and their rows, whatever the order of rows and columns.

    Rows must be distinct, which ``merge_rows`` sees to: a repeated row would count twice.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.column_order import column_hashes
    >>> from skinnytrees.tables.rows import Rows
    >>> X, Y = np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 2.0]]), np.array([[0.0], [1.0]])
    >>> hashes = column_hashes(Rows(X, Y, np.ones(2)))
    >>> turned = column_hashes(Rows(X[::-1, ::-1], Y[::-1], np.ones(2)))
    >>> bool(np.all(hashes == turned[::-1])), len(set(hashes.tolist()))
    (True, 3)
    """
    n_rows, n_columns = rows.X.shape
    of_targets = _add_cells(rows.Y, np.zeros(n_rows, np.uint64), np.arange(rows.Y.shape[1], dtype=np.uint64))[0]
    of_rows, of_columns = of_targets, np.zeros(n_columns, dtype=np.uint64)
    for _ in range(_N_ROUNDS):
        row_sum, column_sum = _add_cells(rows.X, of_rows, of_columns)
        of_rows, of_columns = row_sum ^ of_targets, column_sum
    return of_columns


def _add_cells(
    X: Any, of_rows: NDArray[np.uint64], of_columns: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Sums over the values of each row and of each column."""
    row_sum, column_sum = np.zeros_like(of_rows), np.zeros_like(of_columns)
    if sparse.issparse(X):
        starts, columns = X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int64, copy=False)
        call(add_stored_hashes, _bits(X.data), starts, columns, of_rows, of_columns, row_sum, column_sum)
        return row_sum, column_sum
    for some in pieces(*X.shape):
        call(add_cell_hashes, _bits(view(X)[some]), of_rows[some], of_columns, row_sum[some], column_sum)
    return row_sum, column_sum


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Bits of the numbers in double precision; both zeros have those of zero, and all that is missing the same."""
    numbers = np.ascontiguousarray(values + 0.0, dtype=np.float64)
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.uint64)
