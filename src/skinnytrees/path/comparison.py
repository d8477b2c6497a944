"""Comparison of candidates on the same held-out rows: the loss of each, and the standard error of differences.

Candidates are compared by the loss of every row, or by a scorer (``scoring.py``), which sees the ensembles' stored outputs.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import sklearn
from numpy.typing import NDArray

from skinnytrees.path.scored_rows import ScoredRows
from skinnytrees.path.scoring import Scorer

# With fewer bootstrap draws than these, a standard deviation over draws is not reliable.
_LEAST_DRAWS = 10
# Stands for an unknown standard error: larger than any difference, and a multiple of it is still finite.
_UNKNOWN_ERROR = float(np.sqrt(np.finfo(float).max))
# Draws have a seed of their own: they repeat, and asking for a score does not change what follows in a fit.
_SEED_OF_DRAWS = 20240607


class Comparison(Protocol):
    """Losses of several candidates on the same rows with their standard errors. Lower is better."""

    @property
    def mean(self) -> NDArray[np.float64]:
        """Loss of each candidate."""

    def difference(self, to: int) -> NDArray[np.float64]:
        """How much worse than candidate ``to`` each one is; zero at ``to``."""

    def error_of_difference(self, to: int) -> NDArray[np.float64]:
        """Standard error of the difference to candidate ``to``, paired over rows; zero at ``to``."""

    def error(self) -> NDArray[np.float64]:
        """Standard error of each candidate's own mean."""

    def take(self, candidates: Any) -> "Comparison":
        """Some of the candidates."""


def no_worse(comparison: Comparison, tolerance: float, own: bool = False) -> NDArray[np.bool_]:
    """Which candidates are within a number of standard errors of the best one.

    Parameters
    ----------
    comparison : Comparison
        The candidates.
    tolerance : float
        How many standard errors of the difference to the best candidate are allowed.
    own : bool, default=False
        Take the standard error of the best candidate's own mean instead, where it is larger.

    Returns
    -------
    array of bool of shape (n_candidates,)

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.path.comparison import LossComparison, no_worse
    >>> losses = np.array([[0.0, 1.0, 0.2], [0.5, 0.1, 0.4], [9.0, 9.1, 9.2]])
    >>> no_worse(LossComparison(losses, np.ones(3)), tolerance=1.0).tolist()
    [True, True, False]
    """
    best = int(np.argmin(comparison.mean))
    noise = comparison.error_of_difference(best)
    if own:
        noise = np.maximum(noise, comparison.error()[best])
    return np.asarray(comparison.difference(best) <= tolerance * noise)


class LossComparison:
    """Candidates compared by their mean loss.

    Losses are compared in pairs, row by row: that noise is far smaller than the noise of either mean.

    Parameters
    ----------
    losses : array of shape (n_candidates, n_rows)
        Loss of every candidate on every row.
    weight : array of shape (n_rows,)
        Weights of the rows.

    Attributes
    ----------
    mean : array of shape (n_candidates,)
        Weighted mean loss of each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.path.comparison import LossComparison
    >>> comparison = LossComparison(np.array([[1.0, 3.0], [2.0, 4.0]]), np.ones(2))
    >>> comparison.mean.tolist(), comparison.error_of_difference(to=0).tolist()
    ([2.0, 3.0], [0.0, 0.0])
    """

    def __init__(self, losses: NDArray[np.float64], weight: NDArray[np.float64]) -> None:
        self.losses = losses
        self.weight = weight
        self.mean: NDArray[np.float64] = np.average(losses, axis=1, weights=weight)
        self._fraction = weight / weight.sum()

    def difference(self, to: int) -> NDArray[np.float64]:
        """How much larger than the mean loss of candidate ``to`` each one is; zero at ``to``."""
        return (self.losses - self.losses[to]) @ self._fraction

    def error_of_difference(self, to: int) -> NDArray[np.float64]:
        """Standard error of the difference to candidate ``to``, paired over rows; zero at ``to``."""
        return self._error_of_mean(self.losses - self.losses[to])

    def error(self) -> NDArray[np.float64]:
        """Standard error of each candidate's mean loss."""
        return self._error_of_mean(self.losses)

    def take(self, candidates: Any) -> "LossComparison":
        """The same for some of the candidates."""
        return LossComparison(self.losses[candidates], self.weight)

    def _error_of_mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        mean = values @ self._fraction
        return np.sqrt((values - mean[:, None]) ** 2 @ self._fraction**2)


class ScoreComparison:
    """Candidates compared by a scorer, such as the area under the ROC curve.

    A score need not be a mean over rows, so its standard errors come from a paired bootstrap: rows are drawn with
    replacement, every candidate is scored on the same draws, and the standard deviation over draws is the error.

    Parameters
    ----------
    mean : array of shape (n_candidates,)
        Minus the score of each candidate on all rows; infinite for one whose predictions are not finite.
    drawn : array of shape (n_draws, n_candidates)
        The same on every bootstrap draw that could be scored.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.losses import Multinomial
    >>> from skinnytrees.path.comparison import ScoreComparison
    >>> from skinnytrees.path.scoring import Scorer
    >>> Y = np.array([[0], [0], [1], [1]])
    >>> good = np.array([[0.0, -2.0], [0.0, -1.0], [0.0, 1.0], [0.0, 2.0]])
    >>> scorer = Scorer("roc_auc", np.array(["no", "yes"]), Multinomial().to_prediction)
    >>> ScoreComparison.learn(scorer, np.stack([good, -good]), Y, np.ones(4)).mean.tolist()
    [-1.0, -0.0]
    """

    def __init__(self, mean: NDArray[np.float64], drawn: NDArray[np.float64]) -> None:
        self.mean = mean
        self.drawn = drawn

    @classmethod
    def learn(
        cls,
        scorer: Scorer,
        outputs: NDArray[Any],
        Y: NDArray[Any],
        weight: NDArray[np.float64],
        n_draws: int = 50,
    ) -> "ScoreComparison":
        """Score candidates on all rows and on bootstrap draws of them.

        Parameters
        ----------
        scorer : Scorer
            What to score by.
        outputs : array of shape (n_candidates, n_rows, n_outputs)
            Raw outputs of every candidate.
        Y : array of shape (n_rows, width)
            Targets, as ``Scorer`` expects them.
        weight : array of shape (n_rows,)
            Weights of the rows, which a scorer without ``sample_weight`` ignores but for zeros.
        n_draws : int, default=50
            Number of bootstrap draws; with 50, a standard error is known to a tenth of itself.

        Returns
        -------
        ScoreComparison
        """
        has_weight = weight > 0
        outputs, Y, weight = outputs[:, has_weight].astype(np.float64), Y[has_weight], weight[has_weight]
        predictions = [scorer.prediction(raw) for raw in outputs]
        finite = [i for i, (F, P) in enumerate(zip(outputs, predictions, strict=True)) if _all_finite(F, P)]
        mean = np.full(len(outputs), np.inf)
        drawn = np.zeros((n_draws, len(outputs)))  # a candidate without finite predictions does not vary
        if not finite:
            return cls(mean, drawn)
        estimators = [scorer.estimator(outputs[i], predictions[i]) for i in finite]
        rows = ScoredRows(scorer, estimators, Y, weight)
        mean[finite] = -rows.scores()
        strata = None if scorer.classes is None else Y[:, 0]
        with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
            for i, draw in enumerate(_draws(len(Y), strata, n_draws)):
                drawn[i, finite] = -rows.scores_of_draw(draw)
        return cls(mean, drawn[np.isfinite(drawn).all(axis=1)])

    def difference(self, to: int) -> NDArray[np.float64]:
        """How much lower than the score of candidate ``to`` each one is; zero at ``to``."""
        same = self.mean == self.mean[to]  # where both are infinite, too
        return np.subtract(self.mean, self.mean[to], out=np.zeros_like(self.mean), where=~same)

    def error_of_difference(self, to: int) -> NDArray[np.float64]:
        """Standard error of the difference to candidate ``to``, by draws; zero at ``to``."""
        error = self._deviation(self.drawn - self.drawn[:, [to]])
        error[to] = 0.0
        return error

    def error(self) -> NDArray[np.float64]:
        """Standard error of each candidate's score, by draws."""
        return self._deviation(self.drawn)

    def take(self, candidates: Any) -> "ScoreComparison":
        """The same for some of the candidates, without scoring them again."""
        return ScoreComparison(self.mean[candidates], self.drawn[:, candidates])

    @staticmethod
    def _deviation(drawn: NDArray[np.float64]) -> NDArray[np.float64]:
        if len(drawn) < _LEAST_DRAWS:
            return np.full(drawn.shape[1], _UNKNOWN_ERROR)
        return drawn.std(axis=0, ddof=1)


def _draws(n_rows: int, strata: NDArray[Any] | None, n_draws: int) -> Iterator[NDArray[np.intp]]:
    """How often each row is drawn, for each draw of as many rows as there are.

    A class that would be missing keeps one of its rows: without it many scores are undefined, and with a rare class that
    would be most draws.
    """
    rng = np.random.default_rng(_SEED_OF_DRAWS)
    members = [] if strata is None else [np.flatnonzero(strata == label) for label in np.unique(strata)]
    for _ in range(n_draws):
        draw = np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows)
        for rows in members:
            if not draw[rows].any():
                draw[rng.choice(rows)] = 1
        yield draw


def _all_finite(*arrays: NDArray[Any]) -> bool:
    return all(bool(np.isfinite(one).all()) for one in arrays)
