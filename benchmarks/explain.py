"""Shapley values next to the shap package, in one run: ``python -m benchmarks.explain``.

Exact values by all coalitions are the reference. Then shap.PermutationExplainer, given a predictor of the selected columns only,
is run with more and more permutations until its error is that of one round of our sampling. Seconds are of the processor (all
threads), so that a busy machine does not favour either side, and of the clock.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer

from skinnytrees import SkinnyTreesClassifier


class Timed(NamedTuple):
    """What a call gave, and what it took."""

    result: Any
    processor: float
    clock: float


def timed(call: Callable[[], Any]) -> Timed:
    clock, processor = time.perf_counter(), time.process_time()
    result = call()
    return Timed(result, time.process_time() - processor, time.perf_counter() - clock)


def fitted(n_features: int) -> tuple[Any, np.ndarray]:
    X, y = load_breast_cancer(return_X_y=True)
    model = SkinnyTreesClassifier(n_features, size_rule="full", random_state=0).fit(X, y)
    model.explain(X[:2], X[:3], method="exact")  # compiles
    model.explain(X[:2], X[:3], method="sampling")
    return model, X


def error_of(values: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values - exact) ** 2)))


def beside_shap(n_rows: int, n_background: int, most_permutations: int) -> None:
    warnings.simplefilter("ignore")
    import shap

    model, X = fitted(10)
    rows, background = X[:n_rows], X[-n_background:]
    exact = timed(lambda: model.explain(rows, background, method="exact"))
    ours = timed(lambda: model.explain(rows, background, method="sampling", max_error=1e9))
    wanted = error_of(ours.result.values, exact.result.values)
    print(f"{n_rows} rows x 10 columns x {n_background} background rows; {model.model_.trees.W.shape[1]} splits")
    print("                          root mean square error   processor s   clock s")
    print(f"exact                                          0   {exact.processor:11.3f}   {exact.clock:7.3f}")
    print(f"sampling                                {wanted:8.5f}   {ours.processor:11.3f}   {ours.clock:7.3f}")
    features, narrowed = model.model_.features, model.model_.narrowed

    def predict(table: np.ndarray) -> np.ndarray:
        raw = narrowed.raw(np.ascontiguousarray(table, dtype=np.float64))
        return raw[:, 1] - raw[:, 0]

    masker = shap.maskers.Independent(background[:, features], max_samples=n_background)
    explainer = shap.PermutationExplainer(predict, masker, seed=0)
    explainer(rows[:1, features], max_evals=100, silent=True)  # compiles
    n_permutations, before = 32, None
    while n_permutations <= most_permutations:
        max_evals = n_permutations * (2 * len(features) + 1)
        theirs = timed(lambda: explainer(rows[:, features], max_evals=max_evals, silent=True))  # noqa: B023
        error = error_of(theirs.result.values, exact.result.values)
        print(f"shap, {n_permutations:4d} permutations {error:22.5f}   {theirs.processor:11.3f}   {theirs.clock:7.3f}")
        if error <= wanted and before is not None:
            # Error and time are powers of the number of permutations: straight lines on a log scale.
            fraction = np.log(before[0] / wanted) / np.log(before[0] / error)
            at_equal_error = before[1] * (theirs.processor / before[1]) ** fraction
            print(f"at equal error, shap takes {at_equal_error / ours.processor:.0f} times our processor time")
            return
        before = error, theirs.processor
        n_permutations *= 2
    print(
        f"shap has not reached our error; it takes more than {theirs.processor / ours.processor:.0f} times our processor time"
    )


def many_rows(n_rows: int, n_background: int) -> None:
    model, X = fitted(10)
    rows = np.concatenate([X, X])[:n_rows]
    found = timed(lambda: model.explain(rows, X[-n_background:]))
    print(f"{n_rows} rows x 10 columns x {n_background} background rows, method='auto': {found.result!r}")
    print(f"  {found.processor:.2f} s of the processor, {found.clock:.2f} s by the clock")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--background", type=int, default=100)
    parser.add_argument("--most-permutations", type=int, default=256)
    arguments = parser.parse_args()
    beside_shap(arguments.rows, arguments.background, arguments.most_permutations)
    many_rows(1000, 100)
