"""Matrix products into existing arrays: by BLAS, or by loops where these are faster."""

from skinnytrees.kernels.compilation import inner_kernel, part
from skinnytrees.kernels.loops import add_combinations, clear, dot_rows
from skinnytrees.kernels.numba_bridge.gemm import add_product_ta, add_product_tb
from skinnytrees.kernels.numba_bridge.views import whole

# Up to this many rows of A'B, and columns of AB', loops were faster than BLAS.
_FEW_ROWS = 24
_FEW_COLUMNS = 8


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
        add_product_tb(A.dtype.type(1), A, B, A.dtype.type(0), C)
    else:
        dot_rows(A, B, C)
