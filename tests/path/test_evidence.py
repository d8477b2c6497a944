"""Evidence: what ensembles say about held-out rows or in folds, how a judge compares them, and the scores that follow."""

import numpy as np
import pytest
from reference import random_data
from scipy.special import expit, log_softmax
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, ShuffleSplit

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.estimators import base
from skinnytrees.losses import Multinomial, Quantile, SquaredError, TargetScale, UserLoss
from skinnytrees.path.comparison import LossComparison, ScoreComparison
from skinnytrees.path.evidence import Evidence, Judge
from skinnytrees.path.rules import replace_rule
from skinnytrees.path.scoring import Scorer
from skinnytrees.path.walk import Walk

from .helpers import (
    BOTH_PHASES,
    PRUNING,
    QUICK,
    SCREENING,
    make_inputs,
    make_judge,
    make_trainer,
    random_problem,
    with_rules,
)

# ------------------------------------------------------------------------------------------------ folds


@BOTH_PHASES
def test_folds_choose_the_size_and_all_rows_train_the_model(rules):
    X, y = random_problem(3, 6, n_rows=90)
    y = X[:, 0] - X[:, 4]
    model = with_rules(SkinnyTreesRegressor, rules)(3, cv=3, random_state=0).fit(X, y)
    assert model.n_features_selected_ <= 3
    assert {0, 4} <= set(model.get_support(indices=True))
    assert np.isfinite(model.path_.val_score).all()
    assert model.path_.val_score[model.path_.chosen_index] > 0.5
    of_value = np.append(True, np.diff(model.model_.encoder.feature) > 0)
    np.testing.assert_allclose(model.model_.encoder.mean[of_value], X[:, model.support_].mean(axis=0), atol=1e-12)


@BOTH_PHASES
@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_few_rows_are_each_held_out_once_and_all_train_the_model(rules, monkeypatch):
    X, y = random_problem(3, 4, n_rows=53)
    splits, fit_path = [], base.fit_path
    monkeypatch.setattr(
        base, "fit_path", lambda problem, split, *more: splits.append(split) or fit_path(problem, split, *more)
    )
    model = with_rules(SkinnyTreesRegressor, rules)(3, **QUICK).fit(X, y)
    (split,) = splits
    assert split.held_out is None
    assert len(split.folds) == rules.evidence.n_folds
    for rows in (split.training, split.everything):
        np.testing.assert_array_equal(np.sort(rows.Y[:, 0]), np.sort(y))
    np.testing.assert_array_equal(np.sort(np.concatenate([held.Y[:, 0] for _, held in split.folds])), np.sort(y))
    for kept, held in split.folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([kept.Y[:, 0], held.Y[:, 0]])), np.sort(y))
    assert np.isfinite(model.path_.val_score).all()
    assert np.isfinite(model.path_.val_score_se).all()


@pytest.mark.parametrize(
    ("below", "fraction", "expected"), [(61, "auto", 5), (60, "auto", 0), (61, 0.3, 0), (61, None, 0)]
)
@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_rules_say_below_how_many_rows_folds_judge_unless_the_user_does(below, fraction, expected, monkeypatch):
    X, y = random_problem(0, 3, n_rows=60)
    splits, fit_path = [], base.fit_path
    monkeypatch.setattr(
        base, "fit_path", lambda problem, split, *more: splits.append(split) or fit_path(problem, split, *more)
    )
    rules = replace_rule(SCREENING, "evidence.folds_below_rows", below)
    model = with_rules(SkinnyTreesRegressor, rules)(2, validation_fraction=fraction, **QUICK).fit(X, y)
    assert len(splits[0].folds) == expected
    assert np.isfinite(model.path_.val_score).all() == (fraction is not None)
    if not expected:
        n_held = {"auto": 12, 0.3: 18, None: 0}[fraction]
        assert len(splits[0].training.Y) == 60 - n_held


def test_folds_of_classes_are_stratified():
    """Sorted labels: plain folds would leave whole classes out."""
    X, y = load_wine(return_X_y=True)
    model = SkinnyTreesClassifier(4, cv=3, max_epochs=3, random_state=0).fit(X, y)
    assert model.n_features_selected_ <= 4
    assert model.path_.val_score.max() > 0.7


def test_folds_given_as_rows_are_those_of_the_users_table():
    X, y = random_problem(4, 5, n_rows=60)
    folds = list(KFold(3).split(X))
    shuffled = np.random.default_rng(0).permutation(60)
    place = np.argsort(shuffled)
    moved = [tuple(place[part] for part in fold) for fold in folds]
    model = SkinnyTreesRegressor(3, cv=folds, **QUICK).fit(X, y)
    other = SkinnyTreesRegressor(3, cv=moved, **QUICK).fit(X[shuffled], y[shuffled])
    np.testing.assert_allclose(model.path_.val_score, other.path_.val_score, rtol=1e-6)


def test_folds_that_hold_out_some_rows_only_or_twice():
    X, y = random_problem(5, 5, n_rows=80)
    model = SkinnyTreesRegressor(3, cv=ShuffleSplit(2, test_size=0.3, random_state=0), **QUICK).fit(X, y)
    assert np.isfinite(model.path_.val_score).all()
    assert np.isfinite(model.path_.val_score_se).all()


@pytest.mark.parametrize(("needs_rows", "n_branches"), [(60, 2), (61, 1)])
def test_folds_are_walked_in_the_phases_of_all_rows(needs_rows, n_branches, monkeypatch):
    """Rows of a fold are fewer than pruning needs, or all are."""
    X, y = random_problem(0, 4, n_rows=60)
    rules = replace_rule(PRUNING, "pruning.needs_rows", needs_rows)
    walks, go = [], Walk.go
    monkeypatch.setattr(Walk, "go", lambda walk, rng: walks.append(walk) or go(walk, rng))
    model = with_rules(SkinnyTreesRegressor, rules)(2, cv=3, **QUICK).fit(X, y)
    assert [len(walk.branches) for walk in walks] == 4 * [n_branches]
    assert np.isfinite(model.path_.val_score).all()


def test_walk_that_a_callback_stops_before_it_branches_is_judged_by_folds():
    X, y = random_problem(0, 4, n_rows=60)
    stopped = with_rules(SkinnyTreesRegressor, PRUNING)(cv=3, callbacks=[lambda report: True], **QUICK).fit(X, y)
    assert stopped.path_.n_features.tolist() == [4]
    assert np.isfinite(stopped.path_.val_score).all()


# ------------------------------------------------------------------------------------------------ evidence


def test_joined_evidence_has_the_rows_of_all_folds_for_every_ensemble():
    rng = np.random.default_rng(0)
    parts = [
        Evidence(rng.random((3, n, 2), dtype=np.float32), rng.random((n, 1), dtype=np.float32), rng.random(n))
        for n in (4, 5)
    ]
    joined = Evidence.join(parts)
    assert joined.outputs.shape == (3, 9, 2)
    for i in range(3):
        np.testing.assert_array_equal(joined.outputs[i, :4], parts[0].outputs[i])
        np.testing.assert_array_equal(joined.outputs[i, 4:], parts[1].outputs[i])
    np.testing.assert_array_equal(joined.Y[4:], parts[1].Y)
    np.testing.assert_array_equal(joined.weight[:4], parts[0].weight)


def test_evidence_of_some_ensembles_is_in_the_order_asked_for_with_all_rows():
    rng = np.random.default_rng(0)
    evidence = Evidence(rng.random((3, 4, 1), dtype=np.float32), np.zeros((4, 1), np.float32), np.ones(4))
    taken = evidence.take([2, 0])
    np.testing.assert_array_equal(taken.outputs, evidence.outputs[[2, 0]])
    np.testing.assert_array_equal(taken.Y, evidence.Y)
    assert evidence.take([]).outputs.shape == (0, 4, 1)
    assert evidence.take(range(2)).outputs.shape == (2, 4, 1)


# ------------------------------------------------------------------------------------------------ judge


def sure_and_cautious(n_rows=400):
    """Of two classes: an ensemble that ranks rows well and is far too sure, and one that says little and ranks worse."""
    rng = np.random.default_rng(0)
    z, noise = 1.5 * rng.normal(size=(2, n_rows))
    Y = (rng.random(n_rows) < expit(z)).astype(np.float32)
    margins = np.stack([5 * z, 0.3 * (z + noise)])
    return Evidence(np.stack([0 * margins, margins], axis=2).astype(np.float32), Y[:, None], np.ones(n_rows))


def test_calibrated_comparison_prefers_the_better_ranker_though_it_is_too_sure():
    evidence, judge = sure_and_cautious(), make_judge(Multinomial(), 2)
    as_they_are = [judge.trainer.losses_of(output, evidence.Y).mean() for output in evidence.outputs]
    assert as_they_are[0] > as_they_are[1]
    compared = judge.compare(evidence)
    assert isinstance(compared, LossComparison)
    assert compared.mean[0] < compared.mean[1]
    assert compared.difference(0)[1] > compared.error_of_difference(0)[1]


def test_factor_of_an_ensemble_that_is_five_times_too_sure_is_a_fifth():
    evidence, judge = sure_and_cautious(20_000), make_judge(Multinomial(), 2)
    assert judge.factor(evidence, 0) == pytest.approx(1 / 5, rel=0.05)
    np.testing.assert_allclose(
        judge.calibrated(evidence)[0], judge.factor(evidence, 0) * evidence.outputs[0], rtol=1e-5
    )


@pytest.mark.parametrize("loss", [SquaredError(), Quantile(level=0.5)])
def test_regression_outputs_are_calibrated_around_the_target_scales_centre(loss):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(5000, 1)).astype(np.float32)
    evidence = Evidence(2 * z[None], z, np.ones(5000))
    assert make_judge(loss).factor(evidence, 0) == pytest.approx(0.5, rel=0.02)


class HalfSquares:
    def value(self, y, raw):
        return 0.5 * (raw - y) ** 2

    def gradient(self, y, raw):
        return raw - y


def test_users_own_loss_is_never_calibrated():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(50, 1)).astype(np.float32)
    evidence, judge = Evidence(3 * Y[None], Y, np.ones(50)), make_judge(UserLoss(HalfSquares()))
    assert judge.factor(evidence, 0) == 1
    np.testing.assert_array_equal(judge.calibrated(evidence), evidence.outputs)
    np.testing.assert_allclose(judge.compare(evidence).mean, [0.5 * np.mean((2 * Y) ** 2)], rtol=1e-5)


def test_rows_without_weight_have_no_say_in_the_factor_and_the_comparison():
    evidence, judge = sure_and_cautious(), make_judge(Multinomial(), 2)
    weight = np.where(np.arange(400) < 300, 2.0, 0.0)
    some = Evidence(evidence.outputs[:, :300], evidence.Y[:300], np.ones(300))
    weighted = evidence._replace(weight=weight)
    assert judge.factor(weighted, 0) == pytest.approx(judge.factor(some, 0), rel=0.01)
    np.testing.assert_allclose(judge.compare(weighted).mean, judge.compare(some).mean, rtol=1e-4)


def test_judge_with_a_scorer_sees_outputs_in_the_unit_of_the_target():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(60, 1)).astype(np.float32)
    outputs = np.stack([Y, Y + rng.normal(size=Y.shape)]).astype(np.float32)
    scale = TargetScale(
        shift=np.array([7.0]), scale=np.array([3.0]), raw_shift=np.array([7.0]), raw_scale=np.array([3.0])
    )
    seen = []

    def scorer(estimator, X, y):
        seen.append((estimator.predict(X), y))
        return -np.abs(estimator.predict(X) - y).mean()

    judge = Judge(make_trainer(), scale, Scorer(scorer, None, SquaredError().to_prediction))
    compared = judge.compare(Evidence(outputs, Y, np.ones(60)))
    assert isinstance(compared, ScoreComparison)
    np.testing.assert_allclose(seen[0][1], 3 * Y[:, 0] + 7, rtol=1e-5)
    np.testing.assert_allclose(seen[0][0], seen[0][1], atol=0.1)
    assert compared.mean[0] < compared.mean[1]


def test_ranking_is_that_of_the_loss():
    evidence, judge = sure_and_cautious(), make_judge(Multinomial(), 2)
    assert judge.ranking(evidence, 0) > judge.ranking(evidence, 1)


# ------------------------------------------------------------------------------------------------ scores


def calibrated_log_loss(raw, y):
    """The least log-loss over factors of the raw outputs, by trying them, and the loss of every row there."""
    grid = np.exp(np.linspace(np.log(0.1), np.log(3), 2000))
    rows = [-log_softmax(factor * raw, axis=1)[np.arange(len(y)), y] for factor in grid]
    best = np.argmin([one.sum() + np.log(factor) ** 2 for one, factor in zip(rows, grid, strict=True)])
    return rows[best]


def test_scores_of_the_path_follow_from_the_calibrated_losses_on_the_given_rows():
    X, y = load_wine(return_X_y=True)
    held = np.arange(len(y)) % 3 == 0
    model = SkinnyTreesClassifier(5, random_state=0, max_epochs=3).fit(X[~held], y[~held], X_val=X[held], y_val=y[held])
    rows = np.array([calibrated_log_loss(inside.raw(X[held]), y[held]) for inside in model.path_.models])
    frequencies = np.bincount(y[held]) / held.sum()
    constant = log_loss(y[held], np.tile(frequencies, (held.sum(), 1)))
    np.testing.assert_allclose(model.path_.val_score, 1 - rows.mean(axis=1) / constant, atol=2e-3)
    error = np.std(rows, axis=1) / np.sqrt(held.sum())
    np.testing.assert_allclose(model.path_.val_score_se, error / constant, rtol=0.05)


def test_score_is_the_fraction_of_the_variance_that_is_explained():
    rng = np.random.default_rng(0)
    data = random_data(SquaredError(), 50, 3, 1, rng, np.float32)
    weight = data.weight.astype(float)
    trainer = make_inputs(data).trainer
    perfect, constant = trainer.reference_losses(data.Y, weight)
    mean = np.average(data.Y[:, 0], weights=weight)
    of_constant = trainer.loss.value(data.Y[:, 0], np.full(50, mean))
    assert perfect == 0
    assert constant == pytest.approx(np.average(of_constant, weights=weight), rel=1e-5)
    outputs = np.stack([np.full_like(data.Y, mean), data.Y])
    score, error = make_judge().scores(Evidence(outputs, data.Y, weight))
    np.testing.assert_allclose(score, [0, 1], atol=1e-3)
    assert error[0] > error[1]


def test_scores_are_of_the_loss_whatever_the_scorer():
    evidence = sure_and_cautious()
    scorer = Scorer("roc_auc", np.array([0, 1]), Multinomial().to_prediction)
    plain, scored = make_judge(Multinomial(), 2), make_judge(Multinomial(), 2, scorer)
    np.testing.assert_array_equal(plain.scores(evidence), scored.scores(evidence))


def test_validation_rows_together_with_folds_are_refused():
    X, y = random_problem(0, 3, n_rows=40)
    with pytest.raises(ValueError, match=r"X_val was given, and cv=3\. .*leave the other out"):
        SkinnyTreesRegressor(2, cv=3, **QUICK).fit(X, y, X_val=X, y_val=y)
