"""Compiler options that numba does not document.

Why: they shorten the first fit. ``benchmarks/bridge_tricks.py`` measures by how much.
"""

from typing import Any

# Kernels get all memory from outside, so nothing needs to count references to arrays (_nrt); none is called from C.
QUICKER_TO_COMPILE: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}
# A kernel that only kernels call needs no entry for Python.
NO_PYTHON_ENTRY: dict[str, Any] = {"no_cpython_wrapper": True}
