"""Pictures of an explanation: global bars, a swarm of all contributions, and how the score of one row adds up."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless
from skinnytrees.plots.style import clean, height_of, name_rows, new_axes, palette, shorten, unit

# More classes than this have no colours of their own: their parts of a bar are drawn as one.
_MOST_OUTPUTS = 10
# Steps into which the width of a swarm is cut to find how dense it is.
_BINS = 100


class ContributionBarDisplay:
    """Mean absolute contribution of each feature, the largest at the top.

    Parameters
    ----------
    explanation : Explanation
        What to draw.
    max_features : int
        Features with names of their own; what the others contribute is one bar.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, explanation: Any, max_features: int = 15) -> None:
        self.explanation, self.max_features = explanation, max_features

    @classmethod
    def from_explanation(cls, explanation: Any, *, max_features: int = 15, ax: Any = None) -> "ContributionBarDisplay":
        """Draw an explanation; with several outputs, each has a part of the bar, up to ten of them."""
        return cls(explanation, max_features).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, background: Any = None, *, max_features: int = 15, ax: Any = None, **options: Any
    ) -> "ContributionBarDisplay":
        """Explain the rows of X, and draw; ``options`` are those of ``estimator.explain``."""
        return cls.from_explanation(estimator.explain(X, background, **options), max_features=max_features, ax=ax)

    def plot(self, ax: Any = None) -> "ContributionBarDisplay":
        """Draw on these axes, or on a new figure's."""
        explanation = self.explanation
        values = explanation.values
        size = np.abs(values).mean(axis=0).reshape(values.shape[1], -1)
        order = np.argsort(-size.sum(axis=1), kind="stable")
        shown, rest = order[: self.max_features], order[self.max_features :]
        names = [explanation.feature_names[k] for k in shown]
        bars = size[shown]
        if len(rest):
            names.append(f"{len(rest)} other features")
            # Mean absolute value of the sum: what a row is moved by all of them together.
            together = np.abs(values[:, rest].sum(axis=1)).mean(axis=0).reshape(1, -1)
            bars = np.concatenate([bars, together])
        ax = new_axes(ax, (7, height_of(len(names))))
        self._draw(ax, bars)
        name_rows(ax, names)
        ax.set_xlabel(f"mean absolute contribution to the {unit(explanation.output, explanation.is_classifier)}")
        clean(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any, bars: NDArray[np.float64]) -> None:
        places, left = np.arange(len(bars)), np.zeros(len(bars))
        if bars.shape[1] > _MOST_OUTPUTS:
            bars = bars.sum(axis=1, keepdims=True)
        several = bars.shape[1] > 1
        for c in range(bars.shape[1]):
            label = shorten(self.explanation.output_names[c], 20) if several else None
            colour = f"C{c}" if several else palette(ax).ink
            ax.barh(places, bars[:, c], left=left, height=0.7, color=colour, label=label)
            left = left + bars[:, c]
        if several:
            ax.legend(frameon=False, loc="lower right", title="class" if self.explanation.is_classifier else "target")


class BeeswarmDisplay:
    """Every contribution as a point, one line per feature, coloured by the feature's value.

    Parameters
    ----------
    explanation : Explanation
        Of one output.
    max_features : int
        Features that are drawn, those of the largest mean absolute contribution.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, explanation: Any, max_features: int = 15) -> None:
        self.explanation, self.max_features = explanation, max_features

    @classmethod
    def from_explanation(
        cls, explanation: Any, *, output: Any = None, max_features: int = 15, ax: Any = None
    ) -> "BeeswarmDisplay":
        """Draw an explanation; of several outputs, ``output`` names one."""
        return cls(explanation.of(output), max_features).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, background: Any = None, *, target: Any = None, max_features: int = 15, ax: Any = None,
        **options: Any,
    ) -> "BeeswarmDisplay":  # fmt: skip
        """Explain the rows of X, and draw; ``target`` names one of several outputs, ``options`` are those of ``explain``."""
        explanation = estimator.explain(X, background, **options)
        return cls.from_explanation(explanation, output=target, max_features=max_features, ax=ax)

    def plot(self, ax: Any = None) -> "BeeswarmDisplay":
        """Draw on these axes, or on a new figure's."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LinearSegmentedColormap, Normalize

        explanation = self.explanation
        order = np.argsort(-explanation.importance(), kind="stable")[: self.max_features]
        ax = new_axes(ax, (7, 1.2 * height_of(len(order))))
        colours = palette(ax)
        # Both ends are legible on light and dark.
        colour_map = LinearSegmentedColormap.from_list("values", ["#2f9bd6", "#b48ead", "#f0485e"])
        span = float(np.ptp(explanation.values)) if explanation.values.size else 0.0
        ax.axvline(0, color=colours.pale, linewidth=0.8, zorder=0)
        for place, k in enumerate(order):
            x, value = explanation.values[:, k], explanation.data[:, k]
            shade = _ranks(value)
            y = place + _swarm(x, span)
            is_known = ~np.isnan(shade)
            ax.scatter(x[~is_known], y[~is_known], s=9, color=colours.pale, linewidths=0)
            ax.scatter(x[is_known], y[is_known], s=9, c=shade[is_known], cmap=colour_map, vmin=0, vmax=1, linewidths=0)
        name_rows(ax, [explanation.feature_names[k] for k in order])
        ax.set_xlabel(_contribution_label(explanation))
        clean(ax)
        bar = ax.figure.colorbar(ScalarMappable(Normalize(0, 1), colour_map), ax=ax, aspect=30, pad=0.02)
        bar.set_ticks([0, 1], labels=["low", "high"])
        bar.set_label("value of the feature", labelpad=-8)
        bar.outline.set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class WaterfallDisplay:
    """How the score of one row adds up, from the mean of the background rows to the row's own.

    Parameters
    ----------
    explanation : Explanation
        Of one output.
    row : int
        Which of its rows.
    max_features : int
        Features with bars of their own; the others are one bar.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, explanation: Any, row: int = 0, max_features: int = 12) -> None:
        self.explanation, self.row, self.max_features = explanation, row, max_features

    @classmethod
    def from_explanation(
        cls, explanation: Any, *, row: int = 0, output: Any = None, max_features: int = 12, ax: Any = None
    ) -> "WaterfallDisplay":
        """Draw one row of an explanation; of several outputs, ``output`` names one, else the row's largest is drawn."""
        refuse_unless(
            -len(explanation.values) <= row < len(explanation.values),
            f"row={row} was asked for, but {len(explanation.values)} rows were explained. Use a number from 0 to "
            f"{len(explanation.values) - 1}.",
        )
        if output is None and explanation.values.ndim == 3:
            output = explanation.output_names[int(explanation.scores[row].argmax())]
        return cls(explanation.of(output), row, max_features).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, background: Any, *, row: int = 0, target: Any = None, max_features: int = 12,
        ax: Any = None, **options: Any,
    ) -> "WaterfallDisplay":  # fmt: skip
        """Explain the rows of X, and draw one; ``target`` names one of several outputs, ``options`` are those of ``explain``."""
        explanation = estimator.explain(X, background, **options)
        return cls.from_explanation(explanation, row=row, output=target, max_features=max_features, ax=ax)

    def plot(self, ax: Any = None) -> "WaterfallDisplay":
        """Draw on these axes, or on a new figure's."""
        explanation = self.explanation
        values, data = explanation.values[self.row], explanation.data[self.row]
        order = np.argsort(-np.abs(values), kind="stable")
        shown, rest = order[: self.max_features], order[self.max_features :]
        steps = values[shown].tolist()
        names = [
            f"{shorten(explanation.feature_names[k])} = {shorten(explanation.columns.word(k, data[k]), 14)}"
            for k in shown.tolist()
        ]
        if len(rest):
            steps.append(float(values[rest].sum()))
            names.append(f"{len(rest)} other features")
        base, score = float(explanation.base_values), float(explanation.scores[self.row])
        ax = new_axes(ax, (7, height_of(len(names))))
        self._draw(ax, np.array(steps), base)
        name_rows(ax, names, longest=60)
        ax.set_ylim(max(1, len(names)) - 0.2, -0.8)
        ax.set_xlabel(_score_label(explanation))
        ax.set_title(f"{_number(score)} = {_number(base)} (background) + contributions", loc="left", fontsize="medium")
        clean(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax: Any, steps: NDArray[np.float64], base: float) -> None:
        colours = palette(ax)
        up, down = colours.accent, "#2f9bd6"
        ends = base + np.cumsum(steps)
        starts = ends - steps
        span = float(np.ptp([base, *ends])) or 1.0
        ax.axvline(base, color=colours.pale, linewidth=0.8, zorder=0)
        for place, (start, end, step) in enumerate(zip(starts, ends, steps, strict=True)):
            ax.barh(place, step, left=start, height=0.65, color=up if step > 0 else down)
            if place + 1 < len(steps):
                ax.plot([end, end], [place - 0.3, place + 1.3], color=colours.pale, linewidth=0.8, zorder=0)
            ax.text(
                max(start, end) + 0.01 * span, place, f"{step:+.3g}", va="center", ha="left", fontsize="small",
            )  # fmt: skip
        low, high = min([base, *ends]), max([base, *ends])
        ax.set_xlim(low - 0.05 * span, high + 0.15 * span)


def _contribution_label(explanation: Any) -> str:
    return f"contribution to the {_score_label(explanation)}"


def _score_label(explanation: Any) -> str:
    what = unit(explanation.output, explanation.is_classifier)
    return f"{what} of class {shorten(explanation.output_names[0], 24)}" if explanation.is_classifier else what


def _number(value: float) -> str:
    return f"{value:.3g}"


def _ranks(value: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 0 to 1, the same for equal values, so that outliers do not take all the colours; NaN where missing."""
    known = ~np.isnan(value)
    ranks = np.full(len(value), np.nan)
    distinct, code = np.unique(value[known], return_inverse=True)
    if len(distinct) > 1:
        counts = np.bincount(code)
        ranks[known] = (
            (np.cumsum(counts) - counts / 2 - counts[0] / 2) / (len(code) - counts[0] / 2 - counts[-1] / 2)
        )[code]
    elif len(distinct):
        ranks[known] = 0.5
    return ranks


def _swarm(x: NDArray[np.float64], span: float) -> NDArray[np.float64]:
    """Vertical offsets that keep points of similar x apart: the denser they stand, the wider they spread."""
    bins = (
        np.zeros(len(x), dtype=int) if span == 0 else np.floor(_BINS * (x - x.min(initial=np.inf)) / span).astype(int)
    )
    offset = np.zeros(len(x))
    counts = np.bincount(bins) if len(bins) else np.zeros(1, dtype=int)
    most = max(int(counts.max()), 12)
    for b in np.flatnonzero(counts):
        inside = np.flatnonzero(bins == b)
        # 0, 1, -1, 2, -2, ...: the first points stay on the line.
        turn = np.arange(1, len(inside) + 1) // 2 * np.where(np.arange(len(inside)) % 2, 1, -1)
        offset[inside] = 0.8 * turn / most
    return offset
