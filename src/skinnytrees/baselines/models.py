"""Forests and boosting under one set of names, fitted on prepared rows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import ensemble
from sklearn.base import clone

from skinnytrees.baselines.base import Problem, Sample
from skinnytrees.exceptions import import_optional


def new_forest(problem: Problem, n_estimators: int, **parameters: Any) -> Any:
    """A random forest for the problem's task."""
    kind = "Classifier" if problem.n_classes else "Regressor"
    return getattr(ensemble, f"RandomForest{kind}")(
        n_estimators, n_jobs=problem.n_jobs, random_state=problem.seed, **parameters
    )


def new_extra_trees(problem: Problem, n_estimators: int, **parameters: Any) -> Any:
    """Extremely randomised trees for the problem's task."""
    kind = "Classifier" if problem.n_classes else "Regressor"
    return getattr(ensemble, f"ExtraTrees{kind}")(
        n_estimators, n_jobs=problem.n_jobs, random_state=problem.seed, **parameters
    )


def new_xgboost(
    problem: Problem, n_estimators: int, learning_rate: float, max_depth: int, subsample: float, **parameters: Any
) -> Any:
    """XGBoost; importances are gains."""
    xgboost = import_optional("xgboost", "XGBoost", "baselines")
    return getattr(xgboost, "XGBClassifier" if problem.n_classes else "XGBRegressor")(
        n_estimators=n_estimators, learning_rate=learning_rate, max_depth=max_depth, subsample=subsample,
        importance_type="gain", n_jobs=problem.n_jobs, random_state=problem.seed, **parameters,
    )  # fmt: skip


def new_lightgbm(
    problem: Problem, n_estimators: int, learning_rate: float, max_depth: int, subsample: float, **parameters: Any
) -> Any:
    """LightGBM; importances are gains, where its own default counts splits."""
    lightgbm = import_optional("lightgbm", "LightGBM", "baselines")
    parameters = {"importance_type": "gain", "subsample_freq": 1, **parameters}
    return getattr(lightgbm, "LGBMClassifier" if problem.n_classes else "LGBMRegressor")(
        n_estimators=n_estimators, learning_rate=learning_rate, max_depth=max_depth, num_leaves=min(2**max_depth, 1024),
        subsample=subsample, n_jobs=problem.n_jobs, random_state=problem.seed,
        deterministic=True, force_row_wise=True, verbose=-1, **parameters,
    )  # fmt: skip


def new_catboost(
    problem: Problem, n_estimators: int, learning_rate: float, max_depth: int, subsample: float, **parameters: Any
) -> Any:
    """CatBoost; its importances sum to 100."""
    catboost = import_optional("catboost", "CatBoost", "baselines")
    if subsample < 1:
        parameters = {"bootstrap_type": "Bernoulli", "subsample": subsample, **parameters}
    return getattr(catboost, "CatBoostClassifier" if problem.n_classes else "CatBoostRegressor")(
        iterations=n_estimators, learning_rate=learning_rate, depth=max_depth, thread_count=problem.n_jobs,
        random_seed=problem.seed, verbose=False, allow_writing_files=False, **parameters,
    )  # fmt: skip


def fit_rows(model: Any, sample: Sample) -> Any:
    """Fit on prepared rows; weights are passed only where they are not all 1, because not every model takes them."""
    if np.all(sample.weight == 1):
        return model.fit(sample.X, sample.y)
    return model.fit(sample.X, sample.y, sample_weight=sample.weight)


def fit_final(estimator: Any, problem: Problem, columns: NDArray[np.intp], n_estimators: int = 300) -> Any:
    """The user's model, or a random forest, on these columns of all rows."""
    model = new_forest(problem, n_estimators) if estimator is None else clone(estimator)
    if estimator is not None and "random_state" in model.get_params() and model.random_state is None:
        model.set_params(random_state=problem.seed)
    return fit_rows(model, problem.rows.columns(columns))


def column_importances(model: Any) -> NDArray[np.float64]:
    """Importance of each column: the model's own, or the norm of its coefficients."""
    if hasattr(model, "feature_importances_"):
        return np.asarray(model.feature_importances_, dtype=np.float64)
    return np.linalg.norm(np.atleast_2d(model.coef_), axis=0)
