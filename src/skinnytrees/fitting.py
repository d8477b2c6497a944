"""From rows to a fitted model: the two ways of being sparse, without estimators and without tables of words."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
    group_norms,
    path_rules,
    prune,
    screen,
    take_columns,
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
        losses, weight = fold_losses or (walk.all_losses, None if held_out is None else held_out.weight)
        fits = walk.within_budget(walk.points)
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
    settings: PathSettings
    points: list[PathPoint] = field(default_factory=list)
    losses: list[NDArray[np.float64]] = field(default_factory=list)
    reports: list[EpochReport] = field(default_factory=list)
    interrupted: bool = False

    @classmethod
    def along(
        cls, problem: Problem, training: Rows, held_out: Rows | None, settings: PathSettings, rng: np.random.Generator
    ) -> "Walk":
        """Walk from all groups to the last one."""
        prepared = problem.prepare(training)
        walk = cls(problem, prepared, None if held_out is None else prepared.also(held_out), settings)
        try:
            walk._go(rng)
        except KeyboardInterrupt:
            walk._stop_early()
        return walk

    def _go(self, rng: np.random.Generator) -> None:
        """Screen, then prune in both ways and keep the better one."""
        problem, data, groups = self.problem, self.prepared.data, self.groups
        trainer, rules = problem.trainer, path_rules(len(data.Y), **self.settings.final)
        budgets = falling_budgets(groups, self.settings.budget)
        for point in screen(data, groups, problem.n_outputs, budgets, trainer, rules, rng):
            if self._add(point):
                return
        todo = budgets[len(self.points) :]
        if len(todo) == 0:
            return
        alive = keep_worthiest(*self._norms(), todo[0]) if self.points else np.arange(len(groups.price))
        alive = self.points[-1].groups[alive] if self.points else alive
        dense = data._replace(X=take_columns(data.X, groups.columns(alive)))
        trees, loss = trainer.start(dense, problem.n_outputs, rules.prune, rng)
        start = PathPoint(alive, trees, loss)
        if self._add(start):
            return
        n_screened, branches = len(self.points), []
        for fill_in in (True, False):
            del self.points[n_screened:], self.losses[n_screened:], self.reports[n_screened:]
            for point in prune(start, data, groups, todo[1:], fill_in, trainer, rules, rng):
                if self._add(point):
                    break
            branches.append((self.points[:], self.losses[:], self.reports[:]))
        scores = [self._score_branch(points, losses) for points, losses, _ in branches]
        self.points, self.losses, self.reports = branches[int(np.argmin(scores))]

    def _score_branch(self, points: list[PathPoint], losses: list[NDArray[np.float64]]) -> float:
        """Loss at the size that would be chosen: on held-out rows, or on training rows where none are held out."""
        fits = self.within_budget(points)
        if self.validation is None:
            return points[fits[0]].train_loss
        losses_that_fit = np.array(losses)[fits]
        chosen = choose_point(losses_that_fit, self.validation.weight, self.settings.size_rule)
        return float(np.average(losses_that_fit[chosen], weights=self.validation.weight))

    def within_budget(self, points: list[PathPoint]) -> list[int]:
        """Points that the budget allows."""
        limit = self.settings.budget * (1 + 1e-9)
        return [i for i, point in enumerate(points) if self.problem.price[point.groups].sum() <= limit]

    def _add(self, point: PathPoint) -> bool:
        """Take a point in; whether a callback wants to stop, which it may once the budget is met."""
        self.points.append(point)
        val_loss = np.nan
        if self.validation is not None:
            self.losses.append(self.losses_of(point.groups, point.trees))
            val_loss = float(np.average(self.losses[-1], weights=self.validation.weight))
        n_features = sum(len(self.problem.feature_groups[g]) for g in point.groups)
        self.reports.append(EpochReport(len(self.points) - 1, point.train_loss, np.nan, n_features, val_loss))
        self.settings.show(self.reports[-1])
        wants_stop = any([callback(self.reports[-1]) for callback in self.settings.callbacks])
        return wants_stop and len(self.within_budget([point])) > 0

    @property
    def all_losses(self) -> NDArray[np.float64] | None:
        """Each point's loss on every held-out row."""
        return np.array(self.losses) if self.losses else None

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

    def _norms(self) -> tuple[NDArray[np.float64], Groups]:
        """Norms of the last point's groups, and those groups."""
        here = self.groups.take(self.points[-1].groups)
        return group_norms(self.points[-1].trees, here), here

    def _stop_early(self) -> None:
        """After Ctrl-C: cut the last ensemble to the budget without more training; before the first, give up."""
        if not self.points:
            raise KeyboardInterrupt
        self.interrupted = True
        last = self.points[-1]
        norms, here = self._norms()
        kept = keep_worthiest(norms, here, self.settings.budget)
        if len(kept) < len(last.groups):
            self._add(PathPoint(last.groups[kept], last.trees.select(here.columns(kept)), last.train_loss))
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
        walks.append(np.array(walk.losses))
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
