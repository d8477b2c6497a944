"""Best subset selection for linear, logistic and multinomial models: the linear counterpart of the l0 penalty.

Source: Zhu et al. 2020 (splicing); package ``abess``, whose licence is the GPL-3: it is used where it is installed, and no part
of it is in this library. Ours: the sizes that are tried, and the choice among them by validation rows.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from skinnytrees.baselines.base import (
    CONSTRAINTS,
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    Fitted,
    Problem,
    Sample,
)
from skinnytrees.baselines.selection_path import PathEntry, SelectionPath, best_entry
from skinnytrees.exceptions import import_optional

_MOST_SIZES = 12


class _BestSubset(Baseline):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS
    _standardize = True
    _needs_validation = True
    _needs = ("abess",)
    _extra = "abess"

    def __init__(self, feature_budget=None, *, validation_fraction=0.2, random_state=None, n_jobs=None):  # type: ignore[no-untyped-def]
        self.feature_budget = feature_budget
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit_problem(self, problem: Problem) -> Fitted:
        most = min(problem.budget, len(np.unique(problem.feature)))
        sizes = np.unique(np.geomspace(1, most, _MOST_SIZES).round().astype(int)).tolist()
        entries = []
        for size in sizes:
            model = self._fit_size(problem, problem.train, size)
            support = problem.features_of(model.used)
            entries.append(PathEntry(len(support), support, {"size": size}, problem.score(model, problem.val)))
        chosen = best_entry(entries, problem.budget)
        support = entries[0].support if chosen is None else entries[chosen].support
        if len(support) == 0:
            support = problem.top(problem.per_feature(np.ones(len(problem.feature))), 1)
        restricted = problem.restrict(support)
        model = self._fit_size(restricted, restricted.rows, len(support))
        importances = np.zeros(problem.n_features)
        importances[support] = restricted.per_feature(np.linalg.norm(model.coef, axis=1))[support]
        return Fitted(support, model, path=SelectionPath(tuple(entries), chosen), importances=importances)

    def _fit_size(self, problem: Problem, sample: Sample, size: int) -> "SubsetModel":
        abess = import_optional("abess", type(self).__name__, self._extra)
        kind = {0: "LinearRegression", 2: "LogisticRegression"}.get(problem.n_classes, "MultinomialRegression")
        group = np.unique(problem.feature, return_inverse=True)[1].tolist()
        model = getattr(abess, kind)(support_size=size, group=group, thread=problem.n_jobs)
        return SubsetModel(model.fit(sample.X, sample.y, sample_weight=sample.weight), sample.X.shape[1])


class SubsetModel:
    """Coefficients (columns, outputs) with the methods of a scikit-learn model; the package drops axes of length one."""

    def __init__(self, fit: Any, n_columns: int) -> None:
        self.coef = np.asarray(fit.coef_, dtype=np.float64).reshape(n_columns, -1)
        self.intercept = np.asarray(fit.intercept_, dtype=np.float64).ravel()

    @property
    def used(self) -> NDArray[np.bool_]:
        """Which columns have a coefficient."""
        return np.any(self.coef != 0, axis=1)

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predictions of a regression."""
        return X @ self.coef[:, 0] + self.intercept[0]

    def predict_proba(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of a classifier; for two classes there is one output."""
        score = X @ self.coef + self.intercept
        return np.asarray(softmax(np.hstack([np.zeros_like(score), score]) if score.shape[1] == 1 else score, axis=1))


class BestSubsetClassifier(_BestSubset, BaselineClassifier):
    """Logistic or multinomial regression on the best subset of at most K features.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    validation_fraction : float
        Fraction of the rows that is held out to choose the size by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    """


class BestSubsetRegressor(_BestSubset, BaselineRegressor):
    """Linear regression on the best subset of at most K features.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    validation_fraction : float
        Fraction of the rows that is held out to choose the size by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    """
