"""Reading targets: what cannot be learned is refused in words that say what to do."""

import warnings
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.exceptions import refuse_unless
from skinnytrees.tables.frames import LAZY, collecting, is_frame, is_lazy, is_missing

# Predictions are made in single precision, whose numbers reach from 1e-38 to 3e38.
_LARGEST = 1e36
_SMALLEST_SPREAD = 1e-35


def open_target(estimator: Any, y: Any) -> Any:
    """The targets as an array; what is missing, complex or of another shape than targets are is refused.

    Examples
    --------
    >>> from skinnytrees import SkinnyTreesRegressor
    >>> from skinnytrees.tables.targets import open_target
    >>> open_target(SkinnyTreesRegressor(), [1.0, None, 3.0])
    Traceback (most recent call last):
    ValueError: Input y contains NaN or None: 1 of 3 rows have no target, such as [1]. Leave these rows out of X and y.
    """
    refuse_unless(
        y is not None,
        f"{type(estimator).__name__} requires y to be passed, but the target y is None. Pass the targets as y.",
    )
    refuse_unless(not is_lazy(y), LAZY.format("y", type(y).__name__, "y." + collecting(y)))
    refuse_unless(not sparse.issparse(y), "y is a sparse matrix. Pass a dense array, as with y.toarray().")
    _refuse_named(y)
    if is_frame(y):
        y = nw.from_native(y).to_numpy()
    if isinstance(y, np.ma.MaskedArray):
        _refuse_rows(np.ma.getmaskarray(y))
        y = y.data
    values = _as_array(y)
    refuse_unless(values.dtype.kind != "V", _NAMED.format(", ".join(values.dtype.names or ["no names"])))
    refuse_unless(
        values.dtype.kind != "c",
        "Complex data not supported: y holds complex numbers, which cannot be ordered. Pass their real or absolute values.",
    )
    _refuse_missing(values)
    return y if hasattr(y, "dtype") and hasattr(y, "ndim") and values.dtype.kind != "O" else values


_NAMED = (
    "y has several named values per row ({}). Pairs of time and event cannot be fitted: censored survival times are not "
    "supported. Pass one number or class per row."
)


def _refuse_named(y: Any) -> None:
    """Refuse a Series of structs, which would become the columns of an array."""
    wrapped = nw.from_native(y, pass_through=True, allow_series=True)
    if isinstance(wrapped, nw.Series) and isinstance(wrapped.dtype, nw.Struct):
        raise ValueError(_NAMED.format(", ".join(field.name for field in wrapped.dtype.fields)))


def _refuse_nested(values: NDArray[Any]) -> None:
    """Refuse objects of which one row has several values."""
    nested = {type(value).__name__ for value in values.ravel() if isinstance(value, list | tuple | dict | np.ndarray)}
    refuse_unless(
        not nested,
        f"y holds {', '.join(sorted(nested))} values, of which one row has several. Pass one number or "
        "class per row, or a column per target.",
    )


def warn_of_survival_pairs(Y: NDArray[np.float64]) -> None:
    """Say it where two targets look like times and whether something happened then."""
    if Y.shape[1] != 2:
        return
    is_event = [set(np.unique(column).tolist()) == {0.0, 1.0} for column in Y.T]
    if sum(is_event) == 1 and np.all(Y >= 0):
        warnings.warn(
            f"y looks like pairs of time and event: its column {is_event.index(True)} holds 0 and 1 only. They are fitted as two "
            "separate numbers; censored survival times are not supported. To predict one of them, pass that column alone.",
            UserWarning,
            stacklevel=6,
        )


def check_target_size(Y: NDArray[np.float64], spread: NDArray[np.float64]) -> None:
    """Refuse targets that predictions in single precision cannot reach."""
    largest = float(np.abs(Y).max())
    refuse_unless(
        largest <= _LARGEST,
        f"y holds numbers as large as {largest:.0e}, which predictions in single precision cannot reach. Divide y by "
        f"{largest:.0e}, or fit its logarithm.",
    )
    smallest = float(spread.min())
    refuse_unless(
        smallest >= _SMALLEST_SPREAD,
        f"y varies by {smallest:.0e} only, which predictions in single precision cannot tell apart. Multiply y by "
        f"{1 / max(smallest, 1e-300):.0e}.",
    )


def _as_array(y: Any) -> NDArray[Any]:
    try:
        values = np.asarray(y)
    except ValueError as error:
        raise ValueError(
            f"y cannot be read as an array ({error}). Pass one number or class per row, or as many targets in each row."
        ) from error
    if values.dtype.kind in "US" and not hasattr(y, "dtype"):
        values = np.asarray(y, dtype=object)  # as text, a missing value of a list would be a word like any other
    return values


def _refuse_missing(values: NDArray[Any]) -> None:
    if values.dtype.kind == "O":
        _refuse_nested(values)
        missing = np.array([is_missing(value) for value in values.ravel()], dtype=bool).reshape(values.shape)
    elif values.dtype.kind in "Mm":
        missing = np.isnat(values)
    else:
        missing = values != values
    _refuse_rows(missing)


def _refuse_rows(missing: NDArray[np.bool_]) -> None:
    """Refuse rows of which a target is missing."""
    n_rows = len(missing) if missing.ndim else 1
    rows = np.flatnonzero(missing.reshape(n_rows, -1).any(axis=1)) if missing.size else np.zeros(0)
    refuse_unless(
        len(rows) == 0,
        f"Input y contains NaN or None: {len(rows)} of {n_rows} rows have no target, such as {rows[:3].tolist()}. Leave these "
        "rows out of X and y.",
    )
