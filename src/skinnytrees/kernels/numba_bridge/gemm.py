"""C <- alpha op(A) op(B) + beta C on row-major arrays and blocks of them, by scipy's BLAS.

Why: ``np.dot`` inside numba has no alpha and beta and copies what is not contiguous. Here a gradient step is the product itself,
W <- shrink W - eta X'D.
"""

import ctypes
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

_BLAS = "scipy.linalg.cython_blas"


def refuse_64_bit_integers(dot: Any) -> None:
    """Raise ImportError if the given BLAS ``ddot`` reads its counts as 64-bit integers; ours are 32-bit ones.

    The count below is 1 as a 32-bit integer, and negative, for which BLAS returns zero at once, as a 64-bit one.
    """
    count, step = np.array([1, -1], dtype=np.int32), np.array([1, 0], dtype=np.int32)
    two, three = np.array([2.0]), np.array([3.0])
    found = dot(count.ctypes.data, two.ctypes.data, step.ctypes.data, three.ctypes.data, step.ctypes.data)
    if found != 6.0:
        raise ImportError(
            f"scipy.linalg.cython_blas does not take 32-bit integers: its dot product of 2 and 3 is {found}. skinnytrees would "
            "read wrong memory. Install a scipy that is built with a BLAS of 32-bit integers (LP64), as the wheels on PyPI are."
        )


_DOT = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_void_p] * 5)
refuse_64_bit_integers(_DOT(get_cython_function_address(_BLAS, "ddot")))

# Registered by name, so that cached machine code finds the routine in every process.
for _precision in "sd":
    _address = get_cython_function_address(_BLAS, f"{_precision}gemm")
    llvmlite.binding.add_symbol(f"skinnytrees_{_precision}gemm", _address)


@intrinsic
def add_product(typingctx: Any, alpha: Any, A: Any, B: Any, beta: Any, C: Any) -> Any:
    """C <- alpha A B + beta C."""
    return _gemm(A, B, C, "N", "N")


@intrinsic
def add_product_ta(typingctx: Any, alpha: Any, A: Any, B: Any, beta: Any, C: Any) -> Any:
    """C <- alpha A' B + beta C."""
    return _gemm(A, B, C, "T", "N")


@intrinsic
def add_product_tb(typingctx: Any, alpha: Any, A: Any, B: Any, beta: Any, C: Any) -> Any:
    """C <- alpha A B' + beta C."""
    return _gemm(A, B, C, "N", "T")


def _gemm(A: Any, B: Any, C: Any, letter_a: str, letter_b: str) -> Any:
    """Signature and code of a call of BLAS gemm on row-major arrays whose last axis is contiguous."""
    scalar = A.dtype
    routine = {types.float32: "skinnytrees_sgemm", types.float64: "skinnytrees_dgemm"}[scalar]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> None:
        alpha, A, B, beta, C = args
        address = ir.IntType(8).as_pointer()

        def by_address(value: Any) -> Any:
            return builder.bitcast(cgutils.alloca_once_value(builder, value), address)

        def letter(value: str) -> Any:
            return by_address(ir.IntType(8)(ord(value)))

        def integer(value: Any) -> Any:
            return by_address(builder.trunc(value, ir.IntType(32)))

        def matrix(kind: Any, value: Any) -> tuple[Any, Any, list[Any]]:
            array = context.make_array(kind)(context, builder, value)
            row_stride = builder.extract_value(array.strides, 0)
            per_row = builder.sdiv(row_stride, ir.Constant(row_stride.type, scalar.bitwidth // 8))
            return builder.bitcast(array.data, address), integer(per_row), cgutils.unpack_tuple(builder, array.shape)

        a, lda, shape_a = matrix(signature.args[1], A)
        b, ldb, _ = matrix(signature.args[2], B)
        c, ldc, (m, n) = matrix(signature.args[4], C)
        k = shape_a[0 if letter_a == "T" else 1]
        signature_ir = ir.FunctionType(ir.VoidType(), [address] * 13)
        function = cgutils.get_or_insert_function(builder.module, signature_ir, routine)
        # BLAS is column-major and reads a row-major matrix as its transpose: C' = op(B)' op(A)'.
        builder.call(function, [letter(letter_b), letter(letter_a), integer(n), integer(m), integer(k),
                                by_address(alpha), b, ldb, a, lda, by_address(beta), c, ldc])  # fmt: skip

    return types.void(scalar, A, B, scalar, C), codegen
