"""Data that anybody has, to compare rules on: scikit-learn's own sets, generated designs, and the paper's sets without test rows.

A set makes its rows from a seed; some of them are fitted on, the rest judges.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn import datasets
from sklearn.model_selection import StratifiedKFold

from benchmarks.ten_sets import SETS as PAPER_NAMES
from skinnytrees.datasets import load

N_HELD_OUT = 2000
# Few rows are noisy and cheap: sets of fewer than this are made or split three times for each time of the others.
FEW_ROWS = 500


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


def blocks(n_rows: int, rng: np.random.Generator, n_blocks: int, block_size: int, task: str) -> tuple[Any, Any]:
    """Blocks of columns that are noisy copies of one hidden factor; four factors matter, the last two together."""
    factors = rng.standard_normal((n_rows, n_blocks))
    X = np.repeat(factors, block_size, axis=1) + 0.4 * rng.standard_normal((n_rows, n_blocks * block_size))
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
    n_rows: int, rng: np.random.Generator, make: Callable[..., tuple[Any, Any]], fraction: float, **design: Any
) -> tuple[Any, Any]:
    """Another set, thinned out until all but the first class together have this fraction of the rows."""
    X, y = make(6 * n_rows, rng, **design)
    others, first = np.flatnonzero(y > 0)[: round(fraction * n_rows)], np.flatnonzero(y == 0)
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
    "blocks": DataSet(partial(blocks, n_blocks=20, block_size=6, task="classification"), 600, 0.25),
    "blocks, regression": DataSet(partial(blocks, n_blocks=20, block_size=6, task="regression"), 350, 10),
    "many effects": DataSet(partial(linear, n_columns=120, n_signal=20, noise=0.5, task="classification"), 600, 0.25),
    "linear": DataSet(partial(linear, n_columns=300, n_signal=8, noise=0.5, task="regression"), 200, 10),
    "linear, wide": DataSet(partial(linear, n_columns=1500, n_signal=5, noise=0.3, task="regression"), 120, 10),
    "genes": DataSet(partial(genes, n_columns=2000, n_classes=2, shift=1.2), 100, 0.25),
    "genes, four classes": DataSet(partial(genes, n_columns=1000, n_classes=4, shift=2.0), 150, 20),
    "genes, weak": DataSet(partial(genes, n_columns=5000, n_classes=2, shift=0.8), 150, 0.25),
    "linear, wide, much allowed": DataSet(
        partial(linear, n_columns=1500, n_signal=5, noise=0.3, task="classification"), 150, 0.25
    ),
    "blocks, wide, much allowed": DataSet(
        partial(blocks, n_blocks=300, block_size=6, task="classification"), 200, 0.25
    ),
    "genes, very few rows": DataSet(partial(genes, n_columns=5000, n_classes=2, shift=2.0), 60, 10),
    "word counts": DataSet(partial(word_counts, n_columns=800, n_classes=3), 550, 40),
    "categories": DataSet(partial(categories, task="classification"), 1300, 8),
    "categories, regression": DataSet(partial(categories, task="regression"), 450, 8),
    "blocks, many rows": DataSet(partial(blocks, n_blocks=50, block_size=6, task="classification"), 4500, 0.5),
    "many effects, many rows": DataSet(
        partial(linear, n_columns=250, n_signal=60, noise=0.5, task="regression"), 4000, 0.5
    ),
    "three classes, many rows": DataSet(
        partial(hypercube, n_features=200, n_informative=15, n_redundant=45, n_classes=3), 3000, 0.5
    ),
    "steps": DataSet(partial(skewed_steps, n_columns=12, task="classification"), 6000, 5),
    "steps, regression": DataSet(partial(skewed_steps, n_columns=20, task="regression"), 2000, 8),
    "rare steps": DataSet(partial(rare, make=skewed_steps, fraction=0.1, n_columns=20, task="classification"), 2500, 4),
    "rare by categories": DataSet(partial(rare, make=categories, fraction=0.15, task="classification"), 2000, 5),
    "rare in blocks": DataSet(
        partial(rare, make=blocks, fraction=0.1, n_blocks=10, block_size=6, task="classification"), 1500, 5
    ),
    "rare, many effects": DataSet(
        partial(rare, make=linear, fraction=0.1, n_columns=60, n_signal=20, noise=0.5, task="classification"), 1500, 12
    ),
    "rare products": DataSet(
        partial(rare, make=interactions, fraction=0.15, n_columns=30, n_pairs=4, flip=0.03), 3000, 6
    ),
    "two rare classes": DataSet(
        partial(rare, make=hypercube, fraction=0.2, n_features=40, n_informative=10, n_redundant=10, n_classes=3),
        2000,
        6,
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
