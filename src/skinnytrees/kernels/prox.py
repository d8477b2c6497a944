"""The hyperplanes' proximal step, fused: ridge, gradient, group norm and threshold in one pass over W."""

from math import sqrt

from skinnytrees.kernels.blas import add_product_ta
from skinnytrees.kernels.compilation import kernel, part


@kernel
def threshold_group(rows, hard, soft):  # type: ignore[no-untyped-def]
    """Zero the group if its norm is not above ``hard``, else shrink its norm by ``soft``; tell whether it is in use.

    ``hard = sqrt(2 eta lambda0)`` is the prox of the group l0 norm (paper, section 5.1), ``soft = eta lambda`` that of
    the group lasso; with both zero the group stays as it is.
    """
    squares = 0.0
    for k in range(rows.shape[0]):
        row = rows[k]
        partial = rows.dtype.type(0)
        for j in range(row.shape[0]):
            partial += row[j] * row[j]
        squares += partial
    norm = sqrt(squares)
    if norm <= hard or norm <= soft:
        rows.fill(0)
        return False
    if soft > 0:
        factor = rows.dtype.type(1 - soft / norm)
        for k in range(rows.shape[0]):
            row = rows[k]
            for j in range(row.shape[0]):
                row[j] *= factor
    return True


@part
def proximal_step(W, X, D, shrink, eta, hard, soft, offsets, blocks, in_use):  # type: ignore[no-untyped-def]
    """W <- prox(shrink W - eta X'D), block by block so that a block is thresholded while it is still in the cache."""
    for block in range(blocks.shape[0] - 1):
        first_group, end_group = blocks[block], blocks[block + 1]
        first, end = offsets[first_group], offsets[end_group]
        add_product_ta(-eta, X[:, first:end], D, shrink, W[first:end])
        for group in range(first_group, end_group):
            in_use[group] = threshold_group(W[offsets[group] : offsets[group + 1]], hard, soft)
