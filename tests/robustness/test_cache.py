"""The cache of compiled kernels: damaged files are compiled again, a disk that cannot be written is done without."""

import errno
import os
import shutil
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import numba
import numpy as np
import pytest

from skinnytrees.kernels.compilation import function_argument, kernel
from skinnytrees.kernels.numba_bridge import disk_cache

from .cache_damage import cache_files, damage

SIGNATURE = numba.float64(numba.float64)


def polynomial(x):
    return x * x + 3.0 * x + 0.5


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache; messages are told again."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(disk_cache, "_told", set())
    return tmp_path / "cache"


def by_kernel():
    """The value, and whether the machine code came from the cache, as a new process would get it."""
    made = kernel(polynomial)
    return made(2.0), sum(made.stats.cache_hits.values()) == 1


def by_function_argument():
    """The same for functions that kernels take as arguments."""
    made = function_argument(SIGNATURE, polynomial)
    return made.ctypes(2.0), made.cache_hits == 1


def test_kernels_come_from_the_cache(folder, capsys):
    for compute in (by_kernel, by_function_argument):
        assert [compute(), compute()] == [(10.5, False), (10.5, True)]
        shutil.rmtree(folder)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("compute", [by_kernel, by_function_argument])
@pytest.mark.parametrize("seed", range(10))
def test_damaged_cache_is_compiled_again_and_replaced(folder, compute, seed, capsys):
    rng = np.random.default_rng(seed)
    compute()
    damage(cache_files(folder)[seed % 2], rng)
    assert compute() == (10.5, False), "it must not be used"
    assert compute() == (10.5, True), "it must have been replaced"
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith(f"skinnytrees: found damaged files of compiled kernels in {folder}")


def test_machine_code_of_another_version_or_signature_is_not_run(folder):
    """A kill or a full disk between two writes leaves a new index with old machine code; so do two first fits at once."""
    by_kernel()
    index, code = sorted(cache_files(folder), key=lambda path: path.suffix, reverse=True)
    assert (index.suffix, code.suffix) == (".nbi", ".nbc")
    old_code = code.read_bytes()
    cache_file = kernel(polynomial)._cache._cache_file
    ((key, name),) = cache_file._load_index().items()
    cache_file._save_data(name, ("another signature", "other code"))
    assert cache_file.load(key) is None
    code.write_bytes(old_code)
    assert cache_file.load(key) is not None
    cache_file._depends_on = bytes(len(cache_file._depends_on))
    cache_file._save_index({key: name})
    assert cache_file.load(key) is None, "the machine code is of the version before"


# ------------------------------------------------------------------------------------------------ kills


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_process_killed_while_it_writes_leaves_a_cache_that_can_be_used(folder, capsys):
    """A child empties and fills the cache without a pause; every file it leaves must be an old or a new one as a whole."""
    by_kernel()
    cache_file, rng, found = kernel(polynomial)._cache._cache_file, np.random.default_rng(0), []
    ((key, _),) = cache_file._load_index().items()
    data = cache_file.load(key)
    for _ in range(30):
        process = os.fork()
        if process == 0:
            while True:
                cache_file.flush()
                for k in (("another",), key):
                    cache_file.save(k, data)
        time.sleep(rng.uniform(0, 0.03))
        os.kill(process, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(process, 0)[1])
        value, is_hit = by_kernel()
        found.append(is_hit)
        assert value == 10.5
        assert by_kernel() == (10.5, True)
    assert False in found, "kills came when the machine code was not there yet"
    assert capsys.readouterr().err == "", "no file was half written"


def test_what_a_killed_process_has_left_is_removed_later(folder):
    by_kernel()
    old, new = (Path(f"{path}.tmp.0123456789abcde{k}") for k, path in enumerate(cache_files(folder)))
    for path in (old, new):
        path.write_bytes(b"half of a file")
    os.utime(old, (0, 0))
    kernel(polynomial)._cache._cache_file.flush()
    by_kernel()
    assert (old.exists(), new.exists()) == (False, True), "somebody may still be writing the new one"


# ------------------------------------------------------------------------------------------------ disks


@contextmanager
def files_limited_to(n_bytes):
    """Writing more than so many bytes to a file fails, as on a full disk."""
    resource = pytest.importorskip("resource", reason="limits the size of files, which Windows cannot")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def assert_told_once_that_nothing_is_kept(capsys, folder, reason):
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith(f"skinnytrees: cannot keep compiled kernels in {folder}")
    assert reason in told[0]


@pytest.mark.parametrize("compute", [by_kernel, by_function_argument])
@pytest.mark.parametrize("n_bytes", [0, 2000])
def test_full_disk_does_not_stop_a_kernel(folder, compute, n_bytes, capsys):
    """The index is shorter than 2000 bytes, the machine code longer."""
    with files_limited_to(n_bytes):
        assert [compute(), compute()] == [(10.5, False)] * 2
    assert_told_once_that_nothing_is_kept(capsys, folder, "File too large")
    assert not list(folder.rglob("*.tmp.*")), "no half-written file is left"
    assert [compute(), compute()] == [(10.5, False), (10.5, True)], "there is space again"


def test_disk_without_space_does_not_stop_a_kernel(folder, monkeypatch, capsys):
    def no_space(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk_cache.CheckedCacheFile, "_open_for_write", no_space)
    assert by_kernel() == (10.5, False)
    assert_told_once_that_nothing_is_kept(capsys, folder, "No space left on device")


def test_folder_that_is_gone_does_not_stop_a_kernel(folder, capsys):
    """A file in the folder's place, because nothing is read-only for the superuser."""
    made = kernel(polynomial)
    shutil.rmtree(folder)
    folder.write_text("not a folder")
    assert made(2.0) == 10.5
    assert made(2) == 10.5
    assert "cannot keep compiled kernels" in capsys.readouterr().err


def test_cache_that_cannot_be_read_does_not_stop_a_kernel(folder, capsys):
    by_kernel()
    for path in cache_files(folder):
        path.unlink()
        path.mkdir()
    assert by_kernel() == (10.5, False)
    assert "cannot read compiled kernels" in capsys.readouterr().err
