"""A disk without space, which is a small file system in memory: what was there stays whole, and long work goes on."""

import errno
import os
import re
import shutil
import subprocess
import tempfile

import numba
import numpy as np
import pytest

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor, load
from skinnytrees.comparison import compare
from skinnytrees.evaluation import evaluate
from skinnytrees.evaluation.results_file import ResultsFile
from skinnytrees.kernels.numba_bridge import disk_cache
from skinnytrees.model.storage import checkpoint as storage_checkpoint
from skinnytrees.penalties import GroupL0

from .test_cache import by_function_argument, by_kernel

QUICK = {"max_epochs": 3, "n_estimators": 4, "random_state": 0}
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
pytestmark = [
    pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning"),
    pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning"),
]


class SmallDisk:
    """A folder on a disk of its own, and a file that takes up its space."""

    def __init__(self, folder):
        self.folder, self.filler = folder, folder / "filler"

    def fill(self, pages_left=0):
        """Take all space but so many pages."""
        self.make_room()
        free = os.statvfs(self.folder)
        self.filler.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - pages_left * PAGE)))

    def make_room(self):
        self.filler.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path):
    """One megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a small file system needs Linux and the superuser")
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def problem(n_columns=4):
    X = np.random.default_rng(0).normal(size=(60, n_columns))
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def model():
    return SkinnyTreesClassifier(2, **QUICK).fit(*problem())


# ------------------------------------------------------------------------------------------------ models


@pytest.mark.parametrize("pages_left", [0, 1])
def test_save_on_a_full_disk_says_so_and_keeps_the_old_file(disk, model, pages_left):
    file = disk.folder / "model.skinny"
    model.save(file)
    before = file.read_bytes()
    assert len(before) > PAGE
    disk.fill(pages_left)
    with pytest.raises(OSError, match=r"No space left.*before is unchanged.*Free space") as caught:
        model.save(file)
    assert caught.value.errno == errno.ENOSPC
    assert str(file) in str(caught.value)
    assert file.read_bytes() == before
    with pytest.raises(OSError, match=r"other.skinny cannot be written\. Free space"):
        model.save(disk.folder / "other.skinny")
    assert {path.name for path in disk.folder.iterdir()} == {"filler", "model.skinny"}, "nothing half written is left"
    disk.make_room()
    model.save(file)
    assert np.array_equal(load(file).predict_proba(problem()[0]), model.predict_proba(problem()[0]))


# ------------------------------------------------------------------------------------------------ checkpoints


@pytest.fixture
def keep_at_every_epoch(monkeypatch):
    monkeypatch.setattr(storage_checkpoint, "_SECONDS", 0.0)


WAYS = {"path": {"feature_budget": 2}, "penalty": {"penalty": GroupL0(0.1)}}


@pytest.mark.usefixtures("keep_at_every_epoch")
@pytest.mark.parametrize("way", WAYS)
def test_fit_goes_on_where_the_disk_of_its_checkpoint_becomes_full(disk, way):
    X, y = problem()
    expected = SkinnyTreesClassifier(**QUICK, **WAYS[way]).fit(X, y).predict_proba(X)
    file, reports = disk.folder / "fit.checkpoint", []

    def fill_once(report):
        if not reports:
            disk.fill(pages_left=1)
        reports.append(report)

    with pytest.warns(UserWarning, match=r"cannot be written \(No space left.*The fit goes on.*Free space") as told:
        filled = SkinnyTreesClassifier(**QUICK, **WAYS[way], callbacks=[fill_once]).fit(X, y, checkpoint=file)
    assert len([one for one in told if "checkpoint" in str(one.message)]) == 1
    assert len(reports) > 1
    np.testing.assert_array_equal(filled.predict_proba(X), expected)
    disk.make_room()
    size = file.stat().st_size
    again = SkinnyTreesClassifier(**QUICK, **WAYS[way]).fit(X, y, checkpoint=file)
    np.testing.assert_array_equal(again.predict_proba(X), expected)
    assert file.stat().st_size >= size, "what was kept before the disk was full is still there"


def test_checkpoint_on_a_disk_that_is_full_already_is_refused_before_the_fit(disk):
    disk.fill()
    with pytest.raises(OSError, match=r"No space left.*checkpoint=.*Free space on its disk, or name a file elsewhere"):
        SkinnyTreesClassifier(**QUICK).fit(*problem(), checkpoint=disk.folder / "fit.checkpoint")


def test_records_before_and_after_a_full_disk_are_found_again(disk):
    """Also where the file cannot be written anew, which needs space for both."""
    file, array = disk.folder / "checkpoint", np.arange(1000.0)
    with storage_checkpoint.open_checkpoint(file) as kept:
        kept.keep("a" * 64, {"n": 1}, {"x": array})
        disk.fill(pages_left=1)
        with pytest.warns(UserWarning, match="goes on"):
            kept.keep("b" * 64, {"n": 2}, {"x": array})
        assert kept.recall("b" * 64) is None
        disk.make_room()
        kept.keep("c" * 64, {"n": 3}, {"x": array})
    with storage_checkpoint.open_checkpoint(file) as kept:
        assert [kept.recall(name * 64) and kept.recall(name * 64).numbers["n"] for name in "abc"] == [1, None, 3]
        np.testing.assert_array_equal(kept.recall("c" * 64).arrays["x"], array)


def test_checkpoint_that_cannot_be_written_anew_goes_on_in_the_old_file(disk, monkeypatch):
    monkeypatch.setattr(storage_checkpoint, "_SMALL", 0)
    file, array = disk.folder / "checkpoint", np.random.default_rng(0).normal(size=12_000)  # does not compress
    n_pages = array.nbytes // PAGE + 1
    with storage_checkpoint.open_checkpoint(file) as kept:
        for n in range(7):
            if n == 4:
                assert file.stat().st_size < 2 * array.nbytes, "the fourth record has let the file be written anew"
                disk.fill(pages_left=3 * n_pages + n_pages // 2)
            kept.keep("a" * 64, {"n": n}, {"x": array})
            assert kept.recall("a" * 64).numbers["n"] == n
    assert file.stat().st_size > 4 * array.nbytes, "there was no space for another file"


# ------------------------------------------------------------------------------------------------ files of results


@pytest.mark.parametrize("n_before", [0, 1])
def test_results_that_a_full_disk_did_not_take_are_written_later(disk, n_before):
    file, long = disk.folder / "results.jsonl", "x" * 3 * PAGE
    results = ResultsFile(file, "these data")
    for k in range(n_before):
        results.add(f"before {k}", {"text": long})
    before = file.read_bytes() if n_before else b""
    disk.fill(pages_left=1)
    with pytest.warns(UserWarning, match=r"results.jsonl cannot be written \(No space left.*Free space") as told:
        results.add("first", {"text": long})
    assert len(told) == 1
    results.add("second", {"text": long})  # says no more
    assert file.read_bytes().startswith(before)
    assert set(ResultsFile(file, "these data").found) == {f"before {k}" for k in range(n_before)}
    disk.make_room()
    results.add("third", {"text": long})
    assert ResultsFile(file, "these data").found == results.found
    assert len(results.found) == n_before + 3


def test_evaluation_on_a_full_disk_gives_its_result(disk):
    disk.fill()
    file = disk.folder / "folds.jsonl"
    with pytest.warns(UserWarning, match="No space left"):
        result = evaluate(SkinnyTreesRegressor(2, **QUICK), *problem(), cv=2, n_jobs=1, results_file=file)
    assert len(result.folds) == 2
    disk.make_room()
    again = evaluate(SkinnyTreesRegressor(2, **QUICK), *problem(), cv=2, n_jobs=1, results_file=file)
    assert [fold["scores"] for fold in again.folds] == [fold["scores"] for fold in result.folds]


def test_comparison_says_where_there_is_no_space_for_its_table(disk, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(disk.folder))
    disk.fill(pages_left=2)
    with pytest.raises(OSError, match=r"No space left.*copy of the table.*Free space.*TMPDIR"):
        compare(*problem(n_columns=500), {"ours": SkinnyTreesClassifier(**QUICK)}, [2], cv=2)


# ------------------------------------------------------------------------------------------------ compiled kernels


@pytest.mark.parametrize("compute", [by_kernel, by_function_argument])
@pytest.mark.parametrize("pages_left", [0, 1, 2])
def test_kernels_are_compiled_without_a_cache_on_a_full_disk(disk, compute, pages_left, monkeypatch, capsys):
    """With no page there is no room for a folder's files, with two for the index but not for the machine code."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(disk.folder / "cache"))
    monkeypatch.setattr(disk_cache, "_told", set())
    disk.fill(pages_left)
    assert [compute(), compute()] == [(10.5, False)] * 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert re.match(
        f"skinnytrees: cannot keep compiled kernels in {re.escape(str(disk.folder))}.*No space left", told[0]
    )
    assert not list(disk.folder.rglob("*.tmp.*"))
    disk.make_room()
    assert [compute(), compute()] == [(10.5, False), (10.5, True)]
