"""Which rows validate a fit, and what they may and may not change."""

import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score

from estimators.helpers import assert_same_fit, classifier, diabetes, regressor, wine
from skinnytrees import SkinnyTreesClassifier
from skinnytrees.penalties import GroupL0

# Few epochs on few rows: what a penalty removes, or whether it removes anything, is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


def held_out():
    X, y = diabetes()
    held = np.arange(len(y)) % 3 == 0
    return X[~held], y[~held], X[held], y[held]


def test_validation_score_is_that_of_the_given_rows():
    X, y, X_val, y_val = held_out()
    path = regressor("path").fit(X, y, X_val=X_val, y_val=y_val).path_
    for model, score in zip(path.models, path.val_score, strict=True):
        # As sure of itself as these rows allow: a factor near one where they are few.
        raw, base = model.raw(X_val)[:, 0], model.base[0]
        calibrated = [r2_score(y_val, base + factor * (raw - base)) for factor in np.geomspace(0.1, 3, 60)]
        assert score == pytest.approx(max(calibrated), abs=0.03)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_validation_score_reacts_to_the_given_rows():
    X, y, X_val, y_val = held_out()
    good = regressor("path").fit(X, y, X_val=X_val, y_val=y_val).path_.val_score
    bad = regressor("path").fit(X, y, X_val=X_val, y_val=y_val[::-1]).path_.val_score
    assert good.max() > 0.2
    assert bad.max() < 0.1


def test_weights_of_validation_rows_are_used():
    X, y, X_val, y_val = held_out()
    weight = (np.arange(len(y_val)) % 2).astype(float)
    weighted = regressor("path", refit=False).fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=weight)
    fewer = regressor("path", refit=False).fit(X, y, X_val=X_val[1::2], y_val=y_val[1::2])
    np.testing.assert_allclose(weighted.path_.val_score, fewer.path_.val_score, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(weighted.support_, fewer.support_)
    # The factor of the calibration is a minimum over rows, whose sum is rounded differently with rows of weight zero.
    np.testing.assert_allclose(weighted.model_.trees.flat, fewer.model_.trees.flat, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_model_that_is_not_refitted_has_not_seen_the_validation_rows():
    """More columns than rows, all of them to be used: validation rows decide only how sure of itself the model may be."""
    rng = np.random.default_rng(0)
    X, X_val = rng.normal(size=(40, 60)), rng.normal(size=(20, 60))
    y = X[:, 0]
    model = regressor("path", feature_budget=None, size_rule="full", refit=False)
    models = [clone(model).fit(X, y, X_val=X_val, y_val=y_val) for y_val in (X_val[:, 0], 100 - 9 * X_val[:, 1])]
    one, other = (model.model_.trees for model in models)
    np.testing.assert_array_equal(one.W, other.W)
    np.testing.assert_array_equal(one.b, other.b)
    np.testing.assert_allclose(one.O / other.O, one.O[0, 0] / other.O[0, 0], rtol=1e-5)
    for ours, theirs in zip(models[0].path_.models, models[1].path_.models, strict=True):
        np.testing.assert_array_equal(ours.trees.flat, theirs.trees.flat)
    refitted = clone(model).set_params(refit=True).fit(X, y, X_val=X_val, y_val=X_val[:, 0])
    for fit, rows in ((refitted, np.vstack([X, X_val])), (models[0], X)):
        encoder = fit.model_.encoder
        np.testing.assert_allclose(encoder.mean[~encoder.curves.exists], rows.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("way", ["group_l0", "dense"])
def test_penalised_fit_only_watches_the_validation_rows(way):
    X, y, X_val, y_val = held_out()
    watched = regressor(way).fit(X, y, X_val=X_val, y_val=y_val)
    assert_same_fit(watched, regressor(way, validation_fraction=None).fit(X, y), X)
    assert np.isfinite(watched.history_["val_loss"]).all()


def test_path_without_held_out_rows_takes_the_largest_size_of_the_budget():
    model = classifier("path", validation_fraction=None).fit(*wine())
    assert model.n_features_selected_ == 4
    assert np.isnan(model.path_.val_score).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("validation_fraction", [None, 0.2])
def test_penalised_fit_copies_a_dense_table_once_in_single_precision(dtype, validation_fraction):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4000, 500)).astype(dtype), rng.integers(0, 2, 4000)
    model = SkinnyTreesClassifier(
        penalty=GroupL0(1e-3), validation_fraction=validation_fraction, n_estimators=2, max_depth=1, max_epochs=1
    )
    model.fit(X[:50], y[:50])  # compiles
    tracemalloc.start()
    try:
        model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Validation looks at its rows once more, in the columns that are in use.
    copies = 1 if validation_fraction is None else 1 + validation_fraction
    assert peak < (copies + 0.5) * 4 * X.size
