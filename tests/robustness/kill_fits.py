"""Kill fits with checkpoints at random moments: ``python -m tests.robustness.kill_fits --kills 50 --kind path``.

Every fit saves its model in the end. A fit that was killed is begun again with the same checkpoint, until it gets there; its file
must be that of a fit that nobody has killed, byte for byte, and nothing may stand beside it. Fits are forked off this process, so
that the library is imported once.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from skinnytrees import SkinnyTreesClassifier
from skinnytrees.model.storage import checkpoint
from skinnytrees.penalties import GroupL0

KINDS = {"path": {"feature_budget": 3}, "penalty": {"penalty": GroupL0(0.1), "max_epochs": 300}}
# After so many kills, a fit is left in peace.
MOST_KILLS = 8


def fit_and_save(kind, folder, memory=True):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 12))
    model = SkinnyTreesClassifier(random_state=0, n_jobs=1, **KINDS[kind])
    model.fit(X, X[:, 0] * X[:, 1] > 0, checkpoint=folder / "fit" if memory else None).save(folder / "model")


def fork_fit(kind, folder):
    """The id of a process that fits and saves."""
    process = os.fork()
    if process == 0:
        checkpoint._SECONDS = 0.0  # keep every epoch
        fit_and_save(kind, folder)
        os._exit(0)
    return process


def run(kind, n_kills, seed=0):
    """Kill at least so many processes; how many, and in how many fits."""
    rng, killed, n_fits = np.random.default_rng(seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fit_and_save(kind, folder, memory=False)  # compiles kernels, which takes longer than the fit
        start = time.monotonic()
        fit_and_save(kind, folder, memory=False)
        seconds, expected = time.monotonic() - start, (folder / "model").read_bytes()
        while killed < n_kills:
            for file in folder.iterdir():
                file.unlink()
            killed_here = 0
            while not (folder / "model").exists():
                process = fork_fit(kind, folder)
                if killed_here < MOST_KILLS:
                    time.sleep(rng.uniform(0, seconds))
                    os.kill(process, signal.SIGKILL)
                _, status = os.waitpid(process, 0)
                killed_here += os.WIFSIGNALED(status)
                assert os.WIFSIGNALED(status) or status == 0, "a fit has failed"
            killed, n_fits = killed + killed_here, n_fits + 1
            assert (folder / "model").read_bytes() == expected, "a fit that was killed has given another model"
            strays = {file.name for file in folder.iterdir()} - {"fit", "model"}
            # A kill between the two last steps of a save leaves a file that the next save removes.
            if strays:
                fit_and_save(kind, folder)
            assert {file.name for file in folder.iterdir()} <= {"fit", "model"}, "something has been left behind"
    return killed, n_fits


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--kind", choices=sorted(KINDS), default="path")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    killed, n_fits = run(arguments.kind, arguments.kills, arguments.seed)
    print(f"{arguments.kind}: {killed} kills in {n_fits} fits, all with the same bits")


if __name__ == "__main__":
    sys.exit(main())
