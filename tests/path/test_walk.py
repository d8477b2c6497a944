"""The walk: Ctrl-C at any time, and tables of very many rows or columns."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor, fitting
from skinnytrees.path.rules import DEFAULT_RULES, replace_rule
from skinnytrees.path.trainer import Trainer
from skinnytrees.path.walk import Walk

from .helpers import BOTH_PHASES, PRUNING, QUICK, SCREENING, random_problem, with_rules


@BOTH_PHASES
@pytest.mark.parametrize("fraction_done", [0, 0.3, 0.6, 1])
def test_interrupted_path_meets_the_budget(rules, fraction_done):
    """Ctrl-C early and late, in either branch of pruning, with costs, a column that is always selected, and groups."""
    X, y = random_problem(6, 8)
    costs = np.array([1, 2, 1, 3, 1, 1, 2, 4])
    demands = {"feature_costs": costs, "feature_groups": [[0, 2]], "always_select": [6]}
    reports = []

    def interrupt(report):
        reports.append(report)
        if len(reports) == 1 + round(fraction_done * (n_reports - 1)):
            raise KeyboardInterrupt

    whole = with_rules(SkinnyTreesRegressor, rules)(7, **demands, callbacks=[reports.append], **QUICK).fit(X, y)
    n_reports = len(reports)
    reports.clear()
    with pytest.warns(UserWarning, match="interrupted"):
        cut = with_rules(SkinnyTreesRegressor, rules)(7, **demands, callbacks=[interrupt], **QUICK).fit(X, y)
    for model in (whole, cut):
        assert costs[model.support_].sum() <= 7
        assert model.support_[6]
        assert model.support_[0] == model.support_[2]
        assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(
    ("fraction", "refit", "interrupted", "message"),
    [
        (0.2, False, "choice", "final ensemble was interrupted; the model is the path's own"),
        (0.2, True, "choice", "final ensemble was interrupted; the model is the path's own"),
        (0.2, True, "training", "refit was interrupted; the model has not seen the held-out rows"),
        ("auto", True, "choice", "final ensemble was interrupted; the model is the path's own"),
        ("auto", True, "training", "final ensemble was interrupted; the model is the path's own"),
    ],
)
def test_interrupt_after_the_walk_keeps_what_there_is(fraction, refit, interrupted, message, monkeypatch):
    X, y = random_problem(6, 8)
    model = SkinnyTreesRegressor(4, validation_fraction=fraction, refit=refit, **QUICK)
    whole = clone(model).fit(X, y)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    if interrupted == "training":
        monkeypatch.setattr(Trainer, "start_blend", interrupt)
    else:
        monkeypatch.setattr(fitting, "choose_final_ensemble", interrupt)
    with pytest.warns(UserWarning, match=message) as caught:
        cut = clone(model).fit(X, y)
    assert caught[0].filename == __file__, "the warning points to the user's line"
    np.testing.assert_array_equal(cut.support_, whole.support_)
    assert np.isfinite(cut.predict(X)).all()
    assert cut.path_.n_features.tolist() == whole.path_.n_features.tolist()


def test_sparse_table_of_many_rows_stays_sparse_and_selects_as_in_sample_space(monkeypatch):
    """Neither the products between all rows nor the dense table are formed where they would be too large."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 400), density=0.05, format="csr", random_state=1, data_sampler=rng.standard_normal)
    y = np.asarray(X[:, [1, 2]].sum(axis=1)).ravel() > 0
    expected = SkinnyTreesClassifier(20, random_state=0).fit(X, y)
    monkeypatch.setattr("skinnytrees.training.epoch_runners.choice._SAMPLE_SPACE_ROWS", 10)
    monkeypatch.setattr("skinnytrees.path.points._MOST_DENSE_VALUES", 0)
    model = SkinnyTreesClassifier(20, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.path_.supports[3], expected.path_.supports[3])
    assert 1 <= model.n_features_selected_ <= 20
    assert model.score(X, y) > 0.8


def test_many_categories_are_pruned_without_a_linear_prediction():
    few_filled_in = with_rules(SkinnyTreesClassifier, replace_rule(DEFAULT_RULES, "elimination.most_filled_in", 5))
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(600, 6)).astype(float)
    y = (X[:, 2] == 1) ^ (rng.random(600) < 0.05)
    model = few_filled_in(2, categorical_features=list(range(6)), random_state=0).fit(X, y)
    assert model.support_[2]


def test_rules_say_how_many_branches_are_walked(monkeypatch):
    X, y = random_problem(0, 6, n_rows=60)
    for base, name, value, n_branches in [
        (SCREENING, "screening.n_starts", 3, 3),
        (PRUNING, "pruning.fill_in", (True, False, True), 3),
        (PRUNING, "pruning.fill_in", (True,), 1),
    ]:
        walks, go = [], Walk.go
        monkeypatch.setattr(Walk, "go", lambda walk, rng, walks=walks, go=go: walks.append(walk) or go(walk, rng))
        with_rules(SkinnyTreesRegressor, replace_rule(base, name, value))(3, validation_fraction=0.2, **QUICK).fit(X, y)
        monkeypatch.undo()
        (walk,) = walks
        assert len(walk.branches) == n_branches
        assert len({len(branch.points) for branch in walk.branches}) == 1
