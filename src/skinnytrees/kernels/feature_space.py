"""Steps with the hyperplanes W held explicitly."""

from skinnytrees.kernels.blas import add_product, add_product_ta
from skinnytrees.kernels.compilation import part
from skinnytrees.kernels.copying import gather_rows, repeat_row
from skinnytrees.kernels.prox import threshold_group


@part
def feature_scores(trees, data, work, rows):  # type: ignore[no-untyped-def]
    """Gather the batch into work.X and its w.x + b into work.S."""
    n = rows.shape[0]
    number = trees.b.dtype.type
    gather_rows(data.X, rows, work.X)
    repeat_row(trees.b, work.S[:n])
    add_product(number(1), work.X[:n], trees.W, number(1), work.S[:n])


@part
def proximal_step(W, X, D, shrink, eta, hard, soft, offsets, blocks, in_use):  # type: ignore[no-untyped-def]
    """W <- prox(shrink W - eta X'D), block by block so that a block is thresholded while it is still in the cache."""
    for block in range(blocks.shape[0] - 1):
        first_group, end_group = blocks[block], blocks[block + 1]
        first, end = offsets[first_group], offsets[end_group]
        add_product_ta(-eta, X[:, first:end], D, shrink, W[first:end])
        for group in range(first_group, end_group):
            in_use[group] = threshold_group(W[offsets[group] : offsets[group + 1]], hard, soft)
