"""Default fits on the paper's data sets at a budget of 25 % of the columns, next to untuned peers in the same run.

``SKINNYTREES_DATA=... python -m benchmarks.ten_sets --seeds 5 --peers rf xgb lgbm`` prints the table of the README and
writes it to ``benchmarks/results/ten_sets.csv``. The paper's splits; ``refit=False``, so that validation rows only choose.
A peer is fitted on the training rows, cut to its own top columns by importance and fitted again; with ``--as-selector``
it is also fitted on our columns, and on as many of its own.
"""

import argparse
import csv
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from skinnytrees import SkinnyTreesClassifier
from skinnytrees.datasets import PublishedData, load

SETS = ("lung", "tox-171", "arcene", "dorothea", "churn", "satimage", "texture", "mice-protein", "madelon", "isolet")
PAPER = (99.80, 99.74, 80.80, 90.87, 91.38, 98.05, 99.97, 99.59, 94.14, 99.94)
BUDGET = 0.25
RESULTS = Path("benchmarks/results/ten_sets.csv")


def test_auc(model: Any, X: Any, y: np.ndarray) -> float:
    P = model.predict_proba(X)
    P = P / P.sum(axis=1, keepdims=True)
    return 100 * (roc_auc_score(y, P[:, 1]) if P.shape[1] == 2 else roc_auc_score(y, P, multi_class="ovo"))


def new_peer(name: str) -> Any:
    if name == "rf":
        return RandomForestClassifier(500, n_jobs=2, random_state=0)
    if name == "xgb":
        from xgboost import XGBClassifier

        return XGBClassifier(n_estimators=300, max_depth=4, learning_rate=0.1, n_jobs=2, random_state=0)
    if name == "lgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(n_estimators=300, num_leaves=15, learning_rate=0.1, n_jobs=2, random_state=0, verbose=-1)
    from catboost import CatBoostClassifier

    return CatBoostClassifier(
        iterations=300,
        depth=4,
        learning_rate=0.1,
        thread_count=2,
        random_seed=0,
        verbose=False,
        allow_writing_files=False,
    )


def fit_peer(name: str, data: PublishedData, columns: np.ndarray | None = None) -> Any:
    X = data.X_train if columns is None else data.X_train[:, columns]
    return new_peer(name).fit(sparse.csr_matrix(X) if sparse.issparse(X) else X, data.y_train)


def peer_auc(name: str, data: PublishedData, columns: np.ndarray) -> float:
    X = data.X_test[:, columns]
    return test_auc(fit_peer(name, data, columns), sparse.csr_matrix(X) if sparse.issparse(X) else X, data.y_test)


def run_set(name: str, n_seeds: int, peers: list[str], as_selector: bool) -> list[dict[str, Any]]:
    data = load(name)
    rows = []
    for seed in range(n_seeds):
        started = time.perf_counter()
        model = SkinnyTreesClassifier(BUDGET, refit=False, random_state=seed)
        model.fit(data.X_train, data.y_train, X_val=data.X_val, y_val=data.y_val)
        seconds = time.perf_counter() - started
        auc = test_auc(model, data.X_test, data.y_test)
        rows.append({"set": name, "system": "skinnytrees", "seed": seed, "columns": model.n_features_selected_,
                     "test_auc": auc, "seconds": seconds})  # fmt: skip
        if seed == 0:
            ours = np.flatnonzero(model.support_)
    for peer in peers:
        started = time.perf_counter()
        order = np.argsort(-fit_peer(peer, data).feature_importances_, kind="stable")
        n_allowed = int(BUDGET * data.X_train.shape[1])
        auc = peer_auc(peer, data, np.sort(order[:n_allowed]))
        rows.append({"set": name, "system": peer, "seed": 0, "columns": n_allowed, "test_auc": auc,
                     "seconds": time.perf_counter() - started})  # fmt: skip
        if as_selector:
            for label, columns in (("on our columns", ours), ("on as many of its own", np.sort(order[: len(ours)]))):
                auc = peer_auc(peer, data, columns)
                rows.append({"set": name, "system": f"{peer} {label}", "seed": 0, "columns": len(ours), "test_auc": auc,
                             "seconds": np.nan})  # fmt: skip
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
            cells.append(f"{np.mean(aucs):.2f}" + (f" ± {np.std(aucs):.2f}" if len(aucs) > 1 else ""))
        columns = values(name, "skinnytrees", "columns")
        print(f"| {name} | {PAPER[SETS.index(name)]:.2f} | {' | '.join(cells)} | {min(columns)} to {max(columns)} |")
    means = [np.mean([np.mean(values(name, system, "test_auc")) for name in names]) for system in systems]
    paper = np.mean([PAPER[SETS.index(name)] for name in names])
    print(f"| **mean** | {paper:.2f} | " + " | ".join(f"{mean:.2f}" for mean in means) + " | |")

    timed = [system for system in systems if not np.isnan(values(names[0], system, "seconds")[0])]
    print("\n| seconds | " + " | ".join(timed) + " |")
    print("|---" * (len(timed) + 1) + "|")
    seconds = np.array([[np.mean(values(name, system, "seconds")) for system in timed] for name in names])
    for name, line in zip([*names, "**total**"], [*seconds, seconds.sum(axis=0)], strict=True):
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in line) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--peers", nargs="*", default=[], choices=["rf", "xgb", "lgbm", "cat"])
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
