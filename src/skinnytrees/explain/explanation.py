"""What ``model.explain`` gives: contributions of the selected features to the score of every row."""

import importlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import import_optional, refuse_unless
from skinnytrees.explain.games import Game
from skinnytrees.explain.interactions import interaction_strengths
from skinnytrees.explain.reading import Columns


@dataclass(frozen=True)
class Explanation:
    """Contributions of the selected features; with the base value they add up to the score of each row.

    Attributes
    ----------
    values : array of shape (n_rows, n_selected) or (n_rows, n_selected, n_outputs)
        Shapley values; there is a last axis if a model has more than two classes, or several targets.
    base_values : float or array of shape (n_outputs,)
        Mean score of the background rows.
    data : array of shape (n_rows, n_selected)
        Values of the selected features; of a categorical column, the codes of its categories; ``columns.words`` has their names.
    columns : Columns
        Names of the features and of the categories.
    output_names : list
        The class of each output (of two classes, the second one), or the number of each target.
    output : {"raw", "probability", "prediction"}
        What is explained.
    method : {"exact", "sampling"}
        How the values were computed.
    standard_errors : array of the shape of ``values``
        Standard errors of sampling; zero where values are exact.
    is_classifier : bool
        Whether the outputs belong to classes.
    game : Game
        What the values were computed from; ``interactions`` uses it.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from skinnytrees import SkinnyTreesClassifier
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> model = SkinnyTreesClassifier(3, max_epochs=5, random_state=0).fit(X, y)
    >>> explanation = model.explain(X[:4])
    >>> explanation.values.shape  # rows, selected features, classes
    (4, 3, 3)
    >>> bool(abs(explanation.scores - model.decision_function(X[:4])).max() < 1e-6)
    True
    """

    values: NDArray[np.float64]
    base_values: Any
    data: NDArray[np.float64]
    columns: Columns
    output_names: list[Any]
    output: str
    method: str
    standard_errors: NDArray[np.float64]
    is_classifier: bool
    game: Game

    def __repr__(self) -> str:
        error = float(np.sqrt(np.mean(np.square(self.standard_errors)))) if self.standard_errors.size else 0.0
        how = "exact" if self.method == "exact" else f"sampling, root mean square standard error {error:.2g}"
        shape = " x ".join(map(str, self.values.shape))
        return f"Explanation({shape} contributions to the {self.output} output; {how})"

    @property
    def feature_names(self) -> list[str]:
        """Names of the selected features."""
        return self.columns.names

    @property
    def scores(self) -> NDArray[np.float64]:
        """What the contributions add up to: the explained score of each row."""
        return self.base_values + self.values.sum(axis=1)

    def of(self, output: Any = None) -> "Explanation":
        """The explanation of one output, with values of shape (n_rows, n_selected).

        Parameters
        ----------
        output : class label, number of a target, or None
            Which one; None where there is only one.

        Returns
        -------
        Explanation
        """
        if self.values.ndim == 2:
            return self
        names = [str(name) for name in self.output_names]
        refuse_unless(
            output is not None and str(output) in names,
            f"The explanation has {len(names)} outputs, and output={output!r} is none of them. Choose one of {names}.",
        )
        c = names.index(str(output))
        return replace(
            self,
            values=self.values[..., c],
            base_values=self.base_values[c],
            standard_errors=self.standard_errors[..., c],
            output_names=[self.output_names[c]],
            game=self.game.only(c),
        )

    def importance(self) -> NDArray[np.float64]:
        """Mean absolute contribution of each feature, summed over outputs."""
        size = np.abs(self.values).mean(axis=0) if len(self.values) else np.zeros(self.values.shape[1:])
        return size if size.ndim == 1 else size.sum(axis=1)

    def interactions(self, max_features: int = 20, max_rows: int = 100) -> Any:
        r"""How strongly pairs of features act together, by Friedman's H.

        For features f and g, let :math:`e(x) = v(\{f, g\}) - v(\{f\}) - v(\{g\}) + v(\emptyset)`, where v is the mean score over
        background rows whose named features are replaced by those of row x: the partial dependence. The strength of a pair is the
        standard deviation of e over rows, in the unit of the score; H is its ratio to the standard deviation of
        :math:`v(\{f, g\})`: 0 means that effects add up, 1 that all the effect of the pair is joint (Friedman & Popescu 2008).
        Several outputs are taken together (root mean square).

        Parameters
        ----------
        max_features : int, default=20
            Pairs of this many features of largest mean absolute contribution are computed.
        max_rows : int, default=100
            Rows to use, evenly spaced.

        Returns
        -------
        pandas.DataFrame
            ``feature``, ``with``, ``strength`` and ``H`` of each pair, the strongest first.
        """
        pd = import_optional("pandas", "interactions()", "frames")
        kept = np.sort(np.argsort(-self.importance(), kind="stable")[:max_features])
        pairs = interaction_strengths(self.game, kept, max_rows)
        names = self.columns.names
        frame = pd.DataFrame(
            {
                "feature": [names[pair.first] for pair in pairs],
                "with": [names[pair.second] for pair in pairs],
                "strength": [pair.strength for pair in pairs],
                "H": [pair.H for pair in pairs],
            }
        )
        return frame.sort_values("strength", ascending=False, kind="stable", ignore_index=True)

    def to_frame(self) -> Any:
        """Contributions as a pandas frame, one row per explained row and one column per feature.

        Returns
        -------
        pandas.DataFrame
            With several outputs, columns are pairs of an output and a feature.
        """
        pd = import_optional("pandas", "to_frame()", "frames")
        if self.values.ndim == 2:
            return pd.DataFrame(self.values, columns=self.feature_names)
        by_output = {name: pd.DataFrame(self.values[..., c], columns=self.feature_names)
                     for c, name in enumerate(self.output_names)}  # fmt: skip
        return pd.concat(by_output, axis=1)

    def to_shap(self) -> Any:
        """The same as a ``shap.Explanation``, for the plots of that package.

        Returns
        -------
        shap.Explanation
        """
        try:
            shap = importlib.import_module("shap")
        except ImportError as error:
            raise ImportError("to_shap() needs shap: pip install shap.") from error
        base = np.broadcast_to(self.base_values, (len(self.values), *np.shape(self.base_values)))
        return shap.Explanation(
            self.values.copy(),
            base_values=base.copy(),
            data=self.data.copy(),
            display_data=self.columns.in_words(self.data),
            feature_names=self.feature_names,
            output_names=None if self.values.ndim == 2 else [str(name) for name in self.output_names],
        )

    # --- pictures ---------------------------------------------------------------------------------------------------

    def plot_bar(self, ax: Any = None, **options: Any) -> Any:
        """Draw the mean absolute contribution of each feature; see :class:`skinnytrees.plots.ContributionBarDisplay`."""
        from skinnytrees.plots import ContributionBarDisplay

        return ContributionBarDisplay.from_explanation(self, ax=ax, **options)

    def plot_beeswarm(self, ax: Any = None, **options: Any) -> Any:
        """Draw every contribution as a point; see :class:`skinnytrees.plots.BeeswarmDisplay`."""
        from skinnytrees.plots import BeeswarmDisplay

        return BeeswarmDisplay.from_explanation(self, ax=ax, **options)

    def plot_waterfall(self, row: int = 0, ax: Any = None, **options: Any) -> Any:
        """Draw how the score of one row adds up; see :class:`skinnytrees.plots.WaterfallDisplay`."""
        from skinnytrees.plots import WaterfallDisplay

        return WaterfallDisplay.from_explanation(self, row=row, ax=ax, **options)
