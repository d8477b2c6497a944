"""One system fitted within a budget of columns and judged on rows that it has not seen.

Peers are fitted on all columns, cut to their own top columns by their default importance (ties by column number), and fitted
again on these, the most important first: a forest of 300 trees, XGBoost with 150 trees of depth 4 and LightGBM with 150 trees of
15 leaves, both at rate 0.1.
Everything runs on one thread, and seconds are processor time, so that fits side by side can be compared.
"""

from collections.abc import Callable, Iterable
from functools import cache
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import r2_score, roc_auc_score

from benchmarks.pool_fits import new_peer
from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor

OURS = "skinnytrees"
PEERS = ("forest", "xgboost", "lightgbm")


class Problem(NamedTuple):
    """Rows to fit on and rows to judge by; a target of floating point numbers is a regression."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def is_regression(self) -> bool:
        return self.y.dtype.kind == "f"


class Outcome(NamedTuple):
    """The columns that a system chose, AUC or R2 on the test rows, and the seconds of all its fits."""

    columns: np.ndarray
    score: float
    seconds: float


def fit_ours(problem: Problem, budget: int, seed: int, **parameters: Any) -> Outcome:
    kind = SkinnyTreesRegressor if problem.is_regression else SkinnyTreesClassifier
    load_kernels(kind)
    started = process_time()
    model = kind(budget, random_state=seed, n_jobs=1, **parameters).fit(problem.X, problem.y)
    seconds = process_time() - started
    return Outcome(np.flatnonzero(model.support_), score(model, problem.X_test, problem.y_test), seconds)


def fit_peer(name: str, problem: Problem, budget: int, seed: int) -> Outcome:
    """A peer on its own top columns."""
    started = process_time()
    importances = new_peer(name, problem.is_regression, seed).fit(problem.X, problem.y).feature_importances_
    seconds = process_time() - started
    refitted = fit_peer_on(np.argsort(-importances, kind="stable")[:budget], name, problem, seed)
    return refitted._replace(seconds=refitted.seconds + seconds)


def fit_peer_on(columns: np.ndarray, name: str, problem: Problem, seed: int) -> Outcome:
    """A peer on given columns."""
    started = process_time()
    model = new_peer(name, problem.is_regression, seed).fit(problem.X[:, columns], problem.y)
    seconds = process_time() - started
    return Outcome(columns, score(model, problem.X_test[:, columns], problem.y_test), seconds)


def score(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """R2, or AUC (more than two classes: one against one, macro)."""
    if not hasattr(model, "predict_proba"):
        return float(r2_score(y, model.predict(X)))
    P = model.predict_proba(X).astype(float)
    P /= P.sum(axis=1, keepdims=True)
    return float(roc_auc_score(y, P[:, 1]) if P.shape[1] == 2 else roc_auc_score(y, P, multi_class="ovo"))


@cache
def load_kernels(kind: type) -> None:
    """Load compiled code, or compile it, before the first timed fit of a process."""
    X = np.random.default_rng(0).standard_normal((100, 4))
    kind(2, max_epochs=1, random_state=0).fit(X, X[:, 0] if kind is SkinnyTreesRegressor else X[:, 0] > 0)


def side_by_side(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], n_jobs: int) -> Iterable[Any]:
    """What ``work`` returns for each task, as soon as it is there; every job is a process of its own."""
    return Parallel(n_jobs, return_as="generator_unordered")(delayed(work)(*task) for task in tasks)


def mean_and_error(values: Iterable[float], signed: bool = False) -> str:
    """The mean and, from two values on, its standard error."""
    found = np.array(list(values))
    mean = f"{found.mean():{'+' if signed else ''}.3f}"
    return f"{mean} ± {found.std(ddof=1) / np.sqrt(len(found)):.3f}" if len(found) > 1 else mean
