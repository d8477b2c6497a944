from io import BytesIO

import numpy as np
import pytest

from skinnytrees import SkinnyTreesRegressor
from skinnytrees.model.export import limits

from . import cases


def test_suffix_and_format_choose_the_same_writer(tmp_path):
    model = cases.counts().model
    for name in ("sql", "c", "js", "html", "csv"):
        stream = BytesIO()
        model.export(stream, format=name)
        model.export(tmp_path / f"model.{name.upper()}")
        assert (tmp_path / f"model.{name.upper()}").read_bytes() == stream.getvalue()


def test_unknown_format_is_refused_with_those_that_are_known(tmp_path):
    model = cases.counts().model
    with pytest.raises(ValueError, match=r"suffix of .*model\.txt.*onnx, sql, c, js, html, csv"):
        model.export(tmp_path / "model.txt")
    with pytest.raises(ValueError, match="format='pmml' is not known"):
        model.export(tmp_path / "model.sql", format="pmml")
    with pytest.raises(ValueError, match="has no suffix"):
        model.export(BytesIO())


def test_option_of_another_format_is_refused_with_those_of_this_one(tmp_path):
    with pytest.raises(TypeError, match=r"sql does not take the option 'units'. It takes table, key"):
        cases.counts().model.export(tmp_path / "model.sql", units={})


def test_failed_export_leaves_an_earlier_file_as_it_was(tmp_path):
    file = tmp_path / "panel.csv"
    file.write_text("earlier")
    with pytest.raises(ValueError, match="units names"):
        cases.counts().model.export(file, units={"nowhere": "kg"})
    assert file.read_text() == "earlier"


@pytest.mark.parametrize("name", ["sql", "c", "js", "html"])
def test_large_model_is_refused_with_its_numbers(name, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_NUMBERS", 100)
    with pytest.raises(
        ValueError, match=r"3 columns as 3 design columns, 6 trees of 7 splits, 2 outputs\).*can hold 100"
    ):
        cases.counts().model.export(tmp_path / f"model.{name}")


def test_array_in_place_of_a_frame_gives_the_same_panel():
    case = cases.several_classes()
    panels = [BytesIO(), BytesIO(), BytesIO()]
    tables = [case.inputs, case.X.to_numpy(), case.model.transform(case.X.to_numpy())]
    for stream, table in zip(panels, tables, strict=True):
        case.model.export(stream, format="csv", X=table)
    assert len({stream.getvalue() for stream in panels}) == 1
    with pytest.raises(ValueError, match="must have the 13 columns"):
        case.model.export(BytesIO(), format="csv", X=np.zeros((3, 2)))


def test_estimator_that_is_not_fitted_is_refused(tmp_path):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        SkinnyTreesRegressor().export(tmp_path / "model.c")
