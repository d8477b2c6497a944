"""A page that computes predictions and contributions for values that are typed in; nothing is loaded from elsewhere."""

import html
from collections.abc import Mapping
from importlib import resources
from typing import Any

from skinnytrees.model.export.evaluation import Columns
from skinnytrees.model.export.limits import refuse_large
from skinnytrees.model.export.panel import Range, check_units, ranges, typical_row
from skinnytrees.model.export.portable import Input, Level, PortableModel
from skinnytrees.model.export.to_javascript import script, script_json


def to_bytes(
    model: PortableModel,
    title: str = "Prediction calculator",
    target: str = "prediction",
    target_unit: str = "",
    units: Mapping[str, str] | None = None,
    X: Columns | None = None,
) -> bytes:
    """The page of a model.

    Parameters
    ----------
    model : PortableModel
        What to write.
    title : str, default="Prediction calculator"
        Heading of the page.
    target : str, default="prediction"
        What is predicted.
    target_unit : str, default=""
        Unit of a predicted number.
    units : mapping or None
        Unit of columns, by name.
    X : mapping or None
        Rows that typical values and ranges are taken from, column by column; None takes what the model knows.

    Returns
    -------
    bytes
    """
    refuse_large(model, "a page")
    template = resources.files("skinnytrees.model.export").joinpath("templates/calculator.html").read_text("utf-8")
    known_units, typical = check_units(model, units), typical_row(model, X)
    fields = [
        _describe(one, usual, typical[one.name], known_units.get(one.name, ""))
        for one, usual in zip(model.inputs, ranges(model, X), strict=True)
    ]
    page = {"fields": fields, "target": target, "targetUnit": target_unit, "outputs": model.output_names}
    return (
        template.replace("@TITLE@", html.escape(title))
        .replace("@PAGE@", script_json(page))
        .replace("@SCRIPT@", script(model))
        .encode()
    )


def _describe(one: Input, usual: Range | None, typical: Level, unit: str) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "unit": unit,
        "categories": one.categories,
        "typical": typical,
        "range": None if usual is None else vars(usual),
    }
