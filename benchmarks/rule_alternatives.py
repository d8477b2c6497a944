"""The rules of the default path, and what could be in their place: each alternative is a function from rules to rules."""

import argparse
import ast
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import reduce
from math import inf
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from skinnytrees import fitting
from skinnytrees.estimators import base
from skinnytrees.optimizers import Constant
from skinnytrees.path.rules import DEFAULT_RULES, PathRecipes, PathRules, replace_rule, rule_names
from skinnytrees.tables import encoding

Change = Callable[[PathRules], PathRules]


def unchanged(rules: PathRules) -> PathRules:
    return rules


def rule(name: str, value: Any) -> Change:
    """One rule by its name."""
    return lambda rules: replace_rule(rules, name, value)


def recipes(*names: str, **changes: Any) -> Change:
    """Fields of recipes; a function gives the new value from the old one."""

    def change(rules: PathRules) -> PathRules:
        for name in names:
            old = reduce(getattr, name.split("."), rules)
            new = {field: new(getattr(old, field)) if callable(new) else new for field, new in changes.items()}
            rules = replace_rule(rules, name, replace(old, **new))
        return rules

    return change


def scaled(factor: float, *names: str) -> Change:
    """Numbers times a factor."""

    def change(rules: PathRules) -> PathRules:
        for name in names:
            rules = replace_rule(rules, name, times(factor)(reduce(getattr, name.split("."), rules)))
        return rules

    return change


def blends(*names: str) -> Change:
    """The final ensembles to try, however many rows there are."""
    return lambda rules: replace(rules, final=replace(rules.final, blends=names, blends_on_few_rows=names))


def times(factor: float) -> Callable[[Any], Any]:
    """The old value times this; a count stays a count."""
    return lambda old: max(1, round(old * factor)) if isinstance(old, int) else old * factor


class RidgeByRowsAlone(PathRules):
    """The rules with one large final ensemble, whose ridge depends on the rows and whose learning rate on nothing."""

    def for_rows(self, n_rows: int, **users_choices: Any) -> PathRecipes:
        recipes = super().for_rows(n_rows, **users_choices)
        return replace(recipes, large=replace(recipes.large, learning_rate=0.04, l2=min(1.0, max(0.1, 300 / n_rows))))


def by_rows_alone(rules: PathRules) -> PathRules:
    rules = blends("light")(rules)
    final = replace(rules.final, full_steps_up_to_columns=inf, all_trees_up_to_columns=inf)
    return RidgeByRowsAlone(**{**vars(rules), "final": final})


def constant(name: str, value: float, module: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(module, name, value)


def another_seed() -> AbstractContextManager[Any]:
    """The same rules and the same split, other random numbers: what chance alone does."""
    return patch.object(
        base,
        "fit_path",
        lambda *args: fitting.fit_path(*args[:-1], np.random.default_rng(args[-1].integers(2**31))),
    )


class Size(NamedTuple):
    """What decides which rules a data set meets; rows are those trained on."""

    n_rows: int
    n_columns: int
    budget: float


def anywhere(size: Size) -> bool:
    return True


def where_rows(least: float = 0, below: float = inf) -> Callable[[Size], bool]:
    return lambda size: least <= size.n_rows < below


def where_it_screens(size: Size) -> bool:
    pruning = DEFAULT_RULES.pruning
    return size.n_rows < pruning.needs_rows or size.n_columns > pruning.starts_at


def where_it_averages(size: Size) -> bool:
    return size.n_rows < DEFAULT_RULES.final.few_rows_below or size.budget > size.n_rows


def where_pruning_starts_above(n_columns: int) -> Callable[[Size], bool]:
    return lambda size: size.n_rows >= DEFAULT_RULES.pruning.needs_rows and size.n_columns > n_columns


where_it_prunes = where_rows(least=DEFAULT_RULES.pruning.needs_rows)
where_it_swaps = where_rows(below=DEFAULT_RULES.pruning.needs_rows)


class Alternative(NamedTuple):
    """Another way to have one rule, and the data on which that can make a difference: elsewhere it is not fitted.

    What is not a rule of the path is changed in a context around the fit.
    """

    rule: str
    name: str
    change: Change = unchanged
    matters: Callable[[Size], bool] = anywhere
    context: Callable[[], AbstractContextManager[Any]] = nullcontext


def parsed_alternative(text: str) -> Alternative:
    """From ``name=value``, the name of a rule and its other value.

    >>> parsed_alternative("swaps.gain=0.99").change(DEFAULT_RULES).swaps.gain
    0.99
    """
    name, _, value = text.partition("=")
    try:
        alternative = Alternative("set rule", text, rule(name, inf if value == "inf" else ast.literal_eval(value)))
        alternative.change(DEFAULT_RULES)
    except (ValueError, SyntaxError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} sets no rule. {error}") from error
    return alternative


DEFAULT = Alternative("default", "")
# These begin where the walk from all columns to one has ended.
AFTER_THE_WALK = ("default", "size choice", "final", "large final", "averaged final")
_SCREEN, _PRUNE = ("screening.start", "screening.stage"), ("pruning.start", "pruning.stage")
_LARGE, _AVERAGED = ("final.large", "final.large_on_few_rows"), "final.averaged"
_BATCH_SIZES = [name for name in rule_names() if name.rpartition(".")[2].startswith("batch_size")]
ALTERNATIVES = [
    Alternative("chance", "other random numbers", context=another_seed),
    Alternative("size choice", "noise 0", rule("sizes.noise", 0.0)),
    Alternative("size choice", "noise 0.5", rule("sizes.noise", 0.5)),
    Alternative("size choice", "noise 1", rule("sizes.noise", 1.0)),
    Alternative("size choice", "always the budget", rule("sizes.noise", 1e9)),
    Alternative("size choice", "no second opinion", rule("sizes.doubt", 0.0)),
    Alternative("size choice", "second opinion up to 4", rule("sizes.doubt", 4.0)),
    Alternative("sizes", "ratio 0.6", rule("sizes.ratio", 0.6)),
    Alternative("sizes", "ratio 0.85", rule("sizes.ratio", 0.85)),
    Alternative("sizes", "every size below 8", rule("sizes.every_size_below", 8)),
    Alternative("swaps", "none", rule("swaps.groups_per_row", 0.0), where_it_swaps),
    Alternative("swaps", "before pruning, too", rule("swaps.before_pruning", True), where_pruning_starts_above(100)),
    Alternative("swaps", "up to 0.5 groups per row", rule("swaps.groups_per_row", 0.5), where_it_swaps),
    Alternative("swaps", "gain 0.99", rule("swaps.gain", 0.99), where_it_swaps),
    Alternative("starts", "1", rule("screening.n_starts", 1), where_it_swaps),
    Alternative("starts", "2", rule("screening.n_starts", 2), where_it_swaps),
    Alternative("starts", "8", rule("screening.n_starts", 8), where_it_swaps),
    Alternative("screening", "rate 0.1", recipes(*_SCREEN, learning_rate=0.1), where_it_screens),
    Alternative("screening", "rate 1.0", recipes(*_SCREEN, learning_rate=1.0), where_it_screens),
    Alternative("screening", "50 trees", recipes(*_SCREEN, n_trees=50), where_it_screens),
    Alternative("screening", "ridge 0.03", recipes(*_SCREEN, l2=0.03), where_it_screens),
    Alternative("screening", "ridge 0.3", recipes(*_SCREEN, l2=0.3), where_it_screens),
    Alternative("screening", "first epochs x 2", scaled(2, "screening.start.n_epochs"), where_it_screens),
    Alternative(
        "screening", "stage epochs x 2", scaled(2, "screening.stage.n_epochs", "screening.stage_epochs_without_pruning"),
        where_it_screens,
    ),
    Alternative("pruning rows", "200", rule("pruning.needs_rows", 200), where_rows(200, 400)),
    Alternative("pruning rows", "800", rule("pruning.needs_rows", 800), where_rows(400, 800)),
    Alternative("pruning rows", "never", rule("pruning.needs_rows", inf), where_it_prunes),
    Alternative("pruning start", "50", rule("pruning.starts_at", 50), where_pruning_starts_above(50)),
    Alternative("pruning start", "200", rule("pruning.starts_at", 200), where_pruning_starts_above(100)),
    Alternative("pruning start", "100 at all sizes", rule("pruning.rows_per_group", inf), where_rows(3000)),
    Alternative("branches", "fill in only", rule("pruning.fill_in", (True,)), where_it_prunes),
    Alternative("branches", "plain only", rule("pruning.fill_in", (False,)), where_it_prunes),
    Alternative("fill-in ridge", "0.001", rule("elimination.ridge", 0.001), where_it_prunes),
    Alternative("fill-in ridge", "0.1", rule("elimination.ridge", 0.1), where_it_prunes),
    Alternative("cost rows", "500", rule("elimination.most_rows", 500), where_rows(500)),
    Alternative("cost rows", "2,000 at all sizes", rule("elimination.rows_times_groups", 10**9), where_rows(500)),
    Alternative("pruning", "25 trees", recipes(*_PRUNE, n_trees=25), where_it_prunes),
    Alternative("pruning", "depth 3", recipes(*_PRUNE, depth=3), where_it_prunes),
    Alternative("pruning", "rate and ridge for any columns", rule("pruning.columns_power", 0.0), where_it_prunes),
    Alternative("pruning", "rate x 0.5", recipes(*_PRUNE, learning_rate=times(0.5)), where_it_prunes),
    Alternative("pruning", "rate x 2", recipes(*_PRUNE, learning_rate=times(2)), where_it_prunes),
    Alternative("pruning", "ridge x 0.3", recipes(*_PRUNE, l2=times(0.3)), where_it_prunes),
    Alternative("pruning", "ridge x 3", recipes(*_PRUNE, l2=times(3.0)), where_it_prunes),
    Alternative("pruning", "as many epochs whatever goes", rule("pruning.epochs_power", 0.0), where_it_prunes),
    Alternative("pruning", "first epochs x 1.33", scaled(4 / 3, "pruning.start.n_epochs"), where_it_prunes),
    Alternative("pruning", "stage epochs x 0.5", scaled(0.5, "pruning.stage.n_epochs"), where_it_prunes),
    Alternative("pruning", "stage epochs x 2", scaled(2, "pruning.stage.n_epochs"), where_it_prunes),
    Alternative("final", "large only", rule("final.few_rows_below", 0), where_rows(below=1000)),
    Alternative("final", "both from 1,000 rows on", rule("final.few_rows_below", inf), where_rows(1000)),
    Alternative("final", "averaged only", rule("final.averaged_only_above_features_per_row", 0.0)),
    Alternative(
        "final", "both where columns > rows", rule("final.averaged_only_above_features_per_row", inf),
        lambda size: size.budget > size.n_rows,
    ),
    Alternative("large final", "rate and ridge by rows alone", by_rows_alone),
    Alternative("large final", "light only", blends("light")),
    Alternative("large final", "strong only", blends("strong")),
    Alternative("large final", "mean only", blends("mean")),
    Alternative("large final", "no mean", blends("light", "strong")),
    Alternative("large final", "as many trees for any columns", rule("final.all_trees_up_to_columns", inf)),
    Alternative("large final", "1 of 100 trees", recipes(*_LARGE, n_trees=100, n_copies=1)),
    Alternative("large final", "2 of 100 trees", recipes(*_LARGE, n_trees=100)),
    Alternative("large final", "4 of 25 trees", recipes(*_LARGE, n_trees=25, n_copies=4)),
    Alternative(
        "large final", "as with fewer rows", recipes("final.large", n_trees=50, depth=4, learning_rate=0.04), where_rows(1000)
    ),
    Alternative(
        "large final", "as with more rows", recipes("final.large_on_few_rows", n_trees=30, depth=5, learning_rate=0.08),
        where_rows(500, 1000),
    ),
    Alternative("large final", "one level less", recipes(*_LARGE, depth=lambda depth: depth - 1)),
    Alternative("large final", "one level more", recipes(*_LARGE, depth=lambda depth: depth + 1)),
    Alternative("large final", "rate x 0.5", recipes(*_LARGE, learning_rate=times(0.5))),
    Alternative("large final", "rate x 2", recipes(*_LARGE, learning_rate=times(2.0))),
    Alternative("large final", "epochs x 0.5", recipes(*_LARGE, n_epochs=times(0.5))),
    Alternative("large final", "epochs x 2", recipes(*_LARGE, n_epochs=times(2))),
    Alternative("averaged final", "1 copy", recipes(_AVERAGED, n_copies=1), where_it_averages),
    Alternative("averaged final", "10 copies", recipes(_AVERAGED, n_copies=10), where_it_averages),
    Alternative(
        "averaged final", "rate 0.3 to the end", recipes(_AVERAGED, learning_rate=0.3, schedule=Constant()),
        where_it_averages,
    ),
    Alternative("averaged final", "rate x 0.5", recipes(_AVERAGED, learning_rate=times(0.5)), where_it_averages),
    Alternative("averaged final", "ridge x 0.3", recipes(_AVERAGED, l2=times(0.3)), where_it_averages),
    Alternative("averaged final", "ridge x 3", recipes(_AVERAGED, l2=times(3.0)), where_it_averages),
    Alternative("averaged final", "epochs x 0.5", recipes(_AVERAGED, n_epochs=times(0.5)), where_it_averages),
    Alternative("averaged final", "epochs x 2", recipes(_AVERAGED, n_epochs=times(2)), where_it_averages),
    Alternative("outliers", "as they are", context=constant("_FARTHEST", 1e15, encoding)),
    Alternative("outliers", "cut at 3", context=constant("_FARTHEST", 3.0, encoding)),
    Alternative("outliers", "cut at 10", context=constant("_FARTHEST", 10.0, encoding)),
    Alternative("batch size", "x 0.5", scaled(0.5, *_BATCH_SIZES)),
    Alternative("batch size", "x 2", scaled(2, *_BATCH_SIZES)),
]  # fmt: skip
