"""All formats on three real tables: numbers, missing values, and many classes with categories that training has not seen."""

import functools

import numpy as np
import pandas as pd
import pytest

from benchmarks import pool_tables
from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor

from . import cases
from .postgres import run_postgres, server
from .runners import onnx_feeds, run_c, run_duckdb, run_javascript, run_onnx, run_sqlite

TABLES = ["alzheimer-csf", "pmlb-soybean", "reg-chem-proc-yield"]
N_ROWS = 100

pytestmark = pytest.mark.shared


@functools.cache
def real_case(name):
    """A model of at most eight columns and rows that it has not seen, of which single precision can hold all numbers."""
    table = pool_tables.load(name)
    split = table.split(1)
    estimator = SkinnyTreesRegressor if table.is_regression else SkinnyTreesClassifier
    frames = [
        pd.DataFrame(X.astype(np.float32).astype(float)).rename(columns="c{}".format) for X in (split.X, split.X_judge)
    ]
    if name == "pmlb-soybean":
        frames = [frame.map("code {:g}".format) for frame in frames]
    X, X_judge = frames
    model = estimator(8, n_estimators=10, max_depth=3, random_state=0).fit(X, split.y)
    X_judge = X_judge[:N_ROWS].copy()
    for column in model.get_feature_names_out():
        X_judge.loc[X_judge.index[::9], column] = "never seen" if column in frames[0].select_dtypes("str") else np.nan
    return cases.Case(model, X_judge.reset_index(drop=True))


def outputs(result, case):
    return result.iloc[:, -case.expected.shape[1] :]


@pytest.mark.parametrize("name", TABLES)
def test_onnx_agrees_on_a_real_table(name, tmp_path):
    case = real_case(name)
    case.model.export(tmp_path / "model.onnx")
    given = run_onnx((tmp_path / "model.onnx").read_bytes(), onnx_feeds(case))[-1]
    np.testing.assert_allclose(given, case.expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", TABLES)
def test_c_and_javascript_agree_on_a_real_table(name, tmp_path):
    case = real_case(name)
    cases.assert_equal_to_single_precision(run_c(case, tmp_path), case.expected)
    rows = [row.get("probabilities", row.get("prediction")) for row in run_javascript(case, tmp_path)]
    cases.assert_equal_to_single_precision(rows, case.expected)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("run", [run_sqlite, run_duckdb])
def test_sql_agrees_on_a_real_table(name, run, tmp_path):
    case = real_case(name)
    cases.assert_equal_to_single_precision(outputs(run(case, tmp_path), case), case.expected)


def test_sql_agrees_on_real_tables_in_postgresql(tmp_path):
    with server() as socket:
        for name in TABLES:
            case = real_case(name)
            cases.assert_equal_to_single_precision(outputs(run_postgres(case, tmp_path, socket), case), case.expected)
