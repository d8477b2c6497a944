"""Frames of every kind with the same content, and models that several tests of tables share."""

import functools
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skinnytrees import SkinnyTreesRegressor
from skinnytrees.path.rules import DEFAULT_RULES
from skinnytrees.path.styles import VALUES_AND_PLANES
from skinnytrees.penalties import GroupL0

QUICK = {"max_epochs": 3, "random_state": 0}
PENALISED = {"penalty": GroupL0(0.5, rate=0.1), "n_estimators": 8, "max_epochs": 25, "batch_size": 8, "random_state": 0}
WAYS = {"path": QUICK, "group_l0": PENALISED}
BOTH_WAYS = pytest.mark.parametrize("way", WAYS)
N = 160
NOISE = np.random.default_rng(7).normal(size=N)
# Every numeric column is one design column, so that encoders can be compared with tables.
ONE_COLUMN_EACH = replace(DEFAULT_RULES, styles=(VALUES_AND_PLANES,))
CITIES = np.array(["Bonn", "Faro", "Lyon", "Oslo", "Riga", "Turku"])


@functools.cache
def columns():
    """Columns of every kind by name, with None for what is missing, and a target that three of them explain."""
    rng = np.random.default_rng(0)
    age, city, member = rng.normal(40, 10, N), rng.choice(CITIES, N), rng.random(N) < 0.5
    visits = rng.integers(0, 5, N)
    y = (age - 40) / 10 + 3 * np.isin(city, ["Faro", "Oslo"]) + 2 * member + 0.1 * rng.normal(size=N)
    gaps = rng.random(N) < 0.2
    table = {
        "age": age.tolist(),
        "income": [None if gap else value for gap, value in zip(gaps, rng.normal(size=N).tolist(), strict=True)],
        "city": [None if i % 23 == 0 else str(value) for i, value in enumerate(city)],
        "member": member.tolist(),
        "visits": [None if i % 9 == 0 else int(value) for i, value in enumerate(visits)],
        "colour": rng.choice(["red", "blue"], N).tolist(),
    }
    return table, y


def pandas_frame(**changes):
    frame = pd.DataFrame(columns()[0]).astype({"city": "category", "visits": "Int64"})
    return frame.assign(**changes)


def pandas_words():
    """The same with other types for the same content."""
    # Not astype("str"): before pandas 3 it makes the text "nan" of what is missing.
    words = pandas_frame(city=pd.Series(columns()[0]["city"]))
    return words.astype({"colour": "category", "visits": "float64", "member": "boolean"})


def polars_frame():
    return pl.DataFrame(columns()[0]).with_columns(pl.col("city").cast(pl.Categorical))


def polars_words():
    return pl.DataFrame(columns()[0]).with_columns(pl.col("colour").cast(pl.Enum(["red", "blue"])))


FRAMES = {"pandas": pandas_frame, "pandas words": pandas_words, "polars": polars_frame, "polars words": polars_words}
EVERY_FRAME = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())


@functools.cache
def fitted(way="path"):
    return SkinnyTreesRegressor(**WAYS[way]).fit(pandas_frame(), columns()[1])


def coded_table():
    rng = np.random.default_rng(1)
    code, kind = rng.integers(0, 5, N), rng.integers(7, 9, N)
    return pd.DataFrame({"noise": rng.normal(size=N), "code": code, "kind": kind}), np.isin(code, [0, 2, 4])
