"""From rows to a fitted model: the paper's penalised training, or the path; without estimators and without categorical tables."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import Activation
from skinnytrees.column_views import Views
from skinnytrees.columns import Groups
from skinnytrees.encoding import Encoder
from skinnytrees.feature_path import FeaturePath
from skinnytrees.kernels.state import Data, Trees, start_trees
from skinnytrees.losses import Loss, TargetScale
from skinnytrees.model import SoftTrees
from skinnytrees.path.evidence import HeldOutRows, RowLosses, join_folds, reference_losses
from skinnytrees.path.final import FinalEnsemble, make_final
from skinnytrees.path.points import PathInputs, data_of
from skinnytrees.path.rules import PathRules
from skinnytrees.path.size_choice import Candidate, SizeChooser
from skinnytrees.path.trainer import Trainer
from skinnytrees.path.walk import Walk
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
    groups: Groups
    is_categorical: NDArray[np.bool_]
    standardize: bool
    target_scale: Callable[[Rows], TargetScale]
    n_threads: int = 1
    views: Views = field(default_factory=Views.linear_only)

    def prepare(self, rows: Rows, groups: NDArray[np.intp] | None = None) -> Prepared:
        """Learn encoding and target scale from these rows, for all groups or some."""
        chosen = self.groups if groups is None else self.groups.take(groups)
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
    rules: PathRules
    final_recipe: dict[str, Any]
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

    Where the path branches (see ``Walk``), the branch that is better on held-out rows at its chosen size is taken.
    """
    with computing():
        folds = None if settings.folds is None else _fold_losses(problem, settings, rng)
        prepared = problem.prepare(training)
        walk = _prepare_walk(problem, prepared, held_out, settings, settings.callbacks)
        walk.go(rng)
        chooser = SizeChooser(walk.inputs, walk.held_out, settings.budget, settings.size_rule)
        final = _finish(walk, chooser.candidates(walk.branches, None if walk.interrupted else folds), rng)
        support = final.candidate.support
        encoder, target, trees = prepared.encoder.select(support), prepared.target, final.trees
        if settings.refit and held_out is not None and final.blend:
            try:
                again = problem.prepare(rows, support)
                data = data_of(again.data, np.arange(again.data.X.shape[1]))
                trees = problem.trainer.start_blend(data, problem.n_outputs, final.blend, rng)
                encoder, target = again.encoder, again.target
            except KeyboardInterrupt:
                warnings.warn("The refit was interrupted; the model has not seen the held-out rows.", stacklevel=6)
    model = _as_model(problem, encoder, target, trees)
    return PathFit(model, _as_path(problem, prepared, walk, final, model, folds), final.candidate.branch.reports)


def _prepare_walk(
    problem: Problem, prepared: Prepared, held_out: Rows | None, settings: PathSettings, callbacks: Sequence[Callback]
) -> Walk:
    def report(best: EpochReport) -> bool:
        settings.show(best)
        answers = [callback(best) for callback in callbacks]
        return any(answers)

    groups, trainer = problem.groups.encoded(prepared.encoder.offsets), problem.trainer
    recipes = settings.rules.for_rows(len(prepared.data.Y), **settings.final_recipe)
    inputs = PathInputs(prepared.data, groups, problem.n_outputs, trainer, settings.rules, recipes)
    judges = None if held_out is None else HeldOutRows(prepared.also(held_out), groups, trainer)
    return Walk(inputs, judges, settings.budget, report)


def _fold_losses(problem: Problem, settings: PathSettings, rng: np.random.Generator) -> list[RowLosses]:
    """For each branch, each size's loss on every held-out row, by walks that did not see the row."""
    losses, weights = [], []
    for kept, held in settings.folds or ():
        walk = _prepare_walk(problem, problem.prepare(kept), held, settings, callbacks=())
        walk.go(rng)
        if walk.interrupted:
            raise KeyboardInterrupt
        losses.append(np.array([branch.losses for branch in walk.branches]))
        weights.append(held.weight)
    return join_folds(losses, weights, starts_differ=not walk.inputs.recipes.prune_from)


def _finish(walk: Walk, candidates: list[Candidate], rng: np.random.Generator) -> FinalEnsemble:
    """The best final ensemble; after Ctrl-C, the path's own at the chosen size."""
    if not walk.interrupted:
        try:
            return make_final(candidates, walk.inputs, walk.held_out, rng)
        except KeyboardInterrupt:
            warnings.warn(
                "The final ensemble was interrupted; the model is the path's own at the chosen size.", stacklevel=7
            )
    return FinalEnsemble.of_path(candidates[0])


def _as_path(
    problem: Problem, prepared: Prepared, walk: Walk, final: FinalEnsemble, model: SoftTrees,
    folds: list[RowLosses] | None,
) -> FeaturePath:  # fmt: skip
    """The walk as users see it, with the final support in its place where it is not the walk's own."""
    one, groups, held_out = final.candidate, problem.groups, walk.held_out
    points, evidence, i = list(one.branch.points), one.evidence, one.chosen_index
    if not np.array_equal(points[i].groups, one.support):
        points[i] = points[i]._replace(groups=one.support, trees=final.trees)
        # Nobody has fitted this support on folds.
        if folds is None and evidence is not None and held_out is not None:
            evidence = evidence.with_point(i, held_out.row_losses(one.support, final.trees))
    score, error = np.full((2, len(points)), np.nan)
    if evidence is not None:
        # With folds, every row was held out once.
        judges = prepared.data if held_out is None else held_out.data
        score, error = evidence.scores(*reference_losses(problem.trainer, problem.n_outputs, judges))
    supports = [np.sort(groups.take(point.groups).features) for point in points]
    return FeaturePath(
        n_features=np.array([len(support) for support in supports]),
        val_score=score,
        val_score_se=error,
        train_loss=np.array([point.train_loss for point in points]),
        cost=np.array([groups.price[point.groups].sum() for point in points]),
        supports=supports,
        models=[
            _as_model(problem, prepared.encoder.select(point.groups), prepared.target, point.trees) for point in points
        ],
        chosen=i,
        final=model,
    ).without_repeats()


def _as_model(problem: Problem, encoder: Encoder, target: TargetScale, trees: Trees) -> SoftTrees:
    small = trees.copy()
    small.O[:] *= target.raw_scale.astype(small.O.dtype)[:, None]
    return SoftTrees(encoder, small, target.raw_shift, problem.activation)


def _as_data(rows: Rows, encoder: Encoder, target: TargetScale) -> Data:
    Y = ((rows.Y - target.shift) / target.scale).astype(np.float32)
    weight = (rows.weight / rows.weight.mean()).astype(np.float32)
    return Data(encoder.training_design(rows.X), np.ascontiguousarray(Y), weight)
