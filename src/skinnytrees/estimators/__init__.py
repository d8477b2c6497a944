"""The scikit-learn interface: the classifier, the regressor, stability selection, and reading them from files."""

from skinnytrees.estimators.classifier import SkinnyTreesClassifier
from skinnytrees.estimators.loading import load
from skinnytrees.estimators.regressor import SkinnyTreesRegressor
from skinnytrees.estimators.stability import StabilitySelector

__all__ = ["SkinnyTreesClassifier", "SkinnyTreesRegressor", "StabilitySelector", "load"]
