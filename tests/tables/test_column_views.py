"""Several design columns of one numeric feature: what they are, who gets them, and that the rest of the library carries them."""

import functools
import io
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.special import ndtri

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor, load
from skinnytrees.activations import Sigmoid
from skinnytrees.fitting import Problem
from skinnytrees.kernels.state import start_trees
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.path.rules import DEFAULT_RULES
from skinnytrees.path.styles import Style
from skinnytrees.penalties import GroupL0
from skinnytrees.starts import AxisAligned
from skinnytrees.tables.column_views import Curves, Views
from skinnytrees.tables.encoding import Encoder
from skinnytrees.tables.groups import Groups
from skinnytrees.tables.table_views import PickedRows, StackedRows

ONLY_RANKS = Views(max_levels=0, ranks_from=1)


def learn(X, weight=None, views=ONLY_RANKS, categorical=(), standardize=True, groups=None) -> Encoder:
    is_categorical = np.isin(np.arange(X.shape[1]), categorical)
    weight = np.ones(X.shape[0]) if weight is None else weight
    return Encoder.learn(X, weight, groups or Groups.singles(X.shape[1]), is_categorical, standardize, views)


def rank_columns(x, rows=None, weight=None, views=ONLY_RANKS):
    """Normal scores and uniform ranks of a single column, and of other rows in its terms."""
    design = learn(x[:, None], weight, views).encode((x if rows is None else rows)[:, None])
    return design[:, -2:].T


def mid_ranks(x, weight):
    """The definition, value by value."""
    known = ~np.isnan(x)
    total = weight[known].sum()
    return np.array([(weight[x < v].sum() + 0.5 * weight[x == v].sum()) / total for v in np.unique(x[known])])


def assert_same_encoder(ours, theirs):
    for field in fields(Encoder):
        one, other = getattr(ours, field.name), getattr(theirs, field.name)
        if field.name == "curves":
            for part in fields(Curves):
                np.testing.assert_array_equal(getattr(one, part.name), getattr(other, part.name))
        elif field.name in ("mean", "scale"):  # BLAS sums in an order that depends on the layout of the table
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(one, other)


_values = st.floats(-1e6, 1e6, allow_subnormal=False) | st.integers(-3, 3).map(float)
_columns = arrays(np.float64, st.integers(2, 40), elements=_values).filter(lambda x: len(np.unique(x)) > 1)


# ------------------------------------------------------------------------------------------------ what ranks are


@given(_columns, st.integers(0, 100), st.floats(-2e6, 2e6))
def test_ranks_are_interpolated_between_the_weighted_mid_ranks_of_the_values(x, seed, new):
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.1, 3, len(x))
    x = np.append(np.where(rng.random(len(x)) < 0.1, np.nan, x), [1.0, 2.0])
    weight = np.append(weight, [1.0, 1.0])
    rows = np.append(x, [new, np.nan])
    knots, ranks = np.unique(x[~np.isnan(x)]), mid_ranks(x, weight)
    for ours, heights in zip(rank_columns(x, rows, weight), (ndtri(ranks), (ranks - 0.5) * 12**0.5), strict=True):
        expected = np.where(np.isnan(rows), 0, np.interp(rows, knots, heights))
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


@given(_columns, st.integers(0, 100), st.floats(-2e6, 2e6))
def test_folded_rank_is_the_distance_from_the_middle_rank(x, seed, new):
    weight = np.random.default_rng(seed).uniform(0.1, 3, len(x))
    rows = np.append(x, [new, np.nan])
    design = learn(x[:, None], weight, replace(ONLY_RANKS, folded=True)).encode(rows[:, None])
    heights = (np.abs(mid_ranks(x, weight) - 0.5) - 0.25) * 48**0.5
    expected = np.where(np.isnan(rows), 0, np.interp(rows, np.unique(x), heights))
    np.testing.assert_allclose(design[:, -2], expected, rtol=1e-6, atol=1e-6)
    others = [0, -1]
    np.testing.assert_array_equal(design[:, others], learn(x[:, None], weight).encode(rows[:, None])[:, others])


def test_folded_rank_of_many_rows_is_standardised_and_even():
    x = np.random.default_rng(0).normal(size=5_000)
    folded = learn(x[:, None], views=replace(ONLY_RANKS, folded=True)).encode(x[:, None])[:, -2]
    np.testing.assert_allclose([folded.mean(), folded.std()], [0, 1], atol=0.02)
    assert abs(np.corrcoef(folded, x)[0, 1]) < 0.1
    assert np.corrcoef(folded, np.abs(x))[0, 1] > 0.9


def test_ranks_of_many_rows_have_the_shape_that_their_names_say():
    x = np.exp(3 * np.random.default_rng(0).normal(size=5_000))
    normal, uniform = rank_columns(x)
    true = (np.argsort(np.argsort(x)) + 0.5) / len(x)
    np.testing.assert_allclose(uniform, (true - 0.5) * 12**0.5, atol=0.04)
    np.testing.assert_allclose(normal, ndtri(true), atol=0.1)
    for column in (normal, uniform):
        np.testing.assert_allclose([column.mean(), column.std()], [0, 1], atol=0.02)


@given(_columns, st.integers(0, 1000))
def test_ranks_do_not_decrease_with_the_value(x, seed):
    rng = np.random.default_rng(seed)
    rows = np.sort(np.concatenate([x, rng.choice(x, 20) + rng.normal(size=20), [-1e9, 1e9]]))
    for column in rank_columns(x, rows, views=replace(ONLY_RANKS, n_knots=5)):
        assert np.all(np.diff(column) >= 0)


@given(arrays(np.float64, st.integers(2, 200), elements=st.integers(-500, 500).map(float), unique=True), st.data())
def test_ranks_do_not_change_under_increasing_transformations(x, data):
    transform = data.draw(
        st.sampled_from([lambda x: np.exp(x / 50), lambda x: x**3 + x, np.arctan, lambda x: 7 * x - 3])
    )
    weight = np.random.default_rng(len(x)).uniform(0.5, 2, len(x))
    knots = learn(x[:, None], weight).curves.knots
    is_knot = np.isin(x, knots)  # between knots, the transformation bends the line
    assert is_knot.all() or len(x) > ONLY_RANKS.n_knots
    for ours, theirs in zip(rank_columns(x, None, weight), rank_columns(transform(x), None, weight), strict=True):
        np.testing.assert_allclose(ours[is_knot], theirs[is_knot], rtol=1e-6)


@given(_columns, st.data())
def test_weight_is_the_same_as_repeated_rows(x, data):
    times = data.draw(arrays(np.int64, len(x), elements=st.integers(1, 4)))
    views = replace(ONLY_RANKS, n_knots=data.draw(st.sampled_from([3, 128])))
    weighted, repeated = learn(x[:, None], times.astype(float), views), learn(np.repeat(x, times)[:, None], None, views)
    np.testing.assert_array_equal(weighted.curves.knots, repeated.curves.knots)
    np.testing.assert_array_equal(weighted.curves.heights, repeated.curves.heights)


@given(_columns, st.randoms())
def test_order_of_rows_does_not_matter(x, random):
    order = list(range(len(x)))
    random.shuffle(order)
    np.testing.assert_array_equal(learn(x[order, None]).curves.heights, learn(x[:, None]).curves.heights)


def test_equal_weights_of_any_size_are_the_same_as_no_weights():
    x = np.random.default_rng(0).integers(0, 500, size=2_000).astype(float)
    ours, theirs = learn(x[:, None], np.full(2_000, 0.3)), learn(x[:, None])
    np.testing.assert_array_equal(ours.curves.heights, theirs.curves.heights)


def test_values_outside_the_range_are_like_the_nearest_known_one():
    x = np.linspace(-1, 1, 9)
    for column in rank_columns(x, np.array([-1.0, -1.1, -1e300, 1.0, 1.1, 1e300])):
        assert column[0] == column[1] == column[2] < column[3] == column[4] == column[5]


def test_knots_farther_apart_than_the_largest_number_give_numbers():
    x = np.array([-1.7e308, 0.0, 1.7e308, 1.7e308])
    views = replace(ONLY_RANKS, n_knots=2)
    with np.errstate(over="ignore", invalid="ignore"):
        columns = rank_columns(x, np.array([-1.7e308, -1.0, 1e308, 1.7e308]), views=views)
    assert np.isfinite(columns).all()
    assert np.all(np.diff(columns) >= 0)


def test_height_at_a_knot_is_the_knots_own():
    x = np.random.default_rng(0).normal(size=3_000)
    encoder = learn(x[:, None])
    for j in (1, 2):
        points = slice(*encoder.curves.offsets[j : j + 2])
        design = encoder.encode(encoder.curves.knots[points, None])
        np.testing.assert_array_equal(design[:, j], encoder.curves.heights[points].astype(np.float32))


@pytest.mark.parametrize("n_knots", [2, 3, 10, 128])
def test_knots_are_limited_and_have_the_first_and_the_last_value(n_knots):
    rng = np.random.default_rng(0)
    tied = np.where(rng.random(4_000) < 0.7, 0.0, rng.exponential(size=4_000))
    for x in (rng.normal(size=4_000), tied, np.round(rng.normal(size=4_000), 2)):
        for weight in (np.ones(4_000), rng.uniform(0, 1, 4_000) ** 20):
            curves = learn(x[:, None], weight, replace(ONLY_RANKS, n_knots=n_knots)).curves
            knots = curves.knots[curves.offsets[1] : curves.offsets[2]]
            assert 2 <= len(knots) <= n_knots
            assert (knots[0], knots[-1]) == (x.min(), x.max())
            assert np.all(np.diff(knots) > 0)
            assert np.all(np.diff(curves.heights[curves.offsets[1] : curves.offsets[2]]) >= 0)


def test_value_of_many_rows_does_not_take_the_knots_of_the_others():
    rng = np.random.default_rng(0)
    positive = rng.exponential(size=500)
    _, uniform = rank_columns(np.append(np.zeros(4_500), positive))
    above = (uniform[4_500:] / 12**0.5 + 0.5 - 0.9) / 0.1  # back to ranks among the positive values
    true = (np.argsort(np.argsort(positive)) + 0.5) / 500
    assert np.quantile(np.abs(above - true), 0.98) < 0.02


# ------------------------------------------------------------------------------------------------ who gets which view


def table_of_all_kinds(n_rows=60):
    """Continuous, continuous with gaps, two values, three values, seven values, fractions, categories, constant, nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 9))
    X[:10, 1] = np.nan
    X[:, 2] = rng.integers(0, 2, n_rows)
    X[:, 3] = np.arange(n_rows) % 3
    X[:, 4] = np.arange(n_rows) % 7
    X[:, 5] = (np.arange(n_rows) % 5) / 10
    X[:, 6] = np.arange(n_rows) % 4
    X[:, 7], X[:, 8] = 4.0, np.nan
    return X


def kinds(encoder, feature):
    is_curve = encoder.curves.exists
    names = np.select([encoder.is_level, encoder.is_indicator, is_curve], ["level", "gap", "rank"], "linear")
    return names[encoder.feature == feature].tolist()


def test_views_depend_on_the_number_of_distinct_values():
    encoder = learn(table_of_all_kinds(), views=Views(max_levels=6), categorical=[6])
    assert kinds(encoder, 0) == ["linear", "rank", "rank"]
    assert kinds(encoder, 1) == ["linear", "gap", "rank", "rank"]
    assert kinds(encoder, 2) == ["linear"]
    assert kinds(encoder, 3) == ["linear", "level", "level", "level"]
    assert kinds(encoder, 4) == ["linear", "rank", "rank"]
    assert kinds(encoder, 5) == ["linear", "rank", "rank", *["level"] * 5]
    assert kinds(encoder, 6) == ["level"] * 4
    assert kinds(encoder, 7) == kinds(encoder, 8) == ["linear"]
    assert encoder.offsets.tolist() == np.append(0, np.cumsum(np.bincount(encoder.feature))).tolist()


def test_ranks_and_levels_can_be_left_out():
    X = table_of_all_kinds()
    assert kinds(learn(X, views=Views(ranks=False)), 5) == ["linear", *["level"] * 5]
    assert kinds(learn(X, views=Views(max_levels=0)), 5) == ["linear", "rank", "rank"]
    plain = learn(X, views=Views.linear_only())
    assert not plain.curves.exists.any()
    assert plain.feature.tolist() == [0, 1, 1, 2, 3, 4, 5, 6, 7, 8]


def test_linear_view_is_the_same_with_and_without_the_others():
    X, weight = table_of_all_kinds(), np.random.default_rng(1).uniform(0.5, 2, 60)
    full, plain = (learn(X, weight, views, [6]) for views in (Views(), Views.linear_only()))
    is_plain = ~full.curves.exists & (~full.is_level | (full.feature == 6))
    np.testing.assert_array_equal(full.encode(X)[:, is_plain], plain.encode(X))


def test_levels_are_zeros_and_ones_and_rare_or_unknown_values_have_none():
    x = np.array([1.0, 1, 1, 2, 2, 2, 5, np.nan, np.nan])
    encoder = learn(x[:, None], views=Views(ranks=False))
    design = encoder.encode(np.array([[1.0], [2.0], [5.0], [7.0], [np.nan]]))
    np.testing.assert_array_equal(design[:, 1:], [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]])


def test_level_that_is_a_fraction_is_found_in_either_precision():
    x = np.tile([0.1, 0.2, 0.7], 10)
    for learned, read in ((np.float32, np.float64), (np.float64, np.float32)):
        design = learn(x.astype(learned)[:, None], views=Views(ranks=False)).encode(x.astype(read)[:, None])
        np.testing.assert_array_equal(design[:, 1:], np.tile(np.eye(3), (10, 1)))


def test_levels_that_are_large_whole_numbers_stay_apart():
    x = np.tile([1e9, 1e9 + 1, 1e9 + 2], 10)
    np.testing.assert_array_equal(
        learn(x[:, None], views=Views(ranks=False)).encode(x[:, None])[:, 1:], np.tile(np.eye(3), (10, 1))
    )


@pytest.mark.parametrize("n_cells", [2 * 60, 4 * 60 - 1])
def test_wide_tables_get_the_linear_view_only(n_cells):
    X = np.random.default_rng(0).normal(size=(60, 3))
    limited = learn(X, views=replace(ONLY_RANKS, max_cells=n_cells))
    assert_same_encoder(limited, learn(X, views=Views.linear_only()))
    assert learn(X, views=replace(ONLY_RANKS, max_cells=9 * 60)).curves.exists.sum() == 6


@pytest.mark.parametrize(("n_columns", "has_ranks"), [(15, True), (16, False)])
def test_tables_with_too_many_features_per_row_get_the_linear_view_only(n_columns, has_ranks):
    X = np.random.default_rng(0).normal(size=(30, n_columns))
    encoder = learn(X, views=replace(ONLY_RANKS, max_features_per_row=0.5))
    assert encoder.curves.exists.any() == has_ranks
    if not has_ranks:
        assert_same_encoder(encoder, learn(X, views=Views.linear_only()))


def test_sparse_and_unscaled_columns_get_the_linear_view_only():
    X = np.random.default_rng(0).normal(size=(60, 3))
    for table, standardize in ((sparse.csr_array(X), True), (X, False)):
        encoders = [learn(table, views=views, standardize=standardize) for views in (Views(), Views.linear_only())]
        assert_same_encoder(*encoders)
    assert sparse.issparse(learn(sparse.csr_array(X), views=Views()).encode(sparse.csr_array(X)))


def test_curve_of_one_knot_is_refused():
    with pytest.raises(ValueError, match=r"n_knots=1 does not make a curve. Use at least 2."):
        Views(n_knots=1)


# ------------------------------------------------------------------------------------------------ tables and parts


def test_parts_of_tables_are_learned_as_copies_of_them_are(monkeypatch):
    monkeypatch.setattr("skinnytrees.tables.column_views._SORTED_AT_ONCE", 100)
    X, weight = table_of_all_kinds(), np.random.default_rng(1).uniform(0.5, 2, 60)
    rows = np.random.default_rng(2).permutation(60)[:50]
    expected = learn(X[rows], weight[rows], Views())
    for part in (
        PickedRows(X, rows),
        StackedRows((X[rows[:20]], PickedRows(X, rows[20:]))),
        np.asfortranarray(X[rows]),
    ):
        assert_same_encoder(learn(part, weight[rows], Views()), expected)


def test_encoder_of_some_groups_gives_their_columns():
    X = table_of_all_kinds()
    groups = Groups.of([np.array([0, 3]), np.array([1]), np.array([5, 2]), np.array([4])])
    encoder = learn(X, views=Views(), groups=groups)
    design, chosen = encoder.encode(X), np.array([2, 0])
    columns = np.concatenate([np.arange(*encoder.offsets[g : g + 2]) for g in chosen])
    some = encoder.select(chosen)
    np.testing.assert_array_equal(some.encode(X), design[:, columns])
    assert np.unique(some.feature).tolist() == [0, 2, 3, 5]
    assert_same_encoder(some, learn(X, views=Views(), groups=groups.take(chosen)))


def test_design_of_a_sparse_table_is_that_of_the_dense_one():
    X = np.nan_to_num(table_of_all_kinds())
    encoder = learn(X, views=Views())
    np.testing.assert_array_equal(encoder.encode(sparse.csr_array(X)), encoder.encode(X))
    np.testing.assert_array_equal(encoder.encode_dense(sparse.csc_array(X)), encoder.encode(X))


def test_training_design_has_all_columns():
    X = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    encoder = learn(X)
    encoder = replace(encoder, mean=np.zeros(6), scale=np.ones(6))
    np.testing.assert_array_equal(encoder.training_design(X)[:], encoder.encode(X))
    assert encoder.training_design(X).shape == (200, 6)
    only_curve = replace(encoder.select(np.array([0])), feature=np.arange(3))
    assert not only_curve._changes_nothing(np.zeros((5, 3), dtype=np.float32))


def random_model(X) -> SoftTrees:
    encoder = learn(X, views=Views())
    rng = np.random.default_rng(0)
    return SoftTrees(encoder, start_trees(len(encoder.feature), 7, 3, 2, rng), rng.normal(size=2), Sigmoid())


def test_row_is_predicted_alone_as_among_others():
    X = np.tile(table_of_all_kinds(), (40, 1))
    model = random_model(X)
    together = model.raw(X)
    for i in (0, 7, 63, 64, 2_399):
        np.testing.assert_array_equal(model.raw(X[i : i + 1]), together[i : i + 1])


def test_narrowed_model_reads_its_features_at_their_new_places():
    X = table_of_all_kinds()
    model = random_model(X)
    keep = np.flatnonzero(np.isin(model.encoder.feature, [1, 5]))
    small = replace(model, encoder=model.encoder.select(np.array([1, 5])), trees=model.trees.select(keep))
    np.testing.assert_array_equal(small.narrowed.raw(X[:, [1, 5]]), small.raw(X))


# ------------------------------------------------------------------------------------------------ whole fits


@pytest.fixture
def all_views(monkeypatch):
    monkeypatch.setattr("skinnytrees.estimators.base.Problem", functools.partial(Problem, views=Views()))


PARAMETERS = {
    "path": {"feature_budget": 3, "size_rule": "full", "max_epochs": 5},
    "penalty": {"penalty": GroupL0(0.1), "max_epochs": 5, "n_estimators": 5},
}


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")
@pytest.mark.usefixtures("all_views")
@pytest.mark.parametrize("way", PARAMETERS)
def test_fitted_model_with_all_views_counts_features_and_survives_storing(way):
    X = np.tile(table_of_all_kinds(), (5, 1)) + np.random.default_rng(3).normal(size=(300, 9)) * [1, 1, *[0] * 7]
    y = np.nan_to_num(X[:, 0]) + X[:, 5] > 0.2
    model = SkinnyTreesClassifier(random_state=0, **PARAMETERS[way]).fit(X, y)
    encoder = model.model_.encoder
    assert encoder.curves.exists.any()
    assert model.n_features_selected_ == len(np.unique(encoder.feature)) == model.support_.sum()
    columns = model.model_.column_importances()
    expected = np.array([columns[encoder.feature == k].sum() for k in range(9)])
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-5)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    again = load(file)
    assert_same_encoder(again.model_.encoder, encoder)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for i in (0, 299):
        np.testing.assert_array_equal(model.predict_proba(X[i : i + 1]), model.predict_proba(X)[i : i + 1])


def seen_through(views):
    """The regressor with these views of numeric columns."""
    rules = replace(DEFAULT_RULES, styles=(Style(views, AxisAligned()),))
    return type("Regressor", (SkinnyTreesRegressor,), {"_rules": rules})


def test_skewed_column_is_learned_better_with_all_views():
    rng = np.random.default_rng(0)
    X = np.exp(3 * rng.normal(size=(800, 5)))
    y = np.sin(2 * np.log(X[:, 0]) / 3)
    scores = []
    for views in (Views.linear_only(), Views()):
        model = seen_through(views)(1, validation_fraction=0.2, random_state=0).fit(X[:400], y[:400])
        scores.append(model.score(X[400:], y[400:]))
    assert scores[1] > max(0.95, scores[0])
