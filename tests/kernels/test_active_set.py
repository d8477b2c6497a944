"""The active set is exact: leaving groups without weights alone gives the iterates of working on all of them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import scale

from skinnytrees.activations import Sigmoid, SmoothStep
from skinnytrees.kernels.state import Data, start_trees
from skinnytrees.losses import Multinomial
from skinnytrees.optimizers import SGD, Adam
from skinnytrees.penalties import GroupL0, GroupLasso, NoPenalty
from skinnytrees.training.loop import TrainingSettings, run_epochs, train

SETTINGS = TrainingSettings(Multinomial(), Sigmoid(), n_epochs=30, batch_size=32, learning_rate=0.3, l2=0.1)
# Steps so long that groups come and go.
RESTLESS = replace(SETTINGS, n_epochs=12, batch_size=8, learning_rate=1.0, penalty=GroupL0(gamma=0.1, rate=0.01))
# Long enough without a loss that most epochs of wide data need no look at the weights.
SLOWLY_ANNEALED = replace(SETTINGS, n_epochs=150, penalty=GroupL0(gamma=0.1, rate=0.004))


def as_data(X, y) -> Data:
    return Data(np.ascontiguousarray(X, dtype=np.float32), y[:, None].astype(np.float32), np.ones(len(y), np.float32))


def breast_cancer() -> Data:
    X, y = load_breast_cancer(return_X_y=True)
    return as_data(scale(X), y)


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return as_data(scale(X)[:600], y[:600])


def wide() -> Data:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 1500))
    return as_data(X, X[:, :5].sum(axis=1) > 0)


def counts() -> Data:
    rng = np.random.default_rng(1)
    X = rng.poisson(0.1, size=(200, 300))
    return as_data(X, X[:, :10].sum(axis=1) > 0)


DATA = {make.__name__: make for make in (breast_cancer, digits, wide, counts)}
PENALTIES = {
    "annealed": GroupL0(gamma=0.3, rate=0.01),
    "weak": GroupL0(gamma=1e-4, rate=0.01),
    "lasso": GroupLasso(lam=0.02),
}


def supports_and_trees(data, settings, offsets, factors=None):
    """Groups in use after every epoch, and the trained ensemble in the order of the columns."""
    rng = np.random.default_rng(2)
    n_outputs = int(data.Y.max()) + 1
    trees = start_trees(data.X.shape[1], 10, 2, n_outputs, rng, data.Y.dtype)
    supports = []
    for _, _, run in run_epochs(trees, data, offsets, settings, rng, factors):
        columns, small = run.snapshot()()
        supports.append(np.unique(np.searchsorted(offsets, columns, side="right") - 1))
        assert len(supports[-1]) == len(run.groups)
    trees.put(columns, small)
    return supports, trees


@pytest.fixture
def with_all_groups(monkeypatch):
    """A function that works on all groups in every step: none is ruled out by its size."""

    def run(*args):
        with monkeypatch.context() as patch:
            patch.setattr(
                "skinnytrees.training.epoch_runners.active_set.largest_column_norms",
                lambda X, batch_size: np.full(X.shape[1], np.inf),
            )
            return supports_and_trees(*args)

    return run


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
@pytest.mark.parametrize("make_data", DATA.values(), ids=DATA.keys())
def test_supports_are_equal_at_every_epoch_and_weights_to_rounding(make_data, penalty, with_all_groups):
    # In double precision: among so many groups and steps, one norm may lie within single rounding of the threshold.
    data = Data(*(part.astype(np.float64) for part in make_data()))
    offsets = np.arange(data.X.shape[1] + 1)
    settings = replace(SETTINGS, penalty=penalty)
    ours, theirs = supports_and_trees(data, settings, offsets), with_all_groups(data, settings, offsets)
    for few, many in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_array_equal(few, many)
    np.testing.assert_allclose(ours[1].flat, theirs[1].flat, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
@pytest.mark.parametrize("make_data", DATA.values(), ids=DATA.keys())
def test_groups_with_penalty_factors_of_their_own_come_and_go_as_if_all_were_looked_at(
    make_data, penalty, with_all_groups
):
    data = Data(*(part.astype(np.float64) for part in make_data()))
    n_columns = data.X.shape[1]
    factors = np.random.default_rng(3).choice([0.0, 0.1, 1.0, 5.0], n_columns)
    task = data, replace(SETTINGS, penalty=penalty), np.arange(n_columns + 1), factors
    ours, theirs = supports_and_trees(*task), with_all_groups(*task)
    for few, many in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_array_equal(few, many)
    np.testing.assert_allclose(ours[1].flat, theirs[1].flat, rtol=1e-6, atol=1e-8)
    assert set(np.flatnonzero(factors == 0)) <= set(ours[0][-1]), "without a penalty, a group stays"


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
def test_penalty_factor_of_a_group_is_the_penalty_times_it(penalty):
    data = Data(*(part.astype(np.float64) for part in breast_cancer()))
    offsets = np.arange(31)
    number = "lam" if isinstance(penalty, GroupLasso) else "gamma"
    stronger = replace(penalty, **{number: 3 * getattr(penalty, number)})
    by_factor = supports_and_trees(data, replace(SETTINGS, penalty=penalty), offsets, np.full(30, 3.0))
    by_number = supports_and_trees(data, replace(SETTINGS, penalty=stronger), offsets)
    for one, other in zip(by_factor[0], by_number[0], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(by_factor[1].flat, by_number[1].flat, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("offsets", [np.arange(31), np.array([0, 1, 4, 6, 15, 16, 30])], ids=["columns", "groups"])
def test_groups_that_come_back_do_so_together_and_at_the_same_step(offsets, with_all_groups):
    data = Data(*(part.astype(np.float64) for part in breast_cancer()))  # such steps would blow up single rounding
    ours, theirs = supports_and_trees(data, RESTLESS, offsets), with_all_groups(data, RESTLESS, offsets)
    gone, back = set(), set()
    for before, after in pairwise(ours[0]):
        gone |= set(before) - set(after)
        back |= gone & set(after)
    assert back
    for few, many in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_array_equal(few, many)
    np.testing.assert_allclose(ours[1].flat, theirs[1].flat, rtol=1e-6, atol=1e-8)
    used = ours[1].W.any(axis=1)
    for first, end in pairwise(offsets):
        assert used[first:end].all() or not used[first:end].any()


@pytest.mark.parametrize("table", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("offsets", [np.arange(1501), np.arange(0, 1501, 3)], ids=["columns", "groups"])
def test_wide_data_is_trained_in_sample_space_while_no_group_comes_or_goes(table, offsets, with_all_groups):
    data = Data(*(part.astype(np.float64) for part in wide()))
    data = data._replace(X=table(data.X))
    settings = SLOWLY_ANNEALED
    with_bounds, plain = supports_and_trees(data, settings, offsets), with_all_groups(data, settings, offsets)
    for few, many in zip(with_bounds[0], plain[0], strict=True):
        np.testing.assert_array_equal(few, many)
    np.testing.assert_allclose(with_bounds[1].flat, plain[1].flat, rtol=1e-6, atol=1e-8)
    was_inside = [inside for inside, _ in wide_epochs(data, settings, offsets)]
    assert len(with_bounds[0][-1]) < 100
    assert 10 < sum(was_inside) < 140


def wide_epochs(data, settings, offsets):
    """For every epoch, whether it was made in sample space, and the snapshot after it."""
    rng = np.random.default_rng(2)
    trees = start_trees(1500, 10, 2, 2, rng, data.Y.dtype)
    return [(run.inside is not None, run.snapshot()) for _, _, run in run_epochs(trees, data, offsets, settings, rng)]


def test_snapshots_of_sample_space_stay_what_they_were():
    rng = np.random.default_rng(2)
    trees = start_trees(1500, 10, 2, 2, rng)
    at_once, later = [], []
    for _, _, run in run_epochs(trees, wide(), np.arange(1501), SLOWLY_ANNEALED, rng):
        later.append(run.snapshot())
        at_once.append(run.snapshot()()[1].flat.copy())
    for snapshot, flat in zip(later, at_once, strict=True):
        np.testing.assert_array_equal(snapshot()[1].flat, flat)


def test_groups_outside_are_mostly_ruled_out_without_a_look():
    """With 1,500 columns, few of those that are gone ever join a step again."""
    data = wide()
    settings = replace(SETTINGS, penalty=PENALTIES["annealed"])
    joined = []
    rng = np.random.default_rng(2)
    trees = start_trees(1500, 10, 2, 2, rng)
    for _, _, run in run_epochs(trees, data, np.arange(1501), settings, rng):
        n = len(run.groups)
        # What the last step of the epoch worked on, dropped groups included, is still listed.
        joined.append(int(run.plain.active.blocks.max()))
    assert n < 100
    assert joined[-1] < 150


@pytest.mark.parametrize("activation", [Sigmoid(), SmoothStep()], ids=lambda a: a.name)
@pytest.mark.parametrize("part", [{"penalty": GroupL0(gamma=10.0, rate=0.02)}, {"penalty": NoPenalty()}, {"optimizer": Adam()}],
                         ids=["annealed", "dense", "adam"])  # fmt: skip
def test_sparse_rows_give_the_steps_of_dense_ones(part, activation):
    data = Data(*(part.astype(np.float64) for part in counts()))
    settings = replace(SETTINGS, n_epochs=8, activation=activation, learning_rate=0.05, **part)
    offsets = np.arange(data.X.shape[1] + 1)
    dense = supports_and_trees(data, settings, offsets)
    csr = supports_and_trees(data._replace(X=sparse.csr_array(data.X)), settings, offsets)
    for one, other in zip(dense[0], csr[0], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(csr[1].flat, dense[1].flat, rtol=1e-6, atol=1e-8)


def test_sparse_validation_rows_have_the_loss_of_dense_ones():
    data = counts()
    settings = replace(SETTINGS, penalty=PENALTIES["annealed"], optimizer=SGD())
    losses = []
    for X in (data.X, sparse.csr_array(data.X)):
        rng = np.random.default_rng(3)
        trees = start_trees(300, 10, 2, 2, rng)
        reports = train(trees, data._replace(X=X), np.arange(301), settings, rng, data._replace(X=X))
        losses.append([report.val_loss for report in reports])
    np.testing.assert_allclose(*losses, rtol=1e-3)
