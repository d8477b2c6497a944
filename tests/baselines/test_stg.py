"""Stochastic gates: the penalty, the gates, and what the path selects."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

torch = pytest.importorskip("torch", reason="STG needs torch, which the extra [torch] installs")

from skinnytrees.baselines.networks import cross_entropy, make_network, make_rows, seeded  # noqa: E402
from skinnytrees.baselines.stg import GatedNetwork, STGClassifier, STGRegressor, gate, open_probability  # noqa: E402

MU = torch.tensor([-1.2, -0.5, -0.1, 0.0, 0.4, 0.9], dtype=torch.float64)


@pytest.mark.parametrize("sigma", [0.25, 0.5, 1.0])
def test_penalty_has_the_analytic_gradient(sigma):
    mu = MU.clone().requires_grad_()
    open_probability(mu, sigma).mean().backward()
    expected = norm.pdf((MU.numpy() + 0.5) / sigma) / sigma / len(MU)
    np.testing.assert_allclose(mu.grad.numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("sigma", [0.25, 0.5])
def test_mean_gate_and_open_gates_agree_with_monte_carlo(sigma):
    n = 200_000
    z = gate(MU, sigma * torch.randn(n, len(MU), generator=seeded(0), dtype=torch.float64)).numpy()
    for k, mu in enumerate(MU.numpy()):
        expected = quad(lambda e, mu=mu: np.clip(0.5 + mu + sigma * e, 0, 1) * norm.pdf(e), -9, 9, limit=200)[0]
        assert abs(z[:, k].mean() - expected) < 5 * z[:, k].std() / np.sqrt(n) + 1e-12
    share = open_probability(MU, sigma).numpy()
    assert (abs((z > 0).mean(axis=0) - share) < 5 * np.sqrt(share * (1 - share) / n) + 1e-12).all()


def test_gate_without_noise_is_open_exactly_above_minus_one_half():
    z = gate(MU, torch.zeros_like(MU)).numpy()
    np.testing.assert_array_equal(z > 0, MU.numpy() > -0.5)
    assert z.max() == 1


def test_objective_adds_penalty_and_weight_decay_to_the_noisy_loss():
    X = np.random.default_rng(0).normal(size=(10, 3))
    rows = make_rows(X, np.arange(10) % 2, dtype="float64")
    network = make_network(3, (4,), 2, seeded(0), dtype="float64")
    gated = GatedNetwork.start(network, 3, torch.arange(3), 0.5, seeded(1))
    noise = 0.5 * torch.randn((10, 3), generator=seeded(5), dtype=torch.float64)
    loss = cross_entropy(network(rows.X * (0.5 + gated.mu + noise).clamp(0, 1)), rows.target).mean()
    penalty = norm.cdf((gated.mu.detach().numpy() + 0.5) / 0.5).mean()
    decay = sum((W.detach().numpy() ** 2).sum() for W in network.weights)
    expected = float(loss.detach()) + 0.3 * penalty + 0.5 * 0.01 * decay
    assert float(gated.objective(rows, cross_entropy, 0.3, 0.01, seeded(5)).detach()) == pytest.approx(expected)


def test_fewer_gates_stay_open_as_lambda_grows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 15))
    y = X[:, 0] - X[:, 5] > 0
    sizes = []
    for lam in (0.01, 0.5, 20.0):
        settings = {"lambdas": [lam], "max_epochs": 50, "learning_rate": 0.02, "refit": False}
        sizes.append(int(STGClassifier(random_state=0, **settings).fit(X, y).path_.n_features[0]))
    assert sizes[0] > sizes[1] > sizes[2]
    assert sizes[1] >= 2


def test_exclusive_or_of_two_among_twenty_columns_is_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 20))
    y = X[:, 3] * X[:, 7] > 0
    settings = {"lambdas": [0.2], "max_epochs": 60, "learning_rate": 0.01, "refit": False}
    system = STGClassifier(2, random_state=0, **settings).fit(X, y)
    assert system.get_support(indices=True).tolist() == [3, 7]
    assert system.score(X, y) > 0.9


def test_largest_gates_are_taken_where_the_path_stays_above_the_budget():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    y = 2 * X[:, 1] + X[:, 6]
    settings = {"lambdas": [1e-4], "max_epochs": 30, "learning_rate": 0.01, "refit_epochs": 60}
    system = STGRegressor(2, random_state=0, **settings).fit(X, y)
    assert system.path_.n_features.tolist() == [8, 2]
    assert system.get_support(indices=True).tolist() == [1, 6]
    assert system.score(X, y) > 0.9
