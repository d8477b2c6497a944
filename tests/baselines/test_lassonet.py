"""LassoNet: the package's proximal step by its definition, and the traps that the wrapper avoids."""

import sys

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import clone

torch = pytest.importorskip("torch", reason="LassoNet needs torch, which the extra [torch] installs")
pytest.importorskip("lassonet", reason="LassoNet needs the package lassonet, which the extra [torch] installs")

from skinnytrees.baselines.lassonet import LassoNetClassifier, LassoNetRegressor  # noqa: E402

# The package takes seconds to find where its path starts: given here, except where that is tested.
LAMBDAS = tuple(np.geomspace(200, 1500, 18))
QUICK = {"hidden": (8,), "lambdas": LAMBDAS, "max_epochs": (60, 10), "random_state": 0, "refit_epochs": 40}


def table(n_rows=300, n_columns=6):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    return X, np.where(X[:, 1] - X[:, 4] > 0, "yes", "no")


@pytest.mark.parametrize("M", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("n_hidden", [1, 5])
def test_proximal_step_of_the_package_minimises_its_problem(M, n_hidden):
    from lassonet.prox import prox

    generator = torch.Generator().manual_seed(0)
    for lam in (0.0, 0.3, 2.0):
        v = torch.randn(3, generator=generator, dtype=torch.float64)
        u = torch.randn(n_hidden, generator=generator, dtype=torch.float64)
        skip, first = prox(v, u, lambda_=lam, lambda_bar=0, M=M)
        # For a skip vector of length t the best direction is that of v and the best weights are cut at M t: one dimension.
        size, a = float(v.norm()), u.abs().numpy()

        def objective(t, size=size, a=a, lam=lam):
            return 0.5 * (t - size) ** 2 + lam * t + 0.5 * (np.maximum(a - M * t, 0) ** 2).sum()

        best = minimize_scalar(
            objective, bounds=(0, size + M * a.sum() + 1), method="bounded", options={"xatol": 1e-10}
        )
        assert float(skip.norm()) == pytest.approx(best.x, abs=1e-6)
        assert float(first.abs().max()) <= M * float(skip.norm()) + 1e-12
        np.testing.assert_allclose(
            first.numpy(), np.sign(u.numpy()) * np.minimum(a, M * float(skip.norm())), atol=1e-12
        )


@pytest.mark.parametrize("lam", [0.3, 1.0, 5.0])
def test_proximal_step_of_the_package_is_that_of_the_lasso_as_m_vanishes(lam):
    from lassonet.prox import prox

    v = torch.tensor([2.0], dtype=torch.float64)
    skip, first = prox(v, torch.tensor([0.7, -3.0], dtype=torch.float64), lambda_=lam, lambda_bar=0, M=1e-9)
    assert float(skip) == pytest.approx(max(2.0 - lam, 0.0), abs=1e-7)
    np.testing.assert_allclose(first.numpy(), 0, atol=1e-8)


def test_first_layer_stays_below_m_times_the_skip_weights_after_every_step(monkeypatch):
    from lassonet.model import LassoNet

    step, n_steps = LassoNet.prox, []

    def watched(self, **settings):
        step(self, **settings)
        n_steps.append(1)
        largest = self.layers[0].weight.detach().abs().max(dim=0).values
        allowed = settings["M"] * self.skip.weight.detach().norm(dim=0)
        assert (largest <= allowed * (1 + 1e-5) + 1e-7).all()

    monkeypatch.setattr(LassoNet, "prox", watched)
    LassoNetClassifier(2, **{**QUICK, "lambdas": (300.0, 600.0)}, M=3.0).fit(*table())
    assert len(n_steps) > 5


def test_path_goes_from_all_features_to_none_and_the_budget_is_met():
    X, y = table()
    system = LassoNetClassifier(2, **QUICK).fit(X, y)
    sizes = system.path_.n_features
    assert (sizes[0], sizes[-1]) == (6, 0)
    assert set(system.get_support(indices=True)) <= {1, 4}
    assert system.ranking_[system.support_].max() <= system.n_features_selected_
    assert system.score(X, y) > 0.7
    assert system.path_[0].setting["lambda"] == 0


def test_network_of_the_path_predicts_what_the_package_predicts(monkeypatch):
    import lassonet

    X, y = table()
    kept = []
    path = lassonet.LassoNetClassifier.path

    def watched(self, X, y, **settings):
        record = settings.pop("callback")

        def both(system, history):
            record(system, history)
            kept.append((self._cast_input(X), system.model(self._cast_input(X)).detach().softmax(dim=1).numpy()))

        return path(self, X, y, callback=both, **settings)

    monkeypatch.setattr(lassonet.LassoNetClassifier, "path", watched)
    system = LassoNetClassifier(2, refit=False, **QUICK).fit(X, y, X_val=X[:50], y_val=y[:50])
    np.testing.assert_allclose(system.predict_proba(X), kept[system.path_.chosen][1], atol=1e-5)


def test_every_setting_reaches_the_package_and_survives_clone(monkeypatch):
    import lassonet

    given = {}
    start = lassonet.LassoNetRegressor.__init__

    def watched(self, **settings):
        given.update(settings)
        start(self, **settings)

    monkeypatch.setattr(lassonet.LassoNetRegressor, "__init__", watched)
    X, _ = table()
    system = LassoNetRegressor(
        1, **{**QUICK, "lambdas": [1e4]}, M=5.0, path_multiplier=1.6, batch_size=50, patience=(7, 3)
    )
    clone(system).fit(X, X[:, 0])
    expected = {
        "hidden_dims": (8,), "M": 5.0, "path_multiplier": 1.6, "batch_size": 50, "n_iters": (60, 10), "patience": (7, 3),
        "groups": None,
    }  # fmt: skip
    assert expected.items() <= given.items()
    assert not {"gamma", "gamma_skip"} & given.keys()


def test_fit_leaves_the_global_random_state_and_threads_of_torch_alone():
    X, y = table()
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    settings = {**QUICK, "batch_size": 40}
    first = LassoNetClassifier(2, **settings).fit(X, y).predict_proba(X)
    assert torch.equal(before, torch.get_rng_state())
    assert threads == torch.get_num_threads()
    torch.rand(7)
    np.testing.assert_array_equal(LassoNetClassifier(2, **settings).fit(X, y).predict_proba(X), first)


def test_category_is_a_group_of_the_package():
    pd = pytest.importorskip("pandas", reason="frames need pandas, which the extra [frames] installs")
    rng = np.random.default_rng(0)
    words = rng.choice(list("abcd"), 120)
    frame = pd.DataFrame({"noise": rng.normal(size=120), "word": pd.Categorical(words), "more": rng.normal(size=120)})
    system = LassoNetClassifier(1, **QUICK).fit(frame, np.isin(words, ["a", "c"]))
    assert system.get_support(indices=True).tolist() == [1]
    assert system.score(frame, np.isin(words, ["a", "c"])) > 0.9


def test_weights_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match="does not support sample weights"):
        LassoNetClassifier(2, **QUICK).fit(X, y, np.ones(len(y)))


def test_absent_package_is_an_error_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lassonet", None)
    with pytest.raises(ImportError, match=r"skinnytrees\[torch\]"):
        LassoNetClassifier(2).fit(*table())
