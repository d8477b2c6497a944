"""One epoch in one compiled call (paper, Algorithm 1), or several, and the evaluation of an ensemble.

There are three kernels: ``train_epochs`` for a fixed support, ``train_active`` where groups enter and leave, ``train_csr`` for
sparse rows. A fit uses one of them, and compiles no more than that. Within one, the arguments decide how to train: with samples
or none, with Adam's moments or none.
"""

from math import isfinite, sqrt

from skinnytrees.kernels.active_set import (
    add_csr_product,
    admit,
    begin_step,
    count_pieces,
    drop_dead,
    gather_batch,
    step_on_csr,
    threshold_groups,
)
from skinnytrees.kernels.blas import set_product_ta, set_product_tb
from skinnytrees.kernels.compilation import inner_kernel, kernel, part
from skinnytrees.kernels.copying import copy_rows, gather_columns, gather_rows, repeat_row
from skinnytrees.kernels.numba_bridge.gemm import add_product, add_product_ta
from skinnytrees.kernels.numba_bridge.pointers import pointer
from skinnytrees.kernels.numba_bridge.views import block_of, rows_of, top
from skinnytrees.kernels.prox import norm_of
from skinnytrees.kernels.routing import ascend, descend
from skinnytrees.kernels.sample_space import sample_scores, sample_step
from skinnytrees.kernels.work_queue import distribute_scores, distribute_step


@kernel
def train_epochs(trees, data, columns, functions, work, samples, moments, schedule, orders, batch_size, l2):  # type: ignore[no-untyped-def]
    """Train at a fixed support: an epoch for each of the ``orders`` of the rows, on the given ``columns`` of X or on all.

    Ends after an epoch whose loss or biases are not finite. Returns how many epochs there were; the last one's loss, summed over
    rows, each as its batch saw it; and, in sample space, the factor by which W0 shrank and the sum and the largest of
    ``eta ||D||``, which bound how far a column's weights moved.
    """
    number = trees.b.dtype.type
    n_splits, n_orders = trees.b.shape[0], orders.shape[0]
    n_steps = schedule.eta.shape[0] // n_orders
    n_epochs, loss, shrinkage, total_step, longest_step = 0, 0.0, 1.0, 0.0, 0.0
    while n_epochs < n_orders:
        loss, shrinkage_here = 0.0, 1.0
        for step in range(n_steps):
            rows = orders[n_epochs, step * batch_size : (step + 1) * batch_size]
            n = rows.shape[0]
            score_batch(trees, data, columns, work, samples, rows)
            loss += route_batch(trees, data, functions, work, rows)
            eta = schedule.eta[n_epochs * n_steps + step]
            shrink = 1 - 2 * eta * l2 / n_splits
            if moments.first.shape[0] > 0:
                set_product_ta(top(work.X, n), top(work.D, n), moments.gradient.W)
                adam_step(trees, work, moments, n, eta, l2)
                continue
            step_on_leaves_and_biases(trees, work, n, eta)
            if samples.K.shape[0] > 0:
                sample_step(samples, work, rows, shrink, eta)
                shrinkage_here *= shrink
                moved = eta * norm_of(top(work.D, n))
                total_step += moved
                longest_step = max(longest_step, moved)
            else:
                add_product_ta(number(-eta), top(work.X, n), top(work.D, n), number(shrink), trees.W)
        shrinkage *= shrinkage_here
        n_epochs += 1
        if not (isfinite(loss) and are_finite(trees.b)):
            break
    return n_epochs, loss, shrinkage, total_step, longest_step


@part
def score_batch(trees, data, columns, work, samples, rows):  # type: ignore[no-untyped-def]
    """Fill work.S with w.x + b."""
    number = trees.b.dtype.type
    n = rows.shape[0]
    if samples.K.shape[0] > 0:
        sample_scores(trees, samples, work, rows)
    else:
        if columns.shape[0] > 0:
            gather_columns(data.X, rows, columns, columns.shape[0], work.X)
        else:
            gather_rows(data.X, rows, work.X)
        repeat_row(trees.b, top(work.S, n))
        add_product(number(1), top(work.X, n), trees.W, number(1), top(work.S, n))


@kernel
def train_active(trees, data, functions, work, active, queue, schedule, order, batch_size, l2):  # type: ignore[no-untyped-def]
    """Train on the rows in ``order`` with a threshold after every step; the summed loss."""
    loss = 0.0
    for step in range(schedule.eta.shape[0]):
        rows = order[step * batch_size : (step + 1) * batch_size]
        n = rows.shape[0]
        gather_batch(trees, data, active, work, rows)
        distribute_scores(queue, count_pieces(n, active.n_alive[1], trees.W.shape[1]), n, trees, active, work)
        eta, hard, soft = schedule.eta[step], schedule.hard[step], schedule.soft[step]
        loss += route_batch(trees, data, functions, work, rows)
        step_on_leaves_and_biases(trees, work, n, eta)
        shrink = 1 - 2 * eta * l2 / trees.b.shape[0]
        n_blocks = begin_step(trees, data, active, work, rows, eta, max(hard, soft))
        distribute_step(queue, n_blocks, n, trees, active, work, shrink, eta, hard, soft)
        drop_dead(active, trees.W)
    return loss


@kernel
def train_csr(trees, data, csr, functions, work, active, moments, schedule, order, batch_size, l2):  # type: ignore[no-untyped-def]
    """The same on sparse rows, or, given Adam's moments, steps of Adam without thresholds."""
    loss = 0.0
    for step in range(schedule.eta.shape[0]):
        rows = order[step * batch_size : (step + 1) * batch_size]
        n = rows.shape[0]
        repeat_row(trees.b, top(work.S, n))
        add_csr_product(csr, rows, active.place, trees.W, work.S)
        loss += route_batch(trees, data, functions, work, rows)
        eta, hard, soft = schedule.eta[step], schedule.hard[step], schedule.soft[step]
        shrink = 1 - 2 * eta * l2 / trees.b.shape[0]
        use_adam = moments.first.shape[0] > 0
        if use_adam:
            W, shrink, rate = moments.gradient.W, 0.0, -1.0
        else:
            W, rate = trees.W, eta
            admit(active, W, top(work.D, n), eta, max(hard, soft))
        step_on_csr(csr, rows, active.place, active.n_alive[1], W, work.D, shrink, rate)
        if use_adam:
            adam_step(trees, work, moments, n, eta, l2)
        else:
            step_on_leaves_and_biases(trees, work, n, eta)
            threshold_groups(W, active, 0, active.n_alive[0], hard, soft)
            drop_dead(active, W)
    return loss


@part
def step_on_leaves_and_biases(trees, work, n, eta):  # type: ignore[no-untyped-def]
    """Plain gradient steps on what has no penalty."""
    number = trees.b.dtype.type
    add_product_ta(number(-eta), top(work.G, n), leaves_of(work.reach, n, trees), number(1), trees.O)
    subtract_column_sums(number(eta), top(work.D, n), trees.b)


@part
def leaves_of(places, n, trees):  # type: ignore[no-untyped-def]
    """The leaves' part of an array over all nodes, for the first n rows."""
    return block_of(places, 0, n, trees.W.shape[1], places.shape[1])


@part
def adam_step(trees, work, moments, n, eta, l2):  # type: ignore[no-untyped-def]
    """One step of Adam; the gradient of W is already there."""
    number = trees.b.dtype.type
    gradient, n_splits = moments.gradient, trees.b.shape[0]
    for j in range(n_splits):
        gradient.b[j] = 0
    subtract_column_sums(number(-1), top(work.D, n), gradient.b)
    set_product_ta(top(work.G, n), leaves_of(work.reach, n, trees), gradient.O)
    moments.steps[0] += 1
    steps = moments.steps[0]
    rate, unbias = eta / (1 - 0.9**steps), 1 / sqrt(1 - 0.999**steps)
    # W comes first and alone has a ridge.
    add_scaled(gradient.flat[: trees.W.size], number(2 * l2 / n_splits), trees.flat)
    _move_by_moments(trees.flat, gradient.flat, moments.first, moments.second, number(rate), number(unbias))


@part
def route_batch(trees, data, functions, work, rows):  # type: ignore[no-untyped-def]
    """From w.x + b in work.S to the gradients work.D and work.G; the batch's summed loss."""
    number = trees.W.dtype.type
    n = rows.shape[0]
    gather_rows(data.Y, rows, work.Y)
    G = top(work.G, n)
    n_trees = trees.O.shape[1] - trees.W.shape[1]  # a perfect tree has one leaf more than it has split nodes
    evaluate_ensemble(trees, functions, work, n)
    functions.loss(
        pointer(work.F), pointer(work.Y), pointer(G), pointer(work.row_loss),
        n, G.shape[1], work.Y.shape[1], functions.loss_parameter,
    )  # fmt: skip
    loss = 0.0
    for i in range(n):
        weight = data.weight[rows[i]]
        loss += weight * work.row_loss[i]
        for c in range(G.shape[1]):
            G[i, c] *= weight * number(1 / n)
    add_product(number(1), G, trees.O, number(0), leaves_of(work.leaf_gradient, n, trees))
    ascend(n, n_trees, work.S, work.reach, work.leaf_gradient, work.D)
    return loss


@part
def evaluate_ensemble(trees, functions, work, n):  # type: ignore[no-untyped-def]
    """From w.x + b in work.S, fill the routing (work.S, work.D = slope, work.reach) and the outputs work.F."""
    n_trees = trees.O.shape[1] - trees.W.shape[1]
    functions.activation(pointer(work.S), pointer(work.D), n * work.S.shape[1], functions.theta)
    descend(n, n_trees, work.S, work.reach)
    set_product_tb(leaves_of(work.reach, n, trees), trees.O, top(work.F, n))


@kernel
def evaluate_scores(trees, Z, lost, W_lost, functions, work, out):  # type: ignore[no-untyped-def]
    """The ensemble's outputs for rows whose w.x + b is Z - lost W_lost, in pieces that fit the workspace."""
    number = Z.dtype.type
    for start in range(0, Z.shape[0], work.S.shape[0]):
        n = min(work.S.shape[0], Z.shape[0] - start)
        copy_rows(Z, start, top(work.S, n))
        add_product(number(-1), rows_of(lost, start, start + n), W_lost, number(1), top(work.S, n))
        evaluate_ensemble(trees, functions, work, n)
        copy_rows(work.F, 0, rows_of(out, start, start + n))


@inner_kernel
def are_finite(values):  # type: ignore[no-untyped-def]
    """Whether no value is infinite or not a number."""
    for value in values:
        if not isfinite(value):
            return False
    return True


@inner_kernel
def subtract_column_sums(eta, D, b):  # type: ignore[no-untyped-def]
    """Subtract the sum over rows: b <- b - eta D'1."""
    for i in range(D.shape[0]):
        row = D[i]
        for j in range(b.shape[0]):
            b[j] -= eta * row[j]


@inner_kernel
def add_scaled(target, factor, source):  # type: ignore[no-untyped-def]
    """Target <- target + factor source, as far as the target goes."""
    for i in range(target.shape[0]):
        target[i] += factor * source[i]


@inner_kernel
def _move_by_moments(flat, gradient, first, second, rate, unbias):  # type: ignore[no-untyped-def]
    number = flat.dtype.type
    for i in range(flat.shape[0]):
        g = gradient[i]
        first[i] = number(0.9) * first[i] + number(0.1) * g
        second[i] = number(0.999) * second[i] + number(0.001) * g * g
        flat[i] -= rate * first[i] / (sqrt(second[i]) * unbias + number(1e-8))
