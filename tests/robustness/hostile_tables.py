"""Strategies that draw whole problems nobody would wish for: tables, targets, weights and parameters.

A case is drawn as plain choices; ``build`` makes tables of them, so that a failing case prints as something one can read.
"""

import datetime
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st
from scipy import sparse

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.losses import Huber
from skinnytrees.penalties import GroupL0, GroupLasso

NUMBERS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "mostly zero": lambda rng, n: rng.normal(size=n) * (rng.random(n) < 0.2),
    "constant": lambda rng, n: np.full(n, 7.0),
    "zeros": lambda rng, n: np.zeros(n),
    "codes": lambda rng, n: rng.integers(0, 4, size=n).astype(float),
    "huge": lambda rng, n: rng.normal(size=n) * 1e200,
    "largest": lambda rng, n: rng.choice([-1.7e308, 1.7e308, 0.0], size=n),
    "tiny": lambda rng, n: rng.normal(size=n) * 1e-200,
    "subnormal": lambda rng, n: rng.integers(0, 9, size=n) * 5e-324,
    "beyond single": lambda rng, n: rng.normal(size=n) * 1e30,
    "one wild cell": lambda rng, n: np.where(np.arange(n) == n // 2, 1e300, rng.normal(size=n)),
    "far offset": lambda rng, n: 1e15 + rng.normal(size=n),
    "gaps": lambda rng, n: np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
    "all missing": lambda rng, n: np.full(n, np.nan),
    "infinite": lambda rng, n: np.where(np.arange(n) == 0, np.inf, rng.normal(size=n)),
}
_RARE = ("infinite",)


def _times(rng: Any, n: int) -> list[Any]:
    days = [datetime.datetime(2000, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(0, 9999, size=n)]
    return [None if rng.random() < 0.1 else day for day in days]


WORDS = {
    "text": lambda rng, n: [
        None if rng.random() < 0.1 else word for word in rng.choice(["a", "b", "ü", ""], size=n).tolist()
    ],
    "names": lambda rng, n: [f"name {k}" for k in range(n)],
    "times": _times,
    "dates": lambda rng, n: [None if time is None else time.date() for time in _times(rng, n)],
    "durations": lambda rng, n: [datetime.timedelta(seconds=int(s)) for s in rng.integers(0, 999, size=n)],
    "times of day": lambda rng, n: [datetime.time(int(hour), 5) for hour in rng.integers(0, 24, size=n)],
    "booleans": lambda rng, n: [None if rng.random() < 0.1 else bool(rng.random() < 0.5) for _ in range(n)],
    "whole numbers": lambda rng, n: [None if rng.random() < 0.1 else int(rng.integers(0, 9)) for _ in range(n)],
    "nothing": lambda rng, n: [None] * n,
    "lists": lambda rng, n: [[1.0, 2.0]] * n,
    "structs": lambda rng, n: [{"x": 1}] * n,
    "bytes": lambda rng, n: [b"x"] * n,
}
_RARE_WORDS = ("lists", "structs", "bytes")

FRAMES = ("pandas", "pandas arrow", "pandas categories", "polars", "arrow", "lazy")
SPARSE = ("csr", "csc", "coo", "csr float32", "malformed")
ARRAYS = ("array", "float32", "fortran", "list", "object", "masked", "complex", "times")
CLASSES = (
    "two",
    "three",
    "text",
    "booleans",
    "one class",
    "rare class",
    "none inside",
    "nan inside",
    "polars nulls",
    "pairs",
    "short",
)
TARGETS = (
    "normal", "constant", "huge", "beyond single", "tiny", "outlier", "counts", "two targets", "pairs", "survival", "nan inside",
    "none inside", "infinite", "complex", "text", "short",
)  # fmt: skip
WEIGHTS = ("none", "ones", "some zero", "all zero", "huge", "tiny", "overflowing", "negative", "nan")


@dataclass(frozen=True)
class Case:
    """One problem, as choices."""

    seed: int
    n_rows: int
    columns: tuple[str, ...]
    container: str
    classifier: bool
    target: str
    weight: str
    parameters: dict[str, Any] = field(default_factory=dict)
    validation: bool = False
    row_groups: bool = False


def _mostly(usual: Any, rare: Any) -> st.SearchStrategy[Any]:
    """One of the usual values, in one of twelve draws one of the rare."""
    usual, rare = tuple(usual), tuple(rare)
    return st.integers(0, 11).flatmap(lambda k: st.sampled_from(rare if k == 11 else usual))


@st.composite
def cases(draw: Any) -> Case:
    """A problem; most have one or two hostile parts, so that fits succeed often enough to be checked."""
    container = draw(_mostly(("array", "float32", "pandas", "polars", "arrow", "csr", "csc"), FRAMES + SPARSE + ARRAYS))
    numbers = _mostly([name for name in NUMBERS if name not in _RARE], _RARE)
    words = _mostly([name for name in WORDS if name not in _RARE_WORDS], _RARE_WORDS)
    kinds = st.one_of(numbers, words) if container in FRAMES else numbers
    columns = tuple(draw(st.lists(kinds, min_size=1, max_size=7)))
    classifier = draw(st.booleans())
    target = draw(
        _mostly(("two", "three", "text"), CLASSES)
        if classifier
        else _mostly(("normal", "counts", "two targets"), TARGETS)
    )
    return Case(
        seed=draw(st.integers(0, 9999)),
        n_rows=draw(_mostly((12, 30, 60), (1, 2, 3, 5))),
        columns=columns,
        container=container,
        classifier=classifier,
        target=target,
        weight=draw(_mostly(("none", "none", "ones", "some zero", "huge", "tiny"), WEIGHTS)),
        parameters=draw(_parameters(len(columns), classifier)),
        validation=draw(st.integers(0, 5)) == 0,
        row_groups=draw(st.integers(0, 7)) == 0,
    )


@st.composite
def _parameters(draw: Any, n_columns: int, classifier: bool) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        "n_estimators": draw(st.integers(1, 4)),
        "max_depth": draw(st.integers(1, 3)),
        "max_epochs": 1,
    }

    def sometimes(name: str, values: Any) -> None:
        if draw(st.integers(0, 3)) == 0:
            chosen[name] = draw(values)

    sometimes("penalty", st.sampled_from((GroupL0(0.1), GroupL0(50.0, 0.5), GroupLasso(0.1), None)))
    if "penalty" not in chosen:
        sometimes("feature_budget", st.one_of(st.integers(1, n_columns + 1), st.sampled_from((0.3, 0.5, 1.0, 2.5))))
    sometimes("feature_costs", _costs(n_columns))
    sometimes("feature_groups", st.lists(st.integers(0, 2), min_size=n_columns, max_size=n_columns))
    sometimes("always_select", st.lists(st.integers(0, n_columns - 1), max_size=2))
    sometimes("size_rule", st.sampled_from(("best", "one_se", "full")))
    sometimes("standardize", st.just(False))
    sometimes("validation_fraction", st.sampled_from((None, 0.2, 0.5)))
    sometimes("cv", st.sampled_from((2, 3, 50, "empty folds", "rows outside")))
    sometimes("categorical_features", st.lists(st.integers(0, n_columns - 1), max_size=2, unique=True))
    sometimes("activation", st.just("smoothstep"))
    sometimes("refit", st.just(False))
    if classifier:
        weights = ("balanced", {0: 2.0}, {0: -1.0}, {0: np.nan}, {0: 0.0, 1: 0.0, 2: 0.0}, {0: 1e300})
        sometimes("class_weight", st.sampled_from(weights))
    else:
        sometimes("loss", st.sampled_from(("huber", "quantile", "poisson", "poisson", Huber(0.1))))
    return chosen


def _costs(n_columns: int) -> st.SearchStrategy[Any]:
    cost = _mostly((0.0, 0.5, 1.0, 3.0), (np.inf, 1e300, 1e-300, -1.0, np.nan))
    return st.one_of(st.just("groups"), st.lists(cost, min_size=n_columns, max_size=n_columns))


# ------------------------------------------------------------------------------------------------ from choices to tables


@dataclass(frozen=True)
class Problem:
    """What is handed to an estimator."""

    estimator: Any
    X: Any
    y: Any
    fit: dict[str, Any]


def build(case: Case) -> Problem:
    """The tables that a case stands for."""
    rng = np.random.default_rng(case.seed)
    parameters = dict(case.parameters)
    if parameters.get("cv") == "empty folds":
        parameters["cv"] = [(np.arange(case.n_rows), np.zeros(0, dtype=int))]
    if parameters.get("cv") == "rows outside":
        parameters["cv"] = [(np.arange(case.n_rows), np.array([case.n_rows + 5]))]
    kind = SkinnyTreesClassifier if case.classifier else SkinnyTreesRegressor
    X, y = _table(case, rng), _target(case, rng)
    fit: dict[str, Any] = {"sample_weight": _weight(case, rng)}
    if case.validation:
        fit |= {"X_val": _table(case, rng), "y_val": y}
    if case.row_groups:
        fit["groups"] = rng.integers(0, 4, size=case.n_rows)
    return Problem(kind(random_state=0, n_jobs=1, **parameters), X, y, fit)


def _table(case: Case, rng: Any) -> Any:
    columns = {f"{k} {kind}": (NUMBERS | WORDS)[kind](rng, case.n_rows) for k, kind in enumerate(case.columns)}
    if case.container in FRAMES:
        return _frame(case.container, columns)
    X = np.column_stack([*columns.values()])
    if case.container in SPARSE:
        return _sparse(case.container, np.where(rng.random(X.shape) < 0.5, 0.0, X))
    if case.container == "masked":
        return np.ma.masked_array(X, rng.random(X.shape) < 0.2)
    with np.errstate(over="ignore"):
        convert = {
            "float32": lambda: np.clip(X, -3e38, 3e38).astype(np.float32), "list": X.tolist,
            "fortran": lambda: np.asfortranarray(X),
            "object": lambda: X.astype(object), "complex": lambda: X + 1j,
            "times": lambda: X.astype(bool).astype("datetime64[s]"),
        }  # fmt: skip
        return convert.get(case.container, lambda: X)()


def _frame(container: str, columns: dict[str, Any]) -> Any:
    if container in ("polars", "lazy"):
        frame = pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()})
        return frame.lazy() if container == "lazy" else frame
    if container == "arrow":
        return pa.table({name: pa.array(list(values)) for name, values in columns.items()})
    if container == "pandas arrow":
        arrays = {name: pa.array(list(values)) for name, values in columns.items()}
        return pd.DataFrame(
            {name: pd.array(values, dtype=pd.ArrowDtype(values.type)) for name, values in arrays.items()}
        )
    frame = pd.DataFrame({name: pd.Series(values) for name, values in columns.items()})
    if container == "pandas categories":
        words = [name for name in frame if name.endswith(("text", "names"))]
        frame = frame.astype(dict.fromkeys(words, "category"))
    return frame


def _sparse(container: str, X: Any) -> Any:
    if container == "malformed":
        table = sparse.csr_array(np.ones_like(X))
        table.indices[-1] = 10**6
        return table
    with np.errstate(over="ignore"):
        if container == "csr float32":
            return sparse.csr_array(np.clip(X, -3e38, 3e38).astype(np.float32))
    return {"csr": sparse.csr_array, "csc": sparse.csc_matrix, "coo": sparse.coo_array}[container](X)


def _target(case: Case, rng: Any) -> Any:
    n = case.n_rows
    labels, numbers = np.arange(n) % 2, rng.normal(size=n)
    rng.shuffle(labels)
    made = {
        "two": lambda: labels, "three": lambda: np.arange(n) % 3, "text": lambda: np.array(["no", "yes"])[labels],
        "booleans": lambda: labels == 1, "one class": lambda: np.zeros(n), "rare class": lambda: (np.arange(n) == 0).astype(int),
        "none inside": lambda: [None, *labels.tolist()[1:]], "nan inside": lambda: np.where(np.arange(n) == 0, np.nan, numbers),
        "polars nulls": lambda: pl.Series([None, *labels.tolist()[1:]]), "short": lambda: labels[1:],
        "pairs": lambda: np.array(list(zip(labels == 1, np.abs(numbers), strict=True)), dtype=[("event", bool), ("time", float)]),
        "normal": lambda: numbers, "constant": lambda: np.full(n, 3.0), "huge": lambda: numbers * 1e40,
        "beyond single": lambda: numbers * 1e300, "tiny": lambda: numbers * 1e-60,
        "outlier": lambda: np.where(np.arange(n) == 0, 1e30, numbers), "counts": lambda: rng.poisson(1.0 + labels, size=n),
        "two targets": lambda: np.column_stack([numbers, 1e6 * labels + numbers]),
        "survival": lambda: np.column_stack([np.abs(numbers), labels]),
        "infinite": lambda: np.where(np.arange(n) == 0, np.inf, numbers), "complex": lambda: numbers + 1j,
    }  # fmt: skip
    return made[case.target]()


def _weight(case: Case, rng: Any) -> Any:
    n = case.n_rows
    made = {
        "none": lambda: None, "ones": lambda: np.ones(n), "some zero": lambda: (rng.random(n) < 0.7).astype(float),
        "all zero": lambda: np.zeros(n), "huge": lambda: rng.random(n) * 1e90, "tiny": lambda: rng.random(n) * 1e-90,
        "overflowing": lambda: np.full(n, 1e308), "negative": lambda: -np.ones(n),
        "nan": lambda: np.full(n, np.nan),
    }  # fmt: skip
    return made[case.weight]()
