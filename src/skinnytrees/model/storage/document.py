"""The document of a model file: its format, the kind of estimator, the parameters, and what a fit has learned."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from skinnytrees.exceptions import ModelFileError, refuse_unless
from skinnytrees.model.storage import parts
from skinnytrees.model.storage.archive import DOCUMENT, Members, pack, unpack
from skinnytrees.model.storage.files import MAX_BYTES, File, name_of, read_bytes, write_bytes
from skinnytrees.model.storage.old_formats import NEWEST_OLD_FORMAT, read_old
from skinnytrees.model.storage.values import Arrays, StoredArrays, describe, make

# Raise it when a file can no longer be read by the code before the change.
FORMAT = NEWEST_OLD_FORMAT + 1
# How what was learned is written, where it is not a plain value.
_DESCRIBE: dict[str, Any] = {
    "model": parts.describe_model,
    "path": parts.describe_path,
    "vocabulary": parts.describe_vocabulary,
}
_MAKE: dict[str, Any] = {"model": parts.make_model, "path": parts.make_path, "vocabulary": parts.make_vocabulary}


class Saved(NamedTuple):
    """What a file holds: the kind of estimator, its parameters by name, and what it has learned by names of the file."""

    kind: str
    parameters: dict[str, Any]
    learned: dict[str, Any]


def write(file: File, saved: Saved) -> None:
    """Write a file; one that was there before is replaced as a whole or not at all."""
    arrays = Arrays()
    document = {
        "format": FORMAT,
        "kind": saved.kind,
        "parameters": {name: describe(value, name, arrays) for name, value in saved.parameters.items()},
        "learned": {
            name: value if value is None else _DESCRIBE.get(name, _plain(name))(value, arrays)
            for name, value in saved.learned.items()
        },
    }
    try:
        content = pack(document, arrays.all)
        refuse_unless(len(content) <= MAX_BYTES, f"its file has {len(content)} bytes, where {MAX_BYTES} are allowed")
    except ValueError as error:
        raise ValueError(f"The model is too large for a file: {error}. Leave the path out with path=False.") from error
    write_bytes(file, content)


def read(file: File) -> Saved:
    """What a file holds, all of it checked."""
    content = read_bytes(file)
    with refusing(file):
        members = Members(content)
        if DOCUMENT not in members.by_name:
            return Saved(*read_old(members))
        document, unpacked = unpack(members)
        arrays = StoredArrays(unpacked)
        found = document["format"]
        if type(found) is int and found > FORMAT:
            raise ModelFileError(
                f"{name_of(file)} was written by a newer version of skinnytrees (its format is {found}, and this version "
                f"reads formats up to {FORMAT}). Upgrade skinnytrees to read it."
            )
        refuse_unless(type(found) is int and found == FORMAT, f"its format is {str(found)[:30]!r}")
        parts.refuse_other_fields(document, {"format", "kind", "parameters", "learned"}, "its document")
        parameters = {name: make(value, arrays) for name, value in document["parameters"].items()}
        learned = {
            name: value if value is None else _MAKE.get(name, make)(value, arrays)
            for name, value in document["learned"].items()
        }
        return Saved(document["kind"], parameters, learned)


@contextlib.contextmanager
def refusing(file: File) -> Iterator[None]:
    """Turn whatever goes wrong with a file's content into a ModelFileError.

    All exceptions, because the content may be anything: parsers of zip, JSON and numbers raise a dozen kinds of them, and a
    program that loads files from others needs one to catch.
    """
    try:
        yield
    except ModelFileError:
        raise
    except Exception as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise ModelFileError(
            f"{name_of(file)} is not a whole skinnytrees model file: {reason[:300]}. Use a file that save() has written, or save "
            "the model again."
        ) from error


def _plain(name: str) -> Any:
    return lambda value, arrays: describe(value, name, arrays)
