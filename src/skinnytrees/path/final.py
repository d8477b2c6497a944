"""The final ensemble at a chosen support: which ones are tried, and which is taken."""

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from skinnytrees.kernels.state import Trees
from skinnytrees.path.evidence import HeldOutRows
from skinnytrees.path.points import PathInputs
from skinnytrees.path.rules import FinalRules, PathRecipes
from skinnytrees.path.size_choice import Candidate, choose_point
from skinnytrees.path.trainer import Blend, average


class FinalEnsemble(NamedTuple):
    """A final ensemble, how it was made and how good it is."""

    candidate: Candidate
    blend: Blend
    trees: Trees
    loss: float

    @classmethod
    def of_path(cls, candidate: Candidate) -> "FinalEnsemble":
        """The path's own ensemble at the chosen size, where none could be made."""
        return cls(candidate, (), candidate.branch.points[candidate.chosen_index].trees, 0.0)


def make_final(
    candidates: Iterable[Candidate], inputs: PathInputs, held_out: HeldOutRows | None, rng: np.random.Generator
) -> FinalEnsemble:
    """Of the candidates' final ensembles, the best."""
    return min((final_at(one, inputs, held_out, rng) for one in candidates), key=lambda final: final.loss)


def final_at(
    candidate: Candidate, inputs: PathInputs, held_out: HeldOutRows | None, rng: np.random.Generator
) -> FinalEnsemble:
    """Of all blends at a support, the best on held-out rows; where training rows are few, the first within noise of it.

    Without held-out rows nobody can choose, and the blend of most recipes is made.
    """
    data, rules = inputs.rows_of(candidate.support), inputs.rules.final
    blends = blends_to_try(rules, inputs.recipes, *data.X.shape)
    if held_out is None:
        blends = (max(blends, key=len),)
    recipes = list(dict.fromkeys(itertools.chain(*blends)))
    trained = inputs.trainer.start_each(data, inputs.n_outputs, recipes, rng)
    made = {recipe: trees for recipe, (trees, _) in zip(recipes, trained, strict=True)}
    ensembles = [average([made[recipe] for recipe in blend]) for blend in blends]
    if held_out is None:
        return FinalEnsemble(candidate, blends[0], ensembles[0], candidate.path_losses()[0])
    weight = held_out.weight
    losses = np.array([held_out.row_losses(candidate.support, trees) for trees in ensembles])
    few = len(data.Y) < rules.few_rows_below
    i = choose_point(losses, weight, "best", rules.noise) if few else int(np.argmin(losses @ weight))
    return FinalEnsemble(candidate, blends[i], ensembles[i], float(np.average(losses[i], weights=weight)))


def blends_to_try(rules: FinalRules, recipes: PathRecipes, n_rows: int, n_columns: int) -> tuple[Blend, ...]:
    """Large ensembles where rows allow it, the mean of small ones where they do not."""
    if n_columns > n_rows * rules.averaged_only_above_columns_per_row:
        return ((recipes.averaged,),)
    large = large_blends(rules, recipes, n_columns)
    return large if n_rows >= rules.few_rows_below else ((recipes.averaged,), *large)


def large_blends(rules: FinalRules, recipes: PathRecipes, n_columns: int) -> tuple[Blend, ...]:
    """Large ensembles: lightly regularised, strongly regularised, and the mean of both."""
    many = max(1.0, n_columns / rules.full_steps_up_to_columns)
    fraction = min(1.0, rules.all_trees_up_to_columns / n_columns)
    large = replace(recipes.large, n_trees=max(rules.fewest_trees, round(recipes.large.n_trees * fraction)))
    light_rate = max(rules.least_light_rate, large.learning_rate / many)
    light = recipes.with_users_choices(replace(large, learning_rate=light_rate))
    strong_l2 = min(rules.most_strong_l2, many)
    strong = recipes.with_users_choices(replace(large, learning_rate=rules.strong_rate, l2=strong_l2))
    if light == strong:
        return ((light,),)
    made: dict[str, Blend] = {"mean": (light, strong), "light": (light,), "strong": (strong,)}
    return tuple(made[name] for name in rules.large_blends)
