"""Encodings and scales are learned from the training rows alone."""

import numpy as np
import pytest
from path.helpers import with_rules
from scipy import sparse

from skinnytrees import SkinnyTreesRegressor
from skinnytrees.path.rules import DEFAULT_RULES, replace_rule
from tables.helpers import ONE_COLUMN_EACH, QUICK, columns, fitted, pandas_frame

# Whether a penalty removes anything is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_encoding_is_learned_from_training_rows_alone():
    one_start = with_rules(SkinnyTreesRegressor, replace_rule(DEFAULT_RULES, "screening.n_starts", 1))
    frame, y = pandas_frame(), columns()[1]
    strange = frame.assign(age=1e6, income=5.0, city="Atlantis", visits=99, colour=None)[:40]
    models = [
        one_start(refit=False, **QUICK).fit(frame, y, X_val=X_val, y_val=y_val)
        for X_val, y_val in ((frame[:40], y[:40]), (strange, 1e3 * y[:40]))
    ]
    for ours, theirs in zip(models[0].path_.models, models[1].path_.models, strict=True):
        for name in ("feature", "mean", "scale", "level", "is_indicator", "is_level", "offsets"):
            np.testing.assert_array_equal(getattr(ours.encoder, name), getattr(theirs.encoder, name))
        np.testing.assert_array_equal(ours.trees.flat, theirs.trees.flat)
        np.testing.assert_array_equal(ours.base, theirs.base)
    for model in models:
        encoder = model.model_.encoder
        is_value = ~encoder.is_level & ~encoder.is_indicator & ~encoder.curves.exists
        values = encoder.feature[is_value]
        means = frame[["age", "income", "member", "visits"]].astype(float).mean().reindex(frame.columns).to_numpy()
        np.testing.assert_allclose(encoder.mean[is_value], means[values])


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_scaling_is_the_weighted_mean_and_deviation_of_the_rows_that_are_trained_on(refit):
    rng = np.random.default_rng(0)
    X, X_val = rng.normal(5, 2, size=(100, 3)), rng.normal(-5, 1, size=(50, 3))
    weight = rng.uniform(0.5, 2, size=100)
    model = with_rules(SkinnyTreesRegressor, ONE_COLUMN_EACH)(size_rule="full", refit=refit, **QUICK)
    model.fit(X, X[:, 0], weight, X_val=X_val, y_val=X_val[:, 0])
    rows, weights = (np.vstack([X, X_val]), np.append(weight, np.ones(50))) if refit else (X, weight)
    mean = np.average(rows, axis=0, weights=weights)
    np.testing.assert_allclose(model.model_.encoder.mean, mean)
    np.testing.assert_allclose(model.model_.encoder.scale**2, np.average((rows - mean) ** 2, axis=0, weights=weights))


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
def test_values_far_from_all_others_are_all_alike(store):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3)) * rng.integers(0, 2, size=(100, 3))
    model = SkinnyTreesRegressor(random_state=0).fit(store(X), X[:, 0] + X[:, 1])
    rows = np.repeat(X[:1], 3, axis=0)
    rows[:, 0] = 3.0, 1e3, 1e6
    near, far, farther = model.predict(store(rows))
    assert far == farther != near


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_held_out_fraction_is_not_used_for_scaling():
    """With refit=False, the encoder's mean is that of four fifths of the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 1))
    model = SkinnyTreesRegressor(validation_fraction=0.2, refit=False, **QUICK).fit(X, X[:, 0])
    pairs = [np.delete(X[:, 0], (i, j)).mean() for i in range(10) for j in range(i)]
    assert np.isclose(pairs, model.model_.encoder.mean[0], rtol=1e-12, atol=1e-15).sum() == 1


def test_predicting_changes_nothing():
    model, frame = fitted(), pandas_frame()
    before = model.predict(frame)
    model.predict(frame.assign(age=1e9, city="Atlantis"))
    np.testing.assert_array_equal(model.predict(frame), before)
