# ruff: noqa: F841
"""A user's program that `mypy --strict` must accept: the public names have types that say what they give."""

from pathlib import Path
from typing import assert_type

import numpy as np

from skinnytrees import (
    GroupL0,
    GroupLasso,
    SkinnyTreesClassifier,
    SkinnyTreesRegressor,
    StabilitySelector,
    compare,
    evaluate,
    load,
    show_versions,
)
from skinnytrees.comparison import Comparison
from skinnytrees.evaluation import Evaluation


def program() -> None:
    """What a user might write; it is checked, not run."""
    X = np.zeros((20, 3))
    y = np.arange(20) % 2

    classifier: SkinnyTreesClassifier = SkinnyTreesClassifier(feature_budget=2, size_rule="one_se", random_state=0).fit(
        X, y
    )
    smaller: SkinnyTreesClassifier = classifier.at(1)
    panel: SkinnyTreesClassifier = classifier.compact()
    by_cost: SkinnyTreesClassifier = classifier.at(cost=1.0)
    probabilities = classifier.predict_proba(X).sum(axis=1)
    sizes = classifier.path_.n_features.tolist()

    regressor: SkinnyTreesRegressor = SkinnyTreesRegressor(
        penalty=GroupLasso(0.1), loss="huber", always_select=[0]
    ).fit(X, y)
    searched = SkinnyTreesRegressor(penalty=GroupL0.grid(X)[0])
    # Unlike annotations, these refuse Any.
    assert_type(StabilitySelector(searched).fit(X, y), StabilitySelector)
    assert_type(classifier.at(1), SkinnyTreesClassifier)
    assert_type(regressor.at(1), SkinnyTreesRegressor)
    assert_type(evaluate(classifier, X, y), Evaluation)
    assert_type(compare(X, y, ["forest"]), Comparison)
    classifier.save(Path("model.skinny"))
    again: SkinnyTreesClassifier | SkinnyTreesRegressor = load("model.skinny")
    show_versions()
