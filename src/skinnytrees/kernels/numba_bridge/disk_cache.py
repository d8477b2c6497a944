"""A disk cache of compiled kernels that any change of the package outdates and that survives damage and full disks.

Why: numba looks only at the file of the function itself, and would go on with the old version of a kernel that it calls. It also
runs whatever its cache files hold: a truncated file stops every fit, a flipped bit in machine code changes results. It has no
public way to change either, so the object that reads and writes its files is replaced, and the method that saves is wrapped.
"""

import contextlib
import functools
import glob
import hashlib
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import IndexDataCacheFile
from numba.core.ccallback import CFunc
from numba.core.sigutils import normalize_signature

# Seconds after which an unfinished file is one that a killed process has left behind: writing takes milliseconds.
_ABANDONED = 600.0
_N_BYTES = hashlib.sha256().digest_size


def protect_cache(dispatcher: Any) -> Any:
    """Let changes of the package outdate the cache of a compiled function, and damage of its files be noticed."""
    cache = dispatcher._cache
    own = cache._cache_file
    cache._cache_file = CheckedCacheFile(cache._cache_path, cache._impl.filename_base, own._source_stamp)
    cache.save_overload = functools.partial(_save_if_possible, cache.save_overload, cache._cache_path)
    return dispatcher


def cached_cfunc(signature: Any, function: Callable[..., Any]) -> Any:
    """``numba.cfunc(signature, cache=True)(function)`` with a protected cache; numba's own compiles before one can change it."""
    made = CFunc(function, normalize_signature(signature), locals={}, options={})
    made.enable_caching()
    protect_cache(made)
    made.compile()
    return made


class CheckedCacheFile(IndexDataCacheFile):
    """The index and the data files of one function's cache, each after its check sum.

    A file begins with the digest of what it depends on (versions and sources), then that of the whole, then the content.
    A damaged, outdated or unreadable file counts as absent: the function is compiled again and the file replaced.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
        # Other names than numba's own: an earlier version of the package would stumble over these files.
        super().__init__(cache_path, f"{filename_base}-checked", source_stamp)
        self._depends_on = _sha256(repr((numba.__version__, source_stamp, _package_stamp())).encode())

    def save(self, key: Any, data: Any) -> None:
        """Save what was compiled for a key. The key goes along: two processes may choose one name for two of them."""
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        """Load what was compiled for a key; None if that is not there or not usable."""
        found = super().load(key)
        return None if found is None or found[0] != key else found[1]

    def _load_index(self) -> dict[Any, Any]:
        return self._read(self._index_path) or {}

    def _save_index(self, overloads: dict[Any, Any]) -> None:
        self._write(self._index_path, overloads)

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _write(self, path: str, data: Any) -> None:
        content = self._dump(data)
        _remove_unfinished(Path(path))
        with self._open_for_write(path) as file:
            file.write(self._depends_on + _sha256(self._depends_on + content) + content)

    def _read(self, path: str) -> Any:
        try:
            whole = Path(path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _tell_once("cannot read compiled kernels", self._cache_path, f" ({error}); they are compiled again.")
            return None
        depends_on, digest, content = whole[:_N_BYTES], whole[_N_BYTES : 2 * _N_BYTES], whole[2 * _N_BYTES :]
        if digest != _sha256(depends_on + content):
            _tell_once("found damaged files of compiled kernels", self._cache_path, "; they are compiled again.")
            return None
        if depends_on != self._depends_on:
            return None
        try:
            return pickle.loads(content)
        except (AttributeError, ImportError):  # of a function outside the package, whose classes are gone
            return None


def _save_if_possible(save: Callable[[Any, Any], None], folder: str, signature: Any, data: Any) -> None:
    """A cache that cannot be written (a full disk, a folder that has become read-only) is done without."""
    try:
        save(signature, data)
    except OSError as error:
        _tell_once("cannot keep compiled kernels", folder, f" ({error}); every new process compiles them again.")


def _remove_unfinished(path: Path) -> None:
    """Remove what processes have left behind that were killed while they wrote this file; numba names it so."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.tmp.*"):
        with contextlib.suppress(OSError):  # another process may remove it, too
            if time.time() - left.stat().st_mtime > _ABANDONED:
                left.unlink()


_told: set[str] = set()


def _tell_once(problem: str, folder: str, rest: str) -> None:
    """One line on standard error per problem and process, not one per kernel."""
    if problem not in _told:
        _told.add(problem)
        print(f"skinnytrees: {problem} in {folder}{rest}", file=sys.stderr)


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


@functools.cache
def _package_stamp() -> tuple[int, int]:
    files = [file.stat() for file in sorted(Path(__file__).parents[2].rglob("*.py"))]
    return max(file.st_mtime_ns for file in files), sum(file.st_size for file in files)
