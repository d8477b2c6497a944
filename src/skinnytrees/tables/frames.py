"""Reading what users bring: frames with numbers, categories and text, arrays, sparse matrices -> a table of numbers."""

import difflib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from skinnytrees.exceptions import refuse_unless

# Letters that numpy gives to types.
_NUMBERS = "iufb"
_TIMES = "Mm"
_KINDS_OF_POLARS = {"Boolean": "b", "Date": "M", "Datetime": "M", "Duration": "m"}


def open_table(estimator: Any, X: Any, vocabulary: "Vocabulary | None", *, reset: bool) -> Any:
    """X as something with rows and columns; their names and number become, or must be, those of the fit."""
    if vocabulary is not None and not is_frame(X):
        raise TypeError(
            f"{type(estimator).__name__} was fitted on a frame with text, categories or times, but X is now a "
            f"{type(X).__name__}. Pass a frame with the same columns."
        )
    if not is_frame(X) and getattr(X, "ndim", None) != 2:
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
    wanted = [str(name) for name in names[columns]]
    missing = [name for name in wanted if name not in set(X.columns)]
    if not missing:
        return X[wanted]
    if set(X.columns) < set(names):
        return None  # scikit-learn names what is missing
    near = {name: difflib.get_close_matches(name, [str(one) for one in X.columns], n=1) for name in missing[:5]}
    hints = "; ".join(f"{name!r} (nearest: {close[0]!r})" if close else repr(name) for name, close in near.items())
    raise ValueError(
        f"The feature names should match those that were passed during fit. X lacks {len(missing)} of the {len(wanted)} selected "
        f"columns: {hints}. Give a frame with the columns {wanted[:8]}{' ...' if len(wanted) > 8 else ''}, in any order."
    )


def read_table(estimator: Any, X: Any, vocabulary: "Vocabulary | None") -> Any:
    """An opened table as numbers: row-major, or CSR; a frame's words become category numbers."""
    if vocabulary is not None:
        X = vocabulary.read(X)
    try:
        numbers = check_array(
            X, dtype=[np.float64, np.float32], order="C", accept_sparse="csr",
            ensure_all_finite=True if sparse.issparse(X) else "allow-nan", estimator=estimator, input_name="X",
        )  # fmt: skip
    except ValueError as error:
        if "could not convert string" not in str(error):
            raise
        if is_frame(X):
            _refuse_words(X)
        raise ValueError(
            f"X holds text where numbers are expected ({error}). Fit on a pandas or polars frame, whose text columns are "
            "read as categories, or convert the text to numbers first."
        ) from error
    return _canonical(numbers) if sparse.issparse(numbers) else numbers


def read_columns(estimator: Any, X: Any, vocabulary: "Vocabulary | None", columns: NDArray[np.intp]) -> Any:
    """Some columns of an opened table as numbers; the others are not looked at, whatever they hold."""
    if len(columns) == 0:
        return np.empty((X.shape[0], 0))
    if hasattr(X, "iloc"):
        some = X.iloc[:, columns]
    elif is_frame(X):
        some = X[:, columns.tolist()]
    else:
        some = (X.tocsr() if sparse.issparse(X) and X.format != "csc" else X)[:, columns]
    return read_table(estimator, some, None if vocabulary is None else vocabulary.select(columns))


def is_float_array(X: Any) -> bool:
    """Whether X is a table of floating-point numbers that can be read as it stands."""
    return type(X) in (np.ndarray, np.memmap) and X.ndim == 2 and X.dtype.char in "fd" and len(X) > 0


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars frame."""
    return hasattr(X, "columns") and hasattr(X, "shape") and hasattr(X, "__getitem__") and hasattr(X, "dtypes")


@dataclass(frozen=True)
class Vocabulary:
    """The categories of a frame's columns that are not numbers: category number c of column k is ``words[k][c]``."""

    words: dict[int, dict[Any, int]]

    @classmethod
    def learn(cls, X: Any, categorical: set[int]) -> "Vocabulary | None":
        """Number the categories of text and categorical columns, and of those the user names.

        None stands for a table that is all numbers, which needs no reading column by column.
        """
        if not is_frame(X):
            return None
        kinds = [_kind(column) for column in _columns(X)]
        if not categorical and all(kind in _NUMBERS for kind in kinds):
            return None
        is_words = [k in categorical or kind not in _NUMBERS + _TIMES for k, kind in enumerate(kinds)]
        return cls({k: _number_words(column) for k, column in enumerate(_columns(X)) if is_words[k]})

    def select(self, columns: NDArray[np.intp]) -> "Vocabulary":
        """The vocabulary of a frame that has only these columns."""
        return Vocabulary({place: self.words[k] for place, k in enumerate(columns.tolist()) if k in self.words})

    def read(self, X: Any) -> NDArray[np.float64]:
        """The frame as numbers: category numbers for words, -1 for unknown ones, seconds for times, NaN for what is missing."""
        out = np.empty(X.shape, dtype=np.float64)
        for k, column in enumerate(_columns(X)):
            if k not in self.words:
                out[:, k] = _numbers(column, str(X.columns[k]))
                continue
            codes = self.words[k]
            out[:, k] = [np.nan if _is_missing(value) else codes.get(value, -1) for value in column.to_list()]
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
    missing = np.flatnonzero([_is_missing(label) for label in labels] if labels.dtype == object else labels != labels)
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


def _refuse_words(X: Any) -> None:
    """Name the first column of a frame that cannot be read as numbers."""
    for name, column in zip(X.columns, _columns(X), strict=True):
        _numbers(column, str(name))


def _canonical(X: Any) -> Any:
    """The matrix with every entry stored once and no zero stored."""
    if X.has_canonical_format and np.all(X.data):
        return X
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _columns(X: Any) -> list[Any]:
    if hasattr(X, "iloc"):
        return [X.iloc[:, k] for k in range(X.shape[1])]
    return [X[name] for name in X.columns]


def _kind(column: Any) -> str:
    """The letter that numpy has for what a column holds."""
    if hasattr(column.dtype, "kind"):  # numpy and pandas
        return str(column.dtype.kind)
    return "f" if column.dtype.is_numeric() else _KINDS_OF_POLARS.get(str(column.dtype.base_type()), "O")


def _number_words(column: Any) -> dict[Any, int]:
    seen = {value for value in column.to_list() if not _is_missing(value)}
    return {value: code for code, value in enumerate(sorted(seen, key=lambda value: (str(type(value)), value)))}


def _is_missing(value: Any) -> bool:
    # pandas' own marks are asked for by name: comparing them with anything gives neither True nor False.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    try:
        if _kind(column) in _TIMES:
            return _seconds(column)
        if hasattr(column, "iloc"):
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {name!r} held numbers when the model was fitted, but now holds something else ({error}). "
            "Convert it to numbers first."
        ) from error


def _seconds(column: Any) -> NDArray[np.float64]:
    """Seconds since 1970 of moments, in universal time, or seconds that durations last."""
    unit = "datetime64[us]" if _kind(column) == "M" else "timedelta64[us]"
    times = column.to_numpy(dtype=unit) if hasattr(column, "iloc") else column.to_numpy().astype(unit)
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / 1e6)
