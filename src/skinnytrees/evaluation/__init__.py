"""Evaluation without selection bias: the whole selection is repeated in every fold."""

from skinnytrees.evaluation.evaluate import evaluate
from skinnytrees.evaluation.results import Evaluation

__all__ = ["Evaluation", "evaluate"]
