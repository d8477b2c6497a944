"""Tables and picture of docs/compared.md from the figures of ``compare_real.py`` and ``table2.py``.

``python -m benchmarks.compared_report`` writes them into the page, between the comments that mark their places.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import table2
from skinnytrees.plots.style import ACCENT, INK, PALE

OURS = "skinnytrees"
ROOT = Path(__file__).parent.parent
FIGURES = ROOT / "docs" / "results" / "compared.csv"
PAGE, PICTURE = ROOT / "docs" / "compared.md", ROOT / "docs" / "compared.png"
# A panel reaches down to the lowest score that is at most this many times as far from the best as the median is.
REACH = 2.5


def read_figures(file: Path = FIGURES) -> pd.DataFrame:
    """One row per table and system; ``error`` is empty where there is a score."""
    return pd.read_csv(file, keep_default_na=True).fillna({"error": ""})


def ordered(figures: pd.DataFrame, table: str) -> pd.DataFrame:
    """The systems of one table, the best first, then those without a score by name."""
    rows = figures[figures["table"] == table]
    return rows.sort_values(["score", "system"], ascending=[False, True], na_position="last")


def markdown(rows: pd.DataFrame) -> str:
    """The table of one data set."""
    has_loss = rows["log_loss"].notna().any()
    names = ["system", "score", "common model", *(["log-loss"] if has_loss else []), "seconds", "columns"]
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for row in rows.to_dict("records"):
        name = f"**{row['system']}**" if row["system"] == OURS else row["system"]
        if row["error"]:
            cells = [row["error"], *[""] * (len(names) - 2)]
        else:
            loss = [_number(row["log_loss"], 3)] if has_loss else []
            scores = [_number(row["score"], 4), _number(row["score_common"], 4)]
            cells = [*scores, *loss, _number(row["seconds"], 1), f"{row['n_features']:.0f}"]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    return "\n".join(lines)


def _number(value: float, digits: int) -> str:
    return "" if np.isnan(value) else "below 0" if value < 0 else f"{value:.{digits}f}"


def over_tables(figures: pd.DataFrame, tables: Sequence[str]) -> pd.DataFrame:
    """Per system, where it has a score: gap to the best system in points, place, seconds as a multiple of ours."""
    known = figures[figures["table"].isin(tables)].copy()
    best = known.groupby("table")["score"].transform("max")
    best_common = known.groupby("table")["score_common"].transform("max")
    ours = known["table"].map(known[known["system"] == OURS].set_index("table")["seconds"])
    known["gap"] = 100 * (best - known["score"].clip(lower=0))
    known["gap_common"] = 100 * (best_common - known["score_common"].clip(lower=0))
    known["place"] = known.groupby("table")["score"].rank(ascending=False)
    known["times_ours"] = (known["seconds"] / ours).where(known["score"].notna())
    return known.groupby("system").agg(
        tables=("score", "size"),
        finished=("score", "count"),
        gap=("gap", "mean"),
        largest_gap=("gap", "max"),
        gap_common=("gap_common", "mean"),
        place=("place", "mean"),
        times_ours=("times_ours", "median"),
    )


def markdown_over_tables(summary: pd.DataFrame) -> str:
    """The smallest mean gap first; systems that finished on less than half of their tables, whose means say little, last."""
    lines = [
        "| system | tables finished | mean gap | largest gap | mean gap, common model | mean place | seconds, times ours |",
        "|---" * 7 + "|",
    ]
    few = summary["finished"] < summary["tables"] / 2
    for name, row in summary.assign(few=few).sort_values(["few", "gap"]).iterrows():
        shown = f"**{name}**" if name == OURS else name
        figures = (
            f"{row.gap:.1f} | {row.largest_gap:.1f} | {row.gap_common:.1f} | {row.place:.1f} | {row.times_ours:.2g}"
        )
        finished = f"{row.finished:.0f} of {row.tables:.0f}"
        lines.append(f"| {shown} | {finished} | {figures if row.finished else ' | ' * 4} |")
    return "\n".join(lines)


def save_picture(figures: pd.DataFrame, file: Path = PICTURE) -> None:
    """One panel per table, one line per system."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    tables = list(dict.fromkeys(figures["table"]))
    n_rows = -(-len(tables) // 4)
    figure = Figure(figsize=(17, 6.4 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, 4, squeeze=False).ravel()
    for ax, table in zip(panels, tables, strict=False):
        _draw_table(ax, table, ordered(figures, table))
    for ax in panels[len(tables) :]:
        ax.axis("off")
    marks = [
        Line2D([], [], marker="o", linestyle="", color=INK, markerfacecolor=fill, label=label)
        for fill, label in ((INK, "the system's own model"), ("white", "a forest on its columns"))
    ]
    figure.legend(handles=marks, frameon=False, loc="outside upper center", ncols=2)
    figure.savefig(file, dpi=75)


def _draw_table(ax: Any, table: str, rows: pd.DataFrame) -> None:
    score, common, place = rows["score"].to_numpy(), rows["score_common"].to_numpy(), np.arange(len(rows))
    best = np.nanmax([score, common])
    lowest = best - REACH * (best - np.nanmedian(score))
    colours = [ACCENT if name == OURS else INK for name in rows["system"]]
    ax.hlines(place, lowest, np.maximum(score, lowest), color=PALE, linewidth=0.8)
    ax.scatter(common, place, facecolor="white", edgecolor=colours, s=34, zorder=2)
    ax.scatter(score, place, color=colours, s=34, zorder=3)
    ends = [_number(value, 3) or why for value, why in zip(score, map(_why, rows["error"]), strict=True)]
    ax.set_yticks(place, [f"{name}  {end}" for name, end in zip(rows["system"], ends, strict=True)], fontsize=9)
    for label, name in zip(ax.get_yticklabels(), rows["system"], strict=True):
        label.set_color(ACCENT if name == OURS else "black")
    ax.set_xlim(lowest, best + 0.04 * (best - lowest))
    ax.set_ylim(len(rows) - 0.5, -0.7)
    ax.set_title(f"{table}, at most {rows['budget'].iloc[0]} columns", fontsize=11, loc="right")
    ax.locator_params(axis="x", nbins=4)
    ax.set_xlabel("R squared" if table.startswith("reg-") else "AUC", fontsize=9)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _why(error: str) -> str:
    return next((why for why in ("stopped", "not run") if error.startswith(why)), "failed")


def put_into_page(text: str, place: str, written: str) -> str:
    """The text with this between the comments ``begin PLACE`` and ``end PLACE``."""
    begin, end = f"<!-- begin {place} -->\n", f"<!-- end {place} -->"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(
            f"The page has no comments 'begin {place}' and 'end {place}'. Add them where the table belongs."
        )
    return f"{before}{begin}{written}\n{end}{after}"


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    figures = read_figures()
    tables = list(dict.fromkeys(figures["table"]))
    each = [f"### {table}\n\n{markdown(ordered(figures, table))}\n" for table in tables]
    page = PAGE.read_text()
    page = put_into_page(page, "means", markdown_over_tables(over_tables(figures, tables)))
    page = put_into_page(page, "tables", "\n".join(each))
    page = put_into_page(page, "table 2", table2.report())
    PAGE.write_text(page)
    save_picture(figures)


if __name__ == "__main__":
    main()
