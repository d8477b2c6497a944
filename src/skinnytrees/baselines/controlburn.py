"""ControlBurn: a forest grown by bag-boosting, thinned by a non-negative lasso that charges a tree for each feature it uses.

Source: Liu, Xie and Udell (KDD 2021), written from the steps of the paper's public notebooks and package. Because the weights are
not negative, the penalty ``||G w||_1`` is ``u'w`` with u the number of features of each tree: a weighted lasso, which needs no
commercial solver. Ours: the solver, the path of 100 alphas with the choice by validation rows, weights of rows, categories as one
feature, the regression (R squared in the place of the AUC, and the mean of y as the starting prediction), and a maximum number of
trees per round. With ``polish``, as the authors report it, a random forest on the selected features is the final model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils._param_validation import Interval

from skinnytrees.baselines.base import (
    CONSTRAINTS,
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    Fitted,
    Problem,
    Sample,
    validation_score,
)
from skinnytrees.baselines.models import fit_rows, new_forest
from skinnytrees.baselines.nonnegative_lasso import NonNegativeLasso
from skinnytrees.baselines.selection_path import PathEntry, SelectionPath, best_entry

Array = NDArray[np.float64]

# A round ends when this many changes in a row were small; the forest, when this many gains were.
_TAIL = 5
_TAIL_OF_GAINS = 3
_FEWEST_ROUNDS = 4


def round_converged(scores: Sequence[float], threshold: float = 1e-3) -> bool:
    """Whether a round has enough trees: the last five changes of its training score are all below the threshold.

    Examples
    --------
    >>> from skinnytrees.baselines.controlburn import round_converged
    >>> round_converged([0.9] * 6), round_converged([0.9] * 7)
    (False, True)
    """
    return len(scores) >= _TAIL + 2 and bool(np.all(np.diff(scores)[-_TAIL:] < threshold))


def forest_converged(gains: Sequence[float], threshold: float = 1e-3) -> bool:
    """Whether the forest is deep enough: the last out-of-bag gain is not positive, or three in a row are small.

    Examples
    --------
    >>> from skinnytrees.baselines.controlburn import forest_converged
    >>> forest_converged([0.1, 0.0]), forest_converged([1e-4] * 3), forest_converged([0.1] + [1e-4] * 3)
    (True, False, True)
    """
    small = len(gains) >= _FEWEST_ROUNDS and bool(np.all(np.array(gains[-_TAIL_OF_GAINS:]) < threshold))
    return gains[-1] <= 0 or small


@dataclass(frozen=True)
class BagBoosting:
    """Grows trees whose depth increases from round to round, each round on the residuals of the rounds before."""

    max_depth: int
    max_trees: int
    threshold: float
    is_logistic: bool

    def start(self, sample: Sample) -> float:
        """The prediction before the first tree: the log-odds, or the mean."""
        mean = float(np.average(sample.y, weights=sample.weight))
        return float(logit(mean)) if self.is_logistic else mean

    def grow(self, sample: Sample, rng: np.random.Generator) -> list[DecisionTreeRegressor]:
        """All trees of all rounds."""
        F = np.full(len(sample.y), self.start(sample))
        trees: list[DecisionTreeRegressor] = []
        gains: list[float] = []
        for depth in range(1, self.max_depth + 1):
            grown, mean, gain = self._round(sample, F, depth, rng)
            trees += grown
            gains.append(gain)
            F = F + mean
            if forest_converged(gains, self.threshold):
                break
        return trees

    def _round(self, sample: Sample, F: Array, depth: int, rng: np.random.Generator) -> tuple[list[Any], Array, float]:
        """Trees of one depth, their mean prediction, and the gain on rows that they have not seen."""
        n = len(sample.y)
        residual = sample.y - (expit(F) if self.is_logistic else F)
        trees: list[DecisionTreeRegressor] = []
        scores: list[float] = []
        total, unseen, n_unseen = np.zeros(n), np.zeros(n), np.zeros(n)
        while len(trees) < self.max_trees and not round_converged(scores, self.threshold):
            times = np.bincount(rng.integers(n, size=n), minlength=n)
            tree = DecisionTreeRegressor(max_depth=depth, random_state=int(rng.integers(2**31)))
            tree.fit(sample.X, residual, sample_weight=times * sample.weight)
            prediction = tree.predict(sample.X)
            trees.append(tree)
            total += prediction
            unseen += np.where(times == 0, prediction, 0.0)
            n_unseen += times == 0
            scores.append(score_of_trees(sample, F + total / len(trees), self.is_logistic))
        rows = np.flatnonzero(n_unseen)
        out_of_bag = sample.take(rows)
        after = score_of_trees(out_of_bag, F[rows] + unseen[rows] / n_unseen[rows], self.is_logistic)
        gain = after - score_of_trees(out_of_bag, F[rows], self.is_logistic)
        return trees, total / len(trees), gain


def score_of_trees(sample: Sample, F: Array, is_logistic: bool) -> float:
    """AUC of log-odds, or R squared of predictions."""
    return validation_score(sample, np.column_stack([-F, F]), 2) if is_logistic else validation_score(sample, F, 0)


class WeightedTrees:
    """The thinned forest as a model: the weighted sum of the predictions of trees, for a matrix of all that they read."""

    def __init__(
        self, trees: Sequence[Any], weights: Array, start: float, is_logistic: bool, columns: NDArray[np.intp]
    ) -> None:
        kept = np.flatnonzero(weights > 0).tolist()
        self.trees, self.weights = [trees[t] for t in kept], weights[kept]
        self.start, self.is_logistic, self.columns = start, is_logistic, columns

    def predict(self, X: Array) -> Array:
        """The sum; for classes, the log-odds."""
        whole = np.zeros((len(X), self.trees[0].n_features_in_))
        whole[:, self.columns] = X
        return self.start + tree_predictions(self.trees, whole) @ self.weights

    def predict_proba(self, X: Array) -> Array:
        """Probabilities of the two classes."""
        p = expit(self.predict(X))
        return np.column_stack([1 - p, p])


def tree_predictions(trees: Sequence[Any], X: Array) -> Array:
    """One column per tree."""
    return np.column_stack([tree.predict(X) for tree in trees])


class _ControlBurn(Baseline):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "alpha": [Interval(Real, 0, None, closed="neither"), None],
        "n_alphas": [Interval(Integral, 1, None, closed="left")],
        "max_depth": [Interval(Integral, 1, None, closed="left")],
        "max_trees": [Interval(Integral, 1, None, closed="left")],
        "threshold": [Interval(Real, 0, None, closed="left")],
        "polish": ["boolean"],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
    }
    _needs_validation = True
    _binary_only = True

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        alpha=None,
        n_alphas=100,
        max_depth=10,
        max_trees=100,
        threshold=1e-3,
        polish=True,
        n_estimators=100,
        validation_fraction=0.2,
        random_state=None,
        n_jobs=None,
    ):
        self.feature_budget = feature_budget
        self.alpha = alpha
        self.n_alphas = n_alphas
        self.max_depth = max_depth
        self.max_trees = max_trees
        self.threshold = threshold
        self.polish = polish
        self.n_estimators = n_estimators
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """Ranges of the paper's supplement; the depth had no effect on the package that the paper used."""
        return {"alpha": ("log", 1e-7, 1.0), "max_depth": ("int", 1, 10)}

    def _fit_problem(self, problem: Problem) -> Fitted:
        train, is_logistic = problem.train, problem.n_classes > 0
        boosting = BagBoosting(self.max_depth, self.max_trees, self.threshold, is_logistic)
        # The authors' logistic problem has no intercept.
        start = 0.0 if is_logistic else boosting.start(train)
        trees = [tree for tree in boosting.grow(train, np.random.default_rng(problem.seed)) if tree.get_depth() > 0]
        if not trees:
            return _nothing_grown(problem)
        used = np.array([tree_importances(tree, problem) > 0 for tree in trees])
        lasso = NonNegativeLasso.of(
            tree_predictions(trees, train.X), train.y - start, train.weight, used.sum(axis=1), is_logistic
        )
        alphas = self._alphas(lasso.alpha_max)
        weights = lasso.path(alphas)
        entries = self._entries(problem, trees, used, alphas, weights, start)
        chosen = best_entry(entries, problem.budget)
        last = len(entries) - 1 if chosen is None else chosen
        importances = weights[last] @ np.array([tree_importances(tree, problem) for tree in trees])
        support = problem.top(importances, problem.budget) if chosen is None else entries[chosen].support
        if self.polish or chosen is None:
            model = fit_rows(new_forest(problem, self.n_estimators), problem.restrict(support).rows)
        else:
            model = WeightedTrees(trees, weights[chosen], start, is_logistic, problem.columns_of(support))
        return Fitted(support, model, path=SelectionPath(tuple(entries), chosen), importances=importances)

    def _entries(
        self, problem: Problem, trees: Any, used: NDArray[np.bool_], alphas: Array, weights: Array, start: float
    ) -> list[PathEntry]:
        scores = np.full(len(alphas), np.nan)
        if problem.val is not None:
            eta = start + tree_predictions(trees, problem.val.X) @ weights.T
            scores[:] = [score_of_trees(problem.val, one, problem.n_classes > 0) for one in eta.T]
        supports = [np.flatnonzero(used[w > 0].any(axis=0)) for w in weights]
        return [
            PathEntry(len(support), support, {"alpha": float(alpha)}, float(score))
            for support, alpha, score in zip(supports, alphas, scores, strict=True)
        ]

    def _alphas(self, alpha_max: float) -> Array:
        if self.alpha is not None:
            return np.array([self.alpha])
        return alpha_max * np.geomspace(1.0, 1e-4, self.n_alphas + 1)[1:]


def tree_importances(tree: Any, problem: Problem) -> Array:
    """Importance of each feature of the table in one tree."""
    return problem.per_feature(tree.feature_importances_)


def _nothing_grown(problem: Problem) -> Fitted:
    """Where no tree can split, such as on a constant target, the first features are as good as any."""
    support = problem.top(np.zeros(problem.n_features), 1)
    return Fitted(support, fit_rows(new_forest(problem, 1), problem.restrict(support).rows))


class ControlBurnClassifier(_ControlBurn, BaselineClassifier):
    """ControlBurn for two classes.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    alpha : float or None
        Price of a feature; None tries ``n_alphas`` values and takes the best validated one that meets the budget.
    n_alphas : int
        Values from the smallest alpha that removes all trees down to 1e-4 times that.
    max_depth : int
        Maximum number of rounds of bag-boosting, of depth 1, 2 and so on; the stopping rules usually end it earlier.
    max_trees : int
        Maximum number of trees per round.
    threshold : float
        Smaller changes of the training score, and smaller out-of-bag gains, count as none.
    polish : bool
        Whether the final model is a random forest on the selected features; else it is the thinned forest.
    n_estimators : int
        Trees of that forest.
    validation_fraction : float
        Fraction of the rows that is held out to choose by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import ControlBurnClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = (X[:, 3] > 0).astype(int)
    >>> ControlBurnClassifier(1, n_estimators=10, random_state=0, n_jobs=1).fit(X, y).get_support(indices=True).tolist()
    [3]
    """


class ControlBurnRegressor(_ControlBurn, BaselineRegressor):
    """ControlBurn for numbers.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    alpha : float or None
        Price of a feature; None tries ``n_alphas`` values and takes the best validated one that meets the budget.
    n_alphas : int
        Values from the smallest alpha that removes all trees down to 1e-4 times that.
    max_depth : int
        Maximum number of rounds of bag-boosting, of depth 1, 2 and so on; the stopping rules usually end it earlier.
    max_trees : int
        Maximum number of trees per round.
    threshold : float
        Smaller changes of the training score, and smaller out-of-bag gains, count as none.
    polish : bool
        Whether the final model is a random forest on the selected features; else it is the thinned forest.
    n_estimators : int
        Trees of that forest.
    validation_fraction : float
        Fraction of the rows that is held out to choose by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import ControlBurnRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> model = ControlBurnRegressor(1, n_estimators=10, random_state=0, n_jobs=1).fit(X, X[:, 3])
    >>> model.get_support(indices=True).tolist()
    [3]
    """
