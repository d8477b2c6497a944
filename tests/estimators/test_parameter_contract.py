"""Every parameter does what it says in a mode, or is refused there with the alternative named."""

import inspect
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.model_selection import GridSearchCV

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.estimators.parameters import DENSE, MODES_OF, PATH, PENALISED, mode_of
from skinnytrees.exceptions import SelectionWarning
from skinnytrees.penalties import GroupL0, GroupLasso

QUICK = {"n_estimators": 5, "max_epochs": 2, "random_state": 0}
PENALTIES = {PATH: "path", PENALISED: GroupL0(5.0), DENSE: None}
SET = {
    "feature_budget": 3,
    "size_rule": "one_se",
    "scoring": "roc_auc",
    "cv": 3,
    "refit": False,
    "feature_costs": np.ones(13),
    "feature_groups": [[0, 1]],
    "always_select": [0],
    "optimizer": "adam",
    "schedule": "one_cycle",
}
ADVICE = {
    "feature_budget": "use penalty='path'",
    "size_rule": "use penalty='path'",
    "scoring": "GridSearchCV",
    "cv": "GridSearchCV",
    "refit": "validation_fraction=None",
    "feature_costs": "penalty object such as GroupL0",
    "feature_groups": "penalty object such as GroupL0",
    "always_select": "leave always_select out",
    "optimizer": "leave optimizer out",
    "schedule": "leave schedule out",
}
UNUSED = [(name, mode) for name, modes in MODES_OF.items() for mode in PENALTIES if mode not in modes]


def test_table_speaks_of_real_parameters_only():
    for estimator in (SkinnyTreesClassifier, SkinnyTreesRegressor):
        assert set(MODES_OF) <= set(inspect.signature(estimator).parameters)
    assert set(MODES_OF) == set(SET)


@pytest.mark.parametrize(("name", "mode"), UNUSED)
def test_parameter_that_a_mode_does_not_use_is_refused_with_the_alternative(name, mode):
    X, y = load_wine(return_X_y=True)
    model = SkinnyTreesClassifier(penalty=PENALTIES[mode], **{**QUICK, name: SET[name]})
    with pytest.raises(ValueError, match=f"{name}=.* has no effect with penalty=") as refusal:
        model.fit(X, y)
    assert ADVICE[name] in str(refusal.value)
    assert not hasattr(model, "model_")


@pytest.mark.parametrize(
    ("parameters", "has_validation_rows", "message"),
    [
        ({"validation_fraction": 0.3, "cv": 3}, False, "validation_fraction=0.3 has no effect with cv=3.*Leave one"),
        ({"validation_fraction": 0.3}, True, "validation_fraction=0.3 has no effect with X_val.*Leave one"),
        ({"refit": False, "cv": 3}, False, "refit=False has no effect with cv=3.*Leave refit out"),
        (
            {"validation_fraction": 0.3, "penalty": GroupL0(5.0)},
            True,
            "validation_fraction=0.3 has no effect with X_val",
        ),
        ({"cv": 3}, True, "X_val was given, and cv=3.*leave the other out"),
        ({"validation_fraction": None, "size_rule": "one_se"}, False, "size_rule='one_se' has no effect.*use cv or"),
        ({"validation_fraction": None, "scoring": "accuracy"}, False, "scoring='accuracy' has no effect.*use cv or"),
        ({"penalty": GroupL0(5.0), "optimizer": "adam"}, False, "optimizer='adam' has no proximal step.*penalty=None"),
        ({"feature_budget": 14}, False, r"more columns than X has \(13\). Use a number up to 13"),
        ({"feature_budget": 1, "always_select": [0, 1]}, False, "cannot be met.*Use at least 2"),
        ({"n_jobs": 0}, False, "n_jobs=0 allows no thread. Use 1"),
    ],
)
def test_values_that_exclude_each_other_are_refused_with_a_way_out(parameters, has_validation_rows, message):
    X, y = load_wine(return_X_y=True)
    rows = {"X_val": X[::3], "y_val": y[::3]} if has_validation_rows else {}
    with pytest.raises(ValueError, match=message):
        SkinnyTreesClassifier(**QUICK, **parameters).fit(X, y, **rows)


@pytest.mark.parametrize(
    ("parameters", "has_validation_rows"),
    [
        ({"validation_fraction": None, "cv": 3, "size_rule": "one_se"}, False),
        ({"validation_fraction": None, "scoring": "accuracy"}, True),
        ({"validation_fraction": None, "size_rule": "full"}, False),
    ],
)
def test_values_that_have_rows_to_work_on_are_accepted(parameters, has_validation_rows):
    X, y = load_wine(return_X_y=True)
    rows = {"X_val": X[::3], "y_val": y[::3]} if has_validation_rows else {}
    assert SkinnyTreesClassifier(3, **QUICK, **parameters).fit(X, y, **rows).n_features_selected_ <= 3


@pytest.mark.parametrize("mode", PENALTIES)
def test_defaults_that_are_given_by_hand_are_no_reason_to_refuse(mode):
    X, y = load_wine(return_X_y=True)
    defaults = {name: inspect.signature(SkinnyTreesClassifier).parameters[name].default for name in MODES_OF}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        SkinnyTreesClassifier(penalty=PENALTIES[mode], **defaults, **QUICK).fit(X, y)


def test_mode_follows_from_the_penalty():
    assert [mode_of(penalty) for penalty in ("path", GroupLasso(0.1), None)] == [PATH, PENALISED, DENSE]


@pytest.mark.parametrize("n_estimators", [1, 7, 12, 100])
@pytest.mark.parametrize("n_rows", [120, 500])
def test_n_estimators_is_the_number_of_trees_of_the_final_model(n_estimators, n_rows):
    X, y = load_breast_cancer(return_X_y=True)
    model = SkinnyTreesClassifier(3, n_estimators=n_estimators, max_epochs=2, random_state=0).fit(
        X[:n_rows], y[:n_rows]
    )
    assert model.model_.trees.n_trees == n_estimators


def test_grid_searches_over_the_numbers_of_a_penalty():
    X, y = load_wine(return_X_y=True)
    penalty = GroupL0(1.0)
    model = SkinnyTreesClassifier(penalty=penalty, **QUICK)
    assert model.get_params()["penalty__gamma"] == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        search = GridSearchCV(model, {"penalty__gamma": [0.0, 1e4]}, cv=2).fit(X, y)
    assert search.best_params_ == {"penalty__gamma": 0.0}
    assert search.best_estimator_.penalty == GroupL0(0.0)
    assert penalty == GroupL0(1.0), "the user's own object is not touched"


def test_clone_of_an_estimator_has_a_penalty_of_its_own():
    model = SkinnyTreesClassifier(penalty=GroupL0(1.0, rate=0.5))
    other = clone(model).set_params(penalty__gamma=3.0)
    assert (model.penalty, other.penalty) == (GroupL0(1.0, rate=0.5), GroupL0(3.0, rate=0.5))


def test_penalty_refuses_numbers_and_names_that_it_does_not_know():
    with pytest.raises(ValueError, match=r"GroupL0 has no parameter 'lam'. Use one of \['gamma', 'rate'\]"):
        GroupL0(1.0).set_params(lam=1)
    penalty = GroupL0(1.0)
    with pytest.raises(ValueError, match="gamma=-1 must not be negative"):
        penalty.set_params(gamma=-1)
    assert penalty == GroupL0(1.0)


@pytest.mark.parametrize(
    ("penalty", "message"),
    [
        (
            GroupL0(1e6),
            r"GroupL0\(gamma=1000000.0, rate=None\) has removed all features. Use a smaller gamma, or a learning_rate below 0.1",
        ),
        (GroupL0(1e-9), "has removed no feature. Use a larger gamma, more epochs.*above 0.1; GroupL0.grid"),
        (GroupLasso(1e6), "has removed all features. Use a weaker penalty"),
    ],
)
def test_penalty_that_removes_all_or_nothing_says_so(penalty, message):
    X, y = load_diabetes(return_X_y=True)
    with pytest.warns(SelectionWarning, match=message) as seen:
        SkinnyTreesRegressor(penalty=penalty, **QUICK).fit(X, y)
    assert [one.filename for one in seen] == [__file__], "the warning shows the user's line"


@pytest.mark.parametrize("penalty", [GroupL0(0.0), GroupLasso(0.0), None])
def test_no_penalty_is_no_reason_to_warn(penalty):
    X, y = load_diabetes(return_X_y=True)
    assert SkinnyTreesRegressor(penalty=penalty, **QUICK).fit(X, y).n_features_selected_ == 10


@pytest.mark.parametrize("n_noise", [0, 300])
@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")
def test_grid_of_penalties_reaches_from_all_features_to_none(n_noise):
    X, y = load_breast_cancer(return_X_y=True)
    X = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), n_noise))])
    settings = {"n_estimators": 20, "max_epochs": 60}
    grid = GroupL0.grid(X, n_values=5, **settings)
    left = [
        SkinnyTreesClassifier(penalty=one, random_state=0, **settings).fit(X, y).n_features_selected_ for one in grid
    ]
    assert left[0] == X.shape[1]
    assert left[-1] == 0
    assert 0 < np.median(left) < X.shape[1]


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")
def test_penalty_never_removes_what_always_select_names():
    X, y = load_wine(return_X_y=True)
    model = SkinnyTreesClassifier(penalty=GroupL0(1e6), always_select=[2, 5], random_state=0).fit(X, y)
    assert model.get_support(indices=True).tolist() == [2, 5]


@pytest.mark.parametrize("penalty", [GroupL0(6.0, rate=0.02), GroupLasso(0.03)])
def test_costs_multiply_the_penalty_of_a_group(penalty):
    X, y = load_breast_cancer(return_X_y=True)
    twins = np.hstack([X, X])
    costs = np.repeat([1.0, 4.0], 30)
    model = SkinnyTreesClassifier(penalty=penalty, feature_costs=costs, n_estimators=10, random_state=0).fit(twins, y)
    cheap, dear = model.support_[:30].sum(), model.support_[30:].sum()
    assert cheap > dear


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")
def test_history_counts_features_not_groups():
    X, y = load_wine(return_X_y=True)
    groups = [[0, 1, 2, 3], [4, 5], [6, 7, 8]]
    model = SkinnyTreesClassifier(penalty=GroupL0(8.0, rate=0.1), feature_groups=groups, max_epochs=40, random_state=0)
    model.fit(X, y)
    assert model.history_["n_features"][0] == 13
    assert model.history_["n_features"][-1] == model.n_features_selected_
