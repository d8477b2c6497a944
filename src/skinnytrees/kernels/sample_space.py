"""Steps for wide data, in the space of the samples: exactly those of feature space without a threshold.

While no group is thresholded, W = shrinkage W0 + X'A. A step needs only Z = XW for all rows and K = XX', so it costs as many
multiplications per row as there are rows, not as there are columns. W is formed when it is asked for.
"""

from skinnytrees.kernels.compilation import kernel, part
from skinnytrees.kernels.copying import gather_rows
from skinnytrees.kernels.numba_bridge.gemm import add_product_ta
from skinnytrees.kernels.numba_bridge.views import top


@kernel
def add_gram(starts, rows, values, K):  # type: ignore[no-untyped-def]
    """K <- K + XX' above the diagonal and on it; column c of X has ``values[starts[c]:starts[c + 1]]`` in rising ``rows``."""
    for column in range(starts.shape[0] - 1):
        for i in range(starts[column], starts[column + 1]):
            products, value = K[rows[i]], values[i]
            for j in range(i, starts[column + 1]):
                products[rows[j]] += value * values[j]


@part
def sample_scores(trees, samples, work, rows):  # type: ignore[no-untyped-def]
    """Gather the batch's rows of K into work.X and its w.x + b into work.S."""
    gather_rows(samples.K, rows, work.X)
    gather_rows(samples.Z, rows, work.S)
    for i in range(rows.shape[0]):
        for j in range(trees.b.shape[0]):
            work.S[i, j] += trees.b[j]


@part
def sample_step(samples, work, rows, shrink, eta):  # type: ignore[no-untyped-def]
    """Z <- shrink Z - eta K D, and the same step on A."""
    n = rows.shape[0]
    number = work.S.dtype.type
    add_product_ta(number(-eta), top(work.X, n), top(work.D, n), number(shrink), samples.Z)
    _shrink_and_scatter(samples.A, rows, work.D, number(shrink), number(eta))


@part
def _shrink_and_scatter(A, rows, D, shrink, eta):  # type: ignore[no-untyped-def]
    """A <- shrink A, then subtract eta D from the batch's rows."""
    for i in range(A.shape[0]):
        row = A[i]
        for j in range(row.shape[0]):
            row[j] *= shrink
    for i in range(rows.shape[0]):
        row, change = A[rows[i]], D[i]
        for j in range(row.shape[0]):
            row[j] -= eta * change[j]
