"""Damage the cache of compiled kernels again and again; every fit in a new process must succeed with the same bits.

``python -m tests.robustness.damage_cache --damages 50 --kills 10 --seed 0``. A damage hits between one and five files
at random. A kill ends a first fit, which compiles and fills the cache, at a random moment; the fit after it goes on with what is
there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from .cache_damage import cache_files, damage

FIT = """
import hashlib
import numpy as np
from skinnytrees import SkinnyTreesClassifier
X = np.random.default_rng(0).normal(size=(60, 4))
model = SkinnyTreesClassifier(2, max_epochs=5, random_state=0).fit(X, X[:, 0] > 0)
print(hashlib.sha256(model.predict_proba(X).tobytes()).hexdigest())
"""


def fit(folder: Path) -> tuple[int, str, str]:
    """Exit code, digest of the predictions, and what was said on standard error by a fit in a new process."""
    done = subprocess.run(
        [sys.executable, "-c", FIT], env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    return done.returncode, done.stdout.strip(), done.stderr


def kill_fit(folder: Path, seconds: float) -> None:
    """Begin a fit in a new process and kill it after so long."""
    process = subprocess.Popen(
        [sys.executable, "-c", FIT], env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(seconds)
    process.kill()
    process.wait()


def kill_first_fits(n_kills: int, seconds: float, expected: str, rng: np.random.Generator) -> int:
    """Kill first fits, up to four in one cache that was empty before, then fit; the number of findings."""
    findings = n_killed = 0
    while n_killed < n_kills:
        with tempfile.TemporaryDirectory() as name:
            for _ in range(min(int(rng.integers(1, 5)), n_kills - n_killed)):
                kill_fit(Path(name), rng.uniform(0.2 * seconds, seconds))
                n_killed += 1
            n_kept = len(cache_files(Path(name)))
            code, digest, said = fit(Path(name))
            print(f"{n_killed} kills, {n_kept} files kept: same bits: {digest == expected}")
            if code != 0 or digest != expected or "damaged" in said:
                findings += 1
                print(said)
    return findings


def main() -> None:
    """Damage or kill, fit, compare; exit code 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--damages", type=int, default=50)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, findings, n_told, start = np.random.default_rng(arguments.seed), 0, 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code, expected, said = fit(folder)
        assert code == 0, said
        assert len(expected) == 64, said
        findings += kill_first_fits(arguments.kills, time.perf_counter() - start, expected, rng)
        for i in range(arguments.damages):
            files = cache_files(folder)
            hit = rng.choice(len(files), size=min(len(files), int(rng.integers(1, 6))), replace=False)
            done = [damage(files[j], rng) for j in hit]
            code, digest, said = fit(folder)
            n_told += "found damaged files" in said
            if code != 0 or digest != expected:
                findings += 1
                print(f"damage {i}: exit code {code}, same bits: {digest == expected}\n{done}\n{said}")
        seconds = time.perf_counter() - start
        print(
            f"{arguments.kills} kills, {arguments.damages} damages of {len(cache_files(folder))} files in {seconds:.0f} s, "
            f"{n_told} noticed, {findings} findings"
        )
    sys.exit(findings > 0)


if __name__ == "__main__":
    main()
