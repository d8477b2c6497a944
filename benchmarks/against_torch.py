"""Training beside the same algorithm in plain PyTorch (``torch_port.py``; a test holds that both give the same weights).

``python -m benchmarks.against_torch``: milliseconds of a dense step in every case of ``speed.py`` (torch has no sparse rows
there: the sparse case is dense for it), then whole fits with an annealed group l0 penalty, from all features down to few. Same
data, start, batches and number of threads on both sides, both in one run, float32; of the steps the minimum of repeats. The
port is measured as one writes it first, and tuned to what torch does fastest. Needs torch. ``--cases`` measures some only.
"""

import argparse
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from benchmarks import torch_port  # first: it says what to install where torch is missing
from benchmarks.speed import (
    CASE_HEADER,
    CASES,
    DENSE_STEPS,
    SPARSE_CASES,
    THREADS,
    Case,
    best_seconds,
    ours_with_threads,
    random_problem,
    step_seconds,
)
from skinnytrees.kernels.state import Data, Trees
from skinnytrees.penalties import GroupL0
from skinnytrees.training.loop import TrainingSettings, train

ALL_CASES = {**CASES, **SPARSE_CASES}
N_SIGNAL = 20
# Found by trial: in case C the penalty is at its full strength after a tenth of the steps, and about 1 % of the features are
# left; in A and B about as many as have a signal.
ANNEALED_FITS = {
    "A": replace(DENSE_STEPS, n_epochs=300, learning_rate=0.3, penalty=GroupL0(2.0, rate=0.02)),
    "B": replace(DENSE_STEPS, n_epochs=100, learning_rate=0.3, penalty=GroupL0(2.0, rate=0.01)),
    "C": replace(DENSE_STEPS, n_epochs=300, learning_rate=1.0, penalty=GroupL0(0.045, rate=0.05)),
}
# A fit in torch that takes longer is stopped after the epoch that it is in; the rest is extrapolated.
PATIENCE_SECONDS = 120.0


class Fit(NamedTuple):
    """What a fit took, and the columns that it kept."""

    seconds: float
    support: np.ndarray
    remark: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small cases, to try the program")
    parser.add_argument("--cases", nargs="*", default=ALL_CASES, choices=ALL_CASES)
    options = parser.parse_args()
    for n_threads in THREADS:
        compare_steps(options.cases, n_threads, options.quick)
    for name in sorted(ANNEALED_FITS.keys() & options.cases):
        for n_threads in THREADS:
            compare_fits(name, n_threads, options.quick)


# ------------------------------------------------------------------------------------------------ dense steps


def compare_steps(names: Iterable[str], n_threads: int, quick: bool) -> None:
    print(f"\na dense step, threads on all sides: {n_threads}")
    print(CASE_HEADER + "    ours ms   torch ms  torch/ours  tuned torch ms  tuned/ours")
    for name in names:
        case = ALL_CASES[name].quick() if quick else ALL_CASES[name]
        ours = step_seconds(case, n_threads)
        plain, tuned = (torch_step_seconds(case, n_threads, tuned) for tuned in (False, True))
        print(f"{name} {case} {ours * 1e3:>10.3f} {plain * 1e3:>10.3f} {plain / ours:>11.2f} {tuned * 1e3:>15.3f}"
              f" {tuned / ours:>11.2f}", flush=True)  # fmt: skip


def torch_step_seconds(case: Case, n_threads: int, tuned: bool) -> float:
    """The twin of ``speed.step_seconds``."""
    torch_port.torch.set_num_threads(n_threads)
    rng = np.random.default_rng(0)
    trees, data = random_problem(case, rng)
    settings = replace(DENSE_STEPS, batch_size=case.batch_size)
    model = torch_port.SoftTrees(trees, settings.activation)
    epochs = torch_port.run_epochs(model, *as_tensors(data), settings, rng, tuned)
    return best_seconds(lambda: next(epochs), case.repeats) / case.steps_an_epoch


def as_tensors(data: Data) -> tuple[torch_port.Tensor, torch_port.Tensor]:
    X = data.X.toarray() if sparse.issparse(data.X) else data.X
    return torch_port.torch.from_numpy(X), torch_port.torch.from_numpy(data.Y[:, 0]).long()


# ------------------------------------------------------------------------------------------------ annealed fits


def compare_fits(name: str, n_threads: int, quick: bool) -> None:
    case, settings = CASES[name], replace(ANNEALED_FITS[name], batch_size=CASES[name].batch_size)
    if quick:
        case, settings = case.quick(), replace(settings, n_epochs=10)
    trees, data = problem_with_signal(case)
    print(f"\na fit of case {name} with {settings.penalty}, threads on all sides: {n_threads}")
    print(f"{case.n_columns} features, {N_SIGNAL} of them with signal; {settings.n_epochs} epochs")
    ours = our_fit(trees, data, settings, n_threads)
    print_fit("ours", ours, ours)
    for system, tuned in (("torch", False), ("tuned torch", True)):
        print_fit(system, torch_fit(trees, data, settings, n_threads, tuned), ours)


def print_fit(system: str, fit: Fit, ours: Fit) -> None:
    n_found, n_common = np.count_nonzero(fit.support < N_SIGNAL), len(np.intersect1d(ours.support, fit.support))
    print(f"{system:>11} {fit.seconds:>8.2f} s, {fit.seconds / ours.seconds:>6.2f} times ours; {len(fit.support)} features left,"
          f" {n_found} of them with signal, {n_common} of them ours{fit.remark}", flush=True)  # fmt: skip


def problem_with_signal(case: Case) -> tuple[Trees, Data]:
    """Two classes whose means differ by one standard deviation in the first columns."""
    trees, data = random_problem(case, np.random.default_rng(0))
    data.X[:, :N_SIGNAL] += data.Y - 0.5
    return trees, data


def our_fit(start: Trees, data: Data, settings: TrainingSettings, n_threads: int) -> Fit:
    trees, settings = start.copy(), ours_with_threads(settings, n_threads)
    started = time.perf_counter()
    train(trees, data, np.arange(len(trees.W) + 1), settings, np.random.default_rng(1))
    seconds = time.perf_counter() - started
    return Fit(seconds, np.flatnonzero(trees.W.any(axis=1)))


def torch_fit(start: Trees, data: Data, settings: TrainingSettings, n_threads: int, tuned: bool) -> Fit:
    torch_port.torch.set_num_threads(n_threads)
    model, (X, y) = torch_port.SoftTrees(start, settings.activation), as_tensors(data)
    n_epochs_run, started = 0, time.perf_counter()
    for _ in torch_port.run_epochs(model, X, y, settings, np.random.default_rng(1), tuned):
        n_epochs_run += 1
        seconds = time.perf_counter() - started
        if seconds > PATIENCE_SECONDS:
            break
    support = model.W.detach().any(dim=1).nonzero()[:, 0].numpy()
    stopped = n_epochs_run < settings.n_epochs
    remark = f"; stopped after {n_epochs_run} epochs, seconds extrapolated" if stopped else ""
    return Fit(seconds * settings.n_epochs / n_epochs_run, support, remark)


if __name__ == "__main__":
    main()
