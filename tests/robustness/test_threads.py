"""Fits in several threads: the same bits in each, the user's BLAS threads restored, whoever enters first or leaves last."""

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from skinnytrees import SkinnyTreesRegressor, threads
from skinnytrees.penalties import GroupL0
from skinnytrees.threads import one_blas_thread

WAIT = 60
pytestmark = pytest.mark.filterwarnings(
    "ignore::skinnytrees.exceptions.SelectionWarning"
)  # three epochs remove nothing


@pytest.fixture
def two_blas_threads():
    """Settings of a user, on machines of one core too; threadpoolctl then lets no thread but the main one change them."""
    with threadpool_limits(2, user_api="blas"):
        yield


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def in_another_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(WAIT)


def wide_problem():
    """Large enough for BLAS to cut its products for two threads if it may, which changes the last bits."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(600, 300)).astype(np.float32)
    return X, X[:, 0] + X[:, 1] * X[:, 2]


def penalised(**more):
    settings = {"penalty": GroupL0(0.01, rate=0.1), "max_epochs": 3, "batch_size": 300, "n_estimators": 40, "n_jobs": 1}
    return SkinnyTreesRegressor(random_state=0, **settings, **more)


@pytest.mark.usefixtures("two_blas_threads")
def test_fit_in_another_thread_has_the_same_bits_after_the_main_thread_has_fitted():
    X, y = wide_problem()
    seen = []
    main = penalised().fit(X, y)
    other = in_another_thread(
        lambda: penalised(callbacks=[lambda report: seen.extend(blas_threads()) and None]).fit(X, y)
    )
    assert set(seen) == {1}
    np.testing.assert_array_equal(main.predict(X), other.predict(X))
    np.testing.assert_array_equal(main.history_["loss"], other.history_["loss"])


@pytest.mark.parametrize("by_main_thread", [True, False])
@pytest.mark.parametrize("last", [0, 1])
def test_overlapping_fits_in_two_threads_give_the_users_blas_threads_back(last, by_main_thread, request):
    """Both are inside at once; either the first or the second to enter is the last to leave, and both threads live on."""
    if by_main_thread:
        request.getfixturevalue("two_blas_threads")
    X, y = wide_problem()
    before = blas_threads()
    entered, may_leave, has_left = ([threading.Event(), threading.Event()] for _ in range(3))
    the_end = threading.Event()

    def fit(i):
        def callback(report):
            entered[i].set()
            assert may_leave[i].wait(WAIT)

        penalised(callbacks=[callback]).fit(X, y)
        has_left[i].set()
        assert the_end.wait(WAIT), "a thread that lives on"

    with ThreadPoolExecutor(2) as pool:
        fits = []
        for i in (0, 1):
            fits.append(pool.submit(fit, i))
            assert entered[i].wait(WAIT)
        for i in (1 - last, last):
            assert set(blas_threads()) == {1}
            may_leave[i].set()
            assert has_left[i].wait(WAIT)
        after = blas_threads()
        the_end.set()
        for one in fits:
            one.result(WAIT)
    assert after == before


def test_fits_of_many_threads_at_once_restore_and_agree():
    X, y = wide_problem()
    expected, before = penalised().fit(X, y).predict(X), blas_threads()
    with ThreadPoolExecutor(4) as pool:
        for model in pool.map(lambda _: penalised().fit(X, y), range(8)):
            np.testing.assert_array_equal(model.predict(X), expected)
        assert blas_threads() == before


LIMIT_OF_A_USER = """
from threadpoolctl import threadpool_limits
from tests.robustness.test_threads import blas_threads, in_another_thread, penalised, wide_problem

with threadpool_limits(2, user_api="blas"):
    in_another_thread(lambda: penalised().fit(*wide_problem()))
    assert set(blas_threads()) == {2}
    with threadpool_limits(1, user_api="blas"):
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {2}
"""


def test_users_limit_in_the_main_thread_stays_theirs_after_a_fit_in_another():
    """The fit must not take from the main thread the right to set limits, which threadpoolctl gives to one thread.

    In a process of its own: here a thread that another test left alive may own that right already.
    """
    done = subprocess.run([sys.executable, "-c", LIMIT_OF_A_USER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class PerThreadLibrary:
    """A BLAS on OpenMP: each thread has a number of its own."""

    threading_layer = "openmp"

    def __init__(self):
        self.local = threading.local()

    @property
    def num_threads(self):
        return getattr(self.local, "n", 8)

    def set_num_threads(self, n):
        self.local.n = n


def test_blas_with_a_limit_per_thread_is_limited_and_restored_in_each(monkeypatch):
    library = PerThreadLibrary()
    monkeypatch.setattr(threads, "_libraries", lambda: (library,))

    def own_number():
        library.set_num_threads(3)
        with one_blas_thread(), one_blas_thread():
            within = library.num_threads
        return within, library.num_threads

    with one_blas_thread():
        assert threads.side_by_side([lambda: library.num_threads] * 3, 2) == [1, 1, 1]
        assert in_another_thread(own_number) == (1, 3)
        assert library.num_threads == 1
    assert library.num_threads == 8


# ------------------------------------------------------------------------------------------------ stopping


class Endless:
    """A task that ends only when it is told to; it says so if it is not."""

    def __init__(self):
        self.started, self.was_stopped = threading.Event(), False

    def __call__(self):
        end = time.monotonic() + WAIT
        self.started.set()
        try:
            while time.monotonic() < end:
                threads.stop_if_interrupted()
                time.sleep(0.01)
        except threads.Stopped:
            self.was_stopped = True
            raise


def interrupted_after(*tasks):
    for task in tasks:
        assert task.started.wait(WAIT)
    raise KeyboardInterrupt


@pytest.mark.parametrize("is_nested", [False, True])
def test_running_tasks_end_when_one_is_interrupted(is_nested):
    endless = [Endless(), Endless()]
    running = [lambda: threads.side_by_side(endless, 2)] if is_nested else endless
    with pytest.raises(KeyboardInterrupt):
        threads.side_by_side([lambda: interrupted_after(*endless), *running], 3)
    assert [task.was_stopped for task in endless] == [True, True]


def test_iterators_that_run_ahead_end_when_the_walk_is_interrupted():
    ahead = Endless()

    def runs_ahead():
        yield 0
        yield ahead()

    def walk():
        for _ in threads.in_step([runs_ahead(), one_then_wait(ahead)], 2, 2):
            interrupted_after(ahead)

    with pytest.raises(KeyboardInterrupt):
        walk()
    assert ahead.was_stopped


def one_then_wait(other):
    """Its first item comes when the other iterator is on its second one."""
    assert other.started.wait(WAIT)
    yield 0
    yield 1


def test_nobody_is_stopped_outside_of_an_interrupted_pool():
    threads.stop_if_interrupted()
    assert threads.side_by_side([lambda: threads.stop_if_interrupted() or 1] * 3, 2) == [1, 1, 1]
    threads.stop_if_interrupted()
