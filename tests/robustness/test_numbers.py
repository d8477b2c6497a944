"""Numbers of any size: counts, columns, targets and weights that are ordinary, huge or tiny."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.exceptions import NothingLearnedWarning
from skinnytrees.memory import MemoryEstimate, estimate_memory, refuse_if_too_large
from skinnytrees.path.rules import DEFAULT_RULES
from skinnytrees.tables.column_views import Views
from skinnytrees.tables.encoding import Encoder, varying_features
from skinnytrees.tables.groups import Groups
from skinnytrees.tables.scaling import Scaling

QUICK = {"max_epochs": 5, "n_estimators": 4, "random_state": 0}


@pytest.mark.parametrize(("n_rows", "n_columns"), [(60, 40), (100, 100)])
def test_path_on_ordinary_counts_is_no_worse_than_their_mean(n_rows, n_columns):
    """Where training overshoots, exp(raw) must not send it to outputs of -1e9, which predict zero everywhere."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows + 300, n_columns))
    y = rng.poisson(np.exp(X[:, 0] / 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingLearnedWarning)
        model = SkinnyTreesRegressor(loss="poisson", random_state=0).fit(X[:n_rows], y[:n_rows])
    error = np.mean((y[n_rows:] - model.predict(X[n_rows:])) ** 2)
    assert error < 1.2 * np.var(y[n_rows:])  # 1.9 and more when all predictions are zero


# ------------------------------------------------------------------------------------------------ columns


@pytest.mark.parametrize("factor", [2.0**-1000, 2.0**-600, 2.0**600, 2.0**1000])
def test_scaling_of_dense_columns_is_that_of_the_same_column_in_another_unit(factor):
    rng = np.random.default_rng(0)
    values, weight = rng.normal(3, 2, size=(50, 2)), rng.uniform(1, 2, size=50)
    values[7, 1] = np.nan
    ordinary, extreme = Scaling.learn_robust(values, weight), Scaling.learn_robust(values * factor, weight)
    np.testing.assert_allclose(extreme.mean / factor, ordinary.mean, rtol=1e-12)
    np.testing.assert_allclose(extreme.scale / factor, ordinary.scale, rtol=1e-12)


@pytest.mark.parametrize(
    ("dtype", "exponents"), [(np.float32, [-130, -90, 64, 100]), (np.float64, [-1000, -600, 600, 1000])]
)
def test_scaling_of_sparse_columns_is_that_of_the_same_column_in_another_unit(dtype, exponents):
    rng = np.random.default_rng(0)
    X = rng.uniform(1, 3, size=(30, 4)).astype(dtype) * (rng.random((30, 4)) < 0.5)
    units = np.ldexp(1.0, exponents)
    scale = Scaling.learn(sparse.csr_array((X * units).astype(dtype)), np.ones(30)).scale
    expected = [np.sqrt(np.mean(column[column != 0].astype(float) ** 2)) for column in X.T]
    np.testing.assert_allclose(scale / units, expected, rtol=1e-5)


@pytest.mark.parametrize("store", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("dtype", "factor"), [(np.float64, 1e170), (np.float64, 1e-170), (np.float32, 1e25), (np.float32, 1e-30)]
)
def test_unit_of_the_columns_does_not_matter(store, dtype, factor):
    """The classes are told by one column; its unit must not turn the model into a constant."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)) * (rng.random((120, 3)) < 0.7)
    y = X[:, 1] > 0
    model = SkinnyTreesClassifier(1, **QUICK).fit(store((X * factor).astype(dtype)), y)
    assert model.get_support(indices=True).tolist() == [1]
    assert model.score(store((X * factor).astype(dtype)), y) > 0.9


def test_one_wild_cell_among_huge_values_does_not_inflate_the_scale():
    values = np.append(np.random.default_rng(0).normal(size=999) * 1e200, 1e300)[:, None]
    assert 0.9e200 < Scaling.learn_robust(values, np.ones(1000)).scale[0] < 1.2e200


@pytest.mark.parametrize("unit", [1.0, 1e200, 1e-200])
def test_one_wild_cell_does_not_inflate_the_scale_of_a_sparse_column(unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)) * (rng.random((2000, 3)) < 0.3)
    X[0], X[1, 2] = 1.0, np.nan
    ordinary = Scaling.learn_robust(sparse.csr_array(X * unit), np.ones(2000)).scale
    X[0, 1:] = 1e6, -1e6
    scale = Scaling.learn_robust(sparse.csr_array(X * unit), np.ones(2000)).scale
    assert scale[0] == ordinary[0], "a column without outliers keeps its numbers"
    np.testing.assert_allclose(scale[1:], ordinary[1:], rtol=0.05)


@pytest.mark.parametrize("n_wild", [2, 60])
def test_tail_of_a_sparse_column_is_part_of_its_size(n_wild):
    """Counts of words: most are one, and the tail may carry the signal."""
    counts = np.ones(600)
    counts[:n_wild] = np.geomspace(2, 40, n_wild)
    X = sparse.csr_array(np.append(counts, np.zeros(1400))[:, None])
    assert Scaling.learn_robust(X, np.ones(2000)).scale[0] == pytest.approx(np.sqrt(np.mean(counts**2)))


def test_one_wild_cell_does_not_disable_a_column_of_a_large_sparse_table(monkeypatch):
    monkeypatch.setattr("skinnytrees.tables.frames._DENSE_UP_TO", 0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4)) * (rng.random((1500, 4)) < 0.4)
    y = X[:, 2] > 0
    model = SkinnyTreesClassifier(1, **QUICK)
    X_wild = X.copy()
    X_wild[np.flatnonzero(y)[0], 2] = 1e6
    assert model.fit(sparse.csr_array(X_wild), y).score(sparse.csr_array(X), y) > 0.95


class WithoutRanks(SkinnyTreesClassifier):
    """As on tables above four million values, whose columns have no ranks that would make up for a wrong scale."""

    _rules = replace(
        DEFAULT_RULES,
        styles=tuple(replace(style, views=replace(style.views, max_cells=0)) for style in DEFAULT_RULES.styles),
    )


def test_one_wild_cell_does_not_disable_a_column_of_mostly_zeros():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6)) * (rng.random((2000, 6)) < 0.4)
    y = X[:, 2] > 0
    X_wild = X.copy()
    X_wild[np.flatnonzero(y)[0], 2] = 1e6
    model = WithoutRanks(1, **QUICK).fit(X_wild, y)
    assert model.get_support(indices=True).tolist() == [2]
    assert model.score(X, y) > 0.9


# ------------------------------------------------------------------------------------------------ sparse tables with gaps


def table_with_gaps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.4)
    X[rng.random((60, 5)) < 0.15] = np.nan
    X[:, 4] = np.nan
    return X


def test_missing_values_in_a_sparse_table_have_an_indicator_and_are_zero():
    X = table_with_gaps()
    encoder = Encoder.learn(sparse.csr_array(X), np.ones(60), Groups.singles(5), np.zeros(5, bool), True, Views())
    encoded = encoder.encode(sparse.csr_array(X))
    assert sparse.issparse(encoded)
    for k in range(4):
        value, indicator = encoded.toarray()[:, encoder.feature == k].T
        np.testing.assert_array_equal(indicator, np.isnan(X[:, k]))
        known = X[~np.isnan(X[:, k]), k]
        size = np.sqrt(np.mean(known[known != 0] ** 2))
        np.testing.assert_allclose(value, np.nan_to_num(X[:, k]) / size, rtol=1e-6)
    np.testing.assert_array_equal(varying_features(sparse.csr_array(X)), varying_features(X))


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
@pytest.mark.parametrize("dense_up_to", [0, 2**22])
def test_sparse_table_with_missing_values_is_fitted_and_predicted(monkeypatch, dense_up_to):
    monkeypatch.setattr("skinnytrees.tables.frames._DENSE_UP_TO", dense_up_to)
    monkeypatch.setattr("skinnytrees.tables.frames._DENSE_FROM", 1.1)
    X = sparse.csr_array(table_with_gaps())
    y = np.isnan(X.toarray()[:, 0])
    model = SkinnyTreesClassifier(2, **{**QUICK, "max_epochs": 20}).fit(X, y)
    assert model.support_[0]
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict_proba(X), model.predict_proba(X.toarray()), rtol=1e-5)


# ------------------------------------------------------------------------------------------------ targets and memory


@pytest.mark.parametrize(
    ("factor", "words"), [(1e40, "as large as .*Divide y by"), (1e-50, "varies by .*Multiply y by")]
)
@pytest.mark.parametrize("standardize", [True, False])
def test_targets_beyond_single_precision_are_refused_with_a_factor(factor, words, standardize):
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.raises(ValueError, match=words):
        SkinnyTreesRegressor(standardize=standardize, **QUICK).fit(X, X[:, 0] * factor)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_targets_of_unusual_size_are_predicted_in_their_unit(factor):
    X = np.random.default_rng(0).normal(size=(100, 2))
    settings = {**QUICK, "max_epochs": 30}
    reference = SkinnyTreesRegressor(**settings).fit(X, X[:, 0]).predict(X)
    scaled = SkinnyTreesRegressor(**settings).fit(X, X[:, 0] * factor).predict(X) / factor
    assert np.corrcoef(scaled, X[:, 0])[0, 1] > 0.9
    np.testing.assert_allclose(scaled, reference, atol=0.2)


def test_trees_that_do_not_fit_into_memory_are_refused_with_numbers(monkeypatch):
    monkeypatch.setattr("skinnytrees.memory.available_memory", lambda: 10**9)
    X = np.random.default_rng(0).normal(size=(150, 8))
    with pytest.raises(ValueError, match=r"needs about 4\.\d GB .*but 1\.0 GB are available. Use fewer trees"):
        SkinnyTreesClassifier(max_depth=12, n_estimators=500, n_jobs=1).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match=r"needs about \d+\.\d GB .*Use fewer trees"):
        SkinnyTreesClassifier(max_depth=12, n_estimators=900, penalty=None).fit(X, X[:, 0] > 0)


def test_estimate_grows_with_what_takes_memory():
    base = estimate_memory(1000, 50).total
    assert estimate_memory(1000, 50, n_trees=2000).total > base
    assert estimate_memory(1000, 50, depth=10).total > base
    assert estimate_memory(1000, 50_000).total > base
    assert estimate_memory(1000, 50_000, n_stored=1000).total < estimate_memory(1000, 50_000).total
    refuse_if_too_large(MemoryEstimate(1, 1, 1), available=2)  # too little to ask about
