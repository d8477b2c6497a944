"""Several targets at once, every loss, and units that do not matter."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.metrics import r2_score

from estimators.helpers import EVERY_WAY, assert_same_fit, diabetes, fitted_regressor, regressor
from skinnytrees import SkinnyTreesRegressor
from skinnytrees.losses import Huber, Poisson, Quantile, SquaredError
from skinnytrees.penalties import GroupL0

# Few epochs on few rows: what a penalty removes, or whether it removes anything, is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


@EVERY_WAY
def test_several_targets_at_once(way):
    X, y = diabetes()
    Y = np.column_stack([y, -1000 * y, X[:, 2]])
    model = regressor(way, max_epochs=20).fit(X, Y)
    prediction = model.predict(X)
    assert prediction.shape == Y.shape
    for k in range(3):
        assert r2_score(Y[:, k], prediction[:, k]) > 0.2
    assert len(model.model_.trees.O) == 3


@EVERY_WAY
def test_prediction_has_the_shape_of_y(way):
    X, y = diabetes()
    assert fitted_regressor(way).predict(X).shape == y.shape
    one_column = regressor(way).fit(X, y.reshape(-1, 1))
    assert one_column.predict(X).shape == (len(y), 1)
    np.testing.assert_array_equal(one_column.predict(X).ravel(), fitted_regressor(way).predict(X))


@dataclass
class LogCosh:
    """A user's loss in plain NumPy."""

    def value(self, y, raw):
        return np.logaddexp(raw - y, y - raw) - np.log(2)

    def gradient(self, y, raw):
        return np.tanh(raw - y)


LOSSES = [SquaredError(), Huber(), Quantile(0.3), Poisson(), LogCosh()]


def counts(n_rows=250):
    """Counts whose mean depends on two of eight columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 8))
    return X, rng.poisson(np.exp(0.8 * X[:, 0] - 0.8 * X[:, 3] + 0.5)).astype(float)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("way", ["path", "group_l0", "dense"])
def test_every_loss_fits_better_than_the_best_constant(loss, way):
    X, y = counts()
    link = np.log if isinstance(loss, Poisson) else lambda prediction: prediction
    weaker = {"penalty": GroupL0(5.0, rate=0.1)} if way == "group_l0" else {}
    model = regressor(way, loss=loss, **{"max_epochs": 60, **weaker}).fit(X, y)
    ours = loss.value(y, link(model.predict(X))).mean()
    constant = minimize_scalar(
        lambda c: loss.value(y, np.full(len(y), c)).mean(), bounds=(-5, 20), method="bounded"
    ).fun
    least = loss.value(y, link(np.maximum(y, 1e-9))).mean()
    assert ours - least < 0.75 * (constant - least)
    assert {0, 3} <= set(model.get_support(indices=True))


@pytest.mark.parametrize("name", ["squared_error", "huber", "quantile", "poisson"])
def test_name_of_a_loss_stands_for_its_object(name):
    X, y = counts(100)
    kinds = {"squared_error": SquaredError, "huber": Huber, "quantile": Quantile, "poisson": Poisson}
    assert_same_fit(regressor("path", loss=name).fit(X, y), regressor("path", loss=kinds[name]()).fit(X, y), X)


@EVERY_WAY
def test_poisson_predictions_are_positive_means(way):
    X, y = counts()
    model = regressor(way, loss="poisson", max_epochs=20).fit(X, y)
    far = 50 * np.random.default_rng(1).normal(size=(100, 8))
    assert (model.predict(np.vstack([X, far])) > 0).all()
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.5)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantile_lies_above_its_fraction_of_new_rows(level):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 4))
    y = X[:, 0] + (1 + 0.5 * (X[:, 1] > 0)) * rng.normal(size=1600)
    model = SkinnyTreesRegressor(
        loss=Quantile(level), penalty=None, optimizer="adam", learning_rate=0.01, schedule="one_cycle", max_epochs=30,
        n_estimators=20, random_state=0,
    ).fit(X[:800], y[:800])  # fmt: skip
    assert np.mean(y[800:] <= model.predict(X[800:])) == pytest.approx(level, abs=0.06)


@pytest.mark.parametrize("unit", [1e-5, 1e4])
def test_standardised_fit_does_not_depend_on_units(unit):
    """Over the full batch and on one column: the order of rows and columns depends on their bits, which a unit changes."""
    X, y = diabetes()
    X = X[:, [2]]
    model = regressor("dense", optimizer="sgd", batch_size=1000, validation_fraction=None)
    scaled = clone(model).fit(X * unit + 7, 1e-6 * y + 1)
    np.testing.assert_allclose(scaled.predict(X * unit + 7), 1e-6 * clone(model).fit(X, y).predict(X) + 1, rtol=1e-8)


def test_without_standardising_columns_are_taken_as_they_are():
    X, y = diabetes()
    model = regressor("group_l0", standardize=False).fit(X, y / 100)
    np.testing.assert_array_equal(model.model_.encoder.mean, 0)
    np.testing.assert_array_equal(model.model_.encoder.scale, 1)
    np.testing.assert_array_equal(model.model_.base, 0)
