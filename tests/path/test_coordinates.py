"""Uncorrelated coordinates: the same ensemble in both, and differences between nearly equal columns that are found in them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from skinnytrees import SkinnyTreesClassifier
from skinnytrees.kernels.state import Data, start_trees
from skinnytrees.path import coordinates as coordinates_module
from skinnytrees.path.coordinates import Coordinates
from skinnytrees.path.rules import DEFAULT_RULES
from skinnytrees.path.styles import VALUES_AND_PLANES
from skinnytrees.tables.table_views import PickedRows

FLOOR = 1e-6


def curves(n_rows, n_columns=12, seed=0):
    """Points of curves: a level that all columns share, and differences a fiftieth as large."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n_rows, 1)) + 0.02 * rng.normal(size=(n_rows, n_columns))).astype(np.float32)


def as_data(X, weight=None):
    weight = np.ones(X.shape[0]) if weight is None else weight
    return Data(X, np.zeros((X.shape[0], 1), np.float32), weight.astype(np.float32))


def test_coordinates_are_uncorrelated_and_of_one_scale():
    found = Coordinates(as_data(curves(400)), FLOOR).data.X
    np.testing.assert_allclose(np.cov(found.T, bias=True), np.eye(12), atol=0.01)


def test_columns_that_are_uncorrelated_already_stay_as_they_are():
    Q, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(60, 4)))
    X = Q - Q.mean(axis=0)
    X = np.linalg.qr(X)[0].astype(np.float32) * np.sqrt(60)
    np.testing.assert_allclose(Coordinates(as_data(X), FLOOR).data.X, X, atol=1e-5)


def test_ensemble_gives_the_same_in_columns_and_in_coordinates():
    X = curves(200)
    here = Coordinates(as_data(X), FLOOR)
    trees = start_trees(12, 5, 2, 1, np.random.default_rng(1))
    before = trees.W.copy()
    here.enter(trees)
    np.testing.assert_allclose(here.data.X @ trees.W, X @ before, atol=1e-4)
    here.leave(trees)
    np.testing.assert_allclose(trees.W, before, atol=1e-5)


def test_row_of_weight_two_counts_as_two_rows():
    X = curves(50)
    weighted = Coordinates(as_data(X, np.repeat([2.0, 1.0], 25)), FLOOR).data.X
    repeated = Coordinates(as_data(np.concatenate([X[:25], X])), FLOOR).data.X
    np.testing.assert_allclose(weighted, repeated[25:], atol=1e-4)


def test_direction_without_variance_does_no_harm():
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 1)), 3, axis=1).astype(np.float32)
    here = Coordinates(as_data(X), 1e-4)
    trees = start_trees(3, 4, 1, 1, np.random.default_rng(0))
    here.leave(trees)
    assert np.isfinite(here.data.X).all()
    assert np.isfinite(trees.W).all()


@pytest.mark.parametrize("floor", [None, FLOOR])
def test_sparse_rows_and_no_floor_leave_data_and_weights_alone(floor):
    X = curves(20) if floor is None else sparse.csr_matrix(curves(20))
    here, trees = Coordinates(as_data(X), floor), start_trees(12, 3, 1, 1, np.random.default_rng(0))
    before = trees.W.copy()
    here.enter(trees)
    here.leave(trees)
    assert here.data.X is X
    np.testing.assert_array_equal(trees.W, before)


def test_rows_in_pieces_and_views_of_a_table_give_the_same(monkeypatch):
    table = curves(80)
    rows = np.random.default_rng(0).permutation(80)[:50]
    expected = Coordinates(as_data(table[rows]), FLOOR).data.X
    monkeypatch.setattr(coordinates_module, "_CONVERTED_AT_ONCE", 12 * 7)
    np.testing.assert_allclose(Coordinates(as_data(PickedRows(table, rows)), FLOOR).data.X, expected, atol=1e-4)


def test_default_fit_finds_a_difference_between_nearly_equal_columns():
    """All columns have a correlation of 0.9996 with each other; the class is the sign of a difference of two of them."""
    X = curves(1000)
    y = (X[:, 3] > X[:, 7]).astype(int)
    without = SkinnyTreesClassifier(4, random_state=0)
    planes = replace(VALUES_AND_PLANES, variance_floor=None)
    without._rules = replace(DEFAULT_RULES, styles=(DEFAULT_RULES.styles[0], planes))
    scores = []
    for model in (SkinnyTreesClassifier(4, random_state=0), without):
        model.fit(X[:600], y[:600])
        scores.append(roc_auc_score(y[600:], model.predict_proba(X[600:])[:, 1]))
        if model is not without:
            assert {3, 7} <= set(np.flatnonzero(model.get_support()))
    assert scores[0] > 0.95 > scores[1] + 0.1


def test_style_that_has_learned_nothing_gives_way_without_strong_evidence():
    X = curves(600)
    y = (X[:, 3] > X[:, 7]).astype(int)
    model = SkinnyTreesClassifier(4, max_epochs=5, random_state=0)
    model._rules = replace(DEFAULT_RULES, style_noise=1e9)
    assert not model.fit(X, y).model_.encoder.curves.exists.any()
    assert model.fit(X, (X[:, 3] > 0).astype(int)).model_.encoder.curves.exists.any()
