"""Soft trees as peers of Skinny Trees: dense ensembles, and one tree with the group lasso or the group l0 penalty.

Source: the Skinny Trees paper, sections 7.2 and S5.2 (one tree with each penalty), and FASTEL (Ibrahim et al. 2022) for dense
ensembles. All of them are this library's own soft trees, so that only the penalty differs. Ours: the path from dense to sparse,
where each strength starts from the previous tree, the choice by validation rows, and a final training on all rows with the
selected features.
"""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from skinnytrees import fitting
from skinnytrees.activations import Activation, Sigmoid
from skinnytrees.baselines.base import (
    CONSTRAINTS,
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    Fitted,
    Problem,
    Sample,
)
from skinnytrees.baselines.importance import ImportanceSelection
from skinnytrees.baselines.selection_path import PathEntry, SelectionPath, best_entry
from skinnytrees.estimators import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.kernels.state import Trees, start_trees
from skinnytrees.losses import Multinomial, TargetScale, regression_loss
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.penalties import GroupL0, GroupLasso, NoPenalty, Penalty
from skinnytrees.tables.groups import Groups
from skinnytrees.tables.rows import Rows
from skinnytrees.tables.scaling import Scaling
from skinnytrees.training.loop import TrainingSettings, train


class _DenseSoftTrees(ImportanceSelection):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ImportanceSelection._parameter_constraints,
        "max_depth": [Interval(Integral, 1, 12, closed="both")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        threshold=None,
        refit=True,
        n_estimators=50,
        max_depth=3,
        learning_rate=0.1,
        max_epochs=100,
        batch_size=64,
        random_state=None,
        n_jobs=None,
    ):
        self.feature_budget = feature_budget
        self.threshold = threshold
        self.refit = refit
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """Ranges of the paper's supplement."""
        return {
            "n_estimators": ("int", 1, 100),
            "max_depth": ("int", 1, 5),
            "batch_size": ("choice", (16, 64, 256, 1024)),
            "max_epochs": ("int", 5, 1000),
            "learning_rate": ("log", 1e-2, 10.0),
        }

    def _new_model(self, problem: Problem) -> Any:
        kind = SkinnyTreesClassifier if problem.n_classes else SkinnyTreesRegressor
        names = ("n_estimators", "max_depth", "learning_rate", "max_epochs", "batch_size")
        return kind(
            penalty=None, validation_fraction=None, random_state=problem.seed, n_jobs=problem.n_jobs,
            **{name: getattr(self, name) for name in names},
        )  # fmt: skip


@dataclass(frozen=True)
class TreeTraining:
    """One tree (or a few) on the columns of a problem, trained with one penalty after another."""

    problem: Problem
    settings: TrainingSettings
    n_trees: int
    depth: int

    def prepared(self, sample: Sample) -> fitting.Prepared:
        """The rows as kernels take them; the columns of a feature are one group."""
        of_feature = [np.flatnonzero(self.problem.feature == k) for k in np.unique(self.problem.feature)]
        Y = np.asarray(sample.y, dtype=np.float64)[:, None]
        moments = Scaling.learn(Y, sample.weight)
        n_classes = self.problem.n_classes
        of_numbers = self.settings.loss.target_scale
        task = fitting.Problem(
            loss=self.settings.loss, activation=self.settings.activation, n_outputs=n_classes or 1,
            groups=Groups.of(of_feature), is_categorical=np.zeros(len(self.problem.feature), dtype=bool), standardize=True,
            target=TargetScale.none(n_classes) if n_classes else of_numbers(moments.mean, moments.scale),
        )  # fmt: skip
        return task.prepare(Rows(sample.X, Y, sample.weight))

    def start(self, prepared: fitting.Prepared, rng: np.random.Generator) -> Trees:
        """A new ensemble with random weights."""
        n_columns = prepared.data.X.shape[1]
        return start_trees(n_columns, self.n_trees, self.depth, self.problem.n_classes or 1, rng)

    def continue_training(
        self, trees: Trees, prepared: fitting.Prepared, penalty: Penalty, n_epochs: int, rng: Any
    ) -> None:
        """Train in place."""
        settings = replace(self.settings, penalty=penalty, n_epochs=n_epochs)
        train(trees, prepared.data, prepared.encoder.offsets, settings, rng)

    def model(self, trees: Trees, prepared: fitting.Prepared) -> "SoftTreeModel":
        """The ensemble as it stands, for rows with the problem's columns."""
        model = SoftTrees.from_training(trees, prepared.encoder, self.settings.activation, prepared.target)
        return SoftTreeModel(model, self.settings.loss)


@dataclass(frozen=True)
class SoftTreeModel:
    """Soft trees with the methods of a scikit-learn model."""

    trees: SoftTrees
    loss: Any

    def predict_proba(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities."""
        return np.asarray(self.loss.to_prediction(self.trees.raw(X)))

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers."""
        return np.asarray(self.loss.to_prediction(self.trees.raw(X)))[:, 0]

    def importances(self, n_columns: int) -> NDArray[np.float64]:
        """Importance of each column of the matrix."""
        return np.bincount(self.trees.encoder.feature, self.trees.column_importances(), n_columns).astype(np.float64)


class _PenalisedTree(Baseline):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "n_strengths": [Interval(Integral, 1, None, closed="left")],
        "max_depth": [Interval(Integral, 1, 12, closed="both")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "l2": [Interval(Real, 0, None, closed="left")],
    }
    _standardize = True
    _needs_validation = True
    _strengths: ClassVar[tuple[float, float]] = (1e-3, 10.0)
    l2: float

    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        n_strengths=20,
        max_depth=3,
        learning_rate=0.1,
        max_epochs=50,
        batch_size=64,
        validation_fraction=0.2,
        random_state=None,
    ):
        self.feature_budget = feature_budget
        self.n_strengths = n_strengths
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """Ranges of the paper's supplement; the path goes through the strengths, 1e-3 to 10."""
        return {
            "batch_size": ("choice", tuple(64 * b for b in range(1, 65))),
            "learning_rate": ("log", 1e-2, 10.0),
            "max_epochs": ("int", 5, 1000),
            "max_depth": ("int", 1, 5),
        }

    def _penalty(self, strength: float) -> Penalty:
        raise NotImplementedError

    def _training(self, problem: Problem) -> TreeTraining:
        settings = TrainingSettings(
            loss=Multinomial() if problem.n_classes else regression_loss("squared_error"),
            activation=cast(Activation, Sigmoid()),
            n_epochs=self.max_epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            l2=self.l2,
        )
        return TreeTraining(problem, settings, 1, self.max_depth)

    def _fit_problem(self, problem: Problem) -> Fitted:
        entries, snapshots, rng = [], [], np.random.default_rng(problem.seed)
        training = self._training(problem)
        prepared = training.prepared(problem.train)
        trees = training.start(prepared, rng)
        training.continue_training(trees, prepared, NoPenalty(), self.max_epochs, rng)
        n_epochs = max(1, self.max_epochs // 5)
        for strength in (0.0, *np.geomspace(*self._strengths, self.n_strengths)):
            if strength:
                training.continue_training(trees, prepared, self._penalty(float(strength)), n_epochs, rng)
            model = training.model(trees, prepared)
            support = problem.features_of(np.unique(model.trees.encoder.feature))
            if len(support) == 0:
                break  # a stronger penalty cannot bring a feature back
            score = problem.score(model, problem.val)
            entries.append(PathEntry(len(support), support, {"strength": float(strength)}, score))
            snapshots.append(trees.copy())
        chosen = best_entry(entries, problem.budget)
        # Noise of the mini-batches lets features return, so that a path may miss the smallest sizes.
        best = best_entry(entries, problem.n_features)
        assert best is not None
        ranked = training.model(snapshots[best], prepared).importances(len(problem.feature))
        support = (
            problem.top(problem.per_feature(ranked), problem.budget) if chosen is None else entries[chosen].support
        )
        start = None if chosen is None else snapshots[chosen].select(problem.columns_of(support))
        strength = 0.0 if chosen is None else entries[chosen].setting["strength"]
        path = SelectionPath(tuple(entries), chosen)
        return self._finish(problem.restrict(support), start, strength, path, rng)

    def _finish(
        self, problem: Problem, start: Trees | None, strength: float, path: SelectionPath, rng: np.random.Generator
    ) -> Fitted:
        """Continue training on all rows with the selected features, or start anew where no entry of the path met the budget."""
        training = self._training(problem)
        prepared = training.prepared(problem.rows)
        trees = training.start(prepared, rng) if start is None else start
        n_epochs = self.max_epochs if start is None else max(1, self.max_epochs // 5)
        before = training.model(trees, prepared)
        training.continue_training(trees, prepared, self._penalty(strength), n_epochs, rng)
        after = training.model(trees, prepared)
        # Near the strength that removes everything, the last steps may do so.
        model = after if len(after.trees.features) else before
        importances = problem.per_feature(model.importances(len(problem.feature)))
        support = problem.features_of(np.unique(model.trees.encoder.feature))
        return Fitted(support, replace(model, trees=model.trees.narrowed), path=path, importances=importances)


class _GroupLassoTree(_PenalisedTree):
    l2 = 0.0

    def _penalty(self, strength: float) -> Penalty:
        # The paper's lambda1 / sqrt(m |I|), with one tree.
        return GroupLasso(strength / np.sqrt(2**self.max_depth - 1))


class _SkinnyTree(_PenalisedTree):
    def __init__(  # type: ignore[no-untyped-def]
        self,
        feature_budget=None,
        *,
        n_strengths=20,
        max_depth=3,
        learning_rate=0.1,
        max_epochs=50,
        batch_size=64,
        l2=0.01,
        validation_fraction=0.2,
        random_state=None,
    ):
        super().__init__(
            feature_budget,
            n_strengths=n_strengths,
            max_depth=max_depth,
            learning_rate=learning_rate,
            max_epochs=max_epochs,
            batch_size=batch_size,
            validation_fraction=validation_fraction,
            random_state=random_state,
        )
        self.l2 = l2

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """Ranges of the paper's supplement; the path goes through the strengths, 1e-3 to 10."""
        return {**super().tuning_space(), "l2": ("log", 1e-2, 1e2)}

    def _penalty(self, strength: float) -> Penalty:
        return GroupL0(strength)


class DenseSoftTreesClassifier(_DenseSoftTrees, BaselineClassifier):
    """A dense soft tree ensemble for classes, on its most important features.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all. A dense ensemble uses every feature, so the
        most important ones are kept and the ensemble is trained again on them.
    threshold : float or None
        Keep the features whose importance, of importances that sum to 1, exceeds this; the budget holds as well.
    refit : bool
        Whether to train again on the selected features. Without it, the model still reads all of them.
    n_estimators, max_depth, learning_rate, max_epochs, batch_size
        Of the ensemble, as in ``SkinnyTreesClassifier`` with ``penalty=None``.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int or None
        Number of threads; None uses all cores.
    """


class GroupLassoTreeClassifier(_GroupLassoTree, BaselineClassifier):
    """One soft tree for classes with the group lasso, along a path of strengths.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    n_strengths : int
        Strengths of the penalty from 1e-3 to 10, each started from the previous tree.
    max_depth : int
        Depth of the tree.
    learning_rate, batch_size
        Of the proximal steps.
    max_epochs : int
        Epochs of the dense tree at the start; a fifth of them per strength.
    validation_fraction : float
        Fraction of the rows that is held out to choose by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.
    """


class SkinnyTreeClassifier(_SkinnyTree, BaselineClassifier):
    """One soft tree for classes with the group l0-l2 penalty, along a path of strengths.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    n_strengths : int
        Strengths of the penalty from 1e-3 to 10, each started from the previous tree.
    max_depth : int
        Depth of the tree.
    learning_rate, batch_size
        Of the proximal steps.
    max_epochs : int
        Epochs of the dense tree at the start; a fifth of them per strength.
    l2 : float
        Ridge, as in ``SkinnyTreesClassifier``.
    validation_fraction : float
        Fraction of the rows that is held out to choose by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed.
    """


class DenseSoftTreesRegressor(_DenseSoftTrees, BaselineRegressor):
    """A dense soft tree ensemble for numbers, on its most important features.

    The parameters are those of `DenseSoftTreesClassifier`.
    """


class GroupLassoTreeRegressor(_GroupLassoTree, BaselineRegressor):
    """One soft tree for numbers with the group lasso, along a path of strengths.

    The parameters are those of `GroupLassoTreeClassifier`.
    """


class SkinnyTreeRegressor(_SkinnyTree, BaselineRegressor):
    """One soft tree for numbers with the group l0-l2 penalty, along a path of strengths.

    The parameters are those of `SkinnyTreeClassifier`.
    """
