"""The picture of a path: a score against the number of features, or against their cost."""

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless
from skinnytrees.path.scoring import find_scorer
from skinnytrees.plots.style import clean, new_axes, palette, whole_numbers

if TYPE_CHECKING:
    from skinnytrees.model.feature_path import FeaturePath

_LABELS = {
    "val_score": "validation score",
    "train_loss": "training loss",
    "n_features": "number of features",
    "cost": "cost of the features",
}
# Sizes whose largest is more than this many times the smallest are easier to read on a log axis.
_LOG_FROM = 20
# On a log axis that is shorter than this, there is room for ticks between the powers of ten.
_FEW_DECADES = 1000


class FeaturePathDisplay:
    """Score against size.

    Parameters
    ----------
    x, y : arrays of shape (n_sizes,)
        Sizes or costs, and scores.
    y_error : array of shape (n_sizes,) or None
        Standard errors of the scores.
    chosen : int
        Entry of the chosen size.
    n_chosen : int
        Number of features there.
    budget : float or None
        Where to draw the budget line.
    x_label, y_label : str
        Of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from sklearn.datasets import load_wine
    >>> from skinnytrees import SkinnyTreesClassifier
    >>> from skinnytrees.plots import FeaturePathDisplay
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SkinnyTreesClassifier(5, max_epochs=2, random_state=0).fit(X, y)
    >>> FeaturePathDisplay.from_estimator(model).ax_.get_xlabel()
    'number of features'
    """

    def __init__(
        self, x: NDArray[Any], y: NDArray[Any], y_error: NDArray[Any] | None, chosen: int, n_chosen: int,
        budget: float | None, x_label: str, y_label: str,
    ) -> None:  # fmt: skip
        self.x, self.y, self.y_error = x, y, y_error
        self.chosen, self.n_chosen, self.budget = chosen, n_chosen, budget
        self.x_label, self.y_label = x_label, y_label

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, metric: str | None = None, x: str | None = None,
        ax: Any = None,
    ) -> "FeaturePathDisplay":  # fmt: skip
        """Draw the path of a fitted estimator.

        Parameters
        ----------
        estimator : SkinnyTreesClassifier or SkinnyTreesRegressor
            Fitted with ``penalty="path"``.
        X, y : arrays or None
            Rows to score every size on, with ``metric``.
        metric : str or None, default=None
            "val_score", "train_loss" or, with X and y, the name of a scikit-learn scorer. None takes the validation score, or the
            training loss where no rows were held out.
        x : {"n_features", "cost"} or None, default=None
            The horizontal axis; None takes costs where they differ from the number of features.
        ax : matplotlib Axes or None
            Where to draw; None makes a new figure.

        Returns
        -------
        FeaturePathDisplay
        """
        path = estimator.path_
        if metric is None or metric in _LABELS:
            refuse_unless(
                X is None and y is None,
                f"X and y were given with metric={metric!r}, which the path knows already. Leave them out, or name a scorer, "
                "such as metric='roc_auc'.",
            )
            return cls.from_path(path, metric=metric, x=x, ax=ax)
        refuse_unless(
            X is not None and y is not None,
            f"metric={metric!r} is to be computed on rows, but there are none. Give X and y that were not trained on, or use "
            "metric='val_score'.",
        )
        score = find_scorer(metric, getattr(estimator, "classes_", None), "metric")
        scores = np.array([score(_at_entry(estimator, entry), X, y) for entry in range(len(path))])
        return cls._make(path, scores, None, f"{metric} on the given rows", x).plot(ax)

    @classmethod
    def from_path(
        cls, path: "FeaturePath", *, metric: str | None = None, x: str | None = None, ax: Any = None
    ) -> "FeaturePathDisplay":
        """Draw a path; see :meth:`from_estimator`."""
        held_out = not bool(np.isnan(path.val_score).all())
        metric = metric or ("val_score" if held_out else "train_loss")
        refuse_unless(
            metric in ("val_score", "train_loss"),
            f"metric={metric!r} is not known to the path. Use 'val_score' or 'train_loss', or give rows: "
            "FeaturePathDisplay.from_estimator(model, X, y, metric='roc_auc').",
        )
        refuse_unless(
            metric != "val_score" or held_out,
            "metric='val_score' was asked for, but no rows were held out. Use metric='train_loss', or fit with "
            "validation_fraction=0.2.",
        )
        error = path.val_score_se if metric == "val_score" else None
        return cls._make(path, getattr(path, metric), error, _LABELS[metric], x).plot(ax)

    @classmethod
    def _make(cls, path: Any, y: NDArray[Any], error: Any, y_label: str, x: str | None) -> "FeaturePathDisplay":
        refuse_unless(x in (None, "n_features", "cost"), f"x={x!r} is no axis of the path. Use 'n_features' or 'cost'.")
        costs_differ = not np.array_equal(path.cost, path.n_features)
        x = x or ("cost" if costs_differ else "n_features")
        # A budget limits costs, which are numbers of features where no costs were given.
        has_budget = path.budget is not None and (x == "cost" or not costs_differ) and path.budget < path.cost.max()
        return cls(
            getattr(path, x), y, error, path.chosen_index, int(path.n_features[path.chosen_index]),
            path.budget if has_budget else None, _LABELS[x], y_label,
        )  # fmt: skip

    def plot(self, ax: Any = None) -> "FeaturePathDisplay":
        """Draw on these axes, or on a new figure's.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw.

        Returns
        -------
        FeaturePathDisplay
        """
        ax = new_axes(ax)
        colours = palette(ax)
        if self.y_error is not None:
            low, high = self.y - self.y_error, self.y + self.y_error
            ax.fill_between(self.x, low, high, color=colours.pale, alpha=0.4, linewidth=0, label="± 1 standard error")
        ax.plot(self.x, self.y, "o-", color=colours.ink, markersize=3.5, linewidth=1.2)
        at = self.x[self.chosen], self.y[self.chosen]
        features = "feature" if self.n_chosen == 1 else "features"
        ax.plot(*at, "o", color=colours.accent, markersize=9, label=f"chosen: {self.n_chosen} {features}")
        if self.budget is not None:
            ax.axvline(
                self.budget, color=colours.accent, linestyle=":", linewidth=1.2, label=f"budget: {self.budget:g}"
            )
        self._scale(ax)
        ax.set_xlabel(self.x_label)
        ax.set_ylabel(self.y_label)
        clean(ax)
        ax.legend(frameon=False, loc="best")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _scale(self, ax: Any) -> None:
        from matplotlib.ticker import LogLocator

        positive = self.x[self.x > 0]
        if len(positive) and self.x.max() > _LOG_FROM * positive.min():
            ax.set_xscale("log" if len(positive) == len(self.x) else "symlog")
            if len(positive) == len(self.x):
                is_short = self.x.max() < _FEW_DECADES * positive.min()
                ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if is_short else (1,)))
            ax.xaxis.set_major_formatter("{x:,g}")
            ax.minorticks_off()
        elif np.all(self.x == np.round(self.x)):
            whole_numbers(ax.xaxis)


def _at_entry(estimator: Any, entry: int) -> Any:
    """The estimator at one entry of its path; ``at`` finds only one of those that have the same number of features."""
    path, other = estimator.path_, copy.copy(estimator)
    other._adopt_model(path.final_model if entry == path.chosen_index else path.models[entry])
    return other
