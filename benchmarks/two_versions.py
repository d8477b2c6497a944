"""Seconds of default fits by this version of the package and by another one, in turns, on the paper's data sets.

``SKINNYTREES_DATA=... python -m benchmarks.two_versions /other/checkout/src`` starts a process for each version, which waits
while the other one fits, so that both meet the same machine. Budget 25 % of the columns, the paper's splits, ``refit=False``; the
median of three fits after one that does not count. Nothing else should run meanwhile.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.ten_sets import SETS

# What a process does: for each line with the name of a set, fit and answer with the seconds and the AUC on test rows.
FIT = """
import sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
from sklearn.metrics import roc_auc_score
from skinnytrees import SkinnyTreesClassifier
from skinnytrees.datasets import load
for line in sys.stdin:
    data = load(line.strip())
    model = SkinnyTreesClassifier(0.25, refit=False, random_state=0)
    started = time.perf_counter()
    model.fit(data.X_train, data.y_train, X_val=data.X_val, y_val=data.y_val)
    seconds = time.perf_counter() - started
    P = model.predict_proba(data.X_test)
    auc = roc_auc_score(data.y_test, P[:, 1] if P.shape[1] == 2 else P, multi_class="ovo")
    print(seconds, auc, flush=True)
"""


def begin(source: Path) -> subprocess.Popen[str]:
    """A process that fits with the package in this folder."""
    return subprocess.Popen(
        [sys.executable, "-c", FIT, str(source)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def fit(process: subprocess.Popen[str], name: str) -> tuple[float, float]:
    """Seconds and AUC of one fit."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    seconds, auc = map(float, process.stdout.readline().split())
    return seconds, auc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="folder that holds the other version's package, such as ../old/src")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if not (options.other / "skinnytrees").is_dir():
        parser.error(f"{options.other} holds no package skinnytrees. Name the folder src of another checkout.")
    processes = [begin(Path(__file__).parents[1] / "src"), begin(options.other)]
    print("| set | this version, s | the other, s | ratio | AUC, % | the other, % |\n|---|---|---|---|---|---|")
    totals = np.zeros(2)
    for name in options.sets:
        runs = np.array([[fit(process, name) for process in processes] for _ in range(1 + options.repeats)])[1:]
        (ours, auc), (other, other_auc) = np.median(runs, axis=0)
        totals += ours, other
        print(
            f"| {name} | {ours:.2f} | {other:.2f} | {ours / other:.2f} | {100 * auc:.2f} | {100 * other_auc:.2f} |",
            flush=True,
        )
    print(f"| **total** | {totals[0]:.1f} | {totals[1]:.1f} | {totals[0] / totals[1]:.2f} | | |")


if __name__ == "__main__":
    main()
