"""Common parts of all plots: colours that are legible on light and dark axes, short names, axes."""

import re
from typing import Any, NamedTuple

from skinnytrees.exceptions import import_optional

INK, ACCENT, PALE = "#1b3a4b", "#d1495b", "#8fb8c9"


class Palette(NamedTuple):
    """Colours of lines and bars, of what stands out, and of what stands back."""

    ink: str
    accent: str
    pale: str


_ON_LIGHT = Palette(INK, ACCENT, PALE)
_ON_DARK = Palette("#a9d6e5", "#ff7b89", "#4d7c8f")


def new_axes(ax: Any = None, figsize: tuple[float, float] = (7, 4)) -> Any:
    """The given axes, or those of a new figure."""
    return import_pyplot().subplots(figsize=figsize, layout="constrained")[1] if ax is None else ax


def import_pyplot() -> Any:
    """matplotlib.pyplot, or an error that says how to get it."""
    return import_optional("matplotlib.pyplot", "A plot", "plots")


def palette(ax: Any) -> Palette:
    """Colours for these axes, by the brightness of what they are drawn on."""
    from matplotlib.colors import to_rgba

    red, green, blue, alpha = to_rgba(ax.get_facecolor())
    if alpha < 0.5:  # transparent axes show their figure
        red, green, blue, _ = to_rgba(ax.figure.get_facecolor())
    return _ON_DARK if 0.3 * red + 0.6 * green + 0.1 * blue < 0.5 else _ON_LIGHT


def shorten(name: Any, longest: int = 28) -> str:
    """A name that fits beside a plot: the middle of a long one is left out, since names often differ at the end.

    Examples
    --------
    >>> from skinnytrees.plots.style import shorten
    >>> shorten("mean_arterial_pressure_first_24h_icu", 20)
    'mean_arter…rst_24h_icu'
    """
    text = " ".join(str(name).split())
    if len(text) > longest + 2:
        half = longest // 2
        text = f"{text[:half]}…{text[-(longest - half) - 1 :]}"
    return re.sub(r"(?<!\\)\$", r"\\$", text)  # a dollar would begin a formula


def height_of(n_rows: int) -> float:
    """Inches for a picture with this many named rows; a few must leave room for what stands around them."""
    return 1.3 + 0.3 * max(n_rows, 3)


def whole_numbers(axis: Any) -> None:
    """Ticks at whole numbers only, also where there is just one."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def clean(ax: Any) -> None:
    """Take away the frame at the top and on the right."""
    ax.spines[["top", "right"]].set_visible(False)


def name_rows(ax: Any, names: list[Any], longest: int = 28) -> None:
    """Names along the vertical axis, the first one at the top."""
    ax.set_yticks(range(len(names)), labels=[shorten(name, longest) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)


def unit(output: str, is_classifier: bool) -> str:
    """What the explained numbers are called."""
    return "score" if output == "raw" and is_classifier else output if output != "raw" else "prediction"
