"""The walk for one power of prices: with unequal prices it branches at the very beginning, before anything is removed."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from skinnytrees.path.points import PathInputs, PathPoint, keep_by_norm
from skinnytrees.path.pruning import branches_of_pruning, start_pruning
from skinnytrees.path.screening import screen
from skinnytrees.path.targets import Target


def screen_and_prune(
    inputs: PathInputs, targets: Sequence[Target], rng: np.random.Generator, importance: NDArray[np.float64] | None
) -> Iterator[list[PathPoint]]:
    """For each of the falling ``targets`` a point of every branch of pruning; while groups are screened, all are the same."""
    fill_in = inputs.rules.pruning.fill_in
    alive, n_screened = np.arange(len(inputs.groups)), 0
    for n_screened, point in enumerate(screen(inputs, targets, rng, importance), start=1):
        yield [point] * len(fill_in)
        if n_screened < len(targets):
            alive = point.groups[keep_by_norm(point, inputs.groups, targets[n_screened], importance)]
    if n_screened == len(targets):
        return
    start = start_pruning(inputs, alive, rng)
    yield [start] * len(fill_in)
    yield from map(list, zip(*branches_of_pruning(start, inputs, targets[n_screened + 1 :], rng), strict=True))
