"""What cannot work is refused at once, in words that say what is wrong and what to do."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import NotFittedError

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.activations import Sigmoid, SmoothStep
from skinnytrees.exceptions import DivergenceError
from skinnytrees.losses import Huber, Quantile
from skinnytrees.optimizers import OneCycle
from skinnytrees.penalties import GroupL0, GroupLasso

# Few epochs on few rows: what a penalty removes, or whether it removes anything, is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")

QUICK = {"max_epochs": 2, "random_state": 0}
X, Y = (part[::3] for part in load_wine(return_X_y=True))
X = X[:, :5]
NAMES = ["alcohol", "malic_acid", "ash", "alkali", "magnesium"]
FRAME = pd.DataFrame(X, columns=NAMES)
WORDS = FRAME.assign(colour=np.where(Y == 0, "red", "white"))
X_NUMBERS, Y_NUMBERS = (part[:60] for part in load_diabetes(return_X_y=True))
WAYS = [{}, {"penalty": GroupL0(0.1), "n_estimators": 5}]
BOTH_WAYS = pytest.mark.parametrize("way", WAYS, ids=["path", "group_l0"])


def classify(table=X, y=Y, *fit_args, way=None, **parameters):
    return SkinnyTreesClassifier(**{**QUICK, **(way or {}), **parameters}).fit(table, y, *fit_args)


def regress(table=X_NUMBERS, y=Y_NUMBERS, *fit_args, way=None, **parameters):
    return SkinnyTreesRegressor(**{**QUICK, **(way or {}), **parameters}).fit(table, y, *fit_args)


def with_entry(table, value):
    table = table.copy()
    table[3, 1] = value
    return table


# ------------------------------------------------------------------------------------------------ tables


@BOTH_WAYS
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_in_x_is_refused(way, value):
    for table in (with_entry(X, value), sparse.csr_array(with_entry(X, value)), WORDS.assign(ash=value)):
        with pytest.raises(ValueError, match=r"Input X contains infinity or a value too large"):
            classify(table, way=way)
    model = classify(way=way)
    with pytest.raises(ValueError, match=r"Input X contains infinity or a value too large"):
        model.predict(with_entry(X, value))


@BOTH_WAYS
def test_missing_values_in_an_array_or_a_frame_are_welcome(way):
    assert np.isfinite(classify(with_entry(X, np.nan), way=way).predict_proba(with_entry(X, np.nan))).all()
    assert np.isfinite(classify(WORDS.assign(ash=np.nan), way=way).predict_proba(WORDS)).all()


@pytest.mark.parametrize(
    "table",
    [np.array([["red", 1.0]] * len(Y), dtype=object), np.array([["red", "blue"]] * len(Y))],
    ids=["object", "str"],
)
def test_text_in_an_array_is_refused_and_frames_are_recommended(table):
    with pytest.raises(ValueError, match=r"(?s)red.*frame"):
        classify(table)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (X[:0], r"0 sample\(s\).*minimum of 1"),
        (X[:, :0], r"0 feature\(s\).*minimum of 1"),
        (FRAME[:0], r"0 sample\(s\).*minimum of 1"),
        (WORDS[:0], r"0 sample\(s\).*minimum of 1"),
        (X[:, 0], r"(?s)Expected 2D array, got 1D.*reshape"),
        (X[None], "dim 3.* <= 2"),
        (X + 1j, "Complex data not supported"),
        (sparse.csr_array(X[:0]), r"0 sample\(s\).*minimum of 1"),
    ],
    ids=["no rows", "no columns", "empty frame", "empty frame of words", "1d", "3d", "complex", "empty sparse"],
)
def test_table_that_is_none_is_refused(table, words):
    with pytest.raises(ValueError, match=words):
        classify(table, Y[: table.shape[0]])


# ------------------------------------------------------------------------------------------------ targets and weights


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.zeros(len(Y)), "only one class.*at least 2 classes. Check"),
        (Y[:-1], r"inconsistent numbers of samples: \[60, 59\]"),
        (np.column_stack([Y, Y]), r"y should be a 1d array, got an array of shape \(60, 2\)"),
        (Y + 0.5, "continuous.*classifier.*discrete classes"),
        (np.where(Y == 0, np.nan, Y), "Input y contains NaN"),
        (None, "y should be a 1d array|requires y to be passed"),
    ],
    ids=["one class", "too short", "two columns", "numbers", "nan", "none"],
)
def test_classes_that_cannot_be_learned_are_refused(y, words):
    with pytest.raises(ValueError, match=words):
        classify(y=y)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (Y_NUMBERS[:-1], r"inconsistent numbers of samples: \[60, 59\]"),
        (Y_NUMBERS[:, None, None], "dim 3.* <= 2"),
        (np.where(Y_NUMBERS > 100, np.nan, Y_NUMBERS), "Input y contains NaN"),
        (np.where(Y_NUMBERS > 100, np.inf, Y_NUMBERS), "Input y contains infinity"),
        (np.array(["many"] * 60), "could not convert string to float"),
        (None, "requires y to be passed"),
    ],
    ids=["too short", "3d", "nan", "infinity", "words", "none"],
)
def test_targets_that_cannot_be_learned_are_refused(y, words):
    with pytest.raises(ValueError, match=words):
        regress(y=y)


def test_negative_counts_are_refused_for_poisson():
    with pytest.raises(ValueError, match=r"needs y >= 0.*smallest y is -341.*Use loss='squared_error'"):
        regress(y=-Y_NUMBERS, loss="poisson")


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (np.ones(3), r"sample_weight.shape == \(3,\), expected \(60,\)"),
        (-np.ones(60), "Negative values in data passed to `sample_weight`"),
        (np.zeros(60), "(?i)sample.weight.*(non-zero|positive)"),
        (np.full(60, np.nan), "Input sample_weight contains NaN"),
        (np.full(60, np.inf), "Input sample_weight contains infinity"),
    ],
    ids=["too short", "negative", "all zero", "nan", "infinity"],
)
def test_weights_that_are_none_are_refused(weight, words):
    with pytest.raises(ValueError, match=words):
        regress(X_NUMBERS, Y_NUMBERS, weight)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_weights_that_leave_one_class_give_that_class():
    model = classify(X, Y, (Y == 0).astype(float), max_epochs=20)
    assert model.predict_proba(X).shape == (60, 3)
    assert set(model.predict(X[Y == 0])) == {0}


# ------------------------------------------------------------------------------------------------ parameters


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("size_rule", "smallest", "best"),
        ("scoring", 3, "a callable"),
        ("activation", "relu", "sigmoid"),
        ("penalty", "l0", "path"),
        ("optimizer", "lbfgs", "sgd"),
        ("schedule", "cosine", "one_cycle"),
        ("class_weight", "equal", "balanced"),
        ("categorical_features", "all", "from_dtype"),
        ("learning_rate", -0.1, r"range \(0.0, inf\)"),
        ("learning_rate", 0, r"range \(0.0, inf\)"),
        ("learning_rate", np.nan, r"range \(0.0, inf\)"),
        ("learning_rate", np.inf, r"range \(0.0, inf\)"),
        ("n_estimators", 0, r"range \[1, inf\)"),
        ("n_estimators", 2.5, r"range \[1, inf\)"),
        ("max_depth", 0, r"range \[1, 12\]"),
        ("max_depth", 13, r"range \[1, 12\]"),
        ("max_epochs", 0, r"range \[1, inf\)"),
        ("batch_size", 0, r"range \[1, inf\)"),
        ("l2", -1.0, r"range \[0.0, inf\)"),
        ("validation_fraction", 0.0, r"range \(0.0, 1.0\)"),
        ("validation_fraction", 1.0, r"range \(0.0, 1.0\)"),
        ("cv", 1, r"range \[2, inf\)"),
        ("cv", "three", r"range \[2, inf\)"),
        ("refit", "yes", "bool"),
        ("standardize", None, "bool"),
        ("callbacks", print, "list"),
        ("random_state", "seed", "RandomState"),
        ("n_jobs", 1.5, "int"),
        ("verbose", "loud", "bool"),
        ("always_select", "alcohol", "array-like"),
        ("feature_budget", 0, r"range \[1, inf\)"),
        ("feature_budget", 0.0, r"range \(0.0, inf\)"),
        ("feature_budget", -3, r"range \[1, inf\)"),
        ("feature_budget", "3", r"range \[1, inf\)"),
        ("feature_budget", np.nan, r"range \(0.0, inf\)"),
    ],
)
def test_parameter_out_of_range_is_refused_with_its_range(parameter, value, words):
    with pytest.raises(ValueError, match=f"'{parameter}' parameter of SkinnyTreesClassifier must be.*{words}.*Got"):
        classify(**{parameter: value})


def test_unknown_parameter_is_refused():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'n_trees'"):
        SkinnyTreesClassifier(n_trees=5)


def test_unknown_loss_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"loss='mae' is not known. Use one of .*huber.*quantile"):
        regress(loss="mae")
    with pytest.raises((TypeError, ValueError), match=r"value.*gradient"):
        regress(loss=object())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GroupL0(-1), "gamma=-1 must not be negative"),
        (lambda: GroupL0(1, rate=0), "rate=0 must be positive, or None"),
        (lambda: GroupLasso(-1), "lam=-1 must not be negative"),
        (lambda: Huber(0), "delta=0 must be a positive number, such as 1.0"),
        (lambda: Quantile(1), "level=1 must lie between 0 and 1, such as 0.9"),
        (lambda: Sigmoid(0), "theta=0 must be a positive number, such as 1.0"),
        (lambda: SmoothStep(-1), "theta=-1 must be a positive number, such as 1.0"),
        (lambda: OneCycle(warm_up=0), "warm_up=0 must lie between 0 and 1, such as 0.3"),
        (lambda: GroupL0(float("nan")), "gamma=nan"),
        (lambda: GroupLasso(float("nan")), "lam=nan"),
    ],
)
def test_object_out_of_range_is_refused_when_it_is_made(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# ------------------------------------------------------------------------------------------------ budget and costs


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (
            {"feature_budget": 6},
            r"feature_budget=6 .*more columns than X has \(5\). Use a number up to 5, or a fraction",
        ),
        ({"feature_budget": 1.5}, r"feature_budget=1.5.*Use a number up to 5, or a fraction such as 0.25"),
        ({"feature_budget": 2.0}, r"feature_budget=2.0.*Use a number up to 5, or a fraction such as 0.25"),
        ({"feature_budget": 1, "always_select": [0, 1]}, "cannot be met: always_select.*takes 2. Use at least 2"),
        ({"feature_budget": 0.2, "always_select": [0, 1]}, "cannot be met: always_select.*takes 2. Use at least 2"),
        ({"feature_budget": 1, "feature_groups": [[0, 1], [2, 3, 4]]}, "cannot be met.*smallest group.*Use at least 2"),
        ({"feature_budget": 2, "feature_groups": [[0, 1, 2]], "always_select": [1]}, "cannot be met.*Use at least 3"),
        ({"feature_budget": 1.5, "feature_costs": [2, 3, 4, 5, 6]}, "cannot be met.*Use at least 2"),
    ],
)
def test_budget_that_cannot_be_met_is_refused_with_one_that_can(parameters, words):
    with pytest.raises(ValueError, match=words):
        classify(**parameters)


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ([1, 2], "feature_costs has 2 entries, but X has 5 columns. Give one cost per column"),
        (np.ones((5, 1)), "feature_costs.*Give one cost per column"),
        (
            [1, 2, 3, 4, -5],
            "feature_costs holds -5; costs must not be negative or missing. Use 0 for what is free, and inf",
        ),
        ([1, 2, 3, 4, np.nan], "feature_costs holds nan; costs must not be negative or missing"),
        ([np.nan] * 5, "feature_costs holds nan; costs must not be negative or missing"),
        ([np.inf] * 5, "infinite for every column, so none can be used. Give some a finite cost"),
        ({"water": 2.0}, r"feature_costs names the column 'water', which X does not have. Use one of \['alcohol'"),
        ({7: 2.0}, "feature_costs names the column 7, which X does not have"),
        ({"ash": -1.0}, "feature_costs holds -1; costs must not be negative"),
        ({"ash": "dear"}, "could not convert string to float: 'dear'"),
    ],
)
def test_costs_that_are_none_are_refused(costs, words):
    with pytest.raises(ValueError, match=words):
        classify(FRAME, feature_costs=costs)


def test_column_of_infinite_cost_cannot_be_selected_always():
    with pytest.raises(ValueError, match=r"always_select names a column whose cost is infinite. Give it a finite cost"):
        classify(feature_costs=[np.inf, 1, 1, 1, 1], always_select=[0])


# ------------------------------------------------------------------------------------------------ columns


@pytest.mark.parametrize("parameter", ["always_select", "categorical_features", "feature_groups", "feature_costs"])
def test_unknown_column_is_refused_with_known_ones(parameter):
    def naming(column):
        return {"always_select": [column], "categorical_features": [column], "feature_groups": [[column]]}.get(
            parameter, {column: 2.0}
        )

    with pytest.raises(ValueError, match=rf"{parameter} names the column 'water', .*not have. Use one of \['alcohol'"):
        classify(FRAME, **{parameter: naming("water")})
    with pytest.raises(ValueError, match=f"{parameter} names the column 'ash', .*not have. Use a number from 0 to 4"):
        classify(X, **{parameter: naming("ash")})
    for number in (5, -6):
        with pytest.raises(
            ValueError, match=f"{parameter} names the column {number}, .*not have. Use a number from 0 to 4"
        ):
            classify(X, **{parameter: naming(number)})


@pytest.mark.parametrize("parameter", ["always_select", "categorical_features"])
def test_mask_of_another_length_is_refused(parameter):
    with pytest.raises(ValueError, match=f"{parameter} is a mask of 2 columns, but X has 5. Give one entry per column"):
        classify(**{parameter: [True, False]})


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([[0, 1], [1, 2]], "puts column 'malic_acid' into two groups. Use one"),
        ({"one": ["ash"], "two": ["ash", "alcohol"]}, "puts column 'ash' into two groups. Use one"),
        (["a", "b"], "feature_groups has 2 labels, but X has 5 columns. Give one label per column, or a list of lists"),
        ([[], [0, 1]], "feature_groups.*empty"),
    ],
    ids=["lists", "mapping", "labels", "empty group"],
)
def test_groups_that_are_none_are_refused(groups, words):
    with pytest.raises(ValueError, match=words):
        classify(FRAME, feature_groups=groups)


# ------------------------------------------------------------------------------------------------ validation rows


@pytest.mark.parametrize("given", [{"X_val": X}, {"y_val": Y}])
def test_half_of_the_validation_rows_is_refused(given):
    with pytest.raises(ValueError, match=r"Give X_val and y_val both, or neither"):
        SkinnyTreesClassifier(**QUICK).fit(X, Y, **given)


def test_validation_weights_without_validation_rows_are_refused():
    with pytest.raises(ValueError, match=r"X_val"):
        SkinnyTreesClassifier(**QUICK).fit(X, Y, sample_weight_val=np.ones(len(Y)))


@pytest.mark.parametrize("y_val", [Y + 1, np.array(["red"] * len(Y))], ids=["number", "word"])
def test_unseen_classes_in_the_validation_rows_are_refused(y_val):
    with pytest.raises(
        ValueError, match=r"y_val has classes that y has not: \[(3|'red')\]. Use classes of \[0, 1, 2\]"
    ):
        SkinnyTreesClassifier(**QUICK).fit(X, Y, X_val=X, y_val=y_val)


@BOTH_WAYS
def test_validation_rows_of_another_shape_are_refused(way):
    model = SkinnyTreesClassifier(**QUICK, **way)
    with pytest.raises(ValueError, match=r"X has 3 features, but SkinnyTreesClassifier is expecting 5"):
        model.fit(X, Y, X_val=X[:, :3], y_val=Y)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[60, 59\]"):
        model.fit(X, Y, X_val=X, y_val=Y[:-1])
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(3,\), expected \(60,\)"):
        model.fit(X, Y, X_val=X, y_val=Y, sample_weight_val=np.ones(3))
    with pytest.raises(TypeError, match=r"text, categories or times.*Pass a frame with the same columns"):
        model.fit(WORDS, Y, X_val=X, y_val=Y)


@pytest.mark.parametrize("way", [{}, {"refit": False}, {"penalty": None}], ids=["path", "no refit", "dense"])
@pytest.mark.parametrize(("width", "val_width"), [(1, 2), (2, 1), (2, 3)])
def test_validation_targets_of_another_width_are_refused(way, width, val_width):
    y, y_val = (np.column_stack([Y_NUMBERS] * n) for n in (width, val_width))
    with pytest.raises(ValueError, match=r"y_val"):
        SkinnyTreesRegressor(**QUICK, **way).fit(X_NUMBERS, y, X_val=X_NUMBERS, y_val=y_val)


# ------------------------------------------------------------------------------------------------ after fit


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.predict(X),
        lambda model: model.predict_proba(X),
        lambda model: model.decision_function(X),
        lambda model: model.transform(X),
        lambda model: model.score(X, Y),
        lambda model: model.get_support(),
        lambda model: model.get_feature_names_out(),
        lambda model: model.at(2),
    ],
    ids=["predict", "predict_proba", "decision_function", "transform", "score", "get_support", "names", "at"],
)
def test_nothing_works_before_fit(call):
    with pytest.raises(NotFittedError, match=r"not fitted yet. Call 'fit'"):
        call(SkinnyTreesClassifier())


def test_regressor_does_not_predict_before_fit():
    with pytest.raises(NotFittedError, match=r"not fitted yet. Call 'fit'"):
        SkinnyTreesRegressor().predict(X)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "transform"])
def test_other_columns_than_those_of_fit_are_refused(method):
    with pytest.raises(ValueError, match=r"X has 3 features, but SkinnyTreesClassifier is expecting 5"):
        getattr(classify(), method)(X[:, :3])
    for model, frame in ((classify(FRAME), FRAME), (classify(WORDS), WORDS)):
        with pytest.raises(ValueError, match=r"(?s)feature names should match.*unseen at fit time.*water"):
            getattr(model, method)(frame.rename(columns={"ash": "water"}))
        with pytest.raises(ValueError, match=r"(?s)feature names should match.*same order"):
            getattr(model, method)(frame[frame.columns[::-1]])
        with pytest.raises(ValueError, match=r"(?s)feature names should match.*now missing.*ash"):
            getattr(model, method)(frame.drop(columns="ash"))


@pytest.mark.parametrize("table", [WORDS.to_numpy(), np.zeros((2, 6)), sparse.csr_array((2, 6))])
def test_array_is_refused_after_a_fit_on_a_frame_with_words(table):
    with pytest.raises(
        TypeError, match=r"fitted on a frame with text, categories or times.*Pass a frame with the same columns"
    ):
        classify(WORDS).predict(table)


@pytest.mark.parametrize("fit_on", [FRAME, WORDS], ids=["numbers", "words"])
@pytest.mark.parametrize("frame", [pd.DataFrame, lambda table: pl.from_pandas(table)], ids=["pandas", "polars"])
def test_words_in_a_column_that_held_numbers_are_refused(fit_on, frame):
    with pytest.raises(ValueError, match=r"'ash' held numbers.*Convert it to numbers"):
        classify(frame(fit_on), always_select=["ash"]).predict(frame(fit_on.assign(ash="much")))


def test_at_needs_a_path():
    with pytest.raises((ValueError, TypeError, AttributeError), match=r"at\(\) needs a path.*Fit with penalty='path'"):
        classify(penalty=None).at(2)


@pytest.mark.parametrize("n_features", [0, -1, 1])
def test_size_below_the_path_is_refused_with_the_smallest(n_features):
    model = classify(feature_groups=[[0, 1], [2, 3, 4]])
    with pytest.raises(ValueError, match=f"no model with {n_features} features; the smallest has 2. Ask for at least"):
        model.at(n_features)


@pytest.mark.parametrize("size", ["three", 2.5, None, True, [2]])
def test_size_that_is_no_number_is_refused_with_an_example(size):
    model = classify()
    with pytest.raises(
        ValueError, match=r"n_features=.* is not a whole number. Ask for a number of features, such as \d"
    ):
        model.path_.find(size)
    if size is not None:
        with pytest.raises(ValueError, match=rf"n_features={re.escape(repr(size))} is not a whole number"):
            model.at(size)
        assert model.at(np.int64(2)).n_features_selected_ == 2


@pytest.mark.parametrize("cost", ["cheap", True, [2.0]])
def test_cost_that_is_no_number_is_refused_with_an_example(cost):
    with pytest.raises(
        ValueError, match=rf"cost={re.escape(repr(cost))} is not a number. Ask for a total cost, such as \d"
    ):
        classify().at(cost=cost)


# ------------------------------------------------------------------------------------------------ divergence


def test_divergence_names_the_learning_rate():
    with pytest.raises(DivergenceError, match=r"diverged.*learning_rate=1000000.0 is too large.*standardize=True"):
        regress(X_NUMBERS * 1e10, Y_NUMBERS * 1e10, penalty=None, learning_rate=1e6, standardize=False)


@pytest.mark.filterwarnings("ignore:overflow")
def test_fit_never_leaves_weights_that_are_not_numbers():
    """An unscaled value beyond single precision: either an error, or a model that predicts."""
    try:
        model = regress(with_entry(X_NUMBERS, 1e39), penalty=None, standardize=False)
    except ValueError as error:
        assert "large" in str(error)  # noqa: PT017
    else:
        assert np.isfinite(model.predict(X_NUMBERS)).all()


@pytest.mark.filterwarnings("ignore:overflow")
def test_prediction_is_a_number_however_far_away_a_row_is():
    far = X_NUMBERS.copy()
    far[3] = 1e300 * (-1.0) ** np.arange(10)
    assert np.isfinite(regress().predict(far)).all()
