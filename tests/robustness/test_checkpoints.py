"""A fit with a checkpoint goes on after it was killed, and gives the bits of a fit that was not."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.losses import SquaredError
from skinnytrees.model.storage import checkpoint as storage_checkpoint
from skinnytrees.optimizers import Adam
from skinnytrees.penalties import GroupL0, GroupLasso
from skinnytrees.training.epoch_runners.active_set import ActiveSetRunner
from skinnytrees.training.epoch_runners.wide import WideRunner

# Trainings are short here, so that some learn or remove nothing.
pytestmark = [
    pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning"),
    pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning"),
]
FEW = {"max_epochs": 12, "n_estimators": 4, "random_state": 0}


class Killed(BaseException):
    """Stands for a kill at a moment of the test's choice; no handler of the library sees it."""


def table(n_rows=90, n_columns=6):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns))
    return X, X[:, 0] + 0.1 * rng.standard_normal(n_rows)


def kill_after(n_reports):
    """A callback that kills a fit after so many reports, and counts them."""
    seen = []

    def callback(report):
        seen.append(report)
        if len(seen) == n_reports:
            raise Killed

    return callback, seen


@pytest.fixture(autouse=True)
def keep_at_every_epoch(monkeypatch):
    monkeypatch.setattr(storage_checkpoint, "_SECONDS", 0.0)


CASES = {
    "active set": ({"penalty": GroupL0(0.5, rate=0.05)}, table()),
    "threads": ({"penalty": GroupL0(0.5, rate=0.05), "n_jobs": 2}, table()),
    "sparse": ({"penalty": GroupL0(0.5, rate=0.05)}, (sparse.csr_matrix(table()[0]), table()[1])),
    "wide": ({"penalty": GroupL0(0.01)}, table(30, 90)),
    "wide, groups leave": ({"penalty": GroupL0(0.3, rate=0.02)}, table(30, 90)),
    "lasso": ({"penalty": GroupLasso(0.05)}, table()),
    "adam": ({"penalty": None, "optimizer": Adam()}, table()),
    "adam, sparse": ({"penalty": None, "optimizer": "adam"}, (sparse.csr_matrix(table()[0]), table()[1])),
    "path": ({"feature_budget": 3}, table()),
    "path, held out": ({"feature_budget": 3, "validation_fraction": 0.3}, table(120)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_that_was_killed_goes_on_with_the_same_bits(case, tmp_path):
    parameters, (X, y) = CASES[case]
    plain = SkinnyTreesRegressor(**{**FEW, **parameters}).fit(X, y)
    n_reports = len(plain.history_["epoch"])
    for at in {max(1, n_reports // 2), n_reports}:
        file = tmp_path / f"fit-{at}"
        callback, _ = kill_after(at)
        with pytest.raises(Killed):
            SkinnyTreesRegressor(**{**FEW, **parameters}, callbacks=[callback]).fit(X, y, checkpoint=file)
        size = file.stat().st_size
        seen = []
        again = SkinnyTreesRegressor(**{**FEW, **parameters}, callbacks=[seen.append]).fit(X, y, checkpoint=file)
        assert file.stat().st_size >= size > 100
        np.testing.assert_array_equal(again.model_.trees.flat, plain.model_.trees.flat)
        for name, column in plain.history_.items():
            np.testing.assert_array_equal(again.history_[name], column)
        assert len(seen) == n_reports, "callbacks hear of every epoch, also of those that an earlier process has done"


def test_a_wide_training_is_kept_in_sample_space(tmp_path, monkeypatch):
    kept, state = [], WideRunner.to_checkpoint
    monkeypatch.setattr(WideRunner, "to_checkpoint", lambda runner: kept.append(state(runner)) or kept[-1])
    parameters, (X, y) = CASES["wide"]
    SkinnyTreesRegressor(**{**FEW, **parameters}).fit(X, y, checkpoint=tmp_path / "fit")
    assert any("inside_Z" in one for one in kept), "otherwise the case above does not test what it should"


def test_epochs_that_are_done_are_not_done_again(tmp_path, monkeypatch):
    X, y = table()
    parameters = {**FEW, "penalty": GroupL0(0.5, rate=0.05)}
    callback, _ = kill_after(8)
    with pytest.raises(Killed):
        SkinnyTreesRegressor(**parameters, callbacks=[callback]).fit(X, y, checkpoint=tmp_path / "fit")
    n_epochs, epoch = [], ActiveSetRunner.epoch
    monkeypatch.setattr(ActiveSetRunner, "epoch", lambda *given: n_epochs.append(1) or epoch(*given))
    SkinnyTreesRegressor(**parameters, n_jobs=1).fit(X, y, checkpoint=tmp_path / "fit")
    assert len(n_epochs) == 12 - 8


def test_a_path_that_was_finished_trains_nothing_again(tmp_path, monkeypatch):
    X, y = table()
    first = SkinnyTreesRegressor(3, **FEW).fit(X, y, checkpoint=tmp_path / "fit")
    monkeypatch.setattr("skinnytrees.path.trainer.train_unwatched", None)
    again = SkinnyTreesRegressor(3, **FEW).fit(X, y, checkpoint=tmp_path / "fit")
    np.testing.assert_array_equal(again.predict(X), first.predict(X))


def test_another_fit_takes_nothing_from_the_checkpoint(tmp_path):
    X, y = table()
    SkinnyTreesRegressor(3, **FEW).fit(X, y, checkpoint=tmp_path / "fit")
    X[0, 0] += 1e-3
    for parameters in ({}, {"random_state": 1}, {"loss": "huber"}):
        model = SkinnyTreesRegressor(3, **{**FEW, **parameters})
        expected = model.fit(X, y).predict(X)
        np.testing.assert_array_equal(model.fit(X, y, checkpoint=tmp_path / "fit").predict(X), expected)


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.999])
def test_a_checkpoint_that_was_cut_off_or_damaged_does_no_harm(keep, tmp_path):
    X, y = table()
    file = tmp_path / "fit"
    expected = SkinnyTreesRegressor(3, **FEW).fit(X, y, checkpoint=file).predict(X)
    content = bytearray(file.read_bytes())
    content[len(content) // 5] ^= 1
    file.write_bytes(content[: int(keep * len(content))])
    np.testing.assert_array_equal(SkinnyTreesRegressor(3, **FEW).fit(X, y, checkpoint=file).predict(X), expected)


def test_states_that_are_replaced_do_not_pile_up(tmp_path, monkeypatch):
    monkeypatch.setattr(storage_checkpoint, "_SMALL", 20_000)
    X, y = table()
    parameters = {**FEW, "max_epochs": 60, "penalty": GroupL0(0.1)}
    SkinnyTreesRegressor(**parameters).fit(X, y, checkpoint=tmp_path / "fit")
    assert 10_000 < (tmp_path / "fit").stat().st_size < 100_000, "sixty states would take ten times as much"
    assert [file.name for file in tmp_path.iterdir()] == ["fit"]


def test_fits_that_cannot_be_repeated_and_files_of_something_else_are_refused(tmp_path):
    X, y = table()

    class Own(SquaredError):
        pass

    with pytest.raises(ValueError, match=r"random_state=None\. Set random_state"):
        SkinnyTreesRegressor(3).fit(X, y, checkpoint=tmp_path / "fit")
    with pytest.raises(ValueError, match="checkpoint cannot tell whether loss="):
        SkinnyTreesRegressor(3, loss=Own(), random_state=0).fit(X, y, checkpoint=tmp_path / "fit")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="file of something else"):
        SkinnyTreesRegressor(3, random_state=0).fit(X, y, checkpoint=tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == "a,b\n1,2\n"
    with (
        storage_checkpoint.open_checkpoint(tmp_path / "fit"),
        pytest.raises(ValueError, match="in use by another fit"),
    ):
        SkinnyTreesRegressor(3, random_state=0).fit(X, y, checkpoint=tmp_path / "fit")


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_sigkill_at_random_moments_loses_nothing():
    program = [sys.executable, "-m", "tests.robustness.kill_fits", "--kind", "penalty", "--kills", "3"]
    finished = subprocess.run(program, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "all with the same bits" in finished.stdout


def test_a_folder_that_is_not_there_is_named(tmp_path):
    X, y = table()
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        SkinnyTreesClassifier(random_state=0).fit(X, y > 0, checkpoint=Path(tmp_path) / "nowhere" / "fit")
