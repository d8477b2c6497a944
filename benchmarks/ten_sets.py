"""Default fits on the paper's data sets at a budget of 25 % of the columns, next to untuned peers in the same run.

``SKINNYTREES_DATA=... python -m benchmarks.ten_sets --peers rf xgb lgbm cat lassonet --as-selector`` prints the tables of the
README and writes them to ``benchmarks/results/ten_sets.csv``. The paper's splits; ``refit=False``, so that validation rows
only choose. ``peers.py`` says how a peer meets the budget; CatBoost and LassoNet are stopped when they have taken 21 times as
long as our fit. With ``--as-selector``, forests and boosting are also fitted on the columns of each of our fits, and on as many
of their own.
"""

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from benchmarks import peers
from skinnytrees import SkinnyTreesClassifier
from skinnytrees.datasets import load

SETS = ("lung", "tox-171", "arcene", "dorothea", "churn", "satimage", "texture", "mice-protein", "madelon", "isolet")
PAPER = (99.80, 99.74, 80.80, 90.87, 91.38, 98.05, 99.97, 99.59, 94.14, 99.94)
BUDGET = 0.25
# Slow peers get this many times as long as our fit.
PATIENCE = 21
SELECTORS = ("rf", "xgb", "lgbm")
RESULTS = Path("benchmarks/results/ten_sets.csv")


def run_set(name: str, n_seeds: int, names: list[str], as_selector: bool) -> list[dict[str, Any]]:
    data = load(name)
    rows: list[dict[str, Any]] = []

    def add(system: str, seed: int, n_columns: int, auc: float, seconds: float) -> None:
        rows.append(
            {"set": name, "system": system, "seed": seed, "columns": n_columns, "test_auc": auc, "seconds": seconds}
        )

    supports = []
    for seed in range(n_seeds):
        started = time.perf_counter()
        model = SkinnyTreesClassifier(BUDGET, refit=False, random_state=seed)
        model.fit(data.X_train, data.y_train, X_val=data.X_val, y_val=data.y_val)
        seconds = time.perf_counter() - started
        add("skinnytrees", seed, model.n_features_selected_, peers.test_auc(model, data.X_test, data.y_test), seconds)
        supports.append(np.flatnonzero(model.support_))
    n_allowed = int(BUDGET * data.X_train.shape[1])
    limit = PATIENCE * np.mean([row["seconds"] for row in rows])
    for peer in names:
        quick = peer in SELECTORS
        result = peers.run(peer, data, n_allowed) if quick else peers.run_within(peer, name, n_allowed, limit)
        add(peer, 0, n_allowed, *result)
        if as_selector and quick:
            ranking = peers.by_importance(peer, data)
            own = {n: peers.auc_on(peer, data, np.sort(ranking[:n])) for n in {len(support) for support in supports}}
            for seed, ours in enumerate(supports):
                add(f"{peer} on our columns", seed, len(ours), peers.auc_on(peer, data, ours), np.nan)
                add(f"{peer} on as many of its own", seed, len(ours), own[len(ours)], np.nan)
    return rows


def load_kernels() -> None:
    """Compile, or load from the cache, what the fits below will call, so that it does not count for the first of them."""
    X, y = load_breast_cancer(return_X_y=True)
    SkinnyTreesClassifier(3, max_epochs=1, random_state=0).fit(X, y).predict_proba(X)


def print_table(rows: list[dict[str, Any]]) -> None:
    systems = list(dict.fromkeys(row["system"] for row in rows))
    names = list(dict.fromkeys(row["set"] for row in rows))

    def values(name: str, system: str, what: str) -> list[float]:
        return [row[what] for row in rows if row["set"] == name and row["system"] == system]

    print("\n| test AUC in % | paper | " + " | ".join(systems) + " | our columns |")
    print("|---" * (len(systems) + 3) + "|")
    for name in names:
        cells = []
        for system in systems:
            aucs = values(name, system, "test_auc")
            spread = f" ± {np.std(aucs):.2f}" if len(aucs) > 1 else ""
            cells.append("stopped" if np.isnan(aucs[0]) else f"{np.mean(aucs):.2f}" + spread)
        columns = values(name, "skinnytrees", "columns")
        print(f"| {name} | {PAPER[SETS.index(name)]:.2f} | {' | '.join(cells)} | {min(columns)} to {max(columns)} |")
    means = [np.mean([np.mean(values(name, system, "test_auc")) for name in names]) for system in systems]
    paper = np.mean([PAPER[SETS.index(name)] for name in names])
    # A system that was stopped somewhere has no mean.
    print(f"| **mean** | {paper:.2f} | " + " | ".join("" if np.isnan(m) else f"{m:.2f}" for m in means) + " | |")

    timed = [system for system in systems if not np.isnan(values(names[0], system, "seconds")[0])]
    print("\n| seconds (times ours) | " + " | ".join(timed) + " |")
    print("|---" * (len(timed) + 1) + "|")
    seconds = np.array([[np.mean(values(name, system, "seconds")) for system in timed] for name in names])
    stopped = np.array([[np.isnan(values(name, system, "test_auc")[0]) for system in timed] for name in names])
    seconds, stopped = np.vstack([seconds, seconds.sum(axis=0)]), np.vstack([stopped, stopped.any(axis=0)])
    for name, line, unfinished in zip([*names, "**total**"], seconds, stopped, strict=True):
        cells = [
            f"{'over ' if at_least else ''}{value:.1f} ({value / line[0]:.1f})" if system > 0 else f"{value:.1f}"
            for system, (value, at_least) in enumerate(zip(line, unfinished, strict=True))
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--peers", nargs="*", default=[], choices=peers.NAMES)
    parser.add_argument("--as-selector", action="store_true")
    options = parser.parse_args()
    load_kernels()
    rows: list[dict[str, Any]] = []
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        rows.extend(run_set(name, options.seeds, options.peers, options.as_selector))
        for row in rows[-1:]:
            print(f"{row['set']}: done", flush=True)
        with RESULTS.open("w", newline="") as file:
            table = csv.DictWriter(file, rows[0].keys())
            table.writeheader()
            table.writerows(rows)
    print_table(rows)


if __name__ == "__main__":
    main()
