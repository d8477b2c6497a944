"""What a user gives as ``scoring``, applied to raw outputs of ensembles."""

import difflib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

Scoring = str | Callable[..., float]


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
    >>> from skinnytrees.path.scoring import Scorer
    >>> scorer = Scorer("r2", None, lambda raw: raw)
    >>> Y = np.array([[1.0], [2.0], [3.0]])
    >>> scorer.call(scorer.estimator(Y, Y), np.arange(3), scorer.target(Y), None)
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
        self._function = scoring if callable(scoring) else find_scorer(scoring, classes)

    @property
    def is_roc_auc(self) -> bool:
        """Whether the score is the area under the ROC curve, of two classes or the mean of each class against the rest."""
        if self.classes is None or not isinstance(self.scoring, str):
            return False
        return self.scoring == ("roc_auc" if len(self.classes) == 2 else "roc_auc_ovr")

    def prediction(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Predictions of raw outputs, not finite where they overflow."""
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
        task = "numbers" if self.classes is None else f"{len(self.classes)} classes"
        return ValueError(
            f"scoring={self.scoring!r} cannot score predictions of {task} on {n_rows} held-out rows: {reason} "
            f"Use scoring={_advice(self.classes)}, a scorer by sklearn.metrics.make_scorer, a callable scorer(estimator, X, y) "
            "that returns a number, or scoring=None to compare by the loss."
        )


def find_scorer(name: str, classes: NDArray[Any] | None, parameter: str = "scoring") -> Callable[..., float]:
    """scikit-learn's scorer of this name; an unknown one is refused with names that are like it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return get_scorer(name)
        except (ValueError, KeyError):
            near = difflib.get_close_matches(name.lower(), get_scorer_names(), n=3, cutoff=0.5)
            advice = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"Use {_advice(classes)}."
            raise ValueError(
                f"{parameter}={name!r} is not the name of a scikit-learn scorer. {advice} sklearn.metrics.get_scorer_names() "
                "lists all names."
            ) from None


def _advice(classes: NDArray[Any] | None) -> str:
    """Names of scorers that suit the task."""
    if classes is None:
        return "'r2', 'neg_mean_absolute_error' or 'neg_root_mean_squared_error'"
    if len(classes) == 2:
        return "'roc_auc', 'neg_log_loss' or 'balanced_accuracy'"
    return "'roc_auc_ovr', 'neg_log_loss' or 'f1_macro'"


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
