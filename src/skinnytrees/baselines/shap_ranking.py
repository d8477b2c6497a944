"""SHAP ranking: mean absolute Shapley value of each feature on validation rows, by the boosters' own TreeSHAP.

Source: Lundberg et al. 2020; XGBoost, LightGBM and CatBoost have it built in, so that no further package is needed. Ours: the
values of a category's columns are added before their size is taken.
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from skinnytrees.baselines import models
from skinnytrees.baselines.base import (
    CONSTRAINTS,
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    Fitted,
    Problem,
)
from skinnytrees.exceptions import import_optional

_NEW = {"xgboost": models.new_xgboost, "lightgbm": models.new_lightgbm, "catboost": models.new_catboost}


class _ShapRanking(Baseline):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "booster": [StrOptions(set(_NEW))],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_depth": [Interval(Integral, 1, 16, closed="both")],
    }
    _needs_validation = True
    _needs = ("xgboost",)

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        booster="xgboost",
        n_estimators=300,
        learning_rate=0.1,
        max_depth=4,
        validation_fraction=0.2,
        random_state=None,
        n_jobs=None,
    ):
        self.feature_budget = feature_budget
        self.booster = booster
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _packages(self) -> tuple[str, ...]:
        return (self.booster,)

    def _new_model(self, problem: Problem) -> Any:
        return _NEW[self.booster](problem, self.n_estimators, self.learning_rate, self.max_depth, 1.0)

    def _fit_problem(self, problem: Problem) -> Fitted:
        booster = models.fit_rows(self._new_model(problem), problem.train)
        sample = problem.train if problem.val is None else problem.val
        values = shapley_values(booster, sample.X)
        of_features = values @ (problem.feature[:, None] == np.arange(problem.n_features))
        importances = np.average(np.abs(of_features).sum(axis=1), axis=0, weights=sample.weight)
        support = problem.top(importances, problem.budget)
        restricted = problem.restrict(support)
        return Fitted(support, models.fit_rows(self._new_model(restricted), restricted.rows), importances=importances)


def shapley_values(booster: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values of shape (rows, outputs, columns), in the booster's raw scale, without the constant part."""
    package = type(booster).__module__.split(".")[0]
    if package == "xgboost":
        xgboost = import_optional("xgboost", "SHAP ranking", "baselines")
        values = booster.get_booster().predict(xgboost.DMatrix(X), pred_contribs=True)
    elif package == "lightgbm":
        values = booster.booster_.predict(X, pred_contrib=True)
        values = values.reshape(len(X), -1, X.shape[1] + 1)
    else:
        catboost = import_optional("catboost", "SHAP ranking", "baselines")
        values = booster.get_feature_importance(catboost.Pool(X), type="ShapValues")
    return np.asarray(values, dtype=np.float64).reshape(len(X), -1, X.shape[1] + 1)[:, :, :-1]


class ShapRankingClassifier(_ShapRanking, BaselineClassifier):
    """Boosting on the features of largest mean absolute Shapley value, for classes.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    booster : {"xgboost", "lightgbm", "catboost"}
        Which library does the boosting.
    n_estimators, learning_rate, max_depth
        Of the boosting.
    validation_fraction : float
        Fraction of the rows that is held out to compute the values, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    """


class ShapRankingRegressor(_ShapRanking, BaselineRegressor):
    """Boosting on the features of largest mean absolute Shapley value, for numbers.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    booster : {"xgboost", "lightgbm", "catboost"}
        Which library does the boosting.
    n_estimators, learning_rate, max_depth
        Of the boosting.
    validation_fraction : float
        Fraction of the rows that is held out to compute the values, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    """
