"""Choosing the format of an exported file, checking its options and writing it."""

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skinnytrees.exceptions import refuse_unless
from skinnytrees.model.export import to_c, to_csv, to_html, to_javascript, to_onnx, to_sql
from skinnytrees.model.export.portable import PortableModel
from skinnytrees.model.storage.files import File, write_bytes

FORMATS: dict[str, Callable[..., bytes]] = {
    "onnx": to_onnx.to_bytes,
    "sql": to_sql.to_bytes,
    "c": to_c.to_bytes,
    "js": to_javascript.to_bytes,
    "html": to_html.to_bytes,
    "csv": to_csv.to_bytes,
}


def export_model(model: PortableModel, file: File, format: str | None, options: dict[str, Any]) -> None:
    """Write a model in the format that ``format`` or the file's suffix names; a file that is there is replaced as a whole.

    Parameters
    ----------
    model : PortableModel
        What to write.
    file : str, path or binary file
        Where to.
    format : str or None
        A key of ``FORMATS``; None takes the suffix of the file.
    options : dict
        Options of this format.
    """
    name = _format_name(file, format)
    _check_options(name, options)
    content = FORMATS[name](model, **options)
    write_bytes(file, content)


def _format_name(file: File, format: str | None) -> str:
    known = ", ".join(FORMATS)
    if format is not None:
        refuse_unless(format in FORMATS, f"format={format!r} is not known. Use one of {known}.")
        return format
    if not isinstance(file, str | os.PathLike):
        raise ValueError(f"file={file!r} has no suffix to take the format from. Give format=, one of {known}.")
    name = Path(file).suffix.lower().removeprefix(".")
    refuse_unless(
        name in FORMATS,
        f"The suffix of {str(file)!r} is not that of a known format. Use one of {known}, or give format=.",
    )
    return name


def _check_options(name: str, options: dict[str, Any]) -> None:
    parameters = list(inspect.signature(FORMATS[name]).parameters)[1:]
    for option in options:
        if option not in parameters:
            takes = f"It takes {', '.join(parameters)}." if parameters else "It takes no options."
            raise TypeError(f"The format {name} does not take the option {option!r}. {takes}")
