"""Tables and a picture of results on the pool: ours next to the peers, and one setting next to another.

Scores of a (table, budget) are averaged over splits before anything is compared, and R2 below zero counts as zero. The best peer
is the best of forest, XGBoost and LightGBM on that (table, budget); CatBoost is shown beside them. Its log-loss is the lowest
of theirs.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import pool_tables
from benchmarks.pool_fits import DEFAULT_RULE, OURS, PEERS
from benchmarks.result_files import read_rows
from skinnytrees.plots.style import ACCENT, INK, PALE

RIVALS = ("forest", "xgboost", "lightgbm")
# Tables further below the best peer than this many points are listed.
FAR_BELOW = 3.0
# The mean over n splits that share rows has the variance of one split times (1/n + this), not 1/n (Nadeau and Bengio, 2003).
_SHARED_ROWS = pool_tables.TEST_FRACTION / (1 - pool_tables.TEST_FRACTION)

Results = dict[tuple[str, int, int, str], dict[str, Any]]


def read(file: Path, rows: str, label: str, peers_file: Path | None = None) -> Results:
    """Results by (table, seed, budget, system): ours with these settings, and peers of either file."""
    found: Results = {}
    for row in read_rows(file):
        if row["rows"] == rows and str(row["rule"]) == (label if row["system"] == OURS else DEFAULT_RULE):
            found[row["table"], row["seed"], row["budget"], row["system"]] = row
    if rows == "test" and peers_file is not None:
        for row in read_rows(peers_file):
            found.setdefault((row["table"], row["seed"], row["budget"], row["system"]), row)
    return found


class Cube(NamedTuple):
    """Results on one table: by measure and system, an array of (budgets, splits); all systems have the same splits."""

    n_splits: int
    measures: dict[str, dict[str, np.ndarray]]

    def __getitem__(self, measure: str) -> dict[str, np.ndarray]:
        return self.measures[measure]


def cube(results: Results, table: str, systems: Iterable[str]) -> Cube | None:
    """None where the systems have no split in common."""
    keys = [{key[1:3] for key in results if (key[0], key[3]) == (table, system)} for system in systems]
    shared = set.intersection(*keys)
    budgets = sorted({budget for _, budget in shared})
    seeds = sorted(seed for seed in {seed for seed, _ in shared} if all((seed, budget) in shared for budget in budgets))
    if not seeds:
        return None

    def values(system: str, measure: str) -> np.ndarray:
        found = [[results[table, seed, budget, system][measure] for seed in seeds] for budget in budgets]
        numbers = np.array([[np.nan if value == "" else value for value in line] for line in found], dtype=float)
        return np.maximum(numbers, 0.0) if measure == "score" else numbers

    measures = ("score", "log_loss", "seconds")
    return Cube(len(seeds), {measure: {system: values(system, measure) for system in systems} for measure in measures})


def standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def best_of(measured: dict[str, np.ndarray], systems: Iterable[str], choose: Callable[..., Any]) -> np.ndarray:
    """For every budget, the values of the system that is best on average over splits."""
    values = np.array([measured[system] for system in systems])
    winners = choose(values.mean(axis=2), axis=0)
    return values[winners, np.arange(values.shape[1])]


class Kind(NamedTuple):
    """Tables that are summed up together."""

    is_regression: bool
    few_rows: bool

    def __str__(self) -> str:
        rows = f"fewer than {pool_tables.FEW_ROWS} rows" if self.few_rows else "others"
        return f"{'regression' if self.is_regression else 'classification'}, {rows}"


KINDS = tuple(Kind(is_regression, few_rows) for is_regression in (False, True) for few_rows in (True, False))


def kind_of(table: str) -> Kind:
    return Kind(pool_tables.is_regression(table), pool_tables.n_rows(table) < pool_tables.FEW_ROWS)


def groups(tables: Iterable[Any]) -> Iterable[tuple[str, list[Any]]]:
    """Lines of a table or comparison by task and by number of rows, with the name of each group."""
    tables = list(tables)
    for is_regression in (False, True):
        both = [table for table in tables if table.kind.is_regression == is_regression]
        parts = [
            (str(kind), [table for table in both if table.kind == kind])
            for kind in KINDS
            if kind.is_regression == is_regression
        ]
        name = "regression" if is_regression else "classification"
        yield from ((name, part) for name, part in ((f"{name}, all", both), *parts) if part)


# --- next to the peers ----------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """One table; scores and gaps in points."""

    table: str
    kind: Kind
    n_splits: int
    scores: dict[str, float]
    gap: float
    error: float
    log_loss: float
    best_log_loss: float
    seconds: dict[str, float]

    @property
    def error_of_shared_rows(self) -> float:
        """The error if one allows for splits that share most of their rows."""
        return self.error * np.sqrt(1 + self.n_splits * _SHARED_ROWS)


def line(results: Results, table: str) -> Line | None:
    """None where ours or a rival is missing."""
    there = {key[3] for key in results if key[0] == table}
    rivals = [system for system in RIVALS if any(key[3] == system for key in results)]
    if not {OURS, *rivals} <= there or not rivals:
        return None
    found = cube(results, table, [OURS, *rivals])
    if found is None:
        return None
    # CatBoost is shown where it has all of these splits and budgets.
    with_catboost = cube(results, table, [OURS, *rivals, "catboost"])
    if with_catboost is not None and with_catboost["score"][OURS].shape == found["score"][OURS].shape:
        found = with_catboost
    scores = {system: 100 * values for system, values in found["score"].items()}
    gaps = (scores[OURS] - best_of(scores, rivals, np.argmax)).mean(axis=0)
    return Line(
        table,
        kind_of(table),
        found.n_splits,
        {system: float(values.mean()) for system, values in scores.items()},
        float(gaps.mean()),
        standard_error(gaps),
        float(found["log_loss"][OURS].mean()),
        float(best_of(found["log_loss"], rivals, np.argmin).mean()),
        {system: float(values.mean()) for system, values in found["seconds"].items()},
    )


def lines(results: Results, tables: list[str]) -> list[Line]:
    return [one for one in (line(results, table) for table in tables) if one is not None]


def print_report(results: Results, tables: list[str]) -> list[Line]:
    """The lines that were printed."""
    found = lines(results, tables)
    missing = [table for table in tables if table not in {one.table for one in found}]
    if missing:
        print(f"\nNot compared, because ours or a peer is missing on these rows: {', '.join(missing)}.")
    if found:
        systems = [system for system in (OURS, *PEERS) if any(system in one.scores for one in found)]
        print_lines(found, systems)
        print_summary(found, systems[1:])
        print_far_below(found)
    return found


def print_lines(found: list[Line], systems: list[str]) -> None:
    print(f"\n| AUC or R2 in points | splits | {' | '.join(systems)} | gap to the best peer | log-loss | the best peer's | "
          f"seconds |\n{'|---' * (len(systems) + 6)}|")  # fmt: skip
    for one in found:
        scores = " | ".join(f"{one.scores[system]:.1f}" if system in one.scores else "" for system in systems)
        losses = " | " if one.kind.is_regression else f"{one.log_loss:.3f} | {one.best_log_loss:.3f}"
        gap = plus_minus(one.gap, one.error)
        print(f"| {one.table} | {one.n_splits} | {scores} | {gap} | {losses} | {one.seconds[OURS]:.1f} |")


def print_summary(found: list[Line], peers: list[str]) -> None:
    print(f"\n| mean gap in points | tables | {' | '.join(peers)} | the best peer | best peer's log-loss / ours, median | "
          f"seconds, ours |\n{'|---' * (len(peers) + 5)}|")  # fmt: skip
    for name, part in groups(found):
        gaps = [[one.scores[OURS] - one.scores[system] for one in part if system in one.scores] for system in peers]
        cells = [with_error(values) for values in [*gaps, [one.gap for one in part]]]
        ratio = (
            "" if part[0].kind.is_regression else f"{np.median([one.best_log_loss / one.log_loss for one in part]):.2f}"
        )
        seconds = np.mean([one.seconds[OURS] for one in part])
        print(f"| {name} | {len(part)} | {' | '.join(cells)} | {ratio} | {seconds:.1f} |")
    print(
        "\n± is the standard error over tables, above over splits. A gap to CatBoost is over the tables that have it."
    )


def print_far_below(found: list[Line]) -> None:
    far = sorted((one for one in found if one.gap < -FAR_BELOW), key=lambda one: one.gap)
    print(f"\nMore than {FAR_BELOW:.0f} points below the best peer: {len(far) or 'no table'}")
    for one in far:
        shared = (
            f" (± {one.error_of_shared_rows:.1f} allowing for rows that the splits share)" if one.n_splits > 1 else ""
        )
        print(f"- {one.table}: {plus_minus(one.gap, one.error)}{shared}")


def with_error(values: Iterable[float], digits: int = 1) -> str:
    values = np.array([value for value in values if not np.isnan(value)])
    return plus_minus(values.mean(), standard_error(values), digits) if len(values) else ""


def plus_minus(mean: float, error: float, digits: int = 1) -> str:
    return f"{mean:+.{digits}f} ± " + ("?" if np.isnan(error) else f"{error:.{digits}f}")


# --- one setting next to another ------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """New minus old on one table: score in points with its error over splits, and logarithms of ratios, new over old."""

    table: str
    kind: Kind
    n_splits: int
    points: float
    error: float
    log_loss: float
    seconds: float


def difference(new: Results, old: Results, table: str) -> Difference | None:
    paired = {(*key[:3], which): row for which, found in (("new", new), ("old", old)) for key, row in found.items()
              if key[3] == OURS}  # fmt: skip
    found = cube(paired, table, ("new", "old"))
    if found is None:
        return None
    points = 100 * (found["score"]["new"] - found["score"]["old"]).mean(axis=0)

    def log_ratio(measure: str) -> float:
        return float(np.mean(np.log(found[measure]["new"].mean(axis=1) / found[measure]["old"].mean(axis=1))))

    numbers = (float(points.mean()), standard_error(points), log_ratio("log_loss"), log_ratio("seconds"))
    return Difference(table, kind_of(table), found.n_splits, *numbers)


def print_comparison(new: Results, old: Results, tables: list[str], names: tuple[str, str]) -> None:
    found = [one for one in (difference(new, old, table) for table in tables) if one is not None]
    if not found:
        print(f"\nNothing to compare: {names[0]} and {names[1]} have no split in common.")
        return
    print(f"\n| {names[0]} minus {names[1]} | splits | points | log ratio of log-losses | log ratio of seconds |\n"
          "|---|---|---|---|---|")  # fmt: skip
    for one in found:
        loss = "" if one.kind.is_regression else f"{one.log_loss:+.3f}"
        print(
            f"| {one.table} | {one.n_splits} | {plus_minus(one.points, one.error, 2)} | {loss} | {one.seconds:+.2f} |"
        )
    for name, part in groups(found):
        points = with_error([one.points for one in part], 2)
        loss, seconds = with_error([one.log_loss for one in part], 3), with_error([one.seconds for one in part], 2)
        print(f"| **{name}** (tables: {len(part)}) | | {points} | {loss} | {seconds} |")


# --- the picture ------------------------------------------------------------------------------------------------------------


def save_picture(found: list[Line], file: Path) -> None:
    """One line per table: the gap to the best peer, with its standard error over splits."""
    from matplotlib.figure import Figure

    ordered = [
        one for kind in KINDS for one in sorted((one for one in found if one.kind == kind), key=lambda one: -one.gap)
    ]
    figure = Figure(figsize=(7, 1.2 + 0.22 * len(ordered)), layout="constrained")
    ax = figure.subplots()
    ax.axvline(0, color=INK, linewidth=0.8)
    for kind in KINDS:
        at = [k for k, one in enumerate(ordered) if one.kind == kind]
        if not at:
            continue
        colour = ACCENT if kind.is_regression else INK
        ax.errorbar([ordered[k].gap for k in at], at, xerr=[np.nan_to_num(ordered[k].error) for k in at], fmt="o", color=colour,
                    markerfacecolor="white" if kind.few_rows else colour, markersize=5, linewidth=1.2,
                    label=f"{kind}: mean {np.mean([ordered[k].gap for k in at]):+.1f}")  # fmt: skip
        ax.axhline(at[-1] + 0.5, color=PALE, linewidth=0.6)
    ax.set_yticks(range(len(ordered)), [one.table for one in ordered], fontsize=8)
    ax.set_ylim(len(ordered) - 0.5, -0.5)
    ax.set_xlabel(
        "gap to the best of forest, XGBoost and LightGBM, in points of AUC or R2\n(bars: ± one standard error over splits)",
        fontsize=8,
    )
    ax.grid(axis="x", color=PALE, alpha=0.4, linewidth=0.6)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    figure.legend(frameon=False, fontsize=8, loc="outside upper center", ncols=2)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)
