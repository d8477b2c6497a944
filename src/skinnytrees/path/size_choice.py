"""The choice of a size: of the points of every branch one, and of the branches one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.path.comparison import Comparison, no_worse
from skinnytrees.path.evidence import Evidence, Judge
from skinnytrees.path.points import Branch
from skinnytrees.path.rules import PathRules, SizeRules
from skinnytrees.path.targets import has_equal_prices, price_powers
from skinnytrees.tables.groups import Groups


class Candidate(NamedTuple):
    """A support for the final ensemble: at which point of which branch, and what is known about the branch's points."""

    branch: Branch
    branch_index: int
    chosen_index: int
    evidence: Evidence | None

    @property
    def support(self) -> NDArray[np.intp]:
        """The groups at that point."""
        return self.branch.points[self.chosen_index].groups


@dataclass(frozen=True)
class SizeChooser:
    """Chooses within the user's budget by the user's rule."""

    groups: Groups
    judge: Judge
    rules: PathRules
    budget: float
    size_rule: str
    # Branches that are better by less are not worth leaving the first: starts from other random trees differ by chance.
    branch_noise: float = 0.0

    def choose(self, branches: Sequence[Branch], evidence: Sequence[Evidence] | None) -> Candidate:
        """Where the final ensemble is made: at the chosen size of the best branch."""
        each = [self.candidate(branches, i, None if evidence is None else evidence[i]) for i in range(len(branches))]
        n_each = max(1, len(each) // len(price_powers(self.groups, self.budget, self.rules.prices)))
        best = [self.best_of(each[i : i + n_each], self.branch_noise) for i in range(0, len(each), n_each)]
        # With the first power every column must contribute; the training loss of more and cheaper columns is no
        # evidence against it.
        return best[0] if evidence is None else self.best_of(best, self.rules.prices.noise)

    def candidate(self, branches: Sequence[Branch], branch_index: int, evidence: Evidence | None) -> Candidate:
        """The point to take of a branch among those within the budget; the largest, where there is no evidence."""
        branch = branches[branch_index]
        fits = [i for i, point in enumerate(branch.points) if point.is_within(self.budget, self.groups)]
        if evidence is None:
            return Candidate(branch, branch_index, fits[0], None)
        within = evidence.take(fits)
        compared = self.judge.compare(within)
        place = choose_size(compared, self.size_rule, lambda i: self.judge.ranking(within, i), self.rules.sizes)
        if self.size_rule == "best" and not has_equal_prices(self.groups):
            place = self.fewest_at_equal_price([branch.points[i].groups for i in fits], place, within)
        return Candidate(branch, branch_index, fits[place], evidence)

    def fewest_at_equal_price(self, supports: Sequence[NDArray[np.intp]], chosen_index: int, evidence: Evidence) -> int:
        """Of the sizes that cost about as much as the chosen one, the last within noise of the best among them."""
        rules = self.rules.prices
        cost = [self.groups.price[support].sum() for support in supports]
        near = [
            i for i in range(chosen_index, len(cost)) if cost[i] >= cost[chosen_index] - rules.negligible * self.budget
        ]
        return near[int(np.flatnonzero(no_worse(self.judge.compare(evidence.take(near)), rules.noise))[-1])]

    def best_of(self, candidates: Sequence[Candidate], noise: float) -> Candidate:
        """The first within noise of the best on held-out rows; without any, the one of least training loss."""
        found = [one.evidence.take([one.chosen_index]) for one in candidates if one.evidence is not None]
        if len(found) < len(candidates):
            return min(candidates, key=lambda one: one.branch.points[one.chosen_index].train_loss)
        together = found[0]._replace(outputs=np.concatenate([one.outputs for one in found]))
        return candidates[int(np.flatnonzero(no_worse(self.judge.compare(together), noise))[0])]


def choose_size(comparison: Comparison, rule: str, ranking: Callable[[int], float], rules: SizeRules) -> int:
    """Which of the sizes, ordered from large to small, to take; ``ranking`` tells how well one of them ranks held-out rows.

    Of thirty sizes, some small one often has the lowest loss by chance. So the rule "best" takes the largest size that is not
    clearly worse than the best, and up to some more doubt where the larger one ranks rows at least as well.
    """
    chosen_index = choose_point(comparison, rule, rules.noise)
    if rule != "best":
        return chosen_index
    doubtful = np.flatnonzero(no_worse(comparison, rules.doubt)[:chosen_index]).tolist()
    if not doubtful:
        return chosen_index
    best = int(np.argmin(comparison.mean))
    standard = max(ranking(chosen_index), ranking(best))
    return next((i for i in doubtful if ranking(i) >= standard), chosen_index)


def choose_point(comparison: Comparison, rule: str, tolerance: float = 1.0) -> int:
    """Which of the points, ordered from large to small, to take.

    They are compared in pairs, row by row: the noise of a paired difference is far smaller than that of either mean, and shows
    whether a smaller model is truly better or the rows are too few to decide.
    """
    if rule == "full":
        return 0
    if rule == "one_se":
        return int(np.flatnonzero(no_worse(comparison, 1.0, own=True))[-1])
    return int(np.flatnonzero(no_worse(comparison, tolerance))[0])
