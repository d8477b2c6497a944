"""The warning where the final model explains nothing on rows it has not seen; and what ``scoring`` changes."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import make_scorer, mean_absolute_error

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.exceptions import NothingLearnedWarning, SelectionWarning
from skinnytrees.path.evidence import Judge
from skinnytrees.penalties import GroupL0

from .helpers import QUICK

ESTIMATORS = pytest.mark.parametrize("estimator", [SkinnyTreesClassifier, SkinnyTreesRegressor])
EVIDENCE = pytest.mark.parametrize(
    "evidence", [{}, {"validation_fraction": 0.3}, {"validation_fraction": 0.3, "refit": False}, {"cv": 3}],
    ids=["default", "fraction", "not refitted", "folds"],
)  # fmt: skip


def table(estimator, signal):
    """With seed 7, what is learned from noise is worse than a constant on all ways to hold rows out, as in most draws."""
    rng = np.random.default_rng(7)
    X, noise = rng.normal(size=(90, 4)), rng.normal(size=90)
    y = X[:, 0] if signal else noise
    return X, (y > 0).astype(int) if estimator is SkinnyTreesClassifier else y


@ESTIMATORS
@EVIDENCE
def test_noise_is_said_to_be_noise_where_the_user_called_fit(estimator, evidence):
    with pytest.warns(
        NothingLearnedWarning, match=r"no better than a constant prediction\..*Check the target"
    ) as caught:
        estimator(**evidence, **QUICK).fit(*table(estimator, signal=False))
    assert [one.filename for one in caught] == [__file__]


@ESTIMATORS
@EVIDENCE
def test_clear_signal_brings_no_warning(estimator, evidence):
    settings = {**QUICK, "max_epochs": 10}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator(**evidence, **settings).fit(*table(estimator, signal=True))


@pytest.mark.parametrize("parameters", [{"validation_fraction": None}, {"penalty": GroupL0(0.1)}, {"penalty": None}])
def test_nothing_is_said_where_no_rows_judge_the_final_model(parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("error", NothingLearnedWarning)
        warnings.simplefilter("ignore", SelectionWarning)
        SkinnyTreesRegressor(**parameters, **QUICK).fit(*table(SkinnyTreesRegressor, signal=False))


# ------------------------------------------------------------------------------------------------ scoring


def absolute_error(estimator, X, y):
    return -np.abs(estimator.predict(X) - y).mean()


@pytest.mark.parametrize(
    ("estimator", "scoring"),
    [(SkinnyTreesClassifier, "roc_auc"), (SkinnyTreesRegressor, "r2"), (SkinnyTreesRegressor, absolute_error),
     (SkinnyTreesRegressor, make_scorer(mean_absolute_error, greater_is_better=False))],
    ids=["roc_auc", "r2", "function", "scorer"],
)  # fmt: skip
@pytest.mark.parametrize("evidence", [{"cv": 3}, {"validation_fraction": 0.3}], ids=["folds", "fraction"])
def test_scoring_is_what_sizes_and_final_ensembles_are_compared_by(estimator, scoring, evidence, monkeypatch):
    compared, compare = [], Judge.compare
    monkeypatch.setattr(
        Judge, "compare", lambda judge, evidence: compared.append(compare(judge, evidence)) or compared[-1]
    )
    X, y = table(estimator, signal=True)
    model = estimator(scoring=scoring, **evidence, **QUICK).fit(X, y)
    assert len(compared) >= 2, "sizes, and final ensembles"
    assert {type(one).__name__ for one in compared} == {"ScoreComparison"}
    best_possible = {"roc_auc": -1, "r2": -1}.get(scoring, 0) if isinstance(scoring, str) else 0
    assert all((one.mean >= best_possible).all() for one in compared)
    assert np.isfinite(model.path_.val_score).all()


def test_chosen_size_follows_the_scorer():
    """Ensembles on more columns of the target's sum spread more: one scorer likes that, one does not."""
    X, _ = table(SkinnyTreesRegressor, signal=True)

    def spread(estimator, X, y):
        return estimator.predict(X).std()

    def no_spread(estimator, X, y):
        return -estimator.predict(X).std()

    def fitted(scoring):
        model = SkinnyTreesRegressor(validation_fraction=0.3, scoring=scoring, **QUICK)
        return model.fit(X, X[:, :3].sum(axis=1))

    assert fitted(spread).n_features_selected_ >= 3
    with pytest.warns(NothingLearnedWarning):  # nothing spreads less than a constant
        assert fitted(no_spread).n_features_selected_ == 1


@ESTIMATORS
@pytest.mark.parametrize(
    ("scoring", "words"), [("roc_acu", "Did you mean 'roc_auc'"), ("no such score at all", "Use '")]
)
def test_unknown_name_of_a_score_is_refused_with_known_ones(estimator, scoring, words):
    X, y = table(estimator, signal=True)
    with pytest.raises(ValueError, match=rf"scoring='{scoring}' is not the name of a scikit-learn scorer.*({words})"):
        estimator(scoring=scoring, **QUICK).fit(X, y)


def test_score_of_another_task_is_refused_with_advice():
    X, y = table(SkinnyTreesRegressor, signal=True)
    with pytest.raises(ValueError, match=r"scoring='roc_auc' cannot score predictions of numbers .*Use scoring='r2'"):
        SkinnyTreesRegressor(scoring="roc_auc", **QUICK).fit(X, y)
