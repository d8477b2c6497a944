"""Missing values are learned from, or stand for the mean."""

import numpy as np
import pytest
from path.helpers import with_rules

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from tables.helpers import BOTH_WAYS, ONE_COLUMN_EACH, QUICK, WAYS, N

# Whether a penalty removes anything is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


@BOTH_WAYS
def test_missing_values_can_carry_the_signal(way):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    gone = rng.random(N) < 0.4
    X[gone, 2] = np.nan
    budget = {"feature_budget": 1} if way == "path" else {}
    model = SkinnyTreesClassifier(**WAYS[way], **budget).fit(X, gone)
    assert model.score(X, gone) > 0.95
    assert model.support_[2]
    encoder = model.model_.encoder
    assert np.sum(encoder.is_indicator) == 1
    values = (encoder.feature == 2) & ~encoder.is_indicator & ~encoder.curves.exists
    assert np.sum(values) == 1, "the value and its indicator are one feature"


@BOTH_WAYS
def test_missing_value_counts_as_the_mean_where_none_was_missing(way):
    rng = np.random.default_rng(0)
    X = rng.normal(3, 2, size=(N, 3))
    model = SkinnyTreesRegressor(**WAYS[way]).fit(X, X[:, 0])
    encoder = model.model_.encoder
    assert not encoder.is_indicator.any()
    gap = X.copy()
    gap[:, 0] = np.nan
    assert not encoder.encode_dense(gap)[:, encoder.feature == 0].any(), "of the value and of its ranks"


def test_missing_value_is_predicted_like_the_mean_where_none_was_missing():
    X = np.random.default_rng(0).normal(3, 2, size=(N, 3))
    model = with_rules(SkinnyTreesRegressor, ONE_COLUMN_EACH)(**QUICK).fit(X, X[:, 0])
    gap, mean = X.copy(), X.copy()
    gap[:, 0] = np.nan
    mean[:, 0] = model.model_.encoder.mean[model.model_.encoder.feature == 0]
    np.testing.assert_allclose(model.predict(gap), model.predict(mean), rtol=1e-6)


def test_mean_of_a_column_with_gaps_is_that_of_its_known_values():
    X = np.random.default_rng(0).normal(size=(N, 2))
    X[::3, 0] = np.nan
    model = SkinnyTreesRegressor(validation_fraction=None, **QUICK).fit(X, X[:, 1])
    encoder = model.path_.models[0].encoder
    values = ~encoder.is_indicator & ~encoder.curves.exists
    np.testing.assert_allclose(encoder.mean[values], np.nanmean(X, axis=0))
    np.testing.assert_allclose(encoder.scale[values], np.nanstd(X, axis=0))


def test_few_gaps_get_no_column_of_their_own():
    X = np.random.default_rng(0).normal(size=(N, 2))
    X[:2, 0] = np.nan
    model = SkinnyTreesRegressor(**QUICK).fit(X, X[:, 1])
    assert not model.path_.models[0].encoder.is_indicator.any()


@BOTH_WAYS
def test_column_without_any_value_does_no_harm(way):
    X = np.random.default_rng(0).normal(size=(N, 3))
    y = X[:, 0].copy()
    X[:, 1] = np.nan
    model = SkinnyTreesRegressor(**WAYS[way]).fit(X, y)
    assert model.score(X, y) > 0.8
    if way == "path":
        assert not model.support_[1]
