"""All numbers that determine the path, as data, and the recipes that follow from them for a number of training rows.

A rule is a field with its reason; ``docs/rules_notebook.md`` has the measurements. Other rules are ``dataclasses.replace(...)``
of these, or :func:`replace_rule` by name, and are handed down from the estimator: nothing here is read from a module by the
phases.
"""

import difflib
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from numbers import Real
from typing import Any

from skinnytrees.optimizers import Adam, Constant, FixedSupportSGD, OneCycle, Optimizer, RateSchedule
from skinnytrees.path.styles import FOLDED_RANKS_AND_AXES, RANKS_AND_AXES, VALUES_AND_PLANES, Style
from skinnytrees.starts import AxisAligned, Boosted, Glorot, Grown, Start

_GLOROT = Glorot()


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How an ensemble is made and trained at a fixed support; ``n_copies`` of them are averaged.

    Among the rules, ``n_epochs`` and ``batch_size`` are those for few rows: the number of epochs at most, the size of a batch at
    least. :meth:`PathRules.for_rows` puts in those for the rows at hand. Without epochs, an ensemble stays as it starts. With a
    ``variance_floor``, training is in uncorrelated coordinates (``coordinates.py``). One that needs ``evidence`` is taken only if
    all that need none are worse by this many standard errors.
    """

    n_trees: int
    depth: int
    learning_rate: float
    l2: float
    n_epochs: int
    batch_size: int = 1
    optimizer: Optimizer
    schedule: RateSchedule
    start: Start = _GLOROT
    n_copies: int = 1
    variance_floor: float | None = None
    evidence: float = 0.0

    def with_total_trees(self, n_trees: int) -> "Recipe":
        """The recipe for this many trees in all copies together, in up to ``n_copies`` copies of equal and sufficient size."""
        fits = [n for n in range(1, self.n_copies + 1) if n_trees % n == 0 and n_trees // n >= _FEWEST_TREES_PER_COPY]
        n_copies = max(fits, default=1)
        return replace(self, n_trees=n_trees // n_copies, n_copies=n_copies)


# Recipes whose ensembles are averaged.
Blend = tuple[Recipe, ...]

# Smaller ensembles than this are better not divided into copies.
_FEWEST_TREES_PER_COPY = 5
# A learning rate that falls at the end leaves no ensemble between two solutions.
_FALLING = OneCycle(warm_up=0.1, start=0.3, end=0.05)
_AXES = AxisAligned()
# Adam takes batches of at least this many rows.
_ADAM_BATCH_SIZE = 32


@dataclass(frozen=True)
class TrainingRules:
    """Batches and epochs of every training on the path."""

    # Rows per step: small batches where steps would be few, large ones where there are more than enough.
    batch_size: int = 16
    batch_size_above_few_rows: int = 64
    batch_size_above_many_rows: int = 256
    few_rows: float = 1000
    many_rows: float = 20_000
    # Beyond this many rows an epoch has enough steps, so the number of epochs falls as 1 / rows, but not below the fewest.
    all_epochs_up_to_rows: float = 5000
    fewest_epochs: int = 2

    def batch_size_for(self, n_rows: int) -> int:
        """Rows per step."""
        if n_rows <= self.few_rows:
            return self.batch_size
        return self.batch_size_above_few_rows if n_rows <= self.many_rows else self.batch_size_above_many_rows

    def epochs_for(self, n_epochs: int, n_rows: int) -> int:
        """Number of epochs where ``n_epochs`` are right for few rows; none stays none."""
        if n_epochs == 0:
            return 0
        return max(self.fewest_epochs, round(n_epochs * min(1.0, self.all_epochs_up_to_rows / n_rows)))


@dataclass(frozen=True)
class SizeRules:
    """Which sizes are visited, and which of them is chosen."""

    # Each size is this fraction of the one before; from this many groups on down every size is visited.
    ratio: float = 0.75
    every_size_below: int = 16
    # Above this many groups, each size is this fraction of the one before: the first sizes of a wide table take most of the time,
    # and most of its groups are noise.
    many_groups: float = 1000
    ratio_of_many: float = 0.5
    # A size counts as no worse than the best when its excess loss, paired over rows, is within this many standard errors. Of many
    # sizes some small one is the best by chance; the largest is right unless the evidence against it is clear.
    noise: float = 2.0
    # Up to this many standard errors the loss leaves doubt: a larger size is taken if it ranks held-out rows at least as well.
    doubt: float = 3.0


@dataclass(frozen=True)
class PriceRules:
    """What unequal prices change, if the budget does not allow all groups."""

    # On the way to the budget, a group's worth is divided by its price to one of these powers, each in a branch of its own: 0
    # ranks groups by their worth, 1 by their worth per price. With 1 alone, a thousand useless columns that cost almost nothing
    # would be kept; with 0 alone, many cheap columns that together are better than an expensive one would be removed.
    powers: tuple[float, ...] = (0.0, 1.0)
    # Of the powers, the first is taken that is within this many standard errors of the best. Of sizes whose prices differ by no
    # more than this fraction of the budget, the one of fewest groups within as many standard errors: a group that costs almost
    # nothing must contribute, too.
    noise: float = 1.0
    negligible: float = 0.05


@dataclass(frozen=True)
class ScreeningRules:
    """Shrinking by norm: small ensembles with plain gradient steps, cheap even for 100,000 columns."""

    start: Recipe = Recipe(
        n_trees=20, depth=2, learning_rate=0.3, l2=0.1, n_epochs=10, optimizer=FixedSupportSGD(), schedule=Constant()
    )
    stage: Recipe = Recipe(
        n_trees=20, depth=2, learning_rate=0.3, l2=0.1, n_epochs=4, optimizer=FixedSupportSGD(), schedule=_FALLING
    )
    # Where nothing is pruned, screening goes to the end of the path, and its stages have to train longer.
    stage_epochs_without_pruning: int = 8
    # Where pruning follows, screening only has to keep what matters. With less ridge it learns the rows by heart, and the norms
    # of columns that matter only together are lost among those of noise.
    l2_before_pruning: float = 1.0
    # More rows need less: above this many the ridge falls as 1 / rows, down to this fraction. With all of it, screening of 8,000
    # rows learns nothing of the sine of one column times another.
    full_ridge_up_to_rows: float = 1600
    least_ridge: float = 0.1
    # On few rows, a walk may lose a relevant group early, and other random trees lose others: this many walks are started where
    # nothing is pruned. Held-out rows choose the first that is within this many standard errors of the best; without any, as with
    # folds, that of least training loss is taken at every size.
    n_starts: int = 4
    noise: float = 1.0

    def ridge_before_pruning(self, n_rows: int) -> float:
        """Ridge of screening where pruning follows."""
        return self.l2_before_pruning * min(1.0, max(self.least_ridge, self.full_ridge_up_to_rows / n_rows))


@dataclass(frozen=True)
class ImportanceRules:
    """Trees that are grown at random to help with ranking the groups (``importance.py``)."""

    # With fewer groups than this, the trees would take most of the time for nothing.
    from_groups: int = 20
    # While groups are screened, norms are mostly noise, and the trees rank the groups together with them. Where pruning begins,
    # the groups are fewer, and so are the trees.
    n_trees_for_screening: int = 300
    n_trees_before_pruning: int = 100
    # Deeper splits see few rows, which noise divides as well as anything else.
    depth: int = 6
    # Of more rows than this, every tree is given a sample of this size, from this many rows at most.
    most_rows_per_tree: int = 2000
    most_rows: int = 10_000


@dataclass(frozen=True)
class SwapRules:
    """Exchanging groups inside for groups outside, where rows are too few for pruning."""

    # Swaps are tried where there are at most this many groups per row; with more, the training loss is not informative.
    groups_per_row: float = 0.2
    # Groups can come back that were left when there were at most this many per row: to look at all columns of a wide table again
    # and again would take most of the time, and of many thousands of gradients the largest belong to noise.
    candidates_per_row: float = 5.0
    # The first exchange takes this fraction of the groups; after a failure, half as many are exchanged.
    first_fraction: float = 0.25
    rounds: int = 12
    # A swap must bring the training loss down to this fraction of what it was: less may be noise.
    gain: float = 0.9
    # Pruning repairs the mistakes of screening itself.
    before_pruning: bool = False


@dataclass(frozen=True)
class PruningRules:
    """Shrinking by removal cost: a larger ensemble with Adam, where there are enough rows."""

    # With fewer training rows than this, a large ensemble's removal costs are mostly noise: screening goes
    # on to the smallest size.
    needs_rows: float = 400
    # Pruning starts at this many groups, or at more where there are this many rows for each.
    starts_at: int = 100
    rows_per_group: float = 30
    start: Recipe = Recipe(
        n_trees=50, depth=4, learning_rate=0.03, l2=1.0, n_epochs=15, batch_size=_ADAM_BATCH_SIZE,
        optimizer=Adam(), schedule=OneCycle(), start=_AXES,
    )  # fmt: skip
    stage: Recipe = Recipe(
        n_trees=50, depth=4, learning_rate=0.01, l2=1.0, n_epochs=5, batch_size=_ADAM_BATCH_SIZE,
        optimizer=Adam(), schedule=OneCycle(warm_up=0.1),
    )  # fmt: skip
    # Few rows need more shrinkage: above this many rows the ridge falls as 1 / rows, down to this fraction.
    full_ridge_up_to_rows: float = 300
    least_ridge: float = 0.3
    # More columns move w.x by more in each step: above this many, the learning rate falls and the ridge grows with this power.
    full_steps_up_to_columns: float = 16
    columns_power: float = 0.5
    # Fewer epochs are needed where less than the usual fraction of the groups was removed, by this power of the ratio.
    epochs_power: float = 0.5
    # An ensemble whose training loss stays above this fraction of a constant's has not left the plateau. It is started anew, with
    # this many times the epochs, until it has or until all these have been tried.
    plateau: float = 0.97
    more_epochs: tuple[float, ...] = (4.0, 12.0)
    # The branches that are tried: with and without the remaining columns filling in for those that are removed.
    fill_in: tuple[bool, ...] = (True, False)

    def ridge_for(self, l2: float, n_rows: int) -> float:
        """Ridge where ``l2`` is right for few rows."""
        return l2 * min(1.0, max(self.least_ridge, self.full_ridge_up_to_rows / n_rows))


@dataclass(frozen=True)
class EliminationRules:
    """How removal costs are measured."""

    # Costs are measured on at most this many rows, and on fewer where there are many groups, so that measuring all of them once
    # takes the same time.
    most_rows: int = 2000
    least_rows: int = 500
    rows_times_groups: int = 64_000
    # Training between two eliminations changes the costs. An old one is trusted to be at most this fraction above the new one.
    slack: float = 0.5
    # Ridge of the linear prediction that fills in, relative to a column's variance: keeps coefficients small where columns are
    # nearly dependent.
    ridge: float = 0.01
    # A cost up to this many times the median of the groups that are least important to extra trees (this fraction of the groups,
    # when pruning begins) may be that of noise: noise also reduces the training loss. Such costs are multiplied by the
    # importance, and those below this fraction of the limit are taken for equal.
    noise_costs: float = 4.0
    least_important: float = 1 / 3
    negligible: float = 0.05
    # With more columns than this (categories have many), the linear prediction would take longer than all training.
    most_filled_in: int = 1000


@dataclass(frozen=True)
class FinalRules:
    """The ensembles that are made at the chosen size; rows that did not train them choose among them."""

    # The mean of small ensembles with plain steps, where there are more features per row than this.
    averaged: Recipe = Recipe(
        n_trees=20, depth=2, learning_rate=0.6, l2=1.0, n_epochs=40, optimizer=FixedSupportSGD(), schedule=_FALLING,
        n_copies=4,
    )  # fmt: skip
    averaged_only_above_features_per_row: float = 1.0
    # Below this many rows, the mean of many small ensembles that were trained for a short time is tried besides a large one. On
    # the same columns it ranks as well as a forest, and its log-loss is a third lower.
    few_rows_below: float = 1000
    small: Recipe = Recipe(
        n_trees=20, depth=4, learning_rate=0.02, l2=1.0, n_epochs=10, batch_size=_ADAM_BATCH_SIZE,
        optimizer=Adam(), schedule=OneCycle(), start=_AXES, n_copies=6,
    )  # fmt: skip
    # Trees that are grown on bootstrap samples by looking at the targets. Training them further makes them worse, but their mean
    # with the small ensembles is better than either.
    grown: Recipe = Recipe(
        n_trees=60, depth=4, learning_rate=0.02, l2=1.0, n_epochs=0, batch_size=_ADAM_BATCH_SIZE,
        optimizer=Adam(), schedule=OneCycle(), start=Grown(),
    )  # fmt: skip
    large_on_few_rows: Recipe = Recipe(
        n_trees=50, depth=4, learning_rate=0.04, l2=0.1, n_epochs=30, batch_size=_ADAM_BATCH_SIZE,
        optimizer=Adam(), schedule=OneCycle(), start=_AXES, n_copies=2,
    )  # fmt: skip
    # From there on, large ensembles have deeper trees and larger learning rates.
    large: Recipe = Recipe(
        n_trees=30, depth=5, learning_rate=0.08, l2=0.1, n_epochs=30, batch_size=_ADAM_BATCH_SIZE,
        optimizer=Adam(), schedule=OneCycle(), start=_AXES, n_copies=2,
    )  # fmt: skip
    # Boosted trees with hard splits, for functions with steps, to which trained splits are too smooth. They are not trained any
    # further, and make a larger model, so they are taken only where they are clearly better.
    boosted: Recipe = Recipe(
        n_trees=150, depth=5, learning_rate=0.08, l2=0.1, n_epochs=0, batch_size=_ADAM_BATCH_SIZE,
        optimizer=Adam(), schedule=OneCycle(), start=Boosted(), evidence=2.0,
    )  # fmt: skip
    # Which ensembles to try, the preferred first: lightly or strongly regularised, or the mean of both. Which is best depends on
    # the noise in the data. On few rows, the strongly regularised one is the small one, also with grown trees, and a preferred
    # one stays unless another is better by this many standard errors.
    blends: tuple[str, ...] = ("mean", "light", "strong", "light with boosted", "boosted")
    blends_on_few_rows: tuple[str, ...] = ("strong with grown", "strong", "mean", "light")
    noise_on_few_rows: float = 1.0
    # Above this many columns, the lightly regularised one takes shorter steps, but not shorter than this, and the strongly
    # regularised one has a ridge in proportion to the columns, but no more than this.
    full_steps_up_to_columns: float = 16
    least_light_rate: float = 0.01
    strong_rate: float = 0.01
    most_strong_l2: float = 10.0
    # Above this many columns a large ensemble has fewer trees, but no fewer than this.
    all_trees_up_to_columns: float = 100
    fewest_trees: int = 10


@dataclass(frozen=True)
class EvidenceRules:
    """Which rows are held out, if the user does not say."""

    # Below this many rows none is held out for good: every row is held out once by this many folds.
    folds_below_rows: int = 400
    n_folds: int = 5
    # From there on this fraction of the rows is held out.
    held_out_fraction: float = 0.2
    # Walks in a fold start from this many different random trees.
    n_starts: int = 2


@dataclass(frozen=True)
class PathRecipes:
    """The recipes for one number of training rows.

    ``prune_from`` is the number of groups from which on pruning takes over, 0 where nothing is pruned; ``users_choices`` are
    fields of the final ensembles' recipes that the user has set, ``n_trees`` the number of trees of the final model, if set.
    """

    prune_from: int
    screen: Recipe
    screen_stage: Recipe
    prune: Recipe
    prune_stage: Recipe
    averaged: Recipe
    small: Recipe
    grown: Recipe
    large: Recipe
    boosted: Recipe
    users_choices: tuple[tuple[str, Any], ...] = ()

    n_trees: int | None = None

    def with_users_choices(self, recipe: Recipe) -> Recipe:
        """A final ensemble's recipe with what the user has set."""
        return replace(recipe, **dict(self.users_choices))

    def with_users_trees(self, blends: Sequence[Blend]) -> tuple[Blend, ...]:
        """The blends with the number of trees that the user has set, in all their copies together.

        Blends that would have fewer trees than recipes are left out; one of a single recipe is always among them.
        """
        if self.n_trees is None:
            return tuple(blends)
        made = []
        for blend in blends:
            each, rest = divmod(self.n_trees, len(blend))
            counts = [each + (place < rest) for place in range(len(blend))]
            if each > 0:
                made.append(tuple(recipe.with_total_trees(n) for recipe, n in zip(blend, counts, strict=True)))
        return tuple(made)


@dataclass(frozen=True)
class PathRules:
    """Every number that determines the path.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from skinnytrees.path.rules import DEFAULT_RULES, SwapRules
    >>> replace(DEFAULT_RULES, swaps=SwapRules(gain=0.99)).swaps.gain
    0.99
    >>> DEFAULT_RULES.for_rows(50_000).screen.batch_size
    256
    """

    training: TrainingRules = TrainingRules()
    sizes: SizeRules = SizeRules()
    prices: PriceRules = PriceRules()
    screening: ScreeningRules = ScreeningRules()
    importance: ImportanceRules = ImportanceRules()
    swaps: SwapRules = SwapRules()
    pruning: PruningRules = PruningRules()
    elimination: EliminationRules = EliminationRules()
    final: FinalRules = FinalRules()
    evidence: EvidenceRules = EvidenceRules()
    # The first is taken, unless held-out rows say that another's first ensemble is better by this many standard errors. That
    # ensemble reads all columns and says less about few of them, so the evidence has to be strong. If the first style's ensemble
    # is no better than a constant (``pruning.plateau``), the best is taken.
    styles: tuple[Style, ...] = (RANKS_AND_AXES, VALUES_AND_PLANES)
    style_noise: float = 2.0
    # The style where columns are screened before they are pruned.
    screened_style: Style = FOLDED_RANKS_AND_AXES

    def in_style(self, style: Style) -> "PathRules":
        """The rules for this style alone."""
        final = self.final
        own: dict[str, Any] = {"start": style.start, "variance_floor": style.variance_floor}
        return replace(
            self,
            styles=(style,),
            screened_style=style,
            pruning=replace(
                self.pruning,
                start=replace(self.pruning.start, **own),
                stage=replace(self.pruning.stage, variance_floor=style.variance_floor),
            ),
            final=replace(
                final,
                small=replace(final.small, **own),
                large_on_few_rows=replace(final.large_on_few_rows, **own),
                large=replace(final.large, **own),
            ),
        )

    def in_phases_for(self, n_rows: int) -> "PathRules":
        """The rules with pruning where there would be pruning with this many rows, whatever the rows at hand."""
        prune_from = self.for_rows(n_rows).prune_from
        needs_rows = 0.0 if prune_from else math.inf
        pruning = replace(self.pruning, needs_rows=needs_rows, starts_at=prune_from, rows_per_group=math.inf)
        return replace(self, pruning=pruning)

    def for_rows(self, n_rows: int, **users_choices: Any) -> PathRecipes:
        """The recipes for this many training rows; ``users_choices`` are fields of the final ensembles' recipes.

        Among them, ``n_trees`` is the number of trees of the final model, whatever the number of copies.
        """
        n_trees = users_choices.pop("n_trees", None)
        training, screening, pruning, final = self.training, self.screening, self.pruning, self.final
        batch_size = users_choices.get("batch_size") or training.batch_size_for(n_rows)

        def fitted(recipe: Recipe, **changes: Any) -> Recipe:
            n_epochs = training.epochs_for(recipe.n_epochs, n_rows)
            return replace(
                recipe, **{"n_epochs": n_epochs, "batch_size": max(batch_size, recipe.batch_size), **changes}
            )

        prunes = n_rows >= pruning.needs_rows
        screened = {"l2": screening.ridge_before_pruning(n_rows)} if prunes else {}
        longer = {} if prunes else {"n_epochs": screening.stage_epochs_without_pruning}
        large = final.large if n_rows >= final.few_rows_below else final.large_on_few_rows
        return PathRecipes(
            prune_from=max(pruning.starts_at, int(n_rows // pruning.rows_per_group)) if prunes else 0,
            screen=fitted(screening.start, **screened),
            screen_stage=fitted(screening.stage, **screened, **longer),
            prune=fitted(pruning.start, l2=pruning.ridge_for(pruning.start.l2, n_rows)),
            prune_stage=fitted(pruning.stage, l2=pruning.ridge_for(pruning.stage.l2, n_rows)),
            averaged=replace(fitted(final.averaged), **users_choices),
            small=replace(fitted(final.small), **users_choices),
            grown=replace(fitted(final.grown), **{**users_choices, "n_epochs": final.grown.n_epochs}),
            large=fitted(large),
            boosted=replace(fitted(final.boosted), **{**users_choices, "n_epochs": final.boosted.n_epochs}),
            users_choices=tuple(users_choices.items()),
            n_trees=n_trees,
        )


DEFAULT_RULES = PathRules()


def rule_names(rules: Any = DEFAULT_RULES, prefix: str = "") -> Iterator[str]:
    """Dotted names of all rules, such as ``swaps.gain`` or ``pruning.start.n_trees``."""
    for field in fields(rules):
        value, name = getattr(rules, field.name), prefix + field.name
        if is_dataclass(value) and fields(value):
            yield from rule_names(value, name + ".")
        else:
            yield name


def replace_rule(rules: PathRules, name: str, value: Any) -> PathRules:
    """The rules with another value for one of them, or for a whole section or recipe.

    Examples
    --------
    >>> from skinnytrees.path.rules import DEFAULT_RULES, replace_rule
    >>> replace_rule(DEFAULT_RULES, "pruning.start.n_trees", 25).pruning.start.n_trees
    25
    >>> replace_rule(DEFAULT_RULES, "swap.gain", 0.99)
    Traceback (most recent call last):
    ...
    ValueError: There is no rule 'swap.gain'. The nearest names are swaps.gain, swaps.rounds, ...
    """
    known = list(rule_names(rules))
    if not any(f"{one}.".startswith(f"{name}.") for one in known):
        nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.0)
        raise ValueError(f"There is no rule {name!r}. The nearest names are {', '.join(nearest)}.")
    old = functools.reduce(getattr, name.split("."), rules)
    if isinstance(old, Real) and not isinstance(value, Real):
        raise ValueError(f"The rule {name} is a number, but {value!r} was given. Use a number such as {old!r}.")
    return _replaced(rules, name.split("."), value)


def _replaced(rules: Any, names: list[str], value: Any) -> Any:
    first, *rest = names
    return replace(rules, **{first: _replaced(getattr(rules, first), rest, value) if rest else value})
