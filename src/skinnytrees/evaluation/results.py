"""What an evaluation found: scores with intervals, panels and their stability, predictions of held-out rows."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from skinnytrees.estimators.selection_statistics import Stability, stability_interval
from skinnytrees.evaluation.scoring import ANY_NUMBER, Range
from skinnytrees.exceptions import import_optional, refuse_unless

# Below the first of these values of the stability index panels agree poorly, above the second excellently (Nogueira et al. 2018).
_POOR, _EXCELLENT = 0.4, 0.75


class ScoreSummary(NamedTuple):
    """Mean of a score over folds, with the confidence interval of the mean."""

    mean: float
    low: float
    high: float
    by_fold: NDArray[np.float64]


class Evaluation:
    """The result of :func:`skinnytrees.evaluate`.

    Attributes
    ----------
    n_folds : int
        Number of folds, repetitions included.
    folds : list of dict
        What every fold gave: numbers of rows, support, scores, predictions, seconds, warnings.
    names : list of str
        Names of the columns.
    scores : dict of ScoreSummary
        For each score, its mean over folds and the confidence interval of that mean.
    stability : Stability or None
        How much the panels of the folds agree; None where the model has no ``get_support``.

    Notes
    -----
    Folds share training rows, so their scores are not independent, and the usual standard error of their mean is too small. The
    intervals use the correction of Nadeau and Bengio (2003): the variance over folds is multiplied by ``1 / n_folds + n_test /
    n_train``, and the quantile is Student's t with ``n_folds - 1`` degrees of freedom. Where the range of a score is known, the
    interval is clipped to it: to [0, 1] for AUC, accuracy, average precision, F1, precision, recall and Jaccard, to at most 1 for
    R squared, and to at most 0 for negative losses. Callables and scorers made by ``make_scorer`` are not clipped.
    """

    def __init__(
        self, folds: list[dict[str, Any]], splits: list[tuple[NDArray[Any], NDArray[Any]]], y: NDArray[Any],
        names: list[str], classes: NDArray[Any] | None, score_ranges: dict[str, Range], level: float = 0.95,
    ) -> None:  # fmt: skip
        self.folds, self.splits, self.y, self.names, self.classes, self.level = folds, splits, y, names, classes, level
        self.score_ranges = score_ranges
        self.n_folds = len(folds)

    @cached_property
    def scores(self) -> dict[str, ScoreSummary]:
        """For each score, its mean over folds and the confidence interval of that mean."""
        ratio = float(np.mean([fold["n_test"] / fold["n_train"] for fold in self.folds]))
        scores = {}
        for name, limits in self.score_ranges.items():
            by_fold = np.array([fold["scores"][name] for fold in self.folds])
            scores[name] = ScoreSummary(*mean_interval(by_fold, ratio, self.level, limits), by_fold)
        return scores

    @property
    def selected(self) -> NDArray[np.bool_]:
        """Which columns each fold selected, one row per fold."""
        refuse_unless(
            self.folds[0]["support"] is not None,
            "The model does not say which columns it selects: it has no get_support(). Evaluate a model that has it, such as "
            "SkinnyTreesClassifier.",
        )
        selected = np.zeros((self.n_folds, len(self.names)), dtype=bool)
        for fold, row in zip(self.folds, selected, strict=True):
            row[fold["support"]] = True
        return selected

    @cached_property
    def stability(self) -> Stability | None:
        """How much the panels agree beyond chance, with its confidence interval."""
        return None if self.folds[0]["support"] is None else stability_interval(self.selected, self.level)

    @cached_property
    def predictions(self) -> NDArray[np.float64]:
        """For each row, the mean of its predictions over the folds that held it out; NaN for rows that none did."""
        first = np.asarray(self.folds[0]["prediction"], dtype=np.float64)
        total, count = np.zeros((len(self.y), *first.shape[1:])), np.zeros(len(self.y))
        for fold, (_, held) in zip(self.folds, self.splits, strict=True):
            total[held] += np.asarray(fold["prediction"], dtype=np.float64)
            count[held] += 1
        with np.errstate(invalid="ignore"):
            return total / count.reshape(-1, *[1] * (total.ndim - 1))

    def calibration(self, n_bins: int = 10) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
        """Predicted against observed, for rows that were held out, in bins of equal counts.

        Parameters
        ----------
        n_bins : int, default=10
            At most this many bins.

        Returns
        -------
        predicted, observed : arrays
            Mean prediction and mean outcome per bin: of the second class where there are two, of "the most probable class is the
            right one" where there are more, of the target itself for numbers.
        n_rows : array of int
            Rows per bin.
        """
        predicted, observed = _predicted_and_observed(self)
        order = np.argsort(predicted, kind="stable")
        bins = [rows for rows in np.array_split(order, min(n_bins, len(order))) if len(rows)]
        means = [(predicted[rows].mean(), observed[rows].mean()) for rows in bins]
        return *np.array(means).T, np.array([len(rows) for rows in bins])

    def to_frame(self) -> Any:
        """One row per fold: rows, number of columns, scores, seconds, and the columns by name.

        Returns
        -------
        pandas.DataFrame
        """
        rows = [
            {
                "fold": i,
                "n_train": fold["n_train"],
                "n_test": fold["n_test"],
                "n_features": fold["n_features"],
                **fold["scores"],
                "seconds": fold["seconds"],
                "columns": None if fold["support"] is None else [self.names[k] for k in fold["support"]],
            }
            for i, fold in enumerate(self.folds)
        ]
        return import_optional("pandas", "to_frame()", "frames").DataFrame(rows)

    def frequencies(self) -> Any:
        """How often each column was selected, the most frequent first.

        Returns
        -------
        pandas.DataFrame
            ``column`` and ``frequency``; columns that no fold selected are left out.
        """
        frequency = self.selected.mean(axis=0)
        order = np.argsort(-frequency, kind="stable")
        order = order[frequency[order] > 0]
        pd = import_optional("pandas", "frequencies()", "frames")
        return pd.DataFrame({"column": [self.names[k] for k in order], "frequency": frequency[order]})

    def summary(self) -> str:
        """Scores, intervals and stability as text."""
        lines = [f"{self.n_folds} folds; the selection was repeated in each of them."]
        for name, score in self.scores.items():
            lines.append(f"{name}: {score.mean:.3f}, {self.level:.0%} interval {score.low:.3f} to {score.high:.3f}.")
        if self.stability is not None:
            lines.append(_panels_in_words(self.selected.sum(axis=1), self.stability, self.level))
        messages = sorted({text for fold in self.folds for text in fold["warnings"]})
        lines += [f"Some fits warned: {text}" for text in messages]
        return "\n".join(lines)

    def __repr__(self) -> str:
        scores = ", ".join(
            f"{name} {score.mean:.3f} [{score.low:.3f}, {score.high:.3f}]" for name, score in self.scores.items()
        )
        return f"<Evaluation of {self.n_folds} folds: {scores}>"

    def plot(self) -> Any:
        """Draw scores, calibration, selection frequencies and sizes.

        Returns
        -------
        EvaluationDisplay
            With ``figure_`` and ``axes_``.
        """
        from skinnytrees.evaluation.display import EvaluationDisplay

        return EvaluationDisplay(self).plot()


def mean_interval(
    values: NDArray[np.float64], test_ratio: float, level: float = 0.95, limits: Range = ANY_NUMBER
) -> tuple[float, float, float]:
    """Mean over folds and its confidence interval, corrected for the rows that folds share (Nadeau & Bengio 2003).

    Parameters
    ----------
    values : array of shape (n_folds,)
        Values that are not finite are left out.
    test_ratio : float
        Test rows per training row.
    level : float, default=0.95
        Level of the interval.
    limits : tuple of two floats, default=(-inf, inf)
        Range of the values, to which the interval is clipped.

    Returns
    -------
    mean, low, high : float
        NaN where there are too few values.
    """
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return np.nan, np.nan, np.nan
    mean = float(known.mean())
    if len(known) == 1:
        return mean, np.nan, np.nan
    error = np.sqrt(known.var(ddof=1) * (1 / len(known) + test_ratio))
    margin = float(student.ppf((1 + level) / 2, len(known) - 1) * error)
    return mean, max(mean - margin, limits[0]), min(mean + margin, limits[1])


def _predicted_and_observed(evaluation: Evaluation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    known = np.isfinite(evaluation.predictions.reshape(len(evaluation.y), -1)).all(axis=1)
    prediction, y = evaluation.predictions[known], evaluation.y[known]
    if evaluation.classes is None or prediction.ndim == 1:
        return prediction.reshape(len(y), -1)[:, 0], np.asarray(y, dtype=np.float64).reshape(len(y), -1)[:, 0]
    if len(evaluation.classes) == 2:
        return prediction[:, 1], (y == evaluation.classes[1]).astype(np.float64)
    best = prediction.argmax(axis=1)
    return prediction.max(axis=1), (evaluation.classes[best] == y).astype(np.float64)


def _panels_in_words(sizes: NDArray[np.intp], stability: Stability, level: float) -> str:
    size = f"{sizes.min()} to {sizes.max()}" if sizes.min() < sizes.max() else f"{sizes[0]}"
    text = f"The panels have {size} columns. "
    if np.isnan(stability.index):
        return text + "Their agreement cannot be judged: every panel has all columns, or none."
    interval = f"{stability.index:.2f}, {level:.0%} interval {stability.low:.2f} to {stability.high:.2f}"
    if stability.index < _POOR:
        return text + (
            f"They agree poorly (stability index {interval}; 1 is full agreement, 0 is chance): another sample of rows "
            "would give other columns. Do not report one panel as the only one; show frequencies()."
        )
    word = "excellently" if stability.index > _EXCELLENT else "in part"
    return text + f"They agree {word} (stability index {interval}; 1 is full agreement, 0 is chance)."
