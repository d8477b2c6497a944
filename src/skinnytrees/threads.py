"""Threads: independent trainings side by side, BLAS on one thread meanwhile, the user's settings restored afterwards."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from skinnytrees.exceptions import refuse_unless

Result = TypeVar("Result")


def allowed_threads(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` allows: None means all cores; within a joblib worker, what is left to it."""
    refuse_unless(n_jobs != 0, "n_jobs=0 allows no thread. Use 1 for one, or None for all cores.")
    return int(effective_n_jobs(-1 if n_jobs is None else n_jobs))


def side_by_side(tasks: Sequence[Callable[[], Result]], n_threads: int) -> list[Result]:
    """Results of independent tasks in their order, run on up to ``n_threads`` threads; the kernels release the GIL."""
    if n_threads == 1 or len(tasks) <= 1:
        return [task() for task in tasks]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(lambda task: task(), tasks))


def in_step(iterators: Sequence[Iterator[Result]], n_items: int, n_threads: int) -> Iterator[list[Result]]:
    """The first items of all iterators, then the second ones, up to ``n_items`` of each.

    Nobody waits for the slowest: a free thread goes on with the iterator that is least advanced.
    """
    if n_threads == 1 or len(iterators) == 1:
        for _ in range(n_items):
            yield [next(iterator) for iterator in iterators]
        return
    items: list[list[Result]] = [[] for _ in iterators]
    running: dict[Future[Result], int] = {}
    with ThreadPoolExecutor(n_threads) as pool:
        for n_given in range(n_items):
            while any(len(given) == n_given for given in items):
                idle = [i for i in range(len(iterators)) if i not in running.values() and len(items[i]) < n_items]
                for i in sorted(idle, key=lambda i: len(items[i]))[: n_threads - len(running)]:
                    running[pool.submit(next, iterators[i])] = i
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    items[running.pop(done)].append(done.result())
            yield [given[n_given] for given in items]


class _OneBlasThread:
    """Limits BLAS from the first that enters to the last that leaves: fits in several threads share one process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.limit: Any = None

    def enter(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.limit = _controller().limit(limits=1, user_api="blas")
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.limit.restore_original_limits()


_limiter = _OneBlasThread()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS on one thread.

    The products of a training step are small: a second thread that spins between them costs more than it gives, and the
    result of a product depends in its last bits on how it was cut for threads, so a fit would not repeat.
    """
    _limiter.enter()
    try:
        yield
    finally:
        _limiter.leave()


@functools.cache
def _controller() -> ThreadpoolController:
    import scipy.linalg.cython_blas  # noqa: F401  (the BLAS to be limited must be loaded when we look)

    return ThreadpoolController()
