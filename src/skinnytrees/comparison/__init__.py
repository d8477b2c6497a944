"""Many systems on one table: the same splits, the same preparation, the same budgets."""

from skinnytrees.comparison.compare import compare
from skinnytrees.comparison.results import Comparison

__all__ = ["Comparison", "compare"]
