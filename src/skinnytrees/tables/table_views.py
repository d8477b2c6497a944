"""Parts of dense tables that are read piece by piece where they stand, instead of being copied."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

# Values that are copied at once, to be looked at or to be multiplied, which takes less time in larger pieces.
_VALUES_AT_ONCE = 2**17
_MULTIPLIED_AT_ONCE = 2**19
# A part is worth a copy of its own, which is read faster, up to this many values, or up to this fraction of its table.
_SMALL = 2**20
_SMALL_FRACTION = 1 / 8


class PickedRows:
    """Some rows of a dense table, and some of its columns, of which only pieces that are read become copies.

    Without ``rows`` or without ``columns``, it has all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.table_views import PickedRows
    >>> picked = PickedRows(np.arange(8.0).reshape(4, 2), np.array([3, 0]))
    >>> picked[:1].tolist(), picked[:, np.array([1])].shape
    ([[6.0, 7.0]], (2, 1))
    """

    def __init__(
        self, table: NDArray[Any], rows: NDArray[np.intp] | None = None, columns: NDArray[np.intp] | None = None
    ) -> None:
        self.table, self.rows, self.columns = table, rows, columns
        self.shape = (
            len(table) if rows is None else len(rows),
            table.shape[1] if columns is None else len(columns),
        )
        self.dtype = table.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """A piece of the rows as an array; ``[:, columns]`` picks columns and copies nothing."""
        if isinstance(key, tuple):
            every, columns = key
            assert every == slice(None)
            return PickedRows(self.table, self.rows, columns if self.columns is None else self.columns[columns])
        rows = key if self.rows is None else self.rows[key]
        if self.columns is None:
            return self.table[rows]
        if not isinstance(rows, slice) and 2 * len(self.columns) < self.table.shape[1]:
            return self.table[np.ix_(rows, self.columns)]  # the columns between them are not read
        return self.table[rows][:, self.columns]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)

    def __matmul__(self, weights: NDArray[Any]) -> NDArray[Any]:
        if self.columns is None and self.rows is None:
            return np.asarray(self.table @ weights)
        product = np.empty((len(self), weights.shape[1]), dtype=weights.dtype)
        for piece in pieces(*self.shape, _MULTIPLIED_AT_ONCE):
            np.matmul(self[piece], weights, out=product[piece])
        return product

    def take(self, rows: NDArray[np.intp]) -> "PickedRows":
        """Some of the rows."""
        return PickedRows(self.table, rows if self.rows is None else self.rows[rows], self.columns)

    def blocks(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Contiguous columns, and their values in all rows."""
        n_rows, n_columns = self.shape
        is_whole = self.rows is None and self.columns is None
        for columns in pieces(n_columns, n_rows, _MULTIPLIED_AT_ONCE):
            yield columns, self.table[:, columns] if is_whole else self[:, np.arange(n_columns)[columns]][:]

    def copied_if_small(self) -> "NDArray[Any] | PickedRows":
        """A copy of its own for a part that is small, by itself or beside its table; any other part as it is."""
        n_values = self.shape[0] * self.shape[1]
        is_small = n_values <= max(_SMALL, _SMALL_FRACTION * self.table.size)
        return np.ascontiguousarray(self[:]) if is_small else self


class StackedRows:
    """Rows of several dense tables, one below the other; see ``PickedRows``.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.table_views import StackedRows
    >>> stacked = StackedRows((np.zeros((2, 3)), np.ones((1, 3))))
    >>> stacked.shape, stacked[1:].tolist()
    ((3, 3), [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    """

    def __init__(self, tables: tuple[Any, ...]) -> None:
        self.tables = tuple(view(table) for table in tables)
        self.ends = np.cumsum([len(table) for table in self.tables])
        self.shape = int(self.ends[-1]), self.tables[0].shape[1]
        self.dtype = np.result_type(*(table.dtype for table in self.tables))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Contiguous rows as an array; ``[:, columns]`` picks columns and copies nothing."""
        if isinstance(key, tuple):
            return StackedRows(tuple(table[key] for table in self.tables))
        first, end, step = key.indices(len(self))
        assert step == 1
        begins = self.ends - [len(table) for table in self.tables]
        return np.concatenate([
            table[max(0, first - begin) : max(0, end - begin)] for table, begin in zip(self.tables, begins, strict=True)
        ])  # fmt: skip

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)


def view(X: Any) -> Any:
    """A dense table as a view of itself; views as they are."""
    return PickedRows(X) if isinstance(X, np.ndarray) else X


def pick_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """Some rows of a table; of a dense one nothing is copied."""
    return X[rows] if sparse.issparse(X) else view(X).take(rows)


def pieces(n: int, size: int, n_values: int = _VALUES_AT_ONCE) -> Iterator[slice]:
    """Cut n rows of this size into ranges of this many values.

    Examples
    --------
    >>> from skinnytrees.tables.table_views import pieces
    >>> list(pieces(5, size=100, n_values=300))
    [slice(0, 3, None), slice(3, 6, None)]
    """
    n_at_once = max(1, n_values // max(1, size))
    for start in range(0, n, n_at_once):
        yield slice(start, start + n_at_once)
