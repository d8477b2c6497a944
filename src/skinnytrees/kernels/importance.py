"""What a group of columns is worth to a fitted ensemble: the loss without it, and its pull from outside."""

from skinnytrees.kernels.blas import add_product
from skinnytrees.kernels.compilation import kernel, pointer
from skinnytrees.kernels.feature_space import evaluate_ensemble, repeat_row


@kernel
def losses_without(trees, data, functions, work, offsets, out):  # type: ignore[no-untyped-def]
    """For each group, the summed loss with its columns at zero (their mean, where they are centred)."""
    number = trees.W.dtype.type
    piece = work.S.shape[0]
    n_rows = data.X.shape[0]
    for group in range(out.shape[0]):
        out[group] = 0
    for start in range(0, n_rows, piece):
        n = min(piece, n_rows - start)
        X = data.X[start : start + n]
        for i in range(n):
            work.weight[i] = data.weight[start + i]
            for j in range(work.Y.shape[1]):
                work.Y[i, j] = data.Y[start + i, j]
        # work.value is free while nothing runs back up the trees: it keeps w.x + b of the whole ensemble.
        whole = work.value[:n, : trees.W.shape[1]]
        repeat_row(trees.b, whole)
        add_product(number(1), X, trees.W, number(1), whole)
        for group in range(out.shape[0]):
            first, end = offsets[group], offsets[group + 1]
            for i in range(n):
                S, kept = work.S[i], whole[i]
                for j in range(S.shape[0]):
                    S[j] = kept[j]
                for k in range(first, end):
                    x, w = X[i, k], trees.W[k]
                    for j in range(S.shape[0]):
                        S[j] -= x * w[j]
            out[group] += _summed_loss(trees, functions, work, n)


@kernel
def _summed_loss(trees, functions, work, n):  # type: ignore[no-untyped-def]
    evaluate_ensemble(trees, functions, work, n)
    functions.loss(
        pointer(work.F), pointer(work.Y), pointer(work.G), pointer(work.row_loss),
        n, work.F.shape[1], work.Y.shape[1], functions.loss_parameter,
    )  # fmt: skip
    total = 0.0
    for i in range(n):
        total += work.weight[i] * work.row_loss[i]
    return total
