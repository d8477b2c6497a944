"""A model of few columns is used by someone who has only these."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor, load
from skinnytrees.penalties import GroupL0, GroupLasso, NoPenalty

QUICK = {"n_estimators": 6, "max_epochs": 3, "random_state": 0}


def mixed_table(n_rows=150):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"noise_{k}": rng.normal(size=n_rows) for k in range(6)})
    frame["age"] = rng.normal(50, 10, n_rows)
    frame["colour"] = rng.choice(["red", "green", "blue"], n_rows)
    frame["dose"] = np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows))
    y = (frame["age"] > 50) ^ (frame["colour"] == "red")
    return frame, np.where(y, "yes", "no")


@pytest.fixture(scope="module")
def fitted():
    X, y = mixed_table()
    return SkinnyTreesClassifier(3, size_rule="full", always_select=["age", "colour", "dose"], **QUICK).fit(X, y)


@pytest.fixture(scope="module")
def genes():
    X, y = load_breast_cancer(return_X_y=True)
    wide = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 400))])
    return SkinnyTreesClassifier(10, size_rule="full", random_state=0).fit(wide[:100], y[:100]), wide, y


def test_frame_with_the_selected_columns_predicts_in_any_order_and_among_others(fitted):
    X, y = mixed_table()
    expected = fitted.predict_proba(X)
    panel = X[["dose", "age", "colour"]]
    np.testing.assert_array_equal(fitted.predict_proba(panel), expected)
    np.testing.assert_array_equal(fitted.predict_proba(panel.assign(weight=1.0)), expected)
    np.testing.assert_array_equal(fitted.decision_function(panel), fitted.decision_function(X))
    assert fitted.score(panel, y) == fitted.score(X, y)


def test_polars_frame_with_the_selected_columns_predicts(fitted):
    X, _ = mixed_table()
    panel = pl.DataFrame({name: X[name].to_list() for name in ["colour", "dose", "age"]}).fill_nan(None)
    np.testing.assert_array_equal(fitted.predict_proba(panel), fitted.predict_proba(X))


def test_missing_and_unknown_values_are_read_as_in_the_whole_table(fitted):
    X, _ = mixed_table(5)
    X.loc[0, "age"], X.loc[1, "colour"], X.loc[2, "colour"] = np.nan, "violet", None
    np.testing.assert_array_equal(fitted.predict_proba(X[["age", "colour", "dose"]]), fitted.predict_proba(X))


def test_wrong_name_gets_the_nearest_column(fitted):
    X, _ = mixed_table()
    with pytest.raises(ValueError, match=r"lacks 1 of the 3 selected columns: 'dose' \(nearest: 'doses'\)"):
        fitted.predict(X[["age", "colour", "dose"]].rename(columns={"dose": "doses"}))


def test_array_from_transform_predicts(genes):
    model, X, y = genes
    np.testing.assert_array_equal(model.predict_proba(model.transform(X)), model.predict_proba(X))
    assert model.score(model.transform(X), y) == model.score(X, y)


def test_array_of_another_width_is_refused_as_scikit_learn_does(genes):
    model, X, _ = genes
    with pytest.raises(
        ValueError, match="X has 11 features, but SkinnyTreesClassifier is expecting 430 features as input"
    ):
        model.predict(X[:, :11])


def test_compact_model_has_the_panel_as_its_inputs(fitted):
    X, _ = mixed_table()
    small = fitted.compact()
    assert small.n_features_in_ == small.n_features_selected_ == 3
    assert small.feature_names_in_.tolist() == ["age", "colour", "dose"]
    assert small.get_support().all()
    np.testing.assert_allclose(small.feature_importances_, fitted.feature_importances_[fitted.support_])
    np.testing.assert_array_equal(small.predict_proba(X[small.feature_names_in_]), fitted.predict_proba(X))
    assert fitted.n_features_in_ == 9, "the model itself stays as it is"
    assert hasattr(fitted, "path_")


def test_compact_model_can_be_fitted_again(fitted):
    X, y = mixed_table()
    again = fitted.compact().fit(X[["age", "colour", "dose"]], y)
    assert again.n_features_in_ == 3


def test_compact_regressor_keeps_named_categories():
    X, y = load_diabetes(return_X_y=True)
    X = np.column_stack([X[:200], X[:200, 1] > 0]).astype(float)
    model = SkinnyTreesRegressor(categorical_features=[1, 10], always_select=[10, 2], feature_budget=2, **QUICK).fit(
        X, y[:200]
    )
    small = model.compact()
    assert small.categorical_features == [1]
    np.testing.assert_array_equal(small.predict(model.transform(X)), model.predict(X))


def test_file_of_ten_columns_is_small(genes, tmp_path):
    model, X, _ = genes
    model.compact().save(tmp_path / "panel.skinny")
    assert (tmp_path / "panel.skinny").stat().st_size < 300_000
    again = load(tmp_path / "panel.skinny")
    np.testing.assert_array_equal(again.predict_proba(model.transform(X)), model.predict_proba(X))


def test_size_by_cost_is_the_largest_that_fits(genes):
    X, y = load_diabetes(return_X_y=True)
    costs = np.arange(1.0, 11.0)
    model = SkinnyTreesRegressor(30.0, feature_costs=costs, **QUICK).fit(X, y)
    smaller = model.at(cost=15)
    assert costs[smaller.support_].sum() <= 15
    assert smaller.feature_budget == costs[smaller.support_].sum()
    with pytest.raises(ValueError, match="Give one of them"):
        model.at(3, cost=15)
    with pytest.raises(ValueError, match=r"no model with a cost of 0\.5"):
        model.at(cost=0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("costs", "cost"), [(None, 2), ("groups", 1)])
def test_budget_of_a_size_by_cost_means_the_same_in_another_fit(costs, cost):
    X, y = load_breast_cancer(return_X_y=True)
    groups = [[0, 1, 2], [3, 4], [5, 6]]
    model = SkinnyTreesClassifier(3, feature_groups=groups, feature_costs=costs, size_rule="full", **QUICK).fit(X, y)
    smaller = model.at(cost=cost)
    assert smaller.feature_budget == cost
    again = SkinnyTreesClassifier(**smaller.get_params()).fit(X, y)
    assert again.path_.budget == cost, "1.0 would be all of them"


def test_representations_are_short(genes):
    model, _, _ = genes
    assert len(repr(model.path_)) < 200
    assert f"chosen: {model.n_features_selected_} features" in repr(model.path_)
    assert "<table>" in model.path_._repr_html_()
    assert "10 features" in repr(model.model_)
    assert len(repr(model.model_)) < 200
    for penalty in (GroupL0(1.0), GroupLasso(0.1), NoPenalty()):
        assert len(repr(penalty)) < 50
        assert repr(penalty) in penalty._repr_html_()
