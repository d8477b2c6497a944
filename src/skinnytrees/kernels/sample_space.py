"""One epoch for wide data, in the space of the samples: exactly the steps of ``sgd_epoch`` without a threshold.

While no group is thresholded, W = shrinkage W0 + X'A. A step needs only Z = XW for all rows and K = XX', so it costs as
many multiplications a row as there are rows, not as there are columns. W is formed when it is asked for.
"""

from skinnytrees.kernels.blas import add_product_ta
from skinnytrees.kernels.compilation import kernel
from skinnytrees.kernels.feature_space import gather_rows, route_batch, subtract_column_sums


@kernel
def sample_space_epoch(trees, data, functions, work, samples, schedule, order, batch_size, l2):  # type: ignore[no-untyped-def]
    """SGD over the rows in ``order``; trees.W is left alone. Returns the summed loss and W0's shrinkage."""
    number = trees.b.dtype.type
    n_splits = trees.b.shape[0]
    loss, shrinkage = 0.0, 1.0
    for step in range(schedule.eta.shape[0]):
        rows = order[step * batch_size : (step + 1) * batch_size]
        n = rows.shape[0]
        gather_rows(samples.Z, rows, work.S)
        gather_rows(data.Y, rows, work.Y)
        gather_rows(samples.K, rows, work.X)
        for i in range(n):
            work.weight[i] = data.weight[rows[i]]
            for j in range(n_splits):
                work.S[i, j] += trees.b[j]
        loss += route_batch(trees, functions, work, n)
        eta = schedule.eta[step]
        shrink = 1 - 2 * eta * l2 / n_splits
        shrinkage *= shrink
        add_product_ta(number(-eta), work.reach[:n, n_splits:], work.G[:n], number(1), trees.O)
        subtract_column_sums(number(eta), work.D[:n], trees.b)
        add_product_ta(number(-eta), work.X[:n], work.D[:n], number(shrink), samples.Z)
        _shrink_and_scatter(samples.A, rows, work.D, number(shrink), number(eta))
    return loss, shrinkage


@kernel
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
