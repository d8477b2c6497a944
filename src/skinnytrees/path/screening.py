"""Screening: shrink by norm with a small ensemble, which is cheap even for 100,000 columns."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from skinnytrees.path.points import PathInputs, PathPoint, data_of, keep_by_norm
from skinnytrees.path.swapping import Candidates, swap
from skinnytrees.path.targets import Target


def screen(
    inputs: PathInputs, targets: Sequence[Target], rng: np.random.Generator,
    importance: NDArray[np.float64] | None = None,
) -> Iterator[PathPoint]:  # fmt: skip
    """Shrink by norm from all groups, a point for each of the falling ``targets``, until pruning can take over.

    An ``importance`` of the groups, if there is one, counts as much as the norm.
    """
    groups, trainer, recipes = inputs.groups, inputs.trainer, inputs.recipes
    everything = np.arange(len(groups))
    point: PathPoint | None = None
    data, candidates = inputs.data, Candidates(everything, inputs)
    for target in targets:
        kept = everything if point is None else keep_by_norm(point, groups, target, importance)
        if len(kept) <= recipes.prune_from:
            return
        if point is None:
            data = data_of(data, groups.columns(kept))
            point = PathPoint(everything, *trainer.start(data, recipes.screen, rng))
        else:
            data = data_of(data, groups.take(point.groups).columns(kept))
            point = point.cut(groups, kept)
            point = point._replace(train_loss=trainer.train(point.trees, data, recipes.screen_stage, rng))
        candidates = candidates.among(point.groups)
        if _swaps(inputs, point):
            point = swap(point, inputs, candidates, rng)
            data = inputs.rows_of(point.groups)
        yield point._replace(trees=point.trees.copy())


def _swaps(inputs: PathInputs, point: PathPoint) -> bool:
    """Whether swaps may repair what shrinking by norm got wrong at this size."""
    swaps = inputs.rules.swaps
    allowed = inputs.recipes.prune_from == 0 or swaps.before_pruning
    return allowed and len(point.groups) <= len(inputs.data.Y) * swaps.groups_per_row
