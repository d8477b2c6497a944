"""scikit-learn's own checks, with no expected failure."""

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


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")  # many checks fit noise
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
