"""Published figures of the neural systems next to ours.

    python -m benchmarks.published_networks dfs        # ten data sets of the nonlinear example, k = 4, as the authors run them
    python -m benchmarks.published_networks dfs_tuned  # with the weight decay that the authors tuned for three of the sets
    python -m benchmarks.published_networks dfs_system # the same by our estimator, which standardises columns
    python -m benchmarks.published_networks algnet     # the authors' simulation at fixed lambda and xi
    python -m benchmarks.published_networks lassonet   # Mice-protein, 50 features, extra-trees learner

One thread. Rows go to ``results/published_networks.csv`` as they are finished, and what is there is not run again.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesClassifier

from benchmarks.result_files import append_row, read_rows
from skinnytrees.baselines.algnet import adaptive_penalties, train_group_lasso
from skinnytrees.baselines.dfs import DFSClassifier
from skinnytrees.baselines.dfs_loop import DFSSettings, SelectionNetwork, select_features, train_on_support
from skinnytrees.baselines.lassonet import LassoNetClassifier
from skinnytrees.baselines.networks import (
    LoopSettings,
    Network,
    cross_entropy,
    group_norms,
    loss_value,
    make_network,
    make_rows,
    seeded,
    squared_error,
)
from skinnytrees.datasets import load

RESULTS = Path(__file__).parent / "results" / "published_networks.csv"

# AlgNet: penalties of the authors' grid, chosen on the data of seed 100 with 4,000 steps, which is not among the runs that count.
LAMBDA, XI = 0.5, 0.01

# DFS: the factors of the weight decay that are not 1 in the authors' script for their first ten data sets.
AUTHORS_C = {3: 2.0, 4: 1.5, 8: 2.5}


class Outcome(NamedTuple):
    """One run: features that matter and that were selected, others that were, and an error."""

    found: int
    false: int
    error: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", choices=sorted(FIGURES))
    parser.add_argument("--runs", type=int, help="number of the last run, plus one; by default ten, one for lassonet")
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument(
        "--steps", type=int, default=4000, help="steps of each stage of AlgNet; the authors take 20,000"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    done = {(row["figure"], row["run"]) for row in read_rows(RESULTS)}
    label = f"algnet_{arguments.steps}_steps" if arguments.figure == "algnet" else arguments.figure
    run_figure, n_runs = FIGURES[arguments.figure]
    for run in range(arguments.first, arguments.runs or n_runs):
        if (label, run) in done:
            continue
        started = time.perf_counter()
        for stage, outcome in run_figure(run, arguments):
            row = {"figure": label, "run": run, "stage": stage, **outcome._asdict()}
            row["seconds"] = round(time.perf_counter() - started, 1)
            append_row(RESULTS, row)
            print(row, flush=True)


# --- DFS: y = [exp(x1) + x2^2 + 5 sin(x3 x4) > 3], 500 columns with pairwise correlation 0.5 ---------------------------


def dfs_data_sets(n_sets: int, n_columns: int = 500, n_per_class: int = 300) -> list[tuple[Any, ...]]:
    """Training and test rows of each set, half of each class in either; drawn as the authors' generator draws them."""
    rng = np.random.RandomState(1)
    sets = []
    for _ in range(n_sets):
        rows: dict[bool, list[np.ndarray]] = {False: [], True: []}
        order: list[bool] = []
        while len(order) < 2 * n_per_class:
            draw = rng.normal(size=n_columns + 1)
            x = (draw[:-1] + draw[-1]) / 2
            label = bool(np.exp(x[0]) + x[1] ** 2 + 5 * np.sin(x[2] * x[3]) > 3)
            if len(rows[label]) < n_per_class:
                rows[label].append(x)
                order.append(label)
        half = n_per_class // 2
        y = np.repeat([0, 1], half)
        X_train = np.array(rows[False][:half] + rows[True][:half])
        X_test = np.array(rows[False][half:] + rows[True][half:])
        sets.append((X_train, y, X_test, y))
    return sets


def dfs_system(run: int, arguments: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    X, y, X_test, y_test = dfs_data_sets(run + 1)[run]
    system = DFSClassifier(4, random_state=run).fit(X, y)
    found = int(system.support_[:4].sum())
    yield "final", Outcome(found, system.n_features_selected_ - found, 1 - system.score(X_test, y_test))


def dfs(run: int, arguments: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    """Columns as they are and one start for all sets, as the authors have it; their weight decay at c = 1."""
    return dfs_replay(run, 1.0)


def dfs_tuned(run: int, arguments: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    """The same with the factor of the weight decay that the authors' script has for this set."""
    return dfs_replay(run, AUTHORS_C.get(run, 1.0))


def dfs_replay(run: int, c: float) -> Iterator[tuple[str, Outcome]]:
    X, y, X_test, y_test = dfs_data_sets(run + 1)[run]
    rows, generator = make_rows(X, y), seeded(1)
    network = make_network(500, (50, 10), 2, generator, start="uniform")
    model = SelectionNetwork.start(network, 500, torch.arange(500), generator)
    settings = DFSSettings(weight_decay=0.0025 * c, selection_weight_decay=0.0005 * c)
    select_features(model, rows, cross_entropy, 4, settings)
    train_on_support(model, rows, cross_entropy, LoopSettings(0.01, 1000, weight_decay=0.0025))
    support = np.flatnonzero(model.s.detach().numpy())
    with torch.no_grad():
        predicted = model(make_rows(X_test, y_test).X).argmax(dim=1).numpy()
    found = int((support < 4).sum())
    yield "final", Outcome(found, len(support) - found, float((predicted != y_test).mean()))


# --- AlgNet: 50 inputs of which the last ten matter, a random tanh network with three layers of 20, unit noise ---------


def algnet_data(seed: int, n_rows: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    generator = seeded(seed)
    truth = make_network(50, (20, 20, 20), 1, generator, activation="tanh", start="normal")
    X = torch.randn(n_rows, 50, generator=generator)
    with torch.no_grad():
        truth.weights[0][:40] = 0
        y = truth(X) + torch.randn(n_rows, 1, generator=generator)
    return X.numpy(), y.numpy()


def algnet(run: int, arguments: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    """The authors' start, step length and number of steps; all rows train, so the error is the training loss."""
    rows = make_rows(*algnet_data(run))
    group = torch.arange(50)
    loop = LoopSettings(0.01, arguments.steps, optimizer="sgd", check_every=1000)

    def fit(penalties: Any, seed: int) -> Network:
        network = make_network(50, (20, 20, 20), 1, seeded(seed), activation="tanh", start="normal")
        train_group_lasso(network, rows, squared_error, group, penalties, loop, seeded(seed))
        return network

    def outcome(network: Network) -> Outcome:
        used = group_norms(network.weights[0], group) > 0
        return Outcome(int(used[40:].sum()), int(used[:40].sum()), loss_value(network, rows, squared_error))

    first = fit(torch.full((50,), LAMBDA), 1000 + run)
    yield "group lasso", outcome(first)
    norms = group_norms(first.weights[0], group)
    yield "adaptive", outcome(fit(adaptive_penalties(norms, XI, 2.0), 2000 + run))


# --- LassoNet: Mice-protein, the first size of at most 50 features, extra trees on these --------------------------------


def lassonet(run: int, arguments: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    """The authors' settings for their table (a third as many units as columns, batches of 256), except the ratio of lambdas."""
    data = load("mice-protein")
    system = LassoNetClassifier(50, hidden=(1 / 3,), batch_size=256, path_multiplier=1.05, random_state=run)
    system.fit(data.X_train, data.y_train, X_val=data.X_val, y_val=data.y_val)
    first = next(entry for entry in system.path_ if entry.n_features <= 50)
    X, y = np.vstack([data.X_train, data.X_val]), np.concatenate([data.y_train, data.y_val])
    trees = ExtraTreesClassifier(50, random_state=run).fit(X[:, first.support], y)
    yield (
        f"extra trees, {first.n_features} features",
        Outcome(first.n_features, 0, 1 - trees.score(data.X_test[:, first.support], data.y_test)),
    )
    yield (
        f"own network, {system.n_features_selected_} features",
        Outcome(system.n_features_selected_, 0, 1 - system.score(data.X_test, data.y_test)),
    )


FIGURES: dict[str, tuple[Any, int]] = {
    "dfs": (dfs, 10),
    "dfs_system": (dfs_system, 10),
    "dfs_tuned": (dfs_tuned, 10),
    "algnet": (algnet, 10),
    "lassonet": (lassonet, 1),
}

if __name__ == "__main__":
    main()
