"""DFS: the invariants of its rounds, and CoSaMP as a second implementation of its linear case."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="DFS needs torch, which the extra [torch] installs")

from skinnytrees.baselines.dfs import DFSClassifier, DFSRegressor  # noqa: E402
from skinnytrees.baselines.dfs_loop import (  # noqa: E402
    DFSSettings,
    SelectionNetwork,
    _candidates,
    _train_candidates,
    best_round,
    select_features,
)
from skinnytrees.baselines.networks import (  # noqa: E402
    LoopSettings,
    cross_entropy,
    loss_value,
    make_network,
    make_optimizer,
    make_rows,
    mean_loss,
    seeded,
    squared_error,
)

N_COLUMNS, K = 15, 3


def problem(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, N_COLUMNS))
    y = (X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=80) > 0).astype(int)
    network = make_network(N_COLUMNS, (8,), 2, seeded(seed), start="uniform")
    return SelectionNetwork.start(network, N_COLUMNS, torch.arange(N_COLUMNS), seeded(seed)), make_rows(X, y)


@pytest.mark.parametrize("seed", range(3))
def test_rounds_keep_k_features_and_use_at_most_three_k_in_between(seed):
    model, rows = problem(seed)
    in_use = []

    def recording_loss(output, target):
        in_use.append(int((model.s != 0).sum()))
        return cross_entropy(output, target)

    settings = DFSSettings(n_repeats=4, n_steps=2, max_rounds=4)
    rounds = select_features(model, rows, recording_loss, K, settings)
    per_round = 2 + 4 * 2 * 2  # screening, two kinds of updates, and the loss that is recorded
    assert len(in_use) == len(rounds) * per_round
    assert max(in_use[:per_round]) == N_COLUMNS
    assert all(n <= 3 * K for n in in_use[per_round:])
    assert in_use[per_round - 1 :: per_round] == [K] * len(rounds)
    assert len(rounds[0].candidates) == N_COLUMNS
    assert all(len(r.support) == K and set(r.support) <= set(r.candidates) for r in rounds)
    assert np.array_equal(np.flatnonzero(model.s.detach().numpy()), best_round(rounds).support)


def test_returned_training_loss_is_the_lowest_of_all_rounds():
    for seed in range(4):
        model, rows = problem(seed)
        rounds = select_features(model, rows, cross_entropy, K, DFSSettings(n_repeats=3, n_steps=1, max_rounds=5))
        assert loss_value(model, rows, cross_entropy) == pytest.approx(min(r.loss for r in rounds), rel=1e-6)


def test_loop_ends_when_the_support_stays_the_same():
    model, rows = problem()
    rounds = select_features(model, rows, cross_entropy, K, DFSSettings(n_repeats=30, n_steps=2, max_rounds=10))
    assert len(rounds) < 10
    assert np.array_equal(rounds[-1].support, rounds[-2].support)
    assert all(not np.array_equal(a.support, b.support) for a, b in itertools.pairwise(rounds[:-1]))


def test_weights_outside_the_candidates_never_move():
    model, rows = problem()
    settings = DFSSettings(n_repeats=3, n_steps=2)
    loops = (LoopSettings(0.05, 1, weight_decay=0.0025), LoopSettings(0.05, 1, weight_decay=0.0005))
    optimizers = (make_optimizer(model.parameters, loops[0]), make_optimizer([model.s], loops[1]))
    before, network_before = model.s.detach().numpy().copy(), model.trained[0].detach().clone()
    seen = []

    def recording_loss(output, target):
        seen.append(model.s.detach().numpy().copy())
        return cross_entropy(output, target)

    candidates = np.array([1, 4, 6])
    _train_candidates(model, rows, recording_loss, candidates, settings, optimizers)
    outside = np.setdiff1d(np.arange(N_COLUMNS), candidates)
    for s in [*seen, model.s.detach().numpy()]:
        np.testing.assert_array_equal(s[outside], before[outside])
    assert (model.s.detach().numpy()[candidates] != before[candidates]).all()
    assert not torch.equal(network_before, model.trained[0])


def test_candidates_are_the_steepest_features_and_the_support():
    model, rows = problem()
    (gradient,) = torch.autograd.grad(mean_loss(model(rows.X), rows, cross_entropy), model.s)
    steepest = np.argsort(-gradient.abs().numpy())[: 2 * K]
    model.s.grad = torch.full((N_COLUMNS,), 100.0)  # what an update may leave behind must not count
    found = _candidates(model, rows, cross_entropy, K, np.array([0, 1]), carry_gradient=False)
    assert found.tolist() == sorted({0, 1, *steepest})


def test_replay_adds_what_the_last_update_left_behind():
    model, rows = problem()
    left = torch.zeros(N_COLUMNS)
    left[[3, 5, 7, 9, 11, 13]] = 1000.0
    model.s.grad = left
    found = _candidates(model, rows, cross_entropy, K, np.array([0]), carry_gradient=True)
    assert found.tolist() == [0, 3, 5, 7, 9, 11, 13]


def cosamp(X, y, s, k, n_rounds):
    """Supports of CoSaMP's rounds from a k-sparse start."""
    supports = []
    for _ in range(n_rounds):
        proxy = np.abs(X.T @ (y - X @ s))
        T = np.union1d(np.argsort(-proxy, kind="stable")[: 2 * k], np.flatnonzero(s))
        full = np.zeros(len(s))
        full[T] = np.linalg.lstsq(X[:, T], y, rcond=None)[0]
        support = np.sort(np.argsort(-np.abs(full), kind="stable")[:k])
        s = np.where(np.isin(np.arange(len(s)), support), full, 0)
        supports.append(support)
        if len(supports) > 1 and np.array_equal(*supports[-2:]):
            break
    return supports


@pytest.mark.parametrize("seed", range(3))
def test_linear_case_is_cosamp_from_the_second_round_on(seed):
    rng = np.random.default_rng(seed)
    n, p, k = 60, 40, 4
    X = rng.normal(size=(n, p)) + 0.7 * rng.normal(size=(n, 1))
    y = X[:, :k] @ np.ones(k) + 1.5 * rng.normal(size=n)
    rows = make_rows(X, y, dtype="float64")
    settings = DFSSettings(0.05, "sgd", 0.0, 0.0, n_repeats=60, n_steps=4, max_rounds=1)

    def start():
        s = (0.1 * torch.randn(p, generator=seeded(seed), dtype=torch.float64)).requires_grad_()
        return SelectionNetwork(s, torch.arange(p), lambda Z: Z.sum(dim=1, keepdim=True), [])

    first = start()
    select_features(first, rows, squared_error, k, settings)
    rounds = select_features(start(), rows, squared_error, k, DFSSettings(0.05, "sgd", 0.0, 0.0, 60, 4, 8))
    expected = cosamp(X, y, first.s.detach().numpy(), k, 7)
    assert len(rounds) >= 2
    assert [r.support.tolist() for r in rounds[1:]] == [support.tolist() for support in expected[: len(rounds) - 1]]


def test_whole_budget_is_used_and_bic_may_use_less():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    y = 3 * X[:, 2] + 0.5 * rng.normal(size=200)
    settings = {
        "n_repeats": 30,
        "n_steps": 2,
        "max_rounds": 3,
        "second_step_epochs": 50,
        "random_state": 0,
        "hidden": (8,),
    }
    assert DFSRegressor(5, **settings).fit(X, y).n_features_selected_ == 5
    by_bic = DFSRegressor(5, size_rule="bic", **settings).fit(X, y)
    assert by_bic.path_.n_features.tolist() == [5, 4, 3, 2, 1]
    bic = [entry.setting["bic"] for entry in by_bic.path_]
    assert by_bic.path_.chosen == np.argmin(bic)
    assert by_bic.n_features_selected_ < 5
    assert by_bic.support_[2]
    assert by_bic.score(X, y) > 0.9


def test_product_of_two_columns_is_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12))
    y = X[:, 3] * X[:, 7] > 0
    system = DFSClassifier(2, n_repeats=60, n_steps=2, second_step_epochs=100, random_state=0).fit(X, y)
    assert system.get_support(indices=True).tolist() == [3, 7]
    assert system.score(X, y) > 0.95
