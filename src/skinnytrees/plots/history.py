"""The picture of a training under a penalty: loss and number of features against epochs (paper, Figure 2)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless
from skinnytrees.plots.style import clean, import_pyplot, palette, whole_numbers


class HistoryDisplay:
    """Loss and number of features against epochs.

    Parameters
    ----------
    loss, val_loss, n_features : arrays of shape (n_epochs,)
        What every epoch left; ``val_loss`` is NaN where no rows were held out.

    Attributes
    ----------
    axes_ : array of two matplotlib Axes
        Of the loss and of the number of features.
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import matplotlib; matplotlib.use("Agg")
    >>> from sklearn.datasets import load_wine
    >>> from skinnytrees import SkinnyTreesClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SkinnyTreesClassifier(penalty=None, max_epochs=2, random_state=0).fit(X, y)
    >>> model.plot_history().axes_[1].get_ylabel()
    'number of features'
    """

    def __init__(self, loss: NDArray[Any], val_loss: NDArray[Any], n_features: NDArray[Any]) -> None:
        self.loss, self.val_loss, self.n_features = loss, val_loss, n_features

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> "HistoryDisplay":
        """Draw the history of an estimator that was fitted with a penalty object.

        Parameters
        ----------
        estimator : SkinnyTreesClassifier or SkinnyTreesRegressor
            Fitted with ``penalty=GroupL0(...)``, ``GroupLasso(...)`` or None.
        ax : matplotlib Axes or None
            What the two pictures take the place of; None makes a new figure.

        Returns
        -------
        HistoryDisplay
        """
        refuse_unless(
            not isinstance(estimator.penalty, str),
            f"plot_history() draws epochs, but penalty={estimator.penalty!r} goes through sizes. Use model.path_.plot(), or fit "
            "with a penalty such as GroupL0(0.01).",
        )
        history = estimator.history_
        return cls(history["loss"], history["val_loss"], history["n_features"]).plot(ax)

    def plot(self, ax: Any = None) -> "HistoryDisplay":
        """Draw in the place of these axes, or on a new figure.

        Parameters
        ----------
        ax : matplotlib Axes or None
            They are divided into two.

        Returns
        -------
        HistoryDisplay
        """
        if ax is None:
            figure, axes = import_pyplot().subplots(2, 1, sharex=True, figsize=(7, 5), layout="constrained")
        else:
            figure = ax.figure
            places = ax.get_subplotspec().subgridspec(2, 1)
            ax.set_axis_off()
            upper = figure.add_subplot(places[0])
            axes = np.array([upper, figure.add_subplot(places[1], sharex=upper)])
        colours = palette(axes[0])
        epoch = np.arange(1, len(self.loss) + 1)
        marker = "o" if len(epoch) == 1 else ""
        axes[0].plot(epoch, self.loss, marker=marker, color=colours.ink, label="training")
        if not np.isnan(self.val_loss).all():
            axes[0].plot(epoch, self.val_loss, marker=marker, color=colours.accent, label="validation")
            axes[0].legend(frameon=False)
        axes[0].set_ylabel("loss")
        axes[0].tick_params(labelbottom=False)
        axes[1].plot(epoch, self.n_features, marker=marker, color=colours.ink)
        axes[1].set_ylim(0, max(1.0, 1.08 * self.n_features.max()))
        axes[1].annotate(
            f"{self.n_features[-1]}", (epoch[-1], self.n_features[-1]), xytext=(5, 0), textcoords="offset points",
            va="center", color=colours.accent,
        )  # fmt: skip
        axes[1].set_ylabel("number of features")
        axes[1].set_xlabel("epoch")
        whole_numbers(axes[1].xaxis)
        whole_numbers(axes[1].yaxis)
        for one in axes:
            clean(one)
        self.axes_, self.ax_, self.figure_ = axes, axes[0], figure
        return self
