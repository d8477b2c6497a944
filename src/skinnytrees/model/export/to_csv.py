"""The panel as a table that a laboratory can read: one row per column, most important first."""

import csv
import io
from collections.abc import Mapping, Sequence

from skinnytrees.model.export.evaluation import Columns
from skinnytrees.model.export.panel import check_units, directions, outcome_names, ranges, typical_row
from skinnytrees.model.export.portable import Level, PortableModel


def to_bytes(model: PortableModel, X: Columns | None = None, units: Mapping[str, str] | None = None) -> bytes:
    """The panel of a model as CSV in UTF-8.

    Parameters
    ----------
    model : PortableModel
        What to write.
    X : mapping or None
        Rows that typical values, ranges and directions are taken from, column by column; None takes what the model knows.
    units : mapping or None
        Unit of columns, by name.

    Returns
    -------
    bytes
    """
    known_units, typical = check_units(model, units), typical_row(model, X)
    head = ["column", "kind", "unit", "location", "scale", "typical", "low", "high", "importance", "categories"]
    rows = []
    for one, usual, direction in zip(model.inputs, ranges(model, X), directions(model, X), strict=True):
        location = [] if one.value is None else [one.value.mean, one.value.scale]
        limits = [] if usual is None else [usual.low, usual.high]
        row = [one.name, one.kind, known_units.get(one.name, ""), *_texts(location, 2)]
        row += [*_texts([typical[one.name]], 1), *_texts(limits, 2), *_texts([one.importance], 1)]
        rows.append((one.importance, [*row, "; ".join(_text(each) for each in one.categories), *direction]))
    rows.sort(key=lambda pair: -pair[0])
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([*head, *(f"direction of {name}" for name in outcome_names(model))])
    writer.writerows(row for _, row in rows)
    # With the mark at the beginning, without which spreadsheets take UTF-8 for something else.
    return text.getvalue().encode("utf-8-sig")


def _texts(values: Sequence[Level], n: int) -> list[str]:
    """Numbers as text, or empty cells where there are none."""
    return [_text(value) for value in values] or [""] * n


def _text(value: Level) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.6g}"
