"""The estimators as selectors, in pipelines, in searches and in cross-validation."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import scale

from estimators.helpers import EVERY_WAY, assert_same_fit, classifier, fitted, wine

# Few epochs on few rows: what a penalty removes, or whether it removes anything, is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


# ------------------------------------------------------------------------------------------------ selecting


@EVERY_WAY
def test_transform_gives_the_selected_columns(way):
    X, y = wine()
    model = fitted(way)
    np.testing.assert_array_equal(model.transform(X), X[:, model.support_])
    np.testing.assert_array_equal(classifier(way).fit_transform(X, y), X[:, model.support_])
    back = model.inverse_transform(model.transform(X))
    np.testing.assert_array_equal(back, np.where(model.support_, X, 0))


def test_names_of_the_selected_columns_come_out():
    X, y = wine()
    names = np.array(load_wine().feature_names)
    model = classifier("path").fit(pd.DataFrame(X, columns=names), y)
    assert_same_fit(model, fitted("path"))
    assert model.feature_names_in_.tolist() == names.tolist()
    assert model.get_feature_names_out().tolist() == names[model.support_].tolist()
    assert fitted("path").get_feature_names_out().tolist() == [f"x{k}" for k in np.flatnonzero(model.support_)]
    assert fitted("path").get_feature_names_out(names).tolist() == names[model.support_].tolist()


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output_gives_a_frame_of_the_selected_columns(container):
    X, y = wine()
    frame = pd.DataFrame(X, columns=load_wine().feature_names)
    model = classifier("path").set_output(transform=container).fit(frame, y)
    out = model.transform(frame)
    assert type(out).__module__.startswith(container)
    assert list(out.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(out.to_numpy(), X[:, model.support_])


def test_selector_before_another_model_in_a_pipeline():
    X, y = wine()
    pipeline = make_pipeline(classifier("path").set_output(transform="pandas"), LogisticRegression())
    frame = pd.DataFrame(scale(X), columns=load_wine().feature_names)
    pipeline.fit(frame, y)
    selected = pipeline[0].get_feature_names_out().tolist()
    assert pipeline[1].feature_names_in_.tolist() == selected
    assert pipeline[:1].get_feature_names_out().tolist() == selected
    alone = LogisticRegression().fit(frame[selected], y)
    np.testing.assert_array_equal(pipeline.predict_proba(frame), alone.predict_proba(frame[selected]))


# ------------------------------------------------------------------------------------------------ searching


def test_grid_search_in_two_processes_finds_what_one_finds():
    X, y = wine()
    X, y = X[::2], y[::2]
    quick = classifier("path", validation_fraction=0.2)
    grid = {"feature_budget": [1, 6], "penalty": ["path"]}
    one, two = (GridSearchCV(quick, grid, cv=2, n_jobs=n_jobs, scoring="neg_log_loss").fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])
    assert one.best_params_ == two.best_params_ == {"feature_budget": 6, "penalty": "path"}
    assert_same_fit(one.best_estimator_, two.best_estimator_, X)


def test_cross_validation_in_two_processes_gives_the_scores_of_one():
    X, y = wine()
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    one, two = (cross_val_score(classifier("group_l0"), X, y, cv=folds, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert one.min() > 0.8


def test_sample_weights_are_routed_where_they_are_asked_for():
    X, y = wine()
    weight = np.where(y == 0, 5.0, 1.0)
    direct = classifier("path").fit(X, y, weight)
    assert (direct.predict_proba(X) != fitted("path").predict_proba(X)).any()
    with sklearn.config_context(enable_metadata_routing=True):
        asking = classifier("path").set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(asking, {"feature_budget": [4]}, cv=2).fit(X, y, sample_weight=weight)
        not_asking = classifier("path").set_fit_request(sample_weight=False).set_score_request(sample_weight=True)
        other = GridSearchCV(not_asking, {"feature_budget": [4]}, cv=2).fit(X, y, sample_weight=weight)
        pipeline = make_pipeline(asking, GaussianNB().set_fit_request(sample_weight=False))
        selector = pipeline.fit(X, y, sample_weight=weight)[0]
    assert_same_fit(search.best_estimator_, direct, X)
    assert_same_fit(other.best_estimator_, fitted("path"), X)
    assert_same_fit(selector, direct, X)
