"""Every system with settings that are quick on small tables, and the tables."""

import functools

import numpy as np
import pytest

from skinnytrees.baselines import SYSTEMS

_TREES = {"n_estimators": 10}
_SOFT_TREE = {"n_strengths": 5, "max_epochs": 10, "max_depth": 2}
QUICK = {
    "forest": _TREES,
    "extra_trees": _TREES,
    "xgboost": _TREES,
    "lightgbm": _TREES,
    "catboost": _TREES,
    "dense_soft_trees": {"n_estimators": 5, "max_depth": 2, "max_epochs": 10},
    "group_lasso_tree": _SOFT_TREE,
    "skinny_tree": _SOFT_TREE,
    "tao": {"max_depth": 2, "n_lambdas": 4, "max_iter": 4},
    "controlburn": {"n_estimators": 10, "n_alphas": 20, "max_depth": 3, "max_trees": 8},
    "rfe": {"n_estimators": 10, "step": 0.5},
    "l1_path": {"n_penalties": 10},
    "abess": {},
    "mrmr": _TREES,
    "mutual_information": _TREES,
    "shap": _TREES,
    "permutation": {"n_estimators": 10, "n_repeats": 2},
    "boruta": {"n_estimators": 10, "n_search_trees": 10, "max_iter": 4},
    "relieff": {"n_estimators": 10, "n_neighbors": 10},
    "lassonet": {"hidden": (8,), "lambdas": (50.0, 300.0, 500.0, 2000.0), "max_epochs": (40, 5), "refit_epochs": 60},
    "algnet": {"hidden": (8,), "max_epochs": 60, "path_epochs": 5, "n_xi": 5, "lambdas": (0.01,), "refit_epochs": 60},
    "dfs": {"hidden": (8,), "n_repeats": 10, "n_steps": 2, "max_rounds": 2, "second_step_epochs": 30},
    "stg": {
        "hidden": (8,),
        "lambdas": (0.3, 3.0),
        "max_epochs": 80,
        "path_epochs": 20,
        "learning_rate": 0.02,
        "refit_epochs": 8,
    },
    "deep_lasso": {"hidden": (8,), "max_epochs": 80, "learning_rate": 0.01, "refit_epochs": 60},
}
# Of these, a permutation of the columns permutes the support exactly. The others draw random numbers per column.
DETERMINISTIC = {"xgboost", "lightgbm", "shap", "l1_path", "abess", "mrmr", "relieff"}
N_COLUMNS, CONSTANT = 12, 5

CLASSIFIERS = [pytest.param(name, id=name) for name in SYSTEMS]
BOTH = [
    pytest.param(name, kind, id=f"{name}-{kind}")
    for name, system in SYSTEMS.items()
    for kind in ("classifier", "regressor")
    if getattr(system, kind) is not None
]


def new(name, kind="classifier", budget=None, **settings):
    """An unfitted system on one thread, quick unless told otherwise; skipped where its package is absent."""
    system = SYSTEMS[name]
    for package in system.needs:
        pytest.importorskip(package, reason=f"{name} needs {package}, which the extra [{system.extra}] installs")
    cls = getattr(system, kind)
    one_thread = {"n_jobs": 1} if "n_jobs" in cls._get_param_names() else {}
    return cls(budget, **{"random_state": 0, **one_thread, **QUICK[name], **settings})


@functools.cache
def small_table(kind):
    """Two of twelve columns matter, one is constant. The arrays cannot be written to."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, N_COLUMNS))
    X[:, CONSTANT] = 7.3
    y = X[:, 2] - X[:, 9] + 0.3 * rng.normal(size=len(X))
    y = y if kind == "regressor" else (y > 0).astype(int)
    X.flags.writeable = y.flags.writeable = False
    return X, y


@functools.cache
def fitted(name, kind, budget):
    """A system fitted on the small table."""
    X, y = small_table(kind)
    return new(name, kind, budget).fit(X, y)


def output(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
