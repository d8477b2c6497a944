"""Whether the tricks of ``kernels/numba_bridge`` still pay: each is replaced by numba's documented way, both sides in one run.

``python -m benchmarks.bridge_tricks`` prints ratios, the documented way over the trick, of CPU seconds: of a first fit, which
compiles, and of a fit once all is compiled. Each measurement is a process of its own with an empty cache, and the variants take
turns, so that a busy machine slows all of them alike. ``--queue`` compares the work queue with threads of BLAS, in wall time.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

SOURCE = Path(__file__).resolve().parents[1] / "src"


# ------------------------------------------------------------------------------------------------ the documented ways


def without_option(name: str) -> Callable[[], None]:
    def patch() -> None:
        from skinnytrees.kernels.numba_bridge import options

        for some in (options.QUICKER_TO_COMPILE, options.NO_PYTHON_ENTRY):
            some.pop(name, None)

    return patch


def slices() -> None:
    """Slices of arrays instead of views that take their bounds as they are."""
    import numba

    from skinnytrees.kernels.numba_bridge import options, views

    part = numba.njit(inline="always", nogil=True, **options.QUICKER_TO_COMPILE)
    views.top = part(lambda A, n_rows: A[:n_rows])
    views.rows_of = part(lambda A, first, end: A[first:end])
    views.block_of = part(lambda A, first, end, first_column, end_column: A[first:end, first_column:end_column])
    views.in_row = part(lambda A, row, first, end: A[row, first:end])


def ctypes_addresses() -> None:
    """``array.ctypes`` instead of an intrinsic that gives the address of an array."""
    import numba

    from skinnytrees.kernels.numba_bridge import options, pointers

    pointers.pointer = numba.njit(inline="always", nogil=True, **options.QUICKER_TO_COMPILE)(lambda A: A.ctypes)


def dispatched_calls() -> None:
    """Ordinary calls of compiled functions."""
    from skinnytrees.kernels.numba_bridge import calls

    calls.call = lambda kernel, *arguments: kernel(*arguments)
    calls.SameTypes = lambda: calls.call


VARIANTS: dict[str, Callable[[], None]] = {
    "as it is": lambda: None,
    "references counted (_nrt)": without_option("_nrt"),
    "entries for C (no_cfunc_wrapper)": without_option("no_cfunc_wrapper"),
    "entries for Python (no_cpython_wrapper)": without_option("no_cpython_wrapper"),
    "slices": slices,
    "array.ctypes": ctypes_addresses,
    "dispatched calls": dispatched_calls,
}


def patched_import(patch: Callable[[], None]) -> None:
    """Change the bridge before any kernel is made: the package itself, which imports the kernels, comes last."""
    package = types.ModuleType("skinnytrees")
    package.__path__ = [str(SOURCE / "skinnytrees")]
    sys.modules["skinnytrees"] = package
    patch()
    del sys.modules["skinnytrees"]


def print_seconds(variant: str) -> None:
    """CPU seconds of a first fit, and of the quickest of some more."""
    patched_import(VARIANTS[variant])
    from skinnytrees import SkinnyTreesClassifier
    from skinnytrees.penalties import GroupL0

    X = np.random.default_rng(0).normal(size=(60, 6))
    y = X[:, 0] * X[:, 1] > 0
    models = [
        SkinnyTreesClassifier(2, random_state=0, n_jobs=1),
        SkinnyTreesClassifier(penalty=GroupL0(0.01, rate=0.01), max_epochs=200, random_state=0, n_jobs=1),
    ]

    def seconds() -> float:
        started = time.process_time()
        for model in models:
            model.fit(X, y).predict(X)
        return time.process_time() - started

    print(seconds(), min(seconds() for _ in range(5)))


def measure(variant: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, __file__, "--variant", variant],
            env={**os.environ, "PYTHONPATH": str(SOURCE), "NUMBA_CACHE_DIR": cache},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        return np.nan, np.nan
    first, warm = map(float, done.stdout.split())
    return first, warm


def compare(variants: list[str], repeats: int) -> None:
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for _ in range(repeats):
        for name in variants:
            measured[name].append(measure(name))
    base = [statistics.median(values) for values in zip(*measured[variants[0]], strict=True)]
    print(f"{'':42s} {'first fit':>9s} {'next fits':>9s}   seconds as it is: {base[0]:.1f} and {base[1]:.3f}")
    for name in variants[1:]:
        pairs = zip(measured[name], measured[variants[0]], strict=True)
        ratios = [(first / base_first, warm / base_warm) for (first, warm), (base_first, base_warm) in pairs]
        first, warm = (statistics.median(values) for values in zip(*ratios, strict=True))
        print(f"{name:42s} {first:9.2f} {warm:9.2f}" if first == first else f"{name:42s} does not compile")


# ------------------------------------------------------------------------------------------------ work queue or BLAS threads


def compare_queue(repeats: int) -> None:
    """Seconds of penalised epochs on two threads, by the queue and by BLAS, over those on one; and whether bits are the same."""
    from threadpoolctl import threadpool_limits

    from benchmarks.speed import CASES, DENSE_STEPS, random_problem
    from skinnytrees.training.loop import run_epochs

    print(f"{'case':5s} {'queue':>7s} {'BLAS':>7s}   same bits as one thread: queue, BLAS")
    for name in ("B", "E"):
        case = CASES[name]

        def trained(n_threads: int, n_blas: int, case: Any = case) -> tuple[float, Any]:
            rng = np.random.default_rng(0)
            trees, data = random_problem(case, rng)
            settings = replace(DENSE_STEPS, n_threads=n_threads, n_epochs=3, batch_size=case.batch_size)
            with threadpool_limits(n_blas, user_api="blas"):
                started = time.perf_counter()
                *_, (_, _, runner) = run_epochs(trees, data, np.arange(case.n_columns + 1), settings, rng)
                return time.perf_counter() - started, runner.snapshot()()[1].flat

        trained(2, 1)
        ratios, same = [], [True, True]
        for _ in range(repeats):
            (one, flat), (queue, by_queue), (blas, by_blas) = trained(1, 1), trained(2, 1), trained(1, 2)
            ratios.append((queue / one, blas / one))
            same = [same[0] and np.array_equal(flat, by_queue), same[1] and np.array_equal(flat, by_blas)]
        queue, blas = (statistics.median(values) for values in zip(*ratios, strict=True))
        print(f"{name:5s} {queue:7.2f} {blas:7.2f}   {same[0]}, {same[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--queue", action="store_true", help="compare the work queue with threads of BLAS")
    parser.add_argument("--only", nargs="+", default=list(VARIANTS)[1:], choices=list(VARIANTS)[1:])
    parser.add_argument("--variant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        print_seconds(options.variant)
    elif options.queue:
        compare_queue(options.repeats)
    else:
        compare([next(iter(VARIANTS)), *options.only], options.repeats)


if __name__ == "__main__":
    main()
