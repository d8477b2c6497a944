"""One task of a comparison: a system, a budget, a fold. It runs in a separate process."""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer, log_loss
from sklearn.utils import _safe_indexing

from skinnytrees.baselines import SYSTEMS, L1PathClassifier, L1PathRegressor
from skinnytrees.estimators import SkinnyTreesClassifier, SkinnyTreesRegressor

OURS = "skinnytrees"
COMMON_MODELS = ("forest", "lightgbm", "linear")


@dataclass(frozen=True)
class Task:
    """What is fitted, on which rows, and how it is judged; ``model`` has its budget set."""

    system: str
    budget: float
    fold: int
    model: Any
    training: NDArray[np.intp]
    testing: NDArray[np.intp]
    scoring: str
    common_model: str

    @property
    def key(self) -> str:
        """Name of the task in a file of results; another setting of a system is another task."""
        return f"{self.system} | {self.budget} | {self.fold} | {self.model!r}"


def estimator_for(system: str, task: str, random_state: int) -> Any:
    """A new estimator of a named system."""
    if system == OURS:
        kind = SkinnyTreesClassifier if task == "classification" else SkinnyTreesRegressor
        return kind(random_state=random_state)
    made = SYSTEMS[system].of_task(task)
    assert made is not None
    return made(random_state=random_state) if "random_state" in made().get_params() else made()


def run_task(task: Task, X: Any, y: NDArray[Any]) -> dict[str, Any]:
    """Fit, select and score: the values of one row of a comparison."""
    X_train, y_train = _safe_indexing(X, task.training), y[task.training]
    X_test, y_test = _safe_indexing(X, task.testing), y[task.testing]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(task.model).fit(X_train, y_train)
        seconds = time.perf_counter() - start
        support = np.flatnonzero(fitted.get_support())
        scorer = get_scorer(task.scoring)
        common = _common_model(task, is_classifier(fitted))
        columns = _safe_indexing(X_train, support, axis=1), _safe_indexing(X_test, support, axis=1)
        return {
            "n_features": len(support),
            "support": support.tolist(),
            "score": float(scorer(fitted, X_test, y_test)),
            "score_common": float(scorer(common.fit(columns[0], y_train), columns[1], y_test))
            if len(support)
            else None,
            "log_loss": _log_loss(fitted, X_test, y_test),
            "seconds": seconds,
        }


def _common_model(task: Task, classifies: bool) -> Any:
    """The model that is fitted on every system's columns, with the preparation that all systems share."""
    if task.common_model == "linear":
        return L1PathClassifier(random_state=0) if classifies else L1PathRegressor(random_state=0)
    return estimator_for(task.common_model, "classification" if classifies else "regression", random_state=0)


def _log_loss(fitted: Any, X: Any, y: NDArray[Any]) -> float | None:
    if not hasattr(fitted, "predict_proba"):
        return None
    return float(log_loss(y, fitted.predict_proba(X), labels=fitted.classes_))
