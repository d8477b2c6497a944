"""Replay trials that the paper's authors logged on Churn, with their draws of the hyperparameters.

``python -m skinnytrees.experiments.replay`` replays a fixed sample of 60 trials, each with several seeds: which of two
nearly equal features survives is chance, and two of our own runs rank these trials no more alike than 0.87 to 0.92 (Spearman
correlation of their AUC). Quick trials, which vary most, get up to 16 seeds, slow ones six; that takes about an hour of one
core. ``--trials 15`` replays the quickest part of the sample, ``--seeds 2`` runs no trial more than twice. The log is read
from ``churn_trials.csv`` in the folder ``reference`` beside the data folder, or in the one that ``--reference`` names.
"""

import argparse
import csv
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from skinnytrees.datasets import PublishedData, data_folder, load
from skinnytrees.estimators import SkinnyTreesClassifier
from skinnytrees.exceptions import DivergenceError
from skinnytrees.penalties import GroupL0

_GAMMA = 100.0  # the authors' program divides it by the number of columns
# A trial gets as many seeds as the authors' program could have run in this many seconds, within limits.
_SECONDS_A_TRIAL = 400.0
_FEWEST_SEEDS = 6
_MOST_SEEDS = 16


class Trial(NamedTuple):
    """One logged trial: what the authors drew and what came out."""

    batch_size: int
    learning_rate: float
    depth: int
    epochs: int
    lambda2: float
    trees: int
    rate: float
    auc_valid: float
    n_features: int
    seconds: float


class Replayed(NamedTuple):
    """What came out here: means over seeds, and the seconds of one run."""

    auc_valid: float
    n_features: float
    seconds: float


def read_trials(folder: Path) -> list[Trial]:
    """All logged trials."""
    with (folder / "churn_trials.csv").open(newline="") as file:
        return [
            Trial(**{name: kind(row[name]) for name, kind in Trial.__annotations__.items()})
            for row in csv.DictReader(file)
        ]


def sample_trials(trials: list[Trial], n_trials: int = 60, seed: int = 0) -> list[Trial]:
    """A fixed sample of the trials that ended with some features, but not all; the authors' quickest first."""
    sparse = [trial for trial in trials if 1 <= trial.n_features <= 32]
    sample = np.random.default_rng(seed).permutation(len(sparse))[:n_trials]
    return sorted((sparse[i] for i in sample), key=lambda trial: trial.seconds)


def seeds_for(trial: Trial, most: int = _MOST_SEEDS) -> range:
    """Seeds to replay a trial with: more for quick ones."""
    return range(min(most, max(_FEWEST_SEEDS, int(_SECONDS_A_TRIAL / trial.seconds))))


def replay(trial: Trial, data: PublishedData, seeds: Sequence[int]) -> Replayed:
    """Fit with a trial's hyperparameters on the authors' rows."""
    runs = np.array([_run(trial, data, seed) for seed in seeds])
    return Replayed(*runs.mean(axis=0).tolist())


def _run(trial: Trial, data: PublishedData, seed: int) -> tuple[float, int, float]:
    started = time.perf_counter()
    model = SkinnyTreesClassifier(
        penalty=GroupL0(_GAMMA / data.X_train.shape[1], trial.rate),
        n_estimators=trial.trees,
        max_depth=trial.depth,
        learning_rate=trial.learning_rate,
        max_epochs=trial.epochs,
        batch_size=trial.batch_size,
        l2=trial.lambda2,
        standardize=False,
        validation_fraction=None,
        random_state=seed,
    )
    try:
        model.fit(data.X_train, data.y_train)
    except DivergenceError:
        return 0.5, 0, time.perf_counter() - started
    # The authors' probabilities are in single precision: at large rates many are exactly 1 and tie, which lowers the AUC.
    auc = roc_auc_score(data.y_val, model.predict_proba(data.X_val)[:, 1].astype(np.float32))
    return float(auc), model.n_features_selected_, time.perf_counter() - started


def summarize(trials: list[Trial], replayed: list[Replayed]) -> dict[str, float]:
    """How close the replay comes to the log."""
    off = np.array([abs(ours.n_features - theirs.n_features) for ours, theirs in zip(replayed, trials, strict=True)])
    aucs = [ours.auc_valid for ours in replayed], [theirs.auc_valid for theirs in trials]
    seconds, their_seconds = sum(ours.seconds for ours in replayed), sum(theirs.seconds for theirs in trials)
    return {
        "median difference in features": float(np.median(off)),
        "fraction within 1": float(np.mean(off <= 1)),
        "fraction within 2": float(np.mean(off <= 2)),
        "Spearman correlation of AUC": float(spearmanr(*aucs).statistic),
        "seconds": seconds,
        "authors' seconds": their_seconds,
        "times faster": their_seconds / seconds,
    }


def main() -> None:
    """Replay and print, trial by trial."""
    parser = argparse.ArgumentParser(description="Replay the authors' logged trials on Churn.")
    parser.add_argument(
        "--trials", type=int, default=60, help="how many of the fixed sample, quickest first (default: 60)"
    )
    parser.add_argument(
        "--seeds", type=int, default=_MOST_SEEDS,
        help=f"largest number of runs per trial, of which the mean is compared (default: {_MOST_SEEDS})",
    )  # fmt: skip
    parser.add_argument("--reference", type=Path, help="folder of churn_trials.csv")
    options = parser.parse_args()
    folder = options.reference or data_folder().parent / "reference"
    trials = sample_trials(read_trials(folder))[: options.trials]
    data = load("churn")
    replayed = []
    print("features: log, here   AUC: log, here   seconds: log, here")
    for trial in trials:
        replayed.append(ours := replay(trial, data, seeds_for(trial, options.seeds)))
        print(f"{trial.n_features:>13} {ours.n_features:>6.1f} {trial.auc_valid:>11.4f} {ours.auc_valid:.4f}"
              f" {trial.seconds:>11.1f} {ours.seconds:>6.1f}", flush=True)  # fmt: skip
    for name, value in summarize(trials, replayed).items():
        print(f"{name}: {value:.3g}")


if __name__ == "__main__":
    main()
