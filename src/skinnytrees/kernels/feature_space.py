"""Steps with the hyperplanes W held explicitly, at the cost of the groups that are alive (exact).

The rows of W that are not zero stand packed at its top. A group outside has zero weights, so it adds nothing to the
scores, and a step brings it back only if ``eta ||x' D||`` exceeds the threshold. ``||x' D|| <= ||x|| ||D||`` rules out
almost all of them without a look at their columns; the rest join the step with zero weights, and the threshold decides.
"""

from math import sqrt

from skinnytrees.kernels.blas import add_product, add_product_ta
from skinnytrees.kernels.compilation import kernel, part
from skinnytrees.kernels.copying import gather_rows, repeat_row
from skinnytrees.kernels.prox import threshold_group

# Rounding of single precision must not rule out a group: bounds are taken this much larger.
_SAFETY = 1.001


# Above this many multiplications, a product is cut into pieces that threads can share. The cut depends on the size alone,
# so the last bits of a result do not depend on the number of threads.
_WORTH_CUTTING = 1e8
_PIECES = 4


@part
def feature_scores(trees, data, cells, active, work, rows):  # type: ignore[no-untyped-def]
    """Fill work.S with the batch's w.x + b; dense data is gathered into work.X on the way."""
    gather_batch(trees, data, cells, active, work, rows)
    n_pieces = count_pieces(rows.shape[0], trees, cells, active)
    for piece in range(n_pieces):
        add_scores(piece, n_pieces, rows.shape[0], trees, active, work)


@part
def feature_step(trees, data, cells, active, work, rows, shrink, eta, hard, soft):  # type: ignore[no-untyped-def]
    """W <- prox(shrink W - eta X'D)."""
    n_blocks = begin_step(trees, data, cells, active, work, rows, shrink, eta, max(hard, soft))
    step_on_blocks(0, n_blocks, rows.shape[0], trees, cells, active, work, shrink, eta, hard, soft)
    if hard > 0 or soft > 0:
        drop_dead(active, trees.W)


@kernel
def gather_batch(trees, data, cells, active, work, rows):  # type: ignore[no-untyped-def]
    """Fill work.S with the biases and, for sparse data, their scores; work.X with the alive columns of dense data."""
    repeat_row(trees.b, work.S[: rows.shape[0]])
    if cells.starts.shape[0] > 0:
        _add_cells_product(cells, rows, active.place, trees.W, work.S)
    else:
        _gather(data.X, rows, active, 0, work.X)


@kernel
def count_pieces(n_rows, trees, cells, active):  # type: ignore[no-untyped-def]
    """Into how many pieces the product of dense data with W is cut."""
    if cells.starts.shape[0] > 0:
        return 0
    size = float(n_rows) * active.n_alive[1] * trees.W.shape[1]
    return _PIECES if size > _WORTH_CUTTING else 1


@kernel
def add_scores(piece, n_pieces, n_rows, trees, active, work):  # type: ignore[no-untyped-def]
    """S <- S + X W for one of the pieces into which the splits are cut."""
    n_splits, n_columns = trees.W.shape[1], active.n_alive[1]
    first, end = piece * n_splits // n_pieces, (piece + 1) * n_splits // n_pieces
    one = trees.W.dtype.type(1)
    add_product(one, work.X[:n_rows, :n_columns], trees.W[:n_columns, first:end], one, work.S[:n_rows, first:end])


@kernel
def begin_step(trees, data, cells, active, work, rows, shrink, eta, limit):  # type: ignore[no-untyped-def]
    """Let groups join that may return, and cut the step into blocks: how many there are."""
    before = active.n_alive[1]
    if active.n_alive[0] < active.groups.shape[0]:
        admit(active, trees.W, eta * _norm(work.D[: rows.shape[0]]), limit)
    if cells.starts.shape[0] > 0:
        step_on_cells(cells, rows, active, trees.W, work.D, shrink, eta)
    elif active.n_alive[1] > before:
        _gather(data.X, rows, active, before, work.X)
    return cut_blocks(active)


@kernel
def step_on_blocks(first_block, end_block, n_rows, trees, cells, active, work, shrink, eta, hard, soft):  # type: ignore[no-untyped-def]
    """The gradient step on dense data, and the threshold; a block is thresholded while it is still in the cache."""
    X, D, W, starts = work.X[:n_rows], work.D[:n_rows], trees.W, active.starts
    number = W.dtype.type
    for block in range(first_block, end_block):
        first_group, end_group = active.blocks[block], active.blocks[block + 1]
        first, end = starts[first_group], starts[end_group]
        if cells.starts.shape[0] == 0:
            add_product_ta(number(-eta), X[:, first:end], D, number(shrink), W[first:end])
        if hard > 0 or soft > 0:
            for i in range(first_group, end_group):
                active.kept[i] = threshold_group(W[starts[i] : starts[i + 1]], hard, soft)


@kernel
def admit(active, W, longest_step, limit):  # type: ignore[no-untyped-def]
    """Let those groups outside join, with zero weights, that a step of this length could lift above the threshold."""
    for i in range(active.by_size.shape[0]):
        group = active.by_size[i]
        first, end = active.offsets[group], active.offsets[group + 1]
        if active.size[group] * longest_step * _SAFETY <= limit:  # written so that NaN lets everything in
            return
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


@kernel
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
                _move_row(active, W, row, to_row + row - first)
        active.groups[to_group] = active.groups[i]
        active.starts[to_group] = to_row
        to_group += 1
        to_row += end - first
    active.starts[to_group] = to_row
    if to_group < n_groups:
        active.n_alive[0] = to_group
        active.n_alive[1] = to_row
        active.n_alive[2] = 1


@kernel
def _move_row(active, W, row, target):  # type: ignore[no-untyped-def]
    column = active.columns[row]
    active.columns[target] = column
    active.place[column] = target
    source, place = W[row], W[target]
    for j in range(source.shape[0]):
        place[j] = source[j]


@kernel
def cut_blocks(active):  # type: ignore[no-untyped-def]
    """Cut the packed groups into runs that fit the cache, a group never in two; how many runs there are."""
    n_blocks, first = 0, 0
    for i in range(active.n_alive[0]):
        if active.starts[i + 1] - first > active.columns_a_block and active.starts[i] > first:
            n_blocks += 1
            active.blocks[n_blocks] = i
            first = active.starts[i]
    if active.n_alive[0] == 0:
        return 0
    active.blocks[n_blocks + 1] = active.n_alive[0]
    return n_blocks + 1


@kernel
def _gather(X, rows, active, first, target):  # type: ignore[no-untyped-def]
    """Copy the batch's values of the packed columns from ``first`` on."""
    n_columns = active.n_alive[1]
    if active.n_alive[2] == 0:
        gather_rows(X, rows, target)
        return
    for i in range(rows.shape[0]):
        row, place = X[rows[i]], target[i]
        for j in range(first, n_columns):
            place[j] = row[active.columns[j]]


@kernel
def _add_cells_product(cells, rows, place, W, S):  # type: ignore[no-untyped-def]
    """S <- S + X W for the rows of a sparse X."""
    for i in range(rows.shape[0]):
        total = S[i]
        for cell in range(cells.starts[rows[i]], cells.starts[rows[i] + 1]):
            row = place[cells.columns[cell]]
            if row >= 0:
                value, weights = cells.values[cell], W[row]
                for j in range(weights.shape[0]):
                    total[j] += value * weights[j]


@kernel
def step_on_cells(cells, rows, active, W, D, shrink, eta):  # type: ignore[no-untyped-def]
    """W <- shrink W - eta X'D for the rows of a sparse X."""
    number = W.dtype.type
    factor = number(shrink)
    for row in range(active.n_alive[1]):
        weights = W[row]
        for j in range(weights.shape[0]):
            weights[j] *= factor
    for i in range(rows.shape[0]):
        gradient = D[i]
        for cell in range(cells.starts[rows[i]], cells.starts[rows[i] + 1]):
            row = active.place[cells.columns[cell]]
            if row >= 0:
                step, weights = number(eta) * cells.values[cell], W[row]
                for j in range(weights.shape[0]):
                    weights[j] -= step * gradient[j]


@kernel
def _norm(D):  # type: ignore[no-untyped-def]
    squares = 0.0
    for i in range(D.shape[0]):
        row = D[i]
        partial = D.dtype.type(0)
        for j in range(row.shape[0]):
            partial += row[j] * row[j]
        squares += partial
    return sqrt(squares)
