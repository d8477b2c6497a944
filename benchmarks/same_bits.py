"""Whether two source trees give the same fits, bit for bit.

``python -m benchmarks.same_bits OLD NEW`` fits some two dozen small models of all kinds with the package in ``OLD/src`` and
with the one in ``NEW/src``, each in a process of its own, and compares hashes of what came out: supports, predictions, the path
and the losses of all epochs. Only the public interface is used, so that the trees may be of any revision (``git worktree add``
makes one). The exit code is 1 if any fit differs. No hash is kept: the last bits depend on the machine.

``--speed 5`` compares CPU seconds instead, in five turns: of the first fits of a process whose cache of compiled kernels is
empty, and of the same fits afterwards.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

QUICK = {"random_state": 3, "max_epochs": 15}


def rows(n_rows, n_columns, seed=0):
    """A table in which a few columns matter, one of them not linearly."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    X[:, 1] = np.exp(X[:, 1])
    signal = X[:, 0] + np.log(X[:, 1]) * X[:, 2] - np.abs(X[:, 3]) + 0.5 * rng.normal(size=n_rows)
    return X, signal


def classes(signal, n_classes=2):
    """The signal cut at its quantiles."""
    return np.searchsorted(np.quantile(signal, np.arange(1, n_classes) / n_classes), signal)


def penalty(name, **parameters):
    import skinnytrees.penalties

    return getattr(skinnytrees.penalties, name)(**parameters)


def classify(X, y, fit=None, **parameters):
    from skinnytrees import SkinnyTreesClassifier

    return SkinnyTreesClassifier(**{**QUICK, **parameters}).fit(X, y, **(fit or {})), X


def regress(X, y, fit=None, **parameters):
    from skinnytrees import SkinnyTreesRegressor

    return SkinnyTreesRegressor(**{**QUICK, **parameters}).fit(X, y, **(fit or {})), X


def path_by_folds():
    X, signal = rows(150, 12)
    return classify(X, classes(signal, 3), feature_budget=4)


def path_on_held_out_rows():
    X, signal = rows(500, 14, seed=1)
    return classify(X, classes(signal), feature_budget=0.5, n_jobs=2)


def path_with_given_validation_rows_and_weights():
    X, signal = rows(500, 9, seed=2)
    y, weight = classes(signal), np.random.default_rng(0).uniform(0.5, 2, 500)
    fit = {"sample_weight": weight[:380], "X_val": X[380:], "y_val": y[380:], "sample_weight_val": weight[380:]}
    return classify(X[:380], y[:380], fit, refit=False, size_rule="one_se")


def path_within_a_cost():
    X, signal = rows(450, 10, seed=3)
    return classify(X, classes(signal), feature_costs=np.linspace(1, 4, 10), feature_budget=9.0)


def path_with_groups_of_columns():
    X, signal = rows(450, 12, seed=4)
    return classify(X, classes(signal), feature_groups=np.arange(12) // 2, always_select=[7], feature_budget=6)


def path_with_groups_of_rows():
    X, signal = rows(240, 8, seed=5)
    return classify(X, classes(signal), {"groups": np.arange(240) // 6}, scoring="roc_auc", feature_budget=3)


def path_on_categories_and_missing_values():
    import pandas as pd

    X, signal = rows(450, 6, seed=6)
    X[::7, 0] = np.nan
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["colour"] = pd.Categorical(np.array(["red", "green", "blue"])[classes(signal + X[:, 5], 3)])
    return classify(frame, classes(signal), feature_budget=4)


def path_on_sparse_rows():
    from scipy import sparse

    X, signal = rows(420, 40, seed=7)
    X[np.abs(X) < 0.8] = 0
    return classify(sparse.csr_matrix(X), classes(signal), feature_budget=5)


def path_on_wide_rows():
    X, signal = rows(60, 400, seed=8)
    return classify(X, classes(signal), feature_budget=6)


def path_with_smooth_step():
    X, signal = rows(430, 10, seed=9)
    return classify(X, classes(signal, 4), activation="smoothstep", size_rule="full", feature_budget=4)


def path_for(loss, seed):
    def fitted():
        X, signal = rows(430, 10, seed)
        y = np.random.default_rng(seed).poisson(np.exp(signal / 2)) if loss == "poisson" else signal
        return regress(X, y, loss=loss, feature_budget=4)

    return fitted


def path_for_several_targets():
    X, signal = rows(430, 10, seed=14)
    return regress(X, np.column_stack([signal, X[:, 4] - signal, X[:, 5] ** 2]), feature_budget=5)


def group_l0():
    X, signal = rows(600, 30, seed=15)
    chosen = penalty("GroupL0", gamma=8.0, rate=0.01)
    return classify(X, classes(signal), penalty=chosen, n_estimators=20, max_epochs=40, n_jobs=1)


def group_l0_on_several_threads():
    X, signal = rows(600, 400, seed=16)
    chosen = penalty("GroupL0", gamma=12.5, rate=0.02)
    return regress(X, signal, penalty=chosen, n_estimators=50, max_depth=4, batch_size=256, max_epochs=20, n_jobs=2)


def group_l0_on_wide_rows():
    X, signal = rows(80, 500, seed=17)
    return classify(X, classes(signal), penalty=penalty("GroupL0", gamma=10.0, rate=0.01), max_epochs=60)


def group_l0_on_sparse_rows():
    from scipy import sparse

    X, signal = rows(300, 60, seed=18)
    X[np.abs(X) < 0.8] = 0
    return classify(sparse.csr_matrix(X), classes(signal, 3), penalty=penalty("GroupL0", gamma=8.0), max_epochs=20)


def group_lasso():
    X, signal = rows(300, 20, seed=19)
    return regress(X, signal, penalty=penalty("GroupLasso", lam=0.1), max_epochs=40, standardize=False)


def no_penalty_with_adam():
    X, signal = rows(300, 8, seed=20)
    return regress(X, signal, penalty=None, optimizer="adam", schedule="one_cycle", learning_rate=0.01)


def no_penalty_on_wide_rows():
    X, signal = rows(60, 200, seed=21)
    return classify(X, classes(signal), penalty=None, validation_fraction=0.25)


def stability_selection():
    try:
        from skinnytrees.estimators.stability import StabilitySelector
    except ImportError:  # where the module was before it moved
        from skinnytrees.stability import StabilitySelector
    X, signal = rows(160, 10, seed=22)
    return StabilitySelector(n_resamples=4, feature_budget=3, random_state=0).fit(X, classes(signal)), X


FITS = [
    path_by_folds, path_on_held_out_rows, path_with_given_validation_rows_and_weights, path_within_a_cost,
    path_with_groups_of_columns, path_with_groups_of_rows, path_on_categories_and_missing_values, path_on_sparse_rows,
    path_on_wide_rows, path_with_smooth_step, path_for_several_targets, group_l0, group_l0_on_several_threads,
    group_l0_on_wide_rows, group_l0_on_sparse_rows, group_lasso, no_penalty_with_adam, no_penalty_on_wide_rows,
    stability_selection,
]  # fmt: skip
NAMED_FITS = {fit.__name__: fit for fit in FITS} | {
    f"path_for_{loss}": path_for(loss, seed)
    for seed, loss in enumerate(["squared_error", "huber", "quantile", "poisson"], start=10)
}


def digest(model, X):
    """A hash of everything a user sees of a fit."""
    seen = [model.get_support()]
    if hasattr(model, "selection_frequencies_"):
        seen.append(model.selection_frequencies_)
    methods = ("predict", "predict_proba", "decision_function")
    seen += [getattr(model, method)(X) for method in methods if hasattr(model, method)]
    path = getattr(model, "path_", None)
    if path is not None:
        seen += [path.n_features, path.val_score, path.val_score_se, path.train_loss, path.cost, *path.supports]
        seen.append(model.at(int(path.n_features.min())).predict(X))
    if hasattr(model, "history_"):
        seen += [np.asarray(model.history_[name]) for name in ("loss", "val_loss") if name in model.history_]
    hashed = hashlib.sha256()
    for array in seen:
        array = np.ascontiguousarray(array)
        hashed.update(str((array.dtype, array.shape)).encode() + array.tobytes())
    return hashed.hexdigest()[:16]


def print_digests(names):
    """Fit with whatever package Python finds; one line of JSON per fit."""
    import skinnytrees

    print(json.dumps(["package", str(Path(skinnytrees.__file__).parent)]), flush=True)
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print(json.dumps([name, digest(*NAMED_FITS[name]())]), flush=True)


def print_seconds():
    """CPU seconds of the first fits of this process, and of the same fits once all is compiled."""
    import skinnytrees

    def seconds():
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for fit in (path_on_held_out_rows, group_l0, group_l0_on_wide_rows):
                fit()
        return time.process_time() - started

    print(json.dumps(["package", str(Path(skinnytrees.__file__).parent)]))
    print(json.dumps(["first", seconds()]))
    print(json.dumps(["next", min(seconds() for _ in range(4))]))


def found_in(tree, *arguments, **environment):
    """What this program finds with the package of a source tree."""
    source = Path(tree).resolve() / "src"
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), *arguments],
        env={**os.environ, "PYTHONPATH": str(source), **environment}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    package = Path(found.pop("package"))
    if not package.is_relative_to(source):
        raise SystemExit(f"{tree} has no package: {package} was imported. Give the root of a source tree.")
    return found


def compare_speed(old, new, repeats):
    """Median over turns of new over old, so that a busy machine slows both alike."""
    ratios = {"first": [], "next": []}
    for _ in range(repeats):
        measured = []
        for tree in (old, new):
            with tempfile.TemporaryDirectory() as cache:
                measured.append(found_in(tree, "--seconds", NUMBA_CACHE_DIR=cache))
        for name, values in ratios.items():
            values.append(measured[1][name] / measured[0][name])
        print({name: [round(one[name], 3) for one in measured] for name in ratios}, flush=True)
    for name, values in ratios.items():
        print(f"{name} fits, new over old: {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trees", nargs="*", metavar="TREE", help="root of a source tree: the old one, then the new one")
    parser.add_argument("--only", nargs="+", default=list(NAMED_FITS), metavar="FIT", help="names of fits")
    parser.add_argument("--speed", type=int, metavar="TURNS", help="compare CPU seconds instead")
    parser.add_argument("--fit", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        print_digests(options.fit)
        return
    if options.seconds:
        print_seconds()
        return
    if len(options.trees) != 2:
        parser.error("give two source trees, such as ../old .")
    if options.speed:
        compare_speed(*options.trees, options.speed)
        return
    old, new = (found_in(tree, "--fit", *options.only) for tree in options.trees)
    for name in options.only:
        verdict = "same" if old[name] == new[name] else "DIFFERENT"
        print(f"{name:45s} {old[name]}  {new[name]}  {verdict}")
    n_different = sum(old[name] != new[name] for name in options.only)
    print(f"{len(options.only) - n_different} of {len(options.only)} fits are the same.")
    raise SystemExit(n_different > 0)


if __name__ == "__main__":
    main()
