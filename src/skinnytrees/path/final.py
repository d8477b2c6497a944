"""The final ensemble at a chosen support: which ones are tried, which is taken, and the calibration of its outputs."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.state import Data, Trees
from skinnytrees.path.comparison import Comparison, no_worse
from skinnytrees.path.evidence import Evidence, Judge
from skinnytrees.path.rules import Blend, FinalRules, PathRecipes, Recipe
from skinnytrees.path.trainer import Trainer, average, split_generator
from skinnytrees.starts import Glorot
from skinnytrees.threads import side_by_side


class Fold(NamedTuple):
    """Rows to train on and rows to compare by, with the design columns of a support; held-out rows are a single fold."""

    training: Data
    judging: Data


class Trial(NamedTuple):
    """Blends to try on the folds, whose design columns are those of one style; no folds where no rows are held out."""

    folds: Sequence[Fold]
    blends: Sequence[Blend]


class FinalChoice(NamedTuple):
    """How the final ensemble is made: the trial it is from, the recipes that are averaged, and the factor of its outputs.

    ``evidence`` tells how good it is on rows it did not see; ``ensembles`` are those that were made to find out, one for each
    fold.
    """

    trial: int
    blend: Blend
    factor: float = 1.0
    evidence: Evidence | None = None
    ensembles: tuple[Trees, ...] = ()


def choose_final_ensemble(trials: Sequence[Trial], judge: Judge, noise: float, rng: np.random.Generator) -> FinalChoice:
    """Of the trials' blends, the first that is not clearly worse than the best on held-out rows.

    Without folds, the first is taken as it is.
    """
    if not trials[0].folds:
        return FinalChoice(0, trials[0].blends[0])
    made = [_try_blends(trial, judge.trainer, rng) for trial in trials]
    evidence = made[0][1]._replace(outputs=np.concatenate([one.outputs for _, one in made]))
    needed = [max(recipe.evidence for recipe in blend) for one in trials for blend in one.blends]
    chosen_index = _first_of_the_best(judge.compare(evidence), np.array(needed), noise)
    trial, blend = [(t, k) for t, one in enumerate(trials) for k in range(len(one.blends))][chosen_index]
    ensembles = tuple(of_fold[blend] for of_fold in made[trial][0])
    return FinalChoice(
        trial,
        trials[trial].blends[blend],
        judge.factor(evidence, chosen_index),
        evidence.take([chosen_index]),
        ensembles,
    )


def _first_of_the_best(comparison: Comparison, needed: NDArray[np.float64], noise: float) -> int:
    """The first candidate that is within noise of the best; one that needs evidence only if all others are clearly worse."""
    among = np.flatnonzero(needed == 0)
    if not no_worse(comparison, needed.max())[among].any():
        among = np.arange(len(needed))
    return int(among[no_worse(comparison.take(among), noise)][0])


def _try_blends(trial: Trial, trainer: Trainer, rng: np.random.Generator) -> tuple[list[list[Trees]], Evidence]:
    """For each fold, an ensemble by each of the blends; and their outputs on the held-out rows."""
    recipes = list(dict.fromkeys(itertools.chain(*trial.blends)))
    # Either the folds run in parallel or, where there is only one, the copies of its ensembles.
    inner = replace(trainer, n_threads=1) if len(trial.folds) > 1 else trainer

    def blended(fold: Fold, rng: np.random.Generator) -> list[Trees]:
        trained = inner.start_each(fold.training, recipes, rng)
        made = {recipe: trees for recipe, (trees, _) in zip(recipes, trained, strict=True)}
        return [average([made[recipe] for recipe in blend]) for blend in trial.blends]

    tasks = [
        functools.partial(blended, fold, own_rng)
        for fold, own_rng in zip(trial.folds, split_generator(rng, len(trial.folds)), strict=True)
    ]
    ensembles = side_by_side(tasks, trainer.n_threads if len(tasks) > 1 else 1)

    def said(fold: Fold, made: list[Trees]) -> Evidence:
        outputs = np.array([trainer.outputs(trees, fold.judging.X) for trees in made])
        return Evidence(outputs, fold.judging.Y, fold.judging.weight.astype(float))

    return ensembles, Evidence.join([said(*pair) for pair in zip(trial.folds, ensembles, strict=True)])


def blends_to_try(
    rules: FinalRules, recipes: PathRecipes, n_rows: int, n_columns: int, n_features: int
) -> tuple[Blend, ...]:
    """Large ensembles where rows allow it, means of small ones where they do not; the preferred first.

    A feature may have several design columns, which are close to each other and so leave no more freedom than one.
    """
    if n_features > n_rows * rules.averaged_only_above_features_per_row:
        return recipes.with_users_trees([(recipes.averaged,)])
    few = n_rows < rules.few_rows_below
    light, strong = large_recipes(rules, recipes, n_columns)
    strong = recipes.small if few else strong
    boosted = _with_fewer_trees(recipes.boosted, n_columns, rules)
    if light == strong:
        return recipes.with_users_trees([(light,)])
    made: dict[str, Blend] = {
        "mean": (light, strong), "light": (light,), "strong": (strong,), "strong with grown": (strong, recipes.grown),
        "light with boosted": (light, boosted), "boosted": (boosted,),
    }  # fmt: skip
    names = rules.blends_on_few_rows if few else rules.blends
    return recipes.with_users_trees([made[name] for name in names])


def plain_blends(rules: FinalRules, recipes: PathRecipes, n_rows: int, n_columns: int) -> tuple[Blend, ...]:
    """What is tried on plain values besides: splits that start with all columns, which is right for linear functions."""
    plain = recipes.averaged
    if n_rows >= rules.few_rows_below:
        plain = replace(large_recipes(rules, recipes, n_columns)[0], start=Glorot())
    return recipes.with_users_trees([(plain,)])


def large_recipes(rules: FinalRules, recipes: PathRecipes, n_columns: int) -> Blend:
    """Large ensembles: a lightly and a strongly regularised one. Which is better depends on the noise in the data."""
    many = max(1.0, n_columns / rules.full_steps_up_to_columns)
    large = _with_fewer_trees(recipes.large, n_columns, rules)
    light_rate = max(rules.least_light_rate, large.learning_rate / many)
    light = recipes.with_users_choices(replace(large, learning_rate=light_rate))
    strong_l2 = min(rules.most_strong_l2, many)
    strong = recipes.with_users_choices(replace(large, learning_rate=rules.strong_rate, l2=strong_l2))
    return light, strong


def _with_fewer_trees(recipe: Recipe, n_columns: int, rules: FinalRules) -> Recipe:
    """Fewer trees where there are many columns."""
    fraction = min(1.0, rules.all_trees_up_to_columns / n_columns)
    return replace(recipe, n_trees=max(rules.fewest_trees, round(recipe.n_trees * fraction)))
