"""The picture of an evaluation: scores, calibration, selection frequencies, sizes of panels."""

from typing import TYPE_CHECKING, Any

import numpy as np

from skinnytrees.plots.style import clean, import_pyplot, name_rows, palette, whole_numbers

if TYPE_CHECKING:
    from skinnytrees.evaluation.results import Evaluation

# As many names as can be read beside a picture.
_MOST_NAMES = 20


class EvaluationDisplay:
    """Scores of all folds, calibration of held-out predictions, how often columns were selected, and how many were.

    Parameters
    ----------
    evaluation : Evaluation
        What :func:`skinnytrees.evaluate` gave.

    Attributes
    ----------
    figure_ : matplotlib Figure
    axes_ : dict of matplotlib Axes
        ``"scores"``, ``"calibration"`` and, where the model selects, ``"frequencies"`` and ``"sizes"``.
    """

    def __init__(self, evaluation: "Evaluation") -> None:
        self.evaluation = evaluation

    def plot(self) -> "EvaluationDisplay":
        """Draw on a new figure.

        Returns
        -------
        EvaluationDisplay
        """
        selects = self.evaluation.stability is not None
        mosaic = [["scores", "frequencies"], ["calibration", "sizes"]] if selects else [["scores", "calibration"]]
        size = (11, 7.5) if selects else (11, 4)
        self.figure_, self.axes_ = import_pyplot().subplot_mosaic(mosaic, figsize=size, layout="constrained")
        for name, ax in self.axes_.items():
            getattr(self, f"_draw_{name}")(ax)
            clean(ax)
        return self

    def _draw_scores(self, ax: Any) -> None:
        colours, scores = palette(ax), self.evaluation.scores
        rng = np.random.default_rng(0)  # points of one score are spread, so that equal ones are seen
        for place, score in enumerate(scores.values()):
            spread = place + rng.uniform(-0.12, 0.12, len(score.by_fold))
            ax.plot(score.by_fold, spread, "o", color=colours.pale, markersize=4)
            ax.plot([score.low, score.high], [place, place], color=colours.ink, linewidth=2)
            ax.plot(score.mean, place, "D", color=colours.accent, markersize=7)
        name_rows(ax, list(scores))
        ax.set_ylim(len(scores) - 0.5, -0.5)
        ax.set_xlabel("score (dots: folds; line: interval of the mean)")
        ax.set_title("Scores on held-out rows", loc="left")

    def _draw_calibration(self, ax: Any) -> None:
        colours = palette(ax)
        predicted, observed, _ = self.evaluation.calibration()
        ends = [min(predicted.min(), observed.min()), max(predicted.max(), observed.max())]
        ends = [0.0, 1.0] if self.evaluation.classes is not None else ends
        ax.plot(ends, ends, color=colours.pale, linewidth=1, label="perfect")
        ax.plot(predicted, observed, "o-", color=colours.ink, markersize=5)
        classes = self.evaluation.classes
        what = "value" if classes is None else f"probability of {classes[1]!s}" if len(classes) == 2 else "confidence"
        ax.set_xlabel(f"predicted {what}")
        ax.set_ylabel("observed" if classes is None else "observed fraction")
        ax.set_title("Calibration", loc="left")
        ax.legend(frameon=False, loc="upper left")

    def _draw_frequencies(self, ax: Any) -> None:
        frequency = self.evaluation.selected.mean(axis=0)
        top = np.argsort(-frequency, kind="stable")[:_MOST_NAMES]
        top = top[frequency[top] > 0]
        ax.barh(range(len(top)), frequency[top], color=palette(ax).ink, height=0.7)
        name_rows(ax, [self.evaluation.names[k] for k in top])
        ax.set_ylim(max(len(top), 1) - 0.4, -0.6)
        ax.set_xlim(0, 1.02)
        left_out = int((frequency > 0).sum()) - len(top)
        more = f", and {left_out} others less often" if left_out else ""
        ax.set_xlabel(f"fraction of folds that select the column{more}")
        ax.set_title("Selected columns", loc="left")

    def _draw_sizes(self, ax: Any) -> None:
        sizes = self.evaluation.selected.sum(axis=1)
        values, counts = np.unique(sizes, return_counts=True)
        ax.bar(values, counts, color=palette(ax).ink, width=0.8 if np.ptp(sizes) < 60 else np.ptp(sizes) / 60)
        ax.set_xlim(values.min() - 3, values.max() + 3)  # a single size is a bar, not a wall
        whole_numbers(ax.xaxis)
        whole_numbers(ax.yaxis)
        ax.set_xlabel("number of columns in the panel")
        ax.set_ylabel("folds")
        stability = self.evaluation.stability
        if stability is not None and not np.isnan(stability.index):
            ax.set_title(f"Sizes of panels; stability index {stability.index:.2f}", loc="left")
        else:
            ax.set_title("Sizes of panels", loc="left")
