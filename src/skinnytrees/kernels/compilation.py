"""How kernels are compiled: one decorator for functions, one for functions that are handed over as arguments.

Losses and activations reach the compiled epoch as function arguments of a fixed signature. The epoch is then
compiled once for all of them, and a loss written in plain Python goes through the same door.
"""

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import event
from numba.extending import intrinsic

# Sums may be reordered (SIMD lanes need that), but NaN and infinity keep their meaning: they tell of divergence.
FAST = {"reassoc", "contract", "nsz", "arcp"}

# Kernels get all memory from outside, so nothing counts references to arrays (_nrt): that alone was a tenth of all compilation.
_OPTIONS: dict[str, Any] = {
    "fastmath": FAST, "nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True,
}  # fmt: skip


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile on first call and cache on disk, or not at all where no folder can be written."""
    options |= _OPTIONS
    try:
        return _stamped(numba.njit(cache=True, **options)(function))
    except RuntimeError:
        return numba.njit(**options)(function)


def inner_kernel(function: Callable[..., Any]) -> Any:
    """The same for a kernel that only kernels call: it needs no entry for Python, which takes time to compile."""
    return kernel(function, no_cpython_wrapper=True)


def _stamped(dispatcher: Any) -> Any:
    """Let a change of any file of the package outdate the cache.

    Numba polls only at the file of the function itself, and would go on with the old version of a kernel that it calls.
    """
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
    files = [file.stat() for file in sorted(Path(__file__).parents[1].rglob("*.py"))]
    return max(file.st_mtime_ns for file in files), sum(file.st_size for file in files)


_entries: dict[Any, Callable[..., Any]] = {}
# Those of an array's flags that make its type: in which order it lies, aligned, writeable.
_FLAGS = 0x1 | 0x2 | 0x100 | 0x400


def call(kernel: Any, *arguments: Any) -> Any:
    """Call a kernel with bundles of arrays.

    At an ordinary call numba polls up the type of every array in every bundle, which takes longer than a small step.
    """
    return _entry(kernel, arguments)(*arguments)


class SameTypes:
    """Calls one kernel again and again with arguments of the same types, which are looked at only once."""

    def __init__(self) -> None:
        self.entry: Callable[..., Any] | None = None

    def __call__(self, kernel: Any, *arguments: Any) -> Any:
        """Call the kernel."""
        if self.entry is None:
            self.entry = _entry(kernel, arguments)
        return self.entry(*arguments)


def _entry(kernel: Any, arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """The machine code of a kernel for arguments of these types; to be called with such arguments only."""
    key = kernel, _kind(arguments)
    if key not in _entries:
        kinds = tuple(kernel.typeof_pyval(argument) for argument in arguments)
        kernel.compile(kinds)
        _entries[key] = kernel.overloads[kinds].entry_point
    return _entries[key]


def _kind(argument: Any) -> Any:
    """What tells apart arguments of different numba types, found quickly."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num & _FLAGS
    if isinstance(argument, tuple):
        return type(argument), *map(_kind, argument)
    return getattr(argument, "_sig", type(argument))  # a function's signature


# A function that calls kernels and is called by kernels: spliced into its callers before compilation, because otherwise
# each level of calls would be optimised again with all that is below it (measured once: 23 s to compile a first fit, then 10).
part = numba.njit(inline="always", **_OPTIONS)


def scalar_type(dtype: np.dtype) -> types.Type:
    """The numba type of one array element."""
    return numba.from_dtype(np.dtype(dtype))


def function_argument(signature: types.Type, function: Callable[..., Any]) -> Any:
    """Compile ``function`` so that a kernel can take it as an argument."""
    try:
        return numba.cfunc(signature, cache=True)(function)
    except RuntimeError:  # no folder can be written
        return numba.cfunc(signature)(function)


@intrinsic
def pointer(typingctx: Any, array: Any) -> Any:
    """Address of an array's first element, as function arguments take it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen


class _TellOnce(event.Listener):
    """Prints one line when something has to be compiled, so that a first fit does not look stuck."""

    def __init__(self) -> None:
        self.told = False

    def on_start(self, event: Any) -> None:
        if not self.told:
            self.told = True
            print("skinnytrees: compiling its kernels (once on this machine, a few seconds) ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        pass


_teller = _TellOnce()


@contextlib.contextmanager
def compilation_notice() -> Iterator[None]:
    """Within this context, a compilation (not a load from the cache) is announced, once a process."""
    with event.install_listener("numba:compile", _teller):
        yield
