"""Files on a disk: read within a limit, and replaced as a whole or not at all.

The new content is written beside the file, under a name of its own, brought to the disk, and then takes the file's place in one
step. A process that is killed leaves the old file or the new one, and perhaps an unfinished one beside it, which the next save
removes: a lock tells it from one that somebody else is writing.
"""

import contextlib
import importlib
import io
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from skinnytrees.exceptions import ModelFileError, cannot_write

# Locks of files, which Windows does not have.
fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None

File = str | os.PathLike[str] | IO[bytes]

# The largest file that is read or written.
MAX_BYTES = 2**31
_BEGINNING = b"PK\x03\x04"
# What file systems allow for a name is 255 bytes, and a character may take four.
_NAME_KEPT = 50
_UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.part")


def read_bytes(file: File) -> bytes:
    """Content of a file, or the rest of a binary stream; what does not begin like a model file is not read."""
    if isinstance(file, str | os.PathLike):
        with open(file, "rb") as stream:
            return _read_stream(stream, file)
    if not hasattr(file, "read"):
        raise TypeError(f"file={file!r} is neither a path nor a binary file. Use the name that was given to save().")
    return _read_stream(file, file)


def write_bytes(file: File, content: bytes) -> None:
    """Write a stream, or replace a file as a whole; links are followed, pipes and terminals are written to."""
    if not isinstance(file, str | os.PathLike):
        if not hasattr(file, "write"):
            raise TypeError(f"file={file!r} is neither a path nor a binary file. Use a name such as 'model.skinny'.")
        if isinstance(cast(Any, file), io.TextIOBase):
            raise TypeError(f"{name_of(file)} takes text. Open the file with mode 'wb'.")
        file.write(content)
        return
    path = Path(os.path.realpath(file))
    before = _status_of(path)
    mode = None if before is None else before.st_mode
    if mode is not None and (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        with path.open("wb") as stream:
            stream.write(content)
        return
    _refuse_places(path, mode)
    _remove_unfinished(path)
    try:
        _replace(path, content, before)
    except OSError as error:
        kept = "" if before is None else " The file that was there before is unchanged."
        raise cannot_write(
            error, f"{path} cannot be written.{kept} Free space on its disk, or name a file elsewhere."
        ) from error


def name_of(file: File) -> str:
    """What messages call a file."""
    return str(file) if isinstance(file, str | os.PathLike) else repr(file)


def _read_stream(stream: IO[bytes], file: File) -> bytes:
    start = stream.read(len(_BEGINNING))
    if not isinstance(start, bytes):
        raise TypeError(f"{name_of(file)} gives text. Open the file with mode 'rb'.")
    if start != _BEGINNING:
        raise ModelFileError(f"{name_of(file)} is no skinnytrees model file: {_guess(start + stream.read(500))}")
    content = start + stream.read(MAX_BYTES)
    if len(content) > MAX_BYTES:
        raise ModelFileError(f"{name_of(file)} is larger than a model file can be ({MAX_BYTES} bytes). Check its name.")
    return content


def _guess(start: bytes) -> str:
    """What a file is instead, and what to do."""
    if not start:
        return "it is empty. Save the model again."
    if not any(byte < 9 or byte == 0x7F for byte in start):
        return (
            "it looks like text. load() reads models that save() has written; read a table with pandas.read_csv, and fit a "
            "model to it first."
        )
    return "its first bytes are others. load() reads models that save() has written, and nothing else: check the name."


def _status_of(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _refuse_places(path: Path, mode: int | None) -> None:
    """Refuse what cannot be replaced by a file."""
    if mode is None:
        if not path.parent.is_dir():
            raise FileNotFoundError(f"There is no folder {path.parent}. Make it first, or name a file elsewhere.")
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{path} is a folder. Name a file in it, such as {path / 'model.skinny'}.")
    if not stat.S_ISREG(mode):
        raise OSError(f"{path} is a disk or a socket, not a file. Name another place.")
    if not os.access(path, os.W_OK):
        raise PermissionError(f"{path} may not be written. Change its permissions, or name another file.")


def _replace(path: Path, content: bytes, before: os.stat_result | None) -> None:
    with _new_file_beside(path) as (unfinished, stream):
        stream.write(content)
        stream.flush()
        if before is not None and hasattr(os, "fchmod"):
            _keep_access(stream.fileno(), before)
        os.fsync(stream.fileno())
        if fcntl is None:  # Windows does not rename open files
            stream.close()
        os.replace(unfinished, path)
    _sync_folder(path.parent)


def _keep_access(descriptor: int, before: os.stat_result) -> None:
    """Give a file the owner, the group and the permissions of the one that it replaces, as far as the system allows it."""
    for owner, group in ((-1, before.st_gid), (before.st_uid, -1)):
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, owner, group)
    # At last, because another owner may take permissions away.
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


@contextlib.contextmanager
def _new_file_beside(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """A file in the same folder that nobody else has, locked while it is written; its name is gone afterwards."""
    while True:
        unfinished = path.with_name(f"{path.name[:_NAME_KEPT]}.{secrets.token_hex(8)}.part")
        stream = unfinished.open("xb")
        # A save that looked for unfinished files in between may have removed it: take another.
        if _lock(stream.fileno()) and unfinished.exists():
            break
        stream.close()
    try:
        yield unfinished, stream
    finally:
        unfinished.unlink(missing_ok=True)
        stream.close()


def _lock(descriptor: int) -> bool:
    """Whether nobody else had the file locked; the lock ends with the process."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _remove_unfinished(path: Path) -> None:
    """Remove what saves of this file have left behind that were killed."""
    if fcntl is None:
        return
    kept = path.name[:_NAME_KEPT]
    for entry in os.scandir(path.parent):
        if entry.name.startswith(kept) and _UNFINISHED.fullmatch(entry.name[len(kept) :]):
            with contextlib.suppress(OSError):
                _remove_if_left(entry.path)


def _remove_if_left(unfinished: str) -> None:
    descriptor = os.open(unfinished, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(unfinished)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
