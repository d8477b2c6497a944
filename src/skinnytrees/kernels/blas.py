"""Matrix products into existing arrays, C <- alpha op(A) op(B) + beta C, straight from scipy's BLAS.

``np.dot`` inside numba has no alpha and beta and copies what is not contiguous. The functions here take any
row-major arrays or blocks of them, which lets a gradient step be the product itself: W <- shrink W - eta X'D.
"""

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import get_cython_function_address, intrinsic

from skinnytrees.kernels.compilation import inner_kernel, part
from skinnytrees.kernels.loops import add_combinations, clear, dot_rows
from skinnytrees.kernels.views import whole

# Registered by name, so that cached machine code finds the routine in every process.
for _precision in "sd":
    llvmlite.binding.add_symbol(
        f"skinnytrees_{_precision}gemm", get_cython_function_address("scipy.linalg.cython_blas", f"{_precision}gemm")
    )

# Up to so many rows of A'B, and columns of AB', loops were faster than BLAS.
_FEW_ROWS = 24
_FEW_COLUMNS = 8


@intrinsic
def add_product(typingctx: Any, alpha: Any, A: Any, B: Any, beta: Any, C: Any) -> Any:
    """C <- alpha A B + beta C."""
    return _gemm(A, B, C, "N", "N")


@intrinsic
def add_product_ta(typingctx: Any, alpha: Any, A: Any, B: Any, beta: Any, C: Any) -> Any:
    """C <- alpha A' B + beta C."""
    return _gemm(A, B, C, "T", "N")


@part
def set_product_ta(A, B, C):  # type: ignore[no-untyped-def]
    """C <- A' B."""
    _set_product_ta(whole(A), whole(B), whole(C))


@inner_kernel
def _set_product_ta(A, B, C):  # type: ignore[no-untyped-def]
    if A.shape[1] > _FEW_ROWS:
        add_product_ta(A.dtype.type(1), A, B, A.dtype.type(0), C)
    else:
        clear(C)
        add_combinations(A.T, B, C)


@inner_kernel
def set_product_tb(A, B, C):  # type: ignore[no-untyped-def]
    """C <- A B'."""
    if B.shape[0] > _FEW_COLUMNS:
        _gemm_tb(A.dtype.type(1), A, B, A.dtype.type(0), C)
    else:
        dot_rows(A, B, C)


@intrinsic
def _gemm_tb(typingctx: Any, alpha: Any, A: Any, B: Any, beta: Any, C: Any) -> Any:
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

        def count(value: Any) -> Any:
            return by_address(builder.trunc(value, ir.IntType(32)))

        def matrix(kind: Any, value: Any) -> tuple[Any, Any, list[Any]]:
            array = context.make_array(kind)(context, builder, value)
            row_stride = builder.extract_value(array.strides, 0)
            per_row = builder.sdiv(row_stride, ir.Constant(row_stride.type, scalar.bitwidth // 8))
            return builder.bitcast(array.data, address), count(per_row), cgutils.unpack_tuple(builder, array.shape)

        a, lda, shape_a = matrix(signature.args[1], A)
        b, ldb, _ = matrix(signature.args[2], B)
        c, ldc, (m, n) = matrix(signature.args[4], C)
        k = shape_a[0 if letter_a == "T" else 1]
        signature_ir = ir.FunctionType(ir.VoidType(), [address] * 13)
        function = cgutils.get_or_insert_function(builder.module, signature_ir, routine)
        # BLAS is column-major and reads a row-major matrix as its transpose: C' = op(B)' op(A)'.
        builder.call(function, [letter(letter_b), letter(letter_a), count(n), count(m), count(k),
                                by_address(alpha), b, ldb, a, lda, by_address(beta), c, ldc])  # fmt: skip

    return types.void(scalar, A, B, scalar, C), codegen
