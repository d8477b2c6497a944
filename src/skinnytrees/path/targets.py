"""How far each stage of the path shrinks, and which groups it keeps: sizes in groups, and a budget in prices.

The price of a group counts only as long as the groups cost more than the budget. From there on, smaller sizes are visited to see
which groups contribute nothing, and a cheap group must contribute like an expensive one.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.path.rules import PriceRules, SizeRules
from skinnytrees.tables.groups import Groups

# Sums of prices are compared up to rounding.
_ROUNDING = 1e-9


class Target(NamedTuple):
    """Where a stage ends: at ``n_groups``, or earlier, where the groups come to fit the budget.

    On the way to the budget, the worth of a group is divided by its price to the power ``power``; with power 0 the price does
    not matter.
    """

    n_groups: int
    budget: float
    power: float = 0.0

    def exceeded_by(self, price: float) -> bool:
        """Whether so much is more than the budget."""
        return bool(price > self.budget * (1 + _ROUNDING))

    def power_at(self, price: float) -> float:
        """The power of prices by which worth is divided when the groups cost so much."""
        return self.power if self.exceeded_by(price) else 0.0


def falling_targets(groups: Groups, budget: float, rules: SizeRules, power: float = 0.0) -> list[Target]:
    """The sizes to visit, from all groups down to the least possible number: geometric, then every size.

    With equal prices, the number of groups that the budget allows is among them. With unequal ones that number is not known
    beforehand; the stage that reaches the budget ends there.
    """
    n_groups, price = len(groups), groups.price
    least = max(int(groups.always_selected.sum()), 1)
    wanted = least
    if has_equal_prices(groups) and price[0] > 0:
        wanted = int(min(budget / price[0] + _ROUNDING, n_groups))
    fine = np.arange(1, rules.every_size_below + 1)
    many = _geometric(n_groups, rules.many_groups, rules.ratio_of_many)
    coarse = _geometric(many[-1], fine[-1], rules.ratio)
    sizes = np.concatenate([many, coarse, fine, [least, wanted]]).astype(np.intp)
    falling = np.unique(sizes[(sizes >= least) & (sizes <= n_groups)])[::-1]
    return [Target(int(size), budget, power) for size in falling]


def _geometric(first: float, last: float, ratio: float) -> NDArray[np.float64]:
    """From the first number, each times the ratio, to the next one at or below ``last``; the first alone if it is no larger."""
    n_steps = max(0, math.ceil(math.log(last / first) / math.log(ratio) - _ROUNDING))
    return first * ratio ** np.arange(n_steps + 1, dtype=np.float64)


def price_powers(groups: Groups, budget: float, rules: PriceRules) -> tuple[float, ...]:
    """The powers of prices to try; one if all cost the same, or the budget allows all: then prices do not matter."""
    matters = not has_equal_prices(groups) and Target(1, budget).exceeded_by(groups.price.sum())
    return rules.powers if matters else (0.0,)


def has_equal_prices(groups: Groups) -> bool:
    """Whether all groups cost the same."""
    return bool(np.all(groups.price == groups.price[0]))


def worth_for_price(worth: Any, price: Any, power: float) -> Any:
    """Worth divided by a power of the price; what is free and does no harm is worth infinitely much for its price."""
    if power == 0:
        return worth
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((price == 0) & (worth >= 0), np.inf, worth / price**power)


def keep_worthiest(worth: NDArray[np.float64], groups: Groups, target: Target) -> NDArray[np.intp]:
    """Groups to keep: those always selected, then by worth until the target is met.

    Where the price counts, the rest of the budget is filled with further groups, by worth per price. Otherwise
    the rest is not used.
    """
    price = groups.price
    power = target.power_at(price.sum())
    worth = np.nan_to_num(worth)  # of an ensemble whose weights are not finite
    order = np.lexsort((price, -worth_for_price(worth - worth.min(), price, power), ~groups.always_selected))
    least = max(target.n_groups, int(groups.always_selected.sum()), 1)
    if not target.exceeded_by(price.sum()):
        return np.sort(order[:least])
    spent = np.cumsum(price[order])
    n_fitting = int(np.searchsorted(spent, target.budget * (1 + _ROUNDING), side="right"))
    if n_fitting < least or power == 0:
        return np.sort(order[: max(n_fitting, least)])
    kept, total = order[:n_fitting].tolist(), spent[n_fitting - 1]
    for g in order[n_fitting:].tolist():
        if not target.exceeded_by(total + price[g]):
            kept.append(g)
            total += price[g]
    return np.sort(np.array(kept, dtype=np.intp))
