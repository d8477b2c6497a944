"""A file of finished results, one line of JSON each, so that long work can be continued after it was stopped."""

import hashlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from skinnytrees.exceptions import reason_of, refuse_unless


class ResultsFile:
    """Appends results to a file, and finds those that are there already; without a file, it does neither.

    The first line says what the results belong to. A file that belongs to other data or settings is refused; a line that was
    cut off while it was written is left out, and its result is computed again. What a full disk did not take stays in memory, and
    is written together with the next result.
    """

    def __init__(self, file: str | os.PathLike[str] | None, belongs_to: str) -> None:
        self.file = None if file is None else Path(file)
        self.belongs_to = belongs_to
        self.unwritten: list[dict[str, Any]] = []
        self.has_warned = False
        records = self._read()
        refuse_unless(
            not records or records[0].get("belongs_to") == self.belongs_to,
            f"{self.file} holds results of other data or other settings. Name another results_file, or delete this one.",
        )
        # A disk that was full for a while may have taken the first line twice.
        self.found: dict[str, dict[str, Any]] = {one["key"]: one["result"] for one in records if "key" in one}
        if not records:
            self.unwritten.append({"belongs_to": belongs_to})

    def add(self, key: str, result: dict[str, Any]) -> None:
        """Write one result, whole, to the end of the file."""
        self.found[key] = result
        if self.file is None:
            return
        self.unwritten.append({"key": key, "result": result})
        try:
            self._write()
        except OSError as error:
            if not self.has_warned:
                warnings.warn(
                    f"{self.file} cannot be written ({reason_of(error)}). The work goes on, and results that are not in the file "
                    "are in memory only. Free space on its disk: the next result is written together with them.",
                    stacklevel=3,
                )
            self.has_warned = True

    def _read(self) -> list[dict[str, Any]]:
        """All lines that were written to their end."""
        if self.file is None or not self.file.exists():
            return []
        lines = self.file.read_text(encoding="utf-8").splitlines()
        return [record for record in map(_parse, lines) if record is not None]

    def _write(self) -> None:
        assert self.file is not None
        lines = [json.dumps(record, default=_plain).encode() + b"\n" for record in self.unwritten]
        with self.file.open("a+b") as opened:
            # A line that was cut off must not run into the next one.
            opened.seek(0, os.SEEK_END)
            if opened.tell() > 0:
                opened.seek(-1, os.SEEK_END)
                if opened.read(1) != b"\n":
                    lines = [b"\n", *lines]
            opened.write(b"".join(lines))
            opened.flush()
            os.fsync(opened.fileno())
        self.unwritten = []


def fingerprint(*parts: Any) -> str:
    """A short text that differs where tables, arrays or settings differ."""
    digest = hashlib.sha256()
    for part in parts:
        for piece in _pieces(part):
            digest.update(piece)
            digest.update(b"|")
    return digest.hexdigest()[:16]


def _pieces(part: Any) -> Iterator[bytes]:
    if part is None or isinstance(part, str | int | float | bool):
        yield repr(part).encode()
    elif sparse.issparse(part):
        csr = part.tocsr()
        yield from (csr.indptr.tobytes(), csr.indices.tobytes(), csr.data.tobytes())
    elif hasattr(part, "columns") and hasattr(part, "shape"):
        for name in part.columns:
            yield str(name).encode()
            yield from _pieces(np.asarray(part[name], dtype=object))
    elif isinstance(part, list | tuple):
        for one in part:
            yield from _pieces(one)
    elif hasattr(part, "__array__"):
        array = np.asarray(part)
        yield repr(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).tobytes()
    else:
        yield repr(part).encode()


def _parse(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
