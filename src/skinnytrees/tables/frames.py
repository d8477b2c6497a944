"""Reading what users bring: frames with numbers, categories and text, arrays, sparse matrices -> a table of numbers."""

import contextlib
import datetime
import difflib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from narwhals.dependencies import is_into_dataframe
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from skinnytrees.exceptions import refuse_unless

# Letters that numpy gives to types.
_NUMBERS = "iufb"
_TIMES = "Mm"
_NESTED = (nw.List, nw.Array, nw.Struct, nw.Binary)
# A sparse matrix of no more values than this is read as a dense table, which takes 32 MB at most: the same table then gives the
# same model, whichever way it is stored.
_DENSE_UP_TO = 2**22
# So is a larger one of which at least this fraction is not zero: as a sparse matrix it takes as much memory.
_DENSE_FROM = 0.5
# Errors of scikit-learn that say enough.
_CLEAR_ERRORS = (
    "Found array with",
    "Input X contains",
    "Expected 2D array",
    "Expected a 2-dimensional",
    "np.matrix is not",
)


def open_table(estimator: Any, X: Any, vocabulary: "Vocabulary | None", *, reset: bool) -> Any:
    """X as something with rows and columns; their names and number become, or must be, those of the fit."""
    X = _refuse_unreadable(X)
    if vocabulary is not None and not is_frame(X):
        raise TypeError(
            f"{type(estimator).__name__} was fitted on a frame with text, categories or times, but X is now a "
            f"{type(X).__name__}. Pass a frame with the same columns."
        )
    if not is_frame(X) and getattr(X, "ndim", None) != 2:
        with _clear_errors():
            X = check_array(X, dtype=None, ensure_all_finite=False, estimator=estimator, input_name="X")
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X


def find_panel(X: Any, names: NDArray[Any] | None, columns: NDArray[np.intp], n_features: int) -> Any:
    """The selected columns, where X does not have all columns of the fit but these; None where it is to be read as a whole.

    A frame holds them by name, in any order and among others; an array has these columns alone, in their order.
    """
    if (
        getattr(X, "ndim", 2) != 2
        or getattr(X, "shape", (0, n_features))[1] == n_features
        or len(columns) == n_features
    ):
        return None
    if not is_frame(X):
        return X if hasattr(X, "shape") and X.shape[1] == len(columns) else None
    if names is None:
        return X if X.shape[1] == len(columns) else None
    wanted, present = [str(name) for name in names[columns]], frame_names(X)
    missing = [name for name in wanted if name not in set(present)]
    if not missing:
        return take_columns(X, np.array([present.index(name) for name in wanted]))
    if set(present) < set(names):
        return None  # scikit-learn names what is missing
    near = {name: difflib.get_close_matches(name, present, n=1) for name in missing[:5]}
    hints = "; ".join(f"{name!r} (nearest: {close[0]!r})" if close else repr(name) for name, close in near.items())
    raise ValueError(
        f"The feature names should match those that were passed during fit. X lacks {len(missing)} of the {len(wanted)} selected "
        f"columns: {hints}. Give a frame with the columns {wanted[:8]}{' ...' if len(wanted) > 8 else ''}, in any order."
    )


def read_table(estimator: Any, X: Any, vocabulary: "Vocabulary | None") -> Any:
    """An opened table as numbers: row-major, or CSR if it is large and mostly zero; a frame's categories become numbers."""
    if is_frame(X):
        X = (Vocabulary({}) if vocabulary is None else vocabulary).read(X)
    with _clear_errors(), np.errstate(over="ignore", invalid="ignore"):  # sums that only look for infinite values
        numbers = check_array(
            X, dtype=[np.float64, np.float32], order="C", accept_sparse="csr", ensure_all_finite="allow-nan",
            estimator=estimator, input_name="X",
        )  # fmt: skip
    if not sparse.issparse(numbers):
        return numbers
    n_cells = math.prod(numbers.shape)
    if n_cells > _DENSE_UP_TO:
        numbers = _canonical(numbers)
    is_dense = n_cells <= _DENSE_UP_TO or numbers.nnz >= _DENSE_FROM * n_cells
    return numbers.toarray() if is_dense else numbers


def read_columns(estimator: Any, X: Any, vocabulary: "Vocabulary | None", columns: NDArray[np.intp]) -> Any:
    """Some columns of an opened table as numbers; the others are not looked at, whatever they hold."""
    if len(columns) == 0:
        return np.empty((X.shape[0], 0))
    some = take_columns(X, columns)
    return read_table(estimator, some, None if vocabulary is None else vocabulary.select(columns))


def take_columns(X: Any, columns: NDArray[np.intp]) -> Any:
    """Some columns of an opened table, in the same kind of table."""
    if hasattr(X, "iloc"):
        return X.iloc[:, columns]
    if is_frame(X):
        return nw.from_native(X)[:, columns.tolist()].to_native()
    return (X.tocsr() if sparse.issparse(X) and X.format != "csc" else X)[:, columns]


def frame_names(X: Any) -> list[str]:
    """Names of a frame's columns."""
    return [str(name) for name in (X.columns if hasattr(X, "iloc") else nw.from_native(X, eager_only=True).columns)]


def as_container(frame: Any, container: str) -> Any:
    """A frame as it is ("default"), or as a "pandas" or "polars" frame."""
    if container == "default":
        return frame
    wrapped = nw.from_native(frame)
    return wrapped.to_pandas() if container == "pandas" else wrapped.to_polars()


def is_float_array(X: Any) -> bool:
    """Whether X is a table of floating-point numbers that can be read as it stands."""
    return type(X) in (np.ndarray, np.memmap) and X.ndim == 2 and X.dtype.char in "fd" and len(X) > 0


def is_frame(X: Any) -> bool:
    """Whether X is a frame of pandas or polars, an Arrow table, or another frame with rows in memory."""
    return not isinstance(X, np.ndarray | list) and not sparse.issparse(X) and bool(is_into_dataframe(X))


def unbatched(X: Any) -> Any:
    """A batch of Arrow as a table; anything else as it is."""
    if type(X).__name__ != "RecordBatch" or not hasattr(X, "schema"):
        return X
    import pyarrow

    return pyarrow.Table.from_batches([X])


@dataclass(frozen=True)
class Vocabulary:
    """The categories of a frame's columns that are not numbers: category number c of column k is ``words[k][c]``."""

    words: dict[int, dict[Any, int]]

    @classmethod
    def learn(cls, X: Any, categorical: set[int]) -> "Vocabulary | None":
        """Number the categories of text and categorical columns, and of those the user names.

        None stands for a table that is all numbers, for which an array will do as well.
        """
        if not is_frame(X):
            return None
        columns = _columns(X)
        kinds = [_kind(column, name) for name, column in columns]
        if not categorical and all(kind in _NUMBERS for kind in kinds):
            return None
        is_words = [k in categorical or kind not in _NUMBERS + _TIMES for k, kind in enumerate(kinds)]
        return cls({k: _number_words(column, name) for k, (name, column) in enumerate(columns) if is_words[k]})

    def select(self, columns: NDArray[np.intp]) -> "Vocabulary":
        """The vocabulary of a frame that has only these columns."""
        return Vocabulary({place: self.words[k] for place, k in enumerate(columns.tolist()) if k in self.words})

    def read(self, X: Any) -> NDArray[np.float64]:
        """The frame as numbers: numbers for categories, -1 for unknown ones, seconds for times, NaN for what is missing."""
        out = np.empty(X.shape, dtype=np.float64)
        for k, (name, column) in enumerate(_columns(X)):
            if k not in self.words:
                out[:, k] = _numbers(column, name)
                continue
            codes = self.words[k]
            try:
                out[:, k] = [np.nan if is_missing(value) else codes.get(value, -1) for value in _values(column)]
            except (TypeError, ValueError) as error:
                raise _not_words(name, error) from error
        return out


def read_groups(groups: Any, n_rows: int) -> NDArray[Any] | None:
    """One label per row, given as an array, Series or list of numbers or text; None stays None.

    Examples
    --------
    >>> from skinnytrees.tables.frames import read_groups
    >>> read_groups(["a", "a", "b"], 3).tolist()
    ['a', 'a', 'b']
    >>> read_groups([1, 2], 3)
    Traceback (most recent call last):
    ValueError: groups has 2 labels, but X has 3 rows. Give one label per row.
    """
    if groups is None:
        return None
    refuse_masked(groups, "groups", "Give these rows labels of their own")
    # As text, a missing label of a list would be a label like any other.
    labels = np.asarray(groups) if hasattr(groups, "dtype") else np.asarray(groups, dtype=object)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    refuse_unless(
        labels.ndim == 1,
        f"groups has the shape {labels.shape}. Give one label per row, in an array with one dimension.",
    )
    refuse_unless(
        len(labels) == n_rows, f"groups has {len(labels)} labels, but X has {n_rows} rows. Give one label per row."
    )
    missing = np.flatnonzero([is_missing(label) for label in labels] if labels.dtype == object else labels != labels)
    refuse_unless(
        len(missing) == 0,
        f"groups has no label in {len(missing)} of {n_rows} rows, such as {missing[:3].tolist()}. "
        "Give these rows labels of their own, or leave them out.",
    )
    try:
        np.unique(labels)
    except TypeError as error:
        kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
        raise ValueError(
            f"groups has labels that cannot be put in order, of the types {kinds}. Use numbers only, or text only."
        ) from error
    return labels


def refuse_masked(values: Any, name: str, remedy: str) -> None:
    """Refuse values under a mask, which arrays made of them would show again."""
    if isinstance(values, np.ma.MaskedArray):
        n_masked = np.ma.count_masked(values)
        refuse_unless(
            n_masked == 0, f"{name} has {n_masked} masked values of {values.size}. {remedy}, or leave the rows out."
        )


def _refuse_unreadable(X: Any) -> Any:
    """Refuse what would be misread; a masked array becomes one with missing values, a batch of Arrow a table."""
    X = unbatched(X)
    refuse_unless(not is_lazy(X), LAZY.format("X", type(X).__name__, "X." + collecting(X)))
    if sparse.issparse(X) and X.ndim == 2:
        _refuse_malformed(X)
    if isinstance(X, np.ma.MaskedArray):
        X = _without_mask(X)
    kind = "" if is_frame(X) else getattr(getattr(X, "dtype", None), "kind", "")
    refuse_unless(kind != "c", _COMPLEX.format("X"))
    refuse_unless(
        kind not in ("M", "m"),
        "X is an array of times. Put its columns into a pandas or polars frame, whose times are read as seconds, or convert them "
        "to numbers.",
    )
    return X


LAZY = "{} is a {}, whose rows have not been read yet. Collect them first, as with {}."
_COMPLEX = (
    "Complex data not supported: {} holds complex numbers, which cannot be ordered. Use their real and imaginary parts, or "
    "their absolute values, as columns of their own."
)


def is_lazy(X: Any) -> bool:
    """Whether X stands for rows that are still to be read; names of columns that occur twice are refused on the way."""
    if isinstance(X, np.ndarray):
        return False
    try:
        return isinstance(nw.from_native(X, pass_through=True, allow_series=True), nw.LazyFrame) or hasattr(
            X, "read_all"
        )
    except nw.exceptions.DuplicateError as error:
        names = [str(name) for name in (X.columns if hasattr(X, "iloc") else X.schema.names)]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"Two columns have the name {twice!r}, so that a selection by name is not clear. Use a name of its own for each."
        ) from error


def collecting(X: Any) -> str:
    """The call that reads the rows of what is lazy in polars, DuckDB or Arrow."""
    return next(
        f"{name}()" for name in ("collect", "read_all", "df", "execute") if hasattr(X, name) or name == "execute"
    )


def _without_mask(X: Any) -> NDArray[Any]:
    if X.dtype.kind in _NUMBERS:
        return np.ma.filled(X.astype(np.float64), np.nan)
    if X.dtype.kind not in "OSU":
        return np.asarray(X.data)
    values = np.array(X.data, dtype=object)
    values[np.ma.getmaskarray(X)] = None
    return values


def _refuse_malformed(X: Any) -> None:
    """Refuse a sparse matrix whose entries point outside of it: compiled code would follow them."""
    try:
        if X.format in ("csr", "csc", "bsr"):
            X.check_format(full_check=True)
        elif X.format != "coo":
            X.tocsr().check_format(full_check=True)
        elif not len(X.row) == len(X.col) == len(X.data):
            raise ValueError("its rows, columns and values differ in number")
        else:
            for axis, places in enumerate((X.row, X.col)):
                if len(places) and not 0 <= places.min() <= places.max() < X.shape[axis]:
                    raise ValueError(f"an entry at {places.max()} is outside of the shape {X.shape}")
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"X is a malformed sparse matrix ({error}). Build it again from its values, rows and columns, as with "
            "scipy.sparse.coo_array((values, (rows, columns)), shape)."
        ) from error


@contextlib.contextmanager
def _clear_errors() -> Iterator[None]:
    """Say what to do where numpy only says what it could not do."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        if str(error).startswith(_CLEAR_ERRORS) or (isinstance(error, ValueError) and not error.args):
            raise
        refuse_unless(not str(error).startswith("Complex data"), _COMPLEX.format("X"))
        kind = TypeError if isinstance(error, TypeError) else ValueError  # scikit-learn tells them apart
        raise kind(
            f"X holds text, or something else, where numbers are expected ({error}). Fit on a pandas or polars frame, whose text "
            "columns are read as categories, or convert the values to numbers first."
        ) from error


def _canonical(X: Any) -> Any:
    """The matrix with every entry stored once and no zero stored."""
    if X.has_canonical_format and np.all(X.data):
        return X
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _columns(X: Any) -> list[tuple[str, Any]]:
    """Name and values of each column; pandas allows a name twice."""
    if hasattr(X, "iloc"):
        return [(str(name), X.iloc[:, k]) for k, name in enumerate(X.columns)]
    frame = nw.from_native(X, eager_only=True)
    return [(name, frame[name].to_native()) for name in frame.columns]


def _kind(column: Any, name: str) -> str:
    """The letter that numpy has for what a column holds; columns that hold several values per row are refused."""
    kind = getattr(column.dtype, "kind", "") if hasattr(column, "iloc") else ""
    refuse_unless(kind != "c", _COMPLEX.format(f"column {name!r}"))
    if kind and kind in _NUMBERS + _TIMES:
        return str(kind)
    dtype = nw.from_native(column, series_only=True).dtype
    refuse_unless(
        not isinstance(dtype, _NESTED),
        f"Column {name!r} holds {dtype} values, of which one row has several. Split it into columns of numbers or text first.",
    )
    if dtype.is_numeric() or dtype == nw.Boolean or str(getattr(column, "dtype", "")) == "Null":
        return "f"
    if dtype.is_temporal():
        return "m" if dtype == nw.Duration else "M"
    return "O"


def _values(column: Any) -> list[Any]:
    return list(nw.from_native(column, series_only=True).to_list())


def _number_words(column: Any, name: str) -> dict[Any, int]:
    try:
        seen = {value for value in _values(column) if not is_missing(value)}
    except (TypeError, ValueError) as error:
        raise _not_words(name, error) from error
    refuse_unless(not any(isinstance(value, complex) for value in seen), _COMPLEX.format(f"column {name!r}"))
    try:
        return {value: code for code, value in enumerate(sorted(seen, key=lambda value: (str(type(value)), value)))}
    except (TypeError, ValueError) as error:
        raise _not_words(name, error) from error


def _not_words(name: str, error: Exception) -> ValueError:
    return ValueError(
        f"Column {name!r} holds values that are neither numbers nor text nor times ({error}). Split it into columns of "
        "numbers or text first, or leave it out."
    )


def is_missing(value: Any) -> bool:
    """Whether a value stands for nothing: None, NaN, or what pandas uses."""
    # pandas' own marks are asked for by name: comparing them with anything gives neither True nor False.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    try:
        if _kind(column, name) in _TIMES:
            return _seconds(column)
        if hasattr(column, "iloc"):
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        wrapped = nw.from_native(column, series_only=True)
        if wrapped.dtype in (nw.Int128, nw.UInt128):  # numpy has no such numbers
            return wrapped.cast(nw.Float64).to_numpy()
        return np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"Column {name!r} held numbers when the model was fitted, but now holds something else ({error}). "
            "Convert it to numbers first."
        ) from error


def _seconds(column: Any) -> NDArray[np.float64]:
    """Seconds since 1970 of moments, in universal time, since midnight of times of day, or seconds that durations last."""
    dtype = nw.from_native(column, series_only=True).dtype
    if dtype in (nw.Date, nw.Time):
        return np.array([np.nan if is_missing(value) else _seconds_of(value) for value in _values(column)])
    unit = "timedelta64[us]" if dtype == nw.Duration else "datetime64[us]"
    times = column.to_numpy(dtype=unit) if hasattr(column, "iloc") else column.to_numpy().astype(unit)
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)


def _seconds_of(value: datetime.date | datetime.time) -> float:
    if isinstance(value, datetime.time):
        return value.hour * 3600.0 + value.minute * 60 + value.second + value.microsecond / 1e6
    return (value - datetime.date(1970, 1, 1)).days * 86400.0
