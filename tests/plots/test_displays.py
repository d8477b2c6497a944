"""Pictures: what they show, on light and dark, with one column and with many, with long names."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from sklearn.datasets import load_wine
from sklearn.metrics import log_loss

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.explain.effects import effect_axis, partial_dependence
from skinnytrees.explain.reading import Columns, make_game
from skinnytrees.penalties import GroupL0
from skinnytrees.plots import (
    BeeswarmDisplay,
    ContributionBarDisplay,
    EffectsDisplay,
    FeaturePathDisplay,
    HistoryDisplay,
    WaterfallDisplay,
)
from skinnytrees.plots.style import palette, shorten

mpl.use("Agg")
FEW = {"max_epochs": 2, "n_estimators": 5, "random_state": 0}
STYLES = pytest.mark.parametrize("style", ["default", "dark_background"])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    return SkinnyTreesClassifier(4, **FEW).fit(X, y), X, y


@pytest.fixture(scope="module")
def mixed():
    """A regressor that reads numbers with gaps and categories, under names that are too long for a picture."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a number with a name that nobody would ever want to read twice, in $": rng.normal(size=150),
            "gaps": np.where(rng.random(150) < 0.3, np.nan, rng.normal(size=150)),
            "colour": rng.choice(["red", "green", "blue"], 150),
        }
    )
    target = frame.iloc[:, 0] + (frame.colour == "red") + frame.gaps.fillna(0)
    return SkinnyTreesRegressor(size_rule="full", always_select=list(frame), **FEW).fit(frame, target), frame


def labels(ax):
    return [text.get_text() for text in ax.get_yticklabels()]


@pytest.fixture(scope="module")
def wide():
    """A path through 10,000 columns."""
    X = np.random.default_rng(0).normal(size=(60, 10_000))
    return SkinnyTreesClassifier(25, size_rule="full", validation_fraction=0.2, **FEW).fit(X, X[:, 0] > 0), X


# ------------------------------------------------------------------------------------------------------------- style


def contrast(one, other):
    """Contrast ratio of two colours (Web Content Accessibility Guidelines)."""

    def brightness(colour):
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return np.dot([0.2126, 0.7152, 0.0722], linear)

    low, high = sorted([brightness(one), brightness(other)])
    return (high + 0.05) / (low + 0.05)


@STYLES
def test_lines_stand_out_from_light_and_dark_axes(style):
    with plt.style.context(style):
        ax = plt.subplots()[1]
        colours = palette(ax)
        assert contrast(colours.ink, ax.get_facecolor()) > 7
        assert contrast(colours.accent, ax.get_facecolor()) > 3


def test_long_names_keep_both_ends_and_dollars_are_no_formulas():
    name = "price_in_$_" + "x" * 100 + "_of_2024"
    assert shorten(name).startswith(r"price_in_\$_")
    assert shorten(name).endswith("_of_2024")
    assert len(shorten(name)) <= 32
    assert shorten(shorten("a$b")) == shorten("a$b") == r"a\$b"
    assert shorten("short") == "short"


# -------------------------------------------------------------------------------------------------- path and history


@STYLES
def test_path_of_10_000_columns_is_drawn_with_its_budget(wide, style):
    model, _ = wide
    with plt.style.context(style):
        display = FeaturePathDisplay.from_estimator(model)
        display.figure_.canvas.draw()
    np.testing.assert_array_equal(display.ax_.lines[0].get_xdata(), model.path_.n_features)
    shown = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert "budget: 25" in shown
    assert "chosen: 25 features" in shown
    assert display.ax_.get_xscale() == "log"
    ticks = [text.get_text() for text in display.ax_.get_xticklabels()]
    assert "10,000" in ticks


def test_path_of_one_column_has_one_tick():
    X = np.random.default_rng(0).normal(size=(60, 1))
    ax = SkinnyTreesRegressor(**FEW).fit(X, X[:, 0]).path_.plot()
    ax.figure.canvas.draw()
    low, high = ax.get_xlim()
    assert [tick for tick in ax.get_xticks() if low <= tick <= high] == [1]
    assert "chosen: 1 feature" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_path_can_show_any_metric_on_given_rows(wine):
    model, X, y = wine
    display = FeaturePathDisplay.from_estimator(model, X, y, metric="neg_log_loss")
    expected = [-log_loss(y, model.at(int(n)).predict_proba(X)) for n in model.path_.n_features]
    np.testing.assert_allclose(display.y, expected)
    loss = model.path_.plot(metric="train_loss")
    np.testing.assert_array_equal(loss.lines[0].get_ydata(), model.path_.train_loss)
    with pytest.raises(ValueError, match="Give X and y that were not trained on"):
        FeaturePathDisplay.from_estimator(model, metric="roc_auc")
    with pytest.raises(
        ValueError, match=r"metric='auc' is not the name of a scikit-learn scorer. Did you mean 'roc_auc'"
    ):
        FeaturePathDisplay.from_estimator(model, X, y, metric="auc")
    with pytest.raises(ValueError, match=r"metric='f1' is not known to the path. Use 'val_score'"):
        model.path_.plot(metric="f1")
    with pytest.raises(ValueError, match=r"x='depth' is no axis of the path. Use"):
        model.path_.plot(x="depth")


def test_path_with_costs_is_drawn_against_costs():
    X = np.random.default_rng(0).normal(size=(80, 4))
    model = SkinnyTreesRegressor(6, feature_costs=[1, 2, 3, 4], **FEW).fit(X, X @ [1, 2, 3, 4])
    ax = model.path_.plot()
    assert ax.get_xlabel() == "cost of the features"
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), model.path_.cost)
    assert "budget: 6" in [text.get_text() for text in ax.get_legend().get_texts()]
    by_number = model.path_.plot(x="n_features")
    np.testing.assert_array_equal(by_number.lines[0].get_xdata(), model.path_.n_features)
    assert not any("budget" in text.get_text() for text in by_number.get_legend().get_texts())


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")  # all features go
@STYLES
def test_history_of_a_penalised_fit_shows_loss_and_features_of_every_epoch(wine, style):
    _, X, y = wine
    model = SkinnyTreesClassifier(penalty=GroupL0(20, rate=0.1), max_epochs=6, random_state=0).fit(X, y)
    with plt.style.context(style):
        display = model.plot_history()
        display.figure_.canvas.draw()
    loss, features = display.axes_
    assert len(set(model.history_["n_features"])) > 1, "features go in some epoch"
    np.testing.assert_array_equal(loss.lines[0].get_ydata(), model.history_["loss"])
    np.testing.assert_array_equal(loss.lines[1].get_ydata(), model.history_["val_loss"])
    np.testing.assert_array_equal(features.lines[0].get_ydata(), model.history_["n_features"])
    np.testing.assert_array_equal(features.lines[0].get_xdata(), np.arange(1, 7))
    ax = plt.subplots()[1]
    assert HistoryDisplay.from_estimator(model, ax=ax).figure_ is ax.figure


def test_history_of_a_path_is_refused_with_what_to_draw_instead(wine):
    with pytest.raises(ValueError, match=r"Use model.path_.plot\(\)"):
        wine[0].plot_history()


# ----------------------------------------------------------------------------------------------------- contributions


@STYLES
def test_bars_are_mean_absolute_contributions(wine, style):
    model, X, _ = wine
    explanation = model.explain(X[:20], 10).of(0)
    with plt.style.context(style):
        display = explanation.plot_bar()
        display.figure_.canvas.draw()
    size = np.abs(explanation.values).mean(axis=0)
    np.testing.assert_allclose([bar.get_width() for bar in display.ax_.patches], np.sort(size)[::-1])
    assert labels(display.ax_) == [explanation.feature_names[k] for k in np.argsort(-size)]


def test_bars_of_several_classes_have_a_part_for_each(wine):
    model, X, _ = wine
    display = ContributionBarDisplay.from_estimator(model, X[:10], 5)
    assert len(display.ax_.patches) == 12
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["0", "1", "2"]
    ends = max(bar.get_x() + bar.get_width() for bar in display.ax_.patches)
    assert ends == pytest.approx(display.explanation.importance().max())


def test_many_features_become_one_bar(wide):
    model, X = wide
    explanation = model.explain(X[:10], 5, max_error=0.5)
    display = explanation.plot_bar(max_features=10)
    assert labels(display.ax_)[-1] == "15 other features"
    rest = np.argsort(-explanation.importance(), kind="stable")[10:]
    expected = np.abs(explanation.values[:, rest].sum(axis=1)).mean()
    assert display.ax_.patches[-1].get_width() == pytest.approx(expected)
    waterfall = explanation.plot_waterfall(row=2, max_features=10)
    ends = waterfall.ax_.patches[-1].get_x() + waterfall.ax_.patches[-1].get_width()
    assert ends == pytest.approx(model.decision_function(X[2:3])[0], abs=1e-6)


@STYLES
def test_swarm_has_a_point_for_every_contribution(mixed, style):
    model, frame = mixed
    explanation = model.explain(frame[:40], frame[::10])
    with plt.style.context(style):
        display = explanation.plot_beeswarm()
        display.figure_.canvas.draw()
    points = np.concatenate([np.asarray(dots.get_offsets()) for dots in display.ax_.collections])
    np.testing.assert_allclose(np.sort(points[:, 0]), np.sort(explanation.values.ravel()))
    assert np.abs(points[:, 1] - points[:, 1].round()).max() < 0.5, "points stay on the line of their feature"


@STYLES
def test_waterfall_ends_at_the_score_and_names_values(mixed, style):
    model, frame = mixed
    rows = frame[:40].copy()
    rows.loc[3, "gaps"] = np.nan
    explanation = model.explain(rows, frame[::10])
    with plt.style.context(style):
        display = explanation.plot_waterfall(row=3)
        display.figure_.canvas.draw()
    first, last = display.ax_.patches[0], display.ax_.patches[-1]
    assert first.get_x() == pytest.approx(explanation.base_values)
    assert last.get_x() + last.get_width() == pytest.approx(model.predict(rows)[3], abs=1e-6)
    names = labels(display.ax_)
    assert "gaps = missing" in names
    assert f"colour = {rows.colour[3]}" in names
    with pytest.raises(
        ValueError, match=r"row=40 was asked for, but 40 rows were explained. Use a number from 0 to 39"
    ):
        explanation.plot_waterfall(row=40)


def test_waterfall_of_several_classes_draws_the_largest(wine):
    model, X, _ = wine
    display = WaterfallDisplay.from_estimator(model, X[:5], 5, row=1)
    assert display.explanation.output_names == [model.predict(X[1:2])[0]]
    with pytest.raises(ValueError, match=r"has 3 outputs, and output=None is none of them. Choose one of"):
        BeeswarmDisplay.from_estimator(model, X[:5], 5)
    assert BeeswarmDisplay.from_estimator(model, X[:5], 5, target=2).explanation.output_names == [2]


# ------------------------------------------------------------------------------------------------------------ effects


def test_partial_dependence_is_the_mean_prediction_with_a_column_replaced(mixed):
    model, frame = mixed
    game = make_game(model, frame, frame[::10], "raw", None)
    columns = Columns(list(frame), {2: {0.0: "blue", 1.0: "green", 2.0: "red"}})
    for place, name in enumerate(frame):
        axis = effect_axis(game, columns, place, 5)
        effect = partial_dependence(game, [axis])[:, 0]
        for value, found in zip(axis.values, effect, strict=True):
            replaced = frame[::10].copy()
            replaced[name] = columns.word(place, value) if name == "colour" else value
            assert found == pytest.approx(model.predict(replaced).mean(), abs=1e-6)
    assert effect_axis(game, columns, 1, 5).has_missing
    assert effect_axis(game, columns, 2, 5).values.tolist() == [0, 1, 2]


@STYLES
def test_effects_name_categories_and_show_the_rug_and_missing_values(mixed, style):
    model, frame = mixed
    with plt.style.context(style):
        display = model.plot_effects(frame, 20, n_pairs=2)
        display.figure_.canvas.draw()
    assert len(display.axes_) == 5
    long, gaps, colour = display.axes_[:3]
    assert [text.get_text() for text in colour.get_xticklabels()] == ["blue", "green", "red"]
    assert "missing" in [text.get_text() for text in gaps.get_legend().get_texts()]
    rug = long.lines[-1]
    assert set(rug.get_xdata()) <= set(frame.iloc[:, 0])
    assert len(long.get_xlabel()) < 34
    assert {ax.get_ylim() for ax in display.axes_[:3]} == {long.get_ylim()}, "effects share one scale"


def test_effects_of_one_column_and_of_one_class(wine):
    X = np.random.default_rng(0).normal(size=(60, 1))
    assert len(SkinnyTreesRegressor(**FEW).fit(X, X[:, 0]).plot_effects(X).axes_) == 1
    model, X, _ = wine
    display = EffectsDisplay.from_estimator(model, X, 10, output=1, what="probability", n_pairs=1)
    assert display.output_names == [1]
    assert display.axes_[0].get_ylabel() == "mean probability"
    with pytest.raises(ValueError, match=r"output=9 is none of the model's outputs. Choose one of"):
        model.plot_effects(X, output=9)
    with pytest.raises(ValueError, match="1 axes were given, but there are 5 pictures"):
        model.plot_effects(X, 5, n_pairs=1, axes=[plt.subplots()[1]])
