"""Atomic loads, stores and additions on elements of int64 arrays.

Why: threads that run one product together need reads and writes that all of them see in one order. numba has atomic operations
for GPU arrays only, so the three LLVM instructions are emitted here.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


@intrinsic
def atomic_load(typingctx: Any, array: Any, at: Any) -> Any:
    """array[at]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_address(context, builder, signature, args), "seq_cst", align=8)

    return types.int64(array, types.intp), codegen


@intrinsic
def atomic_store(typingctx: Any, array: Any, at: Any, value: Any) -> Any:
    """array[at] = value."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> None:
        builder.store_atomic(args[2], _address(context, builder, signature, args), "seq_cst", align=8)

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def fetch_add(typingctx: Any, array: Any, at: Any) -> Any:
    """array[at] += 1; returns what it was before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address = _address(context, builder, signature, args)
        return builder.atomic_rmw("add", address, ir.IntType(64)(1), "seq_cst")

    return types.int64(array, types.intp), codegen
