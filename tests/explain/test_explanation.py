"""What an explanation offers beside its values: shap, frames, interactions, one of several outputs."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

from explain.brute_force import worth
from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor

FEW = {"max_epochs": 3, "random_state": 0}


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return SkinnyTreesClassifier(4, **FEW).fit(X, y), X


@pytest.fixture(scope="module")
def products():
    """A target in which two columns multiply, and a third one adds."""
    X = np.random.default_rng(0).normal(size=(500, 3))
    return SkinnyTreesRegressor(3, size_rule="full", random_state=0).fit(X, 2 * X[:, 0] * X[:, 1] + X[:, 2]), X


def test_strongest_interaction_is_that_of_columns_which_multiply(products):
    model, X = products
    pairs = model.explain(X[:100], 50).interactions()
    assert pairs.columns.tolist() == ["feature", "with", "strength", "H"]
    assert set(pairs.loc[0, ["feature", "with"]]) == {"x0", "x1"}
    assert pairs.H[0] > 0.8
    assert pairs.strength[0] > 5 * pairs.strength[1]
    assert len(pairs) == 3


def test_interactions_follow_friedmans_definition(products):
    model, X = products
    rows, background = X[:20], X[100:110]
    pairs = model.explain(rows, background).interactions()
    for _, pair in pairs.iterrows():
        f, g = int(pair.feature[1:]), int(pair["with"][1:])
        both, one, other = (
            np.array([worth(model.predict, row, background, features) for row in rows])
            for features in ([f, g], [f], [g])
        )
        joint = both - one - other
        assert pair.strength == pytest.approx(joint.std(), abs=1e-5)
        assert pytest.approx(joint.std() / both.std(), abs=1e-4) == pair.H


def test_interactions_look_at_the_most_important_features_only(wine):
    model, X = wine
    explanation = model.explain(X[:10], 5)
    most = set(np.array(explanation.feature_names)[np.argsort(-explanation.importance())[:3]])
    pairs = explanation.interactions(max_features=3)
    assert set(pairs.feature) | set(pairs["with"]) == most
    assert len(pairs) == 3


def test_one_output_of_several(wine):
    model, X = wine
    explanation = model.explain(X[:5], X[::20])
    assert explanation.values.shape == (5, 4, 3)
    one = explanation.of(2)
    np.testing.assert_array_equal(one.values, explanation.values[..., 2])
    np.testing.assert_allclose(one.scores, model.decision_function(X[:5])[:, 2], atol=1e-9)
    assert one.of() is one
    assert one.interactions().strength.max() > 0
    with pytest.raises(ValueError, match=r"output=7 is none of them. Choose one of \['0', '1', '2'\]"):
        explanation.of(7)


def test_frame_has_one_column_per_feature_and_output(wine):
    model, X = wine
    explanation = model.explain(X[:5], X[::20])
    frame = explanation.to_frame()
    assert frame.shape == (5, 12)
    np.testing.assert_array_equal(frame[1], explanation.values[..., 1])
    assert explanation.of(0).to_frame().columns.tolist() == model.get_feature_names_out().tolist()


def test_text_says_how_values_were_found(wine):
    model, X = wine
    assert "exact" in repr(model.explain(X[:2], 3))
    assert "standard error" in repr(model.explain(X[:2], 3, method="sampling"))


@pytest.mark.filterwarnings("ignore")  # shap's own, at import and while drawing
def test_shap_draws_our_explanations(wine):
    shap = pytest.importorskip("shap", reason="shap is not installed")
    import matplotlib as mpl

    mpl.use("Agg")
    model, X = wine
    explanation = model.explain(X[:30], X[::20])
    theirs = explanation.of(1).to_shap()
    assert isinstance(theirs, shap.Explanation)
    np.testing.assert_allclose(theirs.base_values + theirs.values.sum(axis=1), model.decision_function(X[:30])[:, 1])
    assert theirs.feature_names == model.get_feature_names_out().tolist()
    for draw in (shap.plots.bar, shap.plots.beeswarm):
        draw(theirs, show=False)
    shap.plots.waterfall(theirs[0], show=False)
    assert explanation.to_shap().shape == (30, 4, 3)
    mpl.pyplot.close("all")


def test_shap_agrees_with_our_values(wine):
    """Exact enumeration by the shap package, on the same background."""
    shap = pytest.importorskip("shap", reason="shap is not installed")
    model, X = wine
    background = X[::20]
    masker = shap.maskers.Independent(background.to_numpy(), max_samples=len(background))
    names = list(X.columns)

    def predict(table):
        import pandas as pd

        return model.decision_function(pd.DataFrame(table, columns=names))[:, 0]

    theirs = shap.ExactExplainer(predict, masker)(X[:3].to_numpy())
    ours = model.explain(X[:3], background).of(0)
    np.testing.assert_allclose(ours.values, theirs.values[:, model.get_support()], atol=3e-6)
