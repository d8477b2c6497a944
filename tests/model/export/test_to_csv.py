import csv

import numpy as np
import pandas as pd
import pytest

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor

from . import cases


def panel_of(model, tmp_path, **options):
    model.export(tmp_path / "panel.csv", **options)
    with (tmp_path / "panel.csv").open(newline="", encoding="utf-8-sig") as file:
        return {row["column"]: row for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def known_effects():
    """One column raises the target, one lowers it, one does both; and a category."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(500, 3)), columns=["up", "down", "both"])
    X["kind"] = rng.choice(["a", "b"], 500)
    y = 2 * X["up"] - X["down"] + 3 * X["both"] ** 2 + (X["kind"] == "a")
    return SkinnyTreesRegressor(4, size_rule="full", random_state=0).fit(X, y), X


def test_directions_are_those_of_the_effects(known_effects, tmp_path):
    model, X = known_effects
    for options in ({}, {"X": X}):
        rows = panel_of(model, tmp_path, **options)
        found = {name: row["direction of prediction"] for name, row in rows.items()}
        assert found == {"up": "+", "down": "-", "both": "non-monotone", "kind": "by category"}


def test_panel_has_scale_range_and_importance_most_important_first(known_effects, tmp_path):
    model, X = known_effects
    rows = panel_of(model, tmp_path, X=X, units={"up": "mg/l"})
    importances = [float(row["importance"]) for row in rows.values()]
    assert importances == sorted(importances, reverse=True)
    assert sum(importances) == pytest.approx(1, abs=1e-4)
    low, typical, high = np.quantile(X["up"], [0.05, 0.5, 0.95])
    up = {key: float(rows["up"][key]) for key in ("low", "typical", "high", "location", "scale")}
    moments = {"location": X["up"].mean(), "scale": X["up"].std()}
    assert up == pytest.approx({"low": low, "typical": typical, "high": high} | moments, rel=0.02, abs=0.1)
    assert rows["up"]["unit"] == "mg/l"
    assert rows["kind"]["categories"] == "a; b"
    assert rows["kind"]["typical"] == X["kind"].mode()[0]


def test_ranges_without_rows_are_close_to_those_with_rows(known_effects, tmp_path):
    model, X = known_effects
    with_rows, without = panel_of(model, tmp_path, X=X), panel_of(model, tmp_path)
    for key in ("low", "typical", "high"):
        assert float(without["up"][key]) == pytest.approx(float(with_rows["up"][key]), abs=0.1)


def test_times_are_read_as_seconds_from_pandas_and_polars(tmp_path):
    pl = pytest.importorskip("polars", reason="polars is not installed")
    X = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=80), "kind": ["a", "b"] * 40})
    model = SkinnyTreesRegressor(2, size_rule="full", random_state=0).fit(X, np.arange(80.0) + (X["kind"] == "a"))
    rows = panel_of(model, tmp_path, X=X)
    middle = (pd.Timestamp("2020-02-09 12:00") - pd.Timestamp("1970-01-01")).total_seconds()
    assert float(rows["when"]["typical"]) == pytest.approx(middle, rel=1e-5)
    assert rows["when"]["direction of prediction"] == "+"
    assert panel_of(model, tmp_path, X=pl.from_pandas(X)) == rows


def test_every_class_of_several_has_a_direction(tmp_path):
    rows = panel_of(cases.several_classes().model, tmp_path)
    for row in rows.values():
        assert [key for key in row if key.startswith("direction")] == [f"direction of {c}" for c in range(3)]


def test_direction_of_two_classes_is_that_of_the_second(tmp_path):
    X = pd.DataFrame({"dose": np.linspace(0, 1, 80)})
    model = SkinnyTreesClassifier(1, random_state=0).fit(X, np.where(X["dose"] > 0.5, "cured", "not cured"))
    assert panel_of(model, tmp_path)["dose"]["direction of not cured"] == "-"
