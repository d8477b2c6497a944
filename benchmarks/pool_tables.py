"""The pool of real tables: how one is read, and the protocol by which its rows are split and its budgets set."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.model_selection import train_test_split

from skinnytrees.datasets import data_folder

SMALLEST_CLASS = 5
# Ten splits below this number of rows, three from it on.
MANY_ROWS = 1000
FEW_ROWS = 400
TEST_FRACTION = 0.2
# Added to the seed of a split when its training rows are split once more.
INNER_SEED = 1000


class Split(NamedTuple):
    """Rows to fit on and rows that judge."""

    X: Any
    y: np.ndarray
    X_judge: Any
    y_judge: np.ndarray


class Table(NamedTuple):
    """One table; classes are numbered from 0."""

    name: str
    X: Any
    y: np.ndarray

    @property
    def is_regression(self) -> bool:
        return is_regression(self.name)

    def seeds(self, most: int | None = None) -> range:
        n = 10 if self.X.shape[0] < MANY_ROWS else 3
        return range(1, 1 + (n if most is None else min(n, most)))

    def budgets(self) -> list[int]:
        n_columns = self.X.shape[1]
        return sorted({min(budget, n_columns) for budget in (5, 10, min(20, max(1, n_columns // 4)))})

    def split(self, seed: int, rows: str = "test") -> Split:
        """The protocol's split; with ``rows="inner"``, its training rows split once more, without the test rows."""
        split = self._split(self.X, self.y, seed)
        return split if rows == "test" else self._split(split.X, split.y, seed + INNER_SEED)

    def _split(self, X: Any, y: np.ndarray, seed: int) -> Split:
        stratify = None if self.is_regression else y
        X, X_judge, y, y_judge = train_test_split(X, y, test_size=TEST_FRACTION, stratify=stratify, random_state=seed)
        return Split(X, y, X_judge, y_judge)


def is_regression(name: str) -> bool:
    return name.startswith("reg-")


def folder() -> Path:
    return data_folder() / "pool"


def names() -> list[str]:
    return sorted(file.stem for file in folder().glob("*.npz"))


def n_rows(name: str) -> int:
    with np.load(folder() / f"{name}.npz", allow_pickle=False) as file:
        return len(file["y"])


def load(name: str) -> Table:
    """Columns as they are stored, without the rows of classes with fewer than five of them."""
    with np.load(folder() / f"{name}.npz", allow_pickle=False) as file:
        y = file["y"]
        if "X" in file:
            X = file["X"]
        else:
            X = sparse.csr_matrix((file["data"].astype(np.float32), file["indices"], file["indptr"]), file["shape"])
    if is_regression(name):
        return Table(name, X, y.astype(float))
    _, y, counts = np.unique(y, return_inverse=True, return_counts=True)
    kept = counts[y] >= SMALLEST_CLASS
    return Table(name, X[kept], np.unique(y[kept], return_inverse=True)[1])
