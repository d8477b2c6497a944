import numpy as np
import pandas as pd
import pytest

from skinnytrees import SkinnyTreesClassifier
from skinnytrees.estimators.exporting import portable_model
from skinnytrees.model.export.to_sql import to_bytes

from . import cases
from .postgres import run_postgres, server
from .runners import keyed, run_duckdb, run_sqlite


def check_result(result, case):
    """All rows in order, also where two have the same key; labels; outputs as the last columns."""
    assert result["key column"].tolist() == keyed(case)["key column"].tolist()
    n_outputs = case.expected.shape[1]
    cases.assert_equal_to_single_precision(result.iloc[:, -n_outputs:], case.expected)
    if hasattr(case.model, "classes_"):
        assert result["label"].tolist() == case.model.predict(case.table).tolist()
        assert list(result)[-n_outputs:] == [f"probability_{label}" for label in case.model.classes_]


@pytest.mark.parametrize("run", [run_sqlite, run_duckdb])
@pytest.mark.parametrize("name", cases.ALL)
def test_statement_gives_predictions_of_the_model(name, run, tmp_path):
    case = cases.ALL[name]()
    check_result(run(case, tmp_path), case)


def test_statement_gives_predictions_of_the_model_in_postgresql(tmp_path):
    with server() as socket:
        for make_case in cases.ALL.values():
            case = make_case()
            check_result(run_postgres(case, tmp_path, socket), case)


@pytest.mark.parametrize("run", [run_sqlite, run_duckdb])
@pytest.mark.parametrize(("name", "columns"), [("mixed", ["age", "stage"]), ("counts", ["b"])])
def test_row_with_an_infinite_number_which_the_model_refuses_has_no_prediction(name, columns, run, tmp_path):
    case = cases.ALL[name]()
    X = pd.concat([case.X.iloc[:3]] * (1 + 2 * len(columns)), ignore_index=True)
    for k, column in enumerate(columns):
        X.loc[2 * k, column], X.loc[2 * k + 1, column] = np.inf, -np.inf
    infinite, finite = X.iloc[: 2 * len(columns)], X.iloc[2 * len(columns) :].reset_index(drop=True)
    with pytest.raises(ValueError, match="infinity"):
        case.model.predict(infinite)
    result = run(cases.Case(case.model, X), tmp_path)
    assert result.drop(columns="key column").iloc[: len(infinite)].isna().all(axis=None)
    expected = cases.Case(case.model, finite).expected
    given = result.iloc[len(infinite) :, -expected.shape[1] :].to_numpy(dtype=float)
    cases.assert_equal_to_single_precision(given, expected)


def test_schema_is_quoted_apart_from_the_table():
    text = to_bytes(portable_model(cases.counts().model), table="main.my table", key='a "b"').decode()
    assert 'FROM "main"."my table"' in text
    assert '"a ""b"""' in text


def test_tree_with_too_many_numbers_is_refused_with_its_numbers(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 130))
    model = SkinnyTreesClassifier(penalty=None, max_depth=4, n_estimators=2, max_epochs=1).fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match=r"2,127 numbers \(130 design columns, 15 splits, 2 outputs\)"):
        model.export(tmp_path / "model.sql")
