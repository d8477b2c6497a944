"""The final ensemble at a chosen support: which ones are tried, which is taken, and how sure of itself it may be."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skinnytrees.kernels.state import Data, Trees
from skinnytrees.path.comparison import no_worse
from skinnytrees.path.evidence import Evidence, Judge
from skinnytrees.path.rules import FinalRules, PathRecipes
from skinnytrees.path.trainer import Blend, average, split_generator
from skinnytrees.threads import side_by_side


class Fold(NamedTuple):
    """Rows to train on and rows to judge by, with the design columns of a support; held-out rows are a single fold."""

    training: Data
    judging: Data


class FinalChoice(NamedTuple):
    """How the final ensemble is made: the recipes that are averaged, and the factor of its outputs.

    ``evidence`` and ``badness`` tell how good it is on rows it did not see; ``ensembles`` are those that were made to find out,
    one for each fold.
    """

    blend: Blend
    factor: float = 1.0
    evidence: Evidence | None = None
    badness: float = 0.0
    ensembles: tuple[Trees, ...] = ()


def choose_final(
    folds: Sequence[Fold], blends: Sequence[Blend], judge: Judge, noise: float, rng: np.random.Generator
) -> FinalChoice:
    """Of the blends, the first that is not clearly worse than the best on the rows that judge.

    Without folds nobody can choose, and the first is taken as it is.
    """
    if not folds:
        return FinalChoice(blends[0])
    trainer = judge.trainer
    recipes = list(dict.fromkeys(itertools.chain(*blends)))
    inner = replace(trainer, n_threads=1) if len(folds) > 1 else trainer

    def blended(fold: Fold, rng: np.random.Generator) -> list[Trees]:
        trained = inner.start_each(fold.training, recipes, rng)
        made = {recipe: trees for recipe, (trees, _) in zip(recipes, trained, strict=True)}
        return [average([made[recipe] for recipe in blend]) for blend in blends]

    tasks = [
        lambda fold=fold, own_rng=own_rng: blended(fold, own_rng)
        for fold, own_rng in zip(folds, split_generator(rng, len(folds)), strict=True)
    ]
    ensembles = side_by_side(tasks, trainer.n_threads if len(folds) > 1 else 1)
    evidence = Evidence.join(
        [
            Evidence(
                np.array([trainer.outputs(trees, fold.judging.X) for trees in made]),
                fold.judging.Y,
                fold.judging.weight.astype(float),
            )
            for fold, made in zip(folds, ensembles, strict=True)
        ]
    )
    compared = judge.compare(evidence)
    i = int(np.flatnonzero(no_worse(compared, noise))[0])
    return FinalChoice(
        blends[i],
        judge.factor(evidence, i),
        evidence.take([i]),
        float(compared.mean[i]),
        tuple(made[i] for made in ensembles),
    )


def blends_to_try(rules: FinalRules, recipes: PathRecipes, n_rows: int, n_columns: int) -> tuple[Blend, ...]:
    """Large ensembles where rows allow it, means of small ones where they do not; the preferred first."""
    if n_columns > n_rows * rules.averaged_only_above_columns_per_row:
        return ((recipes.averaged,),)
    light, strong = large_recipes(rules, recipes, n_columns)
    few = n_rows < rules.few_rows_below
    strong = recipes.small if few else strong
    if light == strong:
        return ((light,),)
    made: dict[str, Blend] = {"mean": (light, strong), "light": (light,), "strong": (strong,)}
    return tuple(made[name] for name in (rules.blends_on_few_rows if few else rules.blends))


def large_recipes(rules: FinalRules, recipes: PathRecipes, n_columns: int) -> Blend:
    """Large ensembles: a lightly and a strongly regularised one. Which is better depends on the noise in the data."""
    many = max(1.0, n_columns / rules.full_steps_up_to_columns)
    fraction = min(1.0, rules.all_trees_up_to_columns / n_columns)
    large = replace(recipes.large, n_trees=max(rules.fewest_trees, round(recipes.large.n_trees * fraction)))
    light_rate = max(rules.least_light_rate, large.learning_rate / many)
    light = recipes.with_users_choices(replace(large, learning_rate=light_rate))
    strong_l2 = min(rules.most_strong_l2, many)
    strong = recipes.with_users_choices(replace(large, learning_rate=rules.strong_rate, l2=strong_l2))
    return light, strong
