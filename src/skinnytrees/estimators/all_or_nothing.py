"""A fit changes an estimator at its end and all at once: it learns in a copy, which the estimator then becomes."""

import copy
from typing import TypeVar

from sklearn.base import BaseEstimator

Estimator = TypeVar("Estimator", bound=BaseEstimator)


def unfitted(estimator: Estimator) -> Estimator:
    """A copy with the same parameters and without what a fit has learned.

    Unlike ``sklearn.base.clone`` it shares the parameters, so that a generator given as ``random_state`` advances.
    """
    fresh = copy.copy(estimator)
    fresh.__dict__ = _without_learned(estimator)
    return fresh


def become(estimator: Estimator, fitted: Estimator) -> Estimator:
    """Take over all that a copy has learned, in one assignment, and return the estimator."""
    estimator.__dict__ = {**_without_learned(estimator), **vars(fitted)}
    return estimator


def _without_learned(estimator: BaseEstimator) -> dict[str, object]:
    return {name: value for name, value in vars(estimator).items() if not name.endswith("_")}
