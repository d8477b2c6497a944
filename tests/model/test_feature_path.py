"""The path that a fit leaves behind: its numbers, its models at other sizes, and its picture."""

from io import BytesIO
from itertools import pairwise

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from path.helpers import QUICK, pruned_model, random_problem, wine_model
from sklearn.datasets import load_diabetes, load_wine

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor, load
from skinnytrees.path.trainer import Trainer

mpl.use("Agg")


@pytest.mark.parametrize("make", [wine_model, pruned_model])
def test_what_the_path_tells_is_consistent(make):
    model = make()
    path = model.path_
    n = len(path)
    assert path.n_features[0] == model.n_features_in_
    assert path.n_features[-1] == 1
    assert (np.diff(path.n_features) <= 0).all()
    assert set(range(1, 13)) <= set(path.n_features), "every size from 16 down is visited"
    assert [len(support) for support in path.supports] == path.n_features.tolist()
    np.testing.assert_array_equal(path.cost, path.n_features)
    assert {len(getattr(path, name)) for name in ("val_score", "val_score_se", "train_loss", "models")} == {n}
    for support, inside in zip(path.supports, path.models, strict=True):
        assert set(inside.encoder.feature) == set(support)
    assert path.n_features[path.chosen_index] <= 5
    np.testing.assert_array_equal(path.supports[path.chosen_index], model.get_support(indices=True))
    assert np.isfinite(path.val_score).all()
    assert (path.val_score <= 1).all()
    assert (path.val_score_se > 0).all()
    assert path.val_score[path.chosen_index] > 0.5


def test_supports_of_a_pruned_path_are_nested():
    for larger, smaller in pairwise(pruned_model().path_.supports):
        assert set(smaller) <= set(larger)


def test_frame_of_the_path_has_one_row_per_size():
    path = wine_model().path_
    frame = path.to_frame()
    numbers = ["n_features", "val_score", "val_score_se", "train_loss", "cost"]
    assert frame.columns.tolist() == [*numbers, "entering", "leaving", "chosen"]
    assert len(frame) == len(path)
    for name in numbers:
        np.testing.assert_array_equal(frame[name], getattr(path, name))
    assert np.flatnonzero(frame.chosen).tolist() == [path.chosen_index]


def test_frame_of_the_path_names_what_enters_and_leaves():
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = SkinnyTreesClassifier(4, **QUICK).fit(X, y)
    present = set()
    for row in model.path_.to_frame().itertuples():
        assert present.isdisjoint(row.entering)
        assert present >= set(row.leaving)
        present = (present | set(row.entering)) - set(row.leaving)
        assert len(present) == row.n_features
        if row.chosen:
            assert present == set(model.get_feature_names_out())
    file = BytesIO()
    model.save(file)
    file.seek(0)
    loaded = load(file).path_
    assert loaded.to_frame().equals(model.path_.to_frame())
    assert loaded.budget == 4
    unnamed = SkinnyTreesClassifier(4, **QUICK).fit(X.to_numpy(), y).path_.to_frame()
    assert unnamed.entering[0] == tuple(f"x{k}" for k in range(13))


def test_model_at_a_cost_is_the_largest_that_costs_no_more():
    X, _ = random_problem(0, 4, n_rows=80)
    model = SkinnyTreesRegressor(feature_costs=[1, 2, 3, 4], **QUICK).fit(X, X @ [1, 2, 3, 4])
    for cost in (10, 7.5, 4):
        smaller = model.at(cost=cost)
        spent = np.array([1, 2, 3, 4])[smaller.support_].sum()
        assert spent == max(c for c in model.path_.cost if c <= cost)
    with pytest.raises(ValueError, match=r"no model with a cost of 0.5; the smallest has .* Ask for at least"):
        model.at(cost=0.5)
    with pytest.raises(ValueError, match=r"n_features=2 and cost=3. Give one of them"):
        model.at(2, cost=3)
    with pytest.raises(ValueError, match="Give one of them"):
        model.at()


def test_training_loss_rises_as_features_go():
    """On three columns that all matter."""
    X, y = random_problem(0, 3, n_rows=200)
    y = X.sum(axis=1)
    path = SkinnyTreesRegressor(**QUICK).fit(X, y).path_
    assert np.all(np.diff(path.train_loss) > 0)


@pytest.mark.parametrize("n_features", [1, 3, 5, 12, 1000])
@pytest.mark.parametrize("make", [wine_model, pruned_model])
def test_model_at_another_size_is_that_of_the_path(make, n_features, monkeypatch):
    model = make()

    def refuse(*args, **kwargs):
        raise AssertionError("at() trained")

    monkeypatch.setattr(Trainer, "train", refuse)
    monkeypatch.setattr(Trainer, "start", refuse)
    before = model.model_
    smaller = model.at(n_features)
    entry = next(i for i, size in enumerate(model.path_.n_features) if size <= n_features)
    expected = model.model_ if entry == model.path_.chosen_index else model.path_.models[entry]
    assert smaller.model_ is expected
    assert smaller.n_features_selected_ == model.path_.n_features[entry] <= n_features
    np.testing.assert_array_equal(smaller.get_support(indices=True), model.path_.supports[entry])
    assert smaller.feature_importances_.sum() == pytest.approx(1)
    assert model.model_ is before, "the model itself stays as it is"
    assert smaller.feature_budget == min(n_features, model.n_features_in_)
    assert {**smaller.get_params(), "feature_budget": None} == {**model.get_params(), "feature_budget": None}
    assert not hasattr(smaller, "path_"), "it stands for one size, and so does its file"


def test_model_at_another_size_predicts_and_transforms():
    X, y = load_wine(return_X_y=True)
    smaller = wine_model().at(2)
    assert smaller.predict_proba(X).shape == (len(X), 3)
    assert smaller.score(X, y) > 0.6
    np.testing.assert_array_equal(smaller.transform(X), X[:, smaller.support_])
    assert smaller.transform(X).shape[1] == 2
    with pytest.raises(AttributeError, match=r"call at\(\) before"):
        smaller.at(1)


def test_entries_of_the_path_are_in_the_unit_of_the_target():
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:200], 1e6 + 1e4 * y[:200]
    model = SkinnyTreesRegressor(random_state=0).fit(X, y)
    for n in (2, 5, 10):
        assert model.at(n).score(X, y) > 0.2


def test_plot_shows_the_curve_and_the_chosen_size():
    path = wine_model().path_
    ax = path.plot()
    assert "number of features" in ax.get_xlabel()
    assert "validation score" in ax.get_ylabel()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    chosen = path.n_features[path.chosen_index]
    assert any(f"{chosen} features" in label for label in labels)
    assert any("standard error" in label for label in labels)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), path.n_features)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), path.val_score)
    ax.figure.canvas.draw()
    plt.close(ax.figure)


def test_plot_without_held_out_rows_shows_the_training_loss_on_the_given_axes():
    X, y = random_problem(0, 4)
    path = SkinnyTreesRegressor(validation_fraction=None, **QUICK).fit(X, y).path_
    figure, ax = plt.subplots()
    assert path.plot(ax) is ax
    assert ax.get_ylabel() == "training loss"
    figure.canvas.draw()
    plt.close(figure)
