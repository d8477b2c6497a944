"""AlgNet: its proximal gradient steps, its two stages and its path."""

import numpy as np
import pytest
from sklearn.linear_model import MultiTaskLasso
from sklearn.metrics import roc_auc_score

torch = pytest.importorskip("torch", reason="AlgNet needs torch, which the extra [torch] installs")

from skinnytrees.baselines.algnet import (  # noqa: E402
    AlgNetClassifier,
    AlgNetRegressor,
    adaptive_penalties,
    train_group_lasso,
)
from skinnytrees.baselines.networks import (  # noqa: E402
    LoopSettings,
    group_norms,
    make_network,
    make_rows,
    seeded,
    squared_error,
)


def test_linear_network_equals_the_group_lasso_of_scikit_learn():
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(120, 8)), np.zeros((8, 2))
    W[:3] = rng.normal(size=(3, 2))
    Y = X @ W + 0.5 + 0.3 * rng.normal(size=(120, 2))
    penalty = 0.2
    network = make_network(8, (), 2, seeded(0), activation="identity", dtype="float64")
    loop = LoopSettings(0.3, 800, optimizer="sgd", check_every=800)
    rows, group = make_rows(X, Y, dtype="float64"), torch.arange(8)
    train_group_lasso(
        network, rows, squared_error, group, torch.full((8,), penalty, dtype=torch.float64), loop, seeded(0)
    )
    # Ours is 1/(2n) ||Y - XW||^2 + penalty sum ||W_k|| with two outputs, scikit-learn's the same with alpha.
    reference = MultiTaskLasso(alpha=penalty, tol=1e-12, max_iter=100_000).fit(X, Y)
    np.testing.assert_allclose(network.weights[0].detach().numpy(), reference.coef_.T, atol=1e-4)
    assert 0 < (reference.coef_.T == 0).all(axis=1).sum() < 8


def test_rows_removed_by_the_first_stage_stay_removed():
    norms = torch.tensor([0.0, 2.0, 0.0, 0.5])
    penalties = adaptive_penalties(norms, 0.1, 2.0)
    np.testing.assert_allclose(penalties.numpy(), [np.inf, 0.025, np.inf, 0.4])
    X = torch.randn(50, 4, generator=seeded(0))
    rows = make_rows(X.numpy(), (X[:, 0] + X[:, 2]).double().numpy())  # what was removed is what matters
    network = make_network(4, (5,), 1, seeded(1), activation="tanh")
    group, loop = torch.arange(4), LoopSettings(0.05, 1, optimizer="sgd")
    for _ in range(20):
        train_group_lasso(network, rows, squared_error, group, penalties, loop, seeded(0))
        assert not network.weights[0][[0, 2]].any()


def test_adaptive_stage_removes_noise_and_keeps_what_matters():
    """A small version of the authors' simulation: the last four of twenty inputs matter, in a random tanh network."""
    for seed in range(2):
        generator = seeded(seed)
        truth = make_network(20, (6,), 1, generator, activation="tanh", start="normal")
        X = torch.randn(600, 20, generator=generator)
        with torch.no_grad():
            truth.weights[0][:16] = 0
            y = truth(X) + 0.3 * torch.randn(600, 1, generator=generator)
        rows, group = make_rows(X.numpy(), y.numpy()), torch.arange(20)
        loop = LoopSettings(0.05, 700, optimizer="sgd", check_every=700)

        def stage(penalties, start, rows=rows, group=group, loop=loop):
            network = make_network(20, (10,), 1, seeded(start), activation="tanh")
            train_group_lasso(network, rows, squared_error, group, penalties, loop, seeded(0))
            return group_norms(network.weights[0], group)

        first = stage(torch.full((20,), 0.03), 10)
        second = stage(adaptive_penalties(first, 0.03, 2.0), 20)
        noise_before, noise_after = int((first[:16] > 0).sum()), int((second[:16] > 0).sum())
        assert noise_after <= noise_before
        assert noise_after <= 1
        assert int((second[16:] > 0).sum()) >= 3


def test_path_shrinks_and_ends_within_the_budget():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = 2 * X[:, 4] + np.sin(2 * X[:, 7]) + 0.1 * rng.normal(size=200)
    system = AlgNetRegressor(2, random_state=0, max_epochs=300, path_epochs=60, n_xi=10, lambdas=(0.01,)).fit(X, y)
    sizes = system.path_.n_features
    assert sizes[0] > sizes[-1]
    assert system.get_support(indices=True).tolist() == [4, 7]
    assert system.score(X, y) > 0.9
    assert all(set(entry.setting) == {"lambda", "xi"} for entry in system.path_)


def test_largest_groups_are_taken_where_the_path_stays_above_the_budget():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    y = (X[:, 1] > 0).astype(int)
    settings = {"max_epochs": 60, "path_epochs": 1, "n_xi": 1, "lambdas": (1e-6,), "refit_epochs": 20}
    system = AlgNetClassifier(1, random_state=0, **settings).fit(X, y)
    assert system.path_.n_features.tolist() == [6, 1]
    assert system.get_support(indices=True).tolist() == [1]
    assert system.score(X, y) > 0.9
    assert np.isnan(system.path_.val_score[-1]), "the rows held out have trained the last model"
    given = AlgNetClassifier(1, random_state=0, **settings).fit(X[50:], y[50:], X_val=X[:50], y_val=y[:50])
    by_hand = roc_auc_score(y[:50], given.predict_proba(X[:50])[:, 1])
    assert given.path_.val_score[-1] == pytest.approx(by_hand)


def test_model_of_the_path_is_kept_without_refit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    y = (X[:, 1] > 0).astype(int)
    system = AlgNetClassifier(6, random_state=0, max_epochs=60, path_epochs=1, n_xi=2, lambdas=(1e-6,), refit=False)
    system.fit(X, y, X_val=X[:50], y_val=y[:50])
    assert system.path_.val_score.max() == pytest.approx(system.path_[system.path_.chosen].val_score)
    assert roc_auc_score(y[:50], system.predict_proba(X[:50])[:, 1]) == pytest.approx(system.path_.val_score.max())
