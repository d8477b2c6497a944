"""The thin selectors, each against a second implementation or a definition."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import RFE, f_classif, f_regression, mutual_info_classif
from sklearn.inspection import permutation_importance
from sklearn.linear_model import Lasso, LogisticRegression

from skinnytrees.baselines import (
    BestSubsetRegressor,
    BorutaClassifier,
    L1PathRegressor,
    MRMRClassifier,
    MutualInformationClassifier,
    RFEClassifier,
)
from skinnytrees.baselines.base import Sample
from skinnytrees.baselines.mrmr import f_statistic
from skinnytrees.baselines.shap_ranking import shapley_values
from tests.baselines.helpers import new, small_table

SEED = np.random.RandomState(0).randint(2**31 - 1)  # as the base draws it


@pytest.fixture(scope="module")
def table():
    X, y = small_table("classifier")
    return X[:, np.ptp(X, axis=0) > 0], y


@pytest.mark.parametrize("step", [1, 3, 0.3])
@pytest.mark.parametrize("k", [1, 4])
def test_elimination_is_scikit_learns(table, step, k):
    X, y = table
    linear = LogisticRegression()
    reference = RFE(linear, n_features_to_select=k, step=step).fit(X, y)
    ours = RFEClassifier(k, step=step, estimator=linear).fit(X, y)
    np.testing.assert_array_equal(ours.support_, reference.support_)
    assert set(ours.ranking_[ours.support_]) == set(range(1, k + 1))


def test_f_statistics_are_scikit_learns(table):
    X, y = table
    number = X[:, 0] + X[:, 1] ** 2
    np.testing.assert_allclose(f_statistic(Sample(X, y, np.ones(len(y))), 2), f_classif(X, y)[0])
    np.testing.assert_allclose(f_statistic(Sample(X, number, np.ones(len(y))), 0), f_regression(X, number)[0])
    weight = np.arange(len(y)) % 3 + 1
    repeated = f_classif(np.repeat(X, weight, axis=0), np.repeat(y, weight))[0]
    np.testing.assert_allclose(f_statistic(Sample(X, y, weight.astype(float)), 2), repeated)


def test_mrmr_follows_its_formula(table):
    X, y = table
    relevance, correlation = f_classif(X, y)[0], np.abs(np.corrcoef(X.T))
    order = [int(relevance.argmax())]
    while len(order) < 5:
        left = [k for k in range(X.shape[1]) if k not in order]
        quotient = [relevance[k] / max(correlation[k, order].mean(), 1e-3) for k in left]
        order.append(left[int(np.argmax(quotient))])
    model = MRMRClassifier(5, n_estimators=5, random_state=0).fit(X, y)
    assert np.argsort(model.ranking_)[:5].tolist() == order


def test_mrmr_prefers_a_new_column_to_a_copy():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    X[:, 1] = X[:, 0] + 0.01 * rng.normal(size=300)
    y = (X[:, 0] + 0.5 * X[:, 2] > 0).astype(int)
    assert MRMRClassifier(2, n_estimators=5, random_state=0).fit(X, y).support_[2]


def test_mutual_information_is_scikit_learns(table):
    X, y = table
    model = MutualInformationClassifier(3, n_estimators=5, random_state=0, n_jobs=1).fit(X, y)
    reference = mutual_info_classif(X, y, discrete_features=False, random_state=SEED)
    np.testing.assert_allclose(model.feature_importances_, reference / reference.sum())


@pytest.mark.parametrize("booster", ["xgboost", "lightgbm", "catboost"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_shapley_values_add_up_to_the_raw_scores(table, booster, n_classes):
    package = pytest.importorskip(booster, reason=f"needs {booster}, which the extra [baselines] installs")
    X, _ = table
    y = np.digitize(X[:, 2], [0.0] if n_classes == 2 else [-0.4, 0.4])
    model = new("shap", booster=booster, budget=X.shape[1]).fit(X, y).model_
    values = shapley_values(model, X)
    assert values.shape == (len(X), 1 if n_classes == 2 else 3, X.shape[1])
    if booster == "xgboost":
        raw = model.predict(X, output_margin=True)
    elif booster == "lightgbm":
        raw = model.predict(X, raw_score=True)
    else:
        raw = model.predict(package.Pool(X), prediction_type="RawFormulaVal")
    constant = raw.reshape(len(X), -1) - values.sum(axis=2)
    np.testing.assert_allclose(constant, np.broadcast_to(constant[:1], constant.shape), atol=1e-4)


def test_permutation_importance_agrees_with_scikit_learns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + 0.4 * X[:, 1] + 0.3 * rng.normal(size=300) > 0).astype(int)
    X_val, y_val = X[200:], y[200:]
    model = new("permutation", budget=2, n_estimators=10, n_repeats=10).fit(X[:200], y[:200], X_val=X_val, y_val=y_val)
    forest = RandomForestClassifier(10, random_state=SEED).fit(X[:200], y[:200])
    reference = permutation_importance(forest, X_val, y_val, scoring="roc_auc", n_repeats=10, random_state=1)
    expected = np.maximum(reference.importances_mean, 0)
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum(), atol=0.05)


def test_boruta_confirms_what_matters_and_can_stop_there():
    pytest.importorskip("boruta", reason="needs boruta, which the extra [baselines] installs")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = (X[:, 0] - X[:, 4] > 0).astype(int)
    quick = {"n_estimators": 10, "n_search_trees": 20, "max_iter": 15, "random_state": 0, "n_jobs": 1}
    confirmed = BorutaClassifier(confirmed_only=True, **quick).fit(X, y)
    assert confirmed.get_support(indices=True).tolist() == [0, 4]


def test_lasso_path_has_scikit_learns_coefficients():
    X, y = small_table("regressor")
    model = L1PathRegressor(random_state=0).fit(X, y, X_val=X, y_val=y)
    entry = model.path_[5]
    Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 1e-9, X.std(axis=0), 1)
    reference = Lasso(alpha=entry.setting["penalty"]).fit(Z, y)
    np.testing.assert_array_equal(entry.support, np.flatnonzero(reference.coef_))


def test_strongest_penalty_of_the_l1_path_leaves_few_features():
    for kind in ("classifier", "regressor"):
        X, y = small_table(kind)
        path = new("l1_path", kind).fit(X, y).path_
        assert path.n_features[0] == 1
        assert path.n_features[-1] > 5


def test_best_subset_is_the_best_of_all_subsets():
    pytest.importorskip("abess", reason="needs abess, which the extra [abess] installs")
    from itertools import combinations

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 6)) @ rng.normal(size=(6, 6))
    y = X[:, 1] - X[:, 3] + 0.5 * X[:, 5] + 0.3 * rng.normal(size=80)
    model = BestSubsetRegressor(3, random_state=0, n_jobs=1).fit(X, y)

    def loss(columns):
        A = np.column_stack([X[:, columns], np.ones(80)])
        return np.sum((y - A @ np.linalg.lstsq(A, y, rcond=None)[0]) ** 2)

    best = min(combinations(range(6), model.n_features_selected_), key=loss)
    assert tuple(model.get_support(indices=True)) == best
    assert model.score(X, y) > 0.9
