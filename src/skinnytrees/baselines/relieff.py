"""ReliefF: features whose values differ between near rows of different classes.

Source: Kononenko 1994, Urbanowicz et al. 2018; package ``skrebate``. Ours: a seeded draw of at most ``max_rows`` rows, because
the cost grows with the square of their number; the columns of a category count as one feature, by their largest value.
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from skinnytrees.baselines.base import BaselineClassifier, BaselineRegressor, Problem
from skinnytrees.baselines.ranking import RankingSelection, largest_of_columns
from skinnytrees.exceptions import import_optional


class _ReliefF(RankingSelection):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RankingSelection._parameter_constraints,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "max_rows": [Interval(Integral, 2, None, closed="left")],
    }
    _honours_weights = False
    _needs = ("skrebate",)

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        n_neighbors=100,
        max_rows=2000,
        estimator=None,
        n_estimators=300,
        random_state=None,
        n_jobs=None,
    ):
        super().__init__(
            feature_budget, estimator=estimator, n_estimators=n_estimators, random_state=random_state, n_jobs=n_jobs
        )
        self.n_neighbors = n_neighbors
        self.max_rows = max_rows

    def _rank(self, problem: Problem) -> NDArray[np.float64]:
        skrebate = import_optional("skrebate", type(self).__name__, "baselines")
        n_rows = len(problem.rows.y)
        rows = np.random.default_rng(problem.seed).permutation(n_rows)[: self.max_rows]
        sample = problem.rows.take(np.sort(rows))
        # Each row is compared with this many near rows of its own class and of the others.
        smallest = np.bincount(sample.y).min() - 1 if problem.n_classes else len(sample.y) // 2
        n_neighbors = int(np.clip(smallest, 1, self.n_neighbors))
        relief = skrebate.ReliefF(n_neighbors=n_neighbors, n_jobs=1)
        relief.fit(sample.X, sample.y)
        return largest_of_columns(problem, np.asarray(relief.feature_importances_, dtype=np.float64))


class ReliefFClassifier(_ReliefF, BaselineClassifier):
    """A classifier on the features that ReliefF ranks highest.

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
    n_neighbors : int
        Near rows that each row is compared with; fewer where a class has fewer rows.
    max_rows : int
        Maximum number of rows to use; where there are more, they are drawn at random.
    """


class ReliefFRegressor(_ReliefF, BaselineRegressor):
    """A regressor on the features that ReliefF (RReliefF) ranks highest.

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
    n_neighbors : int
        Near rows that each row is compared with; fewer where a class has fewer rows.
    max_rows : int
        Maximum number of rows to use; where there are more, they are drawn at random.
    """
