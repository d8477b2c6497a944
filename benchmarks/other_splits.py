"""Our columns and those of forests and boosting, on other random splits than the paper's: is a difference chance, or is it real?

``SKINNYTREES_DATA=... python -m benchmarks.other_splits --splits 5`` prints, for each set and on average, test AUC and log-loss
of every system on our columns and on as many of its own, with paired differences; ours is fitted on XGBoost's columns instead.
Default fits with a budget of 25 % of the columns, ``refit=False``; split seeds 100, 101, ... Results are appended to
``benchmarks/results/other_splits.csv``, and those already there are not repeated. Needs the extra ``baselines``.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from benchmarks import peers
from benchmarks.result_files import append_row, read_rows
from benchmarks.ten_sets import BUDGET, SELECTORS, SETS
from skinnytrees import SkinnyTreesClassifier
from skinnytrees.datasets import PublishedData, load

FIRST_SEED = 100
RESULTS = Path("benchmarks/results/other_splits.csv")
OURS = "skinnytrees"
SYSTEMS = (OURS, *SELECTORS)
MEASURES = {"auc": "test AUC in %", "log_loss": "test log-loss"}


def our_fit(data: PublishedData, columns: np.ndarray, **parameters: Any) -> SkinnyTreesClassifier:
    model = SkinnyTreesClassifier(refit=False, random_state=0, **parameters)
    return model.fit(data.X_train[:, columns], data.y_train, X_val=data.X_val[:, columns], y_val=data.y_val)


def judge(system: str, data: PublishedData, columns: np.ndarray) -> dict[str, float]:
    """Fit a system on these columns alone and judge it by the test rows."""
    model = our_fit(data, columns, size_rule="full") if system == OURS else peers.fit(system, data, columns)
    X = peers.test_rows(data, columns)
    return {
        "auc": peers.test_auc(model, X, data.y_test),
        "log_loss": log_loss(data.y_test, peers.probabilities(model, X), labels=np.unique(data.y_train)),
    }


def run_split(name: str, seed: int) -> None:
    data = load(name, seed)
    everything = np.arange(data.X_train.shape[1])
    ours = np.flatnonzero(our_fit(data, everything, feature_budget=BUDGET).support_)
    rankings = {peer: peers.by_importance(peer, data) for peer in SELECTORS}
    for system in SYSTEMS:
        theirs = np.sort(rankings["xgb" if system == OURS else system][: len(ours)])
        for whose, columns in (("ours", ours), ("theirs", theirs)):
            key = {"set": name, "seed": seed, "system": system, "whose": whose, "columns": len(columns)}
            append_row(RESULTS, {**key, **judge(system, data, columns)})


def values(rows: list[dict[str, Any]], name: str, system: str, whose: str, measure: str) -> np.ndarray:
    return np.array([
        row[measure] for row in rows if (row["set"], row["system"], row["whose"]) == (name, system, whose)
    ])  # fmt: skip


def print_tables(rows: list[dict[str, Any]], names: list[str]) -> None:
    for measure, title in MEASURES.items():
        print(f"\n| {title}: on our columns, on its own, difference | " + " | ".join(SYSTEMS) + " |")
        print("|---" * (len(SYSTEMS) + 1) + "|")
        summary: dict[str, list[tuple[float, float, float]]] = {system: [] for system in SYSTEMS}
        for name in names:
            for system in SYSTEMS:
                ours, theirs = (values(rows, name, system, whose, measure) for whose in ("ours", "theirs"))
                error = np.std(ours - theirs, ddof=1) / np.sqrt(len(ours)) if len(ours) > 1 else np.nan
                summary[system].append((ours.mean(), theirs.mean(), error))
            print(f"| {name} | " + " | ".join(in_words(*summary[system][-1]) for system in SYSTEMS) + " |")
        means = {system: np.array(found) for system, found in summary.items()}
        cells = [
            in_words(*found[:, :2].mean(axis=0), np.sqrt(np.sum(found[:, 2] ** 2)) / len(found))
            for found in means.values()
        ]
        print("| **mean** | " + " | ".join(cells) + " |")


def in_words(ours: float, theirs: float, error: float) -> str:
    return f"{ours:.3f}, {theirs:.3f}, {ours - theirs:+.3f} ± {error:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    if options.splits < 1:
        parser.error(f"--splits {options.splits}: give 1 or more, such as 5.")
    seeds = range(FIRST_SEED, FIRST_SEED + options.splits)
    done = {(row["set"], row["seed"]) for row in read_rows(RESULTS)}
    for name in options.sets:
        for seed in seeds:
            if (name, seed) not in done:
                run_split(name, seed)
        print(f"{name}: done", flush=True)
    print_tables([row for row in read_rows(RESULTS) if row["seed"] in seeds], options.sets)


if __name__ == "__main__":
    main()
