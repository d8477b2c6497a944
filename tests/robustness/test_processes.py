"""Fits in several processes and event loops, also forked while another thread fits: the same bits in all."""

import asyncio
import contextlib
import multiprocessing
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from skinnytrees import threads

from .test_threads import WAIT, blas_threads, penalised, wide_problem

pytestmark = [
    pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning"),
    # Python 3.12 warns of what is tested here.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
needs_fork = pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork"
)


def fit_and_predict(_=None):
    X, y = wide_problem()
    return penalised().fit(X, y).predict(X)


@pytest.fixture(scope="module")
def expected():
    return fit_and_predict()


@contextlib.contextmanager
def fit_under_way():
    """A fit in another thread, which is within its first epoch and stays there."""
    entered, may_leave = threading.Event(), threading.Event()

    def callback(report):
        entered.set()
        assert may_leave.wait(WAIT)

    with ThreadPoolExecutor(1) as pool:
        fitted = pool.submit(lambda: penalised(callbacks=[callback]).fit(*wide_problem()))
        assert entered.wait(WAIT)
        try:
            yield
        finally:
            may_leave.set()
        fitted.result(WAIT)


def in_a_fork(function):
    """What a function returns in a forked process; a process that does not come back is killed."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(function()))
    process.start()
    try:
        assert receiver.poll(WAIT), "the forked process waits for ever"
        return receiver.recv()
    finally:
        process.kill()
        process.join()


@needs_fork
def test_process_forked_while_a_thread_fits_can_fit_with_the_same_bits(expected):
    with fit_under_way():
        np.testing.assert_array_equal(in_a_fork(fit_and_predict), expected)


@needs_fork
def test_process_forked_while_a_thread_fits_has_the_users_blas_threads():
    """The thread that would give them back does not exist there."""
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with fit_under_way():
            assert set(blas_threads()) == {1}
            assert in_a_fork(blas_threads) == before
            assert in_a_fork(lambda: [fit_and_predict(), blas_threads()][1]) == before
            assert set(blas_threads()) == {1}, "the parent still fits"
        assert blas_threads() == before


@needs_fork
def test_process_forked_within_a_fit_stays_limited_until_it_leaves():
    def within_and_after():
        within = blas_threads()
        threads._limiter.leave()
        return within, blas_threads()

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with threads.one_blas_thread():
            assert in_a_fork(within_and_after) == ([1] * len(before), before)


@needs_fork
def test_fork_waits_for_a_thread_that_enters_or_leaves():
    """A child that has the lock, but not the thread that holds it, would wait for ever."""
    taken = threading.Event()

    def hold():
        with threads._limiter.lock:
            taken.set()
            threading.Event().wait(0.3)

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(hold)
        assert taken.wait(WAIT)
        assert in_a_fork(lambda: threads._limiter.lock.acquire(timeout=1))
        held.result(WAIT)


def test_fits_of_an_event_loop_run_side_by_side_with_the_same_bits(expected):
    async def two_fits():
        return await asyncio.gather(asyncio.to_thread(fit_and_predict), asyncio.to_thread(fit_and_predict))

    before = blas_threads()
    for predictions in asyncio.run(two_fits()):
        np.testing.assert_array_equal(predictions, expected)
    assert blas_threads() == before


def in_a_spawned_process():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(fit_and_predict).result(WAIT)


def test_spawned_processes_and_loky_workers_fit_with_the_same_bits(expected, monkeypatch):
    np.testing.assert_array_equal(in_a_spawned_process(), expected)
    # loky loads BLAS with a single thread. Old versions of OpenBLAS then round products differently on some processors, whatever
    # number of threads they are told to use later.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    loaded_alike = in_a_spawned_process()
    np.testing.assert_allclose(loaded_alike, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    for predictions in Parallel(n_jobs=2, backend="loky")(delayed(fit_and_predict)(i) for i in range(2)):
        np.testing.assert_array_equal(predictions, loaded_alike)
