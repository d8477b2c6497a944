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
from skinnytrees.kernels.loops import add_combinations, scale
from skinnytrees.kernels.views import whole

# Registered by name, so that cached machine code finds the routine in every process.
for _precision in "sd":
    llvmlite.binding.add_symbol(
        f"skinnytrees_{_precision}gemm", get_cython_function_address("scipy.linalg.cython_blas", f"{_precision}gemm")
    )

# Up to this many rows of a product X'D, loops were faster than BLAS.
_FEW_ROWS = 24

_AS_IS = ord("N")
_TRANSPOSED = ord("T")


@part
def add_product(alpha, A, B, beta, C):  # type: ignore[no-untyped-def]
    """C <- alpha A B + beta C."""
    _gemm(_AS_IS, A.shape[0], B.shape[1], A.shape[1], alpha, A, B, beta, C)


@part
def add_product_ta(alpha, A, B, beta, C):  # type: ignore[no-untyped-def]
    """C <- alpha A' B + beta C."""
    _add_product_ta(alpha, whole(A), whole(B), beta, whole(C))


@inner_kernel
def _add_product_ta(alpha, A, B, beta, C):  # type: ignore[no-untyped-def]
    if A.shape[1] <= _FEW_ROWS:
        if beta != 1:
            scale(C, beta)
        add_combinations(alpha, A.T, B, C)
    else:
        _gemm(_TRANSPOSED, A.shape[1], B.shape[1], A.shape[0], alpha, A, B, beta, C)


@intrinsic
def _gemm(typingctx: Any, trans_a: Any, m: Any, n: Any, k: Any,
          alpha: Any, A: Any, B: Any, beta: Any, C: Any) -> Any:  # fmt: skip
    """Call BLAS gemm on row-major arrays whose last axis is contiguous."""
    scalar = A.dtype
    routine = {types.float32: "skinnytrees_sgemm", types.float64: "skinnytrees_dgemm"}[scalar]

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> None:
        trans_a, m, n, k, alpha, A, B, beta, C = args
        address = ir.IntType(8).as_pointer()

        def by_address(value: Any) -> Any:
            return builder.bitcast(cgutils.alloca_once_value(builder, value), address)

        def letter(value: Any) -> Any:
            return by_address(builder.trunc(value, ir.IntType(8)))

        def count(value: Any) -> Any:
            return by_address(builder.trunc(value, ir.IntType(32)))

        def matrix(kind: Any, value: Any) -> tuple[Any, Any]:
            array = context.make_array(kind)(context, builder, value)
            row_stride = builder.extract_value(array.strides, 0)
            per_row = builder.sdiv(row_stride, ir.Constant(row_stride.type, scalar.bitwidth // 8))
            return builder.bitcast(array.data, address), count(per_row)

        a, lda = matrix(signature.args[5], A)
        b, ldb = matrix(signature.args[6], B)
        c, ldc = matrix(signature.args[8], C)
        as_is = letter(ir.Constant(ir.IntType(64), _AS_IS))
        signature_ir = ir.FunctionType(ir.VoidType(), [address] * 13)
        function = cgutils.get_or_insert_function(builder.module, signature_ir, routine)
        # BLAS is column-major and reads a row-major matrix as its transpose: C' = B' op(A)'.
        builder.call(function, [as_is, letter(trans_a), count(n), count(m), count(k),
                                by_address(alpha), b, ldb, a, lda, by_address(beta), c, ldc])  # fmt: skip

    int_ = types.int64
    return types.void(int_, int_, int_, int_, scalar, A, B, scalar, C), codegen
