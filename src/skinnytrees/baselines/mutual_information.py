"""Mutual information of each feature with the target: a filter that looks at one feature at a time.

Source: Kraskov et al. 2004 and Ross 2014, as scikit-learn has them (k nearest neighbours). Ours: the columns of a category count
as one feature, by their largest value.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

from skinnytrees.baselines.base import BaselineClassifier, BaselineRegressor, Problem
from skinnytrees.baselines.ranking import RankingSelection, largest_of_columns


class _MutualInformation(RankingSelection):
    _honours_weights: ClassVar[bool] = False
    preparation_: Any

    def _rank(self, problem: Problem) -> NDArray[np.float64]:
        estimate = mutual_info_classif if problem.n_classes else mutual_info_regression
        is_level = self.preparation_.is_level
        rows = problem.rows
        values = estimate(rows.X, rows.y, discrete_features=is_level, random_state=problem.seed, n_jobs=problem.n_jobs)
        return largest_of_columns(problem, values)


class MutualInformationClassifier(_MutualInformation, BaselineClassifier):
    """A classifier on the features of largest mutual information with the classes.

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

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import MutualInformationClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = (X[:, 3] > 0).astype(int)
    >>> MutualInformationClassifier(1, n_estimators=20, random_state=0, n_jobs=1).fit(X, y).get_support(indices=True).tolist()
    [3]
    """


class MutualInformationRegressor(_MutualInformation, BaselineRegressor):
    """A regressor on the features of largest mutual information with the target.

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

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import MutualInformationRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = X[:, 3]
    >>> MutualInformationRegressor(1, n_estimators=20, random_state=0, n_jobs=1).fit(X, y).get_support(indices=True).tolist()
    [3]
    """
