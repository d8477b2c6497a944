"""The picture of a comparison: score against number of features, one line per system."""

from typing import TYPE_CHECKING, Any

import numpy as np

from skinnytrees.comparison.tasks import OURS
from skinnytrees.exceptions import refuse_unless
from skinnytrees.plots.style import clean, new_axes, palette

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
        self.ax_ = ax = new_axes(ax, (9, 5.5))
        self.figure_ = ax.figure
        colours = self._colours(ax)
        for place, system in enumerate(self._by_score()):
            self._draw(
                ax, system, colours[system], _MARKERS[place % len(_MARKERS)], place / max(1, len(self.systems) - 1)
            )
        budgets = self.comparison.budgets
        ax.set_xscale("log")
        ax.set_xticks(budgets, labels=[str(budget) for budget in budgets], minor=False)
        ax.minorticks_off()
        ax.set_xlabel("number of features allowed")
        ax.set_ylabel(_LABELS[self.score].format(self.comparison.scoring))
        if self.score == "seconds":
            ax.set_yscale("log")
        clean(ax)
        ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
        return self

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

    def _colours(self, ax: Any) -> dict[str, Any]:
        from matplotlib import colormaps

        others = [name for name in self.systems if name != OURS]
        wheel = colormaps["tab20"](np.linspace(0, 1, max(len(others), 1)))
        return {**dict(zip(others, wheel, strict=False)), OURS: palette(ax).accent}

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
