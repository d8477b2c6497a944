"""TAO: one oblique tree, trained by alternating over its nodes, with l1 logistic regression in each.

Source: Carreira-Perpinan and Tavallali (NeurIPS 2018) and section S5.2 of the Skinny Trees paper; the authors have published no
code, and this is written from the description. Ours: ``accept="no_worse"``, under which the training error never rises; the path
over lambda, which starts weak and increases lambda step by step, as the authors' supplement does; the choice by validation rows;
the tree of the top K features where no entry of the path meets the budget.
"""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from skinnytrees.baselines.base import CONSTRAINTS, BaselineClassifier, Fitted, Problem, Sample
from skinnytrees.baselines.oblique_tree import (
    NodeStep,
    ObliqueTree,
    PrunedTree,
    iterate,
    largest_penalty,
    optimise,
    prune,
)
from skinnytrees.baselines.selection_path import PathEntry, SelectionPath, best_entry

# Weakest lambda of a path, as a fraction of the one that empties the first tree; and iterations per further lambda.
_WEAKEST = 1e-4
_ITERATIONS_PER_LAMBDA = 5


class TAOClassifier(BaselineClassifier):
    """A sparse oblique decision tree, by tree alternating optimisation.

    A patent application on the general form of tree alternating optimisation (US 2022/0318641, Regents of the University of
    California) was pending when this was written. Check its status before you use this class in a product.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    max_depth : int
        Depth of the complete tree that is optimised.
    lam : float or None
        Price of the weights' l1 norm, against a sum of log-losses; None tries ``n_lambdas`` values and takes the best
        validated one that meets the budget.
    n_lambdas : int
        Values of the path.
    max_iter : int
        Iterations at the first lambda; it ends earlier when nothing changes. Further values start from the tree before.
    accept : {"no_worse", "always"}
        Whether a node keeps its old hyperplane where the new one would misroute more rows, or always takes the new one, as
        in the Skinny Trees paper. On a path, the first iteration at each further lambda takes all new ones.
    init : {"cart", "random"}
        The first tree: the splits of a CART tree, as in the supplement of TAO's authors, or random hyperplanes. Where one
        class is so frequent that every leaf of a random tree predicts it, no row has a better side and nothing is learned.
    validation_fraction : float
        Fraction of the rows that is held out to choose by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.

    Attributes
    ----------
    n_iter_ : int
        Iterations at the first lambda.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.baselines import TAOClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> y = (X[:, 3] > 0).astype(int)
    >>> TAOClassifier(1, max_depth=2, n_lambdas=5, random_state=0).fit(X, y).get_support(indices=True).tolist()
    [3]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "max_depth": [Interval(Integral, 1, 12, closed="both")],
        "lam": [Interval(Real, 0, None, closed="neither"), None],
        "n_lambdas": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "accept": [StrOptions({"no_worse", "always"})],
        "init": [StrOptions({"cart", "random"})],
    }
    _standardize = True
    _needs_validation = True
    n_iter_: int

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        max_depth=4,
        lam=None,
        n_lambdas=15,
        max_iter=20,
        accept="no_worse",
        init="cart",
        validation_fraction=0.2,
        random_state=None,
    ):
        self.feature_budget = feature_budget
        self.max_depth = max_depth
        self.lam = lam
        self.n_lambdas = n_lambdas
        self.max_iter = max_iter
        self.accept = accept
        self.init = init
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """Ranges of the paper's supplement."""
        return {"max_depth": ("int", 1, 10), "lam": ("log", 1e-5, 1e5), "max_iter": ("int", 20, 100)}

    def _fit_problem(self, problem: Problem) -> Fitted:
        entries, trees = self._walk(problem)
        chosen = best_entry(entries, problem.budget)
        if chosen is None:
            importances = problem.per_feature(prune(trees[0], problem.train).importances)
            restricted = problem.restrict(problem.top(importances, problem.budget))
            lam = entries[0].setting["lam"]
            tree = self._optimised(self._start(restricted, restricted.rows), restricted.rows, lam, problem.seed)
        else:
            restricted, lam = problem.restrict(entries[chosen].support), entries[chosen].setting["lam"]
            start = trees[chosen].copy()
            start.W = np.ascontiguousarray(start.W[:, problem.columns_of(entries[chosen].support)])
            tree = self._optimised(start, restricted.rows, lam, problem.seed)
        return _fitted(tree, restricted, SelectionPath(tuple(entries), chosen))

    def _walk(self, problem: Problem) -> tuple[list[PathEntry], list[ObliqueTree]]:
        """One tree per lambda, from the weakest on, each started from the previous one."""
        tree = self._start(problem, problem.train)
        entries: list[PathEntry] = []
        trees: list[ObliqueTree] = []
        for lam in self._lambdas(tree, problem.train):
            tree, step = tree.copy(), NodeStep(float(lam), self.accept, problem.seed)
            if trees:
                # Sparser hyperplanes misroute more rows, so that "no_worse" alone would always keep the dense ones.
                iterate(tree, problem.train, replace(step, accept="always"))
            n_done = optimise(tree, problem.train, step, _ITERATIONS_PER_LAMBDA if trees else self.max_iter)
            self.n_iter_ = self.n_iter_ if trees else n_done
            pruned = prune(tree, problem.train)
            support = problem.features_of(pruned.importances > 0)
            score = problem.score(pruned, problem.val)
            entries.append(PathEntry(len(support), support, {"lam": float(lam)}, score))
            trees.append(tree)
            if len(pruned.b) == 0:
                break  # a larger lambda cannot bring a split back
        return entries, trees

    def _start(self, problem: Problem, sample: Sample) -> ObliqueTree:
        if self.init == "cart":
            return ObliqueTree.from_cart(self.max_depth, sample, problem.n_classes, problem.seed)
        rng = np.random.default_rng(problem.seed)
        return ObliqueTree.random(self.max_depth, sample.X.shape[1], problem.n_classes, rng)

    def _lambdas(self, tree: ObliqueTree, sample: Sample) -> NDArray[np.float64]:
        if self.lam is not None:
            return np.array([float(self.lam)])
        largest = largest_penalty(tree, sample) or 1.0
        return np.asarray(largest * np.geomspace(_WEAKEST, 1.0, self.n_lambdas))

    def _optimised(self, tree: ObliqueTree, sample: Sample, lam: float, seed: int) -> ObliqueTree:
        optimise(tree, sample, NodeStep(lam, self.accept, seed), self.max_iter)
        return tree


def _fitted(tree: ObliqueTree, problem: Problem, path: SelectionPath) -> Fitted:
    """The pruned tree, and the features that it uses."""
    pruned: PrunedTree = prune(tree, problem.rows)
    importances = problem.per_feature(pruned.importances)
    support = np.flatnonzero(importances > 0)
    if len(support) == 0:  # every split was removed, but a selector must select something
        support = problem.top(importances, 1)
    model = pruned.columns(np.flatnonzero(np.isin(problem.feature, support)))
    return Fitted(support, model, path=path, importances=importances)
