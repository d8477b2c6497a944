"""The bytes of a model file: a zip archive of a document and its arrays, none of them compressed.

``document.json`` declares every array's type and shape. ``sha256`` has the check sum of the document and of the arrays' bytes in
their order, so that an edit by accident does not go unnoticed. The arrays are ``arrays/0.npy`` and so on, which numpy can open.
Because nothing is compressed, a file cannot ask for more memory than it has bytes. The document has limits of its own, and so
have copies of arrays that it names several times.
"""

import hashlib
import io
import json
import math
import re
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless

DOCUMENT, _CHECKSUM = "document.json", "sha256"
# A value of a document takes about a hundred bytes of memory.
MAX_DOCUMENT_BYTES = 2**24
MAX_VALUES = 10**6
_MAX_MEMBERS = 10**5
# Arrays that were equal are stored once. A model and its path name one array a few times; all copies together may take this many
# times the bytes of the file, and this many more. An array takes about a hundred bytes beside its values.
_COPIES_OF_FILE = 8
_MORE_BYTES = 2**25
_BYTES_PER_ARRAY = 128
# Numbers, text, bytes and times as numpy names them, in the byte order of files.
_DTYPE = re.compile(r"\|[biu]1|<[iu][248]|<f[248]|<U[1-9]\d{0,8}|\|S[1-9]\d{0,8}|<[Mm]8(\[\w{1,8}\])?")
_MAGIC = b"\x93NUMPY\x01\x00"
_HIGHEST_CHARACTER = 0x10FFFF


class Allowance:
    """How many bytes may still be copied out of a file: a small one must not fill the memory by naming an array again and again.

    Examples
    --------
    >>> from skinnytrees.model.storage.archive import Allowance
    >>> allowance = Allowance(n_bytes_of_file=100)
    >>> allowance.take(2**25)
    >>> allowance.take(2**25)
    Traceback (most recent call last):
    ValueError: it names its arrays so often that their copies would take more than 33555232 bytes
    """

    def __init__(self, n_bytes_of_file: int) -> None:
        self.total = self.left = _MORE_BYTES + _COPIES_OF_FILE * n_bytes_of_file

    def take(self, n_bytes: int) -> None:
        """Count one more copy, before it is made."""
        self.left -= n_bytes + _BYTES_PER_ARRAY
        refuse_unless(
            self.left >= 0, f"it names its arrays so often that their copies would take more than {self.total} bytes"
        )


class Members:
    """The members of an archive, each of which is read when it is asked for, and only once all are known to be harmless."""

    def __init__(self, content: bytes) -> None:
        self.archive = zipfile.ZipFile(io.BytesIO(content))
        infos = self.archive.infolist()
        self.by_name = {info.filename: info for info in infos}
        self.allowance = Allowance(len(content))
        refuse_unless(len(infos) <= _MAX_MEMBERS, f"it has {len(infos)} members")
        refuse_unless(len(self.by_name) == len(infos), "it has two members of one name")
        for info in infos:
            is_plain = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size
            refuse_unless(is_plain and not info.flag_bits & 1, f"{info.filename!r} is compressed or encrypted")
        refuse_unless(sum(info.file_size for info in infos) <= len(content), "its members overlap")

    def read(self, name: str) -> bytes:
        """Content of a member, whose check sum in the archive must be right."""
        refuse_unless(name in self.by_name, f"{name!r} is missing")
        self.allowance.take(self.by_name[name].file_size)
        return self.archive.read(self.by_name[name])


def pack(document: dict[str, Any], arrays: list[NDArray[Any]]) -> bytes:
    """A file with this document, to which the declaration of the arrays is added."""
    declared = [{"dtype": array.dtype.str, "shape": list(array.shape)} for array in arrays]
    text = json.dumps({**document, "arrays": declared}, allow_nan=False, separators=(",", ":")).encode()
    _refuse_long(text)
    contents = [array.tobytes() for array in arrays]
    checksum = _checksum([text, *contents]).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        # Without the time of day, equal models have equal files.
        archive.writestr(zipfile.ZipInfo(DOCUMENT), text)
        archive.writestr(zipfile.ZipInfo(_CHECKSUM), checksum)
        for i, (array, content) in enumerate(zip(arrays, contents, strict=True)):
            archive.writestr(zipfile.ZipInfo(_array_name(i)), _header(array.dtype.str, array.shape) + content)
    return file.getvalue()


def unpack(members: Members) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Document and arrays of a file."""
    text = members.read(DOCUMENT)
    document = parse_document(text)
    declared = document.pop("arrays")
    expected = {DOCUMENT, _CHECKSUM, *map(_array_name, range(len(declared)))}
    strangers = sorted(set(members.by_name) - expected)
    refuse_unless(not strangers, f"nobody asks for its members {strangers[:3]}")
    contents = [_declared_bytes(members, i, one["dtype"], tuple(one["shape"])) for i, one in enumerate(declared)]
    refuse_unless(
        members.read(_CHECKSUM) == _checksum([text, *contents]).encode(), "its check sum is another: it was changed"
    )
    arrays = [
        make_array(content, one["dtype"], tuple(one["shape"])) for content, one in zip(contents, declared, strict=True)
    ]
    return document, arrays


def parse_document(text: bytes) -> dict[str, Any]:
    """The JSON of a document, unless it is too long to be one."""
    _refuse_long(text)
    document = json.loads(text)
    refuse_unless(isinstance(document, dict), "its document is no object")
    return document


def make_array(content: bytes | memoryview, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """An array of its own, in the byte order of the machine, all of whose values are values of its type."""
    stored = np.frombuffer(content, dtype=np.dtype(dtype)).reshape(shape)
    if stored.dtype.kind == "b":
        refuse_unless(bool(np.all(stored.view(np.uint8) <= 1)), "a truth value is neither 0 nor 1")
    if stored.dtype.kind == "U":
        code_points = np.frombuffer(content, dtype="<u4")
        refuse_unless(bool(np.all(code_points <= _HIGHEST_CHARACTER)), "a text has characters that do not exist")
    return stored.astype(stored.dtype.newbyteorder("="))


def n_bytes(dtype: Any, shape: tuple[Any, ...]) -> int:
    """How many bytes an array takes that is declared like this, if it may be declared like this."""
    is_known = isinstance(dtype, str) and _DTYPE.fullmatch(dtype) is not None
    refuse_unless(is_known, f"an array has the type {str(dtype)[:30]!r}")
    sizes_fit = len(shape) <= 32 and all(type(size) is int and 0 <= size <= 2**40 for size in shape)
    refuse_unless(sizes_fit, f"an array has the shape {str(shape)[:60]}")
    return math.prod(shape) * np.dtype(dtype).itemsize


def _declared_bytes(members: Members, place: int, dtype: Any, shape: tuple[Any, ...]) -> memoryview:
    """The values of an array, whose member must be as long as declared before it is read."""
    name, length = _array_name(place), n_bytes(dtype, shape)
    refuse_unless(name in members.by_name, f"{name!r} is missing")
    header = _header(dtype, shape)
    refuse_unless(
        members.by_name[name].file_size == len(header) + length, f"{name!r} is longer or shorter than declared"
    )
    content = members.read(name)
    refuse_unless(content.startswith(header), f"{name!r} is not as declared")
    return memoryview(content)[len(header) :]


def _header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What numpy puts before an array's bytes."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    text += " " * (-(len(_MAGIC) + 2 + len(text) + 1) % 64) + "\n"
    return _MAGIC + len(text).to_bytes(2, "little") + text.encode()


def _array_name(place: int) -> str:
    return f"arrays/{place}.npy"


def _checksum(parts: list[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _refuse_long(text: bytes) -> None:
    # Every value but the first follows a comma or an opening bracket.
    n_values = 1 + sum(map(text.count, (b",", b"[", b"{")))
    refuse_unless(
        len(text) <= MAX_DOCUMENT_BYTES and n_values <= MAX_VALUES,
        f"its document has {len(text)} bytes and up to {n_values} values; {MAX_DOCUMENT_BYTES} and {MAX_VALUES} are allowed",
    )
