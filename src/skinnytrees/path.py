"""The dense-to-sparse path: one run from all features down to one, in phases, and the choice of a size.

This is the budgeted form of the paper's problem (1): the support's size is scheduled instead of hoped for.

- *Screening* trains a small ensemble by plain gradient steps and keeps the groups of largest norm; it is cheap even for
  100,000 columns.
- *Pruning* takes over when few groups are left and there are rows enough: from a larger ensemble, those groups go whose
  removal costs least (``elimination.py``). Removal cost does not depend on a column's scale.
- *Swaps*, where rows are too few for pruning, exchange the weakest groups inside for the strongest pulls from outside.

Arrays in, arrays out; tables and estimators are not known here.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.activations import Activation
from skinnytrees.elimination import eliminate
from skinnytrees.exceptions import DivergenceError
from skinnytrees.kernels.state import (
    Data,
    Functions,
    Trees,
    select_runs,
    start_trees,
    view_trees,
)
from skinnytrees.losses import Loss, evaluate_loss
from skinnytrees.optimizers import Adam, Constant, FixedSupportSGD, OneCycle, Optimizer, RateSchedule
from skinnytrees.runs import split_gradients, transposed_product
from skinnytrees.table_views import PickedRows
from skinnytrees.threads import side_by_side
from skinnytrees.training import TrainingSettings, evaluate, refuse_divergence, run_epochs

# Fewer training rows than this cannot tell a large ensemble's removal costs from noise: screening goes all the way.
PRUNING_NEEDS_ROWS = 400
# Below this, the mean of small final ensembles stands beside the large ones, and held-out rows choose; from here on, large
# ones have deeper trees and take longer steps.
LARGE_IS_SAFE_FROM_ROWS = 1000
# Up to so many columns a large ensemble takes full steps and little ridge, and up to so many it has all its trees.
_FULL_STEPS_UP_TO = 16
_ALL_TREES_UP_TO = 100
_FEWEST_TREES = 10
# Pruning starts at this many groups, or at more where there are that many rows for each.
PRUNING_STARTS_AT = 100
ROWS_A_PRUNED_GROUP = 30
# From here on down every size is visited.
EVERY_SIZE_BELOW = 16
_RATIO = 0.75
# Swaps are tried where there are at most this many groups a row; with more, the training loss says nothing.
_SWAP_SHARE = 0.2
_SWAP_ROUNDS = 12
# A swap must bring the training loss down to this share of what it was: less may be noise.
_SWAP_GAIN = 0.95
# Sparse data of more cells than this stays sparse: dense, it would take 200 MB.
_MOST_DENSE_CELLS = 50_000_000
# A size counts as no worse than the best when its excess loss, paired over rows, is within this many standard errors; and up
# to so many when it ranks the held-out rows at least as well.
NOISE = 1.0
DOUBT = 2.0
# The loss of an ensemble that overflows; its square is still a number.
_HOPELESS = 1e100


@dataclass(frozen=True)
class Recipe:
    """How an ensemble is made and trained at a fixed support; ``n_copies`` of them are averaged."""

    n_trees: int
    depth: int
    learning_rate: float
    l2: float
    n_epochs: int
    batch_size: int
    optimizer: Optimizer
    schedule: RateSchedule
    n_copies: int = 1

    def for_columns(self, n_columns: int) -> "Recipe":
        """Smaller steps and more ridge where there are many columns: each step moves w.x by as much more."""
        many = _times_many(n_columns)
        return replace(self, learning_rate=self.learning_rate / many**0.5, l2=self.l2 * many**0.5)

    def after_losing(self, share: float) -> "Recipe":
        """Fewer epochs where less than the usual share of the groups went."""
        n_epochs = round(self.n_epochs * min(1.0, share / (1 - _RATIO)) ** 0.5)
        return replace(self, n_epochs=max(min(2, self.n_epochs), n_epochs))


# Recipes whose ensembles are averaged.
Blend = tuple[Recipe, ...]


@dataclass(frozen=True)
class PathRules:
    """Everything the path does that depends on the size of the data."""

    screen: Recipe
    screen_stage: Recipe
    prune: Recipe
    prune_stage: Recipe
    prune_from: int
    grown: Recipe
    averaged: Recipe
    chosen: dict[str, Any]

    def final(self, n_rows: int, n_columns: int) -> tuple[Blend, ...]:
        """Final ensembles to try: large ones where rows allow it, averaged small ones where they do not."""
        if n_columns > n_rows:
            return ((self.averaged,),)
        large = self.large(n_columns)
        return large if n_rows >= LARGE_IS_SAFE_FROM_ROWS else ((self.averaged,), *large)

    def large(self, n_columns: int) -> tuple[Blend, ...]:
        """Large ensembles: free to bend, held back, and the mean of both. Which is best depends on the noise in the data."""
        many, share = _times_many(n_columns), min(1.0, _ALL_TREES_UP_TO / n_columns)
        grown = replace(self.grown, n_trees=max(_FEWEST_TREES, round(self.grown.n_trees * share)))
        free = _override(replace(grown, learning_rate=max(0.01, grown.learning_rate / many)), self.chosen)
        calm = _override(replace(grown, learning_rate=0.01, l2=min(10.0, many)), self.chosen)
        return ((free, calm), (free,), (calm,)) if free != calm else ((free,),)


def path_rules(n_rows: int, **chosen: Any) -> PathRules:
    """The rules that hold for data of this size; ``chosen`` overrides fields of the final ensemble's recipe.

    Beyond about 5,000 rows an epoch has steps enough, so the number of epochs falls as 1 / rows.
    """
    many = n_rows >= PRUNING_NEEDS_ROWS
    batch_size = chosen.get("batch_size") or (16 if n_rows <= 1000 else 64 if n_rows <= 20_000 else 256)

    def epochs(at_most: int) -> int:
        return max(2, round(at_most * min(1.0, 5000 / n_rows)))

    # Few rows need more shrinkage: the ridge of a pruned ensemble goes as 1 / rows between these limits.
    ridge = min(1.0, max(0.3, 300 / n_rows))
    adam: dict[str, Any] = {"batch_size": max(batch_size, 32), "optimizer": Adam(), "schedule": OneCycle()}
    sgd: dict[str, Any] = {"batch_size": batch_size, "optimizer": FixedSupportSGD(), "schedule": Constant()}
    # A rate that falls in the end leaves no ensemble between two solutions.
    falling: dict[str, Any] = {**sgd, "schedule": OneCycle(warm_up=0.1, start=0.3, end=0.05)}
    screen = Recipe(20, 2, 0.3, 0.1, epochs(10), **sgd)
    screen_stage = Recipe(20, 2, 0.3, 0.1, epochs(4) if many else 8, **falling)
    prune = Recipe(50, 4, 0.03, ridge, epochs(15), **adam)
    prune_stage = Recipe(50, 4, 0.01, ridge, epochs(5), **{**adam, "schedule": OneCycle(warm_up=0.1)})
    size_and_rate = (30, 5, 0.08) if n_rows >= LARGE_IS_SAFE_FROM_ROWS else (50, 4, 0.04)
    grown = Recipe(*size_and_rate, 0.1, epochs(30), **adam, n_copies=2)
    averaged = _override(Recipe(20, 2, 0.6, 1.0, epochs(40), **falling, n_copies=4), chosen)
    prune_from = max(PRUNING_STARTS_AT, n_rows // ROWS_A_PRUNED_GROUP) if many else 0
    return PathRules(screen, screen_stage, prune, prune_stage, prune_from, grown, averaged, chosen)


def _times_many(n_columns: int) -> float:
    return max(1.0, n_columns / _FULL_STEPS_UP_TO)


def _override(recipe: Recipe, chosen: dict[str, Any]) -> Recipe:
    return Recipe(**{**vars(recipe), **{name: value for name, value in chosen.items() if value is not None}})


class Groups(NamedTuple):
    """Groups of design columns and what they cost.

    Group g is made of the columns ``offsets[g]`` to ``offsets[g + 1]``, costs ``price[g]`` and, where ``fixed[g]``, is
    never removed.
    """

    offsets: NDArray[np.intp]
    price: NDArray[np.float64]
    fixed: NDArray[np.bool_]

    def columns(self, groups: NDArray[np.intp]) -> NDArray[np.intp]:
        """Design columns of some groups."""
        return select_runs(self.offsets, groups)[0]

    def take(self, groups: NDArray[np.intp]) -> "Groups":
        """Some of the groups."""
        return Groups(select_runs(self.offsets, groups)[1], self.price[groups], self.fixed[groups])


class PathPoint(NamedTuple):
    """The ensemble at one size of the path, on the design columns of its groups."""

    groups: NDArray[np.intp]
    trees: Trees
    train_loss: float


@dataclass(frozen=True)
class Trainer:
    """Loss and activation, and what can be done with them on so many threads."""

    loss: Loss
    activation: Activation
    n_threads: int = 1

    @property
    def functions(self) -> Functions:
        """Compiled loss and activation."""
        return TrainingSettings(self.loss, self.activation, 1, 1, 1.0, 0.0).functions(np.float32)

    def train(self, trees: Trees, data: Data, recipe: Recipe, rng: np.random.Generator) -> float:
        """Train in place at a fixed support and return the last epoch's mean loss.

        A rate that makes the loss overflow is cut until it does not: the path has to arrive on any data.
        """
        start = trees.flat.copy()
        rate = recipe.learning_rate
        while True:
            settings = TrainingSettings(
                self.loss, self.activation, recipe.n_epochs, recipe.batch_size, rate, recipe.l2,
                optimizer=recipe.optimizer, schedule=recipe.schedule,
            )  # fmt: skip
            try:
                *_, (loss, _, run) = run_epochs(trees, data, np.array([0, trees.W.shape[0]]), settings, rng)
                run.sync()
                refuse_divergence(loss, trees.flat, recipe.n_epochs, settings)
                return loss
            except DivergenceError:
                if rate < 1e-6 * recipe.learning_rate:
                    raise
                trees.flat[:] = start
                rate /= 4

    def start(self, data: Data, n_outputs: int, recipe: Recipe, rng: np.random.Generator) -> tuple[Trees, float]:
        """A new ensemble, trained; copies are averaged into one."""
        return self.start_each([data], n_outputs, [recipe], rng)[0]

    def start_each(
        self, tables: Sequence[Data], n_outputs: int, recipes: Sequence[Recipe], rng: np.random.Generator
    ) -> list[tuple[Trees, float]]:
        """A new ensemble for each table by its recipe; they and their copies are trained side by side."""

        def one_copy(data: Data, recipe: Recipe, rng: np.random.Generator) -> tuple[Trees, float]:
            trees = start_trees(data.X.shape[1], recipe.n_trees, recipe.depth, n_outputs, rng)
            return trees, self.train(trees, data, recipe, rng)

        tasks = [
            functools.partial(one_copy, data, recipe, own_rng)
            for data, recipe in zip(tables, recipes, strict=True)
            for own_rng in fork_generator(rng, recipe.n_copies)
        ]
        copies = iter(side_by_side(tasks, self.n_threads))
        results = []
        for recipe in recipes:
            trees, losses = zip(*itertools.islice(copies, recipe.n_copies), strict=True)
            results.append((average(list(trees)), float(np.mean(losses))))
        return results

    def start_blend(self, data: Data, n_outputs: int, blend: Blend, rng: np.random.Generator) -> Trees:
        """The mean of new ensembles by these recipes."""
        return average([trees for trees, _ in self.start_each([data] * len(blend), n_outputs, blend, rng)])

    def ranking(self, trees: Trees, data: Data) -> float:
        """How well the ensemble ranks rows; not a number where the loss knows no ranking."""
        return self.loss.ranking(data.Y, evaluate(trees, data.X, self.functions), data.weight)

    def row_losses(self, trees: Trees, data: Data) -> NDArray[np.float64]:
        """Loss of every row."""
        F, functions = evaluate(trees, data.X, self.functions), self.functions
        losses = evaluate_loss(functions.loss, functions.loss_parameter, F, data.Y)[0].astype(np.float64)
        self.loss.raise_error()
        return np.nan_to_num(losses, nan=_HOPELESS, posinf=_HOPELESS)


def screen(
    data: Data, groups: Groups, n_outputs: int, budgets: NDArray[np.float64], trainer: Trainer, rules: PathRules,
    rng: np.random.Generator,
) -> Iterator[PathPoint]:  # fmt: skip
    """Shrink by norm from all groups, a point for each of the falling ``budgets``, until pruning can take over."""
    everything = data
    alive = np.arange(len(groups.price))
    trees: Trees | None = None
    for budget in budgets:
        here = groups.take(alive)
        kept = np.arange(len(alive)) if trees is None else keep_worthiest(group_norms(trees.W, here), here, budget)
        if len(kept) <= rules.prune_from:
            return
        data = data._replace(X=take_columns(data.X, here.columns(kept)))
        alive = alive[kept]
        if trees is None:
            trees, loss = trainer.start(data, n_outputs, rules.screen, rng)
        else:
            trees = trees.select(here.columns(kept))
            loss = trainer.train(trees, data, rules.screen_stage, rng)
        point = PathPoint(alive, trees, loss)
        if rules.prune_from == 0 and len(alive) <= len(data.Y) * _SWAP_SHARE:
            point = swap(point, everything, groups, trainer, rules, rng)
            alive, trees, loss = point
            data = data._replace(X=take_columns(everything.X, groups.columns(alive)))
        yield PathPoint(alive, trees.copy(), loss)


def swap(
    point: PathPoint, data: Data, groups: Groups, trainer: Trainer, rules: PathRules, rng: np.random.Generator
) -> PathPoint:
    """Exchange the weakest groups inside for the strongest pulls from outside while that lowers the training loss.

    Shrinking by norm makes early mistakes on few rows; this repairs them. Half as many are exchanged after a failure.
    """

    def rows_of(point: PathPoint) -> Data:
        return data._replace(X=take_columns(data.X, groups.columns(point.groups)))

    def measured(point: PathPoint) -> PathPoint:
        return point._replace(
            train_loss=float(np.average(trainer.row_losses(point.trees, rows_of(point)), weights=data.weight))
        )

    def pull_on(point: PathPoint) -> NDArray[np.float64]:
        return group_norms(
            transposed_product(data.X, split_gradients(point.trees, rows_of(point), trainer.functions)), groups
        )

    n_exchanged = max(1, len(point.groups) // 4)
    point = measured(point)
    pull = pull_on(point)
    for _ in range(_SWAP_ROUNDS):
        changed = exchange(point, pull, groups, n_exchanged)
        if changed is None:
            break
        trainer.train(changed.trees, rows_of(changed), rules.screen_stage, rng)
        changed = measured(changed)
        if changed.train_loss < _SWAP_GAIN * point.train_loss:
            point, pull = changed, pull_on(changed)
        else:
            n_exchanged //= 2
    return point


def exchange(point: PathPoint, pull: NDArray[np.float64], groups: Groups, n_exchanged: int) -> PathPoint | None:
    """Groups of least norm out, as many of largest pull in, with zero weights; None where that cannot be paid for.

    A group outside pulls with the gradient of its zero weights, x' D.
    """
    here = groups.take(point.groups)
    movable = np.flatnonzero(~here.fixed)
    n_exchanged = min(n_exchanged, len(movable), len(groups.price) - len(point.groups))
    if n_exchanged == 0:
        return None
    leaving = movable[np.argsort(group_norms(point.trees.W, here)[movable])[:n_exchanged]]
    outside = np.delete(pull, point.groups)
    coming = np.delete(np.arange(len(pull)), point.groups)[np.argpartition(-outside, n_exchanged - 1)[:n_exchanged]]
    together = np.sort(np.append(np.delete(point.groups, leaving), coming))
    if groups.price[together].sum() > here.price.sum() * (1 + 1e-12):
        return None
    columns = groups.columns(together)
    W = np.zeros((len(columns), point.trees.W.shape[1]), dtype=point.trees.W.dtype)
    _, new, old = np.intersect1d(columns, groups.columns(point.groups), return_indices=True)
    W[new] = point.trees.W[old]
    flat = np.concatenate([W.ravel(), point.trees.b, point.trees.O.ravel()])
    return PathPoint(together, view_trees(flat, len(columns), W.shape[1], point.trees.O.shape), point.train_loss)


def prune(
    start: PathPoint, data: Data, groups: Groups, budgets: NDArray[np.float64], fill_in: bool, trainer: Trainer,
    rules: PathRules, rng: np.random.Generator,
) -> Iterator[PathPoint]:  # fmt: skip
    """Shrink by removal cost from a trained point, a point for each of the falling ``budgets``."""
    alive, trees = start.groups, start.trees.copy()
    data = data._replace(X=take_columns(data.X, groups.columns(alive)))
    costs = None
    for budget in budgets:
        here = groups.take(alive)
        kept, costs = eliminate(
            trees, data, here.offsets, here.price, here.fixed, budget, trainer.functions, fill_in, costs
        )
        trees = trees.select(here.columns(kept))
        data = data._replace(X=take_columns(data.X, here.columns(kept)))
        recipe = rules.prune_stage.for_columns(trees.W.shape[0]).after_losing(1 - len(kept) / len(alive))
        alive = alive[kept]
        loss = trainer.train(trees, data, recipe, rng)
        yield PathPoint(alive, trees.copy(), loss)


def falling_budgets(groups: Groups, wanted: float) -> NDArray[np.float64]:
    """Total prices to visit: geometric, then every size, the wanted budget among them, down to the least possible."""
    total = groups.price.sum()
    least = max(groups.price[groups.fixed].sum(), groups.price.min())
    unit = total / len(groups.price)
    fine = unit * np.arange(1, EVERY_SIZE_BELOW + 1)
    n_coarse = max(0, int(np.log(fine[-1] / total) / np.log(_RATIO)))
    coarse = total * _RATIO ** np.arange(n_coarse + 1)
    if np.all(groups.price == np.round(groups.price)):
        coarse, fine = np.floor(coarse), np.floor(fine)
    grid = np.concatenate([coarse, fine, [total, least, wanted]])
    return np.unique(grid[(grid >= least) & (grid <= total)])[::-1]


def keep_worthiest(worth: NDArray[np.float64], groups: Groups, budget: float) -> NDArray[np.intp]:
    """Groups to keep within the budget: fixed ones first, then by worth for the price while they fit; at least one."""
    gain = worth - worth.min()
    order = np.lexsort((groups.price, -gain / groups.price, ~groups.fixed))
    if np.all(groups.price == groups.price[0]):
        n_kept = int(budget / groups.price[0] + 1e-9)
        return np.sort(order[: max(n_kept, 1)])
    kept, spent = [], 0.0
    for g in order:
        if spent + groups.price[g] <= budget * (1 + 1e-12):
            kept.append(g)
            spent += groups.price[g]
    return np.sort(np.array(kept or [int(np.argmin(groups.price))], dtype=np.intp))


def keep_by_norm(point: PathPoint, groups: Groups, budget: float) -> NDArray[np.intp]:
    """Positions of the point's groups of largest norm within the budget."""
    here = groups.take(point.groups)
    return keep_worthiest(group_norms(point.trees.W, here), here, budget)


def choose_size(
    row_losses: NDArray[np.float64], weight: NDArray[np.float64], rule: str, ranking: Callable[[int], float]
) -> int:
    """Which of the sizes, ordered from large to small, to take; ``ranking`` tells how well one of them ranks held-out rows.

    Of thirty sizes, some small one often has the lowest loss by chance, where large ensembles are too sure of themselves and
    yet rank rows better. So the rule "best" asks for a second opinion where a larger size is worse, but not clearly so.
    """
    chosen = choose_point(row_losses, weight, rule, NOISE)
    if rule != "best":
        return chosen
    doubtful = np.flatnonzero(_no_worse(row_losses, weight, DOUBT)[:chosen]).tolist()
    if not doubtful:
        return chosen
    best = int(np.argmin(row_losses @ weight))
    standard = max(ranking(chosen), ranking(best))
    return next((size for size in doubtful if ranking(size) >= standard), chosen)


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
    share = weight / weight.sum()
    noise = np.sqrt(((excess - (excess @ share)[:, None]) ** 2) @ share**2)
    if its_own:
        noise = np.maximum(noise, np.sqrt((row_losses[best] - mean[best]) ** 2 @ share**2))
    return np.asarray(excess @ share <= tolerance * noise)


def fork_generator(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """Generators for tasks that run side by side, so that no result depends on which comes first."""
    return [np.random.default_rng(seed) for seed in rng.integers(2**63, size=n)]


def average(copies: list[Trees]) -> Trees:
    """One ensemble whose output is the mean of the copies' outputs."""
    if len(copies) == 1:
        return copies[0]
    n, n_columns = len(copies), copies[0].W.shape[0]
    n_trees, n_outputs = copies[0].n_trees, copies[0].O.shape[0]

    def side_by_side(parts: list[NDArray[Any]], rows: int) -> NDArray[Any]:
        return np.concatenate([part.reshape(rows, -1, n_trees) for part in parts], axis=2).reshape(rows, -1)

    W = side_by_side([trees.W for trees in copies], n_columns)
    b = side_by_side([trees.b for trees in copies], 1)
    leaves = side_by_side([trees.O / n for trees in copies], n_outputs)
    flat = np.concatenate([W.ravel(), b.ravel(), leaves.ravel()])
    return view_trees(flat, n_columns, W.shape[1], leaves.shape)


def take_columns(X: Any, columns: NDArray[np.intp]) -> Any:
    """Some columns, of a view as a copy where they are few.

    Sparse data becomes dense when its columns are no more than its rows and memory allows.
    """
    X = X if len(columns) == X.shape[1] else X[:, columns]
    if not sparse.issparse(X):
        return X.copied_if_small() if isinstance(X, PickedRows) else np.ascontiguousarray(X)
    fits = X.shape[1] <= X.shape[0] and X.shape[0] * X.shape[1] <= _MOST_DENSE_CELLS
    return np.ascontiguousarray(X.toarray()) if fits else X.tocsr()


def group_norms(W: NDArray[Any], groups: Groups) -> NDArray[np.float64]:
    """Root mean square over its rows of each group's norm: a group of many columns has no head start."""
    squares = np.einsum("kj,kj->k", W, W).astype(np.float64)
    return np.sqrt(np.add.reduceat(squares, groups.offsets[:-1]) / np.diff(groups.offsets))
