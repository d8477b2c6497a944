"""scikit-learn's own checks; none is expected to fail with the path."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.penalties import GroupL0

FEW = {"max_epochs": 15, "n_estimators": 10}

ESTIMATORS = [
    SkinnyTreesClassifier(),
    SkinnyTreesRegressor(),
    SkinnyTreesClassifier(penalty=GroupL0(gamma=0.01, rate=0.01), **FEW),
    SkinnyTreesRegressor(penalty=GroupL0(gamma=0.01, rate=0.01), validation_fraction=None, **FEW),
    SkinnyTreesClassifier(penalty=None, optimizer="adam", learning_rate=0.02, **FEW),
    SkinnyTreesRegressor(penalty=None, activation="smoothstep", **FEW),
]


def expected_failures(estimator):
    if estimator.penalty == "path":
        return {}
    reason = "scikit-learn sets cv here, which has no effect without the path and is refused"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


# Many checks fit noise, or so few rows that a penalty removes nothing.
@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_check(estimator, check):
    check(estimator)
