"""The first seconds: importing, compiling once, and where the compiled kernels are kept."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import skinnytrees

PACKAGE = Path(skinnytrees.__file__).parent
# What the package itself needs of scikit-learn; the time that this takes is not ours.
SCIKIT_LEARN = "import sklearn.feature_selection, sklearn.model_selection, scipy.optimize, scipy.sparse"
FIT = """
import numpy as np
from skinnytrees import SkinnyTreesClassifier
X = np.random.default_rng(0).normal(size=(60, 4))
print(SkinnyTreesClassifier(2, random_state=0).fit(X, X[:, 0] > 0).predict_proba(X).tobytes().hex())
"""
THRESHOLD = """
import skinnytrees
from skinnytrees.penalties import _threshold, hard_threshold
assert hard_threshold([3.0, 4.0], 4.9).tolist() == [3.0, 4.0]
print(skinnytrees.__file__, sum(_threshold.stats.cache_hits.values()))
"""
EVALUATE = """
import numpy as np
import skinnytrees
from skinnytrees.activations import Sigmoid
from skinnytrees.kernels.state import start_trees
from skinnytrees.losses import SquaredError
from skinnytrees.path.trainer import Trainer
from skinnytrees.training.loop import evaluate
trees = start_trees(3, 4, 2, 1, np.random.default_rng(0))
functions = Trainer(SquaredError(), Sigmoid(), 1).functions
print(skinnytrees.__file__, evaluate(trees, np.ones((1, 3), dtype=np.float32), functions)[0, 0])
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


IMPORT = f"""
import sys
{SCIKIT_LEARN}
before = set(sys.modules)
import skinnytrees
optional = {{"pandas", "polars", "pyarrow", "matplotlib", "tqdm", "optuna", "torch", "xgboost", "lightgbm"}}
print(sorted(optional & (set(sys.modules) - before)))
"""


@pytest.mark.slow
def test_import_compiles_nothing_and_leaves_optional_packages_alone(tmp_path):
    done = run(IMPORT, NUMBA_CACHE_DIR=tmp_path)
    assert done.stdout.splitlines() == ["[]"]
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
    # Older versions of numba (0.60) run other machine code in the process that compiles than they keep for the next ones.
    assert second.stdout == first.stdout


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


def run_copy(site, tmp_path, code=THRESHOLD):
    """Run code that prints the place of the package and a number; the number."""
    home = tmp_path / "home"
    done = run(code, PYTHONPATH=site, PYTHONDONTWRITEBYTECODE=1, HOME=home, XDG_CACHE_HOME=home / "cache")
    file, number = done.stdout.split()
    assert Path(file).is_relative_to(site)
    return float(number)


@pytest.mark.slow
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


@pytest.mark.slow
def test_new_version_of_a_kernel_is_not_served_from_the_cache_of_those_that_call_it(installed, tmp_path):
    """As after an upgrade that changes one file; numba looks only at the file of the kernel that was called."""
    first = run_copy(installed, tmp_path, code=EVALUATE)
    routing = installed / "skinnytrees" / "kernels" / "routing.py"
    source = routing.read_text()
    edited = source.replace("reach[row, tree] = 1\n", "reach[row, tree] = 2\n")  # everyone arrives at the root twice
    assert edited != source
    routing.write_text(edited)
    assert run_copy(installed, tmp_path, code=EVALUATE) == pytest.approx(2 * first)
