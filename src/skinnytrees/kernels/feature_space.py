"""One epoch in one compiled call, with the hyperplanes W held explicitly (paper, Algorithm 1)."""

from math import sqrt

from skinnytrees.kernels.blas import add_product, add_product_ta, add_product_tb
from skinnytrees.kernels.compilation import kernel, part, pointer
from skinnytrees.kernels.prox import proximal_step
from skinnytrees.kernels.routing import ascend, descend


@kernel
def sgd_epoch(trees, data, functions, work, groups, schedule, order, batch_size, l2):  # type: ignore[no-untyped-def]
    """Algorithm 1 over the rows in ``order``; returns the summed loss of all rows, each as its batch saw it."""
    number = trees.W.dtype.type
    loss = 0.0
    for step in range(schedule.eta.shape[0]):
        rows = order[step * batch_size : (step + 1) * batch_size]
        n = rows.shape[0]
        loss += batch_gradients(trees, data, functions, work, rows)
        eta = schedule.eta[step]
        shrink = 1 - 2 * eta * l2 / trees.W.shape[1]
        leaves = work.reach[:n, trees.W.shape[1] :]
        add_product_ta(number(-eta), leaves, work.G[:n], number(1), trees.O)
        subtract_column_sums(number(eta), work.D[:n], trees.b)
        proximal_step(
            trees.W, work.X[:n], work.D[:n], number(shrink), number(eta), schedule.hard[step], schedule.soft[step],
            groups.offsets, groups.blocks, groups.in_use,
        )  # fmt: skip
    return loss


@kernel
def adam_epoch(trees, data, functions, work, moments, schedule, order, batch_size, l2):  # type: ignore[no-untyped-def]
    """Adam at a fixed support: as ``sgd_epoch`` without a prox, each weight with a rate of its own."""
    number = trees.W.dtype.type
    gradient = moments.gradient
    loss = 0.0
    for step in range(schedule.eta.shape[0]):
        rows = order[step * batch_size : (step + 1) * batch_size]
        n = rows.shape[0]
        loss += batch_gradients(trees, data, functions, work, rows)
        leaves = work.reach[:n, trees.W.shape[1] :]
        add_product_ta(number(1), work.X[:n], work.D[:n], number(0), gradient.W)
        gradient.b.fill(0)
        subtract_column_sums(number(-1), work.D[:n], gradient.b)
        add_product_ta(number(1), leaves, work.G[:n], number(0), gradient.O)
        _adam_step(trees, gradient.flat, moments, schedule.eta[step], number(2 * l2 / trees.W.shape[1]))
    return loss


@part
def batch_gradients(trees, data, functions, work, rows):  # type: ignore[no-untyped-def]
    """Run a batch forward and back: fills work.reach, work.G and work.D (mean over the batch), returns the summed loss."""
    n = rows.shape[0]
    X = work.X[:n]
    gather_rows(data.X, rows, X)
    gather_rows(data.Y, rows, work.Y)
    for i in range(n):
        work.weight[i] = data.weight[rows[i]]
    number = X.dtype.type
    repeat_row(trees.b, work.S[:n])
    add_product(number(1), X, trees.W, number(1), work.S[:n])
    return route_batch(trees, functions, work, n)


@part
def route_batch(trees, functions, work, n):  # type: ignore[no-untyped-def]
    """The part of a step that lies between the two products with the data: needs w.x + b in work.S."""
    number = trees.W.dtype.type
    S, reach, value, G = work.S[:n], work.reach[:n], work.value[:n], work.G[:n]
    n_trees = trees.O.shape[0] - trees.W.shape[1]  # a perfect tree has one leaf more than it has split nodes
    leaves_at = trees.W.shape[1]
    evaluate_ensemble(trees, functions, work, n)
    functions.loss(
        pointer(work.F), pointer(work.Y), pointer(G), pointer(work.row_loss),
        n, G.shape[1], work.Y.shape[1], functions.loss_parameter,
    )  # fmt: skip
    loss = 0.0
    for i in range(n):
        loss += work.weight[i] * work.row_loss[i]
        for c in range(G.shape[1]):
            G[i, c] *= work.weight[i] * number(1 / n)
    add_product_tb(number(1), G, trees.O, number(0), value[:, leaves_at:])
    ascend(S, reach, work.alive, n_trees, value, work.D[:n])
    return loss


@part
def evaluate_ensemble(trees, functions, work, n):  # type: ignore[no-untyped-def]
    """From w.x + b in work.S, fill the routing (work.S, work.D = slope, work.reach) and the outputs work.F."""
    number = trees.W.dtype.type
    S, reach = work.S[:n], work.reach[:n]
    n_trees = trees.O.shape[0] - trees.W.shape[1]
    functions.activation(pointer(work.S), pointer(work.D), n * S.shape[1], functions.theta)
    descend(S, n_trees, reach, work.alive)
    add_product(number(1), reach[:, trees.W.shape[1] :], trees.O, number(0), work.F[:n])


@kernel
def evaluate_rows(trees, X, functions, work, out):  # type: ignore[no-untyped-def]
    """The ensemble's outputs for all rows of X, in pieces that fit the workspace."""
    number = trees.W.dtype.type
    piece = work.S.shape[0]
    for start in range(0, X.shape[0], piece):
        n = min(piece, X.shape[0] - start)
        repeat_row(trees.b, work.S[:n])
        add_product(number(1), X[start : start + n], trees.W, number(1), work.S[:n])
        evaluate_ensemble(trees, functions, work, n)
        for i in range(n):
            for c in range(out.shape[1]):
                out[start + i, c] = work.F[i, c]


@kernel
def gather_rows(source, rows, target):  # type: ignore[no-untyped-def]
    """Copy the given rows to the top of ``target``; loops, because array assignments take seconds to compile."""
    for i in range(rows.shape[0]):
        row, place = source[rows[i]], target[i]
        for j in range(source.shape[1]):
            place[j] = row[j]


@kernel
def repeat_row(row, target):  # type: ignore[no-untyped-def]
    """Fill every row of ``target`` with the same row."""
    for i in range(target.shape[0]):
        place = target[i]
        for j in range(row.shape[0]):
            place[j] = row[j]


@kernel
def subtract_column_sums(eta, D, b):  # type: ignore[no-untyped-def]
    """Subtract the sum over rows: b <- b - eta D'1."""
    for i in range(D.shape[0]):
        row = D[i]
        for j in range(b.shape[0]):
            b[j] -= eta * row[j]


@kernel
def _adam_step(trees, gradient, moments, eta, ridge):  # type: ignore[no-untyped-def]
    flat, first, second = trees.flat, moments.first, moments.second
    number = flat.dtype.type
    moments.steps[0] += 1
    steps = moments.steps[0]
    keep_first, add_first = number(0.9), number(0.1)
    keep_second, add_second = number(0.999), number(0.001)
    rate, unbias = number(eta / (1 - 0.9**steps)), number(1 / sqrt(1 - 0.999**steps))
    tiny = number(1e-8)
    for i in range(trees.W.size):  # the hyperplanes come first and alone carry the ridge
        gradient[i] += ridge * flat[i]
    for i in range(flat.shape[0]):
        g = gradient[i]
        first[i] = keep_first * first[i] + add_first * g
        second[i] = keep_second * second[i] + add_second * g * g
        flat[i] -= rate * first[i] / (sqrt(second[i]) * unbias + tiny)
