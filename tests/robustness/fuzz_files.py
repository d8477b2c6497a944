"""Load thousands of damaged and edited model files: ``python -m tests.robustness.fuzz_files --cases 2000 --seed 0``.

A file must be refused with a ModelFileError, or predict what the file it was made of predicts. An edit behind which the check sum
was computed anew may also be another sound model; its predictions must then be those of a second implementation: no kernel may
have read anything but the numbers of the file. A crash, any other exception, or too much memory is a finding.
"""

import argparse
import io
import os
import sys
import time
import tracemalloc
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from skinnytrees import load
from skinnytrees.exceptions import ModelFileError

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest has it

from model.make_data import FOLDER, predictions
from reference import Ensemble, predict

from .files import bomb, cases, flip_bits, flip_in_member, truncate

FILES = ("classifier_format3", "regressor_format3", "classifier_format2", "regressor_format2")
MAX_MEMORY = 200e6
# Nobody computes the check sum anew here, so the predictions must be the file's own.
DAMAGE = tuple(kind.__name__ for kind in (flip_bits, flip_in_member, truncate, bomb))


class Finding(AssertionError):
    """A file that was neither refused nor right."""


def judge(case, name, expected, outcomes):
    """What becomes of a file: "refused", "same" or "another"; a Finding if it is none of these."""
    model, peak = loaded(case, name)
    outcomes["largest peak in MB"] = max(outcomes["largest peak in MB"], round(peak / 1e6))
    if model is None:
        return "refused"
    try:
        found = predictions(model)
    except (ValueError, TypeError) as error:  # sound, but for a table with other columns
        found = None
        if case.what.startswith(DAMAGE):
            raise Finding(f"{name}, {case.what}: cannot predict ({error})") from error
    except Exception as error:
        raise Finding(f"{name}, {case.what}: predict raised {error!r}") from error
    if found is not None and np.array_equal(found, expected):
        return "same"
    if case.what.startswith(DAMAGE) and name.endswith("3"):
        raise Finding(f"{name}, {case.what}: other predictions")
    refuse_wrong_outputs(model, f"{name}, {case.what}")
    return "another"


def loaded(case, name):
    """The model, or None where the file is refused, and the most memory that loading took."""
    tracemalloc.start()
    try:
        model = load(io.BytesIO(case.content))
    except ModelFileError:
        model = None
    except BaseException as error:
        raise Finding(f"{name}, {case.what}: {error!r}") from error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if peak > MAX_MEMORY:
        raise Finding(f"{name}, {case.what}: {peak / 1e6:.0f} MB")
    return model, peak


def refuse_wrong_outputs(model, what):
    """All ensembles in a file must give finite numbers, the same as the second implementation."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(scale=5, size=(20, model.n_features_in_)))
    X[rng.random(X.shape) < 0.1] = np.nan
    path = getattr(model, "path_", None)
    for soft_trees in [model.model_, *([] if path is None else [path.final_model, *path.models])]:
        found, design = soft_trees.raw(X), soft_trees.encoder.encode_dense(X).astype(np.float64)
        again = predict(Ensemble.of(soft_trees.trees), design, soft_trees.activation) + soft_trees.base
        largest = np.abs(soft_trees.trees.O).sum(axis=1, dtype=np.float64) + np.abs(soft_trees.base)
        if not np.isfinite(found).all() or np.any(np.abs(found - again) > 1e-3 * largest):
            raise Finding(f"{what}: outputs are not those of the file's weights")


def run(n_cases, seed, time_limit=np.inf):
    """Judge so many cases, the files in turn; give what became of them and the findings."""
    start, outcomes, findings = time.monotonic(), Counter(), []
    whole = {name: (FOLDER / f"{name}.skinny").read_bytes() for name in FILES}
    expected = {name: predictions(load(FOLDER / f"{name}.skinny")) for name in FILES}
    streams = {name: cases(whole[name], n_cases, seed) for name in FILES}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for i in range(n_cases):
            if time.monotonic() - start > time_limit:
                break
            # New files are more likely to be met, and have more ways to be wrong.
            name = FILES[(0, 1, 0, 1, 0, 1, 2, 3)[i % 8]]
            case = next(streams[name])
            try:
                outcomes[judge(case, name, expected[name], outcomes)] += 1
            except Finding as finding:
                outcomes["finding"] += 1
                findings.append(str(finding))
    return outcomes, findings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds")
    arguments = parser.parse_args()
    outcomes, findings = run(arguments.cases, arguments.seed, arguments.time_limit)
    print(f"seed {arguments.seed}: {dict(outcomes)}")
    print(f"NUMBA_BOUNDSCHECK={os.environ.get('NUMBA_BOUNDSCHECK', '0')}")
    print(*findings, sep="\n")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
