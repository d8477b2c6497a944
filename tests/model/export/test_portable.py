import numpy as np
import pandas as pd
import pytest

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.estimators.exporting import portable_model
from skinnytrees.model.export.evaluation import predictions
from skinnytrees.penalties import GroupL0

from . import cases
from .reference import predict_row


@pytest.mark.parametrize("name", cases.ALL)
def test_description_holds_all_that_a_prediction_needs(name):
    case = cases.ALL[name]()
    model = portable_model(case.model)
    given = [predict_row(model, row) for row in case.inputs.to_dict("records")]
    cases.assert_equal_to_single_precision(given, case.expected)


@pytest.mark.parametrize("name", cases.ALL)
def test_numpy_evaluation_is_that_of_the_formulas(name):
    case = cases.ALL[name]()
    model, rows = portable_model(case.model), case.inputs.iloc[::5]
    given = predictions(model, {column: rows[column].tolist() for column in rows})
    np.testing.assert_allclose(
        given, [predict_row(model, row) for row in rows.to_dict("records")], rtol=1e-9, atol=1e-12
    )


def test_cases_have_every_kind_of_design_column():
    inputs = [one for case in cases.ALL.values() for one in portable_model(case().model).inputs]
    assert {one.kind for one in inputs} == {"number", "category", "text"}
    assert any(one.has_missing_column for one in inputs)
    assert any(one.curves for one in inputs)
    rises = [np.diff(heights) for one in inputs for heights in one.curves]
    assert any((rise < 0).any() and (rise > 0).any() for rise in rises), "a folded rank"
    assert any(None in one.levels for one in inputs)
    assert any(isinstance(level, float) and level % 1 for one in inputs for level in one.levels)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")  # nothing is left, as the test wants it
def test_model_without_columns_is_refused():
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = SkinnyTreesRegressor(penalty=GroupL0(gamma=1e6), max_epochs=3, validation_fraction=None).fit(X, X[:, 0])
    assert model.n_features_selected_ == 0
    with pytest.raises(ValueError, match="reads no column"):
        portable_model(model)


def test_categories_that_are_neither_text_nor_numbers_are_refused_by_name():
    X = pd.DataFrame({"when": pd.Series([("a", 1), ("b", 2)] * 20), "x": np.arange(40.0)})
    model = SkinnyTreesClassifier(penalty=None, max_epochs=2).fit(X, [0, 1] * 20)
    with pytest.raises(ValueError, match="'when' has the category"):
        portable_model(model)


def test_numbers_named_as_categories_of_a_frame_keep_their_values():
    X = pd.DataFrame({"code": [10, 20, 30, 40] * 10, "city": ["a", "b"] * 20})
    model = SkinnyTreesClassifier(penalty=None, max_epochs=2, categorical_features=["code"]).fit(X, [0, 1] * 20)
    one = portable_model(model).inputs[0]
    assert (one.kind, one.levels) == ("category", (10.0, 20.0, 30.0, 40.0))


class Doubling:
    def value(self, y, raw):
        return (raw - y) ** 2

    def gradient(self, y, raw):
        return 2 * (raw - y)


class DoublingWithLink(Doubling):
    def to_prediction(self, raw):
        return 2 * raw


def test_loss_with_a_link_of_its_own_is_refused_and_one_without_is_not():
    X = np.random.default_rng(0).normal(size=(40, 2))
    plain = SkinnyTreesRegressor(loss=Doubling(), penalty=None, max_epochs=2).fit(X, X[:, 0])
    assert portable_model(plain).link == "identity"
    linked = SkinnyTreesRegressor(loss=DoublingWithLink(), penalty=None, max_epochs=2).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="to_prediction of its own"):
        portable_model(linked)


def test_importances_are_those_of_the_estimator():
    case = cases.regression()
    given = [one.importance for one in portable_model(case.model).inputs]
    np.testing.assert_allclose(given, case.model.feature_importances_[case.model.support_])
