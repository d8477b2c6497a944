"""What users say about columns: which they mean, which belong together, what they cost and how much may be spent."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.state import contiguous_ranges


@dataclass(frozen=True)
class Groups:
    """Features that enter and leave together, the design columns that they become, what they cost and which must stay.

    Group g is made of the features ``features[offsets[g]:offsets[g + 1]]`` of the table, which become the design
    columns ``column_offsets[g]`` to ``column_offsets[g + 1]``. It costs ``price[g]`` and, where ``always_selected[g]``, is never
    removed.
    """

    features: NDArray[np.intp]
    offsets: NDArray[np.intp]
    column_offsets: NDArray[np.intp]
    price: NDArray[np.float64]
    always_selected: NDArray[np.bool_]

    @classmethod
    def of(cls, groups: Sequence[NDArray[np.intp]]) -> "Groups":
        """From a list of features for each group, at a cost of one per feature and with one design column for each."""
        offsets = np.cumsum([0, *map(len, groups)])
        return cls(
            np.concatenate(groups), offsets, offsets, np.diff(offsets).astype(float), np.zeros(len(groups), bool)
        )

    @classmethod
    def singles(cls, n_features: int) -> "Groups":
        """Every feature a group of its own."""
        offsets = np.arange(n_features + 1)
        return cls(np.arange(n_features), offsets, offsets, np.ones(n_features), np.zeros(n_features, bool))

    @classmethod
    def read(
        cls, feature_groups: Any, feature_costs: Any, always_select: Any, n_features: int, names: NDArray[Any] | None
    ) -> "Groups":
        """The groups that may be used at all, from the estimators' parameters."""
        groups = read_groups(feature_groups, n_features, names)
        price = read_prices(feature_costs, feature_groups, groups, n_features, names)
        always = find_columns([] if always_select is None else always_select, n_features, names, "always_select")
        always_selected = groups.combine(np.isin(np.arange(n_features), always), np.logical_or)
        usable = np.isfinite(price)
        refuse_unless(
            bool(usable.any()),
            "Every group has a column of infinite cost, so none can be used. Give all columns of some group finite costs.",
        )
        refuse_unless(
            not np.any(always_selected & ~usable),
            "always_select names a column whose cost is infinite. Give it a finite cost.",
        )
        return replace(groups, price=price, always_selected=always_selected).take(np.flatnonzero(usable))

    def __len__(self) -> int:
        return len(self.price)

    @property
    def n_features(self) -> NDArray[np.intp]:
        """Number of features in each group."""
        return np.diff(self.offsets)

    def encoded(self, column_offsets: NDArray[np.intp]) -> "Groups":
        """The same groups, encoded as these design columns."""
        return replace(self, column_offsets=column_offsets)

    def columns(self, groups: NDArray[np.intp]) -> NDArray[np.intp]:
        """Design columns of some groups."""
        return contiguous_ranges(self.column_offsets, groups)[0]

    def take(self, groups: NDArray[np.intp]) -> "Groups":
        """Some of the groups."""
        places, offsets = contiguous_ranges(self.offsets, groups)
        column_offsets = contiguous_ranges(self.column_offsets, groups)[1]
        return Groups(self.features[places], offsets, column_offsets, self.price[groups], self.always_selected[groups])

    def ordered(self, keys: NDArray[np.uint64]) -> "Groups":
        """The groups by rising keys of their features, which are combined within a group, and its features by rising keys."""
        of = np.repeat(np.arange(len(self)), self.n_features)
        inner = np.lexsort((keys[self.features], of))
        by_key = replace(self, features=self.features[inner])
        return by_key.take(np.argsort(by_key.combine(keys, np.add), kind="stable"))

    def combine(self, values: NDArray[Any], how: np.ufunc) -> NDArray[Any]:
        """The features' values combined within each group."""
        return np.asarray(how.reduceat(values[self.features], self.offsets[:-1]))

    def worth_trying(self, budget: float, varies: NDArray[np.bool_]) -> "Groups":
        """Without the groups that alone break the budget and those that never vary: they cannot contribute."""
        affordable = self.always_selected | (self.price <= budget - self.price[self.always_selected].sum())
        useful = affordable & (self.always_selected | self.combine(varies, np.logical_or))
        return self.take(np.flatnonzero(useful if useful.any() else affordable))

    def total_price(self, feature_budget: Any, n_features: int, feature_costs: Any) -> float:
        """The user's budget as a total price; it is met always, so one that cannot be met is refused.

        Without costs it counts columns, with ``feature_costs="groups"`` groups, as a number or a fraction of them.
        """
        budget = feature_budget
        if budget is None:
            return float(self.price.sum())
        if feature_costs is None or isinstance(feature_costs, str):
            whole = isinstance(budget, Integral)
            n_all, what = (n_features, "columns") if feature_costs is None else (len(self), "groups")
            refuse_unless(
                budget <= (n_all if whole else 1),
                f"feature_budget={budget} asks for more {what} than X has ({n_all}). Use a number up to {n_all}, or a "
                "fraction such as 0.25.",
            )
            budget = budget if whole else max(1, int(budget * n_all + 1e-9))
        least = max(float(self.price.min()), float(self.price[self.always_selected].sum()))
        refuse_unless(
            budget >= least,
            f"feature_budget={feature_budget} cannot be met: always_select, or the smallest group, already takes {least:g}. "
            f"Use at least {least:g}.",
        )
        return float(budget)


def penalty_factors(groups: Groups, feature_costs: Any) -> NDArray[np.float64]:
    """By what a penalty's strength is multiplied: a group's price, 1 where there are no costs, 0 where it must stay."""
    return np.where(groups.always_selected, 0.0, np.ones(len(groups)) if feature_costs is None else groups.price)


def find_columns(columns: Any, n_features: int, names: NDArray[Any] | None, parameter: str) -> NDArray[np.intp]:
    """Numbers of the columns that a user gave by name, number or mask."""
    given = (
        [columns] if isinstance(columns, str) else [getattr(item, "item", lambda item=item: item)() for item in columns]
    )
    if given and all(isinstance(item, bool) for item in given):
        if len(given) != n_features:
            raise ValueError(
                f"{parameter} is a mask of {len(given)} columns, but X has {n_features}. Give one entry per column."
            )
        return np.flatnonzero(given)
    found = []
    known = {} if names is None else {name: k for k, name in enumerate(names)}
    for item in given:
        k = known.get(item, item) if not isinstance(item, int) else item
        if not isinstance(k, int) or not -n_features <= k < n_features:
            hint = _nearest(item, known) if known else f"a number from 0 to {n_features - 1}"
            raise ValueError(f"{parameter} names the column {item!r}, which X does not have. Use {hint}.")
        found.append(k % n_features)
    return np.array(sorted(set(found)), dtype=np.intp)


def read_groups(feature_groups: Any, n_features: int, names: NDArray[Any] | None) -> Groups:
    """Features that enter and leave together; a feature that is in no group is a group of its own.

    ``feature_groups`` is a list of lists of columns, a mapping from a group's name to its columns, or one label per column.
    """
    if feature_groups is None:
        return Groups.singles(n_features)
    if isinstance(feature_groups, Mapping):
        lists = list(feature_groups.values())
    elif all(isinstance(item, Sequence | np.ndarray) and not isinstance(item, str) for item in feature_groups):
        lists = list(feature_groups)
    else:
        labels = np.asarray(feature_groups)
        if labels.shape != (n_features,):
            raise ValueError(
                f"feature_groups has {len(labels)} labels, but X has {n_features} columns. Give one label per column, or a list "
                "of lists of columns."
            )
        lists = [np.flatnonzero(labels == label) for label in dict.fromkeys(labels.tolist())]
    if any(len(columns) == 0 for columns in lists):
        raise ValueError("feature_groups holds an empty group. Leave it out, or give it columns.")
    groups = [find_columns(columns, n_features, names, "feature_groups") for columns in lists]
    taken = np.bincount(np.concatenate(groups), minlength=n_features) if groups else np.zeros(n_features, dtype=int)
    if taken.max(initial=0) > 1:
        k = int(taken.argmax())
        raise ValueError(f"feature_groups puts column {k if names is None else names[k]!r} into two groups. Use one.")
    alone = [np.array([k]) for k in np.flatnonzero(taken == 0)]
    return Groups.of(sorted([*groups, *alone], key=lambda group: int(group[0])))


def read_prices(
    feature_costs: Any, feature_groups: Any, groups: Groups, n_features: int, names: NDArray[Any] | None
) -> NDArray[np.float64]:
    """Price of each group: 1 with "groups", its own where a mapping names it, else the sum of its columns' costs."""
    if feature_costs is None:
        return groups.n_features.astype(float)
    if isinstance(feature_costs, str):
        return np.ones(len(groups))
    if hasattr(feature_costs, "to_dict") and names is not None:
        feature_costs = feature_costs.to_dict()
    if not isinstance(feature_costs, Mapping) or not isinstance(feature_groups, Mapping):
        return groups.combine(read_costs(feature_costs, n_features, names), np.add)
    of_columns, of_groups = _split_by_name(feature_costs, feature_groups, n_features, names)
    price = groups.combine(read_costs(of_columns, n_features, names), np.add)
    group_of = np.empty(n_features, dtype=np.intp)
    group_of[groups.features] = np.repeat(np.arange(len(groups)), groups.n_features)
    priced = set(find_columns(list(of_columns), n_features, names, "feature_costs").tolist())
    for name, cost in of_groups.items():
        columns = find_columns(feature_groups[name], n_features, names, "feature_groups")
        for k in priced.intersection(columns.tolist()):
            raise ValueError(
                f"feature_costs prices the group {name!r} and its column {k if names is None else names[k]!r}, too. Price the "
                "group as a whole, or its columns."
            )
        price[group_of[columns[0]]] = cost
    _check_costs(price)
    return price


def _split_by_name(
    feature_costs: Mapping[Any, Any], feature_groups: Mapping[Any, Any], n_features: int, names: NDArray[Any] | None
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The costs of columns and those of groups; a name that may mean either is refused, as is one that means neither."""
    columns = set(range(-n_features, n_features)) | (set() if names is None else set(names))
    of_columns: dict[Any, Any] = {}
    of_groups: dict[Any, Any] = {}
    for name, cost in feature_costs.items():
        is_column, is_group = name in columns, name in feature_groups
        if not is_column and not is_group and not isinstance(name, Integral):
            known = [*feature_groups, *([] if names is None else names)]
            raise ValueError(
                f"feature_costs names {name!r}, which is neither a column of X nor a group of feature_groups. Use "
                f"{_nearest(name, known)}."
            )
        if is_column and is_group:
            raise ValueError(
                f"feature_costs names {name!r}, which is both a column of X and a group of feature_groups. Give the group "
                "another name."
            )
        (of_groups if is_group else of_columns)[name] = cost
    return of_columns, of_groups


def _nearest(name: Any, known: Collection[Any]) -> str:
    """The known names that look most like this one, or the first ones where none does."""
    nearest = difflib.get_close_matches(str(name), [str(one) for one in known], n=3)
    return f"one of {nearest or list(known)[:8]}"


def read_costs(feature_costs: Any, n_features: int, names: NDArray[Any] | None) -> NDArray[np.float64]:
    """Cost of each column, from an array or a mapping; columns that a mapping leaves out cost 1."""
    if isinstance(feature_costs, Mapping):
        costs = np.ones(n_features)
        for column, cost in feature_costs.items():
            costs[find_columns([column], n_features, names, "feature_costs")] = cost
    else:
        costs = np.asarray(feature_costs, dtype=np.float64)
    if costs.shape != (n_features,):
        raise ValueError(
            f"feature_costs has {costs.size} entries, but X has {n_features} columns. Give one cost per column."
        )
    _check_costs(costs)
    return costs


def _check_costs(costs: NDArray[np.float64]) -> None:
    if not np.all(costs >= 0):
        worst = costs[~(costs >= 0)][0]
        raise ValueError(
            f"feature_costs holds {worst:g}; costs must not be negative or missing. Use 0 for what is free, and infinity for "
            "what must never be used."
        )
    if not np.isfinite(costs).any():
        raise ValueError("feature_costs is infinite for every column, so none can be used. Give some a finite cost.")
