"""From rows to a fitted model: the two ways of being sparse, without estimators and without tables of words."""

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skinnytrees.activations import Activation
from skinnytrees.column_views import Views
from skinnytrees.columns import FeatureGroups
from skinnytrees.encoding import Encoder
from skinnytrees.feature_path import FeaturePath
from skinnytrees.kernels.state import Data, Trees, start_trees
from skinnytrees.losses import Loss, TargetScale, evaluate_loss
from skinnytrees.model import SoftTrees
from skinnytrees.path import (
    LARGE_IS_SAFE_FROM_ROWS,
    Blend,
    Groups,
    PathPoint,
    Trainer,
    average,
    choose_point,
    choose_size,
    falling_budgets,
    fork_generator,
    keep_by_norm,
    keep_worthiest,
    path_rules,
    prune,
    screen,
    take_columns,
)
from skinnytrees.rows import Rows
from skinnytrees.threads import in_step
from skinnytrees.training import Callback, EpochReport, TrainingSettings, computing, train

# The ways of pruning that are tried: with and without the columns that stay filling in for what goes.
FILL_IN = (True, False)
# Walks that are begun anew where nothing is pruned.
N_STARTS = 4


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
    feature_groups: FeatureGroups
    price: NDArray[np.float64]
    fixed: NDArray[np.bool_]
    is_categorical: NDArray[np.bool_]
    standardize: bool
    target_scale: Callable[[Rows], TargetScale]
    n_threads: int = 1
    views: Views = field(default_factory=Views.linear_only)

    def prepare(self, rows: Rows, groups: NDArray[np.intp] | None = None) -> Prepared:
        """Learn encoding and target scale from these rows, for all groups or some."""
        chosen = self.feature_groups if groups is None else self.feature_groups.take(groups)
        encoder = Encoder.learn(rows.X, rows.weight, chosen, self.is_categorical, self.standardize, self.views)
        target = self.target_scale(rows)
        return Prepared(encoder, target, _as_data(rows, encoder, target))

    @property
    def trainer(self) -> Trainer:
        """Training at a fixed support."""
        return Trainer(self.loss, self.activation, self.n_threads)


class PathSettings(NamedTuple):
    """What the user says about the path."""

    budget: float
    size_rule: str
    refit: bool
    folds: Sequence[tuple[Rows, Rows]] | None
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
    data, validation = prepared.data, None if held_out is None else prepared.also(held_out)
    trees = start_trees(data.X.shape[1], n_trees, depth, problem.n_outputs, rng)
    settings = replace(settings, n_threads=problem.n_threads)
    reports = train(trees, data, prepared.encoder.offsets, settings, rng, validation)
    return SoftTrees.from_training(trees, prepared.encoder, problem.activation, prepared.target), reports


def fit_path(
    problem: Problem,
    rows: Rows,
    training: Rows,
    held_out: Rows | None,
    settings: PathSettings,
    rng: np.random.Generator,
) -> PathFit:
    """Walk the path, choose a size within the budget, make the final ensemble there.

    Where the path forks (see ``Walk``), the fork that is better on held-out rows at its chosen size is taken.
    """
    with computing():
        folds = None if settings.folds is None else _fold_losses(problem, settings, rng)
        walk = Walk(problem, training, held_out, settings)
        walk.go(rng)
        final = walk.finish(walk.candidates(None if walk.interrupted else folds), rng)
        support = final.candidate.support
        encoder, target, trees = walk.prepared.encoder.select(support), walk.prepared.target, final.trees
        if settings.refit and held_out is not None and not walk.interrupted:
            try:
                again = problem.prepare(rows, support)
                data = again.data._replace(X=take_columns(again.data.X, np.arange(again.data.X.shape[1])))
                trees = problem.trainer.start_blend(data, problem.n_outputs, final.blend, rng)
                encoder, target = again.encoder, again.target
            except KeyboardInterrupt:
                warnings.warn("The refit was interrupted; the model has not seen the held-out rows.", stacklevel=6)
    model = _as_model(problem, encoder, target, trees)
    return PathFit(model, walk.as_path(final, model), final.candidate.fork.reports)


class Fork(NamedTuple):
    """Points of the path in order, each with its loss on every held-out row and its report."""

    points: list[PathPoint]
    losses: list[NDArray[np.float64]]
    reports: list[EpochReport]


class Candidate(NamedTuple):
    """A support for the final ensemble: at which point of which fork, with the losses by which that was chosen."""

    fork: Fork
    chosen: int
    losses: list[NDArray[np.float64]]
    weight: NDArray[np.float64] | None
    support: NDArray[np.intp]

    def path_losses(self) -> tuple[float, ...]:
        """Losses of the path's own ensemble at that point: on held-out rows or folds, if there are any; on training rows."""
        on_training_rows = self.fork.points[self.chosen].train_loss
        if self.losses and self.weight is not None:
            return float(np.average(self.losses[self.chosen], weights=self.weight)), on_training_rows
        return (on_training_rows,)


class Final(NamedTuple):
    """A final ensemble, how it was made and how good it is."""

    candidate: Candidate
    blend: Blend
    trees: Trees
    loss: float


class Walk:
    """A walk from all groups to the last one on training rows, measured on held-out rows.

    It begins with screening and forks where pruning takes over: one fork fills in for what is removed, one does not.
    Where rows are too few for pruning, it forks at the very beginning: screening meets dead ends on few rows, and new random
    trees lead to others.
    """

    def __init__(self, problem: Problem, training: Rows, held_out: Rows | None, settings: PathSettings) -> None:
        self.problem, self.settings = problem, settings
        self.prepared = problem.prepare(training)
        self.validation = None if held_out is None else self.prepared.also(held_out)
        self.groups = Groups(self.prepared.encoder.offsets, problem.price, problem.fixed)
        self.rules = path_rules(len(training.Y), **settings.final)
        self.forks = [Fork([], [], [])]
        self.interrupted = False

    def go(self, rng: np.random.Generator) -> None:
        """Walk; after Ctrl-C, cut the last ensemble to the budget without more training."""
        try:
            self._go(rng)
        except KeyboardInterrupt:
            fork = self.forks[0]
            if not fork.points:
                raise
            self.interrupted = True
            self.forks = [fork]
            last = fork.points[-1]
            kept = keep_by_norm(last, self.groups, self.settings.budget)
            if len(kept) < len(last.groups):
                trees = last.trees.select(self.groups.take(last.groups).columns(kept))
                self._measure(PathPoint(last.groups[kept], trees, last.train_loss), fork)
            warnings.warn(
                "The path was interrupted; the model is cut to the budget from the last finished size.", stacklevel=7
            )

    def _go(self, rng: np.random.Generator) -> None:
        data, groups, trainer = self.prepared.data, self.groups, self.problem.trainer
        budgets = falling_budgets(groups, self.settings.budget)

        def screened_by(rng: np.random.Generator) -> Iterator[PathPoint]:
            return screen(data, groups, self.problem.n_outputs, budgets, trainer, self.rules, rng)

        if not self.rules.prune_from:
            self._fork([screened_by(own_rng) for own_rng in fork_generator(rng, N_STARTS)], len(budgets))
            return
        for point in screened_by(rng):
            if self._add([point]):
                return
        screened = self.forks[0]
        todo = budgets[len(screened.points) :]
        if len(todo) == 0:
            return
        alive = np.arange(len(groups.price))
        if screened.points:
            alive = screened.points[-1].groups[keep_by_norm(screened.points[-1], groups, todo[0])]
        some = data._replace(X=take_columns(data.X, groups.columns(alive)))
        recipe = self.rules.prune.for_columns(some.X.shape[1])
        start = PathPoint(alive, *trainer.start(some, self.problem.n_outputs, recipe, rng))
        if self._add([start]):
            return
        ways = [
            prune(start, data, groups, todo[1:], fill_in, trainer, self.rules, own_rng)
            for fill_in, own_rng in zip(FILL_IN, fork_generator(rng, len(FILL_IN)), strict=True)
        ]
        self._fork(ways, len(todo) - 1)

    def _fork(self, ways: Sequence[Iterator[PathPoint]], n_points: int) -> None:
        """From what has been walked so far, go on in several ways side by side."""
        common = self.forks[0]
        self.forks = [Fork(list(common.points), list(common.losses), list(common.reports)) for _ in ways]
        for points in in_step(ways, n_points, self.problem.n_threads):
            if self._add(points):
                return

    def _add(self, points: Sequence[PathPoint]) -> bool:
        """Take in a point for every fork and report the best; whether a callback wants to stop, once the budget is met."""
        reports = [self._measure(point, fork) for point, fork in zip(points, self.forks, strict=True)]
        best = min(reports, key=lambda report: report.loss if self.validation is None else report.val_loss)
        self.settings.show(best)
        answers = [callback(best) for callback in self.settings.callbacks]
        return any(answers) and all(self._fits(point) for point in points)

    def _measure(self, point: PathPoint, fork: Fork) -> EpochReport:
        """Take a point in with its losses and report; all or nothing, whenever Ctrl-C comes."""
        val_loss = np.nan
        n_features = int(self.problem.feature_groups.sizes[point.groups].sum())
        losses = None if self.validation is None else self._losses(point.groups, point.trees)
        if losses is not None and self.validation is not None:
            val_loss = float(np.average(losses, weights=self.validation.weight))
            fork.losses.append(losses)
        fork.reports.append(EpochReport(len(fork.points), point.train_loss, np.nan, n_features, val_loss))
        fork.points.append(point)
        return fork.reports[-1]

    def _fits(self, point: PathPoint) -> bool:
        return bool(self.problem.price[point.groups].sum() <= self.settings.budget * (1 + 1e-9))

    def _losses(self, groups: NDArray[np.intp], trees: Trees) -> NDArray[np.float64]:
        """Loss on every held-out row of an ensemble on these groups."""
        return self.problem.trainer.row_losses(trees, self._held_out(groups))

    def _ranking(self, point: PathPoint) -> float:
        """How well a point's ensemble ranks the held-out rows; nobody knows where there are none, as with folds."""
        if self.validation is None:
            return np.nan
        return self.problem.trainer.ranking(point.trees, self._held_out(point.groups))

    def _held_out(self, groups: NDArray[np.intp]) -> Data:
        assert self.validation is not None
        return self.validation._replace(X=take_columns(self.validation.X, self.groups.columns(groups)))

    def choose(
        self, points: list[PathPoint], losses: list[NDArray[np.float64]], weight: NDArray[np.float64] | None
    ) -> int:
        """The point to take among those within the budget; the largest, where no rows are held out."""
        fits = [i for i, point in enumerate(points) if self._fits(point)]
        if not losses or weight is None:
            return fits[0]
        return fits[
            choose_size(
                np.array(losses)[fits], weight, self.settings.size_rule, lambda i: self._ranking(points[fits[i]])
            )
        ]

    def candidates(self, folds: tuple[list[NDArray[np.float64]], NDArray[np.float64]] | None) -> list[Candidate]:
        """Where the final ensemble may be made: at the chosen size of the better fork."""
        best = self._best_fork([self._candidate(i, folds) for i in range(len(self.forks))])
        if len(set(self.problem.price)) == 1:
            return [best]
        # With unequal costs, many cheap features may beat the few that were worth their price on the way down.
        cheapest = keep_worthiest(np.zeros(len(self.problem.price)), self.groups, self.settings.budget)
        return [best] if np.array_equal(cheapest, best.support) else [best, best._replace(support=cheapest)]

    def _best_fork(self, candidates: list[Candidate]) -> Candidate:
        """The best on held-out rows; of several starts, the first that is within noise of it: few rows cannot say more."""
        weight = candidates[0].weight
        if self.rules.prune_from or weight is None or self.validation is None:
            return min(candidates, key=Candidate.path_losses)
        return candidates[choose_point(np.array([one.losses[one.chosen] for one in candidates]), weight, "best")]

    def _candidate(self, i: int, folds: tuple[list[NDArray[np.float64]], NDArray[np.float64]] | None) -> Candidate:
        fork = self.forks[i]
        losses, weight = fork.losses, None if self.validation is None else self.validation.weight.astype(float)
        if folds is not None:
            losses, weight = list(folds[0][i][: len(fork.points)]), folds[1]
        chosen = self.choose(fork.points, losses, weight)
        return Candidate(fork, chosen, losses, weight, fork.points[chosen].groups)

    def finish(self, candidates: list[Candidate], rng: np.random.Generator) -> Final:
        """The final ensemble: of the candidates' own, the best on held-out rows; after Ctrl-C, the path's at the chosen size."""
        if not self.interrupted:
            try:
                return min((self._final_at(one, rng) for one in candidates), key=lambda final: final.loss)
            except KeyboardInterrupt:
                self.interrupted = True
                warnings.warn(
                    "The final ensemble was interrupted; the model is the path's own at the chosen size.", stacklevel=7
                )
        first = candidates[0]
        return Final(first, (), first.fork.points[first.chosen].trees, 0.0)

    def _final_at(self, one: Candidate, rng: np.random.Generator) -> Final:
        """Of all blends at a support, the best on held-out rows; where they are few, the first within noise of it.

        Without held-out rows nobody can choose, and the blend of most recipes is made.
        """
        table = self._table(one)
        blends = self.rules.final(*table.X.shape)
        if self.validation is None:
            blends = (max(blends, key=len),)
        recipes = list(dict.fromkeys(itertools.chain(*blends)))
        trained = self.problem.trainer.start_each([table] * len(recipes), self.problem.n_outputs, recipes, rng)
        made = {recipe: trees for recipe, (trees, _) in zip(recipes, trained, strict=True)}
        ensembles = [average([made[recipe] for recipe in blend]) for blend in blends]
        if self.validation is None:
            return Final(one, blends[0], ensembles[0], one.path_losses()[0])
        weight = self.validation.weight.astype(float)
        losses = np.array([self._losses(one.support, trees) for trees in ensembles])
        few = len(table.Y) < LARGE_IS_SAFE_FROM_ROWS
        i = choose_point(losses, weight, "best") if few else int(np.argmin(losses @ weight))
        return Final(one, blends[i], ensembles[i], float(np.average(losses[i], weights=weight)))

    def _table(self, one: Candidate) -> Data:
        data = self.prepared.data
        return data._replace(X=take_columns(data.X, self.groups.columns(one.support)))

    def as_path(self, final: Final, model: SoftTrees) -> FeaturePath:
        """The walk as users see it, with the final support in its place where it is not the walk's own."""
        one, problem = final.candidate, self.problem
        points, losses = list(one.fork.points), list(one.losses)
        if not np.array_equal(points[one.chosen].groups, one.support):
            points[one.chosen] = points[one.chosen]._replace(groups=one.support, trees=final.trees)
            if self.validation is not None:
                losses[one.chosen] = self._losses(one.support, final.trees)
        supports = [np.sort(problem.feature_groups.take(point.groups).features) for point in points]
        score, error = self._scores(losses, one.weight, len(points))
        encoder, target = self.prepared.encoder, self.prepared.target
        return FeaturePath(
            n_features=np.array([len(support) for support in supports]),
            val_score=score,
            val_score_se=error,
            train_loss=np.array([point.train_loss for point in points]),
            cost=np.array([problem.price[point.groups].sum() for point in points]),
            supports=supports,
            models=[_as_model(problem, encoder.select(point.groups), target, point.trees) for point in points],
            chosen=one.chosen,
            final=model,
        ).without_repeats()

    def _scores(
        self, row_losses: list[NDArray[np.float64]], weight: NDArray[np.float64] | None, n_points: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if not row_losses or weight is None:
            return np.full(n_points, np.nan), np.full(n_points, np.nan)
        losses, share = np.array(row_losses), weight / weight.sum()
        mean = losses @ share
        # With folds, every row was held out once.
        held_out = self.prepared.data if self.validation is None else self.validation
        floor, guess = _reference_losses(self.problem, held_out)
        span = max(guess - floor, np.finfo(float).tiny)
        error = np.sqrt(((losses - mean[:, None]) ** 2) @ share**2)
        return 1 - (mean - floor) / span, error / span


def _fold_losses(
    problem: Problem, settings: PathSettings, rng: np.random.Generator
) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
    """For each fork, each size's loss on every held-out row, by walks that did not see the row; and the rows' weights."""
    by_fold, weights = [], []
    for kept, held in settings.folds or ():
        walk = Walk(problem, kept, held, settings._replace(callbacks=()))
        walk.go(rng)
        if walk.interrupted:
            raise KeyboardInterrupt
        losses = np.array([fork.losses for fork in walk.forks])
        # Starts are numbered by chance: the first of one fold is not the first of another.
        by_fold.append(losses if walk.rules.prune_from else np.broadcast_to(losses.mean(axis=0), losses.shape))
        weights.append(held.weight)
    return list(np.concatenate(by_fold, axis=2)), np.concatenate(weights)


def _reference_losses(problem: Problem, data: Data) -> tuple[float, float]:
    """Mean loss of a perfect prediction, and of the best constant one."""
    Y, share, functions = data.Y, data.weight / data.weight.sum(), problem.trainer.functions

    def mean_loss(constant: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        F = np.tile(constant.astype(np.float32), (len(Y), 1))
        row_loss, G = evaluate_loss(functions.loss, functions.loss_parameter, F, Y)
        return float(row_loss @ share), (share @ G).astype(np.float64)

    best = minimize(mean_loss, np.zeros(problem.n_outputs), jac=True, method="L-BFGS-B")
    return float(share @ problem.loss.least_loss(Y)), float(best.fun)


def _as_model(problem: Problem, encoder: Encoder, target: TargetScale, trees: Trees) -> SoftTrees:
    small = trees.copy()
    small.O[:] *= target.raw_scale.astype(small.O.dtype)[:, None]
    return SoftTrees(encoder, small, target.raw_shift, problem.activation)


def _as_data(rows: Rows, encoder: Encoder, target: TargetScale) -> Data:
    Y = ((rows.Y - target.shift) / target.scale).astype(np.float32)
    weight = (rows.weight / rows.weight.mean()).astype(np.float32)
    return Data(encoder.training_design(rows.X), np.ascontiguousarray(Y), weight)
