"""Fits on the pool of real tables, ours and those of the peers: what a process of ``pool.py`` does.

A module of its own, because processes can only be given functions of a module that they can import.
"""

import functools
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss, r2_score, roc_auc_score

from benchmarks import peers, pool_tables
from benchmarks.pool_tables import Split
from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.path.rules import replace_rule

OURS = "skinnytrees"
DEFAULT_RULE = "default"


class Peer(NamedTuple):
    """Name in ``peers.py``, and number of trees."""

    name: str
    n_trees: int


PEERS = {
    "forest": Peer("rf", 300),
    "xgboost": Peer("xgb", 150),
    "lightgbm": Peer("lgbm", 150),
    "catboost": Peer("cat", 300),
}
SYSTEMS = (OURS, *PEERS)
# CatBoost is left out where one fit on all columns would take more seconds than this, judged by its first trees.
MOST_SECONDS = 60.0
PILOT_TREES = 10


class Task(NamedTuple):
    """Fits of one system on one split; a peer ranks the columns once for all budgets."""

    table: str
    rows: str
    rule: str
    seed: int
    system: str
    budgets: tuple[int, ...]
    settings: dict[str, Any]
    n_jobs: int | None


@functools.lru_cache(maxsize=2)
def load(name: str) -> pool_tables.Table:
    return pool_tables.load(name)


@functools.cache
def load_kernels() -> None:
    """Compile, or load from the cache, what the fits will call, so that it does not count for the first of them."""
    SkinnyTreesClassifier(3, max_epochs=1, random_state=0).fit(*load_breast_cancer(return_X_y=True))
    SkinnyTreesRegressor(3, max_epochs=1, random_state=0).fit(*load_diabetes(return_X_y=True))


def new_estimator(table: str, **parameters: Any) -> Any:
    """Ours, for the task of this table."""
    kind = SkinnyTreesRegressor if pool_tables.is_regression(table) else SkinnyTreesClassifier
    return kind(**parameters)


def with_rules(estimator: Any, settings: dict[str, Any]) -> Any:
    """The estimator with these parameters, or rules of its path by their dotted names, in place of its defaults."""
    rules, parameters = type(estimator)._rules, {}
    for name, value in settings.items():
        if name in estimator.get_params():
            parameters[name] = value
        else:
            rules = replace_rule(rules, name, value)
    estimator._rules = rules
    return estimator.set_params(**parameters)


def run_task(task: Task) -> tuple[Task, list[dict[str, Any]], str]:
    """Rows for the file of results, and what went wrong, if anything did."""
    try:
        return task, list(results(task)), ""
    except Exception as error:  # one failed fit must not end a long run
        return task, [], f"{type(error).__name__}: {error}"


def results(task: Task) -> Iterator[dict[str, Any]]:
    split = load(task.table).split(task.seed, task.rows)
    fits = our_fits(task, split) if task.system == OURS else peer_fits(task, split)
    for budget, model, X_judge, n_features, seconds in fits:
        score, loss = judge(model, X_judge, split.y_judge)
        yield {
            "table": task.table, "rows": task.rows, "rule": task.rule, "seed": task.seed, "budget": budget,
            "system": task.system, "score": round(score, 5), "log_loss": float(f"{loss:.6g}"), "n_features": n_features,
            "seconds": round(seconds, 3),
        }  # fmt: skip


def our_fits(task: Task, split: Split) -> Iterator[tuple[int, Any, Any, int, float]]:
    load_kernels()
    for budget in task.budgets:
        model = new_estimator(task.table, feature_budget=budget, random_state=task.seed, n_jobs=task.n_jobs)
        started = time.perf_counter()
        with_rules(model, task.settings).fit(split.X, split.y)
        yield budget, model, split.X_judge, model.n_features_selected_, time.perf_counter() - started


def peer_fits(task: Task, split: Split) -> Iterator[tuple[int, Any, Any, int, float]]:
    """Fitted on all columns, and again on the top ones; the seconds are those of both fits."""
    X, X_judge = without_missing(split)

    def timed_fit(X: Any) -> tuple[Any, float]:
        started = time.perf_counter()
        model = new_peer(task.system, pool_tables.is_regression(task.table), task.seed).fit(X, split.y)
        return model, time.perf_counter() - started

    model, seconds = timed_fit(X)
    ranking = peers.ranking(model)
    for budget in task.budgets:
        columns = ranking[:budget]
        model, seconds_again = timed_fit(X[:, columns])
        yield budget, model, X_judge[:, columns], len(columns), seconds + seconds_again


def new_peer(system: str, is_regression: bool, seed: int) -> Any:
    """An unfitted peer with the settings of the pool, on one thread."""
    kind = "Regressor" if is_regression else "Classifier"
    return peers.new_model(PEERS[system].name, kind, PEERS[system].n_trees, n_jobs=1, seed=seed)


def without_missing(split: Split) -> tuple[Any, Any]:
    """Both parts in single precision, missing values filled with the medians of the rows to fit on."""
    if sparse.issparse(split.X):
        return split.X, split.X_judge
    medians = SimpleImputer(strategy="median", keep_empty_features=True).fit(split.X.astype(np.float32))
    return tuple(medians.transform(X.astype(np.float32)) for X in (split.X, split.X_judge))


def judge(model: Any, X: Any, y: np.ndarray) -> tuple[float, float]:
    """AUC and log-loss of a classifier, R2 of a regressor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM warns of columns without names
        if not hasattr(model, "predict_proba"):
            return r2_score(y, model.predict(X)), np.nan
        P, labels = peers.probabilities(model, X), model.classes_
    if len(labels) == 2:
        return roc_auc_score(y, P[:, 1]), log_loss(y, P, labels=labels)
    return roc_auc_score(y, P, multi_class="ovo", labels=labels), log_loss(y, P, labels=labels)


def seconds_of_catboost(name: str) -> float:
    """What one fit on all columns of a table would take, judged by the first trees."""
    split = load(name).split(1)
    model = new_peer("catboost", pool_tables.is_regression(name), seed=1)
    n_trees = model.get_params()["n_estimators"]
    started = time.perf_counter()
    model.set_params(n_estimators=PILOT_TREES).fit(without_missing(split)[0], split.y)
    return (time.perf_counter() - started) * n_trees / PILOT_TREES
