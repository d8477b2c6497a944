"""Recursive feature elimination: fit, drop the least important features, repeat.

Source: Guyon et al. 2002. Ours: a category is dropped as a whole; the loop is our own for that reason, and equals scikit-learn's
RFE on numeric columns.
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skinnytrees.baselines.base import BaselineClassifier, BaselineRegressor, Fitted, Problem, rank_features
from skinnytrees.baselines.models import column_importances, fit_final
from skinnytrees.baselines.ranking import RankingSelection


class _RFE(RankingSelection):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RankingSelection._parameter_constraints,
        "step": [Interval(Real, 0, 1, closed="neither"), Interval(Integral, 1, None, closed="left")],
    }
    _accepts_sparse = True

    def __init__(  # type: ignore[no-untyped-def]
        self, feature_budget=None, *, step=0.1, estimator=None, n_estimators=100, random_state=None, n_jobs=None
    ):
        super().__init__(
            feature_budget, estimator=estimator, n_estimators=n_estimators, random_state=random_state, n_jobs=n_jobs
        )
        self.step = step

    def _fit_problem(self, problem: Problem) -> Fitted:
        left = np.unique(problem.feature)
        step = int(self.step) if self.step >= 1 else max(1, int(self.step * len(left)))
        dropped: list[int] = []
        while True:
            restricted = problem.restrict(left)
            model = fit_final(self.estimator, restricted, np.arange(len(restricted.feature)), self.n_estimators)
            # scikit-learn's RFE compares squares of coefficients, which orders features in the same way.
            order = rank_features(problem_importances(model, restricted), restricted.feature)
            if len(left) <= problem.budget:
                break
            n_left = max(problem.budget, len(left) - step)
            dropped += order[n_left:][::-1].tolist()
            left = np.sort(order[:n_left])
        importances = np.zeros(problem.n_features)
        ranked = [*order.tolist(), *reversed(dropped)]
        importances[ranked] = np.arange(len(ranked), 0, -1)
        return Fitted(left, model, importances=importances)


def problem_importances(model: Any, problem: Problem) -> Any:
    """Importance of each feature in a model of the problem's columns."""
    return problem.per_feature(column_importances(model))


class RFEClassifier(_RFE, BaselineClassifier):
    """A classifier on the features that remain when the least important ones are removed step by step.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    estimator : estimator or None
        Model with ``coef_`` or ``feature_importances_`` that ranks and predicts; None takes a random forest.
    n_estimators : int
        Trees of that forest.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    step : int or float
        Number of features that are removed per step, or fraction of all features.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import RFEClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = (X[:, 3] > 0).astype(int)
    >>> RFEClassifier(1, n_estimators=20, random_state=0, n_jobs=1).fit(X, y).get_support(indices=True).tolist()
    [3]
    """


class RFERegressor(_RFE, BaselineRegressor):
    """A regressor on the features that remain when the least important ones are removed step by step.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    estimator : estimator or None
        Model with ``coef_`` or ``feature_importances_`` that ranks and predicts; None takes a random forest.
    n_estimators : int
        Trees of that forest.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    step : int or float
        Number of features that are removed per step, or fraction of all features.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import RFERegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = X[:, 3]
    >>> RFERegressor(1, n_estimators=20, random_state=0, n_jobs=1).fit(X, y).get_support(indices=True).tolist()
    [3]
    """
