"""What users bring: frames, categories, gaps, weights, validation rows, sparse tables, and packages that are not there."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from skinnytrees.baselines import SYSTEMS, ForestImportanceClassifier, L1PathClassifier, available_systems
from tests.baselines.helpers import BOTH, CLASSIFIERS, fitted, new, output, small_table

# What a system needs to tell three classes apart, where the quick settings stop too early.
_SOFT_TREES = {"max_epochs": 60, "batch_size": 16}
ENOUGH = {
    "dense_soft_trees": _SOFT_TREES,
    "group_lasso_tree": _SOFT_TREES,
    "skinny_tree": _SOFT_TREES,
    "lassonet": {"max_epochs": (300, 20), "lambdas": (50.0, 100.0, 200.0, 400.0)},
}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    n = 90
    colour = rng.choice(["red", "green", "blue"], n)
    size = rng.normal(size=n)
    table = pd.DataFrame(
        {"noise": rng.normal(size=n), "colour": colour, "size": size, "same": "one", "gap": rng.normal(size=n)}
    )
    table.loc[::7, "gap"] = np.nan
    table.loc[3, "colour"] = None
    return table, 2.0 * (colour == "red") - 1 + 0.8 * size


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_frames_with_categories_and_gaps(name, kind, frame):
    table, y = frame
    y = y if kind == "regressor" else np.where(y > 0, "yes", "no")
    before = table.copy()
    model = new(name, kind, 2).fit(table, y)
    assert 0 < model.n_features_selected_ <= 2
    assert not model.support_[3]
    pd.testing.assert_frame_equal(table, before)
    assert list(model.get_feature_names_out()) == [
        c for c, kept in zip(table.columns, model.support_, strict=True) if kept
    ]
    assert np.isfinite(output(model, table)).all()
    # A category that training did not have, and gaps everywhere, can be predicted.
    other = table.assign(colour="violet", size=np.nan)
    assert np.isfinite(output(model, other)).all()


def test_a_category_counts_as_one_feature(frame):
    table, y = frame
    model = ForestImportanceClassifier(1, n_estimators=30, random_state=0).fit(table[["noise", "colour", "gap"]], y > 0)
    assert model.get_feature_names_out().tolist() == ["colour"]
    assert model.model_.n_features_in_ == 4  # three levels and a missing one


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_weights_are_honoured_or_refused(name, kind):
    X, y = small_table(kind)
    model = new(name, kind, 2)
    if not model._honours_weights:
        with pytest.raises(
            ValueError, match=r"does not support sample weights, but sample_weight was given\. Leave it out"
        ):
            model.fit(X, y, np.ones(len(y)))
        return
    weight = np.where(np.arange(len(y)) < 60, 1.0, 0.0)
    unweighted, weighted = model.fit(X[:60], y[:60]), new(name, kind, 2).fit(X, y, weight)
    np.testing.assert_array_equal(unweighted.support_, weighted.support_)
    np.testing.assert_array_equal(output(unweighted, X), output(weighted, X))
    # Weights that are not zero change the model, too.
    elsewhere = np.random.default_rng(0).normal(size=X.shape)
    uneven = new(name, kind, 2).fit(X, y, np.where(X[:, 0] > 0, 5.0, 0.1))
    assert not np.array_equal(output(uneven, elsewhere), output(fitted(name, kind, 2), elsewhere))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_several_classes_are_predicted_or_refused(name):
    X, _ = small_table("classifier")
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 2], [-0.4, 0.4])]
    model = new(name, budget=3, **ENOUGH.get(name, {}))
    if SYSTEMS[name].binary_only:
        with pytest.raises(ValueError, match="Only binary classification is supported"):
            model.fit(X, y)
        return
    P = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert P.shape == (90, 3)
    assert set(model.predict(X)) <= {"a", "b", "c"}
    assert model.score(X, y) > 0.5


def test_given_validation_rows_choose_and_are_not_trained_on():
    X, y = small_table("classifier")
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, X.shape[1])), rng.integers(2, size=40)
    chosen = new("l1_path", budget=6).fit(X, y, X_val=X, y_val=y)
    other = new("l1_path", budget=6).fit(X, y, X_val=noise[0], y_val=noise[1])
    assert not np.array_equal(chosen.path_.val_score, other.path_.val_score)
    for one, two in zip(chosen.path_, other.path_, strict=True):
        np.testing.assert_array_equal(one.support, two.support)


def test_chosen_entry_is_the_best_within_the_budget():
    X, y = small_table("classifier")
    path = new("l1_path", budget=3).fit(X, y).path_
    fits = (path.n_features > 0) & (path.n_features <= 3)
    assert path[path.chosen].val_score == path.val_score[fits].max()
    table = path.to_frame()
    assert list(table.columns) == ["n_features", "penalty", "val_score", "support"]
    assert len(table) == len(path)


# Soft trees are left out: they centre dense columns but not sparse ones, so that the two fits differ.
@pytest.mark.parametrize("name", ["forest", "extra_trees", "xgboost", "lightgbm", "catboost", "rfe"])
def test_sparse_tables_give_the_columns_of_dense_ones(name):
    X, y = small_table("classifier")
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense, thin = new(name, budget=2).fit(X, y), new(name, budget=2).fit(sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(dense.support_, thin.support_)
    if name != "xgboost":  # reads what a sparse table does not store as missing
        np.testing.assert_allclose(thin.predict_proba(sparse.csr_matrix(X)), dense.predict_proba(X), atol=1e-6)


def test_sparse_tables_are_refused_where_a_system_cannot_take_them():
    with pytest.raises(TypeError, match=r"L1PathClassifier does not take sparse data.*toarray"):
        L1PathClassifier().fit(sparse.eye(10, format="csr"), [0, 1] * 5)


@pytest.mark.parametrize("name", [name for name in SYSTEMS if SYSTEMS[name].needs])
def test_absent_package_gives_an_error_that_names_the_extra(name, monkeypatch):
    model = new(name, budget=2)
    package, extra = SYSTEMS[name].needs[0], SYSTEMS[name].extra
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ImportError, match=rf"needs {package}, which is not installed: pip install 'skinnytrees\[{extra}\]'"
    ):
        model.fit(*small_table("classifier"))


@pytest.mark.parametrize("name", [name for name in SYSTEMS if SYSTEMS[name].needs])
def test_the_named_extra_installs_the_package(name):
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = project["optional-dependencies"][SYSTEMS[name].extra]
    installed = {re.match(r"[\w-]+", requirement)[0].removesuffix("-cpu") for requirement in extra}
    assert set(SYSTEMS[name].needs) <= installed


def test_shap_ranking_needs_the_booster_that_it_uses_only(monkeypatch):
    model = new("shap", budget=2, booster="lightgbm")
    pytest.importorskip("lightgbm", reason="needs lightgbm, which the extra [baselines] installs")
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert model.fit(*small_table("classifier")).n_features_selected_ == 2
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ImportError, match="ShapRankingClassifier needs lightgbm"):
        model.fit(*small_table("classifier"))


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (13, r"feature_budget=13 asks for more columns than X has \(12\)"),
        (1.5, "asks for more columns"),
        (0, "feature_budget"),
    ],
)
def test_impossible_budgets_are_refused(budget, message):
    with pytest.raises(ValueError, match=message):
        L1PathClassifier(budget).fit(*small_table("classifier"))


def test_half_given_validation_rows_are_refused():
    X, y = small_table("classifier")
    with pytest.raises(ValueError, match="Give X_val and y_val both, or neither"):
        L1PathClassifier().fit(X, y, X_val=X)
    with pytest.raises(ValueError, match=r"y_val has classes that y has not: \[7\]"):
        L1PathClassifier().fit(X, y, X_val=X[:1], y_val=[7])


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_a_table_in_which_nothing_varies_gives_a_constant(name, kind):
    y = np.array([0, 1, 1, 1] * 5)
    model = new(name, kind).fit(np.ones((20, 3)), y)
    assert model.n_features_selected_ == 0
    expected = [[0.25, 0.75]] if kind == "classifier" else [0.75]
    np.testing.assert_allclose(output(model, np.zeros((1, 3))), expected)


def test_registry_names_what_can_be_run():
    assert "tao" not in available_systems("regression")
    assert "controlburn" not in available_systems("classification", n_classes=4)
    assert "controlburn" in available_systems("regression", n_classes=None)
    with pytest.raises(ValueError, match="task='other'"):
        available_systems("other")
    for name, system in SYSTEMS.items():
        assert name == system.name
        assert system.cost in ("seconds", "minutes", "hours")


def test_tuning_spaces_are_those_of_the_papers_supplement():
    """The ranges of section S5.2, written down a second time."""
    boosting = {
        "n_estimators": ("int", 1, 300),
        "max_depth": ("int", 1, 10),
        "learning_rate": ("log", 1e-4, 1.0),
        "subsample": ("float", 0.5, 0.9),
        "threshold": ("log", 1e-7, 1e-1),
    }
    one_tree = {"learning_rate": ("log", 1e-2, 10.0), "max_epochs": ("int", 5, 1000)}
    expected = {
        "forest": {"n_estimators": ("int", 1, 300), "max_depth": ("int", 1, 10), "threshold": ("log", 1e-7, 1e-1)},
        "xgboost": boosting,
        "lightgbm": {**boosting, "subsample_freq": ("int", 1, 7)},
        "catboost": boosting,
        "dense_soft_trees": {
            **one_tree,
            "n_estimators": ("int", 1, 100),
            "batch_size": ("choice", (16, 64, 256, 1024)),
        },
        "group_lasso_tree": one_tree,
        "skinny_tree": {**one_tree, "l2": ("log", 1e-2, 1e2)},
        "tao": {"max_depth": ("int", 1, 10), "lam": ("log", 1e-5, 1e5), "max_iter": ("int", 20, 100)},
        "controlburn": {"alpha": ("log", 1e-7, 1.0), "max_depth": ("int", 1, 10)},
        "lassonet": {"batch_size": ("choice", (64, 128, 256, 512))},
        "algnet": {"learning_rate": ("log", 0.01, 1.0), "max_epochs": ("int", 5, 2000)},
        "dfs": {"learning_rate": ("log", 0.001, 0.1)},
    }
    for name, ranges in expected.items():
        assert ranges.items() <= SYSTEMS[name].classifier.tuning_space().items()
    for name in ("lassonet", "algnet", "dfs"):
        widths = [hidden[0] for hidden in SYSTEMS[name].classifier.tuning_space()["hidden"][1]]
        assert widths == pytest.approx([1 / 3, 2 / 3, 1, 4 / 3])


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_tuning_space_is_plain_data_for_real_parameters(name, kind):
    cls = getattr(SYSTEMS[name], kind)
    for parameter, (form, *values) in cls.tuning_space().items():
        assert parameter in cls._get_param_names()
        assert form in ("int", "float", "log", "choice")
        given = values[0] if form == "choice" else values
        for value in (given[0], given[-1]):
            cls(**{parameter: value})._validate_params()
