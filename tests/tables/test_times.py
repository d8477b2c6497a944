"""Times, dates and durations are read as seconds."""

import functools

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skinnytrees import SkinnyTreesRegressor
from tables.helpers import (
    NOISE,
    QUICK,
    N,
)

# Whether a penalty removes anything is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")


DAYS = np.datetime64("2024-02-20T12:00:00", "us") + np.arange(N) * np.timedelta64(36, "h")
DAYS[::8] = np.datetime64("NaT", "us")
SECONDS = np.where(np.isnat(DAYS), np.nan, DAYS.astype(np.int64) / 1e6)


def zoned(frame):
    return frame.assign(when=frame["when"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))


TIMES = {
    "pandas": lambda: pd.DataFrame({"when": DAYS, "noise": NOISE}),
    "pandas in nanoseconds": lambda: pd.DataFrame({"when": DAYS.astype("datetime64[ns]"), "noise": NOISE}),
    "pandas with a zone": lambda: zoned(pd.DataFrame({"when": DAYS, "noise": NOISE})),
    "polars": lambda: pl.DataFrame({"when": DAYS, "noise": NOISE}),
    "polars with a zone": lambda: pl.DataFrame({"when": DAYS, "noise": NOISE}).with_columns(
        pl.col("when").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    ),
}


@functools.cache
def fitted_on_seconds():
    y = np.nan_to_num(SECONDS - np.nanmean(SECONDS)) / 1e6
    return SkinnyTreesRegressor(1, **QUICK).fit(pd.DataFrame({"when": SECONDS, "noise": NOISE}), y), y


@pytest.mark.parametrize("frame", TIMES.values(), ids=TIMES.keys())
def test_time_is_the_number_of_its_seconds_and_may_be_missing(frame):
    reference, y = fitted_on_seconds()
    model = SkinnyTreesRegressor(1, **QUICK).fit(frame(), y)
    np.testing.assert_array_equal(model.model_.trees.flat, reference.model_.trees.flat)
    assert model.get_feature_names_out().tolist() == ["when"]
    for other in TIMES.values():
        np.testing.assert_array_equal(model.predict(other()), model.predict(frame()))
    assert model.score(frame(), y) > 0.9


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_duration_is_the_number_of_its_seconds(kind):
    y = fitted_on_seconds()[1]
    model = SkinnyTreesRegressor(1, **QUICK).fit(kind({"noise": NOISE, "lasted": DAYS - DAYS[1]}), y)
    encoder = model.model_.encoder
    assert not encoder.is_level.any()
    seconds = np.array([864, 950])
    rows = kind({"noise": [0.0, 0.0], "lasted": 1000 * seconds.astype("timedelta64[ms]")})
    np.testing.assert_array_equal(
        encoder.encode(model._read_table(rows, reset=False))[:, 0],
        np.float32((seconds - encoder.mean[0]) / encoder.scale[0]),
    )


def test_date_is_a_time():
    dates = pl.DataFrame({"when": DAYS.astype("datetime64[D]"), "noise": NOISE})
    moments = dates.with_columns(pl.col("when").cast(pl.Datetime))
    assert dates["when"].dtype == pl.Date
    models = [SkinnyTreesRegressor(1, **QUICK).fit(frame, fitted_on_seconds()[1]) for frame in (dates, moments)]
    np.testing.assert_array_equal(models[0].predict(dates), models[1].predict(moments))
    assert not models[0].model_.encoder.is_level.any()
