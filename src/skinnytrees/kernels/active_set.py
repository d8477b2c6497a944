"""Penalised steps whose cost is that of the nonzero groups (exact).

The nonzero rows of W are stored contiguously at its top. A group outside has zero weights, so it adds nothing to the
scores, and a step brings it back only if ``eta ||x' D||`` exceeds the threshold. ``||x' D|| <= ||x|| ||D||`` rules out almost all
of them without reading their columns; the rest join the step with zero weights, and the threshold decides.
"""

from skinnytrees.kernels.compilation import part
from skinnytrees.kernels.copying import gather_columns, repeat_row
from skinnytrees.kernels.numba_bridge.gemm import add_product, add_product_ta
from skinnytrees.kernels.numba_bridge.views import block_of, rows_of, top
from skinnytrees.kernels.prox import norm_of, threshold_group

# Rounding of single precision must not rule out a group: bounds are taken this much larger.
SAFETY = 1.001


# From this many multiplications on, a product is divided into two tasks for several threads, or into four. The division depends
# on the size alone, so the last bits of a result do not depend on the number of threads.
_WORTH_TWO, _WORTH_FOUR = 1e7, 1e8


@part
def gather_batch(trees, data, active, work, rows):  # type: ignore[no-untyped-def]
    """Fill work.S with the biases and work.X with the columns of nonzero groups."""
    repeat_row(trees.b, top(work.S, rows.shape[0]))
    gather_columns(data.X, rows, active.columns, active.n_alive[1], work.X)


@part
def count_pieces(n_rows, n_columns, n_splits):  # type: ignore[no-untyped-def]
    """Into how many tasks the product of the batch with W is divided."""
    n_multiplications = float(n_rows) * n_columns * n_splits
    return 4 if n_multiplications > _WORTH_FOUR else 2 if n_multiplications > _WORTH_TWO else 1


@part
def add_scores(piece, n_pieces, n_rows, trees, active, work):  # type: ignore[no-untyped-def]
    """S <- S + X W for one of the ranges into which the splits are divided."""
    n_splits, n_columns = trees.W.shape[1], active.n_alive[1]
    first, end = piece * n_splits // n_pieces, (piece + 1) * n_splits // n_pieces
    one = trees.W.dtype.type(1)
    X, W = block_of(work.X, 0, n_rows, 0, n_columns), block_of(trees.W, 0, n_columns, first, end)
    add_product(one, X, W, one, block_of(work.S, 0, n_rows, first, end))


@part
def begin_step(trees, data, active, work, rows, eta, limit):  # type: ignore[no-untyped-def]
    """Let groups join that may return, and divide the step into blocks; returns their number."""
    if admit(active, trees.W, top(work.D, rows.shape[0]), eta, limit):
        gather_columns(data.X, rows, active.columns, active.n_alive[1], work.X)
    n_pieces = count_pieces(rows.shape[0], active.n_alive[1], trees.W.shape[1])
    return cut_blocks(active, min(active.columns_per_block, -(-active.n_alive[1] // n_pieces)))


@part
def step_on_blocks(first_block, end_block, n_rows, trees, active, work, shrink, eta, hard, soft):  # type: ignore[no-untyped-def]
    """The gradient step and the threshold; a block is thresholded while it is still in the cache."""
    D, W, starts = top(work.D, n_rows), trees.W, active.starts
    number = W.dtype.type
    for i in range(first_block, end_block):
        first_group, end_group = active.blocks[i], active.blocks[i + 1]
        first, end = starts[first_group], starts[end_group]
        add_product_ta(number(-eta), block_of(work.X, 0, n_rows, first, end), D, number(shrink), rows_of(W, first, end))
        threshold_groups(W, active, first_group, end_group, hard, soft)


@part
def admit(active, W, D, eta, limit):  # type: ignore[no-untyped-def]
    """Let those groups outside join, with zero weights, that this step could lift above the threshold; whether any did."""
    before = active.n_alive[0]
    if before == active.groups.shape[0]:
        return False
    longest_step = eta * norm_of(D) * SAFETY
    for i in range(active.by_return_bound.shape[0]):
        group = active.by_return_bound[i]
        first, end = active.offsets[group], active.offsets[group + 1]
        if active.return_bound[group] * longest_step <= limit:  # written so that NaN lets everything in
            break
        if active.place[first] >= 0:
            continue
        n_groups, row = active.n_alive[0], active.n_alive[1]
        active.groups[n_groups] = group
        for column in range(first, end):
            active.columns[row] = column
            active.place[column] = row
            weights = W[row]
            for j in range(weights.shape[0]):
                weights[j] = 0
            row += 1
        active.starts[n_groups + 1] = row
        active.n_alive[0] = n_groups + 1
        active.n_alive[1] = row
    return active.n_alive[0] > before


@part
def threshold_groups(W, active, first_group, end_group, hard, soft):  # type: ignore[no-untyped-def]
    """Threshold a contiguous range of packed groups and record which of them keep weights; without thresholds, all do."""
    starts, kept = active.starts, active.kept
    for i in range(first_group, end_group):
        own_hard, own_soft = hard * active.hard_factor[active.groups[i]], soft * active.soft_factor[active.groups[i]]
        kept[i] = (own_hard == 0 and own_soft == 0) or threshold_group(
            rows_of(W, starts[i], starts[i + 1]), own_hard, own_soft
        )


@part
def drop_dead(active, W):  # type: ignore[no-untyped-def]
    """Close the gaps that groups without weights leave in the packed rows."""
    n_groups, to_group, to_row = active.n_alive[0], 0, 0
    for i in range(n_groups):
        first, end = active.starts[i], active.starts[i + 1]
        if not active.kept[i]:
            for row in range(first, end):
                active.place[active.columns[row]] = -1
            continue
        if to_row != first:
            for row in range(first, end):
                column, target = active.columns[row], to_row + row - first
                active.columns[target] = column
                active.place[column] = target
                source, place = W[row], W[target]
                for j in range(source.shape[0]):
                    place[j] = source[j]
        active.groups[to_group] = active.groups[i]
        active.starts[to_group] = to_row
        to_group += 1
        to_row += end - first
    active.starts[to_group] = to_row
    active.n_alive[0] = to_group
    active.n_alive[1] = to_row


@part
def cut_blocks(active, columns_per_block):  # type: ignore[no-untyped-def]
    """Divide the packed groups into ranges of about this many columns, no group in two; returns their number."""
    n_blocks, first = 0, 0
    for i in range(active.n_alive[0]):
        if active.starts[i + 1] - first > columns_per_block and active.starts[i] > first:
            n_blocks += 1
            active.blocks[n_blocks] = i
            first = active.starts[i]
    if active.n_alive[0] == 0:
        return 0
    active.blocks[n_blocks + 1] = active.n_alive[0]
    return n_blocks + 1


@part
def add_csr_product(csr, rows, place, W, S):  # type: ignore[no-untyped-def]
    """S <- S + X W for the rows of a sparse X."""
    for i in range(rows.shape[0]):
        total = S[i]
        for cell in range(csr.starts[rows[i]], csr.starts[rows[i] + 1]):
            row = place[csr.columns[cell]]
            if row >= 0:
                value, weights = csr.values[cell], W[row]
                for j in range(weights.shape[0]):
                    total[j] += value * weights[j]


@part
def step_on_csr(csr, rows, place, n_columns, W, D, shrink, eta):  # type: ignore[no-untyped-def]
    """W <- shrink W - eta X'D for the rows of a sparse X."""
    number = W.dtype.type
    factor = number(shrink)
    for row in range(n_columns):
        weights = W[row]
        for j in range(weights.shape[0]):
            weights[j] *= factor
    for i in range(rows.shape[0]):
        gradient = D[i]
        for cell in range(csr.starts[rows[i]], csr.starts[rows[i] + 1]):
            row = place[csr.columns[cell]]
            if row >= 0:
                step, weights = number(eta) * csr.values[cell], W[row]
                for j in range(weights.shape[0]):
                    weights[j] -= step * gradient[j]
