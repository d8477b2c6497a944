"""Running exported files: each function exports a model and predicts the rows of a case with another program.

Where a program is missing, the test is skipped with the reason.
"""

import ctypes
import html.parser
import json
import shutil
import sqlite3
import subprocess
import urllib.parse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

CHROMIUM_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip


def program(*names: str) -> str:
    """Path of the first of these programs that is there."""
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    pytest.skip(f"{names[0]} is not installed")


def is_missing(value: Any) -> bool:
    return value is None or value != value


def onnx_feeds(case: Any, dtype: Any = np.float32, missing_text: str = "") -> dict[str, np.ndarray]:
    feeds = {}
    for name, column in case.inputs.items():
        if name in case.text_columns:
            texts = [missing_text if is_missing(value) else value for value in column]
            feeds[name] = np.array(texts, dtype=object).reshape(-1, 1)
        else:
            feeds[name] = column.to_numpy(dtype).reshape(-1, 1)
    return feeds


def run_onnx(content: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    return ort.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, feeds)


def run_c(case: Any, folder: Path) -> np.ndarray:
    compiler = program("gcc", "cc")
    case.model.export(folder / "model.c")
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]
    command = [compiler, *strict, "-O2", "-shared", "-fPIC", "-o", "model.so", "model.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    predict = ctypes.CDLL(str(folder / "model.so")).skinnytrees_predict
    rows, n_outputs = [], case.expected.shape[1]
    for _, row in case.inputs.iterrows():
        is_text = [name in case.text_columns for name in row.index]
        numbers = [0.0 if text else float(value) for text, value in zip(is_text, row, strict=True)]
        texts = [
            None if not text or is_missing(value) else value.encode() for text, value in zip(is_text, row, strict=True)
        ]
        out = np.empty(n_outputs)
        error = predict(
            (ctypes.c_double * len(numbers))(*numbers),
            (ctypes.c_char_p * len(texts))(*texts) if any(is_text) else None,
            out.ctypes.data_as(ctypes.c_void_p),
        )
        assert error == 0
        rows.append(out)
    return np.array(rows)


def json_rows(frame: pd.DataFrame) -> str:
    rows = [{name: None if is_missing(v) else v for name, v in row.items()} for row in frame.to_dict("records")]
    return json.dumps(rows)


def run_node(script: str, folder: Path) -> Any:
    done = subprocess.run([program("node"), "-e", script], cwd=folder, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def run_javascript(case: Any, folder: Path) -> list[dict[str, Any]]:
    case.model.export(folder / "model.js")
    (folder / "rows.json").write_text(json_rows(case.inputs))
    return run_node(
        'const {predict} = require("./model.js"); console.log(JSON.stringify(require("./rows.json").map(predict)))',
        folder,
    )


def keyed(case: Any) -> pd.DataFrame:
    """The inputs with a key, in which two rows have the same one."""
    table = case.inputs.copy()
    table["key column"] = np.maximum(np.arange(len(table)), 1)
    return table


def statement(case: Any, folder: Path) -> str:
    case.model.export(folder / "model.sql", table="some table", key="key column")
    return (folder / "model.sql").read_text()


def run_sqlite(case: Any, folder: Path) -> pd.DataFrame:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("SELECT EXP(1.0)")
    except sqlite3.OperationalError:
        connection.create_function("EXP", 1, np.exp, deterministic=True)
    keyed(case).to_sql("some table", connection, index=False)
    result = pd.read_sql(statement(case, folder), connection)
    connection.close()
    return result


def run_duckdb(case: Any, folder: Path) -> pd.DataFrame:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    with duckdb.connect() as connection:
        connection.register("given", keyed(case))
        connection.execute('CREATE TABLE "some table" AS SELECT * FROM given')
        return connection.execute(statement(case, folder)).df()


class _Page(html.parser.HTMLParser):
    """What a page shows, by the attributes that it has for programs."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[float] = []
        self.contributions: dict[str, float] = {}
        self.base = float("nan")
        self.labels: set[str] = set()
        self.controls: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        found = dict(attrs)
        if "data-values" in found:
            self.values = json.loads(found["data-values"])
        if "data-contribution" in found:
            self.contributions[found["data-name"]] = float(found["data-contribution"])
        if "data-base" in found:
            self.base = float(found["data-base"])
        if tag == "label":
            self.labels.add(found["for"])
        if tag in ("input", "select"):
            self.controls.add(found["id"])


def open_page(page: Path, row: dict[str, Any]) -> _Page:
    """The page after its scripts ran, with these values filled in."""
    chromium = program("chromium", "chromium-browser", "google-chrome")
    address = f"{page.as_uri()}#{urllib.parse.urlencode({name: value for name, value in row.items() if not is_missing(value)})}"
    profile = f"--user-data-dir={page.parent / 'profile'}"
    done = subprocess.run(
        [chromium, *CHROMIUM_FLAGS, profile, "--dump-dom", address], check=True, capture_output=True, timeout=120
    )
    shown = _Page()
    shown.feed(done.stdout.decode())
    return shown
