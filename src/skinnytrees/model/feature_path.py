"""The accuracy-against-number-of-features curve that a fit leaves behind."""

import html
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import import_optional, refuse_unless
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
    chosen_index : int
        Entry of the size that was chosen.
    final_model : SoftTrees
        The final model at that size.
    feature_names : array of str or None
        Names of the columns of X, where they have any.
    budget : float or None
        Largest cost that was allowed.
    """

    n_features: NDArray[np.intp]
    val_score: NDArray[np.float64]
    val_score_se: NDArray[np.float64]
    train_loss: NDArray[np.float64]
    cost: NDArray[np.float64]
    supports: list[NDArray[np.intp]]
    models: list[SoftTrees]
    chosen_index: int
    final_model: SoftTrees
    feature_names: NDArray[Any] | None = None
    budget: float | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not fit together."""
        n_sizes = len(self.models)
        columns = [getattr(self, name) for name in _COLUMNS]
        refuse_unless(
            n_sizes > 0 and len(self.supports) == n_sizes and all(column.shape == (n_sizes,) for column in columns),
            f"A path of {n_sizes} models and {len(self.supports)} supports has columns of the lengths {[*map(len, columns)]}.",
        )
        numbers = all(column.dtype == np.float64 for column in columns[1:]) and columns[0].dtype == np.intp
        in_range = isinstance(self.chosen_index, int) and 0 <= self.chosen_index < n_sizes
        refuse_unless(
            numbers and in_range, f"chosen_index={self.chosen_index!r} is none of the {n_sizes} sizes of a path."
        )
        for n_features, support, model in zip(self.n_features, self.supports, self.models, strict=True):
            is_sorted = support.ndim == 1 and support.dtype == np.intp and bool(np.all(support[1:] > support[:-1]))
            refuse_unless(
                is_sorted and len(support) == n_features and bool(np.isin(model.features, support).all()),
                f"A size of a path has {n_features} features, but another support or a model that reads others.",
            )
        outputs = {len(model.base) for model in (*self.models, self.final_model)}
        refuse_unless(len(outputs) == 1, f"The models of a path have different numbers of outputs: {sorted(outputs)}.")

    def __len__(self) -> int:
        return len(self.n_features)

    def __repr__(self) -> str:
        chosen = self.chosen_index
        score = f"{self.val_score[chosen]:.3f} ± {self.val_score_se[chosen]:.3f}"
        return (
            f"<FeaturePath of {len(self)} sizes, {self.n_features.max()} to {self.n_features.min()} features; chosen: "
            f"{self.n_features[chosen]} features, validation score {score}>"
        )

    def _repr_html_(self) -> str:
        scores = [f"{score:.3f} ± {error:.3f}" for score, error in zip(self.val_score, self.val_score_se, strict=True)]
        rows = [
            f"<tr><td>{n}</td><td>{score}</td><td>{cost:g}</td><td>{'chosen' if i == self.chosen_index else ''}</td></tr>"
            for i, (n, score, cost) in enumerate(zip(self.n_features, scores, self.cost, strict=True))
        ]
        head = "<tr><th>features</th><th>validation score</th><th>cost</th><th></th></tr>"
        table = f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
        return f"<div><p>{html.escape(repr(self))}</p>{table}</div>"

    def find(self, n_features: int | None = None, cost: float | None = None) -> int:
        """Entry of the largest size with at most this many features, or with at most this cost."""
        if cost is None:
            refuse_unless(
                _is_number(n_features, Integral),
                f"n_features={n_features!r} is not a whole number. Ask for a number of features, such as "
                f"{self.n_features[self.chosen_index]}.",
            )
            sizes, limit, asked = self.n_features.astype(float), float(n_features or 0), f"{n_features} features"
        else:
            refuse_unless(
                _is_number(cost, Real),
                f"cost={cost!r} is not a number. Ask for a total cost, such as {self.cost[self.chosen_index]:g}.",
            )
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
        of_support[int(np.cumsum(new)[self.chosen_index])] = self.chosen_index
        kept = list(of_support.values())
        return replace(
            self,
            **{name: getattr(self, name)[kept] for name in _COLUMNS},
            supports=[self.supports[i] for i in kept],
            models=[self.models[i] for i in kept],
            chosen_index=kept.index(self.chosen_index),
        )

    def to_frame(self) -> Any:
        """The path as a pandas frame, one row per size.

        Returns
        -------
        pandas.DataFrame
            ``n_features``, ``val_score``, ``val_score_se``, ``train_loss`` and ``cost`` of each size; the names of the columns
            that were ``entering`` and ``leaving`` since the size before (``x3`` for the column 3 of a table without names), as
            tuples; and which size was ``chosen``.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from skinnytrees import SkinnyTreesClassifier
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> model = SkinnyTreesClassifier(3, max_epochs=2, random_state=0).fit(X, y)
        >>> frame = model.path_.to_frame()
        >>> frame.columns.tolist()
        ['n_features', 'val_score', 'val_score_se', 'train_loss', 'cost', 'entering', 'leaving', 'chosen']
        >>> len(frame.entering[0])  # the path begins with all columns
        13
        """
        pd = import_optional("pandas", "to_frame()", "frames")
        before = [np.array([], dtype=np.intp), *self.supports[:-1]]
        steps = list(zip(before, self.supports, strict=True))
        return pd.DataFrame(
            {
                **{name: getattr(self, name) for name in _COLUMNS},
                "entering": [self._names(np.setdiff1d(after, earlier)) for earlier, after in steps],
                "leaving": [self._names(np.setdiff1d(earlier, after)) for earlier, after in steps],
                "chosen": np.arange(len(self)) == self.chosen_index,
            }
        )

    def _names(self, features: NDArray[np.intp]) -> tuple[str, ...]:
        known = self.feature_names
        return tuple(f"x{k}" if known is None else str(known[k]) for k in features.tolist())

    def plot(self, ax: Any = None, *, metric: str | None = None, x: str | None = None) -> Any:
        """Draw the score against the number of features or their cost, with the chosen size and the budget.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a new figure.
        metric : {"val_score", "train_loss"} or None, default=None
            What to draw; None takes the validation score, or the training loss where no rows were held out. Other metrics need
            rows: ``skinnytrees.plots.FeaturePathDisplay.from_estimator(model, X, y, metric="roc_auc")``.
        x : {"n_features", "cost"} or None, default=None
            The horizontal axis; None takes costs where they differ from the number of features.

        Returns
        -------
        matplotlib Axes
        """
        from skinnytrees.plots.feature_path import FeaturePathDisplay

        return FeaturePathDisplay.from_path(self, metric=metric, x=x, ax=ax).ax_


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
