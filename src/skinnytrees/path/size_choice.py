"""The choice of a size: of the points of every branch one, and of the branches one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.path.evidence import HeldOutRows, RowLosses, evidence_of
from skinnytrees.path.points import Branch, PathInputs
from skinnytrees.path.rules import SizeRules
from skinnytrees.path.targets import has_equal_prices, price_powers


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
        return [self.best_branch(each)]

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
            if self.size_rule == "best" and not has_equal_prices(groups):
                chosen_index = self.fewest_at_equal_price(branch, fits, chosen_index, evidence)
        return Candidate(branch, chosen_index, evidence, branch.points[chosen_index].groups)

    def fewest_at_equal_price(self, branch: Branch, fits: list[int], chosen_index: int, evidence: RowLosses) -> int:
        """Of the points that cost about as much as the chosen one, the last within noise of the best among them."""
        rules, price = self.inputs.rules.prices, self.inputs.groups.price
        cost = {i: price[branch.points[i].groups].sum() for i in fits if i >= chosen_index}
        near = [i for i in cost if cost[i] >= cost[chosen_index] - rules.negligible * self.budget]
        return near[int(np.flatnonzero(_no_worse(evidence.losses[near], evidence.weight, rules.noise))[-1])]

    def best_branch(self, candidates: Sequence[Candidate]) -> Candidate:
        """The best of the first power of prices that is within noise of the best; of the first, where there is no evidence."""
        rules = self.inputs.rules.prices
        n_each = len(candidates) // len(price_powers(self.inputs.groups, self.budget, rules))
        if n_each in (0, len(candidates)):
            return self.best_at_power(candidates)
        best = [self.best_at_power(candidates[i : i + n_each]) for i in range(0, len(candidates), n_each)]
        return best[0] if best[0].evidence is None else first_within_noise(best, best[0].evidence.weight, rules.noise)

    def best_at_power(self, candidates: Sequence[Candidate]) -> Candidate:
        """The best on held-out rows; of several starts, the first within noise of it: with few rows, differences are noise."""
        evidence = candidates[0].evidence
        if self.inputs.recipes.prune_from or self.held_out is None or evidence is None:
            return min(candidates, key=Candidate.path_losses)
        return first_within_noise(candidates, evidence.weight, self.inputs.rules.screening.noise)


def first_within_noise(candidates: Sequence[Candidate], weight: NDArray[np.float64], tolerance: float) -> Candidate:
    """The first of the candidates that is within so many standard errors of the best."""
    losses = np.array([one.evidence.losses[one.chosen_index] for one in candidates if one.evidence is not None])
    return candidates[choose_point(losses, weight, "best", tolerance)]


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
