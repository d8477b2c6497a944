"""The epoch runner that suits an optimiser's steps and the data."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.kernels.state import Data, Functions, Schedule, Trees, make_moments
from skinnytrees.training.epoch_runners.active_set import ActiveSetRunner
from skinnytrees.training.epoch_runners.csr import CsrRunner
from skinnytrees.training.epoch_runners.fixed_support import FixedSupportRunner
from skinnytrees.training.epoch_runners.runner import EpochRunner, Task
from skinnytrees.training.epoch_runners.sample_space import SampleSpaceRunner
from skinnytrees.training.epoch_runners.threaded import ThreadedRunner
from skinnytrees.training.epoch_runners.wide import WideRunner, is_wide

# The matrix of all products between rows is used up to this many rows.
_SAMPLE_SPACE_ROWS = 5000


def runner_for(steps: str, task: Task) -> EpochRunner:
    """A runner for the kind of steps that an optimiser names."""
    return _RUNNERS[steps](task)


def runner_at_fixed_support(steps: str, task: Task) -> FixedSupportRunner | CsrRunner:
    """A runner for a kind of steps without a threshold, which can make many epochs at once."""
    return _AT_FIXED_SUPPORT[steps](task)


def proximal_runner(task: Task) -> ActiveSetRunner | WideRunner:
    """Steps with a threshold: groups enter and leave."""
    kind = CsrRunner if sparse.issparse(task.data.X) else ActiveSetRunner if task.n_threads == 1 else ThreadedRunner
    n_rows, n_columns = task.data.X.shape
    return WideRunner(kind(task)) if is_wide(n_rows, n_columns) and n_rows <= _SAMPLE_SPACE_ROWS else kind(task)


def fixed_support_runner(task: Task) -> FixedSupportRunner | CsrRunner:
    """Plain gradient steps without a threshold: in sample space where there are more columns than rows, and few rows."""
    n_rows, n_columns = task.data.X.shape
    if n_rows < n_columns and n_rows <= _SAMPLE_SPACE_ROWS:
        return SampleSpaceRunner(task)
    return CsrRunner(task) if sparse.issparse(task.data.X) else FixedSupportRunner(task)


def adam_runner(task: Task) -> FixedSupportRunner | CsrRunner:
    """Steps of Adam, in feature space."""
    runner = CsrRunner(task) if sparse.issparse(task.data.X) else FixedSupportRunner(task)
    runner.moments = make_moments(task.trees)
    return runner


_AT_FIXED_SUPPORT: dict[str, Callable[[Task], FixedSupportRunner | CsrRunner]] = {
    "fixed_support": fixed_support_runner,
    "adam": adam_runner,
}
_RUNNERS: dict[str, Callable[[Task], EpochRunner]] = {"proximal": proximal_runner, **_AT_FIXED_SUPPORT}


def split_gradients(trees: Trees, data: Data, functions: Functions) -> NDArray[Any]:
    """Gradient of the mean loss with respect to every row's w.x + b at every split."""
    n_rows = len(data.Y)
    runner = fixed_support_runner(Task(trees, data, functions, np.array([0, len(trees.W)]), n_rows, 0.0))
    # A step of size zero leaves the trees as they are and the gradient in the workspace.
    nothing = np.zeros(1)
    runner.epoch(Schedule(nothing, nothing, nothing), np.arange(n_rows))
    return runner.work.D
