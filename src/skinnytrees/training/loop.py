"""Training an ensemble: epochs, batches, reports, and the ways to stop.

Knows arrays, losses, penalties and optimisers; nothing of tables or estimators.
"""

import contextlib
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.activations import Activation
from skinnytrees.exceptions import DivergenceError
from skinnytrees.kernels.epoch import evaluate_scores
from skinnytrees.kernels.numba_bridge.calls import call
from skinnytrees.kernels.numba_bridge.notice import compilation_notice
from skinnytrees.kernels.state import Data, Functions, Schedule, Trees, make_workspace
from skinnytrees.losses import Loss, evaluate_loss
from skinnytrees.optimizers import SGD, Constant, Optimizer, RateSchedule
from skinnytrees.penalties import NoPenalty, Penalty
from skinnytrees.tables.table_views import pieces
from skinnytrees.threads import one_blas_thread, stop_if_interrupted
from skinnytrees.training.epoch_runners.choice import runner_at_fixed_support, runner_for
from skinnytrees.training.epoch_runners.runner import EpochRunner, Snapshot, Task
from skinnytrees.training.memory import Memory, Remembered, fingerprint, generator_state
from skinnytrees.training.progress import progress_bar

# Rows evaluated at once: enough for BLAS, few enough that their routing stays in the cache.
_PIECE = 64
# Scores w.x + b, or values of their rows, that are held at once, but no fewer than of a piece: bounds the memory.
_SCORES_AT_ONCE = 2**18
# Steps whose rates are computed at once: bounds the memory of trainings that a callback will stop.
_SCHEDULED_AT_ONCE = 4096
# Multiplications between looks at whether to stop: a few hundredths of a second.
_MULTIPLIED_AT_ONCE = 2**26
# Multiplications that take as long as the routing of a row through a split.
_ROUTING = 16


class EpochReport(NamedTuple):
    """What a callback is told after every epoch."""

    epoch: int
    loss: float
    lambda0: float
    n_features: int
    val_loss: float


Callback = Callable[[EpochReport], Any]


@dataclass(frozen=True)
class TrainingSettings:
    """Everything about training that is not the data or the ensemble."""

    loss: Loss
    activation: Activation
    n_epochs: int
    batch_size: int
    learning_rate: float
    l2: float
    penalty: Penalty = field(default_factory=NoPenalty)
    optimizer: Optimizer = field(default_factory=SGD)
    schedule: RateSchedule = field(default_factory=Constant)
    callbacks: Sequence[Callback] = ()
    verbose: int = 0
    n_threads: int = 1
    memory: Memory | None = None

    def functions(self, dtype: Any) -> Functions:
        """Compiled loss and activation for arrays of this type."""
        return Functions(
            self.loss.function(dtype),
            float(self.loss.parameter),
            self.activation.kernel(dtype),
            float(self.activation.theta),
        )


@contextlib.contextmanager
def computing() -> Iterator[None]:
    """The state in which kernels run: one BLAS thread, and a notice before they are compiled."""
    with one_blas_thread(), compilation_notice():
        yield


def train(
    trees: Trees,
    data: Data,
    offsets: NDArray[np.intp],
    settings: TrainingSettings,
    rng: np.random.Generator,
    validation: Data | None = None,
    penalty_factors: NDArray[np.float64] | None = None,
    features_per_group: NDArray[np.intp] | None = None,
) -> list[EpochReport]:
    """Train ``trees`` in place and return a report of every epoch.

    Parameters
    ----------
    trees : Trees
        Where to start; overwritten.
    data, validation : Data
        Rows to learn from, and rows to watch (or None).
    offsets : array of shape (n_groups + 1,)
        Group g is made of the columns ``offsets[g]`` to ``offsets[g + 1]``.
    settings : TrainingSettings
        How to train.
    rng : numpy Generator
        Shuffles the rows before every epoch.
    penalty_factors, features_per_group : arrays of shape (n_groups,)
        By what the penalty's strength is multiplied for each group, and how many features it counts for; None stands for 1.

    Returns
    -------
    list of EpochReport
        Shorter than ``settings.n_epochs`` if a callback or Ctrl-C stopped training; the trees are then as the last
        finished epoch left them.

    Raises
    ------
    DivergenceError
        When the loss is no longer finite.
    """
    reports: list[EpochReport] = []
    functions = settings.functions(trees.flat.dtype)
    past = _Past.recall(trees, data, offsets, settings, rng, [validation, penalty_factors, features_per_group])
    with computing(), progress_bar(settings.n_epochs, settings.verbose) as show, _keep_on_interrupt(trees) as keep:

        def go_on(runner: EpochRunner) -> int:
            past.restore(runner, rng)
            if past.reports:
                keep(runner)
            for report in past.reports:
                reports.append(report)
                show(report)
                for callback in settings.callbacks:
                    callback(report)
            return len(reports)

        for loss, lambda0, runner in run_epochs(trees, data, offsets, settings, rng, penalty_factors, go_on):
            epoch, snapshot = len(reports), keep(runner)
            val_loss = math.nan
            if validation is not None:
                columns, small = snapshot()
                refuse_divergence(loss, small.flat, epoch + 1, settings)
                val_loss = mean_loss(small, validation._replace(X=validation.X[:, columns]), functions)
            settings.loss.raise_error()
            alive = runner.groups
            n_features = len(alive) if features_per_group is None else int(features_per_group[alive].sum())
            reports.append(EpochReport(epoch, loss, lambda0, n_features, val_loss))
            past.keep(runner, rng, reports)
            show(reports[-1])
            answers = [callback(reports[-1]) for callback in settings.callbacks]
            if any(answers):
                break
    if reports:
        refuse_divergence(reports[-1].loss, trees.flat, len(reports), settings)
    return reports


@dataclass(frozen=True)
class _Past:
    """The epochs of a training that an earlier process has finished, and where to keep further ones."""

    memory: Memory | None = None
    key: str = ""
    state: Remembered | None = None

    @classmethod
    def recall(
        cls, trees: Trees, data: Data, offsets: NDArray[np.intp], settings: TrainingSettings, rng: np.random.Generator,
        others: list[Any],
    ) -> "_Past":  # fmt: skip
        """What is known about this training."""
        memory = settings.memory
        if memory is None:
            return cls()
        same_bits = replace(settings, callbacks=(), verbose=0, n_threads=1, memory=None)
        key = fingerprint([same_bits, trees.flat, trees.O, offsets, data, *others], rng)
        return cls(memory, key, memory.recall(key))

    @property
    def reports(self) -> list[EpochReport]:
        """Of the epochs that are done."""
        return [] if self.state is None else list(map(_from_json, self.state.numbers["reports"]))

    def restore(self, runner: EpochRunner, rng: np.random.Generator) -> None:
        """Bring a runner and the generator to where they were."""
        if self.state is not None:
            runner.from_checkpoint(self.state.arrays)
            rng.bit_generator.state = self.state.numbers["generator"]

    def keep(self, runner: EpochRunner, rng: np.random.Generator, reports: list[EpochReport]) -> None:
        """Keep where training is now, if it is time to."""
        if self.memory is not None and self.memory.is_due():
            numbers = {"generator": generator_state(rng), "reports": [_as_json(report) for report in reports]}
            self.memory.keep(self.key, numbers, runner.to_checkpoint())


def _as_json(report: EpochReport) -> list[Any]:
    return [None if number != number else number for number in report]


def _from_json(numbers: list[Any]) -> EpochReport:
    return EpochReport._make(math.nan if number is None else number for number in numbers)


def run_epochs(
    trees: Trees,
    data: Data,
    offsets: NDArray[np.intp],
    settings: TrainingSettings,
    rng: np.random.Generator,
    penalty_factors: NDArray[np.float64] | None = None,
    go_on: Callable[[EpochRunner], int] = lambda runner: 0,
) -> Iterator[tuple[float, float, EpochRunner]]:
    """Train; after every epoch give its mean loss, the penalty's strength and the epoch runner.

    At a fixed support, training is in place; under a penalty, the runner's snapshot has the ensemble. ``go_on`` may bring the
    runner to where an earlier training was, and says how many epochs that one has done.
    """
    task, n_steps = _task(trees, data, offsets, settings, penalty_factors)
    n_rows = len(data.Y)
    runner = runner_for(settings.optimizer.steps, task)
    n_done = go_on(runner)
    for epoch, schedule in enumerate(itertools.islice(_schedules(settings, n_steps), n_done, None), n_done):
        loss = runner.epoch(schedule, rng.permutation(n_rows)) / n_rows
        stop_if_interrupted()
        refuse_divergence(loss, runner.trees.b, epoch + 1, settings)
        yield loss, float(settings.penalty.strength(np.array((epoch + 1) * n_steps))), runner


def train_unwatched(trees: Trees, data: Data, settings: TrainingSettings, rng: np.random.Generator) -> float:
    """Train in place at a fixed support and return the last epoch's mean loss.

    The same as ``run_epochs``, bit for bit, but many epochs take one compiled call: on few rows, Python would take as long for
    each epoch as the epoch itself.
    """
    task, n_steps = _task(trees, data, np.array([0, trees.W.shape[0]]), settings)
    n_rows = len(data.Y)
    runner = runner_at_fixed_support(settings.optimizer.steps, task)
    multiplied = n_rows * trees.W.shape[1] * (_ROUTING + min(data.X.shape))
    n_at_once = max(1, _MULTIPLIED_AT_ONCE // multiplied)
    n_done, loss = 0, math.nan
    for schedule in _schedules(settings, n_steps, n_at_once):
        before = rng.bit_generator.state
        orders = np.array([rng.permutation(n_rows) for _ in range(len(schedule.eta) // n_steps)])
        movement = runner.epochs(schedule, orders)
        stop_if_interrupted()
        n_done, loss = n_done + movement.n_epochs, movement.loss / n_rows
        if movement.n_epochs < len(orders):
            # The next training shall draw the same numbers as if these epochs had been made one by one.
            rng.bit_generator.state = before
            for _ in range(movement.n_epochs):
                rng.permutation(n_rows)
        refuse_divergence(loss, trees.b, n_done, settings)
    runner.sync()
    return loss


def _task(
    trees: Trees, data: Data, offsets: NDArray[np.intp], settings: TrainingSettings,
    penalty_factors: NDArray[np.float64] | None = None,
) -> tuple[Task, int]:  # fmt: skip
    """What is to be trained, and the steps of an epoch."""
    n_rows = data.X.shape[0]
    batch_size = min(settings.batch_size, n_rows)
    functions = settings.functions(trees.flat.dtype)
    task = Task(trees, data, functions, offsets, batch_size, float(settings.l2), settings.n_threads, penalty_factors)
    return task, math.ceil(n_rows / batch_size)


def _schedules(settings: TrainingSettings, steps_per_epoch: int, n_epochs: int = 1) -> Iterator[Schedule]:
    """Rates and thresholds of every so many epochs, computed for many at once: for a few steps numpy is slow."""
    n_steps = settings.n_epochs * steps_per_epoch
    n_at_once = steps_per_epoch * max(1, _SCHEDULED_AT_ONCE // steps_per_epoch)
    for first in range(0, n_steps, n_at_once):
        step = np.arange(first + 1, min(first + n_at_once, n_steps) + 1)
        eta = settings.schedule.rates(step, n_steps, settings.learning_rate)
        schedule = Schedule(eta, *settings.penalty.thresholds(step, eta))
        for start in range(0, len(step), n_epochs * steps_per_epoch):
            yield schedule.part(start, start + n_epochs * steps_per_epoch)


def evaluate(trees: Trees, X: Any, functions: Functions) -> NDArray[Any]:
    """Raw outputs of the ensemble for the rows of X, dense or sparse."""
    out = np.empty((X.shape[0], trees.O.shape[0]), dtype=trees.flat.dtype)
    width = trees.W.shape[1] if sparse.issparse(X) else max(X.shape[1], trees.W.shape[1])
    for rows in pieces(len(out), min(width, _SCORES_AT_ONCE // _PIECE), _SCORES_AT_ONCE):
        with np.errstate(over="ignore", invalid="ignore"):  # whoever asks looks for numbers that are not finite
            Z = X[rows] @ trees.W + trees.b
        out[rows] = evaluate_at(trees, Z, functions)
    return out


def evaluate_at(trees: Trees, Z: NDArray[Any], functions: Functions) -> NDArray[Any]:
    """Raw outputs for rows whose w.x + b is Z."""
    out = np.empty((len(Z), trees.O.shape[0]), dtype=trees.flat.dtype)
    work = make_workspace(trees, min(_PIECE, max(1, len(Z))), 1, n_columns=0)
    nothing = np.zeros((len(Z), 0), dtype=trees.flat.dtype)
    call(evaluate_scores, trees, np.ascontiguousarray(Z), nothing, trees.W[:0], functions, work, out)
    return out


def mean_loss(trees: Trees, data: Data, functions: Functions) -> float:
    """Weighted mean loss over rows, without the penalties."""
    row_loss, _ = evaluate_loss(functions.loss, functions.loss_parameter, evaluate(trees, data.X, functions), data.Y)
    return float(np.average(row_loss.astype(np.float64), weights=data.weight))


@contextlib.contextmanager
def _keep_on_interrupt(trees: Trees) -> Iterator[Callable[[EpochRunner], Snapshot]]:
    """In the end, unpack the last snapshot into the trees; also after Ctrl-C, unless no epoch was finished."""
    kept: list[Snapshot] = []

    def keep(runner: EpochRunner) -> Snapshot:
        kept[:] = [runner.snapshot()]
        return kept[0]

    try:
        yield keep
    except KeyboardInterrupt:
        if not kept:
            raise
        warnings.warn("Training was interrupted; the model is that of the last finished epoch.", stacklevel=4)
    finally:
        if kept:
            trees.put(*kept[0]())


def refuse_divergence(loss: float, weights: NDArray[Any], epoch: int, settings: TrainingSettings) -> None:
    """Raise what the user's loss raised, or a DivergenceError, unless all these numbers are finite."""
    if math.isfinite(loss) and np.isfinite(weights).all():
        return
    settings.loss.raise_error()
    raise DivergenceError(
        f"Training diverged in epoch {epoch}: the loss is {loss}. learning_rate={settings.learning_rate} is too large "
        "for this data. Use a smaller one, such as a tenth of it, or leave standardize=True so that columns have one scale."
    )
