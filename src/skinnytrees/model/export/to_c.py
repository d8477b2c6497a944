"""C99 that needs only the standard library: tables of numbers, and one function that reads them (``templates/predict.c``)."""

import json
from importlib import resources
from typing import Any

import numpy as np

from skinnytrees.model.export.limits import refuse_large
from skinnytrees.model.export.portable import Input, PortableModel, level_tolerance

_PER_LINE = 10


def to_bytes(model: PortableModel) -> bytes:
    """The C source of a model.

    Parameters
    ----------
    model : PortableModel
        What to write.

    Returns
    -------
    bytes
    """
    refuse_large(model, "C source")
    template = resources.files("skinnytrees.model.export").joinpath("templates/predict.c").read_text("utf-8")
    return template.replace("@INPUTS@", _list_inputs(model)).replace("@TABLES@", _tables(model)).encode()


def _list_inputs(model: PortableModel) -> str:
    kinds = {"number": "number", "category": "number (category)", "text": "text"}
    lines = [f" *   {k}: {kinds[one.kind]} {_comment(one.name)}" for k, one in enumerate(model.inputs)]
    outputs = [f" *   {c}: {_comment(name)}" for c, name in enumerate(model.output_names)]
    what = "probability of class" if model.labels else "prediction"
    return "\n".join([*lines, " *", f" * Outputs ({what}):", *outputs])


def _comment(text: str) -> str:
    """Text that cannot end a comment."""
    return json.dumps(text, ensure_ascii=False).replace("*/", "* /")


def _tables(model: PortableModel) -> str:
    W, b, leaves = model.trees
    inputs = model.inputs
    levels = [level for one in inputs for level in one.levels]
    numbers = [level if isinstance(level, float) else None for level in levels]
    sizes = {
        "N_INPUTS": len(inputs),
        "N_COLUMNS": len(model.W),
        "N_TREES": model.n_trees,
        "N_NODES": model.n_nodes,
        "N_OUTPUTS": model.n_outputs,
    }
    flags = {
        "IS_SIGMOID": model.routing == "sigmoid",
        "IS_SOFTMAX": model.link == "softmax",
        "IS_EXP": model.link == "exp",
    }
    parts = [
        "enum { " + ", ".join(f"{name} = {value}" for name, value in sizes.items()) + " };",
        "enum { " + ", ".join(f"{name} = {int(value)}" for name, value in flags.items()) + " };",
        f"static const double theta = {_double(model.theta)};",
        _table("double", "knots", [_double(knot) for one in inputs for knot in one.knots]),
        _table("double", "heights", [_double(h) for one in inputs for curve in one.curves for h in curve]),
        _table("double", "level_numbers", ["NAN" if n is None else _double(n) for n in numbers]),
        _table("double", "level_tolerances", ["0" if n is None else _double(level_tolerance(n)) for n in numbers]),
        _table("char *const", "level_texts", [_text(level) for level in levels], 1),
        _table("struct input", "inputs", _input_rows(inputs), 1),
        _table("float", "W", _floats(W)),
        _table("float", "b", _floats(b)),
        _table("float", "O", _floats(leaves)),
        _table("double", "base", [_double(value) for value in model.base]),
        _table("char *const", "output_names", [_text(name) for name in model.output_names], 1),
        _table("char *const", "input_names", [_text(one.name) for one in inputs], 1),
    ]
    return "\n".join(parts)


def _input_rows(inputs: tuple[Input, ...]) -> list[str]:
    rows, knot, height, level = [], 0, 0, 0
    for one in inputs:
        value = one.value
        numbers = ["0", "1", "0"] if value is None else [_double(v) for v in (value.mean, value.scale, value.farthest)]
        flags = [one.kind == "text", value is not None, one.has_missing_column]
        counts = [knot, len(one.knots), height, len(one.curves), level, len(one.levels)]
        rows.append("{" + ", ".join([*(str(int(flag)) for flag in flags), *numbers, *map(str, counts)]) + "}")
        knot, height, level = knot + len(one.knots), height + sum(map(len, one.curves)), level + len(one.levels)
    return rows


def _table(kind: str, name: str, items: list[str], per_line: int = _PER_LINE) -> str:
    """An array; C has none without elements."""
    items = items or ["{0}" if kind.startswith("struct") else "0"]
    lines = [", ".join(items[at : at + per_line]) for at in range(0, len(items), per_line)]
    return f"static const {kind} {name}[] = {{\n" + ",\n".join(lines) + "\n};"


def _double(value: float) -> str:
    return f"{value:.17g}"


def _floats(values: Any) -> list[str]:
    """Nine digits give back every number of single precision."""
    return [text + "f" for text in np.char.mod("%.8e", values.ravel()).tolist()]


def _text(level: Any) -> str:
    """A string of C, byte by byte where it is not plain ASCII; anything else is no text."""
    if not isinstance(level, str):
        return "0"
    return '"' + "".join(_character(byte) for byte in level.encode()) + '"'


def _character(byte: int) -> str:
    # Octal, because a hexadecimal escape of C has no end; the question mark because of trigraphs.
    is_plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
    return chr(byte) if is_plain else f"\\{byte:03o}"
