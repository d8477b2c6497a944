"""Prediction with 50 of 5,000 columns, next to a dense ensemble of the same shape and LightGBM with as many trees.

``python -m benchmarks.prediction``, which takes about three minutes and 7 GB. Minimum of repeats, all sides in one run and
each on one thread, on tables of 100,000 rows; what is slow is timed on the first 4,000 of them. "Its product alone" is what
no dense ensemble can go below: the product of the rows with all hyperplanes, in BLAS and without anything around it. At the
end, ensembles of hard smooth-step splits: all nodes in SIMD lanes against only the nodes that a row reaches.
"""

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.speed import best_seconds
from skinnytrees import SkinnyTreesClassifier
from skinnytrees.activations import SmoothStep
from skinnytrees.kernels.hard_splits import node_by_node, reached_fraction
from skinnytrees.threads import one_blas_thread

N_ROWS, N_COLUMNS, N_SELECTED = 100_000, 5_000, 50
N_SLOW_ROWS = 4_000
DEPTH = 4


def fit_all() -> dict[str, Any]:
    """Models whose accuracy plays no part here: trained for an epoch, on few rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000, N_COLUMNS))
    y = X[:, :N_SELECTED].sum(axis=1) > 0
    quick = {"max_depth": DEPTH, "max_epochs": 1, "random_state": 0}
    ours = SkinnyTreesClassifier(N_SELECTED, size_rule="full", **quick).fit(X, y)
    assert ours.n_features_selected_ == N_SELECTED
    n_trees = ours.model_.trees.n_trees  # the path averages ensembles; the others get as many trees as it has in all
    dense = SkinnyTreesClassifier(penalty=None, n_estimators=n_trees, **quick).fit(X, y)
    models = {"skinnytrees": ours, "dense ensemble": dense}
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        print('LightGBM is left out; to have it, run: pip install -c constraints.txt -e ".[baselines]"')
        return models
    peer = LGBMClassifier(
        n_estimators=n_trees, max_depth=DEPTH, num_leaves=2**DEPTH, n_jobs=1, random_state=0, verbose=-1
    )
    return {**models, "LightGBM": peer.fit(X, y)}


def bulk_times(models: dict[str, Any], X: np.ndarray) -> dict[str, float]:
    """Microseconds a row."""
    few = X[:N_SLOW_ROWS]
    ours, dense = models["skinnytrees"], models["dense ensemble"].model_.trees
    seconds = {
        "skinnytrees": best_seconds(lambda: ours.predict_proba(X), 5) / len(X),
        "dense ensemble": best_seconds(lambda: models["dense ensemble"].predict_proba(few), 3) / len(few),
    }
    design = few.astype(np.float32)
    with one_blas_thread():
        seconds["  its product alone"] = best_seconds(lambda: design @ dense.W, 3) / len(few)
    if "LightGBM" in models:
        seconds["LightGBM"] = best_seconds(lambda: models["LightGBM"].predict_proba(few), 3) / len(few)
    return {name: 1e6 * value for name, value in seconds.items()}


def hard_split_times(depth: int, theta: float) -> tuple[float, float, float]:
    """Share of nodes that rows reach, and microseconds a row: all nodes in SIMD lanes, or only the nodes that it reaches."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((2_000, 200), dtype=np.float32)
    hard = SkinnyTreesClassifier(
        penalty=None, activation=SmoothStep(theta), max_depth=depth, max_epochs=5, random_state=0
    )
    model = hard.fit(X, X[:, :10].sum(axis=1) > 0).model_
    seconds = []
    for nodes in (None, node_by_node(model.trees)):
        model.__dict__["reached_nodes"] = nodes  # in place of the model's own choice
        seconds.append(best_seconds(lambda: model.raw(X), 5) / len(X))
    return reached_fraction(model.trees, theta), 1e6 * seconds[0], 1e6 * seconds[1]


def row_times(predict: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median and minimum in microseconds."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        predict()
        times.append(time.perf_counter() - started)
    return 1e6 * float(np.median(times)), 1e6 * min(times)


def main() -> None:
    models = fit_all()
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N_ROWS, N_COLUMNS), dtype=np.float32)
    n_trees = models["skinnytrees"].model_.trees.n_trees
    print(f"{N_ROWS} rows, {N_SELECTED} of {N_COLUMNS} columns, {n_trees} trees of depth {DEPTH}")
    print("table    system                 us a row   100,000 rows    ratio")
    for dtype in (np.float32, np.float64):
        X = X.astype(dtype, copy=False)
        times = bulk_times(models, X)
        for name, us in times.items():
            seconds = us * N_ROWS / 1e6
            print(
                f"{X.dtype!s:<8} {name:<20} {us:>10.2f} {seconds:>12.2f} s {us / times['skinnytrees']:>8.1f}",
                flush=True,
            )
    print("\none row  system               median us   minimum us")
    row = X[:1].copy()
    for name, model in models.items():
        median, least = row_times(lambda model=model: model.predict_proba(row), 2_000)
        print(f"         {name:<20} {median:>10.1f} {least:>12.1f}", flush=True)
    print("\nsmooth-step, 200 columns   theta  depth  reached   all nodes, us   reached nodes, us    ratio")
    for theta, depth in itertools.product((0.3, 0.1, 0.03), (4, 6, 8)):
        share, all_nodes, reached = hard_split_times(depth, theta)
        print(
            f"{theta:>32} {depth:>6} {share:>8.2f} {all_nodes:>15.1f} {reached:>19.1f} {all_nodes / reached:>8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
