"""The accuracy-against-number-of-features curve that a fit leaves behind."""

import html
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.model.soft_trees import SoftTrees

_COLUMNS = ("n_features", "val_score", "val_score_se", "train_loss", "cost")


@dataclass(frozen=True, repr=False)
class FeaturePath:
    """One entry for each size that the path visited, from all features down.

    Attributes
    ----------
    n_features : array of int
        Number of input features in use.
    val_score : array of float
        Fraction of the loss that the ensemble explains on held-out rows: 1 is perfect, 0 no better than predicting the
        mean (for squared error this is R squared, for classes scikit-learn's D squared of the log loss).
    val_score_se : array of float
        Standard error of that score over the held-out rows.
    train_loss : array of float
        Mean training loss of the size's last epoch.
    cost : array of float
        Total cost of the features (their number, where no costs were given).
    supports : list of arrays of int
        The features.
    models : list of SoftTrees
        The ensemble at each size.
    chosen : int
        Entry of the size that was chosen.
    final : SoftTrees
        The final model at that size.
    """

    n_features: NDArray[np.intp]
    val_score: NDArray[np.float64]
    val_score_se: NDArray[np.float64]
    train_loss: NDArray[np.float64]
    cost: NDArray[np.float64]
    supports: list[NDArray[np.intp]]
    models: list[SoftTrees]
    chosen: int
    final: SoftTrees

    def __len__(self) -> int:
        return len(self.n_features)

    def __repr__(self) -> str:
        chosen = self.chosen
        score = f"{self.val_score[chosen]:.3f} ± {self.val_score_se[chosen]:.3f}"
        return (
            f"<FeaturePath of {len(self)} sizes, {self.n_features.max()} to {self.n_features.min()} features; chosen: "
            f"{self.n_features[chosen]} features, validation score {score}>"
        )

    def _repr_html_(self) -> str:
        scores = [f"{score:.3f} ± {error:.3f}" for score, error in zip(self.val_score, self.val_score_se, strict=True)]
        rows = [
            f"<tr><td>{n}</td><td>{score}</td><td>{cost:g}</td><td>{'chosen' if i == self.chosen else ''}</td></tr>"
            for i, (n, score, cost) in enumerate(zip(self.n_features, scores, self.cost, strict=True))
        ]
        head = "<tr><th>features</th><th>validation score</th><th>cost</th><th></th></tr>"
        table = f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
        return f"<div><p>{html.escape(repr(self))}</p>{table}</div>"

    def find(self, n_features: int | None = None, cost: float | None = None) -> int:
        """Entry of the largest size with at most this many features, or with at most this cost."""
        if cost is None:
            sizes, limit, asked = self.n_features.astype(float), float(n_features or 0), f"{n_features} features"
        else:
            sizes, limit, asked = self.cost, cost * (1 + 1e-9), f"a cost of {cost:g}"
        fits = np.flatnonzero(sizes <= limit)
        if len(fits) == 0:
            least = f"{sizes.min():g}"
            raise ValueError(f"The path has no model with {asked}; the smallest has {least}. Ask for at least {least}.")
        return int(fits[0])

    def without_repeats(self) -> "FeaturePath":
        """One entry for each support: with unequal costs, a lower budget may take nothing away.

        Of equal ones the chosen stays, else the last, which was trained longest.
        """
        new = [True, *(not np.array_equal(*pair) for pair in pairwise(self.supports))]
        of_support = {int(number): i for i, number in enumerate(np.cumsum(new))}
        of_support[int(np.cumsum(new)[self.chosen])] = self.chosen
        kept = list(of_support.values())
        return replace(
            self,
            **{name: getattr(self, name)[kept] for name in _COLUMNS},
            supports=[self.supports[i] for i in kept],
            models=[self.models[i] for i in kept],
            chosen=kept.index(self.chosen),
        )

    def to_frame(self) -> Any:
        """The curve as a pandas frame, one row a size.

        Returns
        -------
        pandas.DataFrame
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install 'skinnytrees[frames]'.") from error
        return pd.DataFrame({name: getattr(self, name) for name in _COLUMNS})

    def plot(self, ax: Any = None) -> Any:
        """Draw validation score against number of features, the chosen size marked.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a new figure.

        Returns
        -------
        matplotlib Axes
        """
        from skinnytrees.plots.style import plot_path

        return plot_path(self, ax)
