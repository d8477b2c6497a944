"""All systems on eight real tables by ``skinnytrees.compare``: the figures, tables and picture of docs/compared.md.

    SKINNYTREES_DATA=... taskset -c 0 python -m benchmarks.compare_real --time-limit 600
    python -m benchmarks.compared_report

Three sets of the paper (its splits: training and validation rows learn, test rows judge; a budget of 25 % of the columns), and
five tables of the pool (its protocol: the split of seed 1, a budget of min(20, 25 % of the columns)). Of the pool, each of five
kinds has the table with the most rows that no kind before it has: any kind; at least ten columns per row; at least ten classes;
numbers as target with at least 80 columns; all columns categorical, of more than two levels (given as such).

Every fit is appended to ``benchmarks/results/compared/TABLE.jsonl``, and what is there is not run again. A first run may have a
low time limit: a later one with a higher limit repeats what was stopped, and nothing else. ``docs/results/compared.csv`` holds
the figures.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import PredefinedSplit, train_test_split

from benchmarks import pool_tables
from skinnytrees import compare
from skinnytrees.baselines import available_systems
from skinnytrees.comparison import Comparison
from skinnytrees.datasets import load

PAPER_SETS = ("mice-protein", "madelon", "tox-171")
POOL_TABLES = (
    "pmlb-soybean",
    "reg-residential-building",
    "microarray-gravier",
    "pmlb-mfeat_pixel",
    "reg-uci-elevators",
)
CATEGORICAL = ("pmlb-soybean",)
TABLES = (*POOL_TABLES[:3], "mice-protein", "tox-171", "madelon", *POOL_TABLES[3:])
# Systems that took minutes on 1,000 rows and 500 columns go last, so that a stopped run has most of the figures.
SLOW = ("permutation", "relieff", "stg", "deep_lasso", "boruta", "tao", "dfs", "algnet", "lassonet")
SEED, BUDGET, MOST_COLUMNS = 1, 0.25, 20

ROOT = Path(__file__).parent.parent
RAW = ROOT / "benchmarks" / "results" / "compared"
FIGURES = ROOT / "docs" / "results" / "compared.csv"
STOPPED = "stopped after "


class RealTable(NamedTuple):
    """A table, the rows that judge, and the number of columns that systems may use."""

    X: Any
    y: np.ndarray
    judges: np.ndarray
    budget: int

    @property
    def cv(self) -> PredefinedSplit:
        return PredefinedSplit(np.where(self.judges, 0, -1))

    @property
    def task(self) -> str:
        return "regression" if self.y.dtype.kind == "f" else "classification"


def read_table(name: str) -> RealTable:
    return paper_set(name) if name in PAPER_SETS else pool_table(name)


def paper_set(name: str) -> RealTable:
    data = load(name)
    X = np.vstack([data.X_train, data.X_val, data.X_test])
    y = np.concatenate([data.y_train, data.y_val, data.y_test])
    return RealTable(X, y, np.arange(len(y)) >= len(y) - len(data.y_test), int(BUDGET * X.shape[1]))


def pool_table(name: str) -> RealTable:
    table = pool_tables.load(name)
    rows, stratify = np.arange(len(table.y)), None if table.is_regression else table.y
    _, judges = train_test_split(rows, test_size=pool_tables.TEST_FRACTION, stratify=stratify, random_state=SEED)
    X = as_categories(table.X) if name in CATEGORICAL else table.X
    return RealTable(X, table.y, np.isin(rows, judges), min(MOST_COLUMNS, int(BUDGET * table.X.shape[1])))


def as_categories(codes: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(codes.astype(str), columns=[f"column {k}" for k in range(codes.shape[1])]).astype("category")


def systems_for(table: RealTable) -> list[str]:
    n_classes = len(np.unique(table.y)) if table.task == "classification" else None
    names = available_systems(table.task, n_classes)
    return ["skinnytrees", *(name for name in names if name not in SLOW), *(name for name in SLOW if name in names)]


def results_file(name: str) -> Path:
    return RAW / f"{name}.jsonl"


def run(name: str, time_limit: float, left_out: Sequence[str]) -> Comparison:
    table, file = read_table(name), results_file(name)
    systems = [system for system in systems_for(table) if system not in left_out]
    file.parent.mkdir(parents=True, exist_ok=True)
    forget_stopped(file, time_limit)
    return compare(
        table.X, table.y, systems, [table.budget], cv=table.cv, task=table.task, time_limit=time_limit,
        results_file=file, verbose=1,
    )  # fmt: skip


def forget_stopped(file: Path, time_limit: float) -> None:
    """Remove the lines of fits that were stopped at a lower limit, so that they run again."""
    if not file.exists():
        return
    lines = file.read_text().splitlines()
    kept = [line for line in lines if not was_stopped_below(line, time_limit)]
    if len(kept) < len(lines):
        file.write_text("".join(f"{line}\n" for line in kept))


def was_stopped_below(line: str, time_limit: float) -> bool:
    try:
        error = json.loads(line).get("result", {}).get("error", "")
    except ValueError:
        return False
    return error.startswith(STOPPED) and float(error.removeprefix(STOPPED).removesuffix(" s")) < time_limit


def finished_rows(name: str) -> Iterator[dict[str, Any]]:
    """What the results file of a table holds, without fitting anything."""
    file = results_file(name)
    lines = file.read_text().splitlines()[1:] if file.exists() else []
    for record in map(json.loads, lines):
        system, budget, *_ = record["key"].split(" | ")
        yield {"table": name, "system": system, "budget": int(budget), **record["result"]}


def all_rows(name: str) -> list[dict[str, Any]]:
    """One row per system, also for those that were not run yet."""
    found, table = list(finished_rows(name)), read_table(name)
    known = {row["system"] for row in found}
    waiting = [system for system in systems_for(table) if system not in known]
    return found + [{"table": name, "system": one, "budget": table.budget, "error": "not run"} for one in waiting]


COLUMNS = (
    "table",
    "system",
    "budget",
    "n_features",
    "score",
    "score_common",
    "log_loss",
    "seconds",
    "peak_memory",
    "error",
)


def write_figures(names: tuple[str, ...]) -> None:
    import pandas as pd

    frame = pd.DataFrame([row for name in names for row in all_rows(name)], columns=list(COLUMNS))
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    frame.round({"score": 5, "score_common": 5, "log_loss": 5, "seconds": 2}).to_csv(FIGURES, index=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", default=TABLES, choices=TABLES)
    parser.add_argument("--time-limit", type=float, default=600, help="seconds per fit")
    parser.add_argument("--leave-out", nargs="*", default=[], help="systems that wait for a later run")
    options = parser.parse_args()
    for name in options.tables:
        print(f"{name}: {run(name, options.time_limit, options.leave_out).in_words()}", flush=True)
        write_figures(TABLES)


if __name__ == "__main__":
    main()
