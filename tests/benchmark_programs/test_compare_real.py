"""The comparison on real tables judges by the protocol's rows, repeats only what was stopped, and reports all of it."""

import json

import numpy as np
import pandas as pd
import pytest

compare_real = pytest.importorskip("benchmarks.compare_real", reason="a source distribution has no benchmarks")
from benchmarks import compared_report, pool_tables  # noqa: E402


@pytest.mark.parametrize("name", ["some-classes", "reg-numbers"])
def test_rows_that_judge_are_those_of_the_protocol(name, monkeypatch):
    rng = np.random.default_rng(0)
    y = rng.normal(size=60) if name.startswith("reg-") else rng.integers(3, size=60)
    X = np.column_stack([np.arange(60.0), rng.normal(size=(60, 11))])
    table = pool_tables.Table(name, X, y)
    monkeypatch.setattr(pool_tables, "load", lambda name: table)
    ours, expected = compare_real.pool_table(name), table.split(seed=1)
    ((kept, held),) = ours.cv.split()
    assert sorted(ours.X[held, 0]) == sorted(expected.X_judge[:, 0])
    assert sorted(ours.X[kept, 0]) == sorted(expected.X[:, 0])
    assert ours.budget == 3
    assert ours.task == ("regression" if name.startswith("reg-") else "classification")


def test_every_system_runs_once_and_slow_ones_last():
    table = compare_real.RealTable(np.zeros((4, 8)), np.array([0, 1, 0, 1]), np.array([False, False, True, True]), 2)
    names = compare_real.systems_for(table)
    assert sorted(names) == sorted(["skinnytrees", *compare_real.available_systems("classification", 2)])
    slow = [name for name in compare_real.SLOW if name in names]
    assert names[len(names) - len(slow) :] == slow


def test_only_fits_stopped_at_a_lower_limit_run_again(tmp_path):
    file = tmp_path / "table.jsonl"
    errors = {"a": "", "b": "stopped after 40 s", "c": "stopped after 600 s", "d": "ValueError: stopped after 1 s"}
    records = [{"belongs_to": "x"}, *({"key": key, "result": {"error": error}} for key, error in errors.items())]
    file.write_text("".join(json.dumps(record) + "\n" for record in records) + '{"key": "cut o')
    compare_real.forget_stopped(file, 600)
    left = [json.loads(line).get("key") for line in file.read_text().splitlines()[:-1]]
    assert left == [None, "a", "c", "d"]


def test_systems_that_were_not_run_are_listed_as_such(tmp_path, monkeypatch):
    table = compare_real.RealTable(np.zeros((4, 8)), np.array([0, 1, 0, 1]), np.array([False, False, True, True]), 2)
    monkeypatch.setattr(compare_real, "RAW", tmp_path)
    monkeypatch.setattr(compare_real, "read_table", lambda name: table)
    records = [{"belongs_to": "x"}, {"key": "forest | 2 | 0 | Forest()", "result": {"error": "", "score": 0.5}}]
    (tmp_path / "some.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    errors = {row["system"]: row["error"] for row in compare_real.all_rows("some")}
    assert errors == {name: "" if name == "forest" else "not run" for name in compare_real.systems_for(table)}


FIGURES = pd.DataFrame(
    [
        ("one", "skinnytrees", 2, 2, 0.90, 0.91, 0.3, 2.0, ""),
        ("one", "peer", 2, 1, 0.95, 0.89, 0.2, 4.0, ""),
        ("one", "slow", 2, None, None, None, None, 600.1, "stopped after 600 s"),
        ("two", "skinnytrees", 2, 2, 0.80, 0.80, 0.3, 1.0, ""),
        ("two", "peer", 2, 2, 0.70, 0.79, 0.2, 3.0, ""),
        ("two", "wild", 2, 2, -35.0, 0.5, 0.2, 3.0, ""),
    ],
    columns=["table", "system", "budget", "n_features", "score", "score_common", "log_loss", "seconds", "error"],
)


def test_table_has_the_best_first_and_says_what_was_stopped():
    lines = compared_report.markdown(compared_report.ordered(FIGURES, "one")).splitlines()
    assert lines[2] == "| peer | 0.9500 | 0.8900 | 0.200 | 4.0 | 1 |"
    wild = compared_report.markdown(compared_report.ordered(FIGURES, "two")).splitlines()[-1]
    assert wild == "| wild | below 0 | 0.5000 | 0.200 | 3.0 | 2 |"
    assert lines[4] == "| slow | stopped after 600 s |  |  |  |  |"


def test_means_are_over_the_tables_where_a_system_has_a_score():
    summary = compared_report.over_tables(FIGURES, ["one", "two"])
    assert summary.loc["skinnytrees", "gap"] == pytest.approx(2.5)
    assert summary.loc["peer", "largest_gap"] == pytest.approx(10)
    assert summary.loc["peer", "times_ours"] == pytest.approx(2.5)
    assert summary.loc["wild", "gap"] == pytest.approx(80), "R squared below zero counts as zero"
    assert summary.loc["peer", "place"] == pytest.approx(1.5)
    assert (summary.loc["slow", "tables"], summary.loc["slow", "finished"]) == (1, 0)


def test_systems_that_rarely_finish_come_last():
    lines = compared_report.markdown_over_tables(compared_report.over_tables(FIGURES, ["one", "two"])).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| **skinnytrees**", "| peer", "| wild", "| slow"]
    assert lines[2] == "| **skinnytrees** | 2 of 2 | 2.5 | 5.0 | 0.0 | 1.5 | 1 |"


def test_picture_is_drawn_for_systems_with_and_without_a_score(tmp_path):
    compared_report.save_picture(FIGURES, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_table_replaces_only_what_is_between_its_comments():
    page = "a\n<!-- begin means -->\nold\n<!-- end means -->\nb\n"
    once = compared_report.put_into_page(page, "means", "new")
    assert once == "a\n<!-- begin means -->\nnew\n<!-- end means -->\nb\n"
    assert compared_report.put_into_page(once, "means", "new") == once
    with pytest.raises(SystemExit, match="has no comments 'begin tables'"):
        compared_report.put_into_page(page, "tables", "new")
