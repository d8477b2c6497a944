"""A work queue: the large products of a training step as tasks that several threads may run.

The thread that trains publishes a product as a number of tasks and runs one after the other; so does every helper thread that
finds some left. The training thread waits only for tasks that a helper has begun, so a helper that gets no core costs nothing,
and without any helper the code is the same. What the tasks are depends on the size of the product alone: results have the same
bits whoever computes them.

Threads of BLAS itself are no substitute. Their results have other bits than those of one thread, and they spin: on a machine
whose two cores were busy, two of them took 23 times as long as one, two threads of this queue 1.4 times
(``python -m benchmarks.bridge_tricks --queue``, 2,000 rows of 500 columns).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.active_set import add_scores, step_on_blocks
from skinnytrees.kernels.compilation import inner_kernel, kernel, part
from skinnytrees.kernels.numba_bridge.atomics import atomic_load, atomic_store, fetch_add
from skinnytrees.kernels.state import Active, Trees, Workspace

# One number holds the count of tasks in its high bits and the next task that nobody has begun in its low bits, so that both
# change together. Whoever begins a task adds one; a late thread may add one beyond the last task, which does no harm.
_COUNT_SHIFT = 16
_NEXT_MASK = (1 << _COUNT_SHIFT) - 1
# Places in the state; the last stands in a cache line of its own.
_TASKS, _CLOSED, _DONE = 0, 1, 8
_SCORES, _STEP = 0, 1
# About a millisecond of polling; then a helper lets others have the core for a moment.
_POLLS = 500_000


class WorkQueue(NamedTuple):
    """The product that is being computed, and how far it is."""

    state: NDArray[np.int64]  # count of tasks and next task, whether the queue is closed, how many tasks are done
    product: NDArray[np.int64]  # which of the two products, and of how many rows
    numbers: NDArray[np.float64]  # shrink, eta, hard and soft of a gradient step


def make_work_queue() -> WorkQueue:
    """A queue without tasks."""
    return WorkQueue(np.zeros(16, np.int64), np.zeros(2, np.int64), np.zeros(4))


def close(queue: WorkQueue) -> None:
    """Let the helpers return."""
    queue.state[_CLOSED] = 1


def work_until_closed(queue: WorkQueue, trees: Trees, active: Active, work: Workspace, pause: Any) -> None:
    """Run tasks for as long as the queue is open; after a while without any, ``pause``."""
    while poll_tasks(queue, trees, active, work):
        pause()


@part
def distribute_scores(queue, n_tasks, n_rows, trees, active, work):  # type: ignore[no-untyped-def]
    """S <- S + X W."""
    _distribute(queue, n_tasks, n_rows, _SCORES, 0.0, 0.0, 0.0, 0.0, trees, active, work)


@part
def distribute_step(queue, n_tasks, n_rows, trees, active, work, shrink, eta, hard, soft):  # type: ignore[no-untyped-def]
    """The gradient step and the threshold, one task per block."""
    _distribute(queue, n_tasks, n_rows, _STEP, shrink, eta, hard, soft, trees, active, work)


@part
def _distribute(queue, n_tasks, n_rows, product, shrink, eta, hard, soft, trees, active, work):  # type: ignore[no-untyped-def]
    queue.product[0], queue.product[1] = product, n_rows
    queue.numbers[0], queue.numbers[1], queue.numbers[2], queue.numbers[3] = shrink, eta, hard, soft
    atomic_store(queue.state, _DONE, 0)
    atomic_store(queue.state, _TASKS, n_tasks << _COUNT_SHIFT)
    _run_tasks(queue, trees, active, work)
    while atomic_load(queue.state, _DONE) < n_tasks:
        pass


@kernel
def poll_tasks(queue, trees, active, work):  # type: ignore[no-untyped-def]
    """Run what tasks there are; False once the queue is closed, True after a while without work."""
    polls = 0
    while polls < _POLLS and atomic_load(queue.state, _CLOSED) == 0:
        if _all_begun(atomic_load(queue.state, _TASKS)):
            polls += 1
        else:
            polls = 0
            _run_tasks(queue, trees, active, work)
    return polls == _POLLS


@inner_kernel
def _run_tasks(queue, trees, active, work):  # type: ignore[no-untyped-def]
    while not _all_begun(atomic_load(queue.state, _TASKS)):
        tasks = fetch_add(queue.state, _TASKS)
        if _all_begun(tasks):
            return
        task, n_tasks = tasks & _NEXT_MASK, tasks >> _COUNT_SHIFT
        # Nobody changes the queue before this task is done.
        n_rows, numbers = queue.product[1], queue.numbers
        if queue.product[0] == _SCORES:
            add_scores(task, n_tasks, n_rows, trees, active, work)
        else:
            step_on_blocks(task, task + 1, n_rows, trees, active, work, numbers[0], numbers[1], numbers[2], numbers[3])
        fetch_add(queue.state, _DONE)


@part
def _all_begun(tasks):  # type: ignore[no-untyped-def]
    return (tasks & _NEXT_MASK) >= (tasks >> _COUNT_SHIFT)
