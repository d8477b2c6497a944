"""Pictures; matplotlib is imported only here."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skinnytrees.model.feature_path import FeaturePath

INK, ACCENT, PALE = "#1b3a4b", "#d1495b", "#8fb8c9"


def new_axes(ax: Any = None) -> Any:
    """The given axes, or those of a new figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'skinnytrees[plots]'.") from error
    return plt.subplots(figsize=(7, 4), layout="constrained")[1] if ax is None else ax


def plot_path(path: "FeaturePath", ax: Any = None) -> Any:
    """Validation score (training loss, where nothing was held out) against number of features, on a log axis."""
    ax = new_axes(ax)
    x = path.n_features
    held_out = not bool((path.val_score != path.val_score).all())
    y = path.val_score if held_out else path.train_loss
    if held_out:
        low, high = y - path.val_score_se, y + path.val_score_se
        ax.fill_between(x, low, high, color=PALE, alpha=0.4, linewidth=0, label="± 1 standard error")
    ax.plot(x, y, "o-", color=INK, markersize=3.5, linewidth=1.2)
    chosen_index = path.chosen
    ax.plot(
        x[chosen_index], y[chosen_index], "o", color=ACCENT, markersize=9, label=f"chosen: {x[chosen_index]} features"
    )
    ax.set_xscale("log")
    ax.set_xlabel("number of features")
    ax.set_ylabel("validation score (fraction of loss explained)" if held_out else "training loss")
    ax.xaxis.set_major_formatter("{x:.0f}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="best")
    return ax
