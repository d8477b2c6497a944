"""Columns that matter only together, or only symmetrically: does the default fit find all of them, and does it fit them well?

``python -m benchmarks.interactions`` draws every design ten times and prints a table; ``--designs ring xor`` takes some only,
``--draws 2`` fewer draws, ``--peers`` without a name no selection by peers, ``--jobs 2`` two fits side by side.

In no design does a true column have a linear effect, and except in the ring none says anything about the target alone. The
budget is twice the number of true columns, so that finding all of them asks for a good ranking but not for a perfect one. The
score (AUC or R2 on 2,000 fresh rows) stands next to that of a forest which is told the true columns. Noise in regression has a
tenth of the signal's standard deviation, so no R2 exceeds 0.99; classes are without noise.

Fits are appended to ``benchmarks/results/interactions.csv``, those of peers to ``interactions_peers.csv``, and those already
there are not repeated, so an interrupted run goes on where it stopped. After a change of the package, remove the first file. On
500 columns and 8,000 rows the forest takes about twenty minutes per draw to rank all columns (estimated from six of its 300
trees): ``--peers lightgbm`` leaves it out. Needs the extra ``baselines``, unless ``--peers`` leaves LightGBM out, too.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from benchmarks.budget_fits import (
    OURS,
    PEERS,
    Outcome,
    Problem,
    fit_ours,
    fit_peer,
    fit_peer_on,
    mean_and_error,
    side_by_side,
)
from benchmarks.result_files import append_row, read_rows

RESULTS = Path("benchmarks/results/interactions.csv")
PEER_RESULTS = RESULTS.with_name("interactions_peers.csv")
N_TEST = 2000
NOISE = 0.1
BUDGET_PER_TRUE_COLUMN = 2
FOREST_ON_TRUE = "forest on true columns"

# --- designs --------------------------------------------------------------------------------------------------------------


def ring(Z: np.ndarray) -> np.ndarray:
    """Inside or outside of a sphere that half of the rows are in."""
    return (np.sum(Z**2, axis=1) > chi2.median(Z.shape[1])).astype(int)


def xor(Z: np.ndarray) -> np.ndarray:
    return (Z[:, 0] * Z[:, 1] > 0).astype(int)


def product(Z: np.ndarray) -> np.ndarray:
    return Z[:, 0] * Z[:, 1]


def two_products(Z: np.ndarray) -> np.ndarray:
    return Z[:, 0] * Z[:, 1] + Z[:, 2] * Z[:, 3]


def sine(Z: np.ndarray) -> np.ndarray:
    return np.sin(2 * Z[:, 0]) * Z[:, 1]


def full_sine(Z: np.ndarray) -> np.ndarray:
    """A full period of the sine; its correlation with the plain product is 0.78 for uniform columns."""
    return np.sin(np.pi * Z[:, 0]) * Z[:, 1]


def plateau(Z: np.ndarray) -> np.ndarray:
    """Even in the first column, so that not even the product of the two columns correlates with the target.

    Chosen because training can stay at the loss of a constant: of eight products of this kind (sines of several frequencies,
    the plain product, three levels of noise), tried twice each, it was the only one on which that happened.
    """
    return np.cos(np.pi * Z[:, 0]) * Z[:, 1]


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.standard_normal(shape)


def uniform(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.uniform(-1, 1, shape)


class Design(NamedTuple):
    """A target made of a few true columns, which stand anywhere among columns of the same distribution."""

    target: Callable[[np.ndarray], np.ndarray]
    n_true: int
    n_rows: int
    n_columns: int
    columns: Callable[[np.random.Generator, tuple[int, int]], np.ndarray] = normal

    @property
    def budget(self) -> int:
        return BUDGET_PER_TRUE_COLUMN * self.n_true

    def draw(self, seed: int) -> tuple[Problem, np.ndarray]:
        """Rows to fit on and fresh rows, and the numbers of the true columns."""
        rng = np.random.default_rng(seed)
        X = self.columns(rng, (self.n_rows + N_TEST, self.n_columns))
        true_columns = np.sort(rng.choice(self.n_columns, self.n_true, replace=False))
        y = self.target(X[:, true_columns])
        if y.dtype.kind == "f":
            y = y + NOISE * y.std() * rng.standard_normal(len(y))
        fit, test = slice(0, self.n_rows), slice(self.n_rows, None)
        return Problem(X[fit], y[fit], X[test], y[test]), true_columns


DESIGNS = {
    "ring": Design(ring, 3, 600, 200),
    "xor": Design(xor, 2, 2000, 500),
    "product-32": Design(product, 2, 500, 32),
    "product-100": Design(product, 2, 2000, 100),
    "product-500": Design(product, 2, 8000, 500),
    "two-products": Design(two_products, 4, 4000, 100),
    "sine-32": Design(sine, 2, 1000, 32),
    "sine-100": Design(sine, 2, 4000, 100),
    "sine-500": Design(sine, 2, 8000, 500),
    "sine-uniform": Design(full_sine, 2, 8192, 32, uniform),
    "plateau": Design(plateau, 2, 8192, 32, uniform),
}

# --- fits -----------------------------------------------------------------------------------------------------------------


def fit(system: str, problem: Problem, true_columns: np.ndarray, budget: int, seed: int) -> Outcome:
    if system == OURS:
        return fit_ours(problem, budget, seed)
    if system == FOREST_ON_TRUE:
        return fit_peer_on(true_columns, "forest", problem, seed)
    return fit_peer(system, problem, budget, seed)


def measure(name: str, draw: int, system: str) -> dict[str, Any]:
    """One line of the file of results."""
    problem, true_columns = DESIGNS[name].draw(draw)
    outcome = fit(system, problem, true_columns, DESIGNS[name].budget, draw)
    return {
        "design": name,
        "draw": draw,
        "system": system,
        "found": int(np.isin(true_columns, outcome.columns).sum()),
        "columns": len(outcome.columns),
        "score": outcome.score,
        "seconds": outcome.seconds,
    }


def run(names: list[str], n_draws: int, systems: list[str], n_jobs: int) -> None:
    """Fit what is in neither file yet."""
    done = {(row["design"], row["draw"], row["system"]) for row in all_rows()}
    tasks = [(name, draw, system) for name in names for draw in range(n_draws) for system in systems]
    for row in side_by_side(measure, [task for task in tasks if task not in done], n_jobs):
        append_row(RESULTS if row["system"] == OURS else PEER_RESULTS, row)
        print("{design}, draw {draw}, {system}: {seconds:.1f} s".format(**row), flush=True)


def all_rows() -> list[dict[str, Any]]:
    return read_rows(RESULTS) + read_rows(PEER_RESULTS)


# --- table ----------------------------------------------------------------------------------------------------------------


def found_all(rows: list[dict[str, Any]], design: Design) -> str:
    return f"{sum(row['found'] == design.n_true for row in rows)} of {len(rows)}"


def table_line(name: str, rows: list[dict[str, Any]], peers: list[str]) -> str:
    """What the table says of a design; rows are those of this design, and draws are paired."""
    design = DESIGNS[name]
    of_system = {
        system: sorted((row for row in rows if row["system"] == system), key=lambda row: row["draw"])
        for system in (OURS, FOREST_ON_TRUE, *peers)
    }
    ours = of_system[OURS]
    scores, told = (np.array([row["score"] for row in of_system[system]]) for system in (OURS, FOREST_ON_TRUE))
    cells = [
        f"{design.n_rows:,} x {design.n_columns}",
        f"{design.n_true}, {design.budget}",
        found_all(ours, design),
        f"{np.mean([row['columns'] for row in ours]):.1f}",
        f"{scores.mean():.3f}",
        f"{told.mean():.3f}",
        mean_and_error(scores - told, signed=True),
        *(found_all(of_system[peer], design) for peer in peers),
        f"{np.mean([row['seconds'] for row in ours]):.1f}",
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def print_table(rows: list[dict[str, Any]], names: list[str], peers: list[str]) -> None:
    heads = [
        "design",
        "rows x columns",
        "true columns, budget",
        "all found",
        "columns chosen",
        "AUC or R2",
        FOREST_ON_TRUE,
    ]
    heads += ["difference", *(f"all found by {peer}" for peer in peers), "seconds per fit"]
    print("\n| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for name in names:
        print(table_line(name, [row for row in rows if row["design"] == name], peers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--peers", nargs="*", default=["forest", "lightgbm"], choices=PEERS)
    options = parser.parse_args()
    if options.draws < 1:
        parser.error(f"--draws {options.draws}: give 1 or more, such as 10.")
    run(options.designs, options.draws, [OURS, FOREST_ON_TRUE, *options.peers], options.jobs)
    rows = [row for row in all_rows() if row["draw"] < options.draws]
    print_table(rows, options.designs, options.peers)


if __name__ == "__main__":
    main()
