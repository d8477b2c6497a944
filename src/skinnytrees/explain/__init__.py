"""Explanations of predictions: Shapley values, interactions, effects. Built on fitted estimators."""

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skinnytrees.explain.explanation import Explanation
from skinnytrees.explain.reading import make_game, output_names, selected_columns
from skinnytrees.explain.shapley import shapley_values

__all__ = ["Explanation", "explain"]


def explain(
    estimator: Any, X: Any, background: Any = None, *, output: str = "raw", method: str = "auto", max_error: float = 0.01,
    random_state: int = 0, n_jobs: int | None = None,
) -> Explanation:  # fmt: skip
    """Contributions of the selected features of a fitted estimator to its scores; see ``SkinnyTreesClassifier.explain``."""
    game = make_game(estimator, X, background, output, n_jobs)
    found = shapley_values(game, method, max_error, random_state)
    base = game.scores(game.background).mean(axis=0)
    single = len(base) == 1
    return Explanation(
        values=found.values[..., 0] if single else found.values,
        base_values=float(base[0]) if single else np.asarray(base),
        data=game.rows,
        columns=selected_columns(estimator),
        output_names=output_names(estimator),
        output=output,
        method=found.method,
        standard_errors=found.standard_errors[..., 0] if single else found.standard_errors,
        is_classifier=is_classifier(estimator),
        game=game,
    )
