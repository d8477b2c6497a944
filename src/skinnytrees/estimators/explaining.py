"""Methods of estimators that explain and draw. The work is done in the layers above, which are imported when they are needed."""

from typing import Any

from sklearn.utils.validation import check_is_fitted


class Explains:
    """Methods that explain a fitted estimator."""

    def explain(
        self, X: Any, background: Any = None, *, output: str = "raw", method: str = "auto", max_error: float = 0.01,
        random_state: int = 0,
    ) -> Any:  # fmt: skip
        """Contributions of the selected features to the score of each row: interventional Shapley values.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows to explain.
        background : array or frame, int or None, default=None
            Rows that features outside a coalition are taken from; the explanation is of how a row differs from them. None takes
            up to 100 rows of X, evenly spaced; an int takes up to this many. Give training rows where X has only a few rows.
        output : {"raw", "probability", "prediction"}, default="raw"
            What the contributions add up to: the raw score (``decision_function``; of a regressor the predicted value, with a
            Poisson loss its logarithm), the probability of a class, or what the regressor's ``predict`` gives.
        method : {"auto", "exact", "sampling"}, default="auto"
            "exact" evaluates all coalitions; "sampling" averages over random orders of the features and gives standard
            errors. "auto" is exact for up to 12 selected features while that takes a few seconds, and samples otherwise.
        max_error : float, default=0.01
            Sampling stops when the root mean square of the standard errors is at most this fraction of the standard deviation
            of the explained scores.
        random_state : int, default=0
            Seed of the sampled orders.

        Returns
        -------
        Explanation
            With ``values``, ``base_values``, ``standard_errors``, plots and ``to_shap()``.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from skinnytrees import SkinnyTreesClassifier
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> model = SkinnyTreesClassifier(3, max_epochs=5, random_state=0).fit(X, y)
        >>> explanation = model.explain(X[:5], background=X[::10])
        >>> explanation.values.shape, explanation.method
        ((5, 3), 'exact')
        >>> bool(abs(explanation.scores - model.decision_function(X[:5])).max() < 1e-9)
        True
        """
        from skinnytrees.explain import explain

        check_is_fitted(self, "model_")
        return explain(
            self, X, background, output=output, method=method, max_error=max_error, random_state=random_state,
            n_jobs=self.n_jobs,  # type: ignore[attr-defined]
        )  # fmt: skip

    def plot_effects(self, X: Any, background: Any = None, *, output: Any = None, **options: Any) -> Any:
        """Draw the partial dependence on every selected column, and on the pairs that act together most strongly.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows whose values are drawn as a rug, and which span the axes.
        background, output, **options
            As in :meth:`skinnytrees.plots.EffectsDisplay.from_estimator`.

        Returns
        -------
        EffectsDisplay
        """
        from skinnytrees.plots import EffectsDisplay

        check_is_fitted(self, "model_")
        return EffectsDisplay.from_estimator(self, X, background, output=output, **options)

    def plot_history(self, ax: Any = None) -> Any:
        """Draw loss and number of features against epochs (the paper's Figure 2), for fits with a penalty object.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a new figure.

        Returns
        -------
        HistoryDisplay
        """
        from skinnytrees.plots import HistoryDisplay

        check_is_fitted(self, "model_")
        return HistoryDisplay.from_estimator(self, ax=ax)
