"""What users do with the estimators: fit, predict, repeat, store, stop, select, search."""

import copy
import functools
import importlib.util
import io
import pickle
import sys
import tracemalloc
from dataclasses import dataclass

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from model.test_prediction import plain_encoder
from reference import random_trees
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import scale
from sklearn.utils.class_weight import compute_sample_weight
from threadpoolctl import threadpool_limits

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.activations import Sigmoid, SmoothStep
from skinnytrees.kernels.hard_splits import node_by_node
from skinnytrees.losses import Huber, Poisson, Quantile, SquaredError
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.path.evidence import HeldOutRows
from skinnytrees.penalties import GroupL0, GroupLasso

# Few epochs on few rows: what a penalty removes, or whether it removes anything, is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")

L0 = GroupL0(gamma=8.0, rate=0.1)
PENALISED = {"n_estimators": 8, "max_epochs": 12, "batch_size": 16}
# Ways to fit that share little code: the path, the paper's algorithm, a dense ensemble.
WAYS = {
    "path": {"feature_budget": 4, "max_epochs": 3, "n_estimators": 8},
    "group_l0": {"penalty": L0, **PENALISED},
    "dense": {"penalty": None, "optimizer": "adam", **PENALISED},
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


@functools.cache
def wine():
    return load_wine(return_X_y=True)


@functools.cache
def diabetes(n_rows=150):
    X, y = load_diabetes(return_X_y=True)
    return X[:n_rows], y[:n_rows]


def classifier(way, **changes):
    return SkinnyTreesClassifier(**{"random_state": 0, **WAYS[way], **changes})


def regressor(way, **changes):
    return SkinnyTreesRegressor(**{"random_state": 0, **WAYS[way], **changes})


@functools.cache
def fitted(way):
    """A classifier on wine; not to be changed."""
    return classifier(way).fit(*wine())


@functools.cache
def fitted_regressor(way):
    return regressor(way).fit(*diabetes())


def assert_same_fit(model, other, X=None):
    """The same weights on the same features, to the last bit."""
    np.testing.assert_array_equal(model.support_, other.support_)
    np.testing.assert_array_equal(model.model_.trees.flat, other.model_.trees.flat)
    np.testing.assert_array_equal(model.model_.base, other.model_.base)
    if X is not None:
        np.testing.assert_array_equal(model.predict(X), other.predict(X))


# ------------------------------------------------------------------------------------------------ predictions


@EVERY_WAY
def test_predictions_of_a_classifier_agree_with_each_other(way):
    X, _ = wine()
    model = fitted(way)
    raw = model.decision_function(X)
    assert raw.shape == (len(X), 3)
    np.testing.assert_allclose(model.predict_proba(X), softmax(raw, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[raw.argmax(axis=1)])


@EVERY_WAY
def test_two_classes_have_one_score_the_log_odds_of_the_second(way):
    X, y = wine()
    X, y = X[y > 0], y[y > 0]
    model = classifier(way).fit(X, y)
    score, proba = model.decision_function(X), model.predict_proba(X)
    assert score.shape == (len(X),)
    np.testing.assert_allclose(np.log(proba[:, 1] / proba[:, 0]), score, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), np.where(score > 0, 2, 1))


@EVERY_WAY
def test_fit_learns_something(way):
    X, y = wine()
    assert fitted(way).score(X, y) > 0.85
    assert fitted(way).score(X, y) == accuracy_score(y, fitted(way).predict(X))
    X, y = diabetes()
    assert fitted_regressor(way).score(X, y) > 0.2
    assert fitted_regressor(way).score(X, y) == r2_score(y, fitted_regressor(way).predict(X))


@EVERY_WAY
def test_labels_may_be_words(way):
    X, y = wine()
    words = np.array(["barbera", "grignolino", "nebbiolo"])
    model = classifier(way).fit(X, words[y])
    assert model.classes_.tolist() == words.tolist()
    assert_same_fit(model, fitted(way))
    np.testing.assert_array_equal(model.predict(X), words[fitted(way).predict(X)])


@pytest.mark.parametrize("labels", [[True, False, True], [-7, 3, 100], ["b", "a", "c"]], ids=["bool", "int", "str"])
def test_predicted_labels_are_those_of_y_in_type_and_value(labels):
    X, y = wine()
    y = np.array(labels)[y]
    model = classifier("group_l0").fit(X, y)
    assert model.predict(X).dtype == y.dtype
    assert set(model.predict(X)) <= set(y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))


def test_rare_class_with_one_row_is_kept_for_training():
    X, y = wine()
    y = y.copy()
    y[0] = 3
    model = classifier("path").fit(X, y)
    assert model.predict_proba(X).shape == (len(X), 4)


@EVERY_WAY
def test_prediction_of_a_row_does_not_depend_on_its_neighbours(way):
    X, _ = wine()
    many = np.tile(X, (12, 1))  # more than one piece of rows
    whole = fitted(way).predict_proba(many)
    np.testing.assert_allclose(whole[-len(X) :], fitted(way).predict_proba(X), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(whole[:1], fitted(way).predict_proba(X[:1]), rtol=1e-5, atol=1e-7)


# ------------------------------------------------------------------------------------------------ weights and rows


@EVERY_WAY
def test_balanced_class_weights_are_the_sample_weights_that_scikit_learn_gives(way):
    X, y = wine()
    X, y = X[20:], y[20:]
    balanced = classifier(way, class_weight="balanced").fit(X, y)
    assert_same_fit(balanced, classifier(way).fit(X, y, compute_sample_weight("balanced", y)))
    assert (balanced.predict_proba(X) != classifier(way).fit(X, y).predict_proba(X)).any()


def test_balanced_class_weights_count_a_weight_of_two_as_two_rows():
    X, y = wine()
    weight = np.where(y == 0, 3, 1)
    repeated = np.repeat(np.arange(len(y)), weight)
    model = classifier("path", class_weight="balanced")
    assert_same_fit(clone(model).fit(X, y, weight), clone(model).fit(X[repeated], y[repeated]), X)


def test_class_weights_by_class_multiply_the_sample_weights():
    X, y = wine()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    by_class = classifier("path", class_weight={0: 1.0, 1: 3.0, 2: 0.5}).fit(X, y, weight)
    assert_same_fit(by_class, classifier("path").fit(X, y, weight * np.array([1.0, 3.0, 0.5])[y]))


@EVERY_WAY
@pytest.mark.parametrize("make", [classifier, regressor])
def test_whole_weights_are_the_same_as_repeating_or_leaving_out_rows(way, make):
    X, y = wine() if make is classifier else diabetes()
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), weight)
    assert_same_fit(make(way).fit(X, y, weight), make(way).fit(X[repeated], y[repeated]), X)


@EVERY_WAY
@pytest.mark.parametrize("make", [classifier, regressor])
def test_order_of_the_rows_does_not_matter(way, make):
    X, y = wine() if make is classifier else diabetes()
    shuffled = np.random.default_rng(0).permutation(len(y))
    reference = fitted(way) if make is classifier else fitted_regressor(way)
    assert_same_fit(make(way).fit(X[shuffled], y[shuffled]), reference, X)


def test_order_of_the_rows_does_not_matter_to_pruning():
    """Enough rows for the second phase of the path."""
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:400, :4], y[:400]
    model = SkinnyTreesClassifier(2, max_epochs=2, n_estimators=5, random_state=0)
    assert_same_fit(clone(model).fit(X[::-1], y[::-1]), clone(model).fit(X, y), X)


@EVERY_WAY
def test_fit_leaves_its_arguments_alone(way):
    X, y = (part.copy() for part in diabetes())
    X[::7, 0] = np.nan
    weight = np.ones(len(y))
    kept = [part.copy() for part in (X, y, weight)]
    regressor(way).fit(X, y, weight, X_val=X, y_val=y, sample_weight_val=weight)
    for ours, theirs in zip((X, y, weight), kept, strict=True):
        np.testing.assert_array_equal(ours, theirs)


# ------------------------------------------------------------------------------------------------ repeating and storing


@EVERY_WAY
def test_same_seed_gives_the_same_bits_and_another_does_not(way):
    X, y = wine()
    assert_same_fit(classifier(way).fit(X, y), fitted(way), X)
    assert_same_fit(classifier(way, random_state=np.random.RandomState(0)).fit(X, y), fitted(way), X)
    other = classifier(way, random_state=1).fit(X, y)
    assert (other.predict_proba(X) != fitted(way).predict_proba(X)).any()


@EVERY_WAY
@pytest.mark.parametrize("threads", [1, 2])
def test_result_does_not_depend_on_the_number_of_threads(way, threads):
    X, y = wine()
    with threadpool_limits(threads, user_api="blas"):
        model = classifier(way, n_jobs=threads).fit(X, y)
        assert_same_fit(model, fitted(way), X)


def test_wide_fit_does_not_depend_on_the_number_of_threads():
    """The products are large enough for BLAS to cut them for two threads if it may."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 1500))
    y = X[:, 0] + X[:, 1]
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(SkinnyTreesRegressor(5, max_epochs=2, random_state=0).fit(X, y))
    assert_same_fit(*results, X)


def joblib_copy(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


COPIES = {"pickle": lambda model: pickle.loads(pickle.dumps(model)), "joblib": joblib_copy, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("copy_of", COPIES.values(), ids=COPIES.keys())
@EVERY_WAY
def test_stored_model_predicts_the_same(way, copy_of):
    X, _ = wine()
    model = copy_of(fitted(way))
    assert_same_fit(model, fitted(way), X)
    np.testing.assert_array_equal(model.predict_proba(X), fitted(way).predict_proba(X))
    np.testing.assert_array_equal(model.transform(X), fitted(way).transform(X))
    if "penalty" not in WAYS[way]:
        np.testing.assert_array_equal(model.at(2).predict_proba(X), fitted(way).at(2).predict_proba(X))
        assert model.path_.to_frame().equals(fitted(way).path_.to_frame())


@EVERY_WAY
def test_clone_is_not_fitted_and_fits_the_same(way):
    X, y = wine()
    again = clone(fitted(way))
    assert not hasattr(again, "model_")
    assert_same_fit(again.fit(X, y), fitted(way), X)


def test_objects_as_parameters_survive_cloning_and_storing():
    X, y = diabetes()
    model = SkinnyTreesRegressor(
        loss=Huber(0.5), penalty=GroupLasso(0.01), activation=SmoothStep(2.0), random_state=0, **PENALISED
    )
    fit = clone(model).fit(X, y)
    assert_same_fit(pickle.loads(pickle.dumps(fit)), model.fit(X, y), X)


def test_second_fit_forgets_the_first():
    X, y = wine()
    model = classifier("path").fit(X, y)
    model.set_params(penalty=L0, feature_budget=None, **PENALISED).fit(X[:, :6], y > 0)
    assert_same_fit(model, classifier("group_l0").fit(X[:, :6], y > 0))
    assert model.n_features_in_ == 6
    assert model.classes_.tolist() == [False, True]
    assert not hasattr(model, "path_"), "the path belongs to the first fit"


# ------------------------------------------------------------------------------------------------ the model


@EVERY_WAY
@pytest.mark.parametrize("make", [classifier, regressor])
def test_model_reads_nothing_but_the_selected_columns(way, make):
    X, _ = wine() if make is classifier else diabetes()
    model = (fitted if make is classifier else fitted_regressor)(way)
    changed = X.copy()
    changed[:, ~model.support_] = np.random.default_rng(0).normal(size=(len(X), (~model.support_).sum())) * 1e6
    changed[::2, ~model.support_] = np.nan
    np.testing.assert_array_equal(model.predict(changed), model.predict(X))
    assert set(model.model_.encoder.feature) == set(model.get_support(indices=True))
    assert len(model.model_.trees.W) == len(model.model_.encoder.feature)


@EVERY_WAY
def test_every_selected_column_matters(way):
    X, _ = wine()
    model = fitted(way)
    for k in model.get_support(indices=True):
        changed = X.copy()
        changed[:, k] += 3 * X[:, k].std()
        assert (model.predict_proba(changed) != model.predict_proba(X)).any()


@EVERY_WAY
def test_importances_are_shares_and_zero_outside_the_support(way):
    model = fitted(way)
    assert model.feature_importances_.shape == (13,)
    assert model.feature_importances_.sum() == pytest.approx(1)
    np.testing.assert_array_equal(model.feature_importances_ > 0, model.support_)
    columns = model.model_.column_importances()
    expected = np.array([columns[model.model_.encoder.feature == k].sum() for k in range(13)])
    np.testing.assert_allclose(model.feature_importances_, expected / expected.sum())


def test_importance_of_a_column_is_its_weight_times_what_its_splits_change():
    """By its definition, node after node of every tree."""
    trees = random_trees(3, 2, np.random.default_rng(0), n_trees=4, depth=3)
    model = SoftTrees(plain_encoder(range(3)), trees, np.zeros(2), Sigmoid())
    nodes = node_by_node(trees)
    n_splits, n_leaves = len(nodes.W) // 4, len(nodes.leaves) // 4
    expected = np.zeros(3)
    for tree in range(4):
        W, leaves = nodes.W[tree * n_splits :][:n_splits], nodes.leaves[tree * n_leaves :][:n_leaves]
        values = [None] * n_splits + list(leaves)
        for i in reversed(range(n_splits)):
            left, right = values[2 * i + 1], values[2 * i + 2]
            values[i] = (left + right) / 2
            depth = (i + 1).bit_length() - 1
            expected += np.abs(W[i]) * np.linalg.norm(left - right) / 2**depth
    np.testing.assert_allclose(model.column_importances(), expected, rtol=1e-5)


def test_importance_is_that_of_columns_that_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + 0.3 * X[:, 1] + 0.1 * rng.normal(size=300)
    importance = SkinnyTreesRegressor(size_rule="full", random_state=0).fit(X, y).feature_importances_
    assert importance[0] > 1.5 * importance[1] > 1.5 * importance[2:].max()


def test_dense_ensemble_uses_every_feature_and_the_penalty_drops_some():
    assert fitted("dense").n_features_selected_ == 13
    assert 0 < fitted("group_l0").n_features_selected_ < 13


@pytest.mark.parametrize("penalty", [GroupL0(1e6), GroupLasso(1e6)])
def test_penalty_that_removes_every_feature_leaves_the_constant(penalty):
    X, y = diabetes()
    model = regressor("group_l0", penalty=penalty, max_epochs=30).fit(X, y)
    assert model.n_features_selected_ == 0
    assert np.ptp(model.predict(X)) == 0
    assert model.predict(X)[0] == pytest.approx(y.mean(), abs=y.std() / 2)
    np.testing.assert_array_equal(model.feature_importances_, 0)


def test_larger_penalty_leaves_fewer_features():
    X, y = wine()
    penalties = [GroupL0(gamma, rate=0.1) for gamma in (0, 8, 10, 100)]
    left = [classifier("group_l0", penalty=penalty).fit(X, y).n_features_selected_ for penalty in penalties]
    assert left[0] == 13 > left[1] > left[2] > left[3] == 0


@pytest.mark.parametrize("penalty", [L0, GroupLasso(0.1)])
def test_adam_is_refused_with_a_penalty(penalty):
    X, y = wine()
    with pytest.raises(
        ValueError, match=r"optimizer='adam' has no proximal step.*Use optimizer='sgd', or penalty=None"
    ):
        SkinnyTreesClassifier(penalty=penalty, optimizer="adam").fit(X, y)


# ------------------------------------------------------------------------------------------------ history and stopping


@pytest.mark.parametrize("penalty", [L0, GroupLasso(0.05), None])
def test_history_has_one_entry_an_epoch(penalty):
    X, y = wine()
    model = classifier("group_l0", penalty=penalty, batch_size=20).fit(X, y)
    history = model.history_
    assert set(history) == {"epoch", "loss", "lambda0", "n_features", "val_loss"}
    assert {len(column) for column in history.values()} == {12}
    np.testing.assert_array_equal(history["epoch"], np.arange(12))
    steps = np.arange(1, 13) * 8  # 142 training rows in batches of 20
    np.testing.assert_allclose(history["lambda0"], 0 if penalty is None else penalty.strength(steps.astype(float)))
    assert history["n_features"][-1] == model.n_features_selected_
    assert history["loss"][-1] < history["loss"][0]
    assert np.isfinite(history["val_loss"]).all()


def test_history_has_no_validation_loss_when_no_rows_are_held_out():
    model = classifier("group_l0", validation_fraction=None).fit(*wine())
    assert np.isnan(model.history_["val_loss"]).all()


def test_last_validation_loss_is_the_log_loss_of_the_model():
    X, y = wine()
    held = np.arange(len(y)) % 4 == 0
    model = classifier("group_l0").fit(X[~held], y[~held], X_val=X[held], y_val=y[held])
    proba = model.predict_proba(X[held])[np.arange(held.sum()), y[held]]
    assert model.history_["val_loss"][-1] == pytest.approx(-np.log(proba).mean(), rel=1e-4)


def test_history_of_a_path_has_one_entry_a_size():
    model = fitted("path")
    np.testing.assert_array_equal(model.history_["n_features"], model.path_.n_features)
    np.testing.assert_allclose(model.history_["loss"], model.path_.train_loss)


def test_callback_stops_training():
    X, y = wine()
    seen = []
    model = classifier("group_l0", callbacks=[seen.append, lambda report: report.epoch == 2]).fit(X, y)
    assert [report.epoch for report in seen] == [0, 1, 2]
    assert len(model.history_["loss"]) == 3
    assert_same_fit(model, classifier("group_l0", max_epochs=3).fit(X, y))


@pytest.mark.parametrize("cv", [None, 3])
def test_callback_stops_the_path_once_the_budget_is_met(cv):
    X, y = wine()
    seen = []
    model = classifier("path", callbacks=[seen.append, lambda report: True], cv=cv).fit(X, y)
    assert model.n_features_selected_ <= 4
    assert model.path_.n_features[-1] <= 4 < model.path_.n_features[-2]
    assert [report.n_features for report in seen] == model.path_.n_features.tolist()
    lengths = {
        len(getattr(model.path_, name)) for name in ("n_features", "val_score", "val_score_se", "supports", "models")
    }
    assert lengths == {len(model.path_)}


def interrupt_at(epoch):
    def callback(report):
        if report.epoch == epoch:
            raise KeyboardInterrupt

    return callback


def fit_interrupted(model):
    """Fit on wine; an interrupt that comes through fails the test instead of ending pytest."""
    try:
        return model.fit(*wine())
    except KeyboardInterrupt:
        pytest.fail("KeyboardInterrupt came through")


@pytest.mark.parametrize("epoch", [0, 3, 12])
@pytest.mark.parametrize("cv", [None, 3])
def test_interrupted_path_keeps_a_model_within_the_budget_and_says_so(epoch, cv):
    X, y = wine()
    with pytest.warns(UserWarning, match="interrupted.*budget"):
        model = fit_interrupted(classifier("path", callbacks=[interrupt_at(epoch)], cv=cv))
    assert 1 <= model.n_features_selected_ <= 4
    assert model.score(X, y) > 0.5
    assert len(model.path_.val_score) == len(model.path_) <= 14
    np.testing.assert_array_equal(model.path_.supports[model.path_.chosen], model.get_support(indices=True))


def test_interrupted_path_does_not_ask_its_callbacks_again():
    def always(report):
        raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted"):
        model = fit_interrupted(classifier("path", callbacks=[always]))
    assert model.n_features_selected_ <= 4


@pytest.mark.parametrize("call", [2, 4])
def test_ctrl_c_while_held_out_rows_are_measured_keeps_a_model(monkeypatch, call):
    measure, calls = HeldOutRows.outputs, []

    def interrupted(self, groups, trees):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return measure(self, groups, trees)

    monkeypatch.setattr(HeldOutRows, "outputs", interrupted)
    with pytest.warns(UserWarning, match="interrupted"):
        model = fit_interrupted(classifier("path", validation_fraction=0.2))
    assert 1 <= model.n_features_selected_ <= 4
    assert len(model.path_.val_score) == len(model.path_)


def test_interrupted_penalised_fit_keeps_the_last_epoch_and_says_so():
    X, y = wine()
    with pytest.warns(UserWarning, match="interrupted.*last finished epoch"):
        model = fit_interrupted(classifier("group_l0", callbacks=[interrupt_at(4)]))
    assert_same_fit(model, classifier("group_l0", max_epochs=5).fit(X, y), X)


@pytest.fixture
def without_tqdm(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *rest: None if name == "tqdm" else find_spec(name, *rest)
    )
    monkeypatch.setitem(sys.modules, "tqdm", None)  # importing it now fails


def fit_path_aloud(capsys, **changes):
    """The fitted model, and what the fit wrote to the two streams."""
    fitted("path")  # the first fit of a process may say that it compiles
    capsys.readouterr()
    model = classifier("path", verbose=1, **changes).fit(*wine())
    return model, *capsys.readouterr()


@pytest.mark.usefixtures("without_tqdm")
def test_verbose_path_prints_one_line_a_size_without_tqdm(capsys):
    model, out, err = fit_path_aloud(capsys, validation_fraction=0.2)
    lines = out.splitlines()
    assert len(lines) == len(model.path_)
    assert lines[-1].split()[:2] == ["features", "1"]
    best = float(lines[-1].split("validation loss ")[1])
    assert best <= model.history_["val_loss"][-1] * 1.001, "the best of all starts"
    assert err == ""


@pytest.mark.usefixtures("without_tqdm")
def test_verbose_path_shows_no_validation_loss_where_no_rows_are_held_out(capsys):
    _, out, _ = fit_path_aloud(capsys, validation_fraction=None)
    assert "training loss" in out
    assert "validation" not in out
    assert "nan" not in out


def test_verbose_path_is_a_bar_with_tqdm(capsys):
    pytest.importorskip("tqdm")
    model, out, err = fit_path_aloud(capsys, validation_fraction=0.2)
    assert out == ""
    last = err.splitlines()[-1].split("\r")[-1]
    assert f"{len(model.path_)}size" in last
    assert "features=1" in last
    best = float(last.split("validation=")[1].split(",")[0])
    assert best <= model.history_["val_loss"][-1] * 1.001, "the best of all starts"


def test_silence_is_the_default(capsys):
    fitted("path")
    capsys.readouterr()
    classifier("path").fit(*wine())
    assert capsys.readouterr() == ("", "")


# ------------------------------------------------------------------------------------------------ targets and losses


@EVERY_WAY
def test_several_targets_at_once(way):
    X, y = diabetes()
    Y = np.column_stack([y, -1000 * y, X[:, 2]])
    model = regressor(way, max_epochs=20).fit(X, Y)
    prediction = model.predict(X)
    assert prediction.shape == Y.shape
    for k in range(3):
        assert r2_score(Y[:, k], prediction[:, k]) > 0.2
    assert len(model.model_.trees.O) == 3


@EVERY_WAY
def test_prediction_has_the_shape_of_y(way):
    X, y = diabetes()
    assert fitted_regressor(way).predict(X).shape == y.shape
    one_column = regressor(way).fit(X, y.reshape(-1, 1))
    assert one_column.predict(X).shape == (len(y), 1)
    np.testing.assert_array_equal(one_column.predict(X).ravel(), fitted_regressor(way).predict(X))


@dataclass
class LogCosh:
    """A user's loss in plain NumPy."""

    def value(self, y, raw):
        return np.logaddexp(raw - y, y - raw) - np.log(2)

    def gradient(self, y, raw):
        return np.tanh(raw - y)


LOSSES = [SquaredError(), Huber(), Quantile(0.3), Poisson(), LogCosh()]


def counts(n_rows=250):
    """Counts whose mean depends on two of eight columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 8))
    return X, rng.poisson(np.exp(0.8 * X[:, 0] - 0.8 * X[:, 3] + 0.5)).astype(float)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("way", ["path", "group_l0", "dense"])
def test_every_loss_fits_better_than_the_best_constant(loss, way):
    X, y = counts()
    link = np.log if isinstance(loss, Poisson) else lambda prediction: prediction
    weaker = {"penalty": GroupL0(5.0, rate=0.1)} if way == "group_l0" else {}
    model = regressor(way, loss=loss, **{"max_epochs": 60, **weaker}).fit(X, y)
    ours = loss.value(y, link(model.predict(X))).mean()
    constant = minimize_scalar(
        lambda c: loss.value(y, np.full(len(y), c)).mean(), bounds=(-5, 20), method="bounded"
    ).fun
    least = loss.value(y, link(np.maximum(y, 1e-9))).mean()
    assert ours - least < 0.75 * (constant - least)
    assert {0, 3} <= set(model.get_support(indices=True))


@pytest.mark.parametrize("name", ["squared_error", "huber", "quantile", "poisson"])
def test_name_of_a_loss_stands_for_its_object(name):
    X, y = counts(100)
    kinds = {"squared_error": SquaredError, "huber": Huber, "quantile": Quantile, "poisson": Poisson}
    assert_same_fit(regressor("path", loss=name).fit(X, y), regressor("path", loss=kinds[name]()).fit(X, y), X)


@EVERY_WAY
def test_poisson_predictions_are_positive_means(way):
    X, y = counts()
    model = regressor(way, loss="poisson", max_epochs=20).fit(X, y)
    far = 50 * np.random.default_rng(1).normal(size=(100, 8))
    assert (model.predict(np.vstack([X, far])) > 0).all()
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.5)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_quantile_lies_above_its_share_of_new_rows(level):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 4))
    y = X[:, 0] + (1 + 0.5 * (X[:, 1] > 0)) * rng.normal(size=1600)
    model = SkinnyTreesRegressor(
        loss=Quantile(level), penalty=None, optimizer="adam", learning_rate=0.01, schedule="one_cycle", max_epochs=30,
        n_estimators=20, random_state=0,
    ).fit(X[:800], y[:800])  # fmt: skip
    assert np.mean(y[800:] <= model.predict(X[800:])) == pytest.approx(level, abs=0.06)


@pytest.mark.parametrize("unit", [1e-5, 1e4])
def test_standardised_fit_does_not_depend_on_units(unit):
    """Over the full batch and on one column: the order of rows and columns depends on their bits, which a unit changes."""
    X, y = diabetes()
    X = X[:, [2]]
    model = regressor("dense", optimizer="sgd", batch_size=1000, validation_fraction=None)
    scaled = clone(model).fit(X * unit + 7, 1e-6 * y + 1)
    np.testing.assert_allclose(scaled.predict(X * unit + 7), 1e-6 * clone(model).fit(X, y).predict(X) + 1, rtol=1e-8)


def test_without_standardising_columns_are_taken_as_they_are():
    X, y = diabetes()
    model = regressor("group_l0", standardize=False).fit(X, y / 100)
    np.testing.assert_array_equal(model.model_.encoder.mean, 0)
    np.testing.assert_array_equal(model.model_.encoder.scale, 1)
    np.testing.assert_array_equal(model.model_.base, 0)


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
    grid = {"feature_budget": [1, 6], "penalty": ["path"]}
    one, two = (
        GridSearchCV(classifier("path"), grid, cv=2, n_jobs=n_jobs, scoring="neg_log_loss").fit(X, y)
        for n_jobs in (1, 2)
    )
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


# ------------------------------------------------------------------------------------------------ validation rows


def held_out():
    X, y = diabetes()
    held = np.arange(len(y)) % 3 == 0
    return X[~held], y[~held], X[held], y[held]


def test_validation_score_is_that_of_the_given_rows():
    X, y, X_val, y_val = held_out()
    path = regressor("path").fit(X, y, X_val=X_val, y_val=y_val).path_
    for model, score in zip(path.models, path.val_score, strict=True):
        # As sure of itself as these rows allow: a factor near one where they are few.
        raw, base = model.raw(X_val)[:, 0], model.base[0]
        calibrated = [r2_score(y_val, base + factor * (raw - base)) for factor in np.geomspace(0.1, 3, 60)]
        assert score == pytest.approx(max(calibrated), abs=0.03)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_validation_score_reacts_to_the_given_rows():
    X, y, X_val, y_val = held_out()
    good = regressor("path").fit(X, y, X_val=X_val, y_val=y_val).path_.val_score
    bad = regressor("path").fit(X, y, X_val=X_val, y_val=y_val[::-1]).path_.val_score
    assert good.max() > 0.2
    assert bad.max() < 0.1


def test_weights_of_validation_rows_are_used():
    X, y, X_val, y_val = held_out()
    weight = (np.arange(len(y_val)) % 2).astype(float)
    weighted = regressor("path", refit=False).fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=weight)
    fewer = regressor("path", refit=False).fit(X, y, X_val=X_val[1::2], y_val=y_val[1::2])
    np.testing.assert_allclose(weighted.path_.val_score, fewer.path_.val_score, rtol=1e-6, atol=1e-6)
    assert_same_fit(weighted, fewer, X)


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")
def test_model_that_is_not_refitted_has_not_seen_the_validation_rows():
    """More columns than rows, all of them to be used: validation rows decide only how sure of itself the model may be."""
    rng = np.random.default_rng(0)
    X, X_val = rng.normal(size=(40, 60)), rng.normal(size=(20, 60))
    y = X[:, 0]
    model = regressor("path", feature_budget=None, size_rule="full", refit=False)
    models = [clone(model).fit(X, y, X_val=X_val, y_val=y_val) for y_val in (X_val[:, 0], 100 - 9 * X_val[:, 1])]
    one, other = (model.model_.trees for model in models)
    np.testing.assert_array_equal(one.W, other.W)
    np.testing.assert_array_equal(one.b, other.b)
    np.testing.assert_allclose(one.O / other.O, one.O[0, 0] / other.O[0, 0], rtol=1e-5)
    for ours, theirs in zip(models[0].path_.models, models[1].path_.models, strict=True):
        np.testing.assert_array_equal(ours.trees.flat, theirs.trees.flat)
    refitted = clone(model).set_params(refit=True).fit(X, y, X_val=X_val, y_val=X_val[:, 0])
    for fit, rows in ((refitted, np.vstack([X, X_val])), (models[0], X)):
        encoder = fit.model_.encoder
        np.testing.assert_allclose(encoder.mean[~encoder.curves.exists], rows.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("way", ["group_l0", "dense"])
def test_penalised_fit_only_watches_the_validation_rows(way):
    X, y, X_val, y_val = held_out()
    watched = regressor(way).fit(X, y, X_val=X_val, y_val=y_val)
    assert_same_fit(watched, regressor(way, validation_fraction=None).fit(X, y), X)
    assert np.isfinite(watched.history_["val_loss"]).all()


def test_path_without_held_out_rows_takes_the_largest_size_of_the_budget():
    model = classifier("path", validation_fraction=None).fit(*wine())
    assert model.n_features_selected_ == 4
    assert np.isnan(model.path_.val_score).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("validation_fraction", [None, 0.2])
def test_penalised_fit_copies_a_dense_table_once_in_single_precision(dtype, validation_fraction):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4000, 500)).astype(dtype), rng.integers(0, 2, 4000)
    model = SkinnyTreesClassifier(
        penalty=GroupL0(1e-3), validation_fraction=validation_fraction, n_estimators=2, max_depth=1, max_epochs=1
    )
    model.fit(X[:50], y[:50])  # compiles
    tracemalloc.start()
    try:
        model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Validation looks at its rows once more, in the columns that are in use.
    copies = 1 if validation_fraction is None else 1 + validation_fraction
    assert peak < (copies + 0.5) * 4 * X.size
