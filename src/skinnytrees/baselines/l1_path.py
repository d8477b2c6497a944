"""Linear reference models: l1 logistic regression and the lasso, along their paths.

Source: Tibshirani 1996; liblinear and coordinate descent as scikit-learn has them. Several classes are fitted one against the
rest, and a feature counts if one of them uses it. Ours: the path's grid, the choice by validation rows among the entries that
meet the budget, and the last fit with the chosen penalty on the selected features of all rows.
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import Lasso
from sklearn.utils._param_validation import Interval

from skinnytrees.baselines.base import (
    CONSTRAINTS,
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    Fitted,
    Problem,
    Sample,
)
from skinnytrees.baselines.l1_logistic import fit_l1_logistic
from skinnytrees.baselines.selection_path import PathEntry, SelectionPath, best_entry

# Weakest penalty of the path, as a fraction of the one at which every coefficient is zero.
_WEAKEST = 1e-3


class LinearModel:
    """Coefficients per output; scores become probabilities one against the rest, normalised to sum 1."""

    def __init__(self, coef: NDArray[np.float64], intercept: NDArray[np.float64]) -> None:
        self.coef_, self.intercept_ = coef, intercept

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predictions of a regression."""
        return X @ self.coef_[0] + self.intercept_[0]

    def predict_proba(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of a classifier; for two classes there is one row of coefficients."""
        score = expit(X @ self.coef_.T + self.intercept_)
        if score.shape[1] == 1:
            return np.hstack([1 - score, score])
        return (score + 1e-12) / (score + 1e-12).sum(axis=1, keepdims=True)


class _L1Path(Baseline):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "n_penalties": [Interval(Integral, 2, None, closed="left")],
    }
    _standardize = True
    _needs_validation = True

    def __init__(  # type: ignore[no-untyped-def]
        self, feature_budget=None, *, n_penalties=30, validation_fraction=0.2, random_state=None
    ):
        self.feature_budget = feature_budget
        self.n_penalties = n_penalties
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def _strongest(self, sample: Sample, problem: Problem) -> float:
        """The smallest penalty at which every coefficient is zero."""
        raise NotImplementedError

    def _fit_one(self, sample: Sample, penalty: float, problem: Problem) -> LinearModel:
        raise NotImplementedError

    def _fit_problem(self, problem: Problem) -> Fitted:
        strongest = self._strongest(problem.train, problem)
        entries, models = [], []
        for penalty in strongest * np.geomspace(0.95, _WEAKEST, self.n_penalties):
            model = self._fit_one(problem.train, penalty, problem)
            support = problem.features_of(np.any(model.coef_ != 0, axis=0))
            score = problem.score(model, problem.val)
            entries.append(PathEntry(len(support), support, {"penalty": float(penalty)}, score))
            models.append(model)
            if len(support) > 2 * problem.budget + 10:
                break  # weaker penalties would select even more features
        chosen = best_entry(entries, problem.budget)
        last = len(entries) - 1 if chosen is None else chosen
        importances = problem.per_feature(np.abs(models[last].coef_).sum(axis=0))
        support = problem.top(importances, problem.budget) if chosen is None else entries[chosen].support
        penalty = entries[last].setting["penalty"] if chosen is not None else strongest * _WEAKEST
        model = self._fit_one(problem.restrict(support).rows, penalty, problem)
        return Fitted(support, model, path=SelectionPath(tuple(entries), chosen), importances=importances)


class L1PathClassifier(_L1Path, BaselineClassifier):
    """l1 logistic regression on the best validated part of its path that meets the budget.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    n_penalties : int
        Penalties that are tried, from the one that leaves one feature to a thousandth of it. The path ends early once it has
        more than twice the features that the budget allows.
    validation_fraction : float
        Fraction of the rows that is held out to choose by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import L1PathClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = (X[:, 3] > 0).astype(int)
    >>> L1PathClassifier(1, random_state=0).fit(X, y).get_support(indices=True).tolist()
    [3]
    """

    def _strongest(self, sample: Sample, problem: Problem) -> float:
        weight = sample.weight / sample.weight.mean()
        in_class = np.asarray(sample.y[:, None] == np.arange(problem.n_classes), dtype=float)
        gap = weight[:, None] * (in_class - np.average(in_class, axis=0, weights=weight))
        return float(np.abs(gap.T @ sample.X).max())

    def _fit_one(self, sample: Sample, penalty: float, problem: Problem) -> LinearModel:
        targets = [1] if problem.n_classes == 2 else range(problem.n_classes)
        weight = sample.weight / sample.weight.mean()
        fits = [fit_l1_logistic(sample.X, sample.y == c, weight, 1 / penalty, problem.seed) for c in targets]
        return LinearModel(np.vstack([fit.coef_ for fit in fits]), np.concatenate([fit.intercept_ for fit in fits]))


class L1PathRegressor(_L1Path, BaselineRegressor):
    """The lasso on the best validated part of its path that meets the budget.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    n_penalties : int
        Penalties that are tried, from the one that leaves one feature to a thousandth of it. The path ends early once it has
        more than twice the features that the budget allows.
    validation_fraction : float
        Fraction of the rows that is held out to choose by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import L1PathRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> L1PathRegressor(1, random_state=0).fit(X, X[:, 3]).get_support(indices=True).tolist()
    [3]
    """

    def _strongest(self, sample: Sample, problem: Problem) -> float:
        fraction = sample.weight / sample.weight.sum()
        centred = sample.X - fraction @ sample.X
        correlation = np.abs((fraction * (sample.y - fraction @ sample.y)) @ centred).max()
        return max(float(correlation), np.finfo(float).tiny)  # a constant target

    def _fit_one(self, sample: Sample, penalty: float, problem: Problem) -> LinearModel:
        model = Lasso(alpha=penalty, max_iter=10_000, tol=1e-4).fit(sample.X, sample.y, sample_weight=sample.weight)
        return LinearModel(np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_))
