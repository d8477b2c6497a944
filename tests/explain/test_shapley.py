"""Shapley values: equal to brute force over all coalitions, add up to scores, and sampling that converges as it says."""

from math import exp

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

from explain.brute_force import shapley_values as brute_force
from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.activations import Sigmoid, SmoothStep
from skinnytrees.exceptions import SelectionWarning
from skinnytrees.explain.games import Game
from skinnytrees.explain.shapley import coalition_weights, shapley_values
from skinnytrees.kernels.state import start_trees
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.penalties import GroupL0
from skinnytrees.tables.column_views import Views
from skinnytrees.tables.encoding import Encoder
from skinnytrees.tables.groups import Groups

FEW = {"max_epochs": 3, "random_state": 0}


@st.composite
def small_games(draw):
    """A random ensemble on a random table, some of whose columns are categories or have missing values."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n_features, n_outputs = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    X = rng.standard_normal((40, n_features))
    is_categorical = rng.random(n_features) < 0.3
    X[:, is_categorical] = rng.integers(0, 3, (40, int(is_categorical.sum())))
    X[rng.random(X.shape) < 0.2] = np.nan
    groups = Groups.read(None, None, None, n_features, None)
    encoder = Encoder.learn(X, np.ones(len(X)), groups, is_categorical, True, Views.linear_only())
    trees = start_trees(len(encoder.feature), draw(st.integers(1, 20)), draw(st.integers(1, 4)), n_outputs, rng)
    trees.W[:] = draw(st.sampled_from([0.1, 1.0, 3.0])) * rng.standard_normal(trees.W.shape)
    trees.b[:] = rng.standard_normal(trees.b.shape)
    activation = draw(st.sampled_from([Sigmoid(), Sigmoid(0.3), SmoothStep(), SmoothStep(4.0)]))
    model = SoftTrees(encoder, trees, rng.standard_normal(n_outputs), activation)
    link = draw(st.sampled_from([lambda scores: scores, np.tanh]))
    return Game(model, np.eye(n_outputs), link, X[:3], X[-4:], n_threads=draw(st.sampled_from([1, 2])))


@settings(max_examples=60, deadline=None)
@given(small_games())
def test_exact_values_equal_brute_force_over_all_coalitions(game):
    found = shapley_values(game, "exact", 0.01, 0)
    expected = brute_force(game.scores, game.rows, game.background, range(game.n_features))
    np.testing.assert_allclose(found.values, expected, atol=1e-6 * max(1, np.abs(expected).max()))
    assert not found.standard_errors.any()


@settings(max_examples=40, deadline=None)
@given(small_games(), st.sampled_from(["exact", "sampling"]))
def test_values_add_up_to_the_score_of_every_row(game, method):
    found = shapley_values(game, method, 0.5, 0)
    base = game.scores(game.background).mean(axis=0)
    np.testing.assert_allclose(base + found.values.sum(axis=1), game.scores(game.rows), atol=1e-9)


def test_weights_of_coalitions_sum_to_one_where_a_feature_joins():
    for n in range(1, 9):
        weights = coalition_weights(n)
        np.testing.assert_allclose(weights.sum(axis=1), 0, atol=1e-12)
        np.testing.assert_allclose(np.maximum(weights, 0).sum(axis=1), 1)


def explained_and_expected(model, X, predict, **options):
    background = X[-5:]
    explanation = model.explain(X[:2], background, **options)
    expected = brute_force(predict, X[:2], background, model.get_support(indices=True))
    return explanation, expected


@pytest.mark.parametrize("output", ["raw", "probability"])
def test_two_classes(output):
    X, y = load_breast_cancer(return_X_y=True)
    model = SkinnyTreesClassifier(4, **FEW).fit(X, y)
    predict = model.decision_function if output == "raw" else lambda X: model.predict_proba(X)[:, 1]
    explanation, expected = explained_and_expected(model, X, predict, output=output)
    np.testing.assert_allclose(explanation.values, expected, atol=3e-6)
    np.testing.assert_allclose(explanation.scores, predict(X[:2]), atol=1e-9)
    assert explanation.output_names == [1]


@pytest.mark.parametrize("output", ["raw", "probability"])
def test_three_classes(output):
    X, y = load_wine(return_X_y=True)
    names = np.array(["a", "b", "c"])
    model = SkinnyTreesClassifier(4, **FEW).fit(X, names[y])
    predict = model.decision_function if output == "raw" else model.predict_proba
    explanation, expected = explained_and_expected(model, X, predict, output=output)
    np.testing.assert_allclose(explanation.values, expected, atol=3e-6)
    assert explanation.output_names == ["a", "b", "c"]
    np.testing.assert_allclose(explanation.of("b").values, expected[..., 1], atol=3e-6)
    np.testing.assert_allclose(explanation.of("b").scores, predict(X[:2])[:, 1], atol=1e-9)


def test_several_targets_and_poisson_predictions():
    X, y = load_diabetes(return_X_y=True)
    model = SkinnyTreesRegressor(3, penalty="path", **FEW).fit(X, np.column_stack([y, -2 * y]))
    explanation, expected = explained_and_expected(model, X, model.predict)
    np.testing.assert_allclose(explanation.values, expected, atol=1e-4)  # targets are in hundreds, weights in float32
    model = SkinnyTreesRegressor(3, loss="poisson", **FEW).fit(X, y)
    explanation, expected = explained_and_expected(model, X, model.predict, output="prediction")
    np.testing.assert_allclose(explanation.values, expected, atol=1e-4)
    raw = model.explain(X[:2], X[-5:])
    np.testing.assert_allclose(np.exp(raw.scores), model.predict(X[:2]), rtol=1e-6)


@pytest.fixture(scope="module")
def mixed():
    """A fitted classifier on numbers with gaps, text and categories."""
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            "noise": rng.standard_normal(n),
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.standard_normal(n)),
            "colour": rng.choice(["red", "green", "blue"], n),
            "number": rng.standard_normal(n),
        }
    )
    y = frame.number + 2 * (frame.colour == "red") + frame.gaps.fillna(1) > 0.5
    return SkinnyTreesClassifier(3, size_rule="full", always_select=["gaps", "colour"], **FEW).fit(frame, y), frame


def test_categories_and_missing_values_take_part(mixed):
    model, frame = mixed
    names = model.get_feature_names_out().tolist()
    assert {"gaps", "colour"} <= set(names)
    rows = frame[:20].copy()
    rows.loc[0, "colour"] = "violet"  # not seen in training
    explanation = model.explain(rows, frame[-5:])
    assert explanation.feature_names == names

    def predict(table):
        return model.decision_function(pd.DataFrame(table, columns=frame.columns).astype(frame.dtypes.to_dict()))

    features = model.get_support(indices=True)
    expected = brute_force(predict, rows.to_numpy()[:6], frame[-5:].to_numpy(), features)
    np.testing.assert_allclose(explanation.values[:6], expected, atol=3e-6)
    place = names.index("colour")
    shown = explanation.columns.in_words(explanation.data)[:, place].tolist()
    assert shown == ["unknown category", *rows.colour[1:]]


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return SkinnyTreesRegressor(9, size_rule="full", **FEW).fit(X, y), X


def test_sampling_is_within_its_standard_errors(diabetes):
    model, X = diabetes
    exact = model.explain(X[:30], X[::20], method="exact")
    sampled = model.explain(X[:30], X[::20], method="sampling", max_error=1.0)
    assert (exact.method, sampled.method) == ("exact", "sampling")
    z = (sampled.values - exact.values) / sampled.standard_errors
    # Variances are compared by their means: single ones are estimates, so that z has longer tails than a normal variable.
    claimed = np.sqrt(np.mean(sampled.standard_errors**2))
    assert 0.7 < np.sqrt(np.mean((sampled.values - exact.values) ** 2)) / claimed < 1.3
    assert np.mean(np.abs(z) < 3) > 0.95


def test_sampling_goes_on_until_the_error_is_small_enough(diabetes):
    model, X = diabetes
    exact = model.explain(X[:20], X[::40], method="exact")
    spread = exact.scores.std()
    for max_error in (0.01, 0.002):
        sampled = model.explain(X[:20], X[::40], method="sampling", max_error=max_error)
        claimed = np.sqrt(np.mean(sampled.standard_errors**2))
        assert claimed <= max_error * spread
        assert np.sqrt(np.mean((sampled.values - exact.values) ** 2)) < 1.5 * max_error * spread


def test_sampling_repeats_and_does_not_depend_on_threads(diabetes):
    model, X = diabetes
    results = []
    for n_jobs in (1, 2, 2):
        model.set_params(n_jobs=n_jobs)
        results.append(model.explain(X[:9], X[::50], method="sampling", max_error=1.0).values)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[1], results[2])
    other = model.explain(X[:9], X[::50], method="sampling", max_error=1.0, random_state=1).values
    assert np.abs(other - results[0]).max() > 0


def test_scores_beyond_single_precision_are_explained_like_others():
    """Factors exp(-score) would overflow: sums take their place."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    model = SkinnyTreesRegressor(penalty=None, standardize=False, **FEW).fit(X, X[:, 0])
    model.model_.trees.W[:] *= 200
    X *= 10
    assert not model.explain(X[:2], X[-5:]).game.parts.by_products
    for method in ("exact", "sampling"):
        found = model.explain(X[:2], X[-5:], method=method, max_error=0.05)
        expected = brute_force(model.predict, X[:2], X[-5:], range(3))
        np.testing.assert_allclose(found.values, expected, atol=1e-5 if method == "exact" else 0.5)
    assert exp(80) < np.finfo(np.float32).max


def test_a_model_of_no_feature_and_one_of_one_feature():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    one = SkinnyTreesRegressor(1, **FEW).fit(X, X[:, 1])
    found = one.explain(X[:4], X)
    np.testing.assert_allclose(found.values[:, 0], one.predict(X[:4]) - one.predict(X).mean())
    with pytest.warns(SelectionWarning, match="removed all features"):
        none = SkinnyTreesRegressor(penalty=GroupL0(1e6), **FEW).fit(X, X[:, 1])
    assert none.n_features_selected_ == 0
    empty = none.explain(X[:4])
    assert empty.values.shape == (4, 0)
    np.testing.assert_allclose(empty.scores, none.predict(X[:4]))


def test_default_background_is_rows_of_X_evenly_spaced(diabetes):
    model, X = diabetes
    every = np.linspace(0, len(X) - 1, 100).round().astype(int)
    np.testing.assert_allclose(model.explain(X, max_error=1).base_values, model.predict(X.iloc[every]).mean())
    np.testing.assert_allclose(model.explain(X[:7]).base_values, model.predict(X[:7]).mean())
    np.testing.assert_allclose(model.explain(X[:7], 1).base_values, model.predict(X[:1]).mean())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "fast"}, "method='fast' is not known. Use"),
        ({"output": "log"}, "output='log' is not known. Use one of"),
        ({"output": "probability"}, "for classifiers. Use output='raw'"),
        ({"background": 0}, "background=0 asks for no rows. Use"),
        ({"max_error": 0}, "max_error=0 cannot be reached. Use"),
    ],
)
def test_unknown_options_are_refused_with_what_to_do(diabetes, options, message):
    model, X = diabetes
    with pytest.raises(ValueError, match=message):
        model.explain(X[:3], **options)


def test_all_coalitions_of_many_features_are_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 20))
    model = SkinnyTreesRegressor(penalty=None, max_epochs=2).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"too many for 20 features. Use method='sampling'"):
        model.explain(X[:2], method="exact")
    assert model.explain(X[:2], X[:3]).method == "sampling"
