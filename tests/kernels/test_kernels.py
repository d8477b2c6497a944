"""The compiled epochs against central differences, the NumPy reference and torch."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import reference
from numba import njit
from reference import LOSSES, Ensemble, central_differences, random_data, random_trees, single_columns
from scipy import sparse

from skinnytrees.activations import Sigmoid, SmoothStep
from skinnytrees.kernels.active_set import cut_blocks
from skinnytrees.kernels.blas import set_product_ta, set_product_tb
from skinnytrees.kernels.epoch import evaluate_scores
from skinnytrees.kernels.numba_bridge.gemm import add_product, add_product_ta
from skinnytrees.kernels.state import Data, make_active, make_workspace, start_trees, view_trees
from skinnytrees.losses import Huber, Multinomial, Poisson, SquaredError
from skinnytrees.optimizers import SGD, Adam, FixedSupportSGD
from skinnytrees.penalties import GroupL0, GroupLasso, NoPenalty
from skinnytrees.training.epoch_runners.sample_space import gram_matrix
from skinnytrees.training.loop import TrainingSettings, evaluate, mean_loss, run_epochs, train

EVERY_LOSS = pytest.mark.parametrize(("loss", "n_outputs"), LOSSES.values(), ids=LOSSES.keys())
EVERY_ACTIVATION = pytest.mark.parametrize(
    "activation", [Sigmoid(theta=0.8), SmoothStep(theta=1.7)], ids=lambda a: a.name
)


def settings_of(loss=None, activation=None, **changes) -> TrainingSettings:
    plain = TrainingSettings(
        loss or SquaredError(), activation or Sigmoid(), n_epochs=1, batch_size=10**6, learning_rate=1.0, l2=0.0
    )
    return replace(plain, **changes)


def compiled_gradient(trees, data, loss, activation) -> np.ndarray:
    """What one step over all rows takes away, at a rate so large that the weights' own rounding is of no account."""
    moved = trees.copy()
    settings = settings_of(loss, activation, learning_rate=64.0)
    train(moved, data, single_columns(len(trees.W)), settings, np.random.default_rng(0))
    return (trees.flat - moved.flat) / 64


def relative_error(ours, theirs) -> float:
    return np.linalg.norm(ours - theirs) / np.linalg.norm(theirs)


# ------------------------------------------------------------------------------------------------ gradients


@EVERY_LOSS
@EVERY_ACTIVATION
def test_gradient_of_the_ensemble_is_the_derivative_of_its_mean_loss(loss, n_outputs, activation):
    rng = np.random.default_rng(1)
    trees, data = random_trees(4, n_outputs, rng), random_data(loss, 23, 4, n_outputs, rng)
    functions = settings_of(loss, activation).functions(np.float64)

    def loss_at(flat):
        return mean_loss(view_trees(flat, *trees.W.shape, trees.O.shape), data, functions)

    ours = compiled_gradient(trees, data, loss, activation)
    theirs = central_differences(loss_at, trees.flat)
    for part in np.split(np.arange(len(ours)), [trees.W.size, trees.W.size + trees.b.size]):
        assert relative_error(ours[part], theirs[part]) < 1e-6


@EVERY_LOSS
@EVERY_ACTIVATION
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-6)])
def test_outputs_and_gradient_of_the_ensemble_are_those_of_the_reference(loss, n_outputs, activation, dtype, tolerance):
    rng = np.random.default_rng(2)
    trees, data = random_trees(4, n_outputs, rng, depth=3, dtype=dtype), random_data(loss, 70, 4, n_outputs, rng, dtype)
    ensemble, exact = Ensemble.of(trees), Data(*(part.astype(np.float64) for part in data))
    functions = settings_of(loss, activation).functions(dtype)
    expected_loss, expected = reference.gradients(ensemble, exact, loss, activation)
    assert (
        relative_error(evaluate(trees, data.X, functions), reference.predict(ensemble, exact.X, activation)) < tolerance
    )
    assert mean_loss(trees, data, functions) == pytest.approx(expected_loss, rel=tolerance)
    assert relative_error(compiled_gradient(trees, data, loss, activation), expected.flat()) < tolerance


@pytest.mark.parametrize(("depth", "n_trees", "n_rows"), [(1, 1, 1), (1, 5, 64), (2, 1, 65), (4, 7, 130), (5, 2, 3)])
def test_every_shape_of_ensemble_is_evaluated_as_defined(depth, n_trees, n_rows):
    rng = np.random.default_rng(3)
    trees = random_trees(3, 2, rng, n_trees=n_trees, depth=depth)
    X = rng.normal(size=(n_rows, 3))
    ours = evaluate(trees, X, settings_of().functions(np.float64))
    np.testing.assert_allclose(ours, reference.predict(Ensemble.of(trees), X, Sigmoid()), rtol=1e-12, atol=1e-13)


def test_ensemble_without_any_column_left_predicts_from_its_biases():
    rng = np.random.default_rng(4)
    trees = random_trees(3, 2, rng).select(np.array([], dtype=np.intp))
    ours = evaluate(trees, np.empty((5, 0)), settings_of().functions(np.float64))
    np.testing.assert_allclose(ours, reference.predict(Ensemble.of(trees), np.empty((5, 0)), Sigmoid()))


def test_ensemble_on_selected_columns_equals_the_whole_one_with_the_others_zero():
    rng = np.random.default_rng(5)
    trees, X = random_trees(5, 1, rng), rng.normal(size=(9, 5))
    trees.W[[0, 2, 3]] = 0
    functions = settings_of().functions(np.float64)
    columns = np.array([1, 4])
    few = evaluate(trees.select(columns), np.ascontiguousarray(X[:, columns]), functions)
    np.testing.assert_allclose(few, evaluate(trees, X, functions), rtol=1e-13)


# ------------------------------------------------------------------------------------------------ training


PENALTIES = {
    "none": NoPenalty(),
    "constant l0": GroupL0(gamma=0.15),
    "annealed l0": GroupL0(gamma=0.6, rate=0.03),
    "lasso": GroupLasso(lam=0.7),
}


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
@pytest.mark.parametrize("offsets", [np.arange(7), np.array([0, 2, 3, 6])], ids=["columns", "groups"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 2e-5)])
def test_proximal_training_follows_algorithm_1(penalty, offsets, dtype, tolerance):
    ours, theirs, in_use = train_both(penalty, offsets, SGD(), dtype)
    assert relative_error(ours.flat, theirs.flat()) < tolerance
    used = [theirs.W[..., first:end].any() for first, end in pairwise(offsets)]
    assert in_use == sum(used)
    assert isinstance(penalty, NoPenalty) or 0 < in_use < len(used), "the case should zero some groups and keep some"
    for group, is_used in enumerate(used):
        assert ours.W[offsets[group] : offsets[group + 1]].any() == is_used


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 5e-5)])
def test_adam_follows_its_definition(dtype, tolerance):
    ours, theirs, _ = train_both(NoPenalty(), np.arange(7), Adam(), dtype)
    assert relative_error(ours.flat, theirs.flat()) < tolerance


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 2e-5)])
@pytest.mark.parametrize("n_columns", [10, 60], ids=["feature space", "sample space"])
@pytest.mark.parametrize("sync_every_epoch", [True, False])
def test_training_at_a_fixed_support_takes_plain_gradient_steps(dtype, tolerance, n_columns, sync_every_epoch):
    rng = np.random.default_rng(6)
    trees, data = (
        random_trees(n_columns, 2, rng, dtype=dtype),
        random_data(SquaredError(), 30, n_columns, 2, rng, dtype),
    )
    settings = settings_of(n_epochs=4, batch_size=8, learning_rate=0.1, l2=0.3)
    exact = Data(*(part.astype(np.float64) for part in data))
    offsets = single_columns(n_columns)
    theirs, losses = reference.train(Ensemble.of(trees), exact, offsets, settings, np.random.default_rng(7))
    settings = replace(settings, optimizer=FixedSupportSGD())
    ours = []
    for loss, _, run in run_epochs(trees, data, offsets, settings, np.random.default_rng(7)):
        ours.append(loss)
        if sync_every_epoch:
            run.sync()
    run.sync()
    assert relative_error(trees.flat, theirs.flat()) < tolerance
    np.testing.assert_allclose(ours, losses, rtol=tolerance)


@EVERY_LOSS
@pytest.mark.parametrize("theta", [0.02, 1.0])
def test_skipping_dead_nodes_changes_nothing(loss, n_outputs, theta):
    """The reference visits every node; a workspace used for many batches must not remember what it skipped."""
    ours, theirs, _ = train_both(
        GroupL0(gamma=0.05), np.arange(7), SGD(), np.float64, loss, n_outputs, SmoothStep(theta)
    )
    assert relative_error(ours.flat, theirs.flat()) < 1e-9


def train_both(penalty, offsets, optimizer, dtype, loss=None, n_outputs=2, activation=None):
    """Five epochs over 50 weighted rows in batches of 16, 16, 16 and 2, compiled and by the reference."""
    settings = settings_of(
        loss, activation, n_epochs=5, batch_size=16, learning_rate=0.1, l2=0.3, penalty=penalty, optimizer=optimizer
    )
    rng = np.random.default_rng(8)
    trees = random_trees(6, n_outputs, rng, depth=3, dtype=dtype)
    trees.W[:] *= np.array([[0.02], [0.05], [0.3], [0.05], [0.6], [1.0]], dtype=dtype)  # some groups are near zero
    data = random_data(settings.loss, 50, 6, n_outputs, rng, dtype)
    exact = Data(*(part.astype(np.float64) for part in data))
    theirs, losses = reference.train(Ensemble.of(trees), exact, offsets, settings, np.random.default_rng(9))
    reports = train(trees, data, offsets, settings, np.random.default_rng(9))
    np.testing.assert_allclose([report.loss for report in reports], losses, rtol=1e-9 if dtype == np.float64 else 1e-4)
    return trees, theirs, reports[-1].n_features


def test_sample_reaches_one_leaf_of_every_tree_with_a_narrow_smooth_step():
    rng = np.random.default_rng(10)
    trees, data = random_trees(3, 1, rng, depth=3), random_data(SquaredError(), 8, 3, 1, rng)
    work = make_workspace(trees, 8, 1)
    settings = settings_of(activation=SmoothStep(theta=1e-9))
    nothing = np.empty((8, 0))
    Z, functions = data.X @ trees.W + trees.b, settings.functions(np.float64)
    evaluate_scores(trees, Z, nothing, trees.W[:0], functions, work, np.empty((8, 1)))
    leaves = work.reach[:, trees.W.shape[1] :].reshape(8, -1, trees.n_trees)
    np.testing.assert_array_equal(np.sort(leaves, axis=1)[:, -1], 1)
    np.testing.assert_array_equal(leaves.sum(axis=1), 1)


def one_column_that_explains_the_target(n_rows: int) -> Data:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n_rows, 2))
    return Data(X, 5 * X[:, :1], np.ones(n_rows))


@pytest.mark.parametrize(("gamma", "returns"), [(1e-4, True), (10.0, False)])
def test_zeroed_group_returns_when_its_gradient_exceeds_the_threshold(gamma, returns):
    data = one_column_that_explains_the_target(30)
    trees = random_trees(2, 1, np.random.default_rng(12))
    trees.W[0] = 0
    gradient = compiled_gradient(trees, data, SquaredError(), Sigmoid())[: trees.W.shape[1]]
    eta = 0.1
    assert (np.linalg.norm(eta * gradient) > np.sqrt(2 * eta * gamma)) == returns  # equation 5 at W_k = 0
    settings = settings_of(learning_rate=eta, penalty=GroupL0(gamma))
    train(trees, data, single_columns(2), settings, np.random.default_rng(0))
    np.testing.assert_allclose(trees.W[0], -eta * gradient * returns, rtol=1e-12)


def test_group_is_thresholded_by_the_norm_of_all_its_columns():
    """Each column alone is below the threshold, the two together are above it."""
    trees = random_trees(2, 1, np.random.default_rng(13))
    trees.W[:] /= np.linalg.norm(trees.W, axis=1, keepdims=True)
    data = Data(np.zeros((4, 2)), np.zeros((4, 1)), np.ones(4))  # no gradient reaches W
    threshold = 1.2
    settings = settings_of(learning_rate=0.1, penalty=GroupL0(gamma=threshold**2 / 0.2))
    for offsets, survives in [(np.array([0, 1, 2]), False), (np.array([0, 2]), True)]:
        ours = trees.copy()
        train(ours, data, offsets, settings, np.random.default_rng(0))
        np.testing.assert_array_equal(ours.W, trees.W * survives)


@pytest.mark.parametrize("columns_per_block", [1, 20, 10**6])
def test_blocks_hold_every_group_once_and_cut_none(columns_per_block):
    offsets = np.concatenate([[0], np.cumsum(np.random.default_rng(14).integers(1, 9, size=200))])
    active = make_active(offsets, 8, np.ones(offsets[-1]))
    n_blocks = cut_blocks(active, columns_per_block)
    blocks = active.blocks[: n_blocks + 1]
    assert blocks[0] == 0
    assert blocks[-1] == 200
    assert (np.diff(blocks) > 0).all()
    sizes = np.diff(offsets[blocks])
    assert all(size <= columns_per_block for size, n in zip(sizes, np.diff(blocks), strict=True) if n > 1)


def test_training_with_many_cache_blocks_is_the_same_as_with_one(monkeypatch):
    offsets = np.array([0, 2, 3, 6])
    results = []
    for size in (10**9, 1):
        monkeypatch.setattr("skinnytrees.kernels.state._BLOCK_BYTES", size)
        results.append(train_both(GroupL0(gamma=0.15), offsets, SGD(), np.float64)[0].flat)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-12, atol=1e-14)


def test_start_is_glorot_uniform_with_zero_biases_and_the_same_in_both_precisions():
    double, single = (start_trees(30, 20, 3, 4, np.random.default_rng(15), dtype) for dtype in (np.float64, np.float32))
    np.testing.assert_array_equal(double.flat, single.flat)
    assert not double.b.any()
    for weights, fan in [(double.W, 30 + 7 * 20), (double.O, 4 + 20)]:
        limit = np.sqrt(6 / fan)
        assert np.abs(weights).max() <= limit * (1 + 1e-6)
        assert weights.std() == pytest.approx(limit / np.sqrt(3), rel=0.05)


# ------------------------------------------------------------------------------------------------ torch


@EVERY_ACTIVATION
@pytest.mark.parametrize(
    "loss", [SquaredError(), Huber(delta=0.7), Poisson(), Multinomial()], ids=lambda loss: loss.name
)
def test_gradient_is_that_of_torch_autograd(loss, activation):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(16)
    trees, data = random_trees(4, 3, rng, depth=3), random_data(loss, 30, 4, 3, rng)
    weights = torch_weights(torch, trees)
    torch_loss(torch, weights, data, loss, activation).backward()
    expected = Ensemble(*(part.grad.numpy() for part in weights)).flat()
    assert relative_error(compiled_gradient(trees, data, loss, activation), expected) < 1e-12


@pytest.mark.parametrize("method", ["sgd", "adam"])
def test_training_takes_the_steps_of_torchs_optimizer(method):
    """The ridge is torch's weight decay on W; after every step of SGD the groups are thresholded, column by column."""
    torch = pytest.importorskip("torch")
    rng, order = np.random.default_rng(17), np.random.default_rng(18)
    loss, activation, eta, l2, gamma = Multinomial(), SmoothStep(), 0.1, 0.3, 0.02
    trees, data = random_trees(5, 3, rng), random_data(loss, 40, 5, 3, rng)
    trees.W[:] *= np.linspace(0.02, 1, 5)[:, None]
    weights = torch_weights(torch, trees)
    decay = [2 * l2 / trees.W.shape[1], 0, 0]
    parameters = [{"params": [part], "weight_decay": d} for part, d in zip(weights, decay, strict=True)]
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[method](parameters, lr=eta)
    for _ in range(4):
        for rows in np.split(order.permutation(40), [16, 32]):
            optimizer.zero_grad()
            torch_loss(torch, weights, Data(*(part[rows] for part in data)), loss, activation).backward()
            optimizer.step()
            if method == "sgd":
                with torch.no_grad():
                    norms = weights[0].pow(2).sum(dim=(0, 1), keepdim=True).sqrt()
                    weights[0] *= norms > (2 * eta * gamma) ** 0.5
    expected = Ensemble(*(part.detach().numpy() for part in weights))

    part = {"optimizer": SGD(), "penalty": GroupL0(gamma)} if method == "sgd" else {"optimizer": Adam()}
    settings = settings_of(loss, activation, n_epochs=4, batch_size=16, learning_rate=eta, l2=l2, **part)
    train(trees, data, single_columns(5), settings, np.random.default_rng(18))
    assert relative_error(trees.flat, expected.flat()) < 1e-10
    assert method == "adam" or 0 < expected.W.any(axis=(0, 1)).sum() < 5


def torch_weights(torch, trees):
    return [torch.tensor(part, requires_grad=True) for part in Ensemble.of(trees)]


def torch_loss(torch, weights, data, loss, activation):
    """Weighted mean loss, with the routing built level by level."""
    W, b, leaves = weights
    X, Y, weight = (torch.tensor(part) for part in data)
    z = torch.einsum("nc,tic->nti", X, W) + b
    x = z / activation.theta
    soft = torch.clamp(x, -1, 1)
    share = torch.sigmoid(x) if isinstance(activation, Sigmoid) else (2 + 3 * soft - soft**3) / 4
    reach = torch.ones(*z.shape[:2], 1, dtype=z.dtype)
    while reach.shape[2] < leaves.shape[1]:
        first = reach.shape[2] - 1
        here = share[:, :, first : first + reach.shape[2]]
        reach = torch.cat([reach * here, reach * (1 - here)], dim=2)
    F = torch.einsum("ntl,tlk->nk", reach, leaves)
    functional = torch.nn.functional
    if isinstance(loss, SquaredError):
        rows = functional.mse_loss(F, Y, reduction="none").sum(1) / 2
    elif isinstance(loss, Huber):
        rows = functional.huber_loss(F, Y, delta=loss.delta, reduction="none").sum(1)
    elif isinstance(loss, Poisson):
        rows = functional.poisson_nll_loss(F, Y, reduction="none").sum(1)
    else:
        rows = functional.cross_entropy(F, Y[:, 0].long(), reduction="none")
    return (weight * rows).mean()


# ------------------------------------------------------------------------------------------------ matrix products


@njit
def add_ab(alpha, A, B, beta, C):
    add_product(alpha, A, B, beta, C)


@njit
def add_atb(alpha, A, B, beta, C):
    add_product_ta(alpha, A, B, beta, C)


@njit
def set_atb(A, B, C):
    set_product_ta(A, B, C)


@njit
def set_abt(A, B, C):
    set_product_tb(A, B, C)


@pytest.mark.parametrize(("product", "transposed"), [(add_ab, False), (add_atb, True)], ids=["AB", "A'B"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(4, 5, 3), (1, 1, 1), (1, 6, 2), (5, 1, 7), (3, 4, 0), (0, 4, 3), (40, 30, 50)]
)
def test_product_into_a_block_is_that_of_numpy_and_spares_what_lies_around(product, transposed, dtype, m, n, k):
    rng = np.random.default_rng(19)
    number = np.dtype(dtype).type

    def block(rows, columns):
        whole = rng.normal(size=(rows + 3, columns + 4)).astype(dtype)
        return whole, whole[2 : 2 + rows, 1 : 1 + columns]

    _, A = block(k, m) if transposed else block(m, k)
    _, B = block(k, n)
    whole, C = block(m, n)
    expected = whole.copy()
    alpha, beta = number(0.7), number(-1.3)
    expected[2 : 2 + m, 1 : 1 + n] = alpha * (A.T if transposed else A) @ B + beta * C
    product(alpha, A, B, beta, C)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=100 * np.finfo(dtype).eps)


def test_product_with_beta_zero_forgets_even_nan():
    C = np.full((2, 2), np.nan)
    add_ab(1.0, np.eye(2), np.eye(2), 0.0, C)
    np.testing.assert_array_equal(C, np.eye(2))


@pytest.mark.parametrize("n_long", [5, 1600])
@pytest.mark.parametrize("n_summed", [1, 8, 19])
@pytest.mark.parametrize("n_few", [1, 4, 7, 30])
def test_products_of_few_rows_or_columns_are_those_of_numpy(n_few, n_summed, n_long):
    """Few take loops, many take BLAS; what was there before does not matter."""
    rng = np.random.default_rng(20)
    A, B, C = rng.normal(size=(n_summed, n_few)), rng.normal(size=(n_summed, n_long)), np.full((n_few, n_long), np.nan)
    set_atb(A, B, C)
    np.testing.assert_allclose(C, A.T @ B, rtol=0, atol=1e-13)
    A, B, C = rng.normal(size=(n_summed, n_long)), rng.normal(size=(n_few, n_long)), np.full((n_summed, n_few), np.nan)
    set_abt(A, B, C)
    np.testing.assert_allclose(C, A @ B.T, rtol=0, atol=1e-11)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_matrix_of_a_sparse_table_is_that_of_the_dense_one(dtype):
    X = sparse.random_array((40, 300), density=0.1, rng=np.random.default_rng(0), format="csr", dtype=dtype)
    found = gram_matrix(X)
    np.testing.assert_allclose(found, X.toarray() @ X.toarray().T, rtol=1e-5, atol=1e-6)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, found.T)
