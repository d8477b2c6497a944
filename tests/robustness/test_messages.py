"""Tables and targets that cannot be read are refused in words that name the problem and the remedy; frames keep their types."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.exceptions import NothingLearnedWarning
from skinnytrees.penalties import GroupL0

QUICK = {"max_epochs": 1, "n_estimators": 2, "random_state": 0}
RNG = np.random.default_rng(0)
N = 40
X = RNG.normal(size=(N, 3))
Y = np.arange(N) % 2


def malformed(kind):
    if kind == "lil":
        table = sparse.lil_array(np.ones((N, 3)))
        table.rows[0][0] = 99
        return table
    if kind == "short coo":
        table = sparse.coo_array(np.ones((N, 3)))
        table.data = table.data[:-1]
        return table
    table = sparse.coo_array(np.ones((N, 3))) if kind == "coo" else sparse.csr_array(np.ones((N, 3)))
    (table.col if kind == "coo" else table.indices)[-1] = 10**9
    return table


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pl.DataFrame(X).lazy(), r"X is a LazyFrame.*X\.collect\(\)"),
        (malformed("csr"), r"malformed sparse matrix.*Build it again"),
        (malformed("coo"), r"malformed sparse matrix.*Build it again"),
        (malformed("lil"), r"malformed sparse matrix.*Build it again"),
        (malformed("short coo"), r"malformed sparse matrix .*differ in number.*Build it again"),
        (pa.table({"a": X[:, 0]}).to_reader(), r"X is a RecordBatchReader.*X\.read_all\(\)"),
        (pd.DataFrame(X, columns=list("aab")), "Two columns have the name 'a'.*Use a name of its own for each"),
        (pa.table([X[:, 0], X[:, 1]], names=["a", "a"]), "Two columns have the name 'a'.*Use a name of its own"),
        (pd.DataFrame({"a": pd.Series([1j] * N, dtype=object)}), "^Complex.*column 'a' holds complex numbers"),
        ((X + 1j).tolist(), "X holds complex numbers.*real and imaginary parts"),
        (pd.Series(X[:, 0]), "^Expected a 2-dimensional container.*Pass a DataFrame"),
        (pd.DataFrame({"a": [[1, 2]] * N, "b": 1.0}), r"Column 'a' holds values.*Split it"),
        (pl.DataFrame({"a": [[1, 2]] * N}), r"Column 'a' holds List\(Int64\) values.*Split it"),
        (pl.DataFrame({"a": [{"x": 1}] * N}), r"Column 'a' holds Struct.*Split it"),
        (pa.table({"a": [[1, 2]] * N}), r"Column 'a' holds List\(Int64\) values.*Split it"),
        (pd.DataFrame({"a": X[:, 0] + 1j}), "column 'a' holds complex numbers.*real and imaginary parts"),
        (X + 1j, "X holds complex numbers.*real and imaginary parts"),
        (sparse.csr_array(X + 1j), "X holds complex numbers.*real and imaginary parts"),
        (np.full((N, 2), np.datetime64("2024-01-01")), "array of times.*frame"),
        (np.array([[10**400, 1]] * N, dtype=object), "where numbers are expected.*convert"),
        (np.array([[[1], [1, 2]]] * N, dtype=object).reshape(N, 2), "where numbers are expected.*convert"),
    ],
    ids=lambda case: type(case).__name__ if not isinstance(case, str) else "",
)
def test_table_that_cannot_be_read_is_refused_with_the_remedy(table, words):
    with pytest.raises(ValueError, match=words):
        SkinnyTreesClassifier(**QUICK).fit(table, Y)


SURVIVAL = np.array([(bool(label), 1.5) for label in Y], dtype=[("event", bool), ("time", float)])


@pytest.mark.parametrize("kind", [SkinnyTreesClassifier, SkinnyTreesRegressor])
@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([None, *Y.tolist()[1:]], r"1 of 40 rows have no target, such as \[0\]. Leave these rows out"),
        (["a", None, *["b"] * (N - 2)], r"1 of 40 rows have no target, such as \[1\]"),
        (pl.Series([1, None, *Y.tolist()[2:]]), r"1 of 40 rows have no target, such as \[1\]"),
        (pd.Series([1, None, *Y.tolist()[2:]], dtype="Int64"), r"1 of 40 rows have no target, such as \[1\]"),
        (pl.DataFrame({"y": Y}).lazy(), r"y is a LazyFrame.*y\.collect\(\)"),
        (Y + 1j, "y holds complex numbers"),
        (sparse.csr_array(Y[:, None]), "y is a sparse matrix.*toarray"),
        (np.ma.masked_array(Y, Y == 0), r"20 of 40 rows have no target, such as \[0, 2, 4\]"),
        (
            pl.Series([{"time": 1.5, "event": True}] * N),
            r"values per row \(time, event\).*survival times are not supported",
        ),
        (pa.array([[1.0, 2.0]] * N), "y holds ndarray values, of which one row has several.*a column per target"),
        (pl.Series([[1.0, 2.0]] * N), "y holds ndarray values, of which one row has several.*a column per target"),
        (pa.chunked_array([[None, *Y.tolist()[1:]]]), r"1 of 40 rows have no target, such as \[0\]"),
        (SURVIVAL, r"several named values per row \(event, time\).*survival times are not supported"),
    ],
    ids=[
        "none",
        "none among text",
        "polars",
        "nullable",
        "lazy",
        "complex",
        "sparse",
        "masked",
        "structs",
        "arrow lists",
        "lists",
        "arrow",
        "survival",
    ],
)
def test_target_that_cannot_be_read_is_refused_with_the_remedy(kind, y, words):
    with pytest.raises(ValueError, match=words):
        kind(**QUICK).fit(X, y)


@pytest.mark.parametrize("y", [np.arange(N).astype("m8[s]"), pd.Series(pd.date_range("2024", periods=N))])
def test_times_as_targets_are_refused_because_predictions_would_have_no_unit(y):
    with pytest.raises(ValueError, match=r"y holds times.*Pass numbers, such as days"):
        SkinnyTreesRegressor(**QUICK).fit(X, y)


def test_text_as_numbers_is_refused_and_the_classifier_recommended():
    with pytest.raises(ValueError, match=r"could not convert string to float.*SkinnyTreesClassifier"):
        SkinnyTreesRegressor(**QUICK).fit(X, np.array(["no", "yes"])[Y])


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_pairs_of_time_and_event_are_fitted_with_a_word_about_survival():
    with pytest.warns(UserWarning, match="pairs of time and event: its column 1 holds 0 and 1.*not supported"):
        SkinnyTreesRegressor(**QUICK).fit(X, np.column_stack([np.abs(X[:, 0]), Y]))


# ------------------------------------------------------------------------------------------------ weights and folds


@pytest.mark.parametrize(
    ("class_weight", "words"),
    [
        ({0: np.nan, 1: 1.0}, r"no weights: \{0: nan\}. Use numbers from 0"),
        ({0: 1.0, 1: -2.0}, r"no weights: \{1: -2.0\}. Use numbers from 0"),
        ({0: 0.0, 1: 0.0}, "class_weight is zero for every class.*Give some"),
        ({0: "much"}, "no weights.*Use numbers"),
    ],
)
def test_class_weights_that_are_none_are_refused(class_weight, words):
    with pytest.raises(ValueError, match=words):
        SkinnyTreesClassifier(class_weight=class_weight, **QUICK).fit(X, Y)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_weights_whose_sums_are_no_numbers_are_refused(size):
    with pytest.raises(ValueError, match="Divide all weights by"):
        SkinnyTreesClassifier(**QUICK).fit(X, Y, np.full(N, size))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"sample_weight": np.ma.masked_array(np.ones(N), Y == 0)},
            "sample_weight has 20 masked values of 40. Use weights of 0",
        ),
        (
            {"groups": np.ma.masked_array(np.arange(N), Y == 0)},
            "groups has 20 masked values of 40. Give these rows labels",
        ),
    ],
    ids=["weights", "groups"],
)
def test_weights_and_groups_under_a_mask_are_not_used(given, words):
    with pytest.raises(ValueError, match=words):
        SkinnyTreesClassifier(**QUICK).fit(X, Y, **given)


@pytest.mark.parametrize(
    ("folds", "words"),
    [
        ([(np.arange(N), np.zeros(0, dtype=int))], "holds out no rows.*Use folds that have both"),
        ([(np.zeros(0, dtype=int), np.arange(N))], "no rows of positive weight to train on.*Use folds that have both"),
        ([(np.arange(N), np.array([N + 3]))], f"rows that X does not have. Use row numbers from 0 to {N - 1}"),
    ],
    ids=["nothing held out", "nothing to train on", "rows outside"],
)
def test_folds_that_cannot_be_used_are_refused(folds, words):
    with pytest.raises(ValueError, match=words):
        SkinnyTreesClassifier(cv=folds, **QUICK).fit(X, Y)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_validation_rows_may_be_stored_otherwise_than_the_training_rows(monkeypatch):
    monkeypatch.setattr("skinnytrees.tables.frames._DENSE_UP_TO", 0)
    monkeypatch.setattr("skinnytrees.tables.frames._DENSE_FROM", 1.1)
    for table, X_val in ((X, sparse.csr_array(X)), (sparse.csr_array(X), X)):
        model = SkinnyTreesClassifier(**QUICK).fit(table, Y, X_val=X_val, y_val=Y)
        assert np.isfinite(model.predict_proba(X)).all()


# ------------------------------------------------------------------------------------------------ constants


def test_constants_are_not_selected_in_silence():
    """The only group that fits the budget does not vary."""
    table = np.column_stack([np.ones((N, 2)), X])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        SkinnyTreesClassifier(2, feature_groups=[[0, 1], [2, 3, 4]], **QUICK).fit(table, Y)
    assert any("No column that fits the budget has more than one value" in str(one.message) for one in seen)
    assert {one.category for one in seen} == {NothingLearnedWarning}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_penalty_does_not_select_a_group_of_constants():
    table = np.column_stack([np.ones((N, 2)), X])
    model = SkinnyTreesClassifier(penalty=GroupL0(1e-9), feature_groups=[[0, 1]], **QUICK).fit(table, Y)
    assert not model.support_[:2].any()
    assert model.support_[2:].all()


# ------------------------------------------------------------------------------------------------ frames


def mixed_columns():
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=k * k) for k in range(N)]
    return {
        "number": X[:, 0].tolist(),
        "count": [None, *range(1, N)],
        "day": days,
        "moment": [datetime.datetime(day.year, day.month, day.day, 5) for day in days],
        "span": [datetime.timedelta(hours=k) for k in range(N)],
        "hour": [datetime.time(k % 24) for k in range(N)],
        "word": [["a", "b", None][k % 3] for k in range(N)],
        "flag": [k % 3 == 0 for k in range(N)],
    }


FRAMES = {
    "pandas": lambda: pd.DataFrame({name: pd.Series(values) for name, values in mixed_columns().items()}),
    "pandas with arrow types": lambda: pa.table(mixed_columns()).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.DataFrame(mixed_columns()),
    "arrow": lambda: pa.table(mixed_columns()),
}


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
@pytest.mark.parametrize("kind", FRAMES)
def test_transform_of_a_mixed_frame_gives_its_columns_with_their_types(kind):
    frame = FRAMES[kind]()
    model = SkinnyTreesClassifier(size_rule="full", **QUICK).fit(frame, Y)
    assert model.feature_names_in_.tolist() == list(mixed_columns())
    assert model.n_features_selected_ >= 7
    out = model.transform(frame)
    assert type(out) is type(frame)
    names = model.get_feature_names_out().tolist()
    if isinstance(frame, pd.DataFrame):
        pd.testing.assert_frame_equal(out, frame[names])
    else:
        assert out.equals(frame.select(names))
    pd.testing.assert_frame_equal(
        model.set_output(transform="polars").transform(FRAMES["polars"]()).to_pandas(),
        FRAMES["polars"]().select(names).to_pandas(),
    )


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
@pytest.mark.parametrize("kind", ["pandas with arrow types", "arrow"])
def test_frames_of_one_content_are_one_table(kind):
    """Dates are times in all of them, and not words in some."""
    reference = SkinnyTreesClassifier(**QUICK).fit(FRAMES["polars"](), Y)
    model = SkinnyTreesClassifier(**QUICK).fit(FRAMES[kind](), Y)
    np.testing.assert_array_equal(model.support_, reference.support_)
    np.testing.assert_array_equal(model.predict_proba(FRAMES[kind]()), reference.predict_proba(FRAMES["polars"]()))


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_batch_of_arrow_is_read_like_a_table_with_its_names():
    columns = {"a": X[:, 0], "b": X[:, 1]}
    table = pa.table(columns)
    (batch,) = table.to_batches()
    model = SkinnyTreesClassifier(**QUICK).fit(batch, Y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.predict_proba(batch), model.predict_proba(table))
    assert model.transform(batch).equals(model.transform(table))


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="this polars has no Int128")
def test_whole_numbers_that_numpy_does_not_have_are_read_as_numbers():
    wide = pl.DataFrame({"a": pl.Series([*range(N - 1), None], dtype=pl.Int128)})
    model = SkinnyTreesClassifier(**QUICK).fit(wide, Y)
    np.testing.assert_array_equal(
        model.predict_proba(wide), model.predict_proba(pl.DataFrame({"a": [*map(float, range(N - 1)), None]}))
    )


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
@pytest.mark.parametrize("dtype", [float, object])
def test_mask_of_a_masked_array_means_missing(dtype):
    masked = np.ma.masked_array(X.astype(dtype), X > 1)
    model = SkinnyTreesClassifier(**QUICK).fit(masked, Y)
    np.testing.assert_array_equal(model.predict_proba(masked), model.predict_proba(np.where(X > 1, np.nan, X)))
