"""Comparison of candidates by the loss and by scorers."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    get_scorer,
    log_loss,
    make_scorer,
    r2_score,
    roc_auc_score,
)

from skinnytrees.losses import Multinomial, Poisson
from skinnytrees.path.comparison import LossComparison, ScoreComparison, _draws, no_worse
from skinnytrees.path.scored_rows import AreaUnderRoc, score_candidate
from skinnytrees.path.scoring import Scorer

to_probability = Multinomial().to_prediction
WORDS = np.array(["cat", "dog", "eel", "fox"])


def classes_and_outputs(n_candidates=4, n_rows=80, n_classes=2, seed=0):
    """Class numbers, and outputs that know more or less about them."""
    rng = np.random.default_rng(seed)
    Y = np.resize(np.arange(n_classes), (n_rows, 1)).astype(float)
    signal = np.linspace(2, 0.5, n_candidates)[:, None, None] * np.eye(n_classes)[Y[:, 0].astype(int)]
    return Y, signal + rng.normal(size=(n_candidates, n_rows, n_classes))


def numbers_and_outputs(n_candidates=4, n_rows=80, n_outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n_rows, n_outputs))
    noise = np.linspace(0.2, 2, n_candidates)[:, None, None]
    return Y, Y + noise * rng.normal(size=(n_candidates, n_rows, n_outputs))


def regression_scorer(scoring, **options):
    return Scorer(scoring, None, lambda raw: raw, **options)


def log_losses(outputs, Y):
    return np.stack([Multinomial().value(Y[:, 0], raw) for raw in outputs])


# ------------------------------------------------------------------------------------------------ losses


def within_noise(losses, weight, tolerance, own):
    """The definition: the mean excess over the best is at most so many standard errors of a weighted mean."""
    mean = np.average(losses, axis=1, weights=weight)
    best = int(np.argmin(mean))
    excess = losses - losses[best]
    fraction = weight / weight.sum()
    noise = np.sqrt(((excess - (excess @ fraction)[:, None]) ** 2) @ fraction**2)
    if own:
        noise = np.maximum(noise, np.sqrt((losses[best] - mean[best]) ** 2 @ fraction**2))
    return excess @ fraction <= tolerance * noise


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 20), st.floats(0, 3), st.booleans())
def test_no_worse_agrees_with_the_formula_on_row_losses(seed, n_candidates, n_rows, tolerance, own):
    rng = np.random.default_rng(seed)
    losses, weight = rng.exponential(size=(n_candidates, n_rows)), rng.uniform(0.1, 2, n_rows)
    expected = within_noise(losses, weight, tolerance, own)
    np.testing.assert_array_equal(no_worse(LossComparison(losses, weight), tolerance, own), expected)


def test_no_worse_agrees_with_the_formula_where_losses_are_equal_or_rows_have_no_weight():
    hard = np.array([0.0, 100, 3, 50])
    losses = np.array([hard + 0.01, hard, hard, hard + 0.02])
    for weight in (np.ones(4), np.array([0.3, 0, 1e-3, 7])):
        for tolerance in (0.0, 1.0, 2.0):
            for own in (False, True):
                mask = no_worse(LossComparison(losses, weight), tolerance, own)
                np.testing.assert_array_equal(mask, within_noise(losses, weight, tolerance, own))


def test_error_of_weighted_mean_loss_is_the_root_of_the_sum_of_squared_contributions():
    rng = np.random.default_rng(0)
    losses, weight = rng.exponential(size=(5, 30)), rng.uniform(0, 2, 30)
    contributions = weight / weight.sum() * (losses - np.average(losses, axis=1, weights=weight)[:, None])
    np.testing.assert_allclose(LossComparison(losses, weight).error(), np.linalg.norm(contributions, axis=1))


def test_error_of_mean_loss_is_the_textbook_formula_where_weights_are_equal():
    losses = np.random.default_rng(0).normal(size=(3, 50))
    comparison = LossComparison(losses, np.full(50, 2.5))
    np.testing.assert_allclose(comparison.error(), losses.std(axis=1) / 50**0.5)
    paired = (losses - losses[1]).std(axis=1) / 50**0.5
    np.testing.assert_allclose(comparison.error_of_difference(to=1), paired)
    np.testing.assert_allclose(comparison.difference(to=1), losses.mean(axis=1) - losses[1].mean())


# ------------------------------------------------------------------------------------------------ scores on all rows


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("scoring", "n_classes", "score"),
    [
        ("roc_auc", 2, lambda y, P, w: roc_auc_score(y, P[:, 1], sample_weight=w)),
        ("neg_log_loss", 2, lambda y, P, w: -log_loss(y, P, sample_weight=w)),
        ("neg_log_loss", 4, lambda y, P, w: -log_loss(y, P, sample_weight=w)),
        ("accuracy", 4, lambda y, P, w: accuracy_score(y, WORDS[P.argmax(axis=1)], sample_weight=w)),
        ("f1_macro", 4, lambda y, P, w: f1_score(y, WORDS[P.argmax(axis=1)], average="macro", sample_weight=w)),
        ("roc_auc_ovr", 4, lambda y, P, w: roc_auc_score(y, P, multi_class="ovr", sample_weight=w)),
        ("roc_auc_ovo", 4, lambda y, P, w: roc_auc_score(y, P, multi_class="ovo")),  # takes no weights
        (
            make_scorer(f1_score, pos_label="cat"), 2,
            lambda y, P, w: f1_score(y, WORDS[P.argmax(axis=1)], pos_label="cat", sample_weight=w),
        ),
    ],
)  # fmt: skip
def test_mean_is_minus_the_metric_of_labels_and_probabilities(scoring, n_classes, score, weighted):
    Y, outputs = classes_and_outputs(n_classes=n_classes)
    weight = np.random.default_rng(1).uniform(0.1, 3, len(Y)) if weighted else np.ones(len(Y))
    scorer = Scorer(scoring, WORDS[:n_classes], to_probability)
    comparison = ScoreComparison.learn(scorer, outputs, Y, weight, n_draws=0)
    labels = WORDS[Y[:, 0].astype(int)]
    expected = [-score(labels, to_probability(raw), weight if weighted else None) for raw in outputs]
    np.testing.assert_allclose(comparison.mean, expected)
    np.testing.assert_allclose(score_candidate(scorer, outputs[0], Y, weight), -expected[0])


@pytest.mark.parametrize(
    "scoring", ["f1", "average_precision", "precision", "jaccard", "neg_brier_score", "top_k_accuracy"]
)
def test_scorers_with_a_positive_class_read_numbered_labels(scoring):
    Y, outputs = classes_and_outputs()
    comparison = ScoreComparison.learn(
        Scorer(scoring, np.arange(2), to_probability), outputs, Y, np.ones(80), n_draws=10
    )
    assert comparison.mean[0] < comparison.mean[-1] or scoring == "top_k_accuracy"  # which is 1 for two classes
    assert np.isfinite(comparison.error()).all()


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error", "neg_max_error", "neg_median_absolute_error"])
def test_regression_scorers_see_numbers_on_the_scale_of_the_target(scoring):
    Y, outputs = numbers_and_outputs()
    scorer = Scorer(scoring, None, lambda raw: 10 * raw + 3)
    comparison = ScoreComparison.learn(scorer, outputs, 10 * Y + 3, np.ones(len(Y)), n_draws=10)
    metric = get_scorer(scoring)
    expected = [-metric._sign * metric._score_func(10 * Y[:, 0] + 3, 10 * raw[:, 0] + 3) for raw in outputs]
    np.testing.assert_allclose(comparison.mean, expected)


def test_several_targets_reach_the_scorer_as_columns():
    Y, outputs = numbers_and_outputs(n_outputs=3)
    scorer = regression_scorer(make_scorer(r2_score, multioutput="uniform_average"), multi_output=True)
    comparison = ScoreComparison.learn(scorer, outputs, Y, np.ones(len(Y)), n_draws=0)
    np.testing.assert_allclose(comparison.mean, [-r2_score(Y, raw) for raw in outputs])


@pytest.mark.parametrize(("multi_output", "n_dimensions"), [(False, 1), (True, 2)])
def test_one_target_is_a_column_only_for_multi_output(multi_output, n_dimensions):
    Y, outputs = numbers_and_outputs()

    def scorer(estimator, X, y):
        assert is_regressor(estimator)
        assert y.ndim == estimator.predict(X).ndim == n_dimensions
        return 0.0

    assert score_candidate(regression_scorer(scorer, multi_output=multi_output), outputs[0], Y) == 0


def test_callable_sees_a_fitted_classifier():
    Y, outputs = classes_and_outputs(n_classes=3)

    def scorer(estimator, X, y):
        assert is_classifier(estimator)
        np.testing.assert_array_equal(estimator.classes_, WORDS[:3])
        np.testing.assert_allclose(estimator.predict_proba(X).sum(axis=1), 1)
        np.testing.assert_array_equal(WORDS[estimator.decision_function(X).argmax(axis=1)], estimator.predict(X))
        assert estimator.score(X[:5], y[:5]) == np.mean(estimator.predict(X[:5]) == y[:5])
        return estimator.score(X, y)

    expected = np.mean(outputs[1].argmax(axis=1) == Y[:, 0])
    assert score_candidate(Scorer(scorer, WORDS[:3], to_probability), outputs[1], Y) == pytest.approx(expected)


def test_rows_without_weight_have_no_say():
    Y, outputs = classes_and_outputs()
    weight = np.repeat([1.0, 0.0], [50, 30])

    def scorer(estimator, X, y):
        return estimator.score(X, y)

    everything, kept = (
        ScoreComparison.learn(Scorer(scorer, WORDS[:2], to_probability), outputs[:, :n], Y[:n], weight[:n])
        for n in (80, 50)
    )
    np.testing.assert_array_equal(everything.mean, kept.mean)
    np.testing.assert_array_equal(everything.drawn, kept.drawn)


def test_equal_weights_are_not_passed_and_others_are():
    Y, outputs = numbers_and_outputs()
    given = []

    def scorer(estimator, X, y, sample_weight=None):
        given.append(sample_weight)
        return 0.0

    ScoreComparison.learn(regression_scorer(scorer), outputs, Y, np.full(80, 0.7), n_draws=3)
    assert all(weight is None for weight in given)
    given.clear()
    weight = np.arange(1.0, 81)
    ScoreComparison.learn(regression_scorer(scorer), outputs, Y, weight, n_draws=3)
    assert all(one is not None and len(one) == 80 for one in given)
    np.testing.assert_array_equal(given[0], weight)


# ------------------------------------------------------------------------------------------------ bootstrap


@pytest.mark.parametrize("weighted", [False, True])
def test_bootstrap_error_of_a_mean_is_that_of_its_formula(weighted):
    """Log-loss is a mean over rows, so there is a formula for its errors; 1,000 draws know it to a few per cent."""
    Y, outputs = classes_and_outputs(n_rows=200)
    weight = np.random.default_rng(1).uniform(0.5, 2, 200) if weighted else np.ones(200)
    by_loss = LossComparison(log_losses(outputs, Y), weight)

    def scorer(estimator, X, y, sample_weight=None):  # as "neg_log_loss", but fast
        P = estimator.predict_proba(X)
        return np.average(np.log(P[np.arange(len(y)), y]), weights=sample_weight)

    by_score = ScoreComparison.learn(Scorer(scorer, np.arange(2), to_probability), outputs, Y, weight, n_draws=1000)
    np.testing.assert_allclose(by_score.mean, by_loss.mean)
    np.testing.assert_allclose(by_score.difference(2), by_loss.difference(2))
    np.testing.assert_allclose(by_score.error(), by_loss.error(), rtol=0.1)
    np.testing.assert_allclose(by_score.error_of_difference(2), by_loss.error_of_difference(2), rtol=0.1)


def test_error_of_difference_is_paired():
    """Two candidates that hardly differ: their difference is far surer than either score."""
    Y, outputs = classes_and_outputs(n_candidates=1, n_rows=200)
    outputs = np.concatenate([outputs, outputs + 0.1 * np.random.default_rng(1).normal(size=outputs.shape)])
    comparison = ScoreComparison.learn(Scorer("roc_auc", WORDS[:2], to_probability), outputs, Y, np.ones(200))
    assert comparison.error_of_difference(0)[0] == 0
    assert 0 < comparison.error_of_difference(0)[1] < comparison.error().min() / 2


def test_same_candidates_give_the_same_comparison_again():
    Y, outputs = classes_and_outputs()
    scorer = Scorer("accuracy", WORDS[:2], to_probability)
    first, second = (ScoreComparison.learn(scorer, outputs, Y, np.ones(80), n_draws=20) for _ in range(2))
    np.testing.assert_array_equal(first.drawn, second.drawn)
    alone = ScoreComparison.learn(scorer, outputs[[1]], Y, np.ones(80), n_draws=20)
    np.testing.assert_array_equal(first.take([1]).drawn, alone.drawn)
    np.testing.assert_array_equal(first.take([1]).mean, alone.mean)


@given(st.integers(0, 10**6), st.integers(2, 40), st.booleans())
def test_area_by_sorted_values_is_that_of_scikit_learn_on_repeated_rows(seed, n_rows, weighted):
    rng = np.random.default_rng(seed)
    value, positive = rng.integers(6, size=n_rows) / 2.0, rng.integers(2, size=n_rows).astype(bool)
    positive[:2] = [True, False]
    weight = rng.uniform(0.1, 2, n_rows) if weighted else np.ones(n_rows)
    for draw in _draws(n_rows, positive, 3):
        rows = np.repeat(np.arange(n_rows), draw)
        expected = roc_auc_score(positive[rows], value[rows], sample_weight=weight[rows])
        assert AreaUnderRoc(value, positive).area(weight * draw) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("scoring", "n_classes"), [("roc_auc", 2), ("roc_auc_ovr", 4)])
def test_draws_of_the_named_area_agree_with_the_same_scorer_given_as_a_callable(scoring, n_classes, weighted):
    Y, outputs = classes_and_outputs(n_classes=n_classes)
    weight = np.random.default_rng(1).uniform(0.1, 3, len(Y)) if weighted else np.ones(len(Y))
    named, called = (
        ScoreComparison.learn(Scorer(one, WORDS[:n_classes], to_probability), outputs, Y, weight, n_draws=12)
        for one in (scoring, get_scorer(scoring))
    )
    np.testing.assert_array_equal(named.mean, called.mean)
    np.testing.assert_allclose(named.drawn, called.drawn, atol=1e-12)


@pytest.mark.parametrize("scoring", ["roc_auc_ovr", "neg_log_loss", "roc_auc_ovo"])
def test_rare_classes_are_in_every_draw(scoring):
    """Of four classes, three have one row each: drawn freely, 74 % of the draws would miss one and be refused."""
    rng = np.random.default_rng(0)
    Y = np.r_[np.zeros(30), 1, 2, 3].reshape(-1, 1)
    scorer = Scorer(scoring, WORDS, to_probability)
    comparison = ScoreComparison.learn(scorer, rng.normal(size=(2, 33, 4)), Y, np.ones(33), n_draws=20)
    assert len(comparison.drawn) == 20


def test_draws_are_of_as_many_rows_but_for_classes_that_would_be_missing():
    labels = np.r_[np.zeros(20), 1]
    draws = np.array(list(_draws(21, labels, 200)))
    assert (draws[:, 20] > 0).all()
    assert set(draws.sum(axis=1)) == {21, 22}
    assert (np.array(list(_draws(21, None, 50))).sum(axis=1) == 21).all()


def refusing(n_allowed, how):
    """A scorer that refuses all draws after so many; on all rows in order it does not."""
    n_calls = 0

    def scorer(estimator, X, y):
        nonlocal n_calls
        if not np.array_equal(X[:, 0], np.arange(len(X))):
            n_calls += 1
            if n_calls > n_allowed:
                warnings.warn("ill-defined", stacklevel=1)
                return how()
        return r2_score(y, estimator.predict(X))

    return scorer


def raise_error():
    raise ValueError("no such rows")


@pytest.mark.parametrize("how", [raise_error, lambda: np.nan])
def test_draw_that_one_candidate_cannot_be_scored_on_is_left_out_for_all(how):
    Y, outputs = numbers_and_outputs(n_candidates=3)
    comparison = ScoreComparison.learn(
        regression_scorer(refusing(3 * 15 + 2, how)), outputs, Y, np.ones(80), n_draws=20
    )
    assert comparison.drawn.shape == (15, 3)
    whole = ScoreComparison.learn(regression_scorer("r2"), outputs, Y, np.ones(80), n_draws=15)
    np.testing.assert_allclose(comparison.drawn, whole.drawn)


@pytest.mark.parametrize("own", [False, True])
def test_nothing_is_clearly_worse_where_hardly_a_draw_can_be_scored(own):
    Y, outputs = numbers_and_outputs(n_candidates=3)
    comparison = ScoreComparison.learn(regression_scorer(refusing(27, raise_error)), outputs, Y, np.ones(80))
    assert len(comparison.drawn) == 9
    assert np.isfinite(comparison.error()).all()
    assert comparison.error_of_difference(1)[1] == 0
    assert no_worse(comparison, 1.0, own).all()
    assert no_worse(comparison, 1e9, own).all()
    assert no_worse(comparison, 0.0, own).tolist() == [True, False, False]


def test_clearly_worse_candidate_is_told_from_one_within_noise():
    Y, outputs = classes_and_outputs(n_candidates=1, n_rows=200)
    near = outputs + 0.3 * np.random.default_rng(1).normal(size=outputs.shape)
    comparison = ScoreComparison.learn(
        Scorer("roc_auc", WORDS[:2], to_probability), np.concatenate([near, outputs, -outputs]), Y, np.ones(200)
    )
    assert no_worse(comparison, 2.0).tolist() == [True, True, False]


def test_candidate_whose_predictions_are_not_finite_is_never_among_the_best():
    Y = np.random.default_rng(0).poisson(3, size=(40, 1)).astype(float)
    outputs = np.log(np.stack([Y + 0.5, Y + 1, Y + 0.6]))
    outputs[1] = 1000  # whose exponential is infinite
    scorer = Scorer("neg_mean_poisson_deviance", None, Poisson().to_prediction)
    comparison = ScoreComparison.learn(scorer, outputs, Y, np.ones(40), n_draws=20)
    assert comparison.mean[1] == np.inf
    assert not no_worse(comparison, 1e6, own=True)[1]
    assert np.isfinite(comparison.error()).all()
    none = ScoreComparison.learn(scorer, outputs[[1, 1]], Y, np.ones(40), n_draws=20)
    assert no_worse(none, 1.0).all()


def test_draws_are_scored_by_area_without_a_call_of_the_slow_scorer_for_each(monkeypatch):
    Y, outputs = classes_and_outputs(n_candidates=30, n_rows=200)
    calls, call = [], Scorer.call
    monkeypatch.setattr(Scorer, "call", lambda *given: calls.append(1) or call(*given))
    ScoreComparison.learn(Scorer("roc_auc", WORDS[:2], to_probability), outputs, Y, np.ones(200), n_draws=100)
    assert len(calls) <= 2 * 30, "a few calls per candidate, none per draw"


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("roc_acu", "'roc_auc'"),
        ("AUC", "'roc_auc'"),
        ("log_loss", "'neg_log_loss'"),
        ("f1macro", "'f1_macro'"),
        ("?", "'roc_auc'"),
    ],
)
def test_unknown_name_is_refused_with_the_nearest_names(name, nearest):
    with pytest.raises(
        ValueError,
        match=rf"scoring='{name if name != '?' else '[?]'}' is not the name.* (Did you mean|Use) .*{nearest}",
    ):
        Scorer(name, WORDS[:2], to_probability)


@pytest.mark.parametrize(
    ("scoring", "n_classes", "message"),
    [
        (
            "roc_auc",
            3,
            r"scoring='roc_auc' cannot score predictions of 3 classes on 80 held-out rows: multi_class must.*'roc_auc_ovr'",
        ),
        # scikit-learn names the number of classes or pos_label first, depending on its version.
        ("f1", 3, r"scoring='f1' .* 3 classes .*(multiclass|pos_label).*'f1_macro'"),
        ("f1", 2, r"pos_label=1 is not a valid label.*make_scorer.*scoring=None"),
        (roc_auc_score, 2, r"roc_auc_score.*make_scorer.*scorer\(estimator, X, y\)"),
        (lambda estimator, X, y: {"a": 1.0}, 2, "dict.*returns a number"),
        (lambda estimator, X, y: 1 / 0, 2, "division by zero"),
    ],
)
def test_scorer_that_refuses_the_rows_is_named_with_its_reason_and_an_alternative(scoring, n_classes, message):
    Y, outputs = classes_and_outputs(n_classes=n_classes)
    with pytest.raises(ValueError, match=message):
        ScoreComparison.learn(Scorer(scoring, WORDS[:n_classes], to_probability), outputs, Y, np.ones(80))


@pytest.mark.parametrize("scoring", ["roc_auc", get_scorer("roc_auc")])
def test_score_that_is_undefined_on_all_rows_is_refused(scoring):
    """Older versions of scikit-learn raise an error where newer ones give NaN and a warning."""
    _, outputs = classes_and_outputs()
    with pytest.raises(ValueError, match=r"cannot score predictions of 2 classes on 80 held-out rows: .*nly one class"):
        ScoreComparison.learn(Scorer(scoring, WORDS[:2], to_probability), outputs, np.zeros((80, 1)), np.ones(80))
    with pytest.raises(ValueError, match="it gives nan"):
        score_candidate(regression_scorer(lambda estimator, X, y: np.nan), np.zeros((3, 1)), np.zeros((3, 1)))
