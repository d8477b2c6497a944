"""One fold: select and fit on its training rows, score and predict its test rows."""

import inspect
import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing

DEFAULT_SCORING = {
    "binary": ("roc_auc", "neg_log_loss", "accuracy"),
    "multiclass": ("roc_auc_ovr", "neg_log_loss", "accuracy"),
    "regression": ("r2", "neg_root_mean_squared_error"),
}


def scorers_for(model: Any, scoring: Any, y: NDArray[Any]) -> dict[str, Any]:
    """A scorer for each name: those of the user, or usual ones for the kind of target."""
    if scoring is None:
        kind = "regression" if not is_classifier(model) else "binary" if len(np.unique(y)) == 2 else "multiclass"
        scoring = DEFAULT_SCORING[kind]
    if isinstance(scoring, str):
        return {scoring: check_scoring(model, scoring)}
    if callable(scoring):
        return {getattr(scoring, "__name__", "score"): check_scoring(model, scoring)}
    if isinstance(scoring, Mapping):
        return {str(name): check_scoring(model, one) for name, one in scoring.items()}
    return {str(name): check_scoring(model, name) for name in scoring}


def run_fold(
    model: Any, X: Any, y: NDArray[Any], rows: tuple[NDArray[np.intp], NDArray[np.intp]], scorers: dict[str, Any],
    groups: NDArray[Any] | None, sample_weight: NDArray[np.float64] | None,
) -> dict[str, Any]:  # fmt: skip
    """Fit a clone on the training rows, the selection included, and say what it does on the test rows."""
    training, testing = rows
    fitted = clone(model)
    parameters = inspect.signature(fitted.fit).parameters
    given = {"groups": groups, "sample_weight": sample_weight}
    used = {name: value[training] for name, value in given.items() if value is not None and name in parameters}
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.fit(_safe_indexing(X, training), y[training], **used)
    seconds = time.perf_counter() - start
    X_test, y_test = _safe_indexing(X, testing), y[testing]
    weight = None if sample_weight is None else sample_weight[testing]
    support = support_of(fitted)
    return {
        "n_train": len(training),
        "n_test": len(testing),
        "n_features": None if support is None else len(support),
        "support": support,
        "scores": {name: _score(scorer, fitted, X_test, y_test, weight) for name, scorer in scorers.items()},
        "prediction": predict(fitted, X_test).tolist(),
        "seconds": seconds,
        "warnings": sorted({str(one.message) for one in caught}),
    }


def support_of(fitted: Any) -> list[int] | None:
    """Numbers of the columns that a fitted model selects; None where it does not say."""
    get_support = getattr(fitted, "get_support", None)
    return None if get_support is None else [int(k) for k in get_support(indices=True)]


def predict(fitted: Any, X: Any) -> NDArray[Any]:
    """Probabilities where the model has them, else predictions."""
    return np.asarray(fitted.predict_proba(X) if hasattr(fitted, "predict_proba") else fitted.predict(X))


def _score(scorer: Any, fitted: Any, X: Any, y: NDArray[Any], weight: NDArray[np.float64] | None) -> float:
    """A score that these rows cannot have, such as AUC where all are of one class, is not a number."""
    given = {} if weight is None else {"sample_weight": weight}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(scorer(fitted, X, y, **given))
    except ValueError:
        return float("nan")
