"""Calls of compiled kernels with tuples of arrays.

Why: at an ordinary call numba looks up the type of every array in every tuple, which takes longer than a small training step.
Here the types are found by a faster lookup, and the machine code's entry point, a private attribute, is called directly.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

_entries: dict[Any, Callable[..., Any]] = {}
# Those of an array's flags that make its type: in which order it lies, aligned, writeable.
_FLAGS = 0x1 | 0x2 | 0x100 | 0x400


def call(kernel: Any, *arguments: Any) -> Any:
    """Call a kernel with tuples of arrays.

    At an ordinary call numba looks up the type of every array in every tuple, which takes longer than a small step.
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
