"""The path that a system leaves behind: one entry per setting that it tried."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import import_optional


@dataclass(frozen=True)
class PathEntry:
    """One setting of a path.

    Attributes
    ----------
    n_features : int
        Number of features in use.
    support : array of int
        The features.
    setting : dict
        The parameters that differ between entries, such as ``{"alpha": 0.1}``.
    val_score : float
        Score on validation rows (see ``validation_score``); NaN where there were none.
    """

    n_features: int
    support: NDArray[np.intp]
    setting: dict[str, float]
    val_score: float


@dataclass(frozen=True)
class SelectionPath:
    """All entries of a path in the order in which they were fitted, and the one that was chosen (None where none met the budget).

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines.selection_path import PathEntry, SelectionPath, best_entry
    >>> entries = [PathEntry(1, np.array([3]), {"alpha": 1.0}, 0.7), PathEntry(2, np.array([0, 3]), {"alpha": 0.1}, 0.8)]
    >>> path = SelectionPath(tuple(entries), best_entry(entries, 2))
    >>> len(path), path.chosen, path.n_features.tolist()
    (2, 1, [1, 2])
    """

    entries: tuple[PathEntry, ...]
    chosen: int | None

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[PathEntry]:
        return iter(self.entries)

    def __getitem__(self, index: int) -> PathEntry:
        return self.entries[index]

    @property
    def n_features(self) -> NDArray[np.intp]:
        """Number of features of each entry."""
        return np.array([entry.n_features for entry in self.entries], dtype=np.intp)

    @property
    def val_score(self) -> NDArray[np.float64]:
        """Validation score of each entry."""
        return np.array([entry.val_score for entry in self.entries])

    @property
    def supports(self) -> list[NDArray[np.intp]]:
        """Features of each entry."""
        return [entry.support for entry in self.entries]

    def to_frame(self) -> Any:
        """The path as a pandas frame, one row per entry.

        Returns
        -------
        pandas.DataFrame
        """
        pd = import_optional("pandas", "to_frame()", "frames")
        return pd.DataFrame(
            [{"n_features": e.n_features, **e.setting, "val_score": e.val_score, "support": e.support} for e in self]
        )


def best_entry(entries: list[PathEntry], budget: int) -> int | None:
    """The best validated entry with at least one feature and at most ``budget``; ties go to the fewest features.

    None where no entry fits. Among entries without a score, the largest that fits is taken.
    """
    fits = [i for i, entry in enumerate(entries) if 0 < entry.n_features <= budget]
    if not fits:
        return None
    if all(np.isnan(entries[i].val_score) for i in fits):
        return max(fits, key=lambda i: (entries[i].n_features, -i))
    return max(fits, key=lambda i: (np.nan_to_num(entries[i].val_score, nan=-np.inf), -entries[i].n_features, -i))
