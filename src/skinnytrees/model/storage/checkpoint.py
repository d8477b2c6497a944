"""Checkpoints: what a fit has finished, in a file that another process can go on with after the first one was killed.

A file is a sequence of records, each a key, a length and an archive with a check sum of its own (``archive``). Records are
appended, and one that was cut off by a kill is dropped. Where the disk is full, the fit goes on without a new record. Nothing is
pickled.
"""

import contextlib
import os
import struct
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import cannot_write, reason_of, refuse_unless
from skinnytrees.model.storage.archive import Members, pack, unpack
from skinnytrees.model.storage.files import fcntl, write_bytes
from skinnytrees.training.memory import Remembered

_BEGINNING = b"skinnytrees checkpoint 1\n"
# Key and length of a record.
_HEAD = struct.Struct("<64sQ")
# Seconds between two states of one training, and between two times that all is brought to the disk.
_SECONDS = 10.0
# A file with more than this fraction of records that were replaced is written anew.
_STALE = 0.75
_SMALL = 2**24


@contextlib.contextmanager
def open_checkpoint(file: str | os.PathLike[str] | None) -> Iterator["Checkpoint | None"]:
    """A checkpoint in this file, which is made if it is not there; None for None."""
    if file is None:
        yield None
        return
    path = Path(file)
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(_open(path, "r+b" if path.exists() else "x+b"))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"There is no folder {path.parent}. Make it first, or name another.") from error
        checkpoint = Checkpoint(path, stream)
        stack.callback(checkpoint.close)
        yield checkpoint


class Checkpoint:
    """Results of a fit by their keys; threads may share it, processes may not."""

    def __init__(self, path: Path, stream: IO[bytes]) -> None:
        self.path, self.stream, self.lock, self.has_warned = path, stream, threading.Lock(), False
        self.last_kept = self.last_synced = time.monotonic()
        self.place: dict[str, tuple[int, int]] = {}
        self._lock_file()
        start = stream.read(len(_BEGINNING))
        refuse_unless(
            _BEGINNING.startswith(start),
            f"checkpoint={str(path)!r} is a file of something else. Name a new file for the checkpoint.",
        )
        if len(start) < len(_BEGINNING):
            self._begin()
        self._find_records()

    def recall(self, key: str) -> Remembered | None:
        """What was kept last under this key; nothing, if it cannot be read."""
        with self.lock:
            if key not in self.place:
                return None
            start, length = self.place[key]
            self.stream.seek(start)
            content = self.stream.read(length)
        try:
            document, arrays = unpack(Members(content))
            return Remembered(document["numbers"], dict(zip(document["names"], arrays, strict=True)))
        except Exception:  # a damaged record is computed again, whatever the damage is
            return None

    def keep(self, key: str, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Append a record."""
        content = pack({"numbers": dict(numbers), "names": list(arrays)}, [np.asarray(one) for one in arrays.values()])
        with self.lock:
            self.last_kept = time.monotonic()
            try:
                self._append(key, content)
            except OSError as error:
                self._warn_once(error)
                return
            self._write_anew_if_stale()

    def is_due(self) -> bool:
        """Whether it is time to keep what is under way."""
        return time.monotonic() - self.last_kept >= _SECONDS

    def close(self) -> None:
        """Give the file free."""
        self.stream.close()

    def _begin(self) -> None:
        self.stream.seek(0)
        try:
            _write_all(self.stream, _BEGINNING)
        except OSError as error:
            raise cannot_write(
                error,
                f"checkpoint={str(self.path)!r} cannot be written. Free space on its disk, or name a file elsewhere.",
            ) from error

    def _append(self, key: str, content: bytes) -> None:
        """Write a record to the end, or leave the file as it was."""
        start = self.stream.seek(0, os.SEEK_END)
        try:
            _write_all(self.stream, _HEAD.pack(key.encode(), len(content)) + content)
        except OSError:
            self.stream.truncate(start)
            raise
        self.place[key] = start + _HEAD.size, len(content)
        if self.last_kept - self.last_synced > _SECONDS:
            os.fsync(self.stream.fileno())
            self.last_synced = self.last_kept

    def _warn_once(self, error: OSError) -> None:
        if not self.has_warned:
            self.has_warned = True
            warnings.warn(
                f"checkpoint={str(self.path)!r} cannot be written ({reason_of(error)}). The fit goes on; if it is killed, what "
                "it finishes from now on is lost. Free space on the disk to have it kept again.",
                stacklevel=2,
            )

    def _lock_file(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self.stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(
                f"checkpoint={str(self.path)!r} is in use by another fit. Wait for it, or name a file of its own for each fit."
            ) from error

    def _find_records(self) -> None:
        """Where records are; what comes after the last whole one is cut off."""
        end, size = len(_BEGINNING), self.stream.seek(0, os.SEEK_END)
        while end + _HEAD.size <= size:
            self.stream.seek(end)
            key, length = _HEAD.unpack(self.stream.read(_HEAD.size))
            if end + _HEAD.size + length > size:
                break
            self.place[key.decode("latin-1")] = end + _HEAD.size, length
            end += _HEAD.size + length
        self.stream.truncate(end)

    def _write_anew_if_stale(self) -> None:
        """States of one training replace each other: without this, the file would grow without end."""
        size, live = self.stream.tell(), sum(length + _HEAD.size for _, length in self.place.values())
        if size < _SMALL or live > (1 - _STALE) * size:
            return
        records = []
        for key, (start, length) in self.place.items():
            self.stream.seek(start)
            records.append(_HEAD.pack(key.encode(), length) + self.stream.read(length))
        try:
            write_bytes(self.path, _BEGINNING + b"".join(records))
        except OSError:  # no space for both: the old file goes on as long as it can
            return
        self.stream.close()
        self.stream = _open(self.path, "r+b")
        self._lock_file()
        self._find_records()


def _open(path: Path, mode: str) -> IO[bytes]:
    # Without a buffer, which would hold on to what a full disk did not take and try again at every later step.
    return cast(IO[bytes], path.open(mode, buffering=0))


def _write_all(stream: IO[bytes], content: bytes) -> None:
    """Write without a buffer, where one call may take a part only."""
    rest = memoryview(content)
    while rest:
        rest = rest[stream.write(rest) :]
