"""Strong models on few features: soft tree ensembles that learn which columns they need."""

from typing import TYPE_CHECKING, Any

from skinnytrees.estimators import SkinnyTreesClassifier, SkinnyTreesRegressor, StabilitySelector, load
from skinnytrees.penalties import GroupL0, GroupLasso
from skinnytrees.versions import show_versions

if TYPE_CHECKING:  # from the modules themselves: mypy would take the packages' attributes for modules of the same name
    from skinnytrees.comparison.compare import compare
    from skinnytrees.evaluation.evaluate import evaluate

__version__ = "0.1.0"
__all__ = [
    "GroupL0",
    "GroupLasso",
    "SkinnyTreesClassifier",
    "SkinnyTreesRegressor",
    "StabilitySelector",
    "compare",
    "evaluate",
    "load",
    "show_versions",
]


def __getattr__(name: str) -> Any:
    """Import what takes long to import when it is asked for."""
    if name == "compare":
        from skinnytrees.comparison import compare

        return compare
    if name == "evaluate":
        from skinnytrees.evaluation import evaluate

        return evaluate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
