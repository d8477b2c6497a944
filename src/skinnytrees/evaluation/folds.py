"""One fold: select and fit on its training rows, score and predict its test rows."""

import inspect
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing


def run_fold(
    model: Any, X: Any, y: NDArray[Any], rows: tuple[NDArray[np.intp], NDArray[np.intp]], scorers: dict[str, Any],
    groups: NDArray[Any] | None, sample_weight: NDArray[np.float64] | None,
) -> dict[str, Any]:  # fmt: skip
    """Fit a clone on the training rows, the selection included, and score and predict the test rows."""
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
    """Numbers of the columns that a fitted model selects; None where it has no get_support."""
    get_support = getattr(fitted, "get_support", None)
    return None if get_support is None else [int(k) for k in get_support(indices=True)]


def predict(fitted: Any, X: Any) -> NDArray[Any]:
    """Probabilities where the model has them, else predictions."""
    return np.asarray(fitted.predict_proba(X) if hasattr(fitted, "predict_proba") else fitted.predict(X))


def _score(scorer: Any, fitted: Any, X: Any, y: NDArray[Any], weight: NDArray[np.float64] | None) -> float:
    """The score, or NaN where it is not defined on these rows, such as AUC where all rows have one class."""
    given = {} if weight is None else {"sample_weight": weight}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(scorer(fitted, X, y, **given))
    except ValueError:
        return float("nan")
