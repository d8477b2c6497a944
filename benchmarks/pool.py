"""Default fits on a pool of real tables at small budgets, next to a forest and boosting cut to their own top columns.

``SKINNYTREES_DATA=... python -m benchmarks.pool`` fits every table in the folder ``pool`` of that folder (ten splits of tables
with fewer than 1,000 rows, three of the others; budgets of 5, 10 and min(20, 25 % of the columns)) and prints the tables.
Results are appended to ``benchmarks/results/pool.csv``, and those already there are not repeated, so an interrupted run can be
continued. Peers are read from a file of theirs if there is one; ``--systems`` computes them.

``--set-rule name=value`` fits with another setting and ``--compare`` prints the paired differences from the default. Choose
between settings with ``--inner``: it splits the training rows once more and leaves the test rows alone.
"""

import argparse
import ast
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import joblib

from benchmarks import pool_report, pool_tables
from benchmarks.pool_fits import (
    DEFAULT_RULE,
    MOST_SECONDS,
    OURS,
    SYSTEMS,
    Task,
    load,
    new_estimator,
    run_task,
    seconds_of_catboost,
    with_rules,
)
from benchmarks.result_files import append_row, read_rows
from skinnytrees.datasets import data_folder

RESULTS = Path("benchmarks/results/pool.csv")


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """What the options ask for and the file does not hold."""
    done = {
        (row["table"], row["rows"], str(row["rule"]), row["seed"], row["system"], row["budget"])
        for row in read_rows(options.results)
    }
    n_threads = 1 if options.jobs > 1 else None
    for name in options.tables:
        table = load(name)
        budgets = [budget for budget in options.budgets or table.budgets() if budget <= table.X.shape[1]]
        for seed, system in product(table.seeds(options.seeds), options.systems):
            rule, settings = (options.label, options.settings) if system == OURS else (DEFAULT_RULE, {})
            fit = (name, options.rows, rule, seed, system)
            missing = [budget for budget in budgets if (*fit, budget) not in done]
            # Our fits are tasks of their own, so that the processes finish at about the same time.
            parts = [[budget] for budget in missing] if system == OURS else [missing]
            yield from (Task(*fit, tuple(part), settings, n_threads) for part in parts if part)


def without_slow_catboost(wanted: list[Task]) -> list[Task]:
    names = dict.fromkeys(task.table for task in wanted if task.system == "catboost")
    seconds = {name: seconds_of_catboost(name) for name in names}
    for name in names:
        if seconds[name] > MOST_SECONDS:
            print(f"{name}: no CatBoost, which would take about {seconds[name]:.0f} s per fit", flush=True)
    return [task for task in wanted if task.system != "catboost" or seconds[task.table] <= MOST_SECONDS]


def run(options: argparse.Namespace) -> None:
    wanted = without_slow_catboost(list(tasks(options)))
    parallel = joblib.Parallel(options.jobs, return_as="generator_unordered")
    done = parallel(joblib.delayed(run_task)(task) for task in wanted)
    for n, (task, rows, problem) in enumerate(done, 1):
        for row in rows:
            append_row(options.results, row)
        at = f"{n}/{len(wanted)} {task.table} {task.system} seed {task.seed}"
        if problem:
            print(f"{at} failed: {problem}", flush=True)
        for row in rows:
            print(f"{at} budget {row['budget']}: {row['score']:.4f} in {row['seconds']:.1f} s", flush=True)


def parsed_setting(text: str) -> tuple[str, Any]:
    name, is_setting, value = text.partition("=")
    if not is_setting:
        raise argparse.ArgumentTypeError(f"{text!r} has no value. Write name=value, such as validation_fraction=None.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def parsed_options(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", help="names of tables, all by default")
    parser.add_argument("--seeds", type=int, help="at most this many splits of each table")
    parser.add_argument("--budgets", nargs="*", type=int, help="in place of those of the protocol")
    parser.add_argument("--systems", nargs="*", default=[OURS], choices=SYSTEMS, help="what to fit")
    parser.add_argument("--jobs", type=int, default=1, help="processes; with several, each fit has one thread")
    parser.add_argument("--inner", dest="rows", action="store_const", const="inner", default="test",
                        help="split the training rows once more, and leave the test rows alone")  # fmt: skip
    parser.add_argument("--set-rule", action="append", default=[], type=parsed_setting, metavar="NAME=VALUE")
    parser.add_argument("--label", help="name of the settings in the results; by default, the settings themselves")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--peers-file", type=Path, help="results of the peers; by default ../reference/pool_peers.csv, "
                        "seen from SKINNYTREES_DATA")  # fmt: skip
    parser.add_argument("--report-only", action="store_true", help="fit nothing; print what the file holds")
    parser.add_argument("--compare", metavar="LABEL", help="print differences between these settings and --against")
    parser.add_argument("--against", metavar="LABEL", default=DEFAULT_RULE)
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the gap to the best peer of every table")
    options = parser.parse_args(arguments)
    options.settings = dict(options.set_rule)
    options.label = options.label or ", ".join(f"{k}={v}" for k, v in sorted(options.settings.items())) or DEFAULT_RULE
    known = pool_tables.names()
    unknown = set(options.tables or ()) - set(known)
    if unknown:
        parser.error(f"--tables {' '.join(sorted(unknown))}: not in the pool. Known: {', '.join(known)}.")
    options.tables = options.tables or known
    try:
        for name in options.tables:
            with_rules(new_estimator(name), options.settings)
    except ValueError as error:
        parser.error(str(error))
    options.peers_file = options.peers_file or data_folder().parent / "reference" / "pool_peers.csv"
    return options


def report(options: argparse.Namespace) -> None:
    """Differences where they are asked for or other settings were fitted, and otherwise the tables next to the peers."""

    def read(label: str) -> pool_report.Results:
        return pool_report.read(options.results, options.rows, label, options.peers_file)

    new = options.compare or options.label
    if new != options.against:
        pool_report.print_comparison(read(new), read(options.against), options.tables, (new, options.against))
    if options.compare is None:
        lines = pool_report.print_report(read(options.label), options.tables)
        if options.picture is not None and lines:
            pool_report.save_picture(lines, options.picture)


def main() -> None:
    options = parsed_options()
    if not options.report_only and options.compare is None:
        run(options)
    report(options)


if __name__ == "__main__":
    main()
