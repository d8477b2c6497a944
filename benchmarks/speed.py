"""How close a training step comes to the time of its two products with the data alone, in the same BLAS and threads.

``make bench``, or ``python -m benchmarks.speed``. Minimum of repeats; both sides in one run, on one thread, then on two.
The cases, the clock and the helper that sets our threads are shared with ``against_torch.py``.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.compilation import kernel
from skinnytrees.kernels.numba_bridge.gemm import add_product, add_product_ta
from skinnytrees.kernels.state import Data, Trees, start_trees
from skinnytrees.losses import Multinomial
from skinnytrees.penalties import GroupL0
from skinnytrees.training.loop import TrainingSettings, computing, run_epochs

THREADS = (1, 2)


class Case(NamedTuple):
    """Size of the data and of the ensemble."""

    n_rows: int
    n_columns: int
    n_outputs: int
    n_trees: int
    depth: int
    batch_size: int
    fraction_of_ones: float | None = None  # of a sparse table

    @property
    def steps_an_epoch(self) -> int:
        return -(-self.n_rows // self.batch_size)

    @property
    def repeats(self) -> int:
        return 5 if self.n_columns >= 5000 else 100

    def quick(self) -> "Case":
        """Small enough to try the program, too small to measure."""
        return self._replace(n_rows=min(self.n_rows, 200), n_columns=min(self.n_columns, 1000))

    def __str__(self) -> str:
        return f"{self.n_rows:>6} {self.n_columns:>6} {self.n_trees:>6} {self.depth:>5} {self.batch_size:>5}"


CASES = {
    "A": Case(80, 256, 2, 50, 3, 16),
    "B": Case(2000, 500, 2, 50, 4, 64),
    "C": Case(150, 20_000, 2, 50, 4, 64),
    "D": Case(5000, 33, 2, 15, 4, 64),
    "E": Case(6000, 5000, 2, 50, 4, 256),
}
SPARSE_CASES = {"F": Case(800, 100_000, 2, 20, 4, 256, fraction_of_ones=0.01)}
CASE_HEADER = "case     N      p  trees depth batch"

# Every step thresholds, but the penalty is too weak to remove a group: what is measured are dense steps.
DENSE_STEPS = TrainingSettings(
    Multinomial(), Sigmoid(), n_epochs=10**6, batch_size=64, learning_rate=1e-3, l2=0.1, penalty=GroupL0(1e-9, 1e-3)
)


def ours_with_threads(settings: TrainingSettings, n_threads: int) -> TrainingSettings:
    """The package computes on this many threads."""
    return replace(settings, n_threads=n_threads)


def random_problem(case: Case, rng: np.random.Generator) -> tuple[Trees, Data]:
    """A fresh ensemble, and rows that say nothing about their labels."""
    shape = case.n_rows, case.n_columns
    if case.fraction_of_ones is None:
        X: Any = rng.standard_normal(shape, dtype=np.float32)
    else:
        X = sparse.random_array(
            shape, density=case.fraction_of_ones, format="csr", dtype=np.float32, rng=rng, data_sampler=lambda size: np.ones(size)
        )  # fmt: skip
    y = rng.integers(0, case.n_outputs, (case.n_rows, 1)).astype(np.float32)
    trees = start_trees(case.n_columns, case.n_trees, case.depth, case.n_outputs, rng)
    return trees, Data(X, y, np.ones(case.n_rows, dtype=np.float32))


def best_seconds(run: Callable[[], object], repeats: int) -> float:
    """Least time of a run, after one that does not count."""
    run()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def step_seconds(case: Case, n_threads: int) -> float:
    """A step of Algorithm 1, everything in it."""
    rng = np.random.default_rng(0)
    trees, data = random_problem(case, rng)
    settings = ours_with_threads(replace(DENSE_STEPS, batch_size=case.batch_size), n_threads)
    with computing():
        epochs = run_epochs(trees, data, np.arange(case.n_columns + 1), settings, rng)
        return best_seconds(lambda: next(epochs), case.repeats) / case.steps_an_epoch


@kernel
def two_products(one, rows, D, W, Z):  # type: ignore[no-untyped-def]
    add_product(one, rows, W, one, Z)
    add_product_ta(one, rows, D, one, W)


def product_seconds(case: Case, n_threads: int) -> float:
    """The two products of a step: w.x of a batch, and the gradient step on W."""
    trees, data = random_problem(case, np.random.default_rng(0))
    rows, one = data.X[: case.batch_size], np.float32(1)
    D = np.ones((len(rows), trees.W.shape[1]), dtype=np.float32)
    Z = np.zeros_like(D)

    def products_of_an_epoch() -> None:
        for _ in range(case.steps_an_epoch):
            two_products(one, rows, D, trees.W, Z)

    with threadpool_limits(n_threads, user_api="blas"):
        return best_seconds(products_of_an_epoch, case.repeats) / case.steps_an_epoch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases, to try the program")
    quick = parser.parse_args().quick
    for n_threads in THREADS:
        print(f"\nthreads on both sides: {n_threads}")
        print(CASE_HEADER + "    step ms  products ms  ratio")
        for name, case in CASES.items():
            case = case.quick() if quick else case
            step, products = step_seconds(case, n_threads), product_seconds(case, n_threads)
            print(f"{name} {case} {step * 1e3:>10.3f} {products * 1e3:>12.3f} {step / products:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
