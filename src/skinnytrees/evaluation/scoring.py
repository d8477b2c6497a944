"""What is scored: scorers by name, and the ranges that their values cannot leave."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring

from skinnytrees.exceptions import refuse_unless
from skinnytrees.path.scoring import find_scorer

Range = tuple[float, float]
Scoring = str | Callable[..., float]

ANY_NUMBER: Range = (-math.inf, math.inf)

_DEFAULT_SCORING = {
    "binary": ("roc_auc", "neg_log_loss", "accuracy"),
    "multiclass": ("roc_auc_ovr", "neg_log_loss", "accuracy"),
    "regression": ("r2", "neg_root_mean_squared_error"),
}
# Ranges of scikit-learn's scores by how their names begin. All losses whose names begin with "neg_" are at least 0.
_RANGES: dict[str, Range] = {
    **dict.fromkeys(("accuracy", "balanced_accuracy", "top_k_accuracy", "roc_auc", "average_precision"), (0.0, 1.0)),
    **dict.fromkeys(("f1", "precision", "recall", "jaccard"), (0.0, 1.0)),
    **dict.fromkeys(("r2", "d2_", "explained_variance"), (-math.inf, 1.0)),
    "matthews_corrcoef": (-1.0, 1.0),
    "neg_": (-math.inf, 0.0),
}


def named_scoring(model: Any, scoring: Any, y: NDArray[Any]) -> dict[str, Scoring]:
    """Name of each score, and scikit-learn's name or the callable that computes it; usual scores where scoring is None."""
    if scoring is None:
        kind = "regression" if not is_classifier(model) else "binary" if len(np.unique(y)) == 2 else "multiclass"
        scoring = _DEFAULT_SCORING[kind]
    if isinstance(scoring, str):
        return {scoring: scoring}
    if callable(scoring):
        return {getattr(scoring, "__name__", "score"): scoring}
    refuse_unless(
        isinstance(scoring, Iterable),
        f"scoring={scoring!r} does not name a score. Give a name such as 'accuracy', a callable, a list of names, or a dict.",
    )
    named = {
        str(name): one for name, one in (scoring if isinstance(scoring, Mapping) else {s: s for s in scoring}).items()
    }
    refuse_unless(len(named) > 0, "scoring is empty. Name at least one score, such as 'accuracy'.")
    return named


def scorers_for(model: Any, scoring: Mapping[str, Scoring], y: NDArray[Any]) -> dict[str, Any]:
    """scikit-learn's scorer for each name."""
    classes = np.unique(y) if is_classifier(model) else None
    for one in scoring.values():
        if isinstance(one, str):
            find_scorer(one, classes)
    return {name: check_scoring(model, one) for name, one in scoring.items()}


def score_range(scoring: Any) -> Range:
    """Least and largest value that a score of scikit-learn can have; infinite for callables and names that are not known here.

    Examples
    --------
    >>> from skinnytrees.evaluation.scoring import score_range
    >>> score_range("roc_auc"), score_range("r2")
    ((0.0, 1.0), (-inf, 1.0))
    """
    if not isinstance(scoring, str):
        return ANY_NUMBER
    return next((limits for start, limits in _RANGES.items() if scoring.startswith(start)), ANY_NUMBER)
