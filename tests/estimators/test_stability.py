"""Stability selection: frequencies, the error bound, the cuts, and what is refused."""

import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, f_regression
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.baselines.l1_logistic import _L1
from skinnytrees.estimators.selection_statistics import stability_index
from skinnytrees.estimators.stability import StabilitySelector, _default_estimator, _pair, false_selection_bound
from skinnytrees.exceptions import UnstableSelectionWarning
from skinnytrees.penalties import GroupL0

mpl.use("Agg")

# Most tests use selectors that are quick, on columns that are noise.
pytestmark = [
    pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.UnstableSelectionWarning"),
    pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning"),
]

SIGNAL = [2, 5, 23]


def two_classes(n_rows=160, n_features=40):
    """Labels that the sum of three of the columns decides."""
    X = np.random.default_rng(0).normal(size=(n_rows, n_features))
    return X, (X[:, SIGNAL].sum(axis=1) > 0).astype(int)


def best_three():
    """A selector that takes no time."""
    return SelectKBest(k=3)


class Recorder(SelectKBest):
    """Keeps what every clone was fitted on."""

    seen = []  # noqa: RUF012

    def __init__(self, random_state=None):
        super().__init__(k=1)
        self.random_state = random_state

    def fit(self, X, y, sample_weight=None):
        self.seen.append((np.asarray(X)[:, 0].astype(int), np.asarray(y), sample_weight, self.random_state))
        return super().fit(X, y)


@pytest.fixture
def recorded():
    Recorder.seen.clear()
    return Recorder.seen


# -------------------------------------------------------------------------------------------- frequencies and support


@pytest.mark.parametrize("target", ["classes", "text", "numbers", "two numbers"])
def test_default_estimator_finds_signal_every_time_and_noise_rarely(target):
    X, y = two_classes()
    total = X[:, SIGNAL].sum(axis=1)
    targets = {"classes": y, "text": np.where(y, "yes", "no"), "numbers": total, "two numbers": np.c_[total, -total]}
    selector = StabilitySelector(n_resamples=4, feature_budget=4, random_state=0).fit(X, targets[target])
    np.testing.assert_array_equal(selector.get_support(indices=True), SIGNAL)
    assert selector.frequencies_[SIGNAL].min() == 1
    assert np.delete(selector.frequencies_, SIGNAL).max() <= 0.5
    assert selector.mean_selected_ == 4
    assert selector.n_features_selected_ == 3


def test_frequencies_are_shares_of_the_fits_that_selected_a_feature(recorded):
    X, _ = two_classes(40, 24)
    X[:, 0], y = np.arange(40), X[:, 5] + 0.5 * X[:, [2, 7, 9]].sum(axis=1) > 0
    selector = StabilitySelector(Recorder(), n_resamples=8, random_state=3).fit(X, y)
    assert len(recorded) == 8
    by_hand = np.mean([SelectKBest(k=1).fit(X[rows], y[rows]).get_support() for rows, *_ in recorded], axis=0)
    assert 0.6 < by_hand.max() < 1
    np.testing.assert_array_equal(selector.frequencies_, by_hand)
    np.testing.assert_array_equal(selector.support_, by_hand >= 0.6)
    np.testing.assert_array_equal(selector.transform(X), X[:, by_hand >= 0.6])


def test_feature_selected_by_exactly_the_threshold_share_is_kept():
    selector = StabilitySelector(threshold=0.7, n_resamples=10)
    selector.n_features_in_ = 2
    selector._adopt(np.arange(10)[:, None] < [7, 6])
    np.testing.assert_array_equal(selector.support_, [True, False])


def test_default_estimator_selects_the_columns_of_the_path_that_is_walked_in_full():
    X, y = two_classes()
    quick = _default_estimator(y, 5).set_params(random_state=1).fit(X, y)
    whole = SkinnyTreesClassifier(5, size_rule="full", validation_fraction=None, random_state=1).fit(X, y)
    np.testing.assert_array_equal(quick.support_, whole.support_)


@pytest.mark.parametrize(
    "estimator",
    [
        SkinnyTreesClassifier(penalty=GroupL0(2.0), max_epochs=10),
        SelectFromModel(LogisticRegression(C=0.1, solver="liblinear", **_L1)),
        SelectFromModel(Lasso(0.1)),
        RFE(LogisticRegression(), n_features_to_select=3, step=0.5),
    ],
    ids=["penalty", "logistic", "lasso", "rfe"],
)
def test_any_estimator_that_says_what_it_selected_can_be_used(estimator):
    X, y = two_classes()
    selector = StabilitySelector(estimator, n_resamples=6, threshold=0.8, random_state=0).fit(X, y)
    assert set(SIGNAL) <= set(selector.get_support(indices=True))
    assert not hasattr(estimator, "n_features_in_")


def test_support_attribute_is_enough_where_there_is_no_get_support():
    class Plain(LinearRegression):
        def fit(self, X, y):
            super().fit(X, y)
            self.support_ = np.abs(self.coef_) > 0.1
            return self

    X, y = two_classes()
    selector = StabilitySelector(Plain(), n_resamples=4).fit(X, y)
    assert set(SIGNAL) <= set(selector.get_support(indices=True))


def test_result_depends_on_the_seed_but_not_on_the_number_of_jobs():
    X, y = two_classes(80, 60)
    one, two, other = (
        StabilitySelector(n_resamples=2, feature_budget=8, random_state=seed, n_jobs=n_jobs).fit(X, y).frequencies_
        for seed, n_jobs in [(5, 1), (5, 2), (6, 1)]
    )
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


# ---------------------------------------------------------------------------------------------------------- the bound


def test_bound_is_the_formula_of_the_paper():
    assert false_selection_bound(10, 1000, 0.75) == pytest.approx(0.2)
    X, y = two_classes()
    selector = StabilitySelector(best_three(), n_resamples=4, threshold=0.9).fit(X, y)
    assert selector.mean_selected_ == 3
    assert selector.error_bound_ == pytest.approx(3**2 / (0.8 * 40))


def test_noise_is_selected_no_more_often_than_the_bound_says():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    runs = [
        StabilitySelector(SelectKBest(k=6), n_resamples=10, random_state=seed).fit(rng.normal(size=(60, 20)), y)
        for seed in range(40)
    ]
    n_false = np.mean([run.n_features_selected_ for run in runs])
    assert 0 < n_false <= runs[0].error_bound_


def test_threshold_is_raised_until_the_bound_is_met_and_never_lowered():
    X, y = two_classes()
    # 9 / ((2 t - 1) 40) = 0.3 at t = 0.875, and = 1 at t = 0.6125.
    for limit, threshold, expected in [(0.3, 0.6, 0.875), (1, 0.6, 0.6125), (1, 0.7, 0.7), (9 / 40, 0.6, 1.0)]:
        selector = StabilitySelector(
            best_three(), n_resamples=4, threshold=threshold, max_false_selections=limit, random_state=0
        ).fit(X, y)
        assert selector.threshold_ == pytest.approx(expected)
        assert selector.error_bound_ <= limit + 1e-12
        np.testing.assert_array_equal(selector.support_, selector.frequencies_ >= selector.threshold_ - 1e-12)


@pytest.mark.parametrize(
    ("settings", "budget"),
    [
        ({}, 2),  # 2 * 2 <= 0.2 * 40 * 1 < 3 * 3
        ({"threshold": 0.9}, 5),
        ({"max_false_selections": 3}, 4),
        ({"max_false_selections": 0.1, "threshold": 0.55}, 1),
        ({"feature_budget": 7}, 7),
    ],
)
def test_default_budget_is_the_largest_that_keeps_the_bound(settings, budget):
    X, y = two_classes()
    selector = StabilitySelector(n_resamples=2, random_state=0, **settings).fit(X, y)
    assert selector.mean_selected_ == budget
    if "feature_budget" not in settings:
        assert selector.error_bound_ <= settings.get("max_false_selections", 1)


def test_impossible_demand_is_refused_with_numbers_that_work():
    X, y = two_classes()
    with pytest.raises(ValueError, match=r"select at most 2 .* or set max_false_selections=0\.225\."):
        StabilitySelector(best_three(), n_resamples=2, max_false_selections=0.1).fit(X, y)
    StabilitySelector(SelectKBest(k=2), n_resamples=2, max_false_selections=0.1).fit(X, y)
    StabilitySelector(best_three(), n_resamples=2, max_false_selections=0.225).fit(X, y)
    with pytest.raises(ValueError, match=r"Instead, set max_false_selections=0\.025\."):
        StabilitySelector(n_resamples=2, max_false_selections=0.001).fit(X, y)
    StabilitySelector(n_resamples=2, max_false_selections=0.025).fit(X, y)


def test_impossible_demand_on_the_default_estimator_is_refused_before_any_fit(monkeypatch):
    monkeypatch.setattr(SkinnyTreesClassifier, "fit", lambda *_: pytest.fail("fitted"))
    with pytest.raises(ValueError, match="cannot be promised"):
        StabilitySelector(feature_budget=10, max_false_selections=1).fit(*two_classes())


# ----------------------------------------------------------------------------------------------------------- the cuts


@pytest.mark.parametrize(("fraction", "counts"), [(0.5, [20, 5, 1]), (0.25, [10, 2, 1]), (0.001, [1, 1, 1])])
def test_parts_of_a_pair_share_no_row_and_have_the_same_share_of_every_class(fraction, counts):
    y = np.repeat([0, 1, 2], [40, 11, 3])
    first, second = _pair([np.flatnonzero(y == c) for c in range(3)], fraction, np.random.default_rng(0))
    assert not set(first) & set(second)
    for part in first, second:
        np.testing.assert_array_equal(np.bincount(y[part]), counts)


def test_fits_come_in_complementary_pairs_with_seeds_of_their_own(recorded):
    X, y = np.c_[np.arange(40), np.random.default_rng(0).normal(size=40)], np.repeat([0, 1], [30, 10])
    StabilitySelector(Recorder(), n_resamples=6, random_state=0).fit(X, y)
    for (first, *_), (second, *_) in zip(recorded[::2], recorded[1::2], strict=True):
        np.testing.assert_array_equal(np.sort(np.r_[first, second]), np.arange(40))
    assert all(np.bincount(labels).tolist() == [15, 5] for _, labels, *_ in recorded)
    assert len({tuple(rows) for rows, *_ in recorded}) == len({seed for *_, seed in recorded}) == 6


def test_weights_go_with_their_rows_and_rows_of_weight_zero_are_left_out(recorded):
    X, y = np.c_[np.arange(40), np.random.default_rng(0).normal(size=40)], np.arange(40) % 2
    StabilitySelector(Recorder(), n_resamples=2, random_state=0).fit(X, y, sample_weight=np.arange(40.0))
    for rows, _, weight, _ in recorded:
        np.testing.assert_array_equal(weight, rows)
    assert sorted(np.concatenate([rows for rows, *_ in recorded]).tolist())[0] == 1


def test_whole_numbers_are_cut_without_classes_where_some_occur_once():
    X, _ = two_classes(41)
    selector = StabilitySelector(SelectKBest(f_regression, k=1), n_resamples=4).fit(X, np.arange(41))
    assert selector.mean_selected_ == 1


# ------------------------------------------------------------------------------------------------- tables and pipelines


def test_frames_keep_names_and_sparse_tables_give_the_same_result():
    X, y = two_classes()
    names = [f"gene {k}" for k in range(X.shape[1])]
    settings = {"estimator": best_three(), "n_resamples": 10, "random_state": 0}
    array = StabilitySelector(**settings).fit(X, y)
    frame = StabilitySelector(**settings).fit(
        pd.DataFrame(X, columns=names), pd.Series(y, index=np.arange(len(y))[::-1])
    )
    np.testing.assert_array_equal(frame.feature_names_in_, names)
    assert frame.get_feature_names_out().tolist() == ["gene 2", "gene 5", "gene 23"]
    for other in (
        frame,
        StabilitySelector(**settings).fit(pl.DataFrame(X, schema=names), pl.Series(y)),
        StabilitySelector(**settings).fit(sparse.coo_matrix(X), y),
        StabilitySelector(**settings).fit(X.tolist(), y.tolist()),
    ):
        np.testing.assert_array_equal(other.frequencies_, array.frequencies_)
    assert sparse.issparse(array.transform(sparse.csr_matrix(X)))


def test_frame_with_words_and_gaps_reaches_the_default_estimator_as_it_is():
    X, y = two_classes(120, 24)
    frame = pd.DataFrame(X, columns=list("abcdefghijklmnopqrstuvwx"))
    frame["word"] = np.where(y, "good", "bad")
    frame.loc[::7, "a"] = np.nan
    selector = StabilitySelector(n_resamples=4, random_state=0).fit(frame, y)
    assert "word" in selector.get_feature_names_out()
    assert selector.frequencies_[-1] == 1 > np.median(selector.frequencies_)


def test_sparse_table_works_with_the_default_estimator():
    X, y = two_classes()
    selector = StabilitySelector(n_resamples=2, feature_budget=4, random_state=0).fit(sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(selector.get_support(indices=True), SIGNAL)


def test_selector_is_a_step_of_a_pipeline():
    X, y = two_classes()
    selector = StabilitySelector(best_three(), n_resamples=10, random_state=0)
    model = make_pipeline(StandardScaler(), selector, LogisticRegression()).fit(X, y)
    assert model[-1].coef_.shape == (1, 3)
    assert model.score(X, y) > 0.9


# A row is in one half, its copy perhaps in the other, so a weight of two is not the same as two rows.
WEIGHTS_DIFFER = dict.fromkeys(
    ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
    "rows are resampled: a repeated row is not a row of twice the weight, and a class needs two rows",
)


@pytest.mark.filterwarnings("ignore:No features were selected")
@parametrize_with_checks(
    [StabilitySelector(SelectFromModel(DecisionTreeClassifier()), n_resamples=2)],
    expected_failed_checks=lambda _: WEIGHTS_DIFFER,
)
def test_scikit_learn_conventions_hold(estimator, check):
    check(estimator)


# ------------------------------------------------------------------------------------- agreement, table and progress


def pairwise_definition(selected):
    """Nogueira's index from its definition: one minus the observed variance over that of random selections."""
    d = selected.shape[1]
    variance = np.var(selected, axis=0, ddof=1).mean()
    k = selected.sum(axis=1).mean()
    return 1 - variance / (k / d * (1 - k / d))


def test_index_of_agreement_follows_its_definition():
    rng = np.random.default_rng(0)
    selected = rng.random((12, 30)) < rng.random(30)
    assert stability_index(selected) == pytest.approx(pairwise_definition(selected))
    random = np.array([np.isin(np.arange(500), rng.choice(500, 20, replace=False)) for _ in range(200)])
    assert abs(stability_index(random)) < 0.02
    assert stability_index(np.repeat(random[:1], 5, axis=0)) == 1
    assert np.isnan(stability_index(np.ones((4, 3), dtype=bool)))
    assert np.isnan(stability_index(random[:1]))


def test_disagreeing_resamples_are_told_in_words_with_how_many_features_they_share():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 50)), rng.integers(0, 2, 60)
    with pytest.warns(UnstableSelectionWarning, match="each selects 3 features, but two of them share only") as caught:
        selector = StabilitySelector(best_three(), n_resamples=10, random_state=0).fit(X, y)
    assert selector.stability_index_ < 0.4
    shared = float(re.search(r"share only ([\d.]+)", str(caught[0].message)).group(1))
    assert shared == pytest.approx(selector._mean_shared(), rel=0.05)
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_agreeing_resamples_give_no_warning():
    selector = StabilitySelector(best_three(), n_resamples=10, random_state=0).fit(*two_classes())
    assert selector.stability_index_ > 0.6


def test_table_lists_features_by_falling_frequency():
    X, y = two_classes()
    frame = pd.DataFrame(X, columns=[f"gene {k}" for k in range(40)])
    selector = StabilitySelector(best_three(), n_resamples=10, random_state=0).fit(frame, y)
    table = selector.to_frame()
    assert table.columns.tolist() == ["feature", "frequency", "selected"]
    assert set(table.feature[:3]) == {"gene 2", "gene 5", "gene 23"}
    assert table.frequency.is_monotonic_decreasing
    assert set(table.feature[table.selected]) == set(selector.get_feature_names_out())
    assert len(table) == 40


def test_progress_counts_resamples(capsys, monkeypatch):
    settings = {"n_resamples": 4, "random_state": 0}
    quiet = StabilitySelector(best_three(), **settings).fit(*two_classes())
    assert capsys.readouterr() == ("", "")
    shown = StabilitySelector(best_three(), verbose=1, **settings).fit(*two_classes())
    assert "4/4" in capsys.readouterr().err
    np.testing.assert_array_equal(shown.frequencies_, quiet.frequencies_)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    StabilitySelector(best_three(), verbose=1, **settings).fit(*two_classes())
    assert capsys.readouterr().out.splitlines() == [f"resample {i}/4" for i in (1, 2, 3, 4)]


# ---------------------------------------------------------------------------------------------------------- the picture


def test_plot_shows_the_most_frequent_features_by_name_with_the_threshold():
    X, y = two_classes()
    frame = pd.DataFrame(X, columns=[f"gene {k}" for k in range(40)])
    selector = StabilitySelector(best_three(), n_resamples=10, threshold=0.65, random_state=0).fit(frame, y)
    ax = selector.plot()
    names = [label.get_text() for label in ax.get_yticklabels()]
    n_bars = np.count_nonzero(selector.frequencies_)
    assert len(names) == len(ax.patches) == n_bars
    assert set(names[:3]) == {"gene 2", "gene 5", "gene 23"}
    np.testing.assert_array_equal(
        [bar.get_width() for bar in ax.patches], np.sort(selector.frequencies_)[::-1][:n_bars]
    )
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [0.65, 0.65])
    mpl.pyplot.close(ax.figure)


def test_plot_draws_thirty_features_at_most_on_the_axes_it_is_given():
    figure, ax = mpl.pyplot.subplots()
    selector = StabilitySelector(SelectKBest(k=35), n_resamples=2).fit(*two_classes())
    assert selector.plot(ax) is ax
    assert len(ax.patches) == 30
    assert {label.get_text() for label in ax.get_yticklabels()} <= {f"x{k}" for k in range(40)}
    mpl.pyplot.close(figure)


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_resamples": 7}, r"n_resamples=7 is odd.*Use 8"),
        ({"n_resamples": 0}, "n_resamples"),
        ({"sample_fraction": 0.6}, "sample_fraction"),
        ({"threshold": 0.5}, "threshold"),
        ({"max_false_selections": 0}, "max_false_selections"),
        ({"feature_budget": 41}, r"feature_budget=41 asks for more columns than X has \(40\)"),
        ({"feature_budget": 3, "estimator": SelectKBest(k=3)}, r"feature_budget=3 is for the default estimator"),
    ],
)
def test_bad_setting_is_refused_by_name(settings, message):
    with pytest.raises(ValueError, match=message):
        StabilitySelector(**settings).fit(*two_classes())


@pytest.mark.parametrize("estimator", [LogisticRegression(), SVC()], ids=["no support", "support of rows"])
def test_estimator_that_does_not_select_features_is_refused(estimator):
    with pytest.raises(TypeError, match=r"Wrap it, for example in sklearn\.feature_selection\.SelectFromModel"):
        StabilitySelector(estimator, n_resamples=2).fit(*two_classes())


def test_weights_are_refused_where_the_estimator_takes_none_or_no_two_rows_have_any():
    X, y = two_classes()
    with pytest.raises(TypeError, match=r"SelectKBest\.fit does not take it"):
        StabilitySelector(best_three()).fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(ValueError, match="1 rows of positive weight"):
        StabilitySelector().fit(X, y, sample_weight=np.arange(len(y)) == 5)


def test_weights_reach_an_estimator_inside_a_selector():
    X, y = two_classes()
    weight = np.where(np.arange(len(y)) < 80, 1.0, 1e-9)
    lasso = SelectFromModel(Lasso(0.1))
    first = StabilitySelector(lasso, n_resamples=4, random_state=0).fit(np.r_[X[:80], -X[80:]], y, sample_weight=weight)
    assert set(SIGNAL) <= set(first.get_support(indices=True))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.arange(160), r"160 different whole numbers, which may be classes or amounts\. Say which"),
        (np.eye(2, dtype=int)[np.arange(160) % 2], "multilabel-indicator.*Name an estimator"),
        (np.r_[5, np.zeros(80), np.ones(79)], r"The class 5\.0 has one row"),
        (np.arange(150) % 2, "inconsistent numbers of samples"),
        (None, "requires y to be passed"),
    ],
)
def test_target_that_cannot_be_used_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        StabilitySelector().fit(two_classes()[0], y)


def test_many_whole_numbers_are_no_question_once_an_estimator_is_named():
    X, _ = two_classes()
    y = np.round(100 * X[:, SIGNAL].sum(axis=1))
    selector = StabilitySelector(SkinnyTreesRegressor(4, size_rule="full", refit=False), n_resamples=2, random_state=0)
    np.testing.assert_array_equal(selector.fit(X, y).get_support(indices=True), SIGNAL)


def test_bound_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"threshold=0\.5 is outside"):
        false_selection_bound(3, 40, 0.5)
