"""The picture of a comparison: score against number of features, one line per system; at a single budget, one dot."""

from typing import TYPE_CHECKING, Any

import numpy as np

from skinnytrees.comparison.tasks import OURS
from skinnytrees.exceptions import refuse_unless
from skinnytrees.plots.style import clean, new_axes, palette, shorten

if TYPE_CHECKING:
    from skinnytrees.comparison.results import Comparison

_LABELS = {
    "score": "{} of the system's own model",
    "score_common": "{} of a common model on the columns",
    "log_loss": "log-loss",
    "seconds": "seconds per fit",
}
_MARKERS = "osD^vP*X<>"


class ComparisonDisplay:
    """Score against number of features, one line per system, with bands of one standard error over folds.

    With a single budget, the systems stand below each other, the best first, each with a dot and a bar of one standard error.

    Parameters
    ----------
    comparison : Comparison
        What :func:`skinnytrees.compare` gave.
    score : {"score", "score_common", "log_loss", "seconds"}
        What to draw.
    systems : list of str or None
        Which systems; None is all.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    def __init__(self, comparison: "Comparison", score: str = "score", systems: list[str] | None = None) -> None:
        refuse_unless(score in _LABELS, f"score={score!r} cannot be drawn. Use one of {list(_LABELS)}.")
        self.comparison, self.score = comparison, score
        self.systems = comparison.systems if systems is None else systems

    def plot(self, ax: Any = None) -> "ComparisonDisplay":
        """Draw on these axes, or on a new figure.

        Parameters
        ----------
        ax : matplotlib Axes or None

        Returns
        -------
        ComparisonDisplay
        """
        names = self._by_score()
        one_budget = len(self.comparison.budgets) == 1
        self.ax_ = ax = new_axes(ax, (7, 1.2 + 0.24 * len(names)) if one_budget else (9, 5.5))
        self.figure_ = ax.figure
        label = _LABELS[self.score].format(self.comparison.scoring)
        if one_budget:
            self._plot_dots(ax, names, label)
        else:
            self._plot_lines(ax, names, label)
        clean(ax)
        return self

    def _plot_dots(self, ax: Any, names: list[str], label: str) -> None:
        for place, system in enumerate(names):
            (mean,), (error,) = self._points(system)
            colour = palette(ax).accent if system == OURS else palette(ax).ink
            ax.errorbar(mean, place, xerr=error, fmt="o", color=colour, markersize=5, linewidth=1.2)
        ax.set_yticks(range(len(names)), labels=[shorten(name) for name in names])
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.grid(axis="y", color=palette(ax).pale, alpha=0.4, linewidth=0.6)
        ax.set_xlabel(label)
        ax.set_title(f"at most {self.comparison.budgets[0]} features", fontsize="medium")
        if self.score == "seconds":
            ax.set_xscale("log")

    def _plot_lines(self, ax: Any, names: list[str], label: str) -> None:
        styles = self._styles(ax)
        for place, system in enumerate(names):
            self._draw(ax, system, *styles[system], place / max(1, len(self.systems) - 1))
        budgets = self.comparison.budgets
        ax.set_xscale("log")
        ax.set_xticks(budgets, labels=[str(budget) for budget in budgets], minor=False)
        ax.minorticks_off()
        ax.set_xlabel("number of features allowed")
        ax.set_ylabel(label)
        if self.score == "seconds":
            ax.set_yscale("log")
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")

    def _by_score(self) -> list[str]:
        """Systems in the order of their means, the best first, so that the legend stands as the lines do."""
        mean = {
            name: np.nanmean(self._points(name)[0]) for name in self.systems if np.isfinite(self._points(name)[0]).any()
        }
        sign = 1 if self.score in ("log_loss", "seconds") else -1
        return sorted(mean, key=lambda name: sign * mean[name])

    def _points(self, system: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Mean and standard error at every budget; NaN where nothing finished."""
        means, errors = [], []
        for budget in self.comparison.budgets:
            values = self.comparison.scores(system, budget, self.score)
            known = values[np.isfinite(values)]
            means.append(known.mean() if len(known) else np.nan)
            errors.append(known.std(ddof=1) / np.sqrt(len(known)) if len(known) > 1 else 0.0)
        return np.array(means), np.array(errors)

    def _styles(self, ax: Any) -> dict[str, tuple[Any, str]]:
        """A colour and a marker per system; where colours come again, markers differ."""
        from matplotlib import colormaps

        others = [name for name in self.systems if name != OURS]
        wheel = colormaps["tab20"].colors  # type: ignore[attr-defined]
        styles = {
            name: (wheel[i % len(wheel)], _MARKERS[(i + i // len(wheel)) % len(_MARKERS)])
            for i, name in enumerate(others)
        }
        return {**styles, OURS: (palette(ax).accent, "o")}

    def _draw(self, ax: Any, system: str, colour: Any, marker: str, shift: float) -> None:
        x = np.array(self.comparison.budgets) * (
            1 + 0.06 * (shift - 0.5)
        )  # lines at one budget stand beside each other
        mean, error = self._points(system)
        ours = system == OURS
        ax.fill_between(x, mean - error, mean + error, color=colour, alpha=0.25 if ours else 0.1, linewidth=0)
        ax.plot(
            x, mean, marker=marker, color=colour, linewidth=2.4 if ours else 1.1, markersize=7 if ours else 5, label=system,
            zorder=3 if ours else 2,
        )  # fmt: skip
