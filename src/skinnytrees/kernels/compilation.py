"""How kernels are compiled: one decorator for functions, one for functions that are handed over as arguments.

Losses and activations reach the compiled epoch as function arguments of a fixed signature. The epoch is then
compiled once for all of them, and a loss written in plain Python goes through the same door.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import event
from numba.extending import intrinsic

# Sums may be reordered (SIMD lanes need that), but NaN and infinity keep their meaning: they tell of divergence.
FAST = {"reassoc", "contract", "nsz", "arcp"}

kernel = numba.njit(cache=True, fastmath=FAST, nogil=True, error_model="numpy")

# A function that calls kernels and is called by kernels: spliced into its callers before compilation, because otherwise
# each level of calls would be optimised again with all that is below it (measured: 23 s to compile a first fit, now 10).
part = numba.njit(fastmath=FAST, nogil=True, error_model="numpy", inline="always")


def scalar_type(dtype: np.dtype) -> types.Type:
    """The numba type of one array element."""
    return numba.from_dtype(np.dtype(dtype))


def function_argument(signature: types.Type, function: Callable[..., Any]) -> Any:
    """Compile ``function`` so that a kernel can take it as an argument."""
    return numba.cfunc(signature, cache=True)(function)


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
