"""A disk cache of compiled kernels that any change of the package outdates.

Why: numba looks only at the file of the function itself, and would go on with the old version of a kernel that it calls. It has
no public way to name further files, so two private attributes of its cache are set.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any


def outdated_by_the_package(dispatcher: Any) -> Any:
    """Let a change of any file of the package outdate the cache of a compiled function."""
    cache_file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp"):
        cache_file._source_stamp = _package_stamp()
        cache_file._load_index = functools.partial(_index_or_nothing, cache_file._load_index)
    return dispatcher


def _index_or_nothing(load: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
    """The cache's index; an empty one where it was written by a version of the package whose classes are gone."""
    try:
        return load()
    except (AttributeError, ImportError, EOFError, ValueError):
        return {}


@functools.cache
def _package_stamp() -> tuple[int, int]:
    files = [file.stat() for file in sorted(Path(__file__).parents[2].rglob("*.py"))]
    return max(file.st_mtime_ns for file in files), sum(file.st_size for file in files)
