"""The choice of a size: of the points of every branch one, and of the branches one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.columns import Groups
from skinnytrees.path.comparison import Comparison, no_worse
from skinnytrees.path.evidence import Evidence, Judge
from skinnytrees.path.points import Branch, keep_worthiest
from skinnytrees.path.rules import SizeRules


class Candidate(NamedTuple):
    """A support for the final ensemble: at which point of which branch, and what is known about the branch's points."""

    branch: Branch
    branch_index: int
    chosen_index: int
    evidence: Evidence | None
    support: NDArray[np.intp]

    @property
    def is_of_path(self) -> bool:
        """Whether the support is the path's own at that point."""
        return np.array_equal(self.support, self.branch.points[self.chosen_index].groups)


@dataclass(frozen=True)
class SizeChooser:
    """Chooses within the user's budget by the user's rule."""

    groups: Groups
    judge: Judge
    rules: SizeRules
    budget: float
    size_rule: str

    def candidates(self, branches: Sequence[Branch], evidence: Sequence[Evidence] | None) -> list[Candidate]:
        """Where the final ensemble may be made: at the chosen size of the better branch."""
        each = [self.candidate(branches, i, None if evidence is None else evidence[i]) for i in range(len(branches))]
        best = self.best_branch(each)
        if len(set(self.groups.price)) == 1:
            return [best]
        # With unequal costs, many cheap features may beat the few that were worth their price on the way down.
        cheapest = keep_worthiest(np.zeros(len(self.groups)), self.groups, self.budget)
        return [best] if np.array_equal(cheapest, best.support) else [best, best._replace(support=cheapest)]

    def candidate(self, branches: Sequence[Branch], branch_index: int, evidence: Evidence | None) -> Candidate:
        """The point to take of a branch among those within the budget; the largest, where there is no evidence."""
        branch, judge = branches[branch_index], self.judge
        fits = [i for i, point in enumerate(branch.points) if point.is_within(self.budget, self.groups)]
        chosen_index = fits[0]
        if evidence is not None:
            within = evidence.take(fits)

            def ranking(i: int) -> float:
                return judge.ranking(within, i)

            chosen_index = fits[choose_size(judge.compare(within), self.size_rule, ranking, self.rules)]
        return Candidate(branch, branch_index, chosen_index, evidence, branch.points[chosen_index].groups)

    def best_branch(self, candidates: Sequence[Candidate]) -> Candidate:
        """The best on rows that judge, at its chosen size; without any, the one of least training loss."""
        found = [one.evidence.take([one.chosen_index]) for one in candidates if one.evidence is not None]
        if len(found) < len(candidates):
            return min(candidates, key=lambda one: one.branch.points[one.chosen_index].train_loss)
        together = found[0]._replace(outputs=np.concatenate([one.outputs for one in found]))
        return candidates[int(np.argmin(self.judge.compare(together).mean))]


def choose_size(comparison: Comparison, rule: str, ranking: Callable[[int], float], rules: SizeRules) -> int:
    """Which of the sizes, ordered from large to small, to take; ``ranking`` tells how well one of them ranks the rows that judge.

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

    They are compared in pairs, row by row: that noise is far smaller than the noise of either mean, and it tells data on which
    a smaller model is truly better from data on which twenty rows cannot say.
    """
    if rule == "full":
        return 0
    if rule == "one_se":
        return int(np.flatnonzero(no_worse(comparison, 1.0, own=True))[-1])
    return int(np.flatnonzero(no_worse(comparison, tolerance))[0])
