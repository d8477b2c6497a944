"""Strong models on few features: soft tree ensembles that learn which columns they need."""

from skinnytrees.estimators import SkinnyTreesClassifier, SkinnyTreesRegressor, load

__version__ = "0.1.0"
__all__ = ["SkinnyTreesClassifier", "SkinnyTreesRegressor", "load"]
