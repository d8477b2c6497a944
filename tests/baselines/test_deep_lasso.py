"""Deep Lasso: the penalty by its definition, and the ranking."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="Deep Lasso needs torch, which the extra [torch] installs")

from skinnytrees.baselines.deep_lasso import DeepLassoClassifier, gradient_norms, penalised_loss  # noqa: E402
from skinnytrees.baselines.networks import (  # noqa: E402
    cross_entropy,
    loss_value,
    make_network,
    make_rows,
    mean_loss,
    seeded,
    squared_error,
)


def test_gradient_norms_of_a_linear_model_are_the_analytic_ones():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)), rng.normal(size=20)
    network = make_network(4, (), 1, seeded(0), dtype="float64")
    rows = make_rows(X, y, dtype="float64")
    inputs = rows.X.clone().requires_grad_()
    norms = gradient_norms(mean_loss(network(inputs), rows, squared_error), inputs, torch.arange(4), 4)
    w, b = network.weights[0].detach().numpy()[:, 0], network.biases[0].detach().numpy()
    residual = X @ w + b - y
    expected = np.linalg.norm(2 * residual[:, None] * w / 20, axis=0)
    np.testing.assert_allclose(norms.detach().numpy(), np.sqrt(expected**2 + 1e-8), rtol=1e-10)


def test_columns_of_one_feature_share_a_norm():
    rng = np.random.default_rng(0)
    rows = make_rows(rng.normal(size=(20, 3)), np.arange(20) % 2, dtype="float64")
    network = make_network(3, (4,), 2, seeded(0), dtype="float64")
    inputs = rows.X.clone().requires_grad_()
    loss = mean_loss(network(inputs), rows, cross_entropy)
    alone = gradient_norms(loss, inputs, torch.arange(3), 3).detach().numpy()
    joint = gradient_norms(loss, inputs, torch.tensor([0, 1, 1]), 2).detach().numpy()
    np.testing.assert_allclose(joint, [alone[0], np.sqrt(alone[1] ** 2 + alone[2] ** 2 - 1e-8)])


def test_penalised_loss_and_its_gradient_equal_finite_differences():
    rng = np.random.default_rng(0)
    rows = make_rows(rng.normal(size=(12, 3)), np.arange(12) % 2, dtype="float64")
    network = make_network(3, (5,), 2, seeded(0), activation="tanh", dtype="float64")

    def value():
        """By finite differences over the inputs: no code in common with the penalty."""
        step, norms = 1e-6, np.zeros(3)
        for k in range(3):
            gradient = np.zeros(12)
            for i in range(12):
                ends = []
                for sign in (1, -1):
                    X = rows.X.clone()
                    X[i, k] += sign * step
                    ends.append(loss_value(network, rows._replace(X=X), cross_entropy))
                gradient[i] = (ends[0] - ends[1]) / (2 * step)
            norms[k] = np.linalg.norm(gradient)
        return 0.7 * loss_value(network, rows, cross_entropy) + 0.3 * norms.sum()

    penalised = penalised_loss(network, rows, cross_entropy, torch.arange(3), 3, 0.3)
    assert float(penalised.detach()) == pytest.approx(value(), rel=1e-5)
    penalised.backward()
    W, step = network.weights[0], 1e-4
    for place in [(0, 0), (1, 3), (2, 4)]:
        ends = []
        for sign in (1, -2):
            with torch.no_grad():
                W[place] += sign * step
            ends.append(value())
        with torch.no_grad():
            W[place] += step
        assert float(W.grad[place]) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=2e-3, abs=1e-6)


def test_supports_are_nested_and_the_product_of_two_columns_leads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 10))
    y = X[:, 3] * X[:, 7] > 0
    settings = {"max_epochs": 60, "learning_rate": 0.005, "refit_epochs": 15, "random_state": 0}
    two, four = (DeepLassoClassifier(k, **settings).fit(X, y) for k in (2, 4))
    assert two.get_support(indices=True).tolist() == [3, 7]
    assert set(two.get_support(indices=True)) < set(four.get_support(indices=True))
    assert two.score(X, y) > 0.9
    np.testing.assert_array_equal(np.sort(np.argsort(two.ranking_)[:2]), [3, 7])
