"""Permutation importance: how much a forest's validation score falls when a feature's values are shuffled.

Source: Breiman 2001, Fisher, Rudin and Dominici 2019. Ours: the columns of a category are shuffled together.
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from skinnytrees.baselines.base import BaselineClassifier, BaselineRegressor, Problem
from skinnytrees.baselines.models import fit_rows, new_forest
from skinnytrees.baselines.ranking import RankingSelection


class _Permutation(RankingSelection):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **RankingSelection._parameter_constraints,
        "n_repeats": [Interval(Integral, 1, None, closed="left")],
    }
    _needs_validation = True

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        n_repeats=5,
        estimator=None,
        n_estimators=300,
        validation_fraction=0.2,
        random_state=None,
        n_jobs=None,
    ):
        super().__init__(
            feature_budget, estimator=estimator, n_estimators=n_estimators, random_state=random_state, n_jobs=n_jobs
        )
        self.n_repeats = n_repeats
        self.validation_fraction = validation_fraction

    def _rank(self, problem: Problem) -> NDArray[np.float64]:
        forest = fit_rows(new_forest(problem, self.n_estimators), problem.train)
        sample = problem.train if problem.val is None else problem.val
        rng = np.random.default_rng(problem.seed)
        orders = [rng.permutation(len(sample.y)) for _ in range(self.n_repeats)]
        whole = problem.score(forest, sample)
        importances = np.zeros(problem.n_features)
        for k in np.unique(problem.feature):
            columns = problem.feature == k
            shuffled = sample.X.copy()
            for order in orders:
                shuffled[:, columns] = sample.X[order][:, columns]
                importances[k] += whole - problem.score(forest, sample._replace(X=shuffled))
        return importances / self.n_repeats


class PermutationClassifier(_Permutation, BaselineClassifier):
    """A classifier on the features whose shuffling lowers the score of a forest most.

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
    n_repeats : int
        Shuffles per feature.
    validation_fraction : float
        Fraction of the rows that is held out to compute importances, unless ``X_val`` is given.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import PermutationClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = (X[:, 3] > 0).astype(int)
    >>> PermutationClassifier(1, n_estimators=20, random_state=0, n_jobs=1).fit(X, y).get_support(indices=True).tolist()
    [3]
    """


class PermutationRegressor(_Permutation, BaselineRegressor):
    """A regressor on the features whose shuffling lowers the score of a forest most.

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
    n_repeats : int
        Shuffles per feature.
    validation_fraction : float
        Fraction of the rows that is held out to compute importances, unless ``X_val`` is given.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import PermutationRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = X[:, 3]
    >>> PermutationRegressor(1, n_estimators=20, random_state=0, n_jobs=1).fit(X, y).get_support(indices=True).tolist()
    [3]
    """
