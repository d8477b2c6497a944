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
    common_model: str | None

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
        return {
            "n_features": len(support),
            "support": support.tolist(),
            "score": float(scorer(fitted, X_test, y_test)),
            "score_common": _common_score(task, is_classifier(fitted), X, y, support),
            "log_loss": _log_loss(fitted, X_test, y_test),
            "seconds": seconds,
        }


def _common_score(task: Task, classifies: bool, X: Any, y: NDArray[Any], support: NDArray[np.intp]) -> float | None:
    """Test score of the common model on a system's columns, with the preparation that all systems share."""
    if task.common_model is None or len(support) == 0:
        return None
    columns = _safe_indexing(X, support, axis=1)
    model = _common_model(task.common_model, classifies).fit(_safe_indexing(columns, task.training), y[task.training])
    return float(get_scorer(task.scoring)(model, _safe_indexing(columns, task.testing), y[task.testing]))


def _common_model(name: str, classifies: bool) -> Any:
    if name == "linear":
        return L1PathClassifier(random_state=0) if classifies else L1PathRegressor(random_state=0)
    return estimator_for(name, "classification" if classifies else "regression", random_state=0)


def _log_loss(fitted: Any, X: Any, y: NDArray[Any]) -> float | None:
    if not hasattr(fitted, "predict_proba"):
        return None
    return float(log_loss(y, fitted.predict_proba(X), labels=fitted.classes_))
