"""The first seconds: importing, compiling once, and where the compiled kernels are kept."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import skinnytrees

PACKAGE = Path(skinnytrees.__file__).parent
# What the package itself needs of scikit-learn; the time that this takes is not ours.
SCIKIT_LEARN = "import sklearn.feature_selection, sklearn.model_selection, scipy.optimize, scipy.sparse"
FIT = """
import time
import numpy as np
from skinnytrees import SkinnyTreesClassifier
X = np.random.default_rng(0).normal(size=(320, 4))
start = time.perf_counter()
SkinnyTreesClassifier(2, random_state=0).fit(X, X[:, 0] > 0).predict(X)
print(time.perf_counter() - start)
"""
THRESHOLD = """
import skinnytrees
from skinnytrees.kernels.prox import threshold_group
from skinnytrees.penalties import hard_threshold
assert hard_threshold([3.0, 4.0], 4.9).tolist() == [3.0, 4.0]
print(skinnytrees.__file__, sum(threshold_group.stats.cache_hits.values()))
"""


def run(code, **environment):
    """Run code in a fresh interpreter, with nothing of this process's numba settings but what is given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**inherited, **{name: str(value) for name, value in environment.items()}},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def kernels_in(folder):
    return sorted(path.name for path in Path(folder).rglob("*.nbi"))


# ------------------------------------------------------------------------------------------------ importing


@pytest.mark.slow
def test_import_takes_under_a_second_beyond_scikit_learn():
    code = f"{SCIKIT_LEARN}; import time; s = time.perf_counter(); import skinnytrees; print(time.perf_counter() - s)"
    cache = os.environ.get("NUMBA_CACHE_DIR", "")
    assert min(float(run(code, NUMBA_CACHE_DIR=cache).stdout) for _ in range(3)) < 1


def test_import_compiles_nothing_and_leaves_optional_packages_alone(tmp_path):
    code = f"""
import sys
{SCIKIT_LEARN}
before = set(sys.modules)
import skinnytrees
optional = {{"pandas", "polars", "matplotlib", "tqdm", "optuna", "torch", "xgboost", "lightgbm", "pyarrow"}}
print(sorted(optional & (set(sys.modules) - before)))
"""
    done = run(code, NUMBA_CACHE_DIR=tmp_path)
    assert done.stdout.strip() == "[]"
    assert done.stderr == ""
    assert kernels_in(tmp_path) == []


# ------------------------------------------------------------------------------------------------ compiling once


@pytest.mark.slow
def test_first_fit_on_a_machine_says_that_it_compiles_and_the_next_process_need_not(tmp_path):
    first = run(FIT, NUMBA_CACHE_DIR=tmp_path)
    lines = first.stderr.splitlines()
    assert len(lines) == 1
    assert "skinnytrees" in lines[0]
    assert "compiling" in lines[0]
    kernels = kernels_in(tmp_path)
    assert kernels
    second = run(FIT, NUMBA_CACHE_DIR=tmp_path)
    assert second.stderr == ""
    assert kernels_in(tmp_path) == kernels, "nothing new was compiled"
    assert float(second.stdout) < max(3, float(first.stdout) / 4)


# ------------------------------------------------------------------------------------------------ where the cache is


@pytest.fixture
def installed(tmp_path):
    """A copy of the package in a folder of its own, without any cache."""
    shutil.copytree(PACKAGE, tmp_path / "site" / "skinnytrees", ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
    return tmp_path / "site"


def forbid_writing(site):
    """Let no cache be written next to the sources, not even by root, who ignores permissions.

    numba takes the first place in which it can make a folder and write a file; a file where the folder should be stops it.
    """
    for folder in {path.parent for path in site.rglob("*.py")}:
        (folder / "__pycache__").write_text("")


def run_copy(site, tmp_path, **environment):
    settings = {"PYTHONPATH": site, "PYTHONDONTWRITEBYTECODE": 1, "HOME": tmp_path / "home"}
    done = run(THRESHOLD, **{**settings, "XDG_CACHE_HOME": tmp_path / "home" / "cache", **environment})
    file, hits = done.stdout.split()
    assert Path(file).is_relative_to(site)
    return int(hits)


def test_kernels_are_kept_next_to_the_sources(installed, tmp_path):
    assert run_copy(installed, tmp_path) == 0
    assert any("threshold_group" in name for name in kernels_in(installed))
    assert kernels_in(tmp_path / "home") == []
    assert run_copy(installed, tmp_path) == 1, "the second process loads them"


def test_kernels_of_a_read_only_installation_are_kept_in_the_users_cache_folder(installed, tmp_path):
    forbid_writing(installed)
    assert run_copy(installed, tmp_path) == 0
    assert kernels_in(installed) == []
    assert any("threshold_group" in name for name in kernels_in(tmp_path / "home" / "cache"))
    assert run_copy(installed, tmp_path) == 1, "the second process loads them"


def test_package_works_where_nothing_can_be_written(installed, tmp_path):
    """In a container without a writable home, compiling anew is better than no import."""
    forbid_writing(installed)
    (tmp_path / "home").write_text("")
    assert run_copy(installed, tmp_path) == 0


def test_users_choice_of_a_cache_folder_comes_first(installed, tmp_path):
    assert run_copy(installed, tmp_path, NUMBA_CACHE_DIR=tmp_path / "chosen") == 0
    assert any("threshold_group" in name for name in kernels_in(tmp_path / "chosen"))
    assert kernels_in(installed) == kernels_in(tmp_path / "home") == []


@pytest.mark.slow
def test_two_processes_may_start_cold_at_once(installed, tmp_path):
    """They write the same cache; both arrive, and a third one finds it whole."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "NUMBA_CACHE_DIR": str(tmp_path / "shared")}
    command = [sys.executable, "-c", THRESHOLD]
    processes = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    deadline = time.monotonic() + 120
    for process in processes:
        _, errors = process.communicate(timeout=deadline - time.monotonic())
        assert process.returncode == 0, errors
    assert run_copy(installed, tmp_path, NUMBA_CACHE_DIR=tmp_path / "shared") == 1
