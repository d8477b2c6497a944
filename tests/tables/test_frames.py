"""Frames with categories, text and gaps give the model of their content, whatever library they come from."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from path.helpers import with_rules

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from tables.helpers import (
    BOTH_WAYS,
    CITIES,
    EVERY_FRAME,
    FRAMES,
    ONE_COLUMN_EACH,
    QUICK,
    WAYS,
    N,
    coded_table,
    columns,
    fitted,
    pandas_frame,
    polars_frame,
)

# Whether a penalty removes anything is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


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
