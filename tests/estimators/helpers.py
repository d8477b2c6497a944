"""Models that several tests of the estimators share."""

import functools

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.penalties import GroupL0

L0 = GroupL0(gamma=8.0, rate=0.1)
PENALISED = {"n_estimators": 8, "max_epochs": 12, "batch_size": 16}
# Ways to fit that share little code: the path, the paper's algorithm, a dense ensemble.
WAYS = {
    "path": {"feature_budget": 4, "max_epochs": 3, "n_estimators": 8},
    "group_l0": {"penalty": L0, **PENALISED},
    "dense": {"penalty": None, "optimizer": "adam", **PENALISED},
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


@functools.cache
def wine():
    return load_wine(return_X_y=True)


@functools.cache
def diabetes(n_rows=150):
    X, y = load_diabetes(return_X_y=True)
    return X[:n_rows], y[:n_rows]


def classifier(way, **changes):
    return SkinnyTreesClassifier(**{"random_state": 0, **WAYS[way], **changes})


def regressor(way, **changes):
    return SkinnyTreesRegressor(**{"random_state": 0, **WAYS[way], **changes})


@functools.cache
def fitted(way):
    """A classifier on wine; not to be changed."""
    return classifier(way).fit(*wine())


@functools.cache
def fitted_regressor(way):
    return regressor(way).fit(*diabetes())


def assert_same_fit(model, other, X=None):
    """The same weights on the same features, to the last bit."""
    np.testing.assert_array_equal(model.support_, other.support_)
    np.testing.assert_array_equal(model.model_.trees.flat, other.model_.trees.flat)
    np.testing.assert_array_equal(model.model_.base, other.model_.base)
    if X is not None:
        np.testing.assert_array_equal(model.predict(X), other.predict(X))
