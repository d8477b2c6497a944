"""Functions with steps and fast waves on thousands of rows: is the final ensemble smoother than the data?

``python -m benchmarks.sharp_functions`` draws every design three times (4,000 rows to fit on, 2,000 fresh ones) and prints AUC or
R2 of the default fit next to a forest and boosting, cut to their own top columns. The budget is the number of columns that
matter. ``--designs lattice`` takes some designs only, ``--rows`` and ``--draws`` other numbers, ``--set-rule`` another rule, and
``--jobs 2`` makes two fits side by side. Needs the extra ``baselines``, unless ``--peers`` is given without a name.
"""

import argparse
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from benchmarks.budget_fits import (
    OURS,
    PEERS,
    Outcome,
    Problem,
    fit_peer,
    load_kernels,
    mean_and_error,
    score,
    side_by_side,
)
from benchmarks.pool import parsed_setting
from benchmarks.pool_fits import with_rules
from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor

N_TEST = 2000
N_COLUMNS = 12
NOISE = 0.1


def lattice(Z: np.ndarray) -> np.ndarray:
    return np.floor(5 * Z[:, 0]) % 2 * 2 + np.floor(3 * Z[:, 1]) * (Z[:, 2] > 0.3) + 3 * (Z[:, 3] > 0.9)


def steps(Z: np.ndarray) -> np.ndarray:
    """Eight steps, and one more where two of them meet."""
    thresholds, heights = [0.5, 0.7, 0.16, 0.88, 0.62, 0.42, 0.82, 0.08], [3, 2, 2, 3, 1, 1, 2, 2]
    return (Z[:, :8] > thresholds) @ np.array(heights) + 4.0 * ((Z[:, 0] > 0.5) & (Z[:, 1] < 0.5))


def waves(Z: np.ndarray) -> np.ndarray:
    """Three periods of a sine, and a sign that changes four times, which multiplies another column."""
    return np.sin(6 * np.pi * Z[:, 0]) + np.sign(np.sin(4 * np.pi * Z[:, 1])) * Z[:, 2]


def rules(Z: np.ndarray) -> np.ndarray:
    """A linear function for each of four cases."""
    cases = [Z[:, 0] < 0.2, Z[:, 1] < 0.4, Z[:, 2] > 0.6]
    return np.select(cases, [3 - 2 * Z[:, 3], 1 + 2 * Z[:, 4], 3 * Z[:, 0] - 2], 2 * Z[:, 3] * Z[:, 4])


def cells(Z: np.ndarray) -> np.ndarray:
    """Two classes, on a chequered board of 16 cells."""
    return ((np.floor(4 * Z[:, 0]) + np.floor(4 * Z[:, 1])) % 2).astype(int)


def smooth(Z: np.ndarray) -> np.ndarray:
    """Without any step, to see that nothing is lost."""
    return np.sin(2 * Z[:, 0]) + Z[:, 1] ** 2 + Z[:, 2] * Z[:, 3]


class Design(NamedTuple):
    """A target made of the first columns, and how many these are."""

    target: Callable[[np.ndarray], np.ndarray]
    n_true: int

    def draw(self, seed: int, n_rows: int) -> Problem:
        """Uniform columns; numbers have noise of a tenth of their deviation."""
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(n_rows + N_TEST, N_COLUMNS))
        y = self.target(X)
        if y.dtype.kind == "f":
            y = y + NOISE * y.std() * rng.standard_normal(len(y))
        return Problem(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


DESIGNS = {
    "lattice": Design(lattice, 4),
    "steps": Design(steps, 8),
    "waves": Design(waves, 3),
    "rules": Design(rules, 5),
    "cells": Design(cells, 2),
    "smooth": Design(smooth, 4),
}


def fit_ours(problem: Problem, budget: int, seed: int, settings: dict[str, Any]) -> Outcome:
    kind = SkinnyTreesRegressor if problem.is_regression else SkinnyTreesClassifier
    load_kernels(kind)
    model = with_rules(kind(budget, random_state=seed, n_jobs=1), settings).fit(problem.X, problem.y)
    return Outcome(np.flatnonzero(model.support_), score(model, problem.X_test, problem.y_test), 0.0)


def measure(name: str, n_rows: int, seed: int, system: str, settings: dict[str, Any]) -> tuple[str, str, float]:
    design = DESIGNS[name]
    problem = design.draw(seed, n_rows)
    ours = system == OURS
    fit = fit_ours(problem, design.n_true, seed, settings) if ours else fit_peer(system, problem, design.n_true, seed)
    return name, system, fit.score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--set-rule", action="append", default=[], type=parsed_setting, metavar="NAME=VALUE")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if min(options.rows, options.draws) < 1:
        parser.error("--rows and --draws: give 1 or more, such as 4000 and 3.")
    systems, settings = [OURS, *options.peers], dict(options.set_rule)
    try:
        with_rules(SkinnyTreesRegressor(), settings)
    except ValueError as error:
        parser.error(str(error))
    tasks = [
        (name, options.rows, seed, system, settings)
        for name, seed, system in product(options.designs, range(options.draws), systems)
    ]
    found = list(side_by_side(measure, tasks, options.jobs))
    print("| AUC or R2 | " + " | ".join(systems) + " |\n" + "|---" * (len(systems) + 1) + "|")
    for name in options.designs:
        scores = [mean_and_error(value for n, s, value in found if (n, s) == (name, system)) for system in systems]
        print(f"| {name} | " + " | ".join(scores) + " |")


if __name__ == "__main__":
    main()
