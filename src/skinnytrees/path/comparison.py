"""Comparison of candidates on the same held-out rows: how bad each one is, and how sure the difference of two is.

Candidates are compared by the loss of every row, or by a scikit-learn scorer, which sees the ensembles' stored outputs.
"""

import difflib
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

# With fewer bootstrap draws than these, a standard deviation over draws says nothing.
_LEAST_DRAWS = 10
# Stands for an unknown standard error: larger than any difference, and a multiple of it is still finite.
_UNKNOWN_ERROR = float(np.sqrt(np.finfo(float).max))
# Draws have a seed of their own: they repeat, and asking for a score does not change what follows in a fit.
_SEED_OF_DRAWS = 20240607

Scoring = str | Callable[..., float]


class Comparison(Protocol):
    """How bad several candidates are on the same rows, and how sure that is. Lower is better."""

    @property
    def mean(self) -> NDArray[np.float64]:
        """How bad each candidate is."""

    def difference(self, to: int) -> NDArray[np.float64]:
        """How much worse than candidate ``to`` each one is; zero at ``to``."""

    def error_of_difference(self, to: int) -> NDArray[np.float64]:
        """Standard error of the difference to candidate ``to``, paired over rows; zero at ``to``."""

    def error(self) -> NDArray[np.float64]:
        """Standard error of each candidate's own mean."""


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
    >>> from skinnytrees.path.comparison import ScoreComparison, Scorer
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
        scorer: "Scorer",
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
        rows = _ScoredRows(scorer, estimators, Y, weight)
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


class Scorer:
    """What a user gives as ``scoring``, applied to raw outputs of ensembles.

    Parameters
    ----------
    scoring : str or callable
        Name of a scikit-learn scorer, or ``scorer(estimator, X, y)`` that returns a number, the higher the better. X is a
        column of row numbers, for which the estimator has its predictions stored.
    classes : array or None
        Class labels, whose numbers are the targets; None for regression.
    to_prediction : callable
        Turns raw outputs of shape (n_rows, n_outputs) into class probabilities, or into predictions on the scale of the
        targets.
    multi_output : bool, default=False
        Whether regression targets are passed on as columns even where there is only one.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.path.comparison import Scorer
    >>> scorer = Scorer("r2", None, lambda raw: raw)
    >>> scorer.score(np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [3.0]]))
    1.0
    """

    def __init__(
        self,
        scoring: Scoring,
        classes: NDArray[Any] | None,
        to_prediction: Callable[[NDArray[Any]], NDArray[Any]],
        multi_output: bool = False,
    ) -> None:
        self.scoring = scoring
        self.classes = classes
        self.to_prediction = to_prediction
        self.multi_output = multi_output
        self._function = scoring if callable(scoring) else self._named(scoring)

    @property
    def is_roc_auc(self) -> bool:
        """Whether the score is the area under the ROC curve, of two classes or the mean of each class against the rest."""
        if self.classes is None or not isinstance(self.scoring, str):
            return False
        return self.scoring == ("roc_auc" if len(self.classes) == 2 else "roc_auc_ovr")

    def score(self, raw: NDArray[Any], Y: NDArray[Any], weight: NDArray[np.float64] | None = None) -> float:
        """Score of one candidate.

        Parameters
        ----------
        raw : array of shape (n_rows, n_outputs)
            Its raw outputs.
        Y : array of shape (n_rows, width)
            Class numbers or targets.
        weight : array of shape (n_rows,) or None
            Weights of the rows, for scorers that take them.

        Returns
        -------
        float
        """
        weight = np.ones(len(Y)) if weight is None else weight
        has_weight = weight > 0
        estimator = self.estimator(raw[has_weight], self.prediction(raw[has_weight]))
        return float(_ScoredRows(self, [estimator], Y[has_weight], weight[has_weight]).scores()[0])

    def prediction(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Predictions of raw outputs, not finite where they leave the numbers a computer can hold."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.to_prediction(raw))

    def estimator(self, raw: NDArray[Any], prediction: NDArray[Any]) -> Any:
        """What looks like a fitted estimator and knows its predictions by row number."""
        if self.classes is not None:
            return _StoredClassifier(raw, prediction, self.classes)
        return _StoredRegressor(prediction if self.multi_output else prediction[:, 0])

    def target(self, Y: NDArray[Any]) -> NDArray[Any]:
        """Targets as the user gave them."""
        if self.classes is not None:
            return self.classes[Y[:, 0].astype(np.intp)]
        return Y if self.multi_output else Y[:, 0]

    def call(self, estimator: Any, rows: NDArray[np.intp], y: NDArray[Any], weight: NDArray[Any] | None) -> float:
        """What the user's function returns on these rows."""
        weights = {} if weight is None else {"sample_weight": weight}
        return float(self._function(estimator, rows.reshape(-1, 1), y, **weights))

    def refuse(self, reason: str, n_rows: int) -> ValueError:
        """The error for a scorer that cannot score the rows."""
        return ValueError(
            f"scoring={self.scoring!r} cannot score predictions of {self._task} on {n_rows} held-out rows: {reason} "
            f"Use scoring={self._advice}, a scorer by sklearn.metrics.make_scorer, a callable scorer(estimator, X, y) that "
            "returns a number, or scoring=None to compare by the loss."
        )

    def _named(self, name: str) -> Callable[..., float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return get_scorer(name)
            except (ValueError, KeyError):
                near = difflib.get_close_matches(name.lower(), get_scorer_names(), n=3, cutoff=0.5)
                names = ", ".join(map(repr, near)) if near else self._advice
                raise ValueError(
                    f"scoring={name!r} is not the name of a scikit-learn scorer. Use {'one like ' if near else ''}{names}, or a "
                    "callable scorer(estimator, X, y); sklearn.metrics.get_scorer_names() lists all names."
                ) from None

    @property
    def _task(self) -> str:
        return "numbers" if self.classes is None else f"{len(self.classes)} classes"

    @property
    def _advice(self) -> str:
        if self.classes is None:
            return "'r2', 'neg_mean_absolute_error' or 'neg_root_mean_squared_error'"
        if len(self.classes) == 2:
            return "'roc_auc', 'neg_log_loss' or 'balanced_accuracy'"
        return "'roc_auc_ovr', 'neg_log_loss' or 'f1_macro'"


class _ScoredRows:
    """Scores of several candidates on the same rows, all of which have a weight."""

    def __init__(self, scorer: Scorer, estimators: list[Any], Y: NDArray[Any], weight: NDArray[np.float64]) -> None:
        self.scorer = scorer
        self.estimators = estimators
        self.codes = Y[:, 0]
        self.y = scorer.target(Y)
        self.weight = weight

    def scores(self) -> NDArray[np.float64]:
        """Scores on all rows; what the scorer does not like is an error."""
        return np.array([self._score(one) for one in self.estimators])

    def scores_of_draw(self, draw: NDArray[np.intp]) -> NDArray[np.float64]:
        """Scores where each row counts so many times; not a number where the scorer refuses them."""
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
    def _areas(self) -> "list[list[_AreaUnderRoc]] | None":
        """What has an area under the ROC curve, for each candidate: scikit-learn takes over a millisecond per call."""
        if not self.scorer.is_roc_auc:
            return None
        if len(self.estimators[0].classes_) == 2:
            return [[_AreaUnderRoc(one.decision_, self.codes == 1)] for one in self.estimators]
        return [
            [_AreaUnderRoc(value, self.codes == label) for label, value in enumerate(one.probability.T)]
            for one in self.estimators
        ]


class _AreaUnderRoc:
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
        # Not a product by BLAS, whose threads take longer to meet than to multiply.
        below = (positive * (negative.cumsum() - negative / 2)).sum()
        return float(below / pairs) if pairs > 0 else np.nan


class _StoredClassifier(ClassifierMixin, BaseEstimator):
    """Looks like a fitted classifier; X is a column of row numbers."""

    def __init__(self, raw: NDArray[Any], probability: NDArray[Any], classes: NDArray[Any]) -> None:
        self.raw = raw
        self.probability = probability
        self.classes = classes
        self.classes_ = classes
        self.label_ = classes[raw.argmax(axis=1)]
        self.decision_ = raw[:, 1] - raw[:, 0] if raw.shape[1] == 2 else raw

    def predict(self, X: Any) -> NDArray[Any]:
        return self.label_[_row_numbers(X)]

    def predict_proba(self, X: Any) -> NDArray[Any]:
        return self.probability[_row_numbers(X)]

    def decision_function(self, X: Any) -> NDArray[Any]:
        return self.decision_[_row_numbers(X)]


class _StoredRegressor(RegressorMixin, BaseEstimator):
    """Looks like a fitted regressor; X is a column of row numbers."""

    def __init__(self, prediction: NDArray[Any]) -> None:
        self.prediction = prediction
        self.prediction_ = prediction

    def predict(self, X: Any) -> NDArray[Any]:
        return self.prediction_[_row_numbers(X)]


def _row_numbers(X: Any) -> NDArray[np.intp]:
    return np.asarray(X)[:, 0].astype(np.intp)


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


def _sentence(message: Any) -> str:
    """The first paragraph of an error or warning, with a full stop."""
    text = " ".join(str(message).strip().split("\n\n")[0].split())
    return text if text.endswith(".") else f"{text}."
