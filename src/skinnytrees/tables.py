"""Reading what users bring: frames with numbers, categories and text, arrays, sparse matrices -> a table of numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars frame."""
    return hasattr(X, "columns") and hasattr(X, "shape") and hasattr(X, "__getitem__") and hasattr(X, "dtypes")


@dataclass(frozen=True)
class Vocabulary:
    """The categories of a frame's columns that are not numbers: category number c of column k is ``words[k][c]``."""

    words: dict[int, dict[Any, int]]

    @classmethod
    def learn(cls, X: Any, categorical: set[int]) -> "Vocabulary":
        """Number the categories of text, categorical and boolean-object columns, and of those the user names."""
        words = {}
        for k, column in enumerate(_columns(X)):
            if k in categorical or not _is_numeric(column):
                seen = {value for value in _values(column) if not _is_missing(value)}
                words[k] = {
                    value: code for code, value in enumerate(sorted(seen, key=lambda value: (str(type(value)), value)))
                }
        return cls(words)

    def read(self, X: Any) -> NDArray[np.float64]:
        """The frame as numbers: category numbers for words, -1 for unknown ones, NaN for what is missing."""
        out = np.empty(X.shape, dtype=np.float64)
        for k, column in enumerate(_columns(X)):
            if k not in self.words:
                out[:, k] = _numbers(column, str(X.columns[k]))
                continue
            codes = self.words[k]
            out[:, k] = [np.nan if _is_missing(value) else codes.get(value, -1) for value in _values(column)]
        return out


def refuse_words(X: Any) -> None:
    """Name the first column of a frame that cannot be read as numbers."""
    for name, column in zip(X.columns, _columns(X), strict=True):
        _numbers(column, str(name))


def needs_vocabulary(X: Any, categorical: set[int]) -> bool:
    """Whether a frame has columns that numpy cannot read as numbers, or that the user calls categorical."""
    return bool(categorical) or any(not _is_numeric(column) for column in _columns(X))


def _columns(X: Any) -> list[Any]:
    if hasattr(X, "iloc"):
        return [X.iloc[:, k] for k in range(X.shape[1])]
    return [X[name] for name in X.columns]


def _is_numeric(column: Any) -> bool:
    kind = getattr(column.dtype, "kind", None)  # numpy and pandas
    if kind is not None:
        return kind in "iufb" and str(column.dtype) != "category"
    return column.dtype.is_numeric() or str(column.dtype) == "Boolean"  # polars


def _values(column: Any) -> list[Any]:
    return column.to_list()


def _is_missing(value: Any) -> bool:
    return value is None or value != value or str(value) in ("<NA>", "NaT")


def _numbers(column: Any, name: str) -> NDArray[np.float64]:
    try:
        if hasattr(column, "iloc"):
            return column.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {name!r} held numbers when the model was fitted, but now holds something else ({error}). "
            "Convert it to numbers first."
        ) from error


def find_columns(columns: Any, n_features: int, names: NDArray[Any] | None, parameter: str) -> NDArray[np.intp]:
    """Numbers of the columns that a user gave by name, number or mask."""
    given = (
        [columns] if isinstance(columns, str) else [getattr(item, "item", lambda item=item: item)() for item in columns]
    )
    if given and all(isinstance(item, bool) for item in given):
        if len(given) != n_features:
            raise ValueError(
                f"{parameter} is a mask of {len(given)} columns, but X has {n_features}. Give one entry a column."
            )
        return np.flatnonzero(given)
    found = []
    known = {} if names is None else {name: k for k, name in enumerate(names)}
    for item in given:
        k = known.get(item, item) if not isinstance(item, int) else item
        if not isinstance(k, int) or not -n_features <= k < n_features:
            hint = f"one of {list(known)[:8]}" if known else f"a number from 0 to {n_features - 1}"
            raise ValueError(f"{parameter} names the column {item!r}, which X does not have. Use {hint}.")
        found.append(k % n_features)
    return np.array(sorted(set(found)), dtype=np.intp)


def read_groups(feature_groups: Any, n_features: int, names: NDArray[Any] | None) -> list[NDArray[np.intp]]:
    """Lists of features that enter and leave together; a feature that is in no group is a group of its own.

    ``feature_groups`` is a list of lists of columns, a mapping from a group's name to its columns, or one label a column.
    """
    if feature_groups is None:
        return [np.array([k]) for k in range(n_features)]
    if isinstance(feature_groups, Mapping):
        lists = list(feature_groups.values())
    elif all(isinstance(item, Sequence | np.ndarray) and not isinstance(item, str) for item in feature_groups):
        lists = list(feature_groups)
    else:
        labels = np.asarray(feature_groups)
        if labels.shape != (n_features,):
            raise ValueError(
                f"feature_groups has {len(labels)} labels, but X has {n_features} columns. Give one label a column, or a list "
                "of lists of columns."
            )
        lists = [np.flatnonzero(labels == label) for label in dict.fromkeys(labels.tolist())]
    if any(len(columns) == 0 for columns in lists):
        raise ValueError("feature_groups holds an empty group. Leave it out, or give it columns.")
    groups = [find_columns(columns, n_features, names, "feature_groups") for columns in lists]
    taken = np.bincount(np.concatenate(groups), minlength=n_features) if groups else np.zeros(n_features, dtype=int)
    if taken.max(initial=0) > 1:
        k = int(taken.argmax())
        raise ValueError(f"feature_groups puts column {k if names is None else names[k]!r} into two groups. Use one.")
    return sorted([*groups, *(np.array([k]) for k in np.flatnonzero(taken == 0))], key=lambda group: int(group[0]))


def read_costs(feature_costs: Any, n_features: int, names: NDArray[Any] | None) -> NDArray[np.float64]:
    """Cost of each column, from an array, a mapping or a Series; columns that a mapping leaves out cost 1."""
    if hasattr(feature_costs, "to_dict") and names is not None:
        feature_costs = feature_costs.to_dict()
    if isinstance(feature_costs, Mapping):
        costs = np.ones(n_features)
        for column, cost in feature_costs.items():
            costs[find_columns([column], n_features, names, "feature_costs")] = cost
    else:
        costs = np.asarray(feature_costs, dtype=np.float64)
    if costs.shape != (n_features,):
        raise ValueError(
            f"feature_costs has {costs.size} entries, but X has {n_features} columns. Give one cost a column."
        )
    if not np.all(costs > 0):
        worst = costs[~(costs > 0)][0]
        raise ValueError(
            f"feature_costs holds {worst:g}; costs must be positive numbers. Use always_select for columns that are "
            "free, and infinity for columns never to be used."
        )
    if not np.isfinite(costs).any():
        raise ValueError("feature_costs is infinite for every column, so none can be used. Give some a finite cost.")
    return costs
