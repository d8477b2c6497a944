"""Damage the cache of compiled kernels again and again; every fit in a new process must succeed with the same bits.

``python -m tests.robustness.damage_cache --damages 50 --seed 0``. A damage hits between one and five files at random.
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


def main() -> None:
    """Damage, fit, compare; exit code 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--damages", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, findings, n_told, start = np.random.default_rng(arguments.seed), 0, 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        code, expected, said = fit(folder)
        assert code == 0, said
        assert len(expected) == 64, said
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
            f"{arguments.damages} damages of {len(files)} files in {seconds:.0f} s, {n_told} noticed, {findings} findings"
        )
    sys.exit(findings > 0)


if __name__ == "__main__":
    main()
