"""Columns added to real tables in the three ways of Cherepanova et al. (NeurIPS 2023): who keeps the original ones?

``SKINNYTREES_DATA=... python -m benchmarks.added_columns`` adds to five tables in the folder ``pool`` until one half, and then
three quarters, of all columns are added ones; ``--tables``, ``--ways``, ``--seeds`` and ``--peers`` take some only, ``--jobs 2``
makes two fits side by side. The ways, as in the public code of "A Performance-Driven Benchmark for Feature Selection in Tabular
Deep Learning":

- random: standard normal noise;
- corrupted: half of a column, drawn with replacement, plus half of as much normal noise (of the column's standard deviation);
- second-order: the product of two columns, both drawn with replacement and not scaled, so squares and repetitions occur.

Columns are added and shuffled anew for every seed, so that ties in importance favour nobody; their code adds one fixed draw at
the end. Splits are those of the pool: a fifth of the rows judges, stratified by class.

The tables have numeric columns, as that benchmark does, none of them constant or with missing values (a constant column and its
copies could not be told from each other), and few enough that a fit on four times as many takes seconds. They differ in what
matters here: few rows with 60 columns (pmlb-sonar) or 130 (alzheimer-csf), thousands of rows with skewed columns
(pmlb-spambase, reg-uci-skillcraft), and a small panel of ten columns (reg-diabetes). Not every original column is useful, so the
fraction that is kept can be compared between systems but need not approach one.

The budget is the original number of columns. Peers use all of it; our default may choose fewer columns, which would make the
fraction of originals among all originals incomparable. So that fraction is to be read for ``size_rule="full"``, which keeps as
many columns as the peers do, while scores are shown for both. R2 below zero counts as zero.

Fits are appended to ``benchmarks/results/added_columns.csv``, those of peers to ``added_columns_peers.csv``, and those already
there are not repeated. After a change of the package, remove the first file. Needs the extra ``baselines``.
"""

import argparse
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks import pool_tables
from benchmarks.budget_fits import OURS, PEERS, Problem, fit_ours, fit_peer, mean_and_error, side_by_side
from benchmarks.result_files import append_row, read_rows

TABLES = ("pmlb-sonar", "alzheimer-csf", "pmlb-spambase", "reg-diabetes", "reg-uci-skillcraft")
FRACTIONS = (0.5, 0.75)
RESULTS = Path("benchmarks/results/added_columns.csv")
PEER_RESULTS = RESULTS.with_name("added_columns_peers.csv")
OURS_FULL = f"{OURS}, full"
# Weight of the noise in a corrupted copy.
CORRUPTION = 0.5

# --- data -----------------------------------------------------------------------------------------------------------------


def random_columns(X: np.ndarray, n_added: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((len(X), n_added))


def corrupted_copies(X: np.ndarray, n_added: int, rng: np.random.Generator) -> np.ndarray:
    copies = X[:, rng.integers(X.shape[1], size=n_added)]
    noise = copies.std(axis=0) * rng.standard_normal(copies.shape)
    return (1 - CORRUPTION) * copies + CORRUPTION * noise


def second_order(X: np.ndarray, n_added: int, rng: np.random.Generator) -> np.ndarray:
    first, second = rng.integers(X.shape[1], size=(2, n_added))
    return X[:, first] * X[:, second]


WAYS: dict[str, Callable[[np.ndarray, int, np.random.Generator], np.ndarray]] = {
    "random": random_columns,
    "corrupted": corrupted_copies,
    "second-order": second_order,
}


def with_added_columns(X: np.ndarray, way: str, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The table in which this fraction of the columns is added, in random order, and which columns are original."""
    rng = np.random.default_rng(seed)
    n_original = X.shape[1]
    added = WAYS[way](X, round(n_original * fraction / (1 - fraction)), rng)
    order = rng.permutation(n_original + added.shape[1])
    return np.column_stack([X, added])[:, order], order < n_original


def split(X: np.ndarray, y: np.ndarray, seed: int) -> Problem:
    stratify = None if y.dtype.kind == "f" else y
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.2, stratify=stratify, random_state=seed)
    return Problem(X_fit, y_fit, X_test, y_test)


# --- fits -----------------------------------------------------------------------------------------------------------------


def measure(table: str, way: str, fraction: float, seed: int, system: str) -> dict[str, Any]:
    """One line of the file of results."""
    X, y = pool_tables.load(table)[1:]
    X = X.astype(float)
    budget = X.shape[1]
    X, is_original = with_added_columns(X, way, fraction, seed)
    problem = split(X, y, seed)
    if system in PEERS:
        outcome = fit_peer(system, problem, budget, seed)
    else:
        outcome = fit_ours(problem, budget, seed, size_rule="full" if system == OURS_FULL else "best")
    return {
        "table": table,
        "way": way,
        "fraction": fraction,
        "seed": seed,
        "system": system,
        "columns": len(outcome.columns),
        "originals": float(is_original[outcome.columns].sum() / budget),
        "score": max(outcome.score, 0.0),
        "seconds": outcome.seconds,
    }


def run(tables: list[str], ways: list[str], seeds: range, systems: list[str], n_jobs: int) -> None:
    """Fit what is in neither file yet."""
    done = {tuple(row[field] for field in ("table", "way", "fraction", "seed", "system")) for row in all_rows()}
    tasks = [task for task in product(tables, ways, FRACTIONS, seeds, systems) if task not in done]
    for row in side_by_side(measure, tasks, n_jobs):
        append_row(PEER_RESULTS if row["system"] in PEERS else RESULTS, row)
        print("{table}, {way}, {fraction:.0%}, seed {seed}, {system}: {seconds:.1f} s".format(**row), flush=True)


def all_rows() -> list[dict[str, Any]]:
    return read_rows(RESULTS) + read_rows(PEER_RESULTS)


# --- tables ---------------------------------------------------------------------------------------------------------------


def values(rows: list[dict[str, Any]], case: tuple[str, str, float], system: str, measured: str) -> np.ndarray:
    """What was measured over the seeds of a table, a way and a fraction."""
    chosen = [row for row in rows if (row["table"], row["way"], row["fraction"], row["system"]) == (*case, system)]
    return np.array([row[measured] for row in sorted(chosen, key=lambda row: row["seed"])])


def gap(rows: list[dict[str, Any]], case: tuple[str, str, float], ours: str, peers: list[str], measured: str) -> float:
    """Ours minus the best peer, each averaged over seeds first."""
    return values(rows, case, ours, measured).mean() - max(values(rows, case, peer, measured).mean() for peer in peers)


def print_cases(rows: list[dict[str, Any]], tables: list[str], ways: list[str], systems: list[str]) -> None:
    """For every table: the score and the fraction of original columns, means over seeds and their standard errors."""
    for measured, title in (("score", "AUC or R2"), ("originals", "original columns kept")):
        print(f"\n| {title} | added | " + " | ".join(systems) + " |\n" + "|---" * (len(systems) + 2) + "|")
        for table, way, fraction in product(tables, ways, FRACTIONS):
            cells = [mean_and_error(values(rows, (table, way, fraction), system, measured)) for system in systems]
            print(f"| {table} | {way}, {fraction:.0%} | " + " | ".join(cells) + " |")


def print_summary(rows: list[dict[str, Any]], tables: list[str], ways: list[str], peers: list[str]) -> None:
    """For every way: ours minus the best peer per table, mean over tables and its standard error over tables."""
    comparisons = ((OURS, "score"), (OURS_FULL, "score"), (OURS_FULL, "originals"))
    print("\n| minus the best peer per table | default, score | full, score | full, original columns kept |")
    print("|---|---|---|---|")
    for way, fraction in product(ways, FRACTIONS):
        gaps = [[gap(rows, (table, way, fraction), ours, peers, measured) for table in tables]
                for ours, measured in comparisons]  # fmt: skip
        print(f"| {way}, {fraction:.0%} | " + " | ".join(mean_and_error(each, signed=True) for each in gaps) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: give 1 or more, such as 3.")
    seeds = range(1, options.seeds + 1)
    systems = [OURS, OURS_FULL, *options.peers]
    run(options.tables, options.ways, seeds, systems, options.jobs)
    rows = [row for row in all_rows() if row["seed"] in seeds]
    print_cases(rows, options.tables, options.ways, systems)
    if options.peers:
        print_summary(rows, options.tables, options.ways, options.peers)


if __name__ == "__main__":
    main()
