"""Scores of several candidates on the same rows, on all of them or on bootstrap draws."""

import warnings
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.path.scoring import Scorer


def score_candidate(
    scorer: Scorer, raw: NDArray[Any], Y: NDArray[Any], weight: NDArray[np.float64] | None = None
) -> float:
    """Score of one candidate.

    Parameters
    ----------
    scorer : Scorer
        What to score by.
    raw : array of shape (n_rows, n_outputs)
        Its raw outputs.
    Y : array of shape (n_rows, width)
        Class numbers or targets.
    weight : array of shape (n_rows,) or None
        Weights of the rows, for scorers that take them.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.path.scored_rows import score_candidate
    >>> from skinnytrees.path.scoring import Scorer
    >>> numbers = np.array([[1.0], [2.0], [3.0]])
    >>> score_candidate(Scorer("r2", None, lambda raw: raw), numbers, numbers)
    1.0
    """
    weight = np.ones(len(Y)) if weight is None else weight
    has_weight = weight > 0
    estimator = scorer.estimator(raw[has_weight], scorer.prediction(raw[has_weight]))
    return float(ScoredRows(scorer, [estimator], Y[has_weight], weight[has_weight]).scores()[0])


class ScoredRows:
    """Scores of several candidates on the same rows, all of which have a weight."""

    def __init__(self, scorer: Scorer, estimators: list[Any], Y: NDArray[Any], weight: NDArray[np.float64]) -> None:
        self.scorer = scorer
        self.estimators = estimators
        self.codes = Y[:, 0]
        self.y = scorer.target(Y)
        self.weight = weight

    def scores(self) -> NDArray[np.float64]:
        """Scores on all rows; rows that the scorer refuses are an error."""
        return np.array([self._score(one) for one in self.estimators])

    def scores_of_draw(self, draw: NDArray[np.intp]) -> NDArray[np.float64]:
        """Scores where each row counts this many times; not a number where the scorer refuses them."""
        if self._areas is not None:
            return np.array([np.mean([one.area(self.weight * draw) for one in areas]) for areas in self._areas])
        rows = np.repeat(np.arange(len(draw)), draw)
        y, weight = self.y[rows], self.weight[rows] if self._takes_weight else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return np.array([self.scorer.call(one, rows, y, weight) for one in self.estimators])
            except Exception:
                return np.full(len(self.estimators), np.nan)

    def _score(self, estimator: Any) -> float:
        rows = np.arange(len(self.y))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                score = self.scorer.call(estimator, rows, self.y, self.weight if self._takes_weight else None)
            except Exception as error:
                raise self.scorer.refuse(_sentence(error), len(rows)) from error
        if not np.isfinite(score):
            reason = f"it gives {score}. " + " ".join(_sentence(one.message) for one in caught[:1])
            raise self.scorer.refuse(reason.strip(), len(rows))
        return score

    @cached_property
    def _takes_weight(self) -> bool:
        """Whether to pass weights: some scorers have no such argument, others refuse it for some targets."""
        if np.all(self.weight == self.weight[0]):
            return False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.scorer.call(self.estimators[0], np.arange(len(self.y)), self.y, self.weight)
            except Exception:
                return False
        return True

    @cached_property
    def _areas(self) -> "list[list[AreaUnderRoc]] | None":
        """What has an area under the ROC curve, for each candidate: scikit-learn takes over a millisecond per call."""
        if not self.scorer.is_roc_auc:
            return None
        if len(self.estimators[0].classes_) == 2:
            return [[AreaUnderRoc(one.decision_, self.codes == 1)] for one in self.estimators]
        return [
            [AreaUnderRoc(value, self.codes == label) for label, value in enumerate(one.probability.T)]
            for one in self.estimators
        ]


class AreaUnderRoc:
    """Area under the ROC curve of the same values under many weightings of the rows: they are sorted only once.

    It is the probability that a positive row has a higher value than a negative one; equal values count half.
    """

    def __init__(self, value: NDArray[np.float64], positive: NDArray[np.bool_]) -> None:
        self.order = np.argsort(value)
        ordered = value[self.order]
        self.positive = positive[self.order]
        self.first_of_equals = np.flatnonzero(np.diff(ordered, prepend=-np.inf))

    def area(self, weight: NDArray[np.float64]) -> float:
        """The area; not a number where a class has no weight."""
        weight = weight[self.order]
        positive = np.add.reduceat(np.where(self.positive, weight, 0.0), self.first_of_equals)
        negative = np.add.reduceat(np.where(self.positive, 0.0, weight), self.first_of_equals)
        pairs = positive.sum() * negative.sum()
        # Not a product by BLAS, whose threads take longer to synchronise than to multiply.
        below = (positive * (negative.cumsum() - negative / 2)).sum()
        return float(below / pairs) if pairs > 0 else np.nan


def _sentence(message: Any) -> str:
    """The first paragraph of an error or warning, with a full stop."""
    text = " ".join(str(message).strip().split("\n\n")[0].split())
    return text if text.endswith(".") else f"{text}."
