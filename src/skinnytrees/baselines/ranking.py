"""Systems that rank features, without a model of their own: the top K go to a model that the user names, or to a forest."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import HasMethods, Interval

from skinnytrees.baselines.base import CONSTRAINTS, Baseline, Fitted, Problem
from skinnytrees.baselines.models import fit_final


class RankingSelection(Baseline):
    """Rank, keep the top K, fit a model on them."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, feature_budget=None, *, estimator=None, n_estimators=300, random_state=None, n_jobs=None):  # type: ignore[no-untyped-def]
        self.feature_budget = feature_budget
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _rank(self, problem: Problem) -> NDArray[np.float64]:
        """Importance of each feature of the table; larger is better."""
        raise NotImplementedError

    def _fit_problem(self, problem: Problem) -> Fitted:
        importances = self._rank(problem)
        support = problem.top(importances, problem.budget)
        model = fit_final(self.estimator, problem, problem.columns_of(support), self.n_estimators)
        return Fitted(support, model, importances=importances)


def largest_of_columns(problem: Problem, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each feature the largest value among its columns; features without a column get the smallest value of all."""
    out = np.full(problem.n_features, values.min())
    np.maximum.at(out, problem.feature, values)
    return out
