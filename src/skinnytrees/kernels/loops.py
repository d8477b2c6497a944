"""Products that give a few long rows, in plain loops: BLAS rearranges such matrices for longer than it multiplies them.

A row is read and written once for eight multiplications, in pieces of which nine fit the first-level cache.
"""

from skinnytrees.kernels.compilation import inner_kernel, part
from skinnytrees.kernels.numba_bridge.views import in_row, whole

_PIECE = 768


@part
def add_combinations(A, B, C):  # type: ignore[no-untyped-def]
    """C <- C + A B: every row of C takes a combination of the rows of B."""
    _add_combinations(whole(A), whole(B), whole(C))


@part
def clear(C):  # type: ignore[no-untyped-def]
    """C <- 0."""
    for i in range(C.shape[0]):
        row = in_row(C, i, 0, C.shape[1])
        for j in range(row.shape[0]):
            row[j] = 0


@part
def dot_rows(A, B, C):  # type: ignore[no-untyped-def]
    """C <- A B': dot products of the rows of A with the rows of B."""
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            C[i, j] = _dot(in_row(A, i, 0, A.shape[1]), in_row(B, j, 0, B.shape[1]))


@inner_kernel
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for k in range(a.shape[0]):
        total += a[k] * b[k]
    return total


@inner_kernel
def _add_combinations(A, B, C):  # type: ignore[no-untyped-def]
    in_eights = A.shape[1] - A.shape[1] % 8
    for first in range(0, B.shape[1], _PIECE):
        end = min(first + _PIECE, B.shape[1])
        for k in range(0, in_eights, 8):
            for i in range(A.shape[0]):
                _add_eight(
                    A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3],
                    A[i, k + 4], A[i, k + 5], A[i, k + 6], A[i, k + 7],
                    B, k, first, in_row(C, i, first, end),
                )  # fmt: skip
        for k in range(in_eights, A.shape[1]):
            for i in range(A.shape[0]):
                _add_one(A[i, k], in_row(B, k, first, end), in_row(C, i, first, end))


@inner_kernel
def _add_eight(a0, a1, a2, a3, a4, a5, a6, a7, B, k, first, c):  # type: ignore[no-untyped-def]
    end = first + c.shape[0]
    b0, b1 = in_row(B, k, first, end), in_row(B, k + 1, first, end)
    b2, b3 = in_row(B, k + 2, first, end), in_row(B, k + 3, first, end)
    b4, b5 = in_row(B, k + 4, first, end), in_row(B, k + 5, first, end)
    b6, b7 = in_row(B, k + 6, first, end), in_row(B, k + 7, first, end)
    for j in range(c.shape[0]):
        c[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j] + a4 * b4[j] + a5 * b5[j] + a6 * b6[j] + a7 * b7[j]


@inner_kernel
def _add_one(a, b, c):  # type: ignore[no-untyped-def]
    for j in range(c.shape[0]):
        c[j] += a * b[j]
