"""The paper's Table 1: support recovery and test error on a sparse linear model with correlated features.

``python -m skinnytrees.experiments.table1`` fits one default regressor with ``size_rule="one_se"`` to each of 25 data sets per
setting. The paper tuned over 500 trials per data set.
"""

import argparse
import time

import numpy as np

from skinnytrees.datasets import correlated_linear
from skinnytrees.estimators import SkinnyTreesRegressor

# correlation, features, rows -> test error, number of features, F1 of the paper's SkinnyTrees
PAPER = {
    (0.5, 256, 100): (0.45, 10, 0.89),
    (0.5, 256, 200): (0.31, 12, 0.87),
    (0.5, 256, 1000): (0.26, 8, 1.00),
    (0.7, 512, 100): (0.65, 12, 0.86),
    (0.7, 512, 200): (0.34, 11, 0.89),
    (0.7, 512, 1000): (0.26, 8, 1.00),
}


def run_once(correlation: float, n_features: int, n_samples: int, seed: int) -> tuple[float, int, float, float]:
    """Test error, number of features, F1 and seconds of one fit."""
    data = correlated_linear(n_samples, n_features, correlation, random_state=seed)
    test = correlated_linear(10_000, n_features, correlation, random_state=10_000 + seed)
    started = time.perf_counter()
    model = SkinnyTreesRegressor(size_rule="one_se", random_state=seed).fit(data.X, data.y)
    seconds = time.perf_counter() - started
    found = np.flatnonzero(model.support_)
    f1 = 2 * len(np.intersect1d(found, data.support)) / (len(found) + len(data.support))
    return float(np.mean((model.predict(test.X) - test.y) ** 2)), len(found), f1, seconds


def main() -> None:
    """Run all settings and print them next to the paper's."""
    parser = argparse.ArgumentParser(description="The paper's Table 1, one untuned fit per data set.")
    parser.add_argument("--repeats", type=int, default=25)
    options = parser.parse_args()
    print(
        "| correlation | features | rows | test error | paper | features found | paper | F1 | paper | seconds per fit |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (correlation, p, n), (paper_error, paper_found, paper_f1) in PAPER.items():
        runs = np.array([run_once(correlation, p, n, seed) for seed in range(options.repeats)])
        error, found, f1, seconds = runs.mean(axis=0)
        spread = runs.std(axis=0, ddof=1)[:3] / np.sqrt(len(runs))
        print(f"| {correlation} | {p} | {n} | {error:.2f} ± {spread[0]:.2f} | {paper_error} | {found:.1f} ± {spread[1]:.1f} |"
              f" {paper_found} | {f1:.3f} ± {spread[2]:.3f} | {paper_f1} | {seconds:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
