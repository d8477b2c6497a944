"""From rows to a fitted model: the paper's penalised training, or the path; without estimators and without categorical tables."""

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import Activation
from skinnytrees.exceptions import NothingLearnedWarning
from skinnytrees.kernels.state import Data, Trees, start_trees
from skinnytrees.losses import Loss, TargetScale
from skinnytrees.model.feature_path import FeaturePath
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.path.comparison import no_worse
from skinnytrees.path.evidence import Evidence, HeldOutRows, Judge
from skinnytrees.path.final import FinalChoice, Fold, Trial, blends_to_try, choose_final_ensemble, plain_blends
from skinnytrees.path.points import PathInputs, data_of
from skinnytrees.path.pruning import start_pruning
from skinnytrees.path.rules import PathRules
from skinnytrees.path.scoring import Scorer
from skinnytrees.path.size_choice import Candidate, SizeChooser
from skinnytrees.path.trainer import Trainer, split_generator
from skinnytrees.path.walk import Walk
from skinnytrees.tables.column_views import Views
from skinnytrees.tables.encoding import Encoder
from skinnytrees.tables.groups import Groups
from skinnytrees.tables.rows import Rows
from skinnytrees.threads import side_by_side
from skinnytrees.training.loop import Callback, EpochReport, TrainingSettings, computing, train
from skinnytrees.training.memory import Memory

# Weights are rounded to eleven significant bits, which makes files half as large, where the weights of no split sum to more than
# this: rounding then moves w.x by less than 0.02, because columns have a deviation of one.
_ROUNDED_BELOW = 40.0


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
    target: TargetScale
    n_threads: int = 1
    views: Views = field(default_factory=Views.linear_only)
    memory: Memory | None = None

    def prepare(self, rows: Rows, groups: NDArray[np.intp] | None = None) -> Prepared:
        """Learn the encoding from these rows, for all groups or some."""
        some_groups = self.groups if groups is None else self.groups.take(groups)
        encoder = Encoder.learn(rows.X, rows.weight, some_groups, self.is_categorical, self.standardize, self.views)
        return Prepared(encoder, self.target, _as_data(rows, encoder, self.target))

    def prepare_support(self, rows: Rows, groups: NDArray[np.intp]) -> Prepared:
        """The same for the few groups of a support, whose design is copied: it is read many times."""
        prepared = self.prepare(rows, groups)
        return prepared._replace(data=_copied(prepared.data))

    @property
    def trainer(self) -> Trainer:
        """Training at a fixed support."""
        return Trainer(self.loss, self.activation, self.n_outputs, self.n_threads, self.memory)

    def judge(self, scorer: Scorer | None) -> Judge:
        """What compares ensembles."""
        return Judge(self.trainer, self.target, scorer)


class PathSettings(NamedTuple):
    """What the user says about the path."""

    budget: float
    size_rule: str
    refit: bool
    rules: PathRules
    final_recipe: dict[str, Any]
    scorer: Scorer | None = None
    callbacks: Sequence[Callback] = ()
    show: Callable[[EpochReport], None] = lambda report: None


class Splits(NamedTuple):
    """Rows to walk on; rows to hold out, or folds that hold out every row once, or neither; rows for the final ensemble."""

    training: Rows
    held_out: Rows | None
    folds: Sequence[tuple[Rows, Rows]]
    everything: Rows


class PathFit(NamedTuple):
    """What fitting a path gives."""

    model: SoftTrees
    path: FeaturePath
    reports: list[EpochReport]


class FoldBranch(NamedTuple):
    """A branch of a walk on the other folds: the support at each size, and the outputs of its ensemble on the held-out rows."""

    kept: Rows
    held: Rows
    supports: list[NDArray[np.intp]]
    evidence: Evidence


class Walked(NamedTuple):
    """A finished walk, its folds, and the candidate that was chosen: what the final ensemble is made from."""

    problem: Problem
    splits: Splits
    settings: PathSettings
    prepared: Prepared
    walk: Walk
    folds: Sequence[Sequence[FoldBranch]]
    candidate: Candidate


def fit_penalised(
    problem: Problem, training: Rows, held_out: Rows | None, settings: TrainingSettings, n_trees: int, depth: int,
    penalty_factors: NDArray[np.float64], rng: np.random.Generator,
) -> tuple[SoftTrees, list[EpochReport]]:  # fmt: skip
    """The paper's Algorithm 1; ``penalty_factors`` multiply the penalty's strength for each group."""
    prepared = problem.prepare(training)
    data, validation = prepared.data, None if held_out is None else prepared.also(held_out)
    trees = start_trees(data.X.shape[1], n_trees, depth, problem.n_outputs, rng)
    settings = replace(settings, n_threads=problem.n_threads, memory=problem.memory)
    reports = train(
        trees, data, prepared.encoder.offsets, settings, rng, validation, penalty_factors, problem.groups.n_features
    )
    return SoftTrees.from_training(trees, prepared.encoder, problem.activation, prepared.target), reports


def fit_path(problem: Problem, splits: Splits, settings: PathSettings, rng: np.random.Generator) -> PathFit:
    """Walk the path, choose a size within the budget, make the final ensemble there.

    Where the path branches (see ``Walk``), the branch that is better at its chosen size on held-out rows is taken.
    """
    with computing():
        problem, settings, prepared = choose_style(problem, splits, settings, rng)
        folds = walk_folds(problem, splits, settings, rng)
        walk = _prepare_walk(problem, prepared, splits.held_out, settings, settings.callbacks)
        walk.go(rng)
        if walk.held_out is None:
            walk.merge_starts()
        evidence = _evidence(walk, folds)
        judge = problem.judge(settings.scorer)
        chooser = SizeChooser(
            walk.inputs.groups, judge, settings.rules, settings.budget, settings.size_rule,
            branch_noise=0.0 if walk.inputs.recipes.prune_from else settings.rules.screening.noise,
        )  # fmt: skip
        candidate = chooser.choose(walk.branches, evidence)
        model, final_choice = _finish(Walked(problem, splits, settings, prepared, walk, folds, candidate), rng)
    path = _as_path(problem, prepared, judge, candidate, model)
    _warn_if_nothing_learned(judge, final_choice.evidence)
    return PathFit(model, path, candidate.branch.reports)


def choose_style(
    problem: Problem, splits: Splits, settings: PathSettings, rng: np.random.Generator
) -> tuple[Problem, PathSettings, Prepared]:
    """The problem, encoded in the style whose first ensemble is best on held-out rows, with the rules for it and its rows.

    The first style stays unless another is clearly better, or unless its ensemble has learned nothing.
    Without held-out rows, or where nothing is pruned, the first style is taken. Where columns are screened first, the first
    ensemble that is pruned does not read all of them, and there is one style for that.
    """
    rules, held_out = settings.rules, splits.held_out
    prune_from = rules.for_rows(len(splits.training.Y)).prune_from
    styles = (rules.screened_style,) if 0 < prune_from < len(problem.groups) else rules.styles
    first, *others = [
        (replace(problem, views=style.views), settings._replace(rules=rules.in_style(style))) for style in styles
    ]
    prepared = first[0].prepare(splits.training)
    if not others or held_out is None or prune_from == 0 or len(problem.groups) == 0:
        return *first, prepared

    def said(
        rng: np.random.Generator, problem: Problem, settings: PathSettings, prepared: Prepared
    ) -> NDArray[np.float32]:
        walk = _prepare_walk(problem, prepared, held_out, settings, ())
        point = start_pruning(walk.inputs, np.arange(len(problem.groups)), rng)
        assert walk.held_out is not None
        return walk.held_out.outputs(point.groups, point.trees)

    tried = [(*first, prepared), *((*one, one[0].prepare(splits.training)) for one in others)]
    judged = first[0].prepare(held_out, np.zeros(1, dtype=np.intp)).data
    tasks = [
        functools.partial(said, own_rng, *one)
        for own_rng, one in zip(split_generator(rng, len(tried)), tried, strict=True)
    ]
    outputs = np.array(side_by_side(tasks, problem.n_threads))
    evidence = Evidence(outputs, judged.Y, judged.weight.astype(float))
    judge = problem.judge(settings.scorer)
    has_learned = judge.scores(evidence)[0][0] > 1 - rules.pruning.plateau
    noise = rules.style_noise if has_learned else 0.0
    return tried[int(np.flatnonzero(no_worse(judge.compare(evidence), noise))[0])]


def walk_folds(
    problem: Problem, splits: Splits, settings: PathSettings, rng: np.random.Generator
) -> list[list[FoldBranch]]:
    """For each branch, the walks on all rows but those of one fold, in the same phases as the walk on all rows."""
    one_thread, folds = replace(problem, n_threads=1), splits.folds
    rules = settings.rules
    few_starts = replace(rules, screening=replace(rules.screening, n_starts=rules.evidence.n_starts))
    same_phases = few_starts.in_phases_for(len(splits.training.Y))
    quiet = settings._replace(rules=same_phases, show=lambda report: None)

    def walked(kept: Rows, held: Rows, rng: np.random.Generator) -> list[FoldBranch]:
        walk = _prepare_walk(one_thread, one_thread.prepare(kept), held, quiet, callbacks=())
        walk.go(rng)
        if walk.interrupted or walk.held_out is None:
            raise KeyboardInterrupt
        walk.merge_starts()
        return [
            FoldBranch(kept, held, [point.groups for point in branch.points], walk.held_out.evidence(branch.outputs))
            for branch in walk.branches
        ]

    tasks = [
        lambda kept=kept, held=held, own_rng=own_rng: walked(kept, held, own_rng)
        for (kept, held), own_rng in zip(folds, split_generator(rng, len(folds)), strict=True)
    ]
    by_fold = side_by_side(tasks, problem.n_threads)
    return [list(branch) for branch in zip(*by_fold, strict=True)]


def _prepare_walk(
    problem: Problem, prepared: Prepared, held_out: Rows | None, settings: PathSettings, callbacks: Sequence[Callback]
) -> Walk:
    def report(best: EpochReport) -> bool:
        settings.show(best)
        answers = [callback(best) for callback in callbacks]
        return any(answers)

    groups, trainer = problem.groups.encoded(prepared.encoder.offsets), problem.trainer
    recipes = settings.rules.for_rows(len(prepared.data.Y), **settings.final_recipe)
    inputs = PathInputs(prepared.data, groups, trainer, settings.rules, recipes)
    judges = None if held_out is None else HeldOutRows(prepared.also(held_out), groups, trainer)
    return Walk(inputs, judges, settings.budget, report)


def _evidence(walk: Walk, folds: Sequence[Sequence[FoldBranch]]) -> list[Evidence] | None:
    """For each branch, what is known about its points: by held-out rows, else by folds; None without either or after Ctrl-C."""
    if walk.held_out is not None:
        return [walk.held_out.evidence(branch.outputs) for branch in walk.branches]
    if not folds or walk.interrupted:
        return None
    joined = [Evidence.join([fold.evidence for fold in branch]) for branch in folds]
    # A walk that a callback has stopped before it branches has the points that all branches share.
    return [one.take(range(len(branch.points))) for one, branch in zip(joined, walk.branches, strict=False)]


def _finish(walked: Walked, rng: np.random.Generator) -> tuple[SoftTrees, FinalChoice]:
    """The final ensemble; after Ctrl-C, what there is."""
    problem, splits, settings, prepared, walk, _, candidate = walked
    interruption = "The final ensemble was interrupted; the model is the path's own at the chosen size."
    support = candidate.support
    model = _as_model(problem, prepared.encoder.select(support), candidate.branch.points[candidate.chosen_index].trees)
    if walk.interrupted:
        return model, FinalChoice(0, ())
    try:
        final_choice = _choose_final(walked, rng)
        if splits.held_out is not None:
            encoder = _final_styles(problem)[final_choice.trial].prepare_support(splits.training, support).encoder
            model = _as_model(problem, encoder, final_choice.ensembles[0], final_choice.factor)
    except KeyboardInterrupt:
        warnings.warn(interruption, stacklevel=7)
        return model, FinalChoice(0, ())
    if splits.held_out is not None:
        if not settings.refit:
            return model, final_choice
        interruption = "The refit was interrupted; the model has not seen the held-out rows."
    try:
        again = _final_styles(problem)[final_choice.trial].prepare_support(splits.everything, support)
        trees = problem.trainer.start_blend(again.data, final_choice.blend, rng)
        model = _as_model(problem, again.encoder, trees, final_choice.factor)
    except KeyboardInterrupt:
        warnings.warn(interruption, stacklevel=7)
        if splits.held_out is None:
            return model, FinalChoice(0, ())
    return model, final_choice


def _choose_final(walked: Walked, rng: np.random.Generator) -> FinalChoice:
    """How the final ensemble at a candidate's support is made, chosen by held-out rows."""
    problem, splits, settings, _, walk, folds, candidate = walked
    pairs = []
    if splits.held_out is not None:
        pairs = [(splits.training, splits.held_out, candidate.support)]
    elif folds:
        pairs = [
            (fold.kept, fold.held, fold.supports[candidate.chosen_index]) for fold in folds[candidate.branch_index]
        ]
    rules, n_rows = settings.rules.final, len(splits.training.Y)
    n_columns = len(walk.inputs.groups.columns(candidate.support))
    n_features = int(walk.inputs.groups.n_features[candidate.support].sum())
    blends = [blends_to_try(rules, walk.inputs.recipes, n_rows, n_columns, n_features)]
    if not problem.views.is_linear_only and n_features <= n_rows:
        blends.append(plain_blends(rules, walk.inputs.recipes, n_rows, n_columns))
    styles = _final_styles(problem)
    trials = [
        Trial([_as_fold(style, *pair) for pair in pairs], some) for style, some in zip(styles, blends, strict=False)
    ]
    noise = rules.noise_on_few_rows if n_rows < rules.few_rows_below else 0.0
    return choose_final_ensemble(trials, problem.judge(settings.scorer), noise, rng)


def _final_styles(problem: Problem) -> tuple[Problem, Problem]:
    """How columns may be encoded for the final ensemble: as on the path, but unfolded, or as plain values."""
    return replace(problem, views=replace(problem.views, folded=False)), replace(problem, views=Views.linear_only())


def _as_fold(problem: Problem, kept: Rows, held: Rows, support: NDArray[np.intp]) -> Fold:
    prepared = problem.prepare_support(kept, support)
    return Fold(prepared.data, _copied(prepared.also(held)))


def _warn_if_nothing_learned(judge: Judge, evidence: Evidence | None) -> None:
    """Warn if the final model is no better than a constant on rows that it has not seen."""
    if evidence is None:
        return
    score, _ = judge.scores(evidence)
    if score[0] <= 0:
        warnings.warn(
            "The model explains nothing on held-out rows: it is no better than a constant prediction. The columns may not tell "
            "the target, or the rows are too few. Check the target, allow more columns (feature_budget), or give more rows.",
            NothingLearnedWarning,
            stacklevel=7,
        )


def _as_path(problem: Problem, prepared: Prepared, judge: Judge, candidate: Candidate, model: SoftTrees) -> FeaturePath:
    """The walk as users see it."""
    groups, points, evidence = problem.groups, candidate.branch.points, candidate.evidence
    score, error = np.full((2, len(points)), np.nan) if evidence is None else judge.scores(evidence)
    supports = [np.sort(groups.take(point.groups).features) for point in points]
    return FeaturePath(
        n_features=np.array([len(support) for support in supports]),
        val_score=score,
        val_score_se=error,
        train_loss=np.array([point.train_loss for point in points]),
        cost=np.array([groups.price[point.groups].sum() for point in points]),
        supports=supports,
        models=[_as_model(problem, prepared.encoder.select(point.groups), point.trees) for point in points],
        chosen_index=candidate.chosen_index,
        final_model=model,
    ).without_repeats()


def _as_model(problem: Problem, encoder: Encoder, trees: Trees, factor: float = 1.0) -> SoftTrees:
    encoder, columns = encoder.in_table_order()
    small = trees.select(columns)
    small.O[:] *= (factor * problem.target.raw_scale).astype(small.O.dtype)[:, None]
    if problem.standardize and np.abs(small.W).sum(axis=0).max(initial=0.0) < _ROUNDED_BELOW:
        small.W[:] = small.W.astype(np.float16)
    return SoftTrees(encoder, small, problem.target.raw_shift, problem.activation)


def _copied(data: Data) -> Data:
    return data_of(data, np.arange(data.X.shape[1]))


def _as_data(rows: Rows, encoder: Encoder, target: TargetScale) -> Data:
    Y = ((rows.Y - target.shift) / target.scale).astype(np.float32)
    weight = (rows.weight / rows.weight.mean()).astype(np.float32)
    return Data(encoder.training_design(rows.X), np.ascontiguousarray(Y), weight)
