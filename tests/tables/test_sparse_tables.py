"""Sparse matrices give the result of the dense table, in every format, and are not made dense."""

import numpy as np
import pytest
from scipy import sparse

from skinnytrees import SkinnyTreesClassifier
from tables.helpers import PENALISED, QUICK, coded_table

# Whether a penalty removes anything is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


def sparse_table(n_rows=80, n_columns=100, density=0.1):
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 3, size=(n_rows, n_columns)) * (rng.random((n_rows, n_columns)) < density)
    X[:, 5] = np.arange(n_rows) % 2 * rng.uniform(1, 3, n_rows)
    return X, np.arange(n_rows) % 2


@pytest.fixture
def stays_sparse(monkeypatch):
    """Sparse tables are read as such, however small they are."""
    monkeypatch.setattr("skinnytrees.tables.frames._DENSE_UP_TO", 0)
    monkeypatch.setattr("skinnytrees.tables.frames._DENSE_FROM", 1.1)


SPARSE_WAYS = pytest.mark.parametrize(
    "way",
    [{"feature_budget": 3}, {"feature_budget": 3, "refit": False}, PENALISED],
    ids=["path", "not refitted", "group_l0"],
)


@pytest.mark.usefixtures("stays_sparse")
@SPARSE_WAYS
def test_every_sparse_format_gives_the_same_result(way):
    X, y = sparse_table()
    formats = [kind(X) for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array)]
    models = [SkinnyTreesClassifier(**{**QUICK, **way, "max_epochs": 20}).fit(table, y) for table in formats]
    for model, table in zip(models, formats, strict=True):
        np.testing.assert_array_equal(model.model_.trees.flat, models[0].model_.trees.flat)
        np.testing.assert_array_equal(model.predict_proba(table), models[0].predict_proba(formats[0]))
    assert models[0].support_[5]
    assert models[0].score(formats[0], y) >= 0.9


@pytest.mark.usefixtures("stays_sparse")
@SPARSE_WAYS
def test_sparse_and_dense_rows_are_predicted_alike(way):
    """Whichever of the two the model was fitted on."""
    X, y = sparse_table()
    for table in (sparse.csr_array(X), X):
        model = SkinnyTreesClassifier(**{**QUICK, **way}).fit(table, y)
        reference = model.predict_proba(X)
        np.testing.assert_allclose(model.predict_proba(sparse.csr_array(X)), reference, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(model.predict_proba(sparse.csc_array(X)), reference, rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("stays_sparse")
@SPARSE_WAYS
def test_validation_rows_may_be_sparse(way):
    X, y = (sparse.csr_array(part) if part.ndim == 2 else part for part in sparse_table())
    model = SkinnyTreesClassifier(**{"max_epochs": 20, "random_state": 0, **way}).fit(X, y, X_val=X[:20], y_val=y[:20])
    assert model.score(X, y) > 0.8


@pytest.mark.usefixtures("stays_sparse")
@pytest.mark.parametrize("cv", [None, 3])
def test_wide_sparse_table_is_never_made_dense(monkeypatch, cv):
    """Neither whole nor by columns: what becomes dense is small next to it."""
    X, y = sparse_table(n_rows=60, n_columns=4000, density=0.02)
    table = sparse.csr_array(X)
    sizes = []

    def watched(original):
        def method(self, *args, **kwargs):
            sizes.append(np.prod(self.shape))
            return original(self, *args, **kwargs)

        return method

    for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix, sparse.csc_matrix):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(kind, name, watched(getattr(kind, name)))
    model = SkinnyTreesClassifier(5, cv=cv, **QUICK).fit(table, y)
    model.predict(table)
    model.transform(table)
    assert model.support_[5]
    assert max(sizes) <= max(60 * 60, 2 * 4000)


def test_transform_of_a_sparse_matrix_is_sparse():
    X, y = sparse_table()
    model = SkinnyTreesClassifier(3, refit=False, **QUICK).fit(sparse.csr_array(X), y)
    out = model.transform(sparse.csr_array(X))
    assert sparse.issparse(out)
    np.testing.assert_array_equal(out.toarray(), X[:, model.support_])


def stored_zeros(X):
    rows, cols = np.indices(X.shape)
    return sparse.csr_array((X.ravel(), (rows.ravel(), cols.ravel())), shape=X.shape)


def stored_twice(X):
    table = sparse.csr_array(X)
    halves = sparse.csr_array(
        (np.repeat(table.data / 2, 2), np.repeat(table.indices, 2), 2 * table.indptr), shape=table.shape
    )
    assert not halves.has_canonical_format
    return halves


def stored_backwards(X):
    table = sparse.csr_array(X)
    for start, end in zip(table.indptr, table.indptr[1:], strict=False):
        table.indices[start:end] = table.indices[start:end][::-1].copy()
        table.data[start:end] = table.data[start:end][::-1].copy()
    table.has_sorted_indices = False
    return table


@pytest.mark.usefixtures("stays_sparse")
@pytest.mark.parametrize("store", [stored_zeros, stored_twice, stored_backwards])
def test_way_in_which_a_sparse_matrix_is_stored_does_not_matter(store):
    X, y = sparse_table()
    settings = {"feature_budget": 3, "validation_fraction": 0.25, "refit": False, **QUICK}
    reference = SkinnyTreesClassifier(**settings).fit(sparse.csr_array(X), y)
    table = store(X)
    np.testing.assert_array_equal(table.toarray(), X)
    model = SkinnyTreesClassifier(**settings).fit(table, y)
    np.testing.assert_array_equal(model.model_.encoder.scale, reference.model_.encoder.scale)
    np.testing.assert_array_equal(model.predict_proba(X), reference.predict_proba(X))


@pytest.mark.usefixtures("stays_sparse")
def test_categories_in_a_sparse_matrix_are_categories():
    frame, y = coded_table()
    X = frame.to_numpy()
    model = SkinnyTreesClassifier(categorical_features=[1, 2], refit=False, **QUICK).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(model.predict_proba(sparse.csr_array(X)), model.predict_proba(X), rtol=1e-5)
    assert model.score(X, y) == 1


@pytest.mark.usefixtures("stays_sparse")
def test_sparse_columns_are_scaled_to_values_of_size_one():
    X, y = sparse_table()
    model = SkinnyTreesClassifier(refit=False, validation_fraction=None, size_rule="full", **QUICK).fit(
        sparse.csr_array(X), y
    )
    encoder = model.model_.encoder
    expected = [np.sqrt(np.mean(X[X[:, k] != 0, k] ** 2)) for k in encoder.feature]
    np.testing.assert_allclose(encoder.scale, expected)
    np.testing.assert_array_equal(encoder.mean, 0)


@pytest.mark.usefixtures("stays_sparse")
def test_order_and_weight_of_sparse_rows():
    X, y = sparse_table(n_columns=40)
    shuffled = np.random.default_rng(0).permutation(len(y))
    weight = np.random.default_rng(1).integers(1, 3, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    settings = {"feature_budget": 3, "validation_fraction": 0.25, "refit": False, **QUICK}
    reference = SkinnyTreesClassifier(**settings).fit(sparse.csr_array(X), y, weight)
    for rows, weights in ((shuffled, weight[shuffled]), (repeated, None)):
        model = SkinnyTreesClassifier(**settings).fit(sparse.csr_array(X[rows]), y[rows], weights)
        np.testing.assert_array_equal(model.model_.trees.flat, reference.model_.trees.flat)
