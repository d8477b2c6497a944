"""The choice of a size: of the points of every branch one, and of the branches one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.path.evidence import HeldOutRows, RowLosses, evidence_of
from skinnytrees.path.points import Branch, PathInputs, keep_worthiest
from skinnytrees.path.rules import SizeRules


class Candidate(NamedTuple):
    """A support for the final ensemble: at which point of which branch, with the losses by which that was chosen."""

    branch: Branch
    chosen_index: int
    evidence: RowLosses | None
    support: NDArray[np.intp]

    def path_losses(self) -> tuple[float, ...]:
        """Losses of the path's own ensemble at that point: on held-out rows or folds, if there are any; on training rows."""
        on_training_rows = self.branch.points[self.chosen_index].train_loss
        if self.evidence is None:
            return (on_training_rows,)
        return self.evidence.mean(self.chosen_index), on_training_rows


@dataclass(frozen=True)
class SizeChooser:
    """Chooses within the user's budget by the user's rule."""

    inputs: PathInputs
    held_out: HeldOutRows | None
    budget: float
    size_rule: str

    def candidates(self, branches: Sequence[Branch], folds: Sequence[RowLosses] | None) -> list[Candidate]:
        """Where the final ensemble may be made: at the chosen size of the better branch."""
        each = [self.candidate(branch, None if folds is None else folds[i]) for i, branch in enumerate(branches)]
        if self.inputs.rules.pruning.branches_compared_by_final:
            return each
        best = self.best_branch(each)
        groups = self.inputs.groups
        if len(set(groups.price)) == 1:
            return [best]
        # With unequal costs, many cheap features may beat the few that were worth their price on the way down.
        cheapest = keep_worthiest(np.zeros(len(groups)), groups, self.budget)
        return [best] if np.array_equal(cheapest, best.support) else [best, best._replace(support=cheapest)]

    def candidate(self, branch: Branch, folds: RowLosses | None) -> Candidate:
        """The point to take of a branch among those within the budget; the largest, where there is no evidence."""
        groups, held_out = self.inputs.groups, self.held_out
        fits = [i for i, point in enumerate(branch.points) if point.is_within(self.budget, groups)]
        evidence = evidence_of(branch, held_out, folds)

        def ranking(i: int) -> float:
            return np.nan if held_out is None else held_out.ranking(branch.points[fits[i]])

        chosen_index = fits[0]
        if evidence is not None:
            losses, weight = evidence.losses[fits], evidence.weight
            chosen_index = fits[choose_size(losses, weight, self.size_rule, ranking, self.inputs.rules.sizes)]
        return Candidate(branch, chosen_index, evidence, branch.points[chosen_index].groups)

    def best_branch(self, candidates: Sequence[Candidate]) -> Candidate:
        """The best on held-out rows; of several starts, the first within noise of it: with few rows, differences are noise."""
        evidence = candidates[0].evidence
        if self.inputs.recipes.prune_from or self.held_out is None or evidence is None:
            return min(candidates, key=Candidate.path_losses)
        losses = np.array([one.evidence.losses[one.chosen_index] for one in candidates if one.evidence is not None])
        return candidates[choose_point(losses, evidence.weight, "best", self.inputs.rules.screening.noise)]


def choose_size(
    row_losses: NDArray[np.float64], weight: NDArray[np.float64], rule: str, ranking: Callable[[int], float],
    rules: SizeRules,
) -> int:  # fmt: skip
    """Which of the sizes, ordered from large to small, to take; ``ranking`` tells how well one of them ranks held-out rows.

    Of thirty sizes, some small one often has the lowest loss by chance, where large ensembles are too sure of themselves and
    yet rank rows better. So the rule "best" asks for a second opinion where a larger size is worse, but not clearly so.
    """
    chosen_index = choose_point(row_losses, weight, rule, rules.noise)
    if rule != "best":
        return chosen_index
    doubtful = np.flatnonzero(_no_worse(row_losses, weight, rules.doubt)[:chosen_index]).tolist()
    if not doubtful:
        return chosen_index
    best = int(np.argmin(row_losses @ weight))
    standard = max(ranking(chosen_index), ranking(best))
    return next((i for i in doubtful if ranking(i) >= standard), chosen_index)


def choose_point(
    row_losses: NDArray[np.float64], weight: NDArray[np.float64], rule: str, tolerance: float = 1.0
) -> int:
    """Which of the points, ordered from large to small, to take, given each one's loss on every held-out row.

    Losses are compared in pairs, row by row: that noise is far smaller than the noise of either mean, and it tells data
    on which a smaller model is truly better from data on which twenty rows cannot say.
    """
    rules: dict[str, Callable[[], int]] = {
        "best": lambda: int(np.flatnonzero(_no_worse(row_losses, weight, tolerance))[0]),
        "one_se": lambda: int(np.flatnonzero(_no_worse(row_losses, weight, 1.0, its_own=True))[-1]),
        "full": lambda: 0,
    }
    return rules[rule]()


def _no_worse(
    row_losses: NDArray[np.float64], weight: NDArray[np.float64], tolerance: float, its_own: bool = False
) -> NDArray[np.bool_]:
    """Which points are within so many standard errors of the best: of the difference, or of the best's own loss if larger."""
    mean = np.average(row_losses, axis=1, weights=weight)
    best = int(np.argmin(mean))
    excess = row_losses - row_losses[best]
    fraction = weight / weight.sum()
    noise = np.sqrt(((excess - (excess @ fraction)[:, None]) ** 2) @ fraction**2)
    if its_own:
        noise = np.maximum(noise, np.sqrt((row_losses[best] - mean[best]) ** 2 @ fraction**2))
    return np.asarray(excess @ fraction <= tolerance * noise)
