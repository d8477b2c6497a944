"""Results of a comparison: one row per fit, intervals, paired differences to ours, and a summary as text."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.comparison.tasks import OURS
from skinnytrees.estimators.selection_statistics import stability_index
from skinnytrees.evaluation.results import mean_interval
from skinnytrees.evaluation.scoring import score_range
from skinnytrees.exceptions import import_optional

COLUMNS = (
    "system", "budget", "fold", "n_features", "score", "score_common", "log_loss", "seconds", "peak_memory", "stability", "error",
)  # fmt: skip


class Comparison:
    """The result of :func:`skinnytrees.compare`.

    Attributes
    ----------
    rows : list of dict
        One per system, budget and fold.
    systems : list of str
        Names of the systems.
    budgets : list of int
        Numbers of features that were allowed.
    scoring : str
        Name of the score.

    Notes
    -----
    Intervals of means over folds use the correction of Nadeau and Bengio (2003), since folds share training rows; an interval of
    a score is clipped to the range of the score, such as [0, 1] for AUC. With a single fold there is no interval.
    """

    def __init__(self, rows: list[dict[str, Any]], n_features: int, scoring: str, test_ratio: float) -> None:
        self.rows, self.n_features, self.scoring, self.test_ratio = rows, n_features, scoring, test_ratio
        self.systems: list[str] = list(dict.fromkeys(row["system"] for row in rows))
        self.budgets: list[int] = sorted({row["budget"] for row in rows})

    @cached_property
    def _stability(self) -> dict[tuple[str, int], float]:
        """For each system and budget, how much the panels of its folds agree beyond chance."""
        return {(name, k): self._stability_of(name, k) for name in self.systems for k in self.budgets}

    def _stability_of(self, system: str, budget: int) -> float:
        supports = [row["support"] for row in self._of(system, budget) if row.get("support") is not None]
        selected = np.zeros((len(supports), self.n_features), dtype=bool)
        for support, row in zip(supports, selected, strict=True):
            row[support] = True
        return stability_index(selected) if len(supports) > 1 else np.nan

    def _of(self, system: str, budget: int) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["system"] == system and row["budget"] == budget]

    def scores(self, system: str, budget: int, column: str = "score") -> NDArray[np.float64]:
        """A column of the folds of one system and budget, NaN where a fit gave none."""
        values = [row.get(column) for row in self._of(system, budget)]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def to_frame(self) -> Any:
        """One row per system, budget and fold.

        Returns
        -------
        pandas.DataFrame
            With the columns system, budget, fold, n_features, score (of the system's own model), score_common (of the common
            model on its columns), log_loss, seconds, peak_memory (bytes), stability (of the panels of all folds of this
            system and budget) and error (empty where all went well).
        """
        rows = [
            {**{name: row.get(name) for name in COLUMNS}, "stability": self._stability[row["system"], row["budget"]]}
            for row in self.rows
        ]
        return import_optional("pandas", "to_frame()", "frames").DataFrame(rows, columns=list(COLUMNS))

    def summary(self) -> Any:
        """One row per system and budget: means with intervals, and differences to ours on the same folds.

        Returns
        -------
        pandas.DataFrame
            The best systems of each budget first. ``difference`` is the system's score minus ours, so a positive one is in favour
            of the system.
        """
        rows = [self._summarised(name, k) for k in self.budgets for name in self.systems]
        frame = import_optional("pandas", "summary()", "frames").DataFrame(rows)
        return frame.sort_values(["budget", "score"], ascending=[True, False], ignore_index=True)

    def _summarised(self, system: str, budget: int) -> dict[str, Any]:
        score, of_folds = self.scores(system, budget), self._of(system, budget)
        mean, low, high = mean_interval(score, self.test_ratio, limits=score_range(self.scoring))
        difference = (
            mean_interval(score - self.scores(OURS, budget), self.test_ratio) if OURS in self.systems else (np.nan,) * 3
        )
        errors = [row["error"] for row in of_folds if row["error"]]
        return {
            "system": system,
            "budget": budget,
            "score": mean,
            "low": low,
            "high": high,
            "difference": difference[0],
            "difference_low": difference[1],
            "difference_high": difference[2],
            "score_common": _mean(self.scores(system, budget, "score_common")),
            "log_loss": _mean(self.scores(system, budget, "log_loss")),
            "n_features": _mean(self.scores(system, budget, "n_features")),
            "stability": self._stability[system, budget],
            "seconds": _mean(self.scores(system, budget, "seconds")),
            "peak_memory": _mean(self.scores(system, budget, "peak_memory")),
            "failed": len(errors),
            "error": errors[0] if errors else "",
        }

    def in_words(self) -> str:
        """One sentence per budget: which system is best, which differences exceed the noise, which systems did not finish."""
        return "\n".join(
            _in_words(budget, self.scoring, [self._summarised(name, budget) for name in self.systems])
            for budget in self.budgets
        )

    def __repr__(self) -> str:
        n_failed = sum(bool(row["error"]) for row in self.rows)
        return (
            f"<Comparison of {len(self.systems)} systems at budgets {self.budgets}: {len(self.rows)} fits, {n_failed} failed, "
            f"score {self.scoring}>"
        )

    def plot(self, ax: Any = None, *, score: str = "score", systems: list[str] | None = None) -> Any:
        """Draw the score against the number of features, one line per system, with bands of one standard error.

        With a single budget, the systems stand below each other, the best first.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a new figure.
        score : {"score", "score_common", "log_loss", "seconds"}, default="score"
            What to draw.
        systems : list of str or None
            Which systems; None is all.

        Returns
        -------
        ComparisonDisplay
        """
        from skinnytrees.comparison.display import ComparisonDisplay

        return ComparisonDisplay(self, score, systems).plot(ax)


def _in_words(budget: int, scoring: str, rows: list[dict[str, Any]]) -> str:
    finished = sorted((row for row in rows if np.isfinite(row["score"])), key=lambda row: -row["score"])
    if not finished:
        return f"With {budget} features, no system finished."
    best, what = finished[0], f"With {budget} feature{'s' if budget > 1 else ''}"
    text = f"{what}, {best['system']} has the best {scoring} ({best['score']:.3f}"
    text += f"; {len(finished)} systems finished)." if len(finished) > 1 else ")."
    ours = next((row for row in finished if row["system"] == OURS), None)
    if ours is not None and ours is not best:
        text += f" {OURS} has {ours['score']:.3f} and is number {1 + finished.index(ours)}."
    others = [row for row in finished if row["system"] != OURS]
    judged = [row for row in others if np.isfinite(row["difference_low"])]
    if ours is not None and judged:
        clear = [row["system"] for row in judged if row["difference_low"] > 0]
        worse = [row["system"] for row in judged if row["difference_high"] < 0]
        text += (
            f" Clearly better than {OURS}: {', '.join(clear) or 'none'}; clearly worse: {', '.join(worse) or 'none'}"
        )
        is_open = len(clear) + len(worse) < len(judged)
        text += "; for the others the difference is within noise." if is_open else "."
        if unknown := [row["system"] for row in others if row not in judged]:
            text += f" With fewer than two folds in common with {OURS}, and therefore not judged: {', '.join(unknown)}."
    failed = [row["system"] for row in rows if row["failed"]]
    return text + (f" Some fits did not finish: {', '.join(failed)}." if failed else "")


def _mean(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan
