"""Our columns and XGBoost's, on other random splits of a data set than the paper's: is a difference chance, or is it real?

``SKINNYTREES_DATA=... python -m benchmarks.other_splits --sets churn lung --splits 12`` prints, for each set, the mean over the
splits of test log-loss and AUC with each system on our columns and on as many of XGBoost's own, and the paired differences.
Default fits with a budget of 25 % of the columns, ``refit=False``; split seeds 100, 101, ... Needs the extra ``baselines``.
"""

import argparse
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from benchmarks import peers
from benchmarks.ten_sets import BUDGET
from skinnytrees import SkinnyTreesClassifier
from skinnytrees.datasets import PublishedData, load

FIRST_SEED = 100


def our_fit(data: PublishedData, columns: np.ndarray, **parameters: Any) -> SkinnyTreesClassifier:
    model = SkinnyTreesClassifier(refit=False, random_state=0, **parameters)
    return model.fit(data.X_train[:, columns], data.y_train, X_val=data.X_val[:, columns], y_val=data.y_val)


def judge(model: Any, data: PublishedData, columns: np.ndarray) -> tuple[float, float]:
    X = data.X_test[:, columns]
    return log_loss(data.y_test, peers.probabilities(model, X)), peers.test_auc(model, X, data.y_test)


def judge_both(data: PublishedData) -> np.ndarray:
    """Log-loss and AUC (last axis) of ours and of XGBoost (first axis) on our and on its own columns."""
    everything = np.arange(data.X_train.shape[1])
    ours = np.flatnonzero(our_fit(data, everything, feature_budget=BUDGET).support_)
    theirs = np.sort(peers.by_importance("xgb", data)[: len(ours)])
    on_columns = (
        lambda columns: our_fit(data, columns, size_rule="full"),
        lambda columns: peers.fit("xgb", data, columns),
    )
    return np.array([[judge(fit(columns), data, columns) for columns in (ours, theirs)] for fit in on_columns])


def report(name: str, results: np.ndarray) -> None:
    print(f"\n{name}, {len(results)} splits | on our columns | on XGBoost's columns | difference")
    for i, system in enumerate(("skinnytrees", "XGBoost")):
        for j, measure in enumerate(("test log-loss", "test AUC in %")):
            ours, theirs = results[:, i, :, j].T
            error = np.std(ours - theirs, ddof=1) / np.sqrt(len(ours))
            print(
                f"{system}, {measure} | {ours.mean():.3f} | {theirs.mean():.3f} | {(ours - theirs).mean():+.3f} ± {error:.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="*", default=["churn", "lung"])
    parser.add_argument("--splits", type=int, default=12)
    options = parser.parse_args()
    for name in options.sets:
        seeds = range(FIRST_SEED, FIRST_SEED + options.splits)
        report(name, np.array([judge_both(load(name, seed)) for seed in seeds]))


if __name__ == "__main__":
    main()
