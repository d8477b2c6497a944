"""What users bring: frames with words and gaps, arrays, sparse matrices; and what is learned from which rows."""

import functools
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from path.helpers import with_rules
from scipy import sparse

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.path.rules import DEFAULT_RULES, VALUES_AND_PLANES, replace_rule
from skinnytrees.penalties import GroupL0

# Whether a penalty removes anything is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")

QUICK = {"max_epochs": 3, "random_state": 0}
PENALISED = {"penalty": GroupL0(0.5, rate=0.1), "n_estimators": 8, "max_epochs": 25, "batch_size": 8, "random_state": 0}
WAYS = {"path": QUICK, "group_l0": PENALISED}
BOTH_WAYS = pytest.mark.parametrize("way", WAYS)
N = 160
NOISE = np.random.default_rng(7).normal(size=N)
# Every numeric column is one design column, so that encoders can be compared with tables.
ONE_COLUMN_EACH = replace(DEFAULT_RULES, styles=(VALUES_AND_PLANES,))
CITIES = np.array(["Bonn", "Faro", "Lyon", "Oslo", "Riga", "Turku"])


@functools.cache
def columns():
    """Columns of every kind by name, with None for what is missing, and a target that three of them explain."""
    rng = np.random.default_rng(0)
    age, city, member = rng.normal(40, 10, N), rng.choice(CITIES, N), rng.random(N) < 0.5
    visits = rng.integers(0, 5, N)
    y = (age - 40) / 10 + 3 * np.isin(city, ["Faro", "Oslo"]) + 2 * member + 0.1 * rng.normal(size=N)
    gaps = rng.random(N) < 0.2
    table = {
        "age": age.tolist(),
        "income": [None if gap else value for gap, value in zip(gaps, rng.normal(size=N).tolist(), strict=True)],
        "city": [None if i % 23 == 0 else str(value) for i, value in enumerate(city)],
        "member": member.tolist(),
        "visits": [None if i % 9 == 0 else int(value) for i, value in enumerate(visits)],
        "colour": rng.choice(["red", "blue"], N).tolist(),
    }
    return table, y


def pandas_frame(**changes):
    frame = pd.DataFrame(columns()[0]).astype({"city": "category", "visits": "Int64"})
    return frame.assign(**changes)


def pandas_words():
    """The same with other types for the same content."""
    return pandas_frame().astype({"city": "str", "colour": "category", "visits": "float64", "member": "boolean"})


def polars_frame():
    return pl.DataFrame(columns()[0]).with_columns(pl.col("city").cast(pl.Categorical))


def polars_words():
    return pl.DataFrame(columns()[0]).with_columns(pl.col("colour").cast(pl.Enum(["red", "blue"])))


FRAMES = {"pandas": pandas_frame, "pandas words": pandas_words, "polars": polars_frame, "polars words": polars_words}
EVERY_FRAME = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())


@functools.cache
def fitted(way="path"):
    return SkinnyTreesRegressor(**WAYS[way]).fit(pandas_frame(), columns()[1])


# ------------------------------------------------------------------------------------------------ frames


@BOTH_WAYS
@EVERY_FRAME
def test_frames_of_the_same_content_give_the_same_model(way, frame):
    model = SkinnyTreesRegressor(**WAYS[way]).fit(frame(), columns()[1])
    assert model.feature_names_in_.tolist() == list(columns()[0])
    np.testing.assert_array_equal(model.model_.trees.flat, fitted(way).model_.trees.flat)
    for other in FRAMES.values():
        np.testing.assert_array_equal(model.predict(other()), fitted(way).predict(pandas_frame()))


@pytest.mark.parametrize("frame", [pandas_frame, polars_frame])
def test_selection_is_of_the_users_columns_and_a_category_counts_once(frame):
    model = SkinnyTreesRegressor(3, size_rule="full", **QUICK).fit(frame(), columns()[1])
    assert model.support_.shape == model.feature_importances_.shape == (6,)
    assert model.n_features_selected_ == len(model.get_feature_names_out()) == 3
    assert {"age", "city"} <= set(model.get_feature_names_out())
    assert model.path_.n_features[0] == 6
    n_city = np.sum(model.model_.encoder.feature == 2)
    assert n_city == 7, "six cities, and those that are missing"
    for support, inside in zip(model.path_.supports, model.path_.models, strict=True):
        assert np.sum(inside.encoder.feature == 2) == (n_city if 2 in support else 0), "one group: all or nothing"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_feature_of_one_column_is_not_dropped_for_noise_in_two(seed):
    """Gaps and categories take several columns of the design; that alone must not make them look important."""
    frame, y = pandas_frame(), columns()[1]
    model = SkinnyTreesRegressor(3, random_state=seed).fit(frame, y)
    assert set(model.get_feature_names_out()) == {"age", "city", "member"}
    assert model.score(frame, y) > 0.9


def test_category_alone_is_one_feature_of_the_budget():
    frame, y = pandas_frame(), np.isin(columns()[0]["city"], ["Faro", "Oslo"])
    model = SkinnyTreesClassifier(1, **QUICK).fit(frame, y)
    assert model.get_feature_names_out().tolist() == ["city"]
    assert model.score(frame, y) > 0.95


@BOTH_WAYS
def test_group_of_a_category_and_a_number_stays_together(way):
    groups = {"who": ["age", "colour"], "where": ["city", "visits"]}
    model = SkinnyTreesRegressor(feature_groups=groups, **WAYS[way]).fit(pandas_frame(), columns()[1])
    assert model.support_[0] == model.support_[5]
    assert model.support_[2] == model.support_[4]


@pytest.mark.parametrize("container", ["default", "pandas", "polars"])
@pytest.mark.parametrize("frame", [pandas_frame, polars_frame])
def test_transform_of_a_frame_with_words_keeps_the_selected_columns(container, frame):
    model = SkinnyTreesRegressor(3, **QUICK).set_output(transform=container).fit(frame(), columns()[1])
    out = model.transform(frame())
    assert out.shape == (N, model.n_features_selected_)
    if container != "default":
        assert list(out.columns) == model.get_feature_names_out().tolist()
        assert "city" in out.columns
        assert [None if pd.isna(value) else value for value in out["city"].to_list()] == columns()[0]["city"]


@BOTH_WAYS
def test_unknown_category_is_like_none_of_the_known_ones(way):
    model = fitted(way)
    encoder = model.model_.encoder
    unknown = pandas_frame(city="Atlantis")
    design = encoder.encode(model._read_table(unknown, reset=False))
    assert not design[:, encoder.is_level & (encoder.feature == 2)].any()
    assert np.isfinite(model.predict(unknown)).all()
    np.testing.assert_array_equal(model.predict(unknown), model.predict(pandas_frame(city="Eldorado")))
    assert (model.predict(unknown) != model.predict(pandas_frame(city="Oslo"))).any()


def test_category_that_was_never_missing_may_be_missing_later():
    frame, y = pandas_frame(city=np.resize(CITIES, N)), columns()[1]
    model = SkinnyTreesRegressor(**QUICK).fit(frame, y)
    missing = model.predict(frame.assign(city=None))
    np.testing.assert_array_equal(missing, model.predict(frame.assign(city="Atlantis")))


def test_nullable_words_may_be_missing():
    frame = pandas_frame().astype({"city": "string"})
    assert frame["city"][0] is pd.NA
    model = SkinnyTreesRegressor(**QUICK).fit(frame, columns()[1])
    np.testing.assert_array_equal(model.predict(frame), fitted().predict(pandas_frame()))


def test_order_and_number_of_declared_categories_do_not_matter():
    frame = pandas_frame()
    other = frame.assign(city=frame["city"].cat.set_categories(["Atlantis", *CITIES[::-1]], ordered=True))
    model = SkinnyTreesRegressor(**QUICK).fit(other, columns()[1])
    np.testing.assert_array_equal(model.predict(frame), fitted().predict(frame))


def test_categories_may_be_numbers_and_booleans():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 4, N)
    frame = pd.DataFrame({"code": pd.Categorical(code), "noise": rng.normal(size=N)})
    y = np.isin(code, [1, 3])  # not a threshold of the number
    model = SkinnyTreesClassifier(1, **QUICK).fit(frame, y)
    assert model.model_.encoder.is_level.tolist() == [True] * 4
    assert model.score(frame, y) == 1
    np.testing.assert_array_equal(model.predict(frame.assign(code=code)), model.predict(frame))
    gaps = frame.assign(code=[None, *code[1:]])
    np.testing.assert_array_equal(model.predict(gaps)[1:], model.predict(frame)[1:])


def test_nullable_columns_are_numbers_with_gaps():
    rng = np.random.default_rng(0)
    values = rng.integers(0, 9, N).astype(float)
    values[::6] = np.nan
    flag = np.where(np.arange(N) % 7 == 0, np.nan, rng.random(N) < 0.5)
    plain = pd.DataFrame({"count": values, "size": values / 3, "flag": flag})
    nullable = plain.astype({"count": "Int64", "size": "Float64", "flag": "boolean"})
    in_polars = pl.DataFrame(
        {
            "count": [None if np.isnan(v) else int(v) for v in values],
            "size": [None if np.isnan(v) else v / 3 for v in values.tolist()],
            "flag": [None if np.isnan(v) else bool(v) for v in flag],
        }
    )
    y = np.nan_to_num(values) + np.nan_to_num(flag)
    reference = SkinnyTreesRegressor(**QUICK).fit(plain, y)
    for frame in (nullable, in_polars):
        model = SkinnyTreesRegressor(**QUICK).fit(frame, y)
        np.testing.assert_array_equal(model.model_.trees.flat, reference.model_.trees.flat)
        np.testing.assert_array_equal(model.predict(frame), reference.predict(plain))


def test_frame_of_numbers_is_the_array_of_its_numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    y = X[:, 0]
    reference = SkinnyTreesRegressor(2, **QUICK).fit(X, y)
    names = list("abcd")
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        model = SkinnyTreesRegressor(2, **QUICK).fit(frame, y)
        np.testing.assert_array_equal(model.predict(frame), reference.predict(X))


@BOTH_WAYS
def test_model_on_a_frame_survives_storing(way):
    again = pickle.loads(pickle.dumps(fitted(way)))
    np.testing.assert_array_equal(again.predict(polars_frame()), fitted(way).predict(pandas_frame()))


# ------------------------------------------------------------------------------------------------ named categories


CATEGORICAL = {
    "name": ["code", "kind"],
    "number": [1, 2],
    "negative number": [-2, -1],
    "mask": [False, True, True],
    "array": np.array([1, 2]),
}


def coded_table():
    rng = np.random.default_rng(1)
    code, kind = rng.integers(0, 5, N), rng.integers(7, 9, N)
    return pd.DataFrame({"noise": rng.normal(size=N), "code": code, "kind": kind}), np.isin(code, [0, 2, 4])


@pytest.mark.parametrize("named", CATEGORICAL.values(), ids=CATEGORICAL.keys())
def test_categorical_columns_are_found_by_name_number_and_mask(named):
    frame, y = coded_table()
    model = SkinnyTreesClassifier(1, categorical_features=named, **QUICK).fit(frame, y)
    assert model.get_support(indices=True).tolist() == [1]
    assert model.score(frame, y) == 1
    first = model.path_.models[0].encoder
    assert first.is_level.tolist() == [False] * np.sum(first.feature == 0) + [True] * 7
    assert first.level[first.feature == 1].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("named", [[1, 2], [False, True, True]])
def test_categorical_columns_of_an_array_are_those_of_a_frame(named):
    frame, y = coded_table()
    X = frame.to_numpy()
    model = SkinnyTreesClassifier(1, categorical_features=named, **QUICK).fit(X, y)
    first = model.path_.models[0].encoder
    assert first.is_level.tolist() == [False] * np.sum(first.feature == 0) + [True] * 7
    assert model.score(X, y) == 1
    unknown = X.copy()
    unknown[:, 1] = 99
    assert len(np.unique(model.predict_proba(unknown)[:, 0])) == 1


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_numbers_stay_numbers_unless_they_are_named():
    """Few different numbers may have 0/1 columns, but beside their value."""
    frame, y = coded_table()
    encoder = SkinnyTreesClassifier(**QUICK).fit(frame, y).path_.models[0].encoder
    values = encoder.feature[~encoder.is_level & ~encoder.curves.exists]
    assert values.tolist() == [0, 1, 2]
    linear = with_rules(SkinnyTreesClassifier, ONE_COLUMN_EACH)(**QUICK).fit(frame, y)
    assert not linear.path_.models[0].encoder.is_level.any()


def test_rare_categories_share_a_place():
    word = ["often"] * 100 + ["also"] * 58 + ["once", "single"]
    frame = pd.DataFrame({"word": word, "noise": np.random.default_rng(0).normal(size=N)})
    model = SkinnyTreesClassifier(**{**QUICK, "validation_fraction": None}).fit(frame, np.array(word) == "often")
    encoder = model.path_.models[0].encoder
    assert np.sum(encoder.is_level) == 2
    np.testing.assert_array_equal(*model.predict_proba(frame.assign(noise=0.0))[-2:])


# ------------------------------------------------------------------------------------------------ times


DAYS = np.datetime64("2024-02-20T12:00:00", "us") + np.arange(N) * np.timedelta64(36, "h")
DAYS[::8] = np.datetime64("NaT")
SECONDS = np.where(np.isnat(DAYS), np.nan, DAYS.astype(np.int64) / 1e6)


def zoned(frame):
    return frame.assign(when=frame["when"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))


TIMES = {
    "pandas": lambda: pd.DataFrame({"when": DAYS, "noise": NOISE}),
    "pandas in nanoseconds": lambda: pd.DataFrame({"when": DAYS.astype("datetime64[ns]"), "noise": NOISE}),
    "pandas with a zone": lambda: zoned(pd.DataFrame({"when": DAYS, "noise": NOISE})),
    "polars": lambda: pl.DataFrame({"when": DAYS, "noise": NOISE}),
    "polars with a zone": lambda: pl.DataFrame({"when": DAYS, "noise": NOISE}).with_columns(
        pl.col("when").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    ),
}


@functools.cache
def fitted_on_seconds():
    y = np.nan_to_num(SECONDS - np.nanmean(SECONDS)) / 1e6
    return SkinnyTreesRegressor(1, **QUICK).fit(pd.DataFrame({"when": SECONDS, "noise": NOISE}), y), y


@pytest.mark.parametrize("frame", TIMES.values(), ids=TIMES.keys())
def test_time_is_the_number_of_its_seconds_and_may_be_missing(frame):
    reference, y = fitted_on_seconds()
    model = SkinnyTreesRegressor(1, **QUICK).fit(frame(), y)
    np.testing.assert_array_equal(model.model_.trees.flat, reference.model_.trees.flat)
    assert model.get_feature_names_out().tolist() == ["when"]
    for other in TIMES.values():
        np.testing.assert_array_equal(model.predict(other()), model.predict(frame()))
    assert model.score(frame(), y) > 0.9


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_duration_is_the_number_of_its_seconds(kind):
    y = fitted_on_seconds()[1]
    model = SkinnyTreesRegressor(1, **QUICK).fit(kind({"noise": NOISE, "lasted": DAYS - DAYS[1]}), y)
    encoder = model.model_.encoder
    assert not encoder.is_level.any()
    seconds = np.array([864, 950])
    rows = kind({"noise": [0.0, 0.0], "lasted": 1000 * seconds.astype("timedelta64[ms]")})
    np.testing.assert_array_equal(
        encoder.encode(model._read_table(rows, reset=False))[:, 0],
        np.float32((seconds - encoder.mean[0]) / encoder.scale[0]),
    )


def test_date_is_a_time():
    dates = pl.DataFrame({"when": DAYS.astype("datetime64[D]"), "noise": NOISE})
    moments = dates.with_columns(pl.col("when").cast(pl.Datetime))
    assert dates["when"].dtype == pl.Date
    models = [SkinnyTreesRegressor(1, **QUICK).fit(frame, fitted_on_seconds()[1]) for frame in (dates, moments)]
    np.testing.assert_array_equal(models[0].predict(dates), models[1].predict(moments))
    assert not models[0].model_.encoder.is_level.any()


# ------------------------------------------------------------------------------------------------ training rows only


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
def test_held_out_share_is_not_used_for_scaling():
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


# ------------------------------------------------------------------------------------------------ missing values


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


# ------------------------------------------------------------------------------------------------ plain columns


def test_constant_columns_are_never_chosen():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(N, 7.0), rng.normal(size=(N, 2)), np.full(N, 1e9 / 3), np.zeros(N)])
    model = SkinnyTreesRegressor(size_rule="full", **QUICK).fit(X, X[:, 1])
    assert model.get_support(indices=True).tolist() == [1, 2]
    assert model.path_.n_features[0] == 2


def test_constant_column_is_taken_when_it_must_be():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.full(N, 7.0), rng.normal(size=(N, 2))])
    model = SkinnyTreesRegressor(2, always_select=[0], size_rule="full", **QUICK).fit(X, X[:, 1])
    assert model.get_support(indices=True).tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_table_of_constants_gives_the_constant():
    y = np.arange(40.0)
    model = SkinnyTreesRegressor(**QUICK).fit(np.ones((40, 3)), y)
    assert np.ptp(model.predict(np.ones((5, 3)))) == 0
    assert abs(model.predict(np.ones((1, 3)))[0] - y.mean()) < y.std()


@pytest.mark.parametrize("n_rows", [100, 360])
def test_of_two_equal_columns_one_is_enough(n_rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5))
    X[:, 3] = X[:, 0]
    y = X[:, 0] + X[:, 1]
    model = SkinnyTreesRegressor(2, max_epochs=10, n_estimators=20, random_state=0).fit(X, y)
    selected = set(model.get_support(indices=True))
    assert selected in ({0, 1}, {1, 3})
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool, np.float16, np.float32, object])
def test_type_of_the_numbers_does_not_matter(dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2 if dtype is bool else 9, size=(N, 4)).astype(dtype)
    y = X[:, 1].astype(float)
    reference = SkinnyTreesRegressor(2, **QUICK).fit(X.astype(np.float64), y)
    model = SkinnyTreesRegressor(2, **QUICK).fit(X, y)
    np.testing.assert_array_equal(model.support_, reference.support_)
    np.testing.assert_allclose(model.predict(X), reference.predict(X.astype(np.float64)), rtol=1e-5)


def test_layout_of_the_array_does_not_matter():
    X = np.random.default_rng(0).normal(size=(N, 4))
    reference = SkinnyTreesRegressor(2, **QUICK).fit(X, X[:, 0])
    wide = np.repeat(X, 2, axis=1)
    for other in (np.asfortranarray(X), wide[:, ::2], X.tolist()):
        model = SkinnyTreesRegressor(2, **QUICK).fit(other, X[:, 0])
        np.testing.assert_array_equal(model.predict(other), reference.predict(X))


# ------------------------------------------------------------------------------------------------ sparse matrices


def sparse_table(n_rows=80, n_columns=300, density=0.1):
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
    formats = [
        kind(X) for kind in (sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix, sparse.csc_matrix)
    ]
    models = [SkinnyTreesClassifier(**{**QUICK, **way, "max_epochs": 20}).fit(table, y) for table in formats]
    for model, table in zip(models, formats, strict=True):
        np.testing.assert_array_equal(model.model_.trees.flat, models[0].model_.trees.flat)
        np.testing.assert_array_equal(model.predict_proba(table), models[0].predict_proba(formats[0]))
    assert models[0].support_[5]
    assert models[0].score(formats[0], y) >= 0.95


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
    reference = SkinnyTreesClassifier(3, refit=False, **QUICK).fit(sparse.csr_array(X), y)
    table = store(X)
    np.testing.assert_array_equal(table.toarray(), X)
    model = SkinnyTreesClassifier(3, refit=False, **QUICK).fit(table, y)
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
    settings = {"feature_budget": 3, "refit": False, **QUICK}
    reference = SkinnyTreesClassifier(**settings).fit(sparse.csr_array(X), y, weight)
    for rows, weights in ((shuffled, weight[shuffled]), (repeated, None)):
        model = SkinnyTreesClassifier(**settings).fit(sparse.csr_array(X[rows]), y[rows], weights)
        np.testing.assert_array_equal(model.model_.trees.flat, reference.model_.trees.flat)
