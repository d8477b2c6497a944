"""Prediction with 50 of 5,000 columns, next to a dense ensemble of the same shape and LightGBM with as many trees.

``python -m benchmarks.prediction``, which takes about three minutes and 7 GB. Minimum of repeats, all sides in one run and
each on one thread, on tables of 100,000 rows; what is slow is timed on the first 4,000 of them. "Its product alone" is what
no dense ensemble can go below: the product of the rows with all hyperplanes, in BLAS and without anything around it.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.speed import best_seconds
from skinnytrees import SkinnyTreesClassifier
from skinnytrees.threads import one_blas_thread

N_ROWS, N_COLUMNS, N_SELECTED = 100_000, 5_000, 50
N_SLOW_ROWS = 4_000
SHAPE = {"n_estimators": 100, "max_depth": 4}


def fit_all() -> dict[str, Any]:
    """Models whose accuracy plays no part here: trained for an epoch, on few rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000, N_COLUMNS))
    y = X[:, :N_SELECTED].sum(axis=1) > 0
    quick = {**SHAPE, "max_epochs": 1, "random_state": 0}
    models = {
        "skinnytrees": SkinnyTreesClassifier(N_SELECTED, size_rule="full", **quick).fit(X, y),
        "dense ensemble": SkinnyTreesClassifier(penalty=None, **quick).fit(X, y),
    }
    assert models["skinnytrees"].n_features_selected_ == N_SELECTED
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        print('LightGBM is left out; to have it, run: pip install -c constraints.txt -e ".[baselines]"')
        return models
    peer = LGBMClassifier(**SHAPE, num_leaves=2 ** SHAPE["max_depth"], n_jobs=1, random_state=0, verbose=-1)
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
    print(
        f"{N_ROWS} rows, {N_SELECTED} of {N_COLUMNS} columns, {SHAPE['n_estimators']} trees of depth {SHAPE['max_depth']}"
    )
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


if __name__ == "__main__":
    main()
