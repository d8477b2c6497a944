"""Boruta: features that are more important in a forest than shuffled copies of the features.

Source: Kursa and Rudnicki 2010; package ``boruta``. It answers which features are relevant at all, not which K are best: its
ranks (confirmed, tentative, rejected) decide, and a forest's importance among features of equal rank. Ours: that tie-break; a
category has the best rank among its columns.
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from skinnytrees.baselines.base import (
    BaselineClassifier,
    BaselineRegressor,
    Fitted,
    Problem,
    normalised,
)
from skinnytrees.baselines.models import fit_final, fit_rows, new_forest
from skinnytrees.baselines.ranking import RankingSelection, largest_of_columns
from skinnytrees.exceptions import import_optional


class _Boruta(RankingSelection):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RankingSelection._parameter_constraints,
        "confirmed_only": ["boolean"],
        "max_iter": [Interval(Integral, 2, None, closed="left")],
        "n_search_trees": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    }
    _honours_weights = False
    _needs = ("boruta",)

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        confirmed_only=False,
        max_iter=100,
        n_search_trees="auto",
        estimator=None,
        n_estimators=300,
        random_state=None,
        n_jobs=None,
    ):
        super().__init__(
            feature_budget, estimator=estimator, n_estimators=n_estimators, random_state=random_state, n_jobs=n_jobs
        )
        self.confirmed_only = confirmed_only
        self.max_iter = max_iter
        self.n_search_trees = n_search_trees

    def _rank(self, problem: Problem) -> NDArray[np.float64]:
        boruta = import_optional("boruta", type(self).__name__, "baselines")
        shallow = new_forest(problem, 100, max_depth=5)  # what the package's documentation recommends
        search = boruta.BorutaPy(
            shallow, n_estimators=self.n_search_trees, max_iter=self.max_iter, random_state=problem.seed
        )
        search.fit(problem.rows.X, problem.rows.y)
        self.n_iter_ = max(1, len(search.importance_history_) - 1)
        self.n_confirmed_ = len(problem.features_of(search.support_))
        forest = fit_rows(new_forest(problem, 100), problem.rows)
        within = normalised(problem.per_feature(forest.feature_importances_))
        return largest_of_columns(problem, -search.ranking_.astype(float)) + search.ranking_.max() + 0.5 * within

    def _fit_problem(self, problem: Problem) -> Fitted:
        importances = self._rank(problem)
        n_kept = min(problem.budget, max(1, self.n_confirmed_)) if self.confirmed_only else problem.budget
        support = problem.top(importances, n_kept)
        model = fit_final(self.estimator, problem, problem.columns_of(support), self.n_estimators)
        return Fitted(support, model, importances=importances)


class BorutaClassifier(_Boruta, BaselineClassifier):
    """A classifier on the features that Boruta ranks highest.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    estimator : estimator or None
        Model that is fitted on the selected features; None takes a random forest.
    n_estimators : int
        Trees of that forest.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    confirmed_only : bool
        Whether only confirmed features count, even where the budget allows more; at least one is kept.
    max_iter : int
        Rounds of Boruta.
    n_search_trees : int or "auto"
        Trees of the forest of each round; "auto" lets the package choose by the number of features.
    """


class BorutaRegressor(_Boruta, BaselineRegressor):
    """A regressor on the features that Boruta ranks highest.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    estimator : estimator or None
        Model that is fitted on the selected features; None takes a random forest.
    n_estimators : int
        Trees of that forest.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    confirmed_only : bool
        Whether only confirmed features count, even where the budget allows more; at least one is kept.
    max_iter : int
        Rounds of Boruta.
    n_search_trees : int or "auto"
        Trees of the forest of each round; "auto" lets the package choose by the number of features.
    """
