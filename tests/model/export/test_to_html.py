import itertools
import math

import numpy as np
import pandas as pd
import pytest

from skinnytrees import SkinnyTreesRegressor
from skinnytrees.estimators.exporting import portable_model
from skinnytrees.model.export.panel import typical_row

from . import cases
from .reference import predict_row
from .runners import open_page


def brute_force_shapley(model, row, typical, c):
    """The definition: every order of the inputs, each set to its value in turn."""
    names = list(row)
    sums = dict.fromkeys(names, 0.0)
    for order in itertools.permutations(names):
        now = dict(typical)
        before = predict_row(model, now)[c]
        for name in order:
            now[name] = row[name]
            after = predict_row(model, now)[c]
            sums[name] += (after - before) / math.factorial(len(names))
            before = after
    return sums


def shown_typical(model):
    """Typical values as the page shows them, with four digits."""
    return {name: float(f"{x:.4g}") if isinstance(x, float) else x for name, x in typical_row(model, None).items()}


@pytest.mark.parametrize("name", ["mixed", "several_classes", "regression"])
def test_page_shows_prediction_and_exact_shapley_values(name, tmp_path):
    case = cases.ALL[name]()
    page, portable = tmp_path / "page.html", portable_model(case.model)
    case.model.export(page, title="A <title>", target="outcome")
    row = case.inputs.iloc[0].to_dict()
    shown = open_page(page, row)
    expected = predict_row(portable, row)
    np.testing.assert_allclose(shown.values, expected, rtol=1e-9)
    explained = {"mixed": 1, "several_classes": int(np.argmax(expected)), "regression": 0}[name]
    by_definition = brute_force_shapley(portable, row, shown_typical(portable), explained)
    assert shown.contributions == pytest.approx(by_definition, abs=1e-9 * max(1, abs(expected[explained])))
    assert shown.base + sum(shown.contributions.values()) == pytest.approx(expected[explained])
    assert shown.controls <= shown.labels  # every field has a label


def test_page_takes_missing_values_and_unknown_categories(tmp_path):
    case = cases.mixed()
    case.model.export(tmp_path / "page.html")
    row = {"age": None, 'income "net"': 2000.5, "dose in mg": 0.3, "stage": 99, "city": "never seen"}
    shown = open_page(tmp_path / "page.html", row)
    np.testing.assert_allclose(shown.values, predict_row(portable_model(case.model), row), rtol=1e-9)


def test_contributions_of_many_columns_are_sampled_and_add_up(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 14)), columns=[f"c{k}" for k in range(14)])
    model = SkinnyTreesRegressor(penalty=None, **cases.SMALL).fit(X, X.to_numpy() @ np.arange(14.0))
    model.export(tmp_path / "page.html")
    row = X.iloc[0].to_dict()
    shown = open_page(tmp_path / "page.html", row)
    expected = predict_row(portable_model(model), row)
    assert shown.base + sum(shown.contributions.values()) == pytest.approx(expected[0])
    assert len(shown.contributions) == 14


def test_page_loads_nothing_and_texts_cannot_end_its_scripts(tmp_path):
    X = pd.DataFrame({"</script><script>alert(1)": np.arange(40.0)})
    model = SkinnyTreesRegressor(penalty=None, max_epochs=2).fit(X, np.arange(40.0))
    model.export(tmp_path / "page.html", title="<b>")
    text = (tmp_path / "page.html").read_text()
    assert text.count("</script>") == 2
    assert "&lt;b&gt;" in text
    assert "src=" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_unit_of_a_column_that_is_not_read_is_refused(tmp_path):
    with pytest.raises(ValueError, match="units names the column 'weight'"):
        cases.mixed().model.export(tmp_path / "page.html", units={"weight": "kg"})
