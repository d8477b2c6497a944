"""What a fit tells while it runs and afterwards, and how it is stopped."""

import importlib.util
import sys

import numpy as np
import pytest

from estimators.helpers import L0, assert_same_fit, classifier, fitted, wine
from skinnytrees.path.evidence import HeldOutRows
from skinnytrees.penalties import GroupLasso

# Few epochs on few rows: what a penalty removes, or whether it removes anything, is not what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


@pytest.mark.parametrize("penalty", [L0, GroupLasso(0.05), None])
def test_history_has_one_entry_per_epoch(penalty):
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


def test_history_of_a_path_has_one_entry_per_size():
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
    np.testing.assert_array_equal(model.path_.supports[model.path_.chosen_index], model.get_support(indices=True))


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
def test_verbose_path_prints_one_line_per_size_without_tqdm(capsys):
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
