"""mRMR: features of maximal relevance and minimal redundancy, chosen one by one.

Source: Peng, Long and Ding 2005, in the form of Zhao et al. 2019: the F statistic of a feature with the target, divided by its
mean absolute correlation with the features chosen before. Ours: written from that formula, with weights; the columns of a
category count as one feature, by their largest F statistic and their largest correlation.
"""

import numpy as np
from numpy.typing import NDArray

from skinnytrees.baselines.base import BaselineClassifier, BaselineRegressor, Problem, Sample
from skinnytrees.baselines.ranking import RankingSelection, largest_of_columns

# A correlation of zero would make the quotient infinite.
_LEAST_REDUNDANCY = 1e-3


class _MRMR(RankingSelection):
    def _rank(self, problem: Problem) -> NDArray[np.float64]:
        """The first feature chosen gets the largest value; those beyond the budget follow by their F statistic."""
        relevance = largest_of_columns(problem, f_statistic(problem.rows, problem.n_classes))
        order = greedy_order(problem, relevance)
        importances = relevance / (relevance.max() + 1)  # below 1, the value of the feature chosen last
        importances[order] = np.arange(len(order), 0, -1)
        return importances


def greedy_order(problem: Problem, relevance: NDArray[np.float64]) -> NDArray[np.intp]:
    """Features in the order in which they are chosen, as many as the budget allows."""
    centred = problem.rows.X - np.average(problem.rows.X, axis=0, weights=problem.rows.weight)
    unit = centred * np.sqrt(problem.rows.weight)[:, None]
    unit /= np.linalg.norm(unit, axis=0)
    left = np.unique(problem.feature)
    redundancy = np.zeros(problem.n_features)
    order: list[int] = []
    while len(left) and len(order) < problem.budget:
        mean = redundancy[left] / max(len(order), 1)
        quotient = relevance[left] / (np.maximum(mean, _LEAST_REDUNDANCY) if order else 1.0)
        best = int(left[quotient.argmax()])
        order.append(best)
        left = left[left != best]
        correlation = np.abs(unit.T @ unit[:, problem.feature == best]).max(axis=1)
        redundancy += largest_of_columns(problem, correlation)
    return np.array(order, dtype=np.intp)


def f_statistic(sample: Sample, n_classes: int) -> NDArray[np.float64]:
    """F statistic of each column with the target; a row of weight two counts as two rows."""
    X, y, weight = sample
    total = weight.sum()
    centred = X - weight @ X / total
    sum_of_squares = weight @ centred**2
    if n_classes:
        in_class = (y[:, None] == np.arange(n_classes)) * weight[:, None]
        sizes = in_class.sum(axis=0)
        between = ((in_class.T @ centred) ** 2 / np.maximum(sizes, np.finfo(float).tiny)[:, None]).sum(axis=0)
        degrees = max(int((sizes > 0).sum()) - 1, 1)
    else:
        centred_y = y - weight @ y / total
        between = ((weight * centred_y) @ centred) ** 2 / max(weight @ centred_y**2, np.finfo(float).tiny)
        degrees = 1
    within = np.maximum(sum_of_squares - between, 1e-12 * sum_of_squares)
    return np.asarray((between / degrees) / (within / max(total - degrees - 1, 1)))


class MRMRClassifier(_MRMR, BaselineClassifier):
    """A classifier on features of large relevance and small redundancy.

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
    >>> from skinnytrees.baselines import MRMRClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = (X[:, 3] > 0).astype(int)
    >>> MRMRClassifier(1, n_estimators=20, random_state=0, n_jobs=1).fit(X, y).get_support(indices=True).tolist()
    [3]
    """


class MRMRRegressor(_MRMR, BaselineRegressor):
    """A regressor on features of large relevance and small redundancy.

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
    >>> from skinnytrees.baselines import MRMRRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = X[:, 3]
    >>> MRMRRegressor(1, n_estimators=20, random_state=0, n_jobs=1).fit(X, y).get_support(indices=True).tolist()
    [3]
    """
