"""What a group of columns is worth to a fitted ensemble: the loss without it, and how it pulls from outside."""

from skinnytrees.kernels.compilation import kernel, pointer
from skinnytrees.kernels.feature_space import batch_gradients, evaluate_ensemble


@kernel
def loss_without(trees, Z, R, W_group, data, functions, work):  # type: ignore[no-untyped-def]
    """Summed loss of all rows when their w.x + b is Z - R W_group: R is what the ensemble loses of the group's columns."""
    piece = work.S.shape[0]
    n_rows, width = Z.shape
    total = 0.0
    for start in range(0, n_rows, piece):
        n = min(piece, n_rows - start)
        for i in range(n):
            S, whole = work.S[i], Z[start + i]
            for j in range(width):
                S[j] = whole[j]
            for k in range(R.shape[1]):
                _subtract_multiple(R[start + i, k], W_group[k], S)
            work.weight[i] = data.weight[start + i]
            for c in range(work.Y.shape[1]):
                work.Y[i, c] = data.Y[start + i, c]
        evaluate_ensemble(trees, functions, work, n)
        functions.loss(
            pointer(work.F), pointer(work.Y), pointer(work.G), pointer(work.row_loss),
            n, work.F.shape[1], work.Y.shape[1], functions.loss_parameter,
        )  # fmt: skip
        for i in range(n):
            total += work.weight[i] * work.row_loss[i]
    return total


@kernel
def _subtract_multiple(factor, row, target):  # type: ignore[no-untyped-def]
    for j in range(target.shape[0]):
        target[j] -= factor * row[j]


@kernel
def split_gradients(trees, data, functions, work, rows):  # type: ignore[no-untyped-def]
    """Fill work.D with the gradient of the rows' mean loss with respect to w.x + b at every split."""
    batch_gradients(trees, data, functions, work, rows)
