"""Importance top K and thresholds, against scikit-learn's SelectFromModel and against definitions."""

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectFromModel

from tests.baselines.helpers import fitted, new, small_table

NAMES = ["forest", "extra_trees", "xgboost", "lightgbm", "catboost", "dense_soft_trees"]


def plain(name):
    """The package's own model with the settings of the quick system."""
    seed = np.random.RandomState(0).randint(2**31 - 1)  # as the base draws it
    if name in ("forest", "extra_trees"):
        return {"forest": RandomForestClassifier, "extra_trees": ExtraTreesClassifier}[name](10, random_state=seed)
    package = pytest.importorskip(name, reason=f"needs {name}, which the extra [baselines] installs")
    boosting = {"n_estimators": 10, "learning_rate": 0.1, "max_depth": 4, "random_state": seed}
    if name == "xgboost":
        return package.XGBClassifier(importance_type="gain", **boosting)
    if name == "lightgbm":
        return package.LGBMClassifier(importance_type="gain", num_leaves=16, verbose=-1, **boosting)
    return package.CatBoostClassifier(verbose=False, allow_writing_files=False, **boosting)


@pytest.mark.parametrize("k", [1, 3, 6])
@pytest.mark.parametrize("name", ["forest", "extra_trees", "xgboost", "lightgbm", "catboost"])
def test_top_k_are_the_columns_of_select_from_model(name, k):
    X, y = small_table("classifier")
    ours = new(name, budget=k).fit(X, y)
    varying = np.ptp(X, axis=0) > 0
    reference = SelectFromModel(plain(name), max_features=k, threshold=-np.inf).fit(X[:, varying], y)
    assert ours.get_support(indices=True).tolist() == np.flatnonzero(varying)[reference.get_support()].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_normalised_importances_sum_to_one_and_ranks_follow_them(name):
    model = fitted(name, "classifier", 2)
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert sorted(model.ranking_)[:3] == [1, 2, 3]
    assert model.ranking_[model.feature_importances_.argmax()] == 1
    assert set(model.ranking_[model.support_]) == {1, 2}


@pytest.mark.parametrize("name", NAMES)
def test_supports_are_nested(name):
    X, y = small_table("classifier")
    supports = [new(name, budget=k).fit(X, y).support_ for k in (1, 2, 4)]
    assert np.all(supports[0] <= supports[1])
    assert np.all(supports[1] <= supports[2])


@pytest.mark.parametrize("name", NAMES)
def test_threshold_keeps_the_normalised_importances_above_it(name):
    X, y = small_table("classifier")
    model = new(name, threshold=0.1).fit(X, y)
    np.testing.assert_array_equal(model.support_, model.feature_importances_ > 0.1)
    assert new(name, budget=1, threshold=0.01).fit(X, y).n_features_selected_ == 1
    assert new(name, threshold=0.999).fit(X, y).n_features_selected_ == 1  # never none


@pytest.mark.parametrize("name", NAMES)
def test_without_refit_the_first_model_predicts(name):
    X, y = small_table("classifier")
    unrestricted = new(name).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(new(name, budget=2, refit=False).fit(X, y).predict_proba(X), unrestricted)
    elsewhere = np.random.default_rng(0).normal(size=X.shape)
    models = [new(name, budget=1, refit=refit).fit(X, y) for refit in (False, True)]
    assert not np.array_equal(*[model.predict_proba(elsewhere) for model in models])


def test_lightgbm_draws_rows_as_often_as_it_is_told():
    X, y = small_table("classifier")
    drawn = [new("lightgbm", subsample=0.5, subsample_freq=n).fit(X, y).predict_proba(X) for n in (1, 7)]
    assert not np.array_equal(*drawn)
