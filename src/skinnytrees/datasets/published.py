"""Loaders for the paper's data sets under the paper's splits (sections 7 and S4).

The files are not part of this package: each is a compressed numpy file in the folder named by the environment variable
``SKINNYTREES_DATA``, with ``X`` (or the CSR parts ``data, indices, indptr, shape``), ``y`` and, where the data has an
official split, ``split`` (0 = training, 1 = validation).
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import train_test_split

# The authors' own.
_SEED = 8

# Sets of the NIPS 2003 challenge: the official validation rows are the test rows.
_OFFICIAL_SPLIT = ("arcene", "dorothea", "madelon")

# One-hot encoded by the authors; the other columns of Churn are z-scored, the numbered state and phone included.
_CHURN_CATEGORIES = ("area code", "international plan", "voice mail plan", "number customer service calls")


class PublishedData(NamedTuple):
    """One data set, split and scaled as in the paper."""

    X_train: Any
    y_train: NDArray[Any]
    X_val: Any
    y_val: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]


def data_folder() -> Path:
    """The folder with the data files.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    FileNotFoundError
        When ``SKINNYTREES_DATA`` is not set or names no folder.
    """
    name = os.environ.get("SKINNYTREES_DATA")
    if not name or not Path(name).is_dir():
        raise FileNotFoundError(
            f"SKINNYTREES_DATA={name!r} names no folder. Set it to the folder that holds the data files, such as churn.npz."
        )
    return Path(name)


def available() -> list[str]:
    """Names of the data sets in the folder.

    Returns
    -------
    list of str
    """
    return sorted(file.stem for file in data_folder().glob("*.npz"))


def load(name: str, seed: int = _SEED) -> PublishedData:
    """Read a data set, split it 64/16/20 (or officially), and z-score it on its training rows.

    Parameters
    ----------
    name : str
        One of ``available()``.
    seed : int, default=8
        Seed of the random splits; 8 gives the authors' own.

    Returns
    -------
    PublishedData
        Dense sets in float32 with continuous columns z-scored and 0/1 columns as they are; missing values are the
        column's training mean. Sparse sets as they are, in CSR form.
    """
    file = data_folder() / f"{name}.npz"
    if not file.exists():
        raise FileNotFoundError(f"There is no data set {name!r}. Use one of {available()}.")
    with np.load(file, allow_pickle=False) as stored:
        parts = {key: stored[key] for key in stored.files}
    y = parts["y"].astype(int)
    X = _read_table(parts)
    rows = np.arange(len(y))
    if name in _OFFICIAL_SPLIT:
        learn, test = rows[parts["split"] == 0], rows[parts["split"] == 1]
    else:
        learn, test = train_test_split(rows, test_size=0.2, stratify=y, random_state=seed)
    train, val = train_test_split(learn, test_size=0.2, stratify=y[learn], random_state=seed)
    scaled = X if sparse.issparse(X) else _z_score(X, train)
    return PublishedData(scaled[train], y[train], scaled[val], y[val], scaled[test], y[test])


def _read_table(parts: dict[str, NDArray[Any]]) -> Any:
    if "X" not in parts:
        csr_parts = (parts["data"].astype(np.float32), parts["indices"], parts["indptr"])
        return sparse.csr_array(csr_parts, shape=tuple(parts["shape"]))
    X = parts["X"].astype(np.float64)
    names = [str(name) for name in parts.get("feature_names", [])]
    categories = [names.index(name) for name in _CHURN_CATEGORIES] if set(_CHURN_CATEGORIES) <= set(names) else []
    columns: list[NDArray[np.float64]] = []
    for k in range(X.shape[1]):
        if k in categories:
            columns.extend((X[:, k] == level).astype(np.float64) for level in np.unique(X[:, k]))
        else:
            columns.append(X[:, k])
    return np.stack(columns, axis=1)


def _z_score(X: NDArray[np.float64], train: NDArray[np.intp]) -> NDArray[np.float32]:
    binary = np.all((X == 0) | (X == 1), axis=0)
    mean = np.where(binary, 0.0, np.nanmean(X[train], axis=0))
    deviation = np.where(binary, 1.0, np.nanstd(X[train], axis=0))
    scaled = (X - mean) / np.where(deviation > 0, deviation, 1.0)
    return np.ascontiguousarray(np.nan_to_num(scaled, nan=0.0), dtype=np.float32)
