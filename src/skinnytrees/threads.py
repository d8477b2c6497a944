"""Threads: independent trainings side by side, BLAS on one thread meanwhile, the user's settings restored afterwards."""

import contextlib
import functools
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from skinnytrees.exceptions import refuse_unless

Result = TypeVar("Result")


def allowed_threads(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` allows: None means all cores; within a joblib worker, what is left to it."""
    refuse_unless(n_jobs != 0, "n_jobs=0 allows no thread. Use 1 for one, or None for all cores.")
    return int(effective_n_jobs(-1 if n_jobs is None else n_jobs))


def side_by_side(tasks: Sequence[Callable[[], Result]], n_threads: int) -> list[Result]:
    """Results of independent tasks in their order, run on up to ``n_threads`` threads; the kernels release the GIL.

    After Ctrl-C, or when a task fails, the others end at their next ``stop_if_interrupted``.
    """
    if n_threads == 1 or len(tasks) <= 1:
        return [task() for task in tasks]
    with _workers(n_threads) as (submit, finished):
        results = []
        for future in [submit(task) for task in tasks]:
            while not future.done():
                finished.get()
            results.append(future.result())
        return results


def in_step(iterators: Sequence[Iterator[Result]], n_items: int, n_threads: int) -> Iterator[list[Result]]:
    """The first items of all iterators, then the second ones, up to ``n_items`` of each.

    Nobody waits for the slowest: a free thread goes on with the iterator that is least advanced. When no more items are taken, be
    it after Ctrl-C, what is running ends at its next ``stop_if_interrupted``.
    """
    if n_threads == 1 or len(iterators) == 1:
        for _ in range(n_items):
            yield [next(iterator) for iterator in iterators]
        return
    items: list[list[Result]] = [[] for _ in iterators]
    running: dict[Future[Result], int] = {}
    with _workers(n_threads) as (submit, finished):
        for n_given in range(n_items):
            while any(len(given) == n_given for given in items):
                idle = [i for i in range(len(iterators)) if i not in running.values() and len(items[i]) < n_items]
                for i in sorted(idle, key=lambda i: len(items[i]))[: n_threads - len(running)]:
                    running[submit(functools.partial(next, iterators[i]))] = i
                done = finished.get()
                items[running.pop(done)].append(done.result())
            yield [given[n_given] for given in items]


# ------------------------------------------------------------------------------------------------ stopping


class Stopped(BaseException):
    """Ends a task whose result nobody waits for any more.

    Not a KeyboardInterrupt: whoever catches that one keeps a model and warns, which is for the thread that the user sees.
    """


class _Stop:
    """Whether the tasks of one pool shall end: they, or those within which the pool was opened."""

    def __init__(self, outer: "_Stop | None") -> None:
        self.outer = outer
        self.is_set = False

    def applies(self) -> bool:
        return self.is_set or (self.outer is not None and self.outer.applies())


class _OfThread(threading.local):
    """What a thread knows about itself."""

    stop: _Stop | None = None  # of the pool whose task it runs
    n_entered: int = 0  # how often it is within one_blas_thread
    before: tuple[int | None, ...] = ()  # its BLAS threads before the first time


_of_thread = _OfThread()


def stop_if_interrupted() -> None:
    """Raise ``Stopped`` in a task that runs on another thread and that nobody waits for; long tasks call this now and then.

    Python delivers Ctrl-C to the main thread only.
    """
    if _of_thread.stop is not None and _of_thread.stop.applies():
        raise Stopped


class _Pool(NamedTuple):
    """A function that takes tasks, and the queue of those that are finished.

    The queue is what to wait for: Ctrl-C while waiting for a future, whose lock is written in Python, may break that lock.
    """

    submit: Callable[[Callable[[], Any]], Future[Any]]
    finished: "queue.SimpleQueue[Future[Any]]"


@contextlib.contextmanager
def _workers(n_threads: int) -> Iterator[_Pool]:
    """A pool of threads; what still runs in the end is told to stop, and waited for."""
    stop, finished = _Stop(_of_thread.stop), queue.SimpleQueue[Future[Any]]()

    def run(task: Callable[[], Any]) -> Any:
        _of_thread.stop = stop
        stop_if_interrupted()
        with one_blas_thread():
            return task()

    def submit(task: Callable[[], Any]) -> Future[Any]:
        future = pool.submit(run, task)
        future.add_done_callback(finished.put)
        return future

    with ThreadPoolExecutor(n_threads) as pool:
        try:
            yield _Pool(submit, finished)
        finally:
            stop.is_set = True


# ------------------------------------------------------------------------------------------------ BLAS


class _OneBlasThread:
    """Limits BLAS from the first that enters to the last that leaves: fits in several threads share one process.

    Most libraries have one number of threads per process. It is set by whoever enters and restored by whoever leaves last. Where
    BLAS runs on OpenMP there is one number per thread, which each thread sets and restores for itself.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_inside = 0
        self.before: tuple[int | None, ...] = ()

    def enter(self) -> None:
        with self.lock:
            if _of_thread.n_entered == 0:
                _of_thread.before = tuple(library.num_threads for library in _libraries())
                if self.n_inside == 0:
                    self.before = _of_thread.before
                self.n_inside += 1
                for library in _libraries():
                    _set_threads(library, 1)
            _of_thread.n_entered += 1

    def leave(self) -> None:
        with self.lock:
            _of_thread.n_entered -= 1
            if _of_thread.n_entered > 0:
                return
            self.n_inside -= 1
            for library, before, own_before in zip(_libraries(), self.before, _of_thread.before, strict=True):
                if _is_per_thread(library):
                    _set_threads(library, own_before)
                elif self.n_inside == 0:
                    _set_threads(library, before)

    def begin_in_fork(self) -> None:
        """Forget the threads of the parent: in a forked process only the one that forked lives on, and nobody else leaves."""
        was_limited, is_inside = self.n_inside > 0, _of_thread.n_entered > 0
        self.n_inside = int(is_inside)
        if was_limited and not is_inside:
            for library, before in zip(_libraries(), self.before, strict=True):
                if not _is_per_thread(library):
                    _set_threads(library, before)
        self.lock.release()


_limiter = _OneBlasThread()
if hasattr(os, "register_at_fork"):
    # The lock is taken before, so that a child never gets it from a thread that it does not have.
    os.register_at_fork(
        before=_limiter.lock.acquire, after_in_parent=_limiter.lock.release, after_in_child=_limiter.begin_in_fork
    )


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


def _set_threads(library: Any, n_threads: int | None) -> None:
    """Set how many threads a BLAS library uses, from whichever thread.

    threadpoolctl 3.8 lets only the first thread that asks set the number of OpenBLAS, as long as that thread lives, and ignores
    all others silently. We count who is inside ourselves and may be any thread, hence the call below that rule; older
    versions have no such rule.
    """
    if n_threads is not None:
        getattr(library, "_real_set_num_threads", library.set_num_threads)(n_threads)


def _is_per_thread(library: Any) -> bool:
    return getattr(library, "threading_layer", None) == "openmp"


@functools.cache
def _libraries() -> tuple[Any, ...]:
    """The BLAS libraries in this process, as threadpoolctl controls them."""
    import scipy.linalg.cython_blas  # noqa: F401  (the BLAS to be limited must be loaded when we look)

    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
