"""How close a training step comes to the time of its two products with the data alone, in the same BLAS on one thread.

``make bench``, or ``python -m benchmarks.speed``. Minimum of repeats; both sides in one run.
"""

import time
from collections.abc import Callable

import numpy as np

from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.blas import add_product, add_product_ta
from skinnytrees.kernels.state import Data, start_trees
from skinnytrees.losses import Multinomial
from skinnytrees.penalties import GroupL0
from skinnytrees.training import TrainingSettings, computing, run_epochs

# name: rows, columns, outputs, trees, depth, batch
CASES = {
    "A": (80, 256, 2, 50, 3, 16),
    "B": (2000, 500, 2, 50, 4, 64),
    "C": (150, 20_000, 2, 50, 4, 64),
    "D": (5000, 33, 2, 15, 4, 64),
    "E": (6000, 5000, 2, 50, 4, 256),
}


def best_seconds(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def measure(n: int, p: int, n_outputs: int, n_trees: int, depth: int, batch: int) -> tuple[float, float]:
    """Seconds of a step of Algorithm 1, and of its two products alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p), dtype=np.float32)
    y = rng.integers(0, n_outputs, (n, 1)).astype(np.float32)
    data = Data(X, y, np.ones(n, dtype=np.float32))
    trees = start_trees(p, n_trees, depth, n_outputs, rng)
    settings = TrainingSettings(Multinomial(), Sigmoid(), 1000, batch, 1e-3, 0.1, penalty=GroupL0(1e-9, 1e-3))
    n_steps = -(-n // batch)
    epochs = run_epochs(trees, data, np.arange(p + 1), settings, rng)
    rows, D = X[:batch], np.ones((min(batch, n), trees.W.shape[1]), dtype=np.float32)
    Z = np.empty_like(D)
    one = np.float32(1)

    def products() -> None:
        add_product(one, rows, trees.W, one, Z)
        add_product_ta(one, rows, D, one, trees.W)

    repeats = 3 if n * p > 10**7 else 20
    with computing():
        next(epochs)
        step = best_seconds(lambda: next(epochs), repeats) / n_steps
        products()
        return step, best_seconds(products, repeats)


def main() -> None:
    print("case     N      p  trees depth batch    step ms  products ms  ratio")
    for name, case in CASES.items():
        step, products = measure(*case)
        n, p, _, n_trees, depth, batch = case
        print(f"{name} {n:>8} {p:>6} {n_trees:>6} {depth:>5} {batch:>5} {step * 1e3:>10.3f} {products * 1e3:>12.3f}"
              f" {step / products:>6.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
