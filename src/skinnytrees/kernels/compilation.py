"""How kernels are compiled: one decorator for functions, one for functions that are handed over as arguments.

Losses and activations reach the compiled epoch as function arguments of a fixed signature. The epoch is then
compiled once for all of them, and a loss written in plain Python uses the same interface.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from skinnytrees.kernels.numba_bridge.disk_cache import cached_cfunc, protect_cache
from skinnytrees.kernels.numba_bridge.forks import wait_for_compilations_before_forks
from skinnytrees.kernels.numba_bridge.options import NO_PYTHON_ENTRY, QUICKER_TO_COMPILE

# Sums may be reordered (SIMD lanes need that), but NaN and infinity keep their meaning: they indicate divergence.
FAST = {"reassoc", "contract", "nsz", "arcp"}
_OPTIONS: dict[str, Any] = {"fastmath": FAST, "nogil": True, "error_model": "numpy", **QUICKER_TO_COMPILE}

wait_for_compilations_before_forks()


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile on first call and cache on disk, or not at all where no folder can be written."""
    options |= _OPTIONS
    try:
        return protect_cache(numba.njit(cache=True, **options)(function))
    except RuntimeError:
        return numba.njit(**options)(function)


def inner_kernel(function: Callable[..., Any]) -> Any:
    """The same for a kernel that only kernels call."""
    return kernel(function, **NO_PYTHON_ENTRY)


# A function that calls kernels and is called by kernels: inlined into its callers before compilation, because otherwise
# each level of calls would be optimised again with all that is below it (measured once: 23 s to compile a first fit, then 10).
part = numba.njit(inline="always", **_OPTIONS)


def scalar_type(dtype: np.dtype) -> types.Type:
    """The numba type of one array element."""
    return numba.from_dtype(np.dtype(dtype))


def function_argument(signature: types.Type, function: Callable[..., Any]) -> Any:
    """Compile ``function`` so that a kernel can take it as an argument."""
    try:
        return cached_cfunc(signature, function)
    except RuntimeError:  # no folder can be written
        return numba.cfunc(signature)(function)
