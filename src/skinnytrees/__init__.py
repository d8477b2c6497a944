"""Strong models on few features: soft tree ensembles that learn which columns they need."""

from skinnytrees.estimators import SkinnyTreesClassifier, SkinnyTreesRegressor, StabilitySelector, load
from skinnytrees.penalties import GroupL0, GroupLasso
from skinnytrees.versions import show_versions

__version__ = "0.1.0"
__all__ = [
    "GroupL0",
    "GroupLasso",
    "SkinnyTreesClassifier",
    "SkinnyTreesRegressor",
    "StabilitySelector",
    "load",
    "show_versions",
]
