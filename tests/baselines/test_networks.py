"""The shared networks: what they compute, how they train, and what of torch they leave alone."""

import itertools
import pickle
import sys

import numpy as np
import pytest
from scipy.optimize import minimize

torch = pytest.importorskip("torch", reason="the neural systems need torch, which the extra [torch] installs")

from skinnytrees.baselines.algnet import AlgNetClassifier  # noqa: E402
from skinnytrees.baselines.deep_lasso import DeepLassoClassifier  # noqa: E402
from skinnytrees.baselines.dfs import DFSClassifier  # noqa: E402
from skinnytrees.baselines.networks import (  # noqa: E402
    LoopSettings,
    cross_entropy,
    group_norms,
    loss_value,
    make_network,
    make_rows,
    mean_loss,
    seeded,
    shrink_groups,
    squared_error,
    train,
    train_network,
)
from skinnytrees.baselines.stg import STGClassifier  # noqa: E402
from skinnytrees.exceptions import DivergenceError  # noqa: E402

QUICK = {
    AlgNetClassifier: {"max_epochs": 5, "path_epochs": 1, "n_xi": 2, "refit": False, "refit_epochs": 2},
    DFSClassifier: {"n_repeats": 2, "n_steps": 1, "max_rounds": 2, "second_step_epochs": 2},
    STGClassifier: {"max_epochs": 2, "path_epochs": 1, "lambdas": [0.1], "refit": False, "refit_epochs": 2},
    DeepLassoClassifier: {"max_epochs": 2, "refit_epochs": 2},
}


def table(n_rows=60, n_columns=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


@pytest.mark.parametrize("activation", ["relu", "tanh", "identity"])
@pytest.mark.parametrize("hidden", [(), (5,), (7, 3)])
def test_fitted_network_computes_what_the_trained_one_does(activation, hidden):
    network = make_network(4, hidden, 3, seeded(1), activation=activation, start="uniform", dtype="float64")
    X = np.random.default_rng(0).normal(size=(10, 4))
    expected = network(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(network.fitted()(X), expected, atol=1e-12)
    scale = torch.tensor([2.0, 0.0, 0.5, 1.0], dtype=torch.float64)
    gated = network(torch.tensor(X) * scale).detach().numpy()
    columns = np.array([0, 2, 3])
    np.testing.assert_allclose(network.fitted(columns, scale)(X[:, columns]), gated, atol=1e-12)


def test_starts_have_the_variances_that_they_promise():
    def layer(start):
        network = make_network(300, (200,), 1, seeded(0), start=start, dtype="float64")
        return network.weights[0].detach().numpy(), network.biases[0].detach().numpy()

    W, b = layer("glorot")
    assert W.var() == pytest.approx(2 / 500, rel=0.02)
    assert not b.any()
    W, b = layer("uniform")
    assert abs(W).max() <= 300**-0.5
    assert W.var() == pytest.approx(1 / 900, rel=0.02)
    assert b.var() == pytest.approx(1 / 900, rel=0.3)
    W, b = layer("normal")
    assert W.var() == pytest.approx(1, rel=0.02)


def test_group_step_minimises_its_proximal_problem():
    rng = np.random.default_rng(0)
    group = np.array([0, 1, 1, 2])
    Z, thresholds = rng.normal(size=(4, 3)), np.array([0.4, 1.1, 50.0])
    W = torch.tensor(Z.copy())
    shrink_groups(W, torch.tensor(group), torch.tensor(thresholds))
    for g in range(3):
        z = Z[group == g].ravel()

        def objective(w, z=z, g=g):
            return 0.5 * ((w - z) ** 2).sum() + thresholds[g] * np.sqrt((w**2).sum() + 1e-18)

        best = minimize(
            objective, 0.5 * z, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 20000}
        )
        np.testing.assert_allclose(W.numpy()[group == g].ravel(), best.x, atol=1e-4)
        assert objective(W.numpy()[group == g].ravel()) <= best.fun + 1e-10
    assert not W[3].any()


def test_group_step_keeps_zero_rows_and_takes_infinite_thresholds():
    W = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
    shrink_groups(W, torch.arange(3), torch.tensor([0.0, 1.0, float("inf")]))
    np.testing.assert_allclose(W.numpy(), [[0, 0], [2.4, 3.2], [0, 0]], rtol=1e-6)


def test_group_norms_join_the_rows_of_a_group():
    norms = group_norms(torch.tensor([[3.0], [4.0], [2.0]]), torch.tensor([0, 0, 1]))
    np.testing.assert_allclose(norms.numpy(), [5, 2])


def test_zero_row_of_the_first_layer_has_no_effect_on_the_output():
    network = make_network(3, (4,), 2, seeded(0), activation="tanh")
    with torch.no_grad():
        network.weights[0][1] = 0
    X = torch.randn(5, 3, generator=seeded(1))
    changed = X.clone()
    changed[:, 1] = 100.0
    assert torch.equal(network(X), network(changed))


@pytest.mark.parametrize(("loss", "outputs"), [(cross_entropy, 2), (squared_error, 1)])
def test_integer_weights_act_as_repeated_rows(loss, outputs):
    X, y = table()
    y = y if outputs == 2 else X[:, 0] - X[:, 1]
    weight = np.arange(len(y)) % 3
    trained = []
    for rows in (
        make_rows(X, y, weight, dtype="float64"),
        make_rows(X.repeat(weight, axis=0), y.repeat(weight), dtype="float64"),
    ):
        network = make_network(6, (4,), outputs, seeded(0), dtype="float64")
        train_network(network, rows, loss, LoopSettings(0.01, 30), seeded(0))
        trained.append(network.fitted()(X))
    np.testing.assert_allclose(*trained, atol=1e-9)


def test_cross_entropy_is_minus_the_log_of_the_softmax():
    output = torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.0, 3.0]], dtype=torch.float64)
    P = np.exp(output.numpy()) / np.exp(output.numpy()).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(cross_entropy(output, torch.tensor([2, 0])), -np.log([P[0, 2], P[1, 0]]))


def test_early_end_brings_back_the_best_parameters():
    """The validation loss is scripted: it falls for three epochs and rises afterwards."""
    parameter = torch.zeros(1, requires_grad=True)
    script = iter([5.0, 4.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    after = []

    def validation_loss():
        after.append(float(parameter.detach()))
        return next(script)

    settings = LoopSettings(1.0, 100, optimizer="sgd", patience=3)
    result = train([parameter], lambda _: parameter.sum(), 10, settings, seeded(0), validation_loss=validation_loss)
    assert result == (3.0, 3)
    assert len(after) == 6
    assert float(parameter.detach()) == after[2]


def test_every_batch_has_its_rows_once_per_epoch():
    seen = []
    parameter = torch.zeros(1, requires_grad=True)

    def batch_loss(batch):
        seen.append(batch.tolist())
        return parameter.sum()

    train([parameter], batch_loss, 20, LoopSettings(1.0, 2, batch_size=5), seeded(0))
    assert [len(batch) for batch in seen] == [5] * 8
    assert sorted(itertools.chain(*seen[:4])) == sorted(itertools.chain(*seen[4:])) == list(range(20))
    assert seen[:4] != seen[4:]


def test_full_batch_step_equals_gradient_descent_by_hand():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    network = make_network(4, (), 1, seeded(0), dtype="float64")
    w, b = network.weights[0].detach().numpy().copy(), network.biases[0].detach().numpy().copy()
    train_network(
        network, make_rows(X, y, dtype="float64"), squared_error, LoopSettings(0.1, 3, optimizer="sgd"), seeded(0)
    )
    for _ in range(3):
        residual = X @ w + b - y[:, None]
        w, b = w - 0.1 * 2 * X.T @ residual / 30, b - 0.1 * 2 * residual.mean(axis=0)
    np.testing.assert_allclose(network.weights[0].detach().numpy(), w, atol=1e-12)
    np.testing.assert_allclose(network.biases[0].detach().numpy(), b, atol=1e-12)


def test_divergence_is_an_error_that_says_what_to_do():
    X, y = table()
    network = make_network(6, (), 1, seeded(0))
    settings = LoopSettings(1e4, 200, optimizer="sgd")
    with pytest.raises(DivergenceError, match="smaller learning_rate"):
        train_network(network, make_rows(X, y.astype(float)), squared_error, settings, seeded(0))


def test_mean_loss_without_gradients_is_the_weighted_mean():
    X, y = table()
    network, weight = make_network(6, (3,), 2, seeded(0), dtype="float64"), np.linspace(0, 1, len(y))
    rows = make_rows(X, y, weight, dtype="float64")
    each = cross_entropy(network(rows.X), rows.target).detach().numpy()
    assert loss_value(network, rows, cross_entropy) == pytest.approx(np.average(each, weights=weight))
    assert float(mean_loss(network(rows.X), rows, cross_entropy).detach()) == pytest.approx(
        np.average(each, weights=weight)
    )


@pytest.mark.parametrize("cls", QUICK, ids=lambda cls: cls.__name__)
def test_fit_leaves_the_global_random_state_and_threads_of_torch_alone(cls):
    X, y = table()
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    first = cls(2, random_state=3, **QUICK[cls]).fit(X, y).predict_proba(X)
    assert torch.equal(before, torch.get_rng_state())
    assert threads == torch.get_num_threads()
    torch.rand(7)  # what a user draws changes nothing
    np.testing.assert_array_equal(cls(2, random_state=3, **QUICK[cls]).fit(X, y).predict_proba(X), first)


@pytest.mark.parametrize("cls", QUICK, ids=lambda cls: cls.__name__)
def test_absent_torch_is_an_error_that_names_the_extra(cls, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"skinnytrees\[torch\]"):
        cls().fit(*table())


@pytest.mark.parametrize("cls", QUICK, ids=lambda cls: cls.__name__)
def test_fitted_system_predicts_without_torch_and_survives_pickle(cls, monkeypatch):
    X, y = table()
    system = cls(2, random_state=0, **QUICK[cls]).fit(X, y)
    expected = system.predict_proba(X)
    packed = pickle.dumps(system)
    monkeypatch.setitem(sys.modules, "torch", None)
    np.testing.assert_array_equal(pickle.loads(packed).predict_proba(X), expected)


@pytest.mark.parametrize("cls", QUICK, ids=lambda cls: cls.__name__)
def test_category_counts_as_one_feature(cls):
    pd = pytest.importorskip("pandas", reason="frames need pandas, which the extra [frames] installs")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"word": pd.Categorical(rng.choice(list("abcd"), 80)), "a": rng.normal(size=80), "b": rng.normal(size=80)}
    )
    y = frame["word"].isin(["a", "c"]).to_numpy()
    system = cls(1, random_state=0, **QUICK[cls]).fit(frame, y)
    assert system.n_features_selected_ == 1
    assert system.predict_proba(frame).shape == (80, 2)


def test_widths_may_be_multiples_of_the_number_of_columns():
    X, y = table()
    system = AlgNetClassifier(6, hidden=(0.5, 4), random_state=0, **QUICK[AlgNetClassifier]).fit(X, y)
    assert [W.shape[1] for W in system.model_.network.weights] == [3, 4, 2]
    with pytest.raises(ValueError, match=r"hidden=\(0,\)"):
        AlgNetClassifier(6, hidden=(0,)).fit(X, y)
