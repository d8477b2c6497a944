"""An evaluation repeats the whole selection and is honest about what it cannot tell."""

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer, get_scorer_names, roc_auc_score
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.evaluation import evaluate
from skinnytrees.evaluation.scoring import ANY_NUMBER, score_range

REGRESSION_SCORES = {name for name in get_scorer_names() if any(part in name for part in ("error", "deviance"))} | {
    "r2",
    "explained_variance",
}
QUICK = {"max_epochs": 2, "n_estimators": 4, "validation_fraction": 0.25, "random_state": 0}


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return X[:200], y[:200]


@pytest.fixture(scope="module")
def evaluation(cancer):
    cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    return evaluate(SkinnyTreesClassifier(3, **QUICK), *cancer, cv=cv)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_pure_noise_has_an_interval_that_covers_one_half():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 5000)), rng.integers(2, size=100)
    model = SkinnyTreesClassifier(10, validation_fraction=None, random_state=0)
    result = evaluate(model, X, y, cv=StratifiedKFold(4, shuffle=True, random_state=0), scoring="roc_auc")
    score = result.scores["roc_auc"]
    assert score.low < 0.5 < score.high
    assert abs(score.mean - 0.5) < 0.15
    assert model.fit(X, y).score(X, y) > 0.9, "what the same rows would have said"
    assert result.stability.index < 0.4
    assert "agree poorly" in result.summary()


def test_scores_are_those_of_fits_that_never_saw_the_rows(cancer, evaluation):
    X, y = cancer
    kept, held = evaluation.splits[0]
    model = SkinnyTreesClassifier(3, **QUICK).fit(X.iloc[kept], y.iloc[kept])
    expected = roc_auc_score(y.iloc[held], model.predict_proba(X.iloc[held])[:, 1])
    assert evaluation.folds[0]["scores"]["roc_auc"] == pytest.approx(expected)
    assert evaluation.folds[0]["support"] == model.get_support(indices=True).tolist()


def test_interval_is_that_of_nadeau_and_bengio(evaluation):
    score = evaluation.scores["accuracy"]
    ratio = np.mean([len(held) / len(kept) for kept, held in evaluation.splits])
    error = np.sqrt(score.by_fold.var(ddof=1) * (1 / 6 + ratio))
    assert score.mean - score.low == pytest.approx(2.570582 * error, rel=1e-5)


def test_rows_have_the_mean_of_their_held_out_predictions(evaluation):
    assert evaluation.predictions.shape == (200, 2)
    np.testing.assert_allclose(evaluation.predictions.sum(axis=1), 1, rtol=1e-5)
    row = int(evaluation.splits[0][1][0])
    given = [
        fold["prediction"][int(np.flatnonzero(held == row)[0])]
        for fold, (_, held) in zip(evaluation.folds, evaluation.splits, strict=True)
        if row in held
    ]
    assert len(given) == 2
    np.testing.assert_allclose(evaluation.predictions[row], np.mean(given, axis=0))


def test_calibration_curve_has_all_rows_in_bins_of_rising_predictions(evaluation):
    predicted, observed, n_rows = evaluation.calibration(5)
    assert n_rows.sum() == 200
    assert np.all(np.diff(predicted) > 0)
    assert observed @ n_rows == pytest.approx((evaluation.y == 1).sum())


def test_frames_have_a_row_per_fold_and_a_row_per_selected_column(evaluation):
    frame = evaluation.to_frame()
    assert len(frame) == 6
    assert {"n_features", "roc_auc", "neg_log_loss", "accuracy", "columns"} <= set(frame.columns)
    frequencies = evaluation.frequencies()
    assert frequencies["frequency"].between(0, 1).all()
    assert frequencies["frequency"].sum() * 6 == pytest.approx(frame["n_features"].sum())


def test_summary_says_it_in_words(evaluation):
    words = evaluation.summary()
    assert words.startswith("6 folds; the selection was repeated in each of them.")
    assert "stability index" in words
    assert "95% interval" in words


def test_picture_has_its_four_parts(evaluation):
    import matplotlib.pyplot as plt

    shown = evaluation.plot()
    assert set(shown.axes_) == {"scores", "calibration", "frequencies", "sizes"}
    plt.close(shown.figure_)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_results_do_not_depend_on_the_backend(cancer, backend):
    model = SkinnyTreesClassifier(2, **QUICK)
    alone = evaluate(model, *cancer, cv=2)
    with parallel_config(backend, n_jobs=2):
        together = evaluate(model, *cancer, cv=2)
    for one, other in zip(alone.folds, together.folds, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_results_on_a_dask_cluster_equal_the_serial_ones(cancer):
    distributed = pytest.importorskip("distributed", reason="needs Dask")
    model = SkinnyTreesClassifier(2, **QUICK)
    alone = evaluate(model, *cancer, cv=2)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=False) as cluster,
        distributed.Client(cluster),
        parallel_config("dask"),
    ):
        together = evaluate(model, *cancer, cv=2)
    for one, other in zip(alone.folds, together.folds, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_work_is_continued_where_it_was_stopped(cancer, tmp_path, monkeypatch):
    file, model = tmp_path / "folds.jsonl", SkinnyTreesClassifier(2, **QUICK)
    whole = evaluate(model, *cancer, cv=3, results_file=file)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]) + lines[-1][:30])
    fits, fit = [], SkinnyTreesClassifier.fit
    monkeypatch.setattr(
        SkinnyTreesClassifier, "fit", lambda self, *args, **more: fits.append(1) or fit(self, *args, **more)
    )
    again = evaluate(model, *cancer, cv=3, results_file=file)
    assert len(fits) == 1
    assert [fold["scores"] for fold in again.folds] == [fold["scores"] for fold in whole.folds]


def test_groups_stay_together_in_folds_and_inside_fits():
    X, y = load_breast_cancer(return_X_y=True)
    groups = np.repeat(np.arange(40), 5)
    result = evaluate(SkinnyTreesClassifier(2, **QUICK), X[:200], y[:200], cv=3, groups=groups, scoring="accuracy")
    for kept, held in result.splits:
        assert not set(groups[kept]) & set(groups[held])


def test_numbers_are_evaluated_too():
    X, y = load_diabetes(return_X_y=True)
    result = evaluate(SkinnyTreesRegressor(3, **QUICK), X[:150], y[:150], cv=3)
    assert set(result.scores) == {"r2", "neg_root_mean_squared_error"}
    predicted, _, n_rows = result.calibration(4)
    assert len(predicted) == 4
    assert n_rows.sum() == 150


def test_model_without_a_selection_has_scores_but_no_panels(cancer):
    X, y = cancer
    result = evaluate(LogisticRegression(max_iter=5000), (X - X.mean()) / X.std(), y, cv=2, scoring=["accuracy"])
    assert result.stability is None
    with pytest.raises(ValueError, match="does not say which columns it selects"):
        _ = result.selected


def test_fold_of_one_class_has_no_auc_but_the_others_do():
    X = pd.DataFrame({"a": np.arange(30.0), "b": np.random.default_rng(0).normal(size=30)})
    y = np.array([0, 1] * 15)
    folds = [(np.arange(10, 30), np.arange(0, 10, 2)), (np.arange(20), np.arange(20, 30))]
    result = evaluate(LogisticRegression(), X, y, cv=folds, scoring="roc_auc")
    assert np.isnan(result.scores["roc_auc"].by_fold[0])
    assert np.isfinite(result.scores["roc_auc"].mean)


@pytest.mark.parametrize("scoring", ["auc", ["accuracy", "auc"], {"area": "auc"}])
def test_unknown_score_is_refused_with_the_nearest_name_instead_of_all_names(cancer, scoring):
    with pytest.raises(ValueError, match=r"scoring='auc' is not the name.*Did you mean 'roc_auc'") as caught:
        evaluate(LogisticRegression(), *cancer, scoring=scoring)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("scoring", [3, [], {}])
def test_scoring_without_a_score_is_refused(cancer, scoring):
    with pytest.raises(ValueError, match=r"scoring.* such as 'accuracy'"):
        evaluate(LogisticRegression(), *cancer, scoring=scoring)


def test_interval_of_a_score_stays_in_its_range_where_the_range_is_known():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    X, y = x.reshape(-1, 1), (x + rng.normal(scale=0.3, size=40) > 0).astype(int)
    area = get_scorer("roc_auc")
    scoring = {"area": "roc_auc", "neg_log_loss": "neg_log_loss", "not clipped": lambda *args: area(*args)}
    scores = evaluate(LogisticRegression(C=1e3), X, y, cv=4, scoring=scoring).scores
    assert scores["not clipped"].high > 1, "otherwise this test would not test anything"
    assert scores["area"].high == 1
    assert scores["area"].low == scores["not clipped"].low
    assert scores["neg_log_loss"].high <= 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_known_ranges_of_scores_hold_for_random_predictions():
    rng = np.random.default_rng(0)
    names = [name for name in get_scorer_names() if score_range(name) != ANY_NUMBER and not name.endswith("_samples")]
    assert {"roc_auc", "accuracy", "average_precision", "r2", "neg_log_loss", "f1_macro"} <= set(names)
    X = np.zeros((30, 2))
    for seed in range(5):
        y, target = rng.integers(2, size=30), rng.exponential(size=30)
        classifier = DummyClassifier(strategy="uniform", random_state=seed).fit(X, y)
        regressor = DummyRegressor(strategy="quantile", quantile=0.2 * seed).fit(X, target)
        for name in names:
            model, truth = (regressor, target) if name in REGRESSION_SCORES else (classifier, y)
            low, high = score_range(name)
            assert low <= get_scorer(name)(model, X, truth) <= high, name
