"""The picture of effects: partial dependence on every selected column, with the rug of the data, and on the strongest pairs."""

import math
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skinnytrees.exceptions import refuse_unless
from skinnytrees.plots.style import clean, import_pyplot, palette, shorten, unit

_POINTS, _PAIR_POINTS = 40, 20
_MOST_CATEGORIES = 12
_RUG_ROWS = 200
# Of more classes or targets than this, those whose effects vary most are drawn.
_MOST_OUTPUTS = 6


class EffectsDisplay:
    """Partial dependence on features and pairs of features.

    Parameters
    ----------
    singles : list of tuples (Axis, array)
        Each feature's values and effects of shape (n_values, n_outputs).
    pairs : list of tuples (Axis, Axis, array, float)
        Two features, their joint effect of shape (n_values, n_values), and the strength of their interaction.
    columns : Columns
        Names.
    rows : array of shape (n_rows, n_selected)
        Whose values make the rug.
    output_names : list
        One per output.
    y_label : str
        What is drawn.

    Attributes
    ----------
    axes_ : array of matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from sklearn.datasets import load_diabetes
    >>> from skinnytrees import SkinnyTreesRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = SkinnyTreesRegressor(3, max_epochs=3, random_state=0).fit(X, y)
    >>> display = model.plot_effects(X, n_pairs=1)
    >>> len(display.axes_)  # three columns and one pair
    4
    """

    def __init__(
        self, singles: list[Any], pairs: list[Any], columns: Any, rows: Any, output_names: list[Any], y_label: str
    ) -> None:
        self.singles, self.pairs, self.columns, self.rows = singles, pairs, columns, rows
        self.output_names, self.y_label = output_names, y_label

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, background: Any = None, *, output: Any = None, what: str = "raw",
        max_features: int = 12, n_pairs: int = 2, axes: Any = None,
    ) -> "EffectsDisplay":  # fmt: skip
        """Compute effects of a fitted estimator, and draw them.

        Parameters
        ----------
        estimator : SkinnyTreesClassifier or SkinnyTreesRegressor
            Fitted.
        X : array or frame
            Rows whose values make the rug and span the axes.
        background : array or frame, int or None, default=None
            Rows over which effects are averaged, as in ``explain``.
        output : class or None, default=None
            Of several classes or targets, draw this one only; None draws all, and pairs for the first.
        what : {"raw", "probability", "prediction"}, default="raw"
            The score to draw, as ``output`` of ``explain``.
        max_features : int, default=12
            Features to draw, those of largest importance.
        n_pairs : int, default=2
            Pairs to draw, those whose effects add up least (see ``Explanation.interactions``).
        axes : array of matplotlib Axes or None
            Where to draw; None makes a new figure.

        Returns
        -------
        EffectsDisplay
        """
        from skinnytrees.explain.effects import effect_axis, partial_dependence
        from skinnytrees.explain.interactions import interaction_strengths
        from skinnytrees.explain.reading import make_game, output_names, selected_columns

        refuse_unless(
            estimator.n_features_selected_ > 0,
            "The model selected no feature, so there are no effects. Fit with a larger feature_budget or a weaker penalty.",
        )
        game = make_game(estimator, X, background, what, estimator.n_jobs)
        columns, names = selected_columns(estimator), output_names(estimator)
        if output is not None and len(names) > 1:
            known = [str(name) for name in names]
            refuse_unless(
                str(output) in known, f"output={output!r} is none of the model's outputs. Choose one of {known}."
            )
            c = known.index(str(output))
            game, names = game.only(c), [names[c]]
        importance = estimator.feature_importances_[estimator.model_.features]
        kept = np.sort(np.argsort(-importance, kind="stable")[:max_features])
        singles = []
        for f in kept.tolist():
            axis = effect_axis(game, columns, f, _POINTS)
            singles.append((axis, partial_dependence(game, [axis])))
        strongest = sorted(interaction_strengths(game, kept, 50), key=lambda pair: -pair.strength) if n_pairs else []
        pairs = []
        for pair in strongest[:n_pairs]:
            two = [effect_axis(game, columns, f, _PAIR_POINTS, with_missing=False) for f in (pair.first, pair.second)]
            pairs.append((*two, partial_dependence(game, two)[..., 0], pair.strength))
        label = f"mean {unit(what, is_classifier(estimator))}"
        return cls(singles, pairs, columns, game.rows, names, label).plot(axes)

    def plot(self, axes: Any = None) -> "EffectsDisplay":
        """Draw on these axes, one per feature and pair, or on a new figure's.

        Parameters
        ----------
        axes : array of matplotlib Axes or None
            At least as many as there are features and pairs.

        Returns
        -------
        EffectsDisplay
        """
        n = len(self.singles) + len(self.pairs)
        if axes is None:
            n_across = min(3, n)
            n_down = math.ceil(n / n_across)
            size = 3.4 * n_across, 2.8 * n_down
            figure = import_pyplot().figure(figsize=size, layout="constrained")
            axes = figure.subplots(n_down, n_across, squeeze=False)
        flat = np.ravel(axes)
        refuse_unless(len(flat) >= n, f"{len(flat)} axes were given, but there are {n} pictures. Give {n}, or None.")
        self.figure_ = flat[0].figure
        low = min(float(effect.min()) for _, effect in self.singles)
        high = max(float(effect.max()) for _, effect in self.singles)
        margin = 0.05 * (high - low) or 0.5
        for ax, (axis, effect) in zip(flat, self.singles, strict=False):
            self._draw_single(ax, axis, effect)
            ax.set_ylim(low - 2 * margin, high + margin)  # one scale, so that effects can be compared
        for ax, (first, second, effect, strength) in zip(flat[len(self.singles) : n], self.pairs, strict=True):
            self._draw_pair(ax, first, second, effect, strength)
        for ax in flat[n:]:
            ax.set_visible(False)
        if len(self.output_names) > 1:
            flat[0].legend(frameon=False, fontsize="small")
        self.axes_, self.ax_ = flat[:n], flat[0]
        return self

    def _draw_single(self, ax: Any, axis: Any, effect: Any) -> None:
        colours = palette(ax)
        several = effect.shape[1] > 1
        n_known = len(axis.known)
        x = np.arange(n_known) if axis.is_categorical else axis.known
        for i, c in enumerate(self._shown_outputs()):
            colour = f"C{i}" if several else colours.ink
            label = shorten(self.output_names[c], 16) if several else None
            style = "o" if axis.is_categorical or n_known == 1 else "-"
            ax.plot(x, effect[:n_known, c], style, color=colour, label=label)
            if axis.has_missing:
                ax.axhline(effect[-1, c], color=colour if several else colours.accent, linestyle=":", linewidth=1.2,
                           label=None if several else "missing")  # fmt: skip
        if axis.has_missing and not several:
            ax.legend(frameon=False, fontsize="small")
        if axis.is_categorical:
            self._name_categories(ax.set_xticks, axis, ax)
        else:
            step = max(1, len(self.rows) // _RUG_ROWS)
            rug = self.rows[::step, axis.feature]
            ax.plot(
                rug, np.full(len(rug), 0.02), "|", color=colours.pale, transform=ax.get_xaxis_transform(), markersize=6
            )
            if n_known > 1:
                pad = 0.03 * (x[-1] - x[0])
                ax.set_xlim(x[0] - pad, x[-1] + pad)
            ax.locator_params(axis="x", nbins=5)
        ax.set_xlabel(shorten(self.columns.names[axis.feature], 26))
        ax.set_ylabel(self.y_label)
        clean(ax)

    def _shown_outputs(self) -> list[int]:
        variation = sum(np.ptp(effect, axis=0) for _, effect in self.singles)
        return np.sort(np.argsort(-variation, kind="stable")[:_MOST_OUTPUTS]).tolist()

    def _draw_pair(self, ax: Any, first: Any, second: Any, effect: Any, strength: float) -> None:
        places = [np.arange(len(axis.values)) if axis.is_categorical else axis.values for axis in (first, second)]
        mesh = ax.pcolormesh(*places, effect.T, shading="nearest", cmap="viridis", rasterized=True)
        bar = ax.figure.colorbar(mesh, ax=ax, aspect=25, pad=0.02)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize="small")
        if first.is_categorical:
            self._name_categories(ax.set_xticks, first, ax)
        if second.is_categorical:
            self._name_categories(ax.set_yticks, second, ax)
        ax.set_xlabel(shorten(self.columns.names[first.feature], 26))
        ax.set_ylabel(shorten(self.columns.names[second.feature], 20))
        of = f" of {shorten(self.output_names[0], 12)}" if len(self.output_names) > 1 else ""
        ax.set_title(f"{self.y_label}{of}, interaction {strength:.2g}", fontsize="small")

    def _name_categories(self, set_ticks: Any, axis: Any, ax: Any) -> None:
        words = [shorten(self.columns.word(axis.feature, value), 14) for value in axis.known]
        step = max(1, math.ceil(len(words) / _MOST_CATEGORIES))
        set_ticks(range(0, len(words), step), labels=words[::step])
        if set_ticks == ax.set_xticks and sum(map(len, words[::step])) > 24:
            for label in ax.get_xticklabels():
                label.set(rotation=30, ha="right", rotation_mode="anchor")
