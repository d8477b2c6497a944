"""From rows to a fitted model: the two ways of being sparse, without estimators and without tables of words."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skinnytrees.activations import Activation
from skinnytrees.encoding import Encoder
from skinnytrees.feature_path import FeaturePath
from skinnytrees.kernels.state import Data, Trees, start_trees
from skinnytrees.losses import Loss, TargetScale, evaluate_loss
from skinnytrees.model import SoftTrees
from skinnytrees.path import (
    Groups,
    PathPoint,
    Recipe,
    Trainer,
    choose_point,
    falling_budgets,
    keep_worthiest,
    path_rules,
    take_columns,
    trace_path,
)
from skinnytrees.rows import Rows
from skinnytrees.training import Callback, EpochReport, TrainingSettings, computing, train


class Prepared(NamedTuple):
    """Rows as kernels take them, with what it takes to prepare others in the same way."""

    encoder: Encoder
    target: TargetScale
    data: Data

    def also(self, rows: Rows) -> Data:
        """Other rows, prepared by what was learned from these."""
        return _as_data(rows, self.encoder, self.target)


@dataclass(frozen=True)
class Problem:
    """What is to be learned, whatever the rows."""

    loss: Loss
    activation: Activation
    n_outputs: int
    feature_groups: Sequence[NDArray[np.intp]]
    price: NDArray[np.float64]
    fixed: NDArray[np.bool_]
    is_categorical: NDArray[np.bool_]
    standardize: bool
    target_scale: Callable[[Rows], TargetScale]

    def prepare(self, rows: Rows, groups: NDArray[np.intp] | None = None) -> Prepared:
        """Learn encoding and target scale from these rows, for all groups or some."""
        chosen = self.feature_groups if groups is None else [self.feature_groups[g] for g in groups]
        encoder = Encoder.learn(rows.X, rows.weight, chosen, self.is_categorical, self.standardize)
        target = self.target_scale(rows)
        return Prepared(encoder, target, _as_data(rows, encoder, target))

    @property
    def trainer(self) -> Trainer:
        """Training at a fixed support."""
        return Trainer(self.loss, self.activation)


class PathSettings(NamedTuple):
    """What the user says about the path."""

    budget: float
    size_rule: str
    refit: bool
    folds: Sequence[tuple[NDArray[np.intp], NDArray[np.intp]]] | None
    final: dict[str, Any]
    callbacks: Sequence[Callback] = ()
    show: Callable[[EpochReport], None] = lambda report: None


class PathFit(NamedTuple):
    """What fitting a path gives."""

    model: SoftTrees
    path: FeaturePath
    reports: list[EpochReport]


def fit_penalised(
    problem: Problem, training: Rows, held_out: Rows | None, settings: TrainingSettings, n_trees: int, depth: int,
    rng: np.random.Generator,
) -> tuple[SoftTrees, list[EpochReport]]:  # fmt: skip
    """The paper's Algorithm 1."""
    prepared = problem.prepare(training)
    data = prepared.data._replace(X=prepared.encoder.encode_dense(training.X))
    validation = None if held_out is None else prepared.also(held_out)
    trees = start_trees(data.X.shape[1], n_trees, depth, problem.n_outputs, rng)
    reports = train(trees, data, prepared.encoder.offsets, settings, rng, validation)
    return SoftTrees.from_training(trees, prepared.encoder, problem.activation, prepared.target), reports


def fit_path(
    problem: Problem, rows: Rows, training: Rows, held_out: Rows | None, settings: PathSettings, rng: np.random.Generator
) -> PathFit:
    """Walk the path, choose a size within the budget, make the final ensemble there."""
    with computing():
        fold_losses = None if settings.folds is None else _fold_losses(problem, rows, settings, rng)
        walk = Walk.along(problem, training, held_out, settings, rng)
        losses, weight = (walk.losses, None if held_out is None else held_out.weight) if fold_losses is None else fold_losses
        fits = [i for i, point in enumerate(walk.points) if problem.price[point.groups].sum() <= settings.budget * (1 + 1e-9)]
        if losses is None:
            chosen = fits[0]
        else:
            chosen = fits[0] + choose_point(losses[fits], weight, settings.size_rule)
        support, recipe, trees = walk.finish(chosen, settings, rng)
        prepared = walk.prepared._replace(encoder=walk.prepared.encoder.select(support))
        if settings.refit and held_out is not None and not walk.interrupted:
            prepared = problem.prepare(rows, support)
            trees, _ = problem.trainer.start(prepared.data, problem.n_outputs, recipe, rng)
    model = _as_model(problem, prepared.encoder, prepared.target, trees)
    return PathFit(model, walk.as_path(chosen, losses, weight), walk.reports)


@dataclass
class Walk:
    """A path that was walked on training rows, with every point's loss on held-out rows."""

    problem: Problem
    prepared: Prepared
    validation: Data | None
    points: list[PathPoint]
    losses: NDArray[np.float64] | None
    reports: list[EpochReport]
    interrupted: bool = False

    @classmethod
    def along(
        cls, problem: Problem, training: Rows, held_out: Rows | None, settings: PathSettings, rng: np.random.Generator
    ) -> "Walk":
        """Walk from all groups to the last one."""
        prepared = problem.prepare(training)
        validation = None if held_out is None else prepared.also(held_out)
        walk = cls(problem, prepared, validation, [], None, [])
        losses: list[NDArray[np.float64]] = []
        groups = walk.groups
        rules = path_rules(len(prepared.data.Y), **settings.final)
        budgets = falling_budgets(groups, settings.budget)
        try:
            for point in trace_path(
                prepared.data, groups, problem.n_outputs, budgets, problem.trainer, rules, rng
            ):  # fmt: skip
                walk.points.append(point)
                if validation is not None:
                    losses.append(walk.losses_of(point.groups, point.trees))
                walk._report(losses, settings)
                within = problem.price[point.groups].sum() <= settings.budget
                if any([callback(walk.reports[-1]) for callback in settings.callbacks]) and within:
                    break
        except KeyboardInterrupt:
            walk._stop_early(losses, settings.budget)
        walk.losses = np.array(losses) if losses else None
        return walk

    @property
    def groups(self) -> Groups:
        """Groups of design columns with their prices."""
        return Groups(self.prepared.encoder.offsets, self.problem.price, self.problem.fixed)

    def losses_of(self, groups: NDArray[np.intp], trees: Trees) -> NDArray[np.float64]:
        """Loss on every held-out row of an ensemble on these groups."""
        assert self.validation is not None
        X = take_columns(self.validation.X, self.groups.columns(groups))
        return self.problem.trainer.row_losses(trees, self.validation._replace(X=X))

    def finish(
        self, chosen: int, settings: PathSettings, rng: np.random.Generator
    ) -> tuple[NDArray[np.intp], Recipe, Trees]:
        """The final support and ensemble: of the recipes (and supports) that are tried, the best on held-out rows."""
        point = self.points[chosen]
        supports = [point.groups]
        if len(set(self.problem.price)) > 1:
            # With unequal costs, many cheap features may beat the few that were worth their price on the way down.
            supports.append(keep_worthiest(np.zeros(len(self.problem.price)), self.groups, settings.budget))
        n_rows = len(self.prepared.data.Y)
        rules = path_rules(n_rows, **settings.final)
        tried: list[tuple[float, NDArray[np.intp], Recipe, Trees]] = []
        for support in supports:
            columns = self.groups.columns(support)
            data = self.prepared.data._replace(X=take_columns(self.prepared.data.X, columns))
            for recipe in rules.final(n_rows, len(columns)):
                if self.interrupted:
                    return point.groups, recipe, point.trees
                trees, loss = self.problem.trainer.start(data, self.problem.n_outputs, recipe, rng)
                if self.validation is not None:
                    loss = float(np.average(self.losses_of(support, trees), weights=self.validation.weight))
                tried.append((loss, support, recipe, trees))
        return min(tried, key=lambda one: one[0])[1:]

    def as_path(self, chosen: int, losses: NDArray[np.float64] | None, weight: NDArray[Any] | None) -> FeaturePath:
        """The walk as users see it."""
        problem, prepared = self.problem, self.prepared
        supports = [np.sort(np.concatenate([problem.feature_groups[g] for g in point.groups])) for point in self.points]
        score, error = self._scores(losses, weight)
        models = [
            _as_model(problem, prepared.encoder.select(point.groups), prepared.target, point.trees) for point in self.points
        ]
        return FeaturePath(
            n_features=np.array([len(support) for support in supports]),
            val_score=score,
            val_score_se=error,
            train_loss=np.array([point.train_loss for point in self.points]),
            cost=np.array([problem.price[point.groups].sum() for point in self.points]),
            supports=supports,
            models=models,
            chosen=chosen,
        )

    def _scores(
        self, losses: NDArray[np.float64] | None, weight: NDArray[Any] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if losses is None or weight is None:
            return np.full(len(self.points), np.nan), np.full(len(self.points), np.nan)
        share = weight / weight.sum()
        mean = losses @ share
        floor, guess = _reference_losses(self.problem, self.prepared.data)
        span = max(guess - floor, np.finfo(float).tiny)
        error = np.sqrt(((losses - mean[:, None]) ** 2) @ share**2)
        return 1 - (mean - floor) / span, error / span

    def _report(self, losses: list[NDArray[np.float64]], settings: PathSettings) -> None:
        point = self.points[-1]
        val_loss = float(losses[-1].mean()) if losses else np.nan
        n_features = sum(len(self.problem.feature_groups[g]) for g in point.groups)
        self.reports.append(EpochReport(len(self.points) - 1, point.train_loss, np.nan, n_features, val_loss))
        settings.show(self.reports[-1])

    def _stop_early(self, losses: list[NDArray[np.float64]], budget: float) -> None:
        """After Ctrl-C: cut the last ensemble to the budget without more training; before the first, give up."""
        if not self.points:
            raise KeyboardInterrupt
        self.interrupted = True
        last = self.points[-1]
        here = self.groups.take(last.groups)
        norms = np.sqrt(np.add.reduceat(np.square(last.trees.W).sum(axis=1), here.offsets[:-1]))
        kept = keep_worthiest(norms.astype(np.float64), here, budget)
        if len(kept) < len(last.groups):
            point = PathPoint(last.groups[kept], last.trees.select(here.columns(kept)), last.train_loss)
            self.points.append(point)
            if losses:
                losses.append(self.losses_of(point.groups, point.trees))
        warnings.warn("The path was interrupted; the model is cut to the budget from the last finished size.", stacklevel=2)


def _fold_losses(
    problem: Problem, rows: Rows, settings: PathSettings, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each size's loss on every row, by a path that was walked without the row's fold."""
    walks = []
    weights = []
    for kept, held in settings.folds or ():
        walk = Walk.along(problem, rows.take(kept), rows.take(held), settings._replace(callbacks=()), rng)
        if walk.interrupted:
            raise KeyboardInterrupt
        walks.append(walk.losses)
        weights.append(rows.weight[held])
    return np.concatenate(walks, axis=1), np.concatenate(weights)


def _reference_losses(problem: Problem, data: Data) -> tuple[float, float]:
    """Mean training loss of a perfect prediction, and of the best constant one."""
    Y, share, functions = data.Y, data.weight / data.weight.sum(), problem.trainer.functions

    def mean_loss(constant: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        F = np.tile(constant.astype(np.float32), (len(Y), 1))
        row_loss, G = evaluate_loss(functions.loss, functions.loss_parameter, F, Y)
        return float(row_loss @ share), (share @ G).astype(np.float64)

    best = minimize(mean_loss, np.zeros(problem.n_outputs), jac=True, method="L-BFGS-B")
    return float(share @ problem.loss.least_loss(Y)), float(best.fun)


def _as_model(problem: Problem, encoder: Encoder, target: TargetScale, trees: Trees) -> SoftTrees:
    small = trees.copy()
    small.O[:] *= target.raw_scale.astype(small.O.dtype)
    return SoftTrees(encoder, small, target.raw_shift, problem.activation)


def _as_data(rows: Rows, encoder: Encoder, target: TargetScale) -> Data:
    Y = ((rows.Y - target.shift) / target.scale).astype(np.float32)
    weight = (rows.weight / rows.weight.mean()).astype(np.float32)
    return Data(encoder.encode(rows.X), np.ascontiguousarray(Y), weight)
