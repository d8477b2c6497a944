"""Table 2's trials are drawn from the right ranges, and the test rows judge only the setting that validation rows chose."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

table2 = pytest.importorskip("benchmarks.table2", reason="a source distribution has no benchmarks")
from skinnytrees.baselines import TAOClassifier  # noqa: E402
from skinnytrees.datasets import PublishedData  # noqa: E402


@pytest.mark.parametrize("name", table2.SYSTEMS)
def test_trials_stay_in_their_ranges_and_depend_on_their_number_only(name):
    estimator = table2.SYSTEMS[name].estimator
    trials = table2.trials_of(estimator, 30)
    for parameter, (kind, *limits) in type(estimator).tuning_space().items():
        values = [getattr(trial, parameter) for trial in trials.values()]
        assert len(set(values)) > 3
        allowed = limits[0] if kind == "choice" else limits
        assert min(allowed) <= min(values)
        assert max(values) <= max(allowed)
    assert repr(table2.trials_of(estimator, 3)["2"]) == repr(trials["2"])


def test_logarithmic_ranges_are_drawn_uniformly_on_the_logarithm():
    rng = np.random.default_rng(0)
    values = [table2.draw_setting({"lam": ("log", 1e-4, 1e4)}, rng)["lam"] for _ in range(400)]
    assert 0.4 < np.mean(np.array(values) < 1) < 0.6


def test_best_trial_has_finished_and_of_equal_ones_the_fewest_columns():
    rows = [
        {"system": "0", "score": 0.8, "n_features": 3, "error": ""},
        {"system": "1", "score": 0.9, "n_features": 7, "error": ""},
        {"system": "2", "score": 0.9, "n_features": 5, "error": ""},
        {"system": "3", "score": None, "n_features": None, "error": "stopped after 60 s"},
    ]
    assert table2.best_trial(rows)["system"] == "2"
    assert table2.best_trial(rows[3:]) is None


@pytest.fixture(scope="module")
def data():
    X, y = load_wine(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    X, X_val, y, y_val = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)
    return PublishedData(X, y, X_val, y_val, X_test, y_test)


def test_chosen_setting_is_judged_by_the_test_rows_within_the_budget(data, tmp_path):
    runner = table2.Runner(n_trials=3, n_repeats=2, time_limit=60, folder=tmp_path)
    chosen, known = runner.tune(data, table2.TAO(), "wine")
    trial = table2.trials_of(table2.TAO(), 3)[str(known["best_trial"])]
    assert repr(chosen.set_params(feature_budget=None)) == repr(trial)
    by_hand = [
        clone(trial).set_params(feature_budget=0.5, random_state=1000 + r).fit(data.X_train, data.y_train)
        for r in (0, 1)
    ]
    judged = runner.judge(data, chosen, "wine")
    scores = [roc_auc_score(data.y_test, model.predict_proba(data.X_test), multi_class="ovo") for model in by_hand]
    assert judged["test_auc"] == pytest.approx(np.mean(scores))
    assert judged["n_features"] == np.mean([model.n_features_selected_ for model in by_hand]) <= 6


def test_tree_above_the_budget_does_not_count(data):
    dense = table2.TAO(1, max_depth=3, lam=1e-5, random_state=0)
    with pytest.raises(ValueError, match="No tree of the path meets the budget: the smallest tree has"):
        dense.fit(data.X_train, data.y_train)
    assert TAOClassifier(**dense.get_params()).fit(data.X_train, data.y_train).n_features_selected_ == 1
    within = table2.TAO(12, max_depth=2, lam=1.0, random_state=0).fit(data.X_train, data.y_train)
    assert within.path_.chosen == 0


def test_labels_give_the_probability_one_to_the_predicted_class(data):
    tao = TAOClassifier(12, max_depth=2, lam=1.0, random_state=0)
    labels = table2.labels_only(tao).fit(data.X_train, data.y_train)
    P = labels.predict_proba(data.X_test)
    np.testing.assert_array_equal(P.sum(axis=1), 1)
    np.testing.assert_array_equal(P.argmax(axis=1), tao.fit(data.X_train, data.y_train).predict(data.X_test))


def test_report_puts_the_papers_figures_beside_ours(tmp_path):
    row = {
        "set": "churn", "system": "skinny tree", "trials": 20, "stopped": 1, "above_budget": 4, "failed": 2, "best_trial": 4,
        "validation_auc": 0.9, "repeats": 5, "test_auc": 0.8765,
        "test_auc_se": 0.0012, "n_features": 9.0, "seconds": 1.0, "test_auc_of_labels": np.nan,
    }  # fmt: skip
    table2.append_row(tmp_path / "figures.csv", row)
    assert table2.report(tmp_path / "figures.csv").splitlines()[-1] == (
        "| churn | skinny tree | 89.35 | 87.65 ± 0.12 | 5 | 9 |  | 13 of 20 (4, 1, 2) |"
    )
