"""Pruning: shrink by removal cost with a larger ensemble, where there are enough rows. It does not depend on a column's scale."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from skinnytrees.path.elimination import eliminate
from skinnytrees.path.importance import importance_before_pruning
from skinnytrees.path.points import PathInputs, PathPoint, data_of
from skinnytrees.path.rules import PathRules, PruningRules, Recipe
from skinnytrees.path.targets import Target
from skinnytrees.path.trainer import split_generator


def start_pruning(inputs: PathInputs, groups: NDArray[np.intp], rng: np.random.Generator) -> PathPoint:
    """A new ensemble on these groups, to prune from; if it has learned nothing, it is trained again for longer."""
    data, rules = inputs.rows_of(groups), inputs.rules.pruning
    recipe = for_columns(inputs.recipes.prune, data.X.shape[1], rules)
    trees, loss = inputs.trainer.start(data, recipe, rng)
    perfect, constant = inputs.trainer.reference_losses(data.Y, data.weight.astype(float))
    for factor in rules.more_epochs:
        if loss - perfect < rules.plateau * (constant - perfect):
            break
        longer = replace(recipe, n_epochs=round(recipe.n_epochs * factor))
        trees, loss = min((trees, loss), inputs.trainer.start(data, longer, rng), key=lambda made: made[1])
    return PathPoint(groups, trees, loss)


def branches_of_pruning(
    start: PathPoint, inputs: PathInputs, targets: Sequence[Target], rng: np.random.Generator
) -> list[Iterator[PathPoint]]:
    """The ways to prune from one start: with and without the remaining columns filling in for those that are removed."""
    fill_in = inputs.rules.pruning.fill_in
    importance = importance_before_pruning(inputs, start.groups, rng) if targets else None
    return [
        prune(start, inputs, targets, importance, fills_in, own_rng)
        for fills_in, own_rng in zip(fill_in, split_generator(rng, len(fill_in)), strict=True)
    ]


def prune(
    start: PathPoint, inputs: PathInputs, targets: Sequence[Target], importance: NDArray[np.float64] | None,
    fill_in: bool, rng: np.random.Generator,
) -> Iterator[PathPoint]:  # fmt: skip
    """Shrink by removal cost from a trained point, a point for each of the falling ``targets``."""
    groups, trainer, rules = inputs.groups, inputs.trainer, inputs.rules
    alive, trees = start.groups, start.trees.copy()
    data = inputs.rows_of(alive)
    costs = None
    for target in targets:
        here = groups.take(alive)
        kept, costs = eliminate(
            trees, data, here, target, trainer.functions, rules.elimination, fill_in, costs,
            None if importance is None else importance[alive],
        )  # fmt: skip
        trees = trees.select(here.columns(kept))
        data = data_of(data, here.columns(kept))
        recipe = for_columns(inputs.recipes.prune_stage, trees.W.shape[0], rules.pruning)
        recipe = after_losing(recipe, 1 - len(kept) / len(alive), rules)
        alive = alive[kept]
        loss = trainer.train(trees, data, recipe, rng)
        yield PathPoint(alive, trees.copy(), loss)


def for_columns(recipe: Recipe, n_columns: int, rules: PruningRules) -> Recipe:
    """Smaller steps and more ridge where there are many columns."""
    many = max(1.0, n_columns / rules.full_steps_up_to_columns) ** rules.columns_power
    return replace(recipe, learning_rate=recipe.learning_rate / many, l2=recipe.l2 * many)


def after_losing(recipe: Recipe, fraction: float, rules: PathRules) -> Recipe:
    """Fewer epochs where less than the usual fraction of the groups was removed."""
    relative = min(1.0, fraction / (1 - rules.sizes.ratio)) ** rules.pruning.epochs_power
    least = min(rules.training.fewest_epochs, recipe.n_epochs)
    return replace(recipe, n_epochs=max(least, round(recipe.n_epochs * relative)))
