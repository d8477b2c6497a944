"""What each rule of the default path is worth: one rule is changed at a time, and held-out rows judge.

``python -m benchmarks.rules`` fits the default and every alternative on data that anybody has (scikit-learn's own
and generated) and prints the table of ``docs/rules.md``; ``--rules swaps forks`` or ``--sets wine digits`` takes some only.
``--sets "lung, learning rows"`` takes one of the paper's sets without its test rows, if SKINNYTREES_DATA names their folder.
Fits are appended to ``benchmarks/results/rules.csv``, and those already there are not repeated, so an interrupted run goes on
where it stopped. After a change of the package, remove the file.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import groupby
from math import inf
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy import sparse
from sklearn import datasets
from sklearn.metrics import log_loss, mean_squared_error, r2_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks.result_files import append_row, read_rows
from benchmarks.ten_sets import SETS as PAPER_NAMES
from skinnytrees import (
    SkinnyTreesClassifier,
    SkinnyTreesRegressor,
    elimination,
    encoding,
    estimators,
    fitting,
    path,
)
from skinnytrees.datasets import load
from skinnytrees.optimizers import Constant

RESULTS = Path("benchmarks/results/rules.csv")
N_HELD_OUT = 2000
VALIDATION_FRACTION = 0.2
# Few rows are noisy and cheap: sets of fewer than this are made or split three times for each time of the others.
FEW_ROWS = 500
# Losses are relative to the best constant. A set that is solved to within this much should not decide between rules.
FLOOR = 0.02

# --- data ---------------------------------------------------------------------------------------------------------------


def bundled(n_rows: int, rng: np.random.Generator, name: str, n_probes: int = 0) -> tuple[Any, Any]:
    """One of scikit-learn's own sets; probes are shuffled copies of its columns, so they look real and say nothing."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    probes = [rng.permutation(X[:, k]) for k in rng.integers(X.shape[1], size=n_probes)]
    order = rng.permutation(len(y))
    return np.column_stack([X, *probes])[order], y[order]


def hypercube(n_rows: int, rng: np.random.Generator, **design: Any) -> tuple[Any, Any]:
    """Clusters at the corners of a cube, the generator behind madelon."""
    return datasets.make_classification(n_rows, random_state=int(rng.integers(2**31)), **design)


def friedman(n_rows: int, rng: np.random.Generator, design: str, noise: float, n_noise_columns: int) -> tuple[Any, Any]:
    X, y = getattr(datasets, f"make_{design}")(n_rows, noise=noise, random_state=int(rng.integers(2**31)))
    return np.column_stack([X, rng.uniform(size=(n_rows, n_noise_columns))]), y


def interactions(n_rows: int, rng: np.random.Generator, n_columns: int, n_pairs: int, flip: float) -> tuple[Any, Any]:
    """No column says anything alone: the class is the sign of a sum of products."""
    X = rng.standard_normal((n_rows, n_columns))
    products = X[:, :n_pairs] * X[:, n_pairs : 2 * n_pairs]
    return X, ((products.sum(axis=1) > 0) ^ (rng.random(n_rows) < flip)).astype(int)


def product_surface(n_rows: int, rng: np.random.Generator, n_columns: int) -> tuple[Any, Any]:
    X = rng.standard_normal((n_rows, n_columns))
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + np.abs(X[:, 3]) + 0.5 * rng.standard_normal(n_rows)


def blocks(n_rows: int, rng: np.random.Generator, n_blocks: int, size: int, task: str) -> tuple[Any, Any]:
    """Blocks of columns that are noisy copies of one hidden factor; four factors matter, the last two together."""
    factors = rng.standard_normal((n_rows, n_blocks))
    X = np.repeat(factors, size, axis=1) + 0.4 * rng.standard_normal((n_rows, n_blocks * size))
    signal = factors[:, 0] - factors[:, 1] + factors[:, 2] * factors[:, 3]
    noisy = signal + 0.5 * rng.standard_normal(n_rows)
    return X, noisy if task == "regression" else (noisy > 0).astype(int)


def linear(
    n_rows: int, rng: np.random.Generator, n_columns: int, n_signal: int, noise: float, task: str
) -> tuple[Any, Any]:
    """Neighbouring columns correlate at 0.5; the signal's columns are spread among them with alternating signs."""
    X = rng.standard_normal((n_rows, n_columns))
    for k in range(1, n_columns):
        X[:, k] = 0.5 * X[:, k - 1] + np.sqrt(0.75) * X[:, k]
    signs = np.where(np.arange(n_signal) % 2, -1.0, 1.0)
    score = X[:, np.linspace(0, n_columns - 1, n_signal).astype(int)] @ signs
    noisy = score / score.std() + noise * rng.standard_normal(n_rows)
    return X, noisy if task == "regression" else (noisy > 0).astype(int)


def genes(n_rows: int, rng: np.random.Generator, n_columns: int, n_classes: int, shift: float) -> tuple[Any, Any]:
    """Modules of twenty genes with a common factor; every class shifts two modules of its own."""
    y = np.arange(n_rows) % n_classes
    factors = rng.standard_normal((n_rows, n_columns // 20))
    for k in range(n_classes):
        factors[y == k, 2 * k : 2 * k + 2] += shift
    return np.repeat(factors, 20, axis=1) + 1.5 * rng.standard_normal((n_rows, n_columns // 20 * 20)), y


def word_counts(n_rows: int, rng: np.random.Generator, n_columns: int, n_classes: int) -> tuple[Any, Any]:
    """Sparse counts; a class uses fifteen of the words more often."""
    y = np.arange(n_rows) % n_classes
    rates = np.tile(0.1 * rng.lognormal(size=n_columns), (n_classes, 1))
    for k in range(n_classes):
        rates[k, rng.choice(n_columns, 15, replace=False)] *= 4
    return sparse.csr_matrix(rng.poisson(rates[y]).astype(float)), y


def categories(n_rows: int, rng: np.random.Generator, task: str) -> tuple[Any, Any]:
    """Three of eight categories and three of twelve numbers matter; the effect of one number depends on a category."""
    import pandas as pd

    levels = rng.integers(0, [3, 5, 12, 3, 5, 12, 20, 30], size=(n_rows, 8))
    numbers = rng.standard_normal((n_rows, 12))
    effect = rng.standard_normal(12)
    signal = effect[levels[:, 2]] + (levels[:, 0] - 1) * numbers[:, 0] + numbers[:, 1] + (levels[:, 1] == 2) * 2
    noisy = signal - np.abs(numbers[:, 2]) + 0.5 * rng.standard_normal(n_rows)
    frame = pd.DataFrame(numbers, columns=[f"number {k}" for k in range(12)])
    for k in range(8):
        frame[f"category {k}"] = pd.Categorical([f"level {level}" for level in levels[:, k]])
    return frame, noisy if task == "regression" else (noisy > np.median(noisy)).astype(int)


def skewed_steps(n_rows: int, rng: np.random.Generator, n_columns: int, task: str) -> tuple[Any, Any]:
    """Long-tailed columns and a target that jumps at thresholds, as bills and usage have them; every twelfth value is gone."""
    X = rng.lognormal(sigma=1.0, size=(n_rows, n_columns))
    high = X[:, :6] > 1.5
    score = 2.0 * (high[:, 0] & high[:, 1]) + 1.5 * (high[:, 2] & ~high[:, 3]) + high[:, 4] - 1.0 * high[:, 5] - 1.0
    X[rng.random(X.shape) < 1 / 12] = np.nan
    if task == "regression":
        return X, score + 0.5 * rng.standard_normal(n_rows)
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-2 * score))).astype(int)


def rare(
    n_rows: int, rng: np.random.Generator, make: Callable[..., tuple[Any, Any]], share: float, **design: Any
) -> tuple[Any, Any]:
    """Another set, thinned out until all but the first class together have this share of the rows."""
    X, y = make(6 * n_rows, rng, **design)
    others, first = np.flatnonzero(y > 0)[: round(share * n_rows)], np.flatnonzero(y == 0)
    rows = rng.permutation(np.concatenate([others, first[: n_rows - len(others)]]))
    return (X.iloc[rows] if hasattr(X, "iloc") else X[rows]), y[rows]


class DataSet(NamedTuple):
    """How to make the rows, how many of them to fit on (the rest judges), and the budget."""

    make: Callable[..., tuple[Any, Any]]
    n_fit: int
    budget: float | int

    def seeds(self, n_seeds: int, first: int) -> range:
        return range(first, first + n_seeds * (3 if self.n_fit < FEW_ROWS else 1))

    def split(self, seed: int) -> tuple[Any, Any, Any, Any]:
        X, y = self.make(self.n_fit + N_HELD_OUT, np.random.default_rng(seed))
        fit, judge = slice(0, self.n_fit), slice(self.n_fit, None)
        take = X.iloc.__getitem__ if hasattr(X, "iloc") else X.__getitem__
        return take(fit), y[fit], take(judge), y[judge]


SETS = {
    "wine": DataSet(partial(bundled, name="wine"), 120, 4),
    "breast_cancer": DataSet(partial(bundled, name="breast_cancer"), 400, 5),
    "breast_cancer + probes": DataSet(partial(bundled, name="breast_cancer", n_probes=120), 400, 10),
    "digits": DataSet(partial(bundled, name="digits"), 700, 16),
    "diabetes": DataSet(partial(bundled, name="diabetes"), 300, 4),
    "diabetes + probes": DataSet(partial(bundled, name="diabetes", n_probes=60), 300, 0.25),
    "three classes": DataSet(
        partial(hypercube, n_features=110, n_informative=8, n_redundant=12, n_classes=3), 550, 0.25
    ),
    "rare class": DataSet(partial(hypercube, n_features=20, n_informative=6, n_redundant=6, weights=[0.93]), 1400, 8),
    "cube corners": DataSet(
        partial(hypercube, n_features=60, n_informative=5, n_redundant=15, n_clusters_per_class=16, flip_y=0.02),
        1400,
        20,
    ),
    "products": DataSet(partial(interactions, n_columns=30, n_pairs=2, flip=0.03), 1300, 10),
    "products, few rows": DataSet(partial(interactions, n_columns=25, n_pairs=1, flip=0.03), 350, 5),
    "product surface": DataSet(partial(product_surface, n_columns=40), 650, 10),
    "friedman1": DataSet(partial(friedman, design="friedman1", noise=1.0, n_noise_columns=40), 350, 10),
    "friedman1, many rows": DataSet(partial(friedman, design="friedman1", noise=1.0, n_noise_columns=20), 1500, 10),
    "friedman2": DataSet(partial(friedman, design="friedman2", noise=125.0, n_noise_columns=21), 600, 5),
    "blocks": DataSet(partial(blocks, n_blocks=20, size=6, task="classification"), 600, 0.25),
    "blocks, regression": DataSet(partial(blocks, n_blocks=20, size=6, task="regression"), 350, 10),
    "many effects": DataSet(partial(linear, n_columns=120, n_signal=20, noise=0.5, task="classification"), 600, 0.25),
    "linear": DataSet(partial(linear, n_columns=300, n_signal=8, noise=0.5, task="regression"), 200, 10),
    "linear, wide": DataSet(partial(linear, n_columns=1500, n_signal=5, noise=0.3, task="regression"), 120, 10),
    "genes": DataSet(partial(genes, n_columns=2000, n_classes=2, shift=1.2), 100, 0.25),
    "genes, four classes": DataSet(partial(genes, n_columns=1000, n_classes=4, shift=2.0), 150, 20),
    "genes, weak": DataSet(partial(genes, n_columns=5000, n_classes=2, shift=0.8), 150, 0.25),
    "linear, wide, much allowed": DataSet(
        partial(linear, n_columns=1500, n_signal=5, noise=0.3, task="classification"), 150, 0.25
    ),
    "blocks, wide, much allowed": DataSet(partial(blocks, n_blocks=300, size=6, task="classification"), 200, 0.25),
    "genes, very few rows": DataSet(partial(genes, n_columns=5000, n_classes=2, shift=2.0), 60, 10),
    "word counts": DataSet(partial(word_counts, n_columns=800, n_classes=3), 550, 40),
    "categories": DataSet(partial(categories, task="classification"), 1300, 8),
    "categories, regression": DataSet(partial(categories, task="regression"), 450, 8),
    "blocks, many rows": DataSet(partial(blocks, n_blocks=50, size=6, task="classification"), 4500, 0.5),
    "many effects, many rows": DataSet(
        partial(linear, n_columns=250, n_signal=60, noise=0.5, task="regression"), 4000, 0.5
    ),
    "three classes, many rows": DataSet(
        partial(hypercube, n_features=200, n_informative=15, n_redundant=45, n_classes=3), 3000, 0.5
    ),
    "steps": DataSet(partial(skewed_steps, n_columns=12, task="classification"), 6000, 5),
    "steps, regression": DataSet(partial(skewed_steps, n_columns=20, task="regression"), 2000, 8),
    "rare steps": DataSet(partial(rare, make=skewed_steps, share=0.1, n_columns=20, task="classification"), 2500, 4),
    "rare by categories": DataSet(partial(rare, make=categories, share=0.15, task="classification"), 2000, 5),
    "rare in blocks": DataSet(
        partial(rare, make=blocks, share=0.1, n_blocks=10, size=6, task="classification"), 1500, 5
    ),
    "rare, many effects": DataSet(
        partial(rare, make=linear, share=0.1, n_columns=60, n_signal=20, noise=0.5, task="classification"), 1500, 12
    ),
    "rare products": DataSet(partial(rare, make=interactions, share=0.15, n_columns=30, n_pairs=4, flip=0.03), 3000, 6),
    "two rare classes": DataSet(
        partial(rare, make=hypercube, share=0.2, n_features=40, n_informative=10, n_redundant=10, n_classes=3), 2000, 6
    ),
    "rare corners": DataSet(
        partial(hypercube, n_features=40, n_informative=10, n_redundant=10, weights=[0.9], n_clusters_per_class=8),
        2500,
        7,
    ),
}


class LearningRows(NamedTuple):
    """One of the paper's sets without its test rows: for every seed another fifth of the rest judges."""

    name: str
    budget: float = 0.25

    def seeds(self, n_seeds: int, first: int) -> range:
        return range(first, first + 5 * n_seeds)

    def split(self, seed: int) -> tuple[Any, Any, Any, Any]:
        data = load(self.name)
        y = np.concatenate([data.y_train, data.y_val])
        is_sparse = sparse.issparse(data.X_train)
        X = (
            sparse.vstack([data.X_train, data.X_val], "csr")
            if is_sparse
            else np.concatenate([data.X_train, data.X_val])
        )
        folds = StratifiedKFold(5, shuffle=True, random_state=seed // 5).split(np.zeros(len(y)), y)
        fit, judge = list(folds)[seed % 5]
        return X[fit], y[fit], X[judge], y[judge]


ALL_SETS: dict[str, Any] = {**SETS, **{f"{name}, learning rows": LearningRows(name) for name in PAPER_NAMES}}

# --- rules and their alternatives -----------------------------------------------------------------------------------------


def constant(name: str, value: float, module: Any = path) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(module, name, value)


def recipe(*names: str, **changes: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Change fields of recipes; a function gives the new value from the old one."""

    def changed(old: path.Recipe) -> path.Recipe:
        return replace(
            old, **{field: new(getattr(old, field)) if callable(new) else new for field, new in changes.items()}
        )

    def rules(*args: Any, **chosen: Any) -> path.PathRules:
        found = path.path_rules(*args, **chosen)
        return replace(found, **{name: changed(getattr(found, name)) for name in names})

    return lambda: patch.object(fitting, "path_rules", rules)


def times(factor: float) -> Callable[[Any], Any]:
    """The old value times this; a count stays a count."""
    return lambda old: max(1, round(old * factor)) if isinstance(old, int) else old * factor


def finals(choose: Callable[..., tuple[path.Blend, ...]]) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: patch.object(path.PathRules, "final", choose)


@contextmanager
def _few_rows_are(n_rows: float) -> Iterator[None]:
    name = "LARGE_IS_SAFE_FROM_ROWS"
    with patch.object(path, name, n_rows), patch.object(fitting, name, n_rows):
        yield


def few_rows_are(n_rows: float) -> Callable[[], AbstractContextManager[Any]]:
    """Below how many rows the mean of small ensembles stands beside the large ones."""
    return partial(_few_rows_are, n_rows)


def large_finals(choose: Callable[..., tuple[path.Blend, ...]]) -> Callable[[], AbstractContextManager[Any]]:
    """Of the large ensembles (mean, free, calm), only some."""
    large = path.PathRules.large
    return lambda: patch.object(path.PathRules, "large", lambda rules, n_columns: choose(*large(rules, n_columns)))


def by_rows_alone(rules: path.PathRules, n_rows: int, n_columns: int) -> tuple[path.Blend, ...]:
    """One large ensemble whose rate is the same for any number of columns, and whose ridge depends on the rows alone."""
    if n_columns > n_rows:
        return ((rules.averaged,),)
    large = (replace(rules.grown, learning_rate=0.04, l2=min(1.0, max(0.1, 300 / n_rows))),)
    return (large,) if n_rows >= path.LARGE_IS_SAFE_FROM_ROWS else ((rules.averaged,), large)


def all_forks() -> AbstractContextManager[Any]:
    """Every fork gets final ensembles, and the best of those is taken."""

    def candidates(walk: fitting.Walk, folds: Any) -> list[fitting.Candidate]:
        return [walk._candidate(i, folds) for i in range(len(walk.forks))]

    return patch.object(fitting.Walk, "candidates", candidates)


def swaps_everywhere() -> AbstractContextManager[Any]:
    """Screening swaps also where pruning follows."""
    screen = path.screen

    def swapping(
        data: Any, groups: Any, n_outputs: int, budgets: Any, trainer: Any, rules: path.PathRules, rng: Any
    ) -> Any:
        for point in screen(data, groups, n_outputs, budgets, trainer, replace(rules, prune_from=0), rng):
            if len(point.groups) <= rules.prune_from:
                return
            yield point

    return patch.object(fitting, "screen", swapping)


def another_seed() -> AbstractContextManager[Any]:
    """The same rules and the same split, other random numbers: what chance alone does."""
    return patch.object(
        estimators,
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
    return size.n_rows < path.PRUNING_NEEDS_ROWS or size.n_columns > path.PRUNING_STARTS_AT


def where_it_averages(size: Size) -> bool:
    return size.n_rows < path.LARGE_IS_SAFE_FROM_ROWS or size.budget > size.n_rows


def where_pruning_starts_above(n_columns: int) -> Callable[[Size], bool]:
    return lambda size: size.n_rows >= path.PRUNING_NEEDS_ROWS and size.n_columns > n_columns


where_it_prunes = where_rows(least=path.PRUNING_NEEDS_ROWS)
where_it_swaps = where_rows(below=path.PRUNING_NEEDS_ROWS)


class Alternative(NamedTuple):
    """Another way to have one rule, and the data on which that can make a difference: elsewhere it is not fitted."""

    rule: str
    name: str
    change: Callable[[], AbstractContextManager[Any]]
    matters: Callable[[Size], bool] = anywhere


DEFAULT = Alternative("default", "", nullcontext)
# These begin where the walk from all columns to one has ended.
AFTER_THE_WALK = ("default", "size choice", "final", "large final", "averaged final")
_SCREEN, _PRUNE = ("screen", "screen_stage"), ("prune", "prune_stage")
_ALL = (*_SCREEN, *_PRUNE, "grown", "averaged")
ALTERNATIVES = [
    Alternative("chance", "other random numbers", another_seed),
    Alternative("size choice", "noise 0", constant("NOISE", 0.0)),
    Alternative("size choice", "noise 0.5", constant("NOISE", 0.5)),
    Alternative("size choice", "noise 2", constant("NOISE", 2.0)),
    Alternative("size choice", "always the budget", constant("NOISE", 1e9)),
    Alternative("size choice", "no second opinion", constant("DOUBT", 0.0)),
    Alternative("size choice", "second opinion up to 3", constant("DOUBT", 3.0)),
    Alternative("sizes", "ratio 0.6", constant("_RATIO", 0.6)),
    Alternative("sizes", "ratio 0.85", constant("_RATIO", 0.85)),
    Alternative("sizes", "every size below 8", constant("EVERY_SIZE_BELOW", 8)),
    Alternative("swaps", "none", constant("_SWAP_SHARE", 0.0), where_it_swaps),
    Alternative("swaps", "before pruning, too", swaps_everywhere, where_pruning_starts_above(100)),
    Alternative("swaps", "share 0.5", constant("_SWAP_SHARE", 0.5), where_it_swaps),
    Alternative("swaps", "gain 0.99", constant("_SWAP_GAIN", 0.99), where_it_swaps),
    Alternative("starts", "1", constant("N_STARTS", 1, fitting), where_it_swaps),
    Alternative("starts", "2", constant("N_STARTS", 2, fitting), where_it_swaps),
    Alternative("starts", "8", constant("N_STARTS", 8, fitting), where_it_swaps),
    Alternative("screening", "rate 0.1", recipe(*_SCREEN, learning_rate=0.1), where_it_screens),
    Alternative("screening", "rate 1.0", recipe(*_SCREEN, learning_rate=1.0), where_it_screens),
    Alternative("screening", "50 trees", recipe(*_SCREEN, n_trees=50), where_it_screens),
    Alternative("screening", "ridge 0.03", recipe(*_SCREEN, l2=0.03), where_it_screens),
    Alternative("screening", "ridge 0.3", recipe(*_SCREEN, l2=0.3), where_it_screens),
    Alternative("screening", "first epochs x 2", recipe("screen", n_epochs=times(2)), where_it_screens),
    Alternative("screening", "stage epochs x 2", recipe("screen_stage", n_epochs=times(2)), where_it_screens),
    Alternative("pruning rows", "200", constant("PRUNING_NEEDS_ROWS", 200), where_rows(200, 400)),
    Alternative("pruning rows", "800", constant("PRUNING_NEEDS_ROWS", 800), where_rows(400, 800)),
    Alternative("pruning rows", "never", constant("PRUNING_NEEDS_ROWS", inf), where_it_prunes),
    Alternative("pruning start", "50", constant("PRUNING_STARTS_AT", 50), where_pruning_starts_above(50)),
    Alternative("pruning start", "200", constant("PRUNING_STARTS_AT", 200), where_pruning_starts_above(100)),
    Alternative("pruning start", "100 at all sizes", constant("ROWS_A_PRUNED_GROUP", inf), where_rows(3000)),
    Alternative("forks", "fill in only", constant("FILL_IN", (True,), fitting), where_it_prunes),
    Alternative("forks", "plain only", constant("FILL_IN", (False,), fitting), where_it_prunes),
    Alternative("forks", "chosen after growing", all_forks, where_it_prunes),
    Alternative("fill-in ridge", "0.001", constant("_RIDGE", 0.001, elimination), where_it_prunes),
    Alternative("fill-in ridge", "0.1", constant("_RIDGE", 0.1, elimination), where_it_prunes),
    Alternative("cost rows", "500", constant("_MOST_COST_ROWS", 500, elimination), where_rows(500)),
    Alternative("cost rows", "2,000 at all sizes", constant("_COST_ROWS_TIMES_GROUPS", 10**9, elimination), where_rows(500)),
    Alternative("pruning", "25 trees", recipe(*_PRUNE, n_trees=25), where_it_prunes),
    Alternative("pruning", "depth 3", recipe(*_PRUNE, depth=3), where_it_prunes),
    Alternative(
        "pruning", "rate and ridge for any columns", lambda: patch.object(path.Recipe, "for_columns", lambda recipe, _: recipe),
        where_it_prunes,
    ),
    Alternative("pruning", "rate x 0.5", recipe(*_PRUNE, learning_rate=times(0.5)), where_it_prunes),
    Alternative("pruning", "rate x 2", recipe(*_PRUNE, learning_rate=times(2)), where_it_prunes),
    Alternative("pruning", "ridge x 0.3", recipe(*_PRUNE, l2=times(0.3)), where_it_prunes),
    Alternative("pruning", "ridge x 3", recipe(*_PRUNE, l2=times(3.0)), where_it_prunes),
    Alternative(
        "pruning", "as many epochs whatever goes", lambda: patch.object(path.Recipe, "after_losing", lambda recipe, _: recipe),
        where_it_prunes,
    ),
    Alternative("pruning", "first epochs x 1.33", recipe("prune", n_epochs=times(4 / 3)), where_it_prunes),
    Alternative("pruning", "stage epochs x 0.5", recipe("prune_stage", n_epochs=times(0.5)), where_it_prunes),
    Alternative("pruning", "stage epochs x 2", recipe("prune_stage", n_epochs=times(2)), where_it_prunes),
    Alternative("final", "large only", few_rows_are(0), where_rows(below=1000)),
    Alternative("final", "both from 1,000 rows on", few_rows_are(inf), where_rows(1000)),
    Alternative("final", "averaged only", finals(lambda rules, *_: ((rules.averaged,),))),
    Alternative(
        "final", "both where columns > rows", finals(lambda rules, _, n: ((rules.averaged,), *rules.large(n))),
        lambda size: size.budget > size.n_rows,
    ),
    Alternative("large final", "rate and ridge by rows alone", finals(by_rows_alone)),
    Alternative("large final", "free only", large_finals(lambda mean, free, calm: (free,))),
    Alternative("large final", "calm only", large_finals(lambda mean, free, calm: (calm,))),
    Alternative("large final", "mean only", large_finals(lambda mean, free, calm: (mean,))),
    Alternative("large final", "no mean", large_finals(lambda mean, free, calm: (free, calm))),
    Alternative("large final", "as many trees for any columns", constant("_ALL_TREES_UP_TO", inf)),
    Alternative("large final", "1 of 100 trees", recipe("grown", n_trees=100, n_copies=1)),
    Alternative("large final", "2 of 100 trees", recipe("grown", n_trees=100)),
    Alternative("large final", "4 of 25 trees", recipe("grown", n_trees=25, n_copies=4)),
    Alternative(
        "large final", "as with fewer rows", recipe("grown", n_trees=50, depth=4, learning_rate=0.04), where_rows(1000)
    ),
    Alternative(
        "large final", "as with more rows", recipe("grown", n_trees=30, depth=5, learning_rate=0.08), where_rows(500, 1000)
    ),
    Alternative("large final", "one level less", recipe("grown", depth=lambda depth: depth - 1)),
    Alternative("large final", "one level more", recipe("grown", depth=lambda depth: depth + 1)),
    Alternative("large final", "rate x 0.5", recipe("grown", learning_rate=times(0.5))),
    Alternative("large final", "rate x 2", recipe("grown", learning_rate=times(2.0))),
    Alternative("large final", "epochs x 0.5", recipe("grown", n_epochs=times(0.5))),
    Alternative("large final", "epochs x 2", recipe("grown", n_epochs=times(2))),
    Alternative("averaged final", "1 copy", recipe("averaged", n_copies=1), where_it_averages),
    Alternative("averaged final", "10 copies", recipe("averaged", n_copies=10), where_it_averages),
    Alternative(
        "averaged final", "rate 0.3 to the end", recipe("averaged", learning_rate=0.3, schedule=Constant()),
        where_it_averages,
    ),
    Alternative("averaged final", "rate x 0.5", recipe("averaged", learning_rate=times(0.5)), where_it_averages),
    Alternative("averaged final", "ridge x 0.3", recipe("averaged", l2=times(0.3)), where_it_averages),
    Alternative("averaged final", "ridge x 3", recipe("averaged", l2=times(3.0)), where_it_averages),
    Alternative("averaged final", "epochs x 0.5", recipe("averaged", n_epochs=times(0.5)), where_it_averages),
    Alternative("averaged final", "epochs x 2", recipe("averaged", n_epochs=times(2)), where_it_averages),
    Alternative("outliers", "as they are", constant("_FARTHEST", 1e15, encoding)),
    Alternative("outliers", "cut at 3", constant("_FARTHEST", 3.0, encoding)),
    Alternative("outliers", "cut at 10", constant("_FARTHEST", 10.0, encoding)),
    Alternative("batch size", "x 0.5", recipe(*_ALL, batch_size=times(0.5))),
    Alternative("batch size", "x 2", recipe(*_ALL, batch_size=times(2))),
]  # fmt: skip

# --- fits -----------------------------------------------------------------------------------------------------------------


def judge(model: Any, X: Any, y: Any, y_fit: Any) -> tuple[float, float]:
    """Held-out loss relative to the best constant, and AUC or R2."""
    if isinstance(model, SkinnyTreesRegressor):
        predicted = model.predict(X)
        guess = np.full(len(y), y_fit.mean())
        return mean_squared_error(y, predicted) / mean_squared_error(y, guess), r2_score(y, predicted)
    P = model.predict_proba(X).astype(float)
    P /= P.sum(axis=1, keepdims=True)
    guess = np.tile(np.bincount(y_fit) / len(y_fit), (len(y), 1))
    score = roc_auc_score(y, P[:, 1]) if P.shape[1] == 2 else roc_auc_score(y, P, multi_class="ovo")
    return log_loss(y, P) / log_loss(y, guess), score


def measure(split: tuple[Any, Any, Any, Any], budget: float | int, seed: int) -> dict[str, Any]:
    X, y, X_held_out, y_held_out = split
    kind = SkinnyTreesRegressor if y.dtype.kind == "f" else SkinnyTreesClassifier
    model = kind(budget, validation_fraction=VALIDATION_FRACTION, refit=False, random_state=seed)
    # Time of this process, not of the clock: the machine may be shared.
    started = process_time()
    model.fit(X, y)
    seconds = process_time() - started
    loss, score = judge(model, X_held_out, y_held_out, y)
    return {"loss": loss, "score": score, "columns": model.n_features_selected_, "seconds": seconds}


class SharedWalk:
    """The default's walk on one data set, made once for all fits that differ from the default only after it."""

    def __init__(self) -> None:
        self.forks: list[fitting.Fork] | None = None
        self.rng_state: Any = None
        self.seconds = 0.0
        self.seconds_saved = 0.0

    def shared(self) -> AbstractContextManager[Any]:
        walk = fitting.Walk.go

        def go(fit: fitting.Walk, rng: np.random.Generator) -> None:
            if self.forks is None:
                started = process_time()
                walk(fit, rng)
                self.seconds = process_time() - started
                self.forks, self.rng_state = fit.forks, rng.bit_generator.state
            else:
                fit.forks, rng.bit_generator.state = self.forks, self.rng_state
                self.seconds_saved += self.seconds

        return patch.object(fitting.Walk, "go", go)


def size_of(data_set: Any, X: Any) -> Size:
    budget = data_set.budget if isinstance(data_set.budget, int) else int(data_set.budget * X.shape[1])
    return Size(round((1 - VALIDATION_FRACTION) * X.shape[0]), X.shape[1], budget)


def run(seeds: dict[str, range], rules: list[str]) -> None:
    """Fit what is not yet in the file; a data set's default and alternatives together, so that the machine is the same."""
    done = {(row["set"], row["seed"], row["rule"], row["alternative"]) for row in read_rows(RESULTS)}
    for name in seeds:
        for seed in seeds[name]:
            split = ALL_SETS[name].split(seed)
            size, walk = size_of(ALL_SETS[name], split[0]), SharedWalk()
            for one in [DEFAULT, *(one for one in ALTERNATIVES if one.rule in rules and one.matters(size))]:
                key = {"set": name, "seed": seed, "rule": one.rule, "alternative": one.name}
                if tuple(key.values()) in done:
                    continue
                saved_before = walk.seconds_saved
                with one.change(), walk.shared() if one.rule in AFTER_THE_WALK else nullcontext():
                    result = measure(split, ALL_SETS[name].budget, seed)
                result["seconds"] += walk.seconds_saved - saved_before
                append_row(RESULTS, {**key, **result})
        print(f"{name}: done", flush=True)


# --- tables ---------------------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """An alternative against the default on one data set, paired over seeds."""

    log_ratio: float
    points: float
    seconds: float
    default_seconds: float


def compare(rows: list[dict[str, Any]], defaults: dict[tuple[str, int], dict[str, Any]]) -> list[Comparison]:
    compared = []
    for _, group in groupby(sorted(rows, key=lambda row: row["set"]), key=lambda row: row["set"]):
        pairs = [(row, defaults[row["set"], row["seed"]]) for row in group]
        ratios = [np.log((row["loss"] + FLOOR) / (default["loss"] + FLOOR)) for row, default in pairs]
        points = [100 * (row["score"] - default["score"]) for row, default in pairs]
        seconds = (sum(row["seconds"] for row, _ in pairs), sum(default["seconds"] for _, default in pairs))
        compared.append(Comparison(float(np.mean(ratios)), float(np.mean(points)), *seconds))
    return compared


def print_rules(results: list[dict[str, Any]], rules: list[str]) -> None:
    defaults = {(row["set"], row["seed"]): row for row in results if row["rule"] == DEFAULT.rule}
    print("\n| rule | alternative | change of loss, % | better, worse of sets | AUC or R2, points | time |")
    print("|---|---|---|---|---|---|")
    for one in ALTERNATIVES:
        rows = [row for row in results if (row["rule"], row["alternative"]) == (one.rule, one.name)]
        if one.rule not in rules or not rows:
            continue
        compared = compare(rows, defaults)
        ratios = 100 * np.array([each.log_ratio for each in compared])
        error = f"{ratios.std(ddof=1) / np.sqrt(len(ratios)):.1f}" if len(ratios) > 1 else "?"
        relative = sum(each.seconds for each in compared) / sum(each.default_seconds for each in compared)
        print(f"| {one.rule} | {one.name} | {ratios.mean():+.1f} ± {error} | {np.sum(ratios < 0)}, {np.sum(ratios > 0)} of "
              f"{len(ratios)} | {np.mean([each.points for each in compared]):+.2f} | {relative:.2f} |")  # fmt: skip


def print_sets(results: list[dict[str, Any]], sets: list[str]) -> None:
    print("\n| set | rows to fit x columns | budget | loss | AUC or R2 | columns used | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name in sets:
        rows = [row for row in results if (row["set"], row["rule"]) == (name, DEFAULT.rule)]
        one = ALL_SETS[name]
        X = one.split(0)[0]
        mean = {field: np.mean([row[field] for row in rows]) for field in ("loss", "score", "columns", "seconds")}
        print(f"| {name} | {X.shape[0]:,} x {X.shape[1]:,} | {one.budget} | {mean['loss']:.3f} | {mean['score']:.3f} | "
              f"{mean['columns']:.0f} | {mean['seconds']:.1f} |")  # fmt: skip


def main() -> None:
    rules = list(dict.fromkeys(one.rule for one in ALTERNATIVES))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", nargs="*", default=rules, choices=rules)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(ALL_SETS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    seeds = {name: ALL_SETS[name].seeds(options.seeds, options.first_seed) for name in options.sets}
    run(seeds, options.rules)
    results = [row for row in read_rows(RESULTS) if row["seed"] in seeds.get(row["set"], ())]
    print_sets(results, options.sets)
    print_rules(results, options.rules)


if __name__ == "__main__":
    main()
