"""What each rule of the default path is worth: one rule is changed at a time, and held-out rows judge.

``python -m benchmarks.rules`` fits the default and every alternative on data that anybody has (scikit-learn's own
and generated) and prints the table of ``docs/rules_notebook.md``; ``--rules swaps branches`` or ``--sets wine digits`` takes some
only, ``--set-rule swaps.gain=0.99`` one that is not in the list.
``--sets "lung, learning rows"`` takes one of the paper's sets without its test rows, if SKINNYTREES_DATA names their folder.
Fits are appended to ``benchmarks/results/rules.csv``, and those already there are not repeated, so an interrupted run goes on
where it stopped. After a change of the package, remove the file.
"""

import argparse
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.metrics import log_loss, mean_squared_error, r2_score, roc_auc_score

from benchmarks.generated_sets import ALL_SETS, SETS
from benchmarks.result_files import append_row, read_rows
from benchmarks.rule_alternatives import (
    AFTER_THE_WALK,
    ALTERNATIVES,
    DEFAULT,
    Alternative,
    Size,
    parsed_alternative,
)
from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.path.points import Branch
from skinnytrees.path.rules import DEFAULT_RULES, PathRules
from skinnytrees.path.walk import Walk

RESULTS = Path("benchmarks/results/rules.csv")
VALIDATION_FRACTION = 0.2
# Losses are relative to the best constant. A set that is solved to within this much should not decide between rules.
FLOOR = 0.02


def with_rules(estimator: type[Any], rules: PathRules) -> type[Any]:
    """The estimator's class with other rules of the path; scikit-learn's clone keeps them."""
    return type(estimator.__name__, (estimator,), {"_rules": rules, "__module__": estimator.__module__})


# --- fits -----------------------------------------------------------------------------------------------------------------


def judge(model: Any, X: Any, y: Any, y_fit: Any) -> tuple[float, float]:
    """Held-out loss relative to the best constant, and AUC or R2."""
    if isinstance(model, SkinnyTreesRegressor):
        predicted = model.predict(X)
        guess = np.full(len(y), y_fit.mean())
        return mean_squared_error(y, predicted) / mean_squared_error(y, guess), r2_score(y, predicted)
    P = model.predict_proba(X).astype(float)
    P /= P.sum(axis=1, keepdims=True)
    guess = np.tile(np.bincount(y_fit) / len(y_fit), (len(y), 1))
    score = roc_auc_score(y, P[:, 1]) if P.shape[1] == 2 else roc_auc_score(y, P, multi_class="ovo")
    return log_loss(y, P) / log_loss(y, guess), score


def measure(
    split: tuple[Any, Any, Any, Any], budget: float | int, seed: int, rules: PathRules = DEFAULT_RULES
) -> dict[str, Any]:
    X, y, X_held_out, y_held_out = split
    kind = SkinnyTreesRegressor if y.dtype.kind == "f" else SkinnyTreesClassifier
    model = with_rules(kind, rules)(budget, validation_fraction=VALIDATION_FRACTION, refit=False, random_state=seed)
    # Time of this process, not of the clock: the machine may be shared.
    started = process_time()
    model.fit(X, y)
    seconds = process_time() - started
    loss, score = judge(model, X_held_out, y_held_out, y)
    return {"loss": loss, "score": score, "columns": model.n_features_selected_, "seconds": seconds}


class SharedWalk:
    """The default's walk on one data set, made once for all fits that differ from the default only after it."""

    def __init__(self) -> None:
        self.branches: list[Branch] | None = None
        self.rng_state: Any = None
        self.seconds = 0.0
        self.seconds_saved = 0.0

    def shared(self) -> AbstractContextManager[Any]:
        go_all_the_way = Walk.go

        def go(walk: Walk, rng: np.random.Generator) -> None:
            if self.branches is None:
                started = process_time()
                go_all_the_way(walk, rng)
                self.seconds = process_time() - started
                self.branches, self.rng_state = walk.branches, rng.bit_generator.state
            else:
                walk.branches, rng.bit_generator.state = self.branches, self.rng_state
                self.seconds_saved += self.seconds

        return patch.object(Walk, "go", go)


def size_of(data_set: Any, X: Any) -> Size:
    budget = data_set.budget if isinstance(data_set.budget, int) else int(data_set.budget * X.shape[1])
    return Size(round((1 - VALIDATION_FRACTION) * X.shape[0]), X.shape[1], budget)


def run(seeds: dict[str, range], alternatives: list[Alternative]) -> None:
    """Fit what is not yet in the file; a data set's default and alternatives together, so that the machine is the same."""
    done = {(row["set"], row["seed"], row["rule"], row["alternative"]) for row in read_rows(RESULTS)}
    for name in seeds:
        for seed in seeds[name]:
            split = ALL_SETS[name].split(seed)
            size, walk = size_of(ALL_SETS[name], split[0]), SharedWalk()
            for one in [DEFAULT, *(one for one in alternatives if one.matters(size))]:
                key = {"set": name, "seed": seed, "rule": one.rule, "alternative": one.name}
                if tuple(key.values()) in done:
                    continue
                saved_before = walk.seconds_saved
                with one.context(), walk.shared() if one.rule in AFTER_THE_WALK else nullcontext():
                    result = measure(split, ALL_SETS[name].budget, seed, one.change(DEFAULT_RULES))
                result["seconds"] += walk.seconds_saved - saved_before
                append_row(RESULTS, {**key, **result})
        print(f"{name}: done", flush=True)


# --- tables ---------------------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """An alternative against the default on one data set, paired over seeds."""

    log_ratio: float
    points: float
    seconds: float
    default_seconds: float


def compare(rows: list[dict[str, Any]], defaults: dict[tuple[str, int], dict[str, Any]]) -> list[Comparison]:
    compared = []
    for _, group in groupby(sorted(rows, key=lambda row: row["set"]), key=lambda row: row["set"]):
        pairs = [(row, defaults[row["set"], row["seed"]]) for row in group]
        ratios = [np.log((row["loss"] + FLOOR) / (default["loss"] + FLOOR)) for row, default in pairs]
        points = [100 * (row["score"] - default["score"]) for row, default in pairs]
        seconds = (sum(row["seconds"] for row, _ in pairs), sum(default["seconds"] for _, default in pairs))
        compared.append(Comparison(float(np.mean(ratios)), float(np.mean(points)), *seconds))
    return compared


def print_rules(results: list[dict[str, Any]], alternatives: list[Alternative]) -> None:
    defaults = {(row["set"], row["seed"]): row for row in results if row["rule"] == DEFAULT.rule}
    print("\n| rule | alternative | change of loss, % | better, worse of sets | AUC or R2, points | time |")
    print("|---|---|---|---|---|---|")
    for one in alternatives:
        rows = [row for row in results if (row["rule"], row["alternative"]) == (one.rule, one.name)]
        if not rows:
            continue
        compared = compare(rows, defaults)
        ratios = 100 * np.array([each.log_ratio for each in compared])
        error = f"{ratios.std(ddof=1) / np.sqrt(len(ratios)):.1f}" if len(ratios) > 1 else "?"
        relative = sum(each.seconds for each in compared) / sum(each.default_seconds for each in compared)
        print(f"| {one.rule} | {one.name} | {ratios.mean():+.1f} ± {error} | {np.sum(ratios < 0)}, {np.sum(ratios > 0)} of "
              f"{len(ratios)} | {np.mean([each.points for each in compared]):+.2f} | {relative:.2f} |")  # fmt: skip


def print_sets(results: list[dict[str, Any]], sets: list[str]) -> None:
    print("\n| set | rows to fit x columns | budget | loss | AUC or R2 | columns used | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name in sets:
        rows = [row for row in results if (row["set"], row["rule"]) == (name, DEFAULT.rule)]
        one = ALL_SETS[name]
        X = one.split(0)[0]
        mean = {field: np.mean([row[field] for row in rows]) for field in ("loss", "score", "columns", "seconds")}
        print(f"| {name} | {X.shape[0]:,} x {X.shape[1]:,} | {one.budget} | {mean['loss']:.3f} | {mean['score']:.3f} | "
              f"{mean['columns']:.0f} | {mean['seconds']:.1f} |")  # fmt: skip


def main() -> None:
    rules = list(dict.fromkeys(one.rule for one in ALTERNATIVES))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", nargs="*", choices=rules, help="all by default, none with --set-rule")
    parser.add_argument("--set-rule", action="append", default=[], type=parsed_alternative, metavar="NAME=VALUE")
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(ALL_SETS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    options = parser.parse_args()
    wanted = (() if options.set_rule else rules) if options.rules is None else options.rules
    alternatives = [*(one for one in ALTERNATIVES if one.rule in wanted), *options.set_rule]
    seeds = {name: ALL_SETS[name].seeds(options.seeds, options.first_seed) for name in options.sets}
    run(seeds, alternatives)
    results = [row for row in read_rows(RESULTS) if row["seed"] in seeds.get(row["set"], ())]
    print_sets(results, options.sets)
    print_rules(results, alternatives)


if __name__ == "__main__":
    main()
