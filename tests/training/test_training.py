"""Epochs, reports and the ways to stop: callbacks, Ctrl-C, divergence."""

import importlib.util
import math
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from reference import Ensemble, loss_and_gradient, predict, random_data, random_trees, single_columns
from threadpoolctl import threadpool_info, threadpool_limits

from skinnytrees.activations import Sigmoid
from skinnytrees.exceptions import DivergenceError
from skinnytrees.kernels.state import Data, make_active, make_workspace
from skinnytrees.kernels.work_queue import close, make_work_queue, poll_tasks
from skinnytrees.losses import SquaredError
from skinnytrees.optimizers import SGD, Adam, OneCycle
from skinnytrees.penalties import GroupL0
from skinnytrees.threads import allowed_threads, in_step, one_blas_thread, side_by_side
from skinnytrees.training.loop import TrainingSettings, train

SETTINGS = TrainingSettings(
    SquaredError(), Sigmoid(), n_epochs=6, batch_size=8, learning_rate=0.1, l2=0.1, penalty=GroupL0(0.05, rate=0.1)
)


def small_problem():
    """An ensemble, and 30 rows to train it on: four steps per epoch."""
    rng = np.random.default_rng(1)
    return random_trees(4, 1, rng, dtype=np.float32), random_data(SquaredError(), 30, 4, 1, rng, np.float32)


def run(seed=0, validation=None, **changes):
    """Train the small ensemble; returns it with the reports."""
    trees, data = small_problem()
    settings = replace(SETTINGS, **changes)
    return trees, train(trees, data, single_columns(4), settings, np.random.default_rng(seed), validation)


# ------------------------------------------------------------------------------------------------ reports


def test_every_epoch_is_run_and_reported_once_to_every_callback():
    seen, also_seen = [], []
    _, reports = run(callbacks=[seen.append, also_seen.append])
    assert [report.epoch for report in reports] == list(range(6))
    assert seen == also_seen == reports


def test_report_tells_the_penalty_of_the_last_step_and_the_features_in_use():
    trees, reports = run()
    steps = 4 * np.arange(1, 7)
    np.testing.assert_allclose([report.lambda0 for report in reports], 0.05 * (1 - np.exp(-0.1 * steps)))
    assert reports[-1].n_features == trees.W.any(axis=1).sum()
    assert all(math.isnan(report.val_loss) for report in reports)


def test_validation_loss_is_the_weighted_mean_over_the_validation_rows():
    validation = random_data(SquaredError(), 100, 4, 1, np.random.default_rng(2), np.float32)
    trees, reports = run(validation=validation)
    outputs = predict(Ensemble.of(trees), validation.X, SETTINGS.activation)
    row_loss, _ = loss_and_gradient(SquaredError(), outputs, validation.Y)
    assert reports[-1].val_loss == pytest.approx(np.average(row_loss, weights=validation.weight), rel=1e-5)


def test_watching_validation_rows_does_not_change_training():
    validation = random_data(SquaredError(), 100, 4, 1, np.random.default_rng(2), np.float32)
    np.testing.assert_array_equal(run(validation=validation)[0].flat, run()[0].flat)


# ------------------------------------------------------------------------------------------------ stopping


def test_callback_stops_training_after_its_epoch():
    others = []
    trees, reports = run(callbacks=[lambda report: report.epoch == 2, others.append])
    assert len(reports) == 3
    assert len(others) == 3, "the other callbacks hear of the last epoch too"
    np.testing.assert_array_equal(trees.flat, run(n_epochs=3)[0].flat)


def test_any_number_of_epochs_may_be_asked_for_where_a_callback_stops():
    trees, reports = run(n_epochs=10**12, callbacks=[lambda report: report.epoch == 2])
    assert len(reports) == 3
    np.testing.assert_array_equal(trees.flat, run(n_epochs=3)[0].flat)


def test_rates_do_not_depend_on_how_many_are_computed_at_once(monkeypatch):
    way = {"n_epochs": 5, "schedule": OneCycle(), "penalty": GroupL0(0.01, rate=0.1)}
    together = run(**way)
    monkeypatch.setattr("skinnytrees.training.loop._SCHEDULED_AT_ONCE", 1)
    one_epoch_at_a_time = run(**way)
    np.testing.assert_array_equal(together[0].flat, one_epoch_at_a_time[0].flat)
    np.testing.assert_array_equal(together[1], one_epoch_at_a_time[1])


def interrupt(*_):
    raise KeyboardInterrupt


def test_ctrl_c_after_an_epoch_keeps_its_weights_and_warns():
    with pytest.warns(UserWarning, match="interrupted"):
        trees, reports = run(callbacks=[lambda report: report.epoch == 2 and interrupt()])
    assert len(reports) == 3
    np.testing.assert_array_equal(trees.flat, run(n_epochs=3)[0].flat)


class InterruptedRows:
    """Random orders of the rows, until Ctrl-C arrives in an epoch that has already moved the weights."""

    def __init__(self, trees, finished_epochs):
        self.trees, self.epochs_left, self.rng = trees, finished_epochs, np.random.default_rng(0)

    def permutation(self, n_rows):
        if self.epochs_left == 0:
            self.trees.flat[:] = 99
            raise KeyboardInterrupt
        self.epochs_left -= 1
        return self.rng.permutation(n_rows)


def interrupted_run(finished_epochs):
    trees, data = small_problem()
    return trees, train(trees, data, single_columns(4), SETTINGS, InterruptedRows(trees, finished_epochs))


def test_ctrl_c_within_an_epoch_goes_back_to_the_last_finished_one():
    with pytest.warns(UserWarning, match="last finished epoch"):
        trees, reports = interrupted_run(finished_epochs=2)
    assert len(reports) == 2
    np.testing.assert_array_equal(trees.flat, run(n_epochs=2)[0].flat)


def test_ctrl_c_before_the_first_epoch_is_over_stops_as_usual():
    with pytest.raises(KeyboardInterrupt):
        interrupted_run(finished_epochs=0)


def test_error_in_a_callback_reaches_the_user():
    def fail(report):
        raise LookupError("from the callback")

    with pytest.raises(LookupError, match="from the callback"):
        run(callbacks=[fail])


@pytest.mark.parametrize("optimizer", [SGD(), Adam()], ids=lambda optimizer: optimizer.name)
def test_divergence_is_an_error_that_names_the_learning_rate(optimizer):
    with pytest.raises(DivergenceError, match=r"epoch \d+.*learning_rate=1e\+30 is too large"):
        run(learning_rate=1e30, optimizer=optimizer)


# ------------------------------------------------------------------------------------------------ repeatability


@pytest.mark.parametrize("optimizer", [SGD(), Adam()], ids=lambda optimizer: optimizer.name)
def test_same_seed_gives_the_same_bits_and_another_seed_does_not(optimizer):
    first, again, other = (run(seed, optimizer=optimizer)[0].flat for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_batch_larger_than_the_table_is_the_full_batch():
    exact, larger = run(batch_size=30), run(batch_size=10**9)
    np.testing.assert_array_equal(exact[0].flat, larger[0].flat)
    assert [report.loss for report in exact[1]] == [report.loss for report in larger[1]]


def test_result_does_not_depend_on_the_number_of_blas_threads():
    """The products are large enough for BLAS to cut them for two threads if it may."""

    def trained():
        rng = np.random.default_rng(3)
        trees = random_trees(300, 2, rng, n_trees=20, depth=3, dtype=np.float32)
        data = random_data(SquaredError(), 500, 300, 2, rng, np.float32)
        settings = replace(SETTINGS, n_epochs=2, batch_size=250, learning_rate=0.01)
        train(trees, data, single_columns(300), settings, rng)
        return trees.flat

    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(trained())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("n_threads", [2, 5])
def test_result_does_not_depend_on_our_own_threads(n_threads):
    """The products are large enough to be distributed at first, and groups die on the way."""

    def trained(n_threads):
        rng = np.random.default_rng(3)
        trees = random_trees(400, 1, rng, n_trees=50, depth=4, dtype=np.float32)
        trees.W[:] *= np.linspace(0.1, 1, 400, dtype=np.float32)[:, None]
        data = random_data(SquaredError(), 600, 400, 1, rng, np.float32)
        settings = replace(
            SETTINGS,
            n_epochs=20,
            batch_size=64,
            learning_rate=1e-3,
            penalty=GroupL0(9e4, rate=0.01),
            n_threads=n_threads,
        )
        reports = train(trees, data, single_columns(400), settings, rng)
        return trees.flat, reports

    (one, reports), (several, again) = trained(1), trained(n_threads)
    np.testing.assert_array_equal(one, several)
    assert [report[:4] for report in reports] == [report[:4] for report in again]
    assert 0 < reports[-1].n_features < 400


def test_helper_that_comes_late_finds_a_closed_queue():
    """It may have counted itself in after the last task was begun: that must not open the queue again."""
    trees = random_trees(4, 1, np.random.default_rng(0))
    work, active, queue = make_workspace(trees, 5, 1), make_active(single_columns(4), 8, np.ones(4)), make_work_queue()
    assert poll_tasks(queue, trees, active, work), "an open queue without tasks is polled again"
    close(queue)
    queue.state[0] += 1
    assert not poll_tasks(queue, trees, active, work)


def test_fits_in_several_threads_share_one_limit_on_blas():
    """A fit that ends must not lift the limit while another is still running."""
    first, second = one_blas_thread(), one_blas_thread()
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert set(blas_threads()) == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


@pytest.mark.parametrize("n_threads", [1, 3])
def test_tasks_side_by_side_give_their_results_in_order_and_their_errors(n_threads):
    assert side_by_side([lambda i=i: i**2 for i in range(5)], n_threads) == [0, 1, 4, 9, 16]
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1, lambda: 1 // 0], n_threads)


@pytest.mark.parametrize("n_threads", [1, 2, 8])
def test_iterators_in_step_give_their_items_together(n_threads):
    def slow(name, seconds):
        for i in range(4):
            time.sleep(seconds)
            yield name, i

    iterators = [slow("a", 0.02), slow("b", 0.001), slow("c", 0.005)]
    assert list(in_step(iterators, 3, n_threads)) == [[("a", i), ("b", i), ("c", i)] for i in range(3)]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_error_in_an_iterator_comes_through(n_threads):
    with pytest.raises(ZeroDivisionError):
        list(in_step([iter([1, 2, 3]), (4 // i for i in (4, 2, 0))], 3, n_threads))


def test_iterator_that_is_ahead_does_not_wait():
    ahead = threading.Event()

    def quick():
        yield from range(3)
        ahead.set()
        yield 3

    def slow():
        yield 0
        assert ahead.wait(timeout=20), "waited for by the other"
        yield from range(1, 4)

    assert list(in_step([slow(), quick()], 4, 2)) == [[i, i] for i in range(4)]


def test_no_thread_at_all_is_refused_and_none_means_all_cores():
    with pytest.raises(ValueError, match="n_jobs=0 allows no thread"):
        allowed_threads(0)
    assert allowed_threads(1) == 1
    assert allowed_threads(None) == allowed_threads(-1) >= 1


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_users_number_of_blas_threads_comes_back_after_training():
    within = []
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        run(callbacks=[lambda report: within.extend(blas_threads())])
        assert blas_threads() == before
    assert set(within) == {1}


def test_training_moves_nothing_but_the_trees():
    rng = np.random.default_rng(4)
    trees, data = random_trees(4, 1, rng), random_data(SquaredError(), 30, 4, 1, rng)
    before = Data(*(part.copy() for part in data))
    train(trees, data, single_columns(4), SETTINGS, rng)
    for ours, theirs in zip(data, before, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# ------------------------------------------------------------------------------------------------ progress


@pytest.fixture
def without_tqdm(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "tqdm" else find_spec(name, *rest)
    )


@pytest.mark.usefixtures("without_tqdm")
@pytest.mark.parametrize(("verbose", "n_lines"), [(0, 0), (1, 20), (2, 40)])
def test_progress_is_plain_lines_without_tqdm(capsys, verbose, n_lines):
    _, reports = run(verbose=verbose, n_epochs=40)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == n_lines
    if lines:
        assert "40/40" in lines[-1]
        assert f"{reports[-1].loss:.4g}" in lines[-1]
        assert lines[-1].endswith(f"features {reports[-1].n_features}")


def test_progress_is_a_bar_with_tqdm(capsys):
    pytest.importorskip("tqdm")
    _, reports = run(verbose=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "6/6" in err
    assert f"features={reports[-1].n_features}" in err


def test_nothing_is_printed_by_default(capsys):
    run()
    capsys.readouterr()  # the first fit of a process may say that it compiles
    run()
    assert capsys.readouterr() == ("", "")
