"""The benchmark on the pool of real tables: protocol, file of results and report, on small tables of the same form."""

import csv

import numpy as np
import pytest
from scipy import sparse

from benchmarks import pool, pool_fits, pool_report, pool_tables
from benchmarks.result_files import append_row, read_rows

# Tables of these tests are mostly noise.
pytestmark = pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.NothingLearnedWarning")

# Fits that are quick rather than good.
QUICK = ["--set-rule", "max_epochs=1", "--label", "default"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SKINNYTREES_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(pool_fits.PEERS, "forest", pool_fits.Peer("rf", 3))
    pool_fits.load.cache_clear()  # tables of different tests have the same names
    (tmp_path / "data" / "pool").mkdir(parents=True)
    return tmp_path


def store(folder, name, n_rows=40, n_columns=8, y=None):
    """Every row holds its own number in the first column."""
    X = np.random.default_rng(0).standard_normal((n_rows, n_columns))
    X[:, 0] = np.arange(n_rows)
    arrays = {"X": X, "y": np.arange(n_rows) % 2 if y is None else y}
    np.savez(folder / "data" / "pool" / f"{name}.npz", **arrays)
    return X


def store_result(file, table, seed, budget, system, score, log_loss=1.0, rule="default", rows="test", seconds=1.0):
    key = {"table": table, "rows": rows, "rule": rule, "seed": seed, "budget": budget, "system": system}
    append_row(file, {**key, "score": score, "log_loss": log_loss, "n_features": budget, "seconds": seconds})


def run(*arguments):
    options = pool.parsed_options([str(argument) for argument in arguments])
    pool.run(options)
    return read_rows(options.results)


# --- the protocol -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "n_seeds", "budgets"),
    [(999, 130, 10, [5, 10, 20]), (1000, 28, 3, [5, 7, 10]), (60, 35, 10, [5, 8, 10]), (60, 21, 10, [5, 10]),
     (60, 10, 10, [2, 5, 10]), (60, 3, 10, [1, 3])],
)  # fmt: skip
def test_splits_and_budgets_follow_rows_and_columns(n_rows, n_columns, n_seeds, budgets):
    table = pool_tables.Table("any", np.empty((n_rows, n_columns)), np.zeros(n_rows))
    assert list(table.seeds()) == list(range(1, n_seeds + 1))
    assert table.budgets() == budgets


def test_classes_with_fewer_than_five_rows_are_dropped_and_the_others_numbered_anew(folder):
    X = store(folder, "rare", y=np.repeat([3, 5, 9], [20, 4, 16]))
    table = pool_tables.load("rare")
    np.testing.assert_array_equal(table.X, np.delete(X, range(20, 24), axis=0))
    np.testing.assert_array_equal(table.y, np.repeat([0, 1], [20, 16]))


def test_sparse_table_holds_the_values_of_the_dense_one(folder):
    X = sparse.random(30, 12, density=0.3, format="csr", rng=0)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "y": np.arange(30) % 3}
    np.savez(folder / "data" / "pool" / "counts.npz", **parts)
    table = pool_tables.load("counts")
    assert sparse.issparse(table.X)
    np.testing.assert_allclose(table.X.toarray(), X.toarray(), rtol=1e-6)


@pytest.mark.parametrize("name", ["classes", "reg-numbers"])
def test_inner_split_never_touches_the_test_rows(folder, name):
    store(folder, name)
    table = pool_tables.load(name)
    outer, inner = table.split(1), table.split(1, "inner")
    assert len(outer.y_judge) == 8
    seen = np.concatenate([inner.X[:, 0], inner.X_judge[:, 0]])
    np.testing.assert_array_equal(np.sort(seen), np.sort(outer.X[:, 0]))


# --- the run --------------------------------------------------------------------------------------------------------------


def test_interrupted_run_is_continued_with_the_same_results(folder):
    store(folder, "classes")
    store(folder, "reg-numbers", y=np.random.default_rng(1).standard_normal(40))
    file = folder / "results.csv"
    arguments = (*QUICK, "--seeds", 2, "--budgets", 5, "--systems", "skinnytrees", "forest", "--results", file)
    rows = run(*arguments)
    assert len(rows) == 2 * 2 * 2  # tables, splits, systems
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-3]))
    again = run(*arguments)

    def scores(rows):
        return {(row["table"], row["seed"], row["budget"], row["system"]): row["score"] for row in rows}

    assert scores(again) == scores(rows)
    assert len(run(*arguments)) == len(rows)


def test_inner_rows_and_other_settings_live_beside_the_default(folder):
    store(folder, "classes")
    arguments = (*QUICK, "--seeds", 1, "--budgets", 5, "--results", folder / "results.csv")
    run(*arguments)
    run(*arguments, "--inner")
    rows = run(*arguments, "--label", "7")  # a name that a CSV file gives back as a number
    assert [(row["rows"], str(row["rule"])) for row in rows] == [
        ("test", "default"),
        ("inner", "default"),
        ("test", "7"),
    ]
    assert len(run(*arguments, "--label", "7")) == 3


def test_peers_fill_missing_values_with_medians_of_the_rows_to_fit_on():
    X, X_judge = np.array([[1.0], [np.nan], [5.0], [3.0]]), np.array([[np.nan], [100.0]])
    filled = pool_fits.without_missing(pool_tables.Split(X, np.zeros(4), X_judge, np.zeros(2)))
    np.testing.assert_array_equal(filled[0].ravel(), [1, 3, 5, 3])
    np.testing.assert_array_equal(filled[1].ravel(), [3, 100])


def test_failed_fit_is_reported_and_the_others_go_on(folder, capsys):
    store(folder, "a-bad-one", y=np.array([0] * 39 + [1]), n_columns=4)  # the second class is dropped
    store(folder, "classes", n_columns=4)
    rows = run(*QUICK, "--seeds", 1, "--budgets", 2, "--results", folder / "results.csv")
    assert [row["table"] for row in rows] == ["classes"]
    assert "a-bad-one skinnytrees seed 1 failed: ValueError" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "setting"),
    [("validation_fraction=None", ("validation_fraction", None)), ("l2=0.1", ("l2", 0.1)),
     ("size_rule=full", ("size_rule", "full"))],
)  # fmt: skip
def test_setting_is_read_as_a_value_or_else_as_text(text, setting):
    assert pool.parsed_setting(text) == setting


def test_unknown_setting_is_refused_before_anything_is_fitted(folder, capsys):
    store(folder, "classes")
    with pytest.raises(SystemExit):
        pool.parsed_options(["--set-rule", "no_such=1"])
    assert "There is no rule 'no_such'. The nearest names are" in capsys.readouterr().err


# --- the report -------------------------------------------------------------------------------------------------------------


def test_gap_is_to_the_best_peer_per_budget_after_averaging_over_splits(folder):
    store(folder, "classes")
    scores = {  # two splits at each of two budgets
        ("skinnytrees", 5): (0.80, 0.90), ("skinnytrees", 10): (0.90, 0.90),
        ("forest", 5): (0.70, 0.80), ("forest", 10): (0.95, 0.95),
        ("xgboost", 5): (0.60, 0.95), ("xgboost", 10): (0.50, 0.50),
        ("lightgbm", 5): (0.99, 0.10), ("lightgbm", 10): (0.80, 0.80),
    }  # fmt: skip
    losses = {"skinnytrees": 0.4, "forest": 0.5, "xgboost": 0.3, "lightgbm": 0.6}
    file = folder / "results.csv"
    for (system, budget), values in scores.items():
        for seed, score in enumerate(values, 1):
            store_result(file, "classes", seed, budget, system, score, losses[system])
    line = pool_report.line(pool_report.read(file, "test", "default"), "classes")
    # At 5 columns XGBoost is best (0.775), at 10 the forest (0.95); per split the gaps are (20 - 5) / 2 and (-5 - 5) / 2.
    assert line.gap == pytest.approx((7.5 - 5) / 2)
    assert line.error == pytest.approx(np.std([7.5, -5], ddof=1) / np.sqrt(2))
    assert (line.log_loss, line.best_log_loss) == pytest.approx((0.4, 0.3))


def test_catboost_with_fewer_splits_does_not_take_splits_from_the_others(folder):
    store(folder, "classes")
    file = folder / "results.csv"
    for seed in (1, 2):
        store_result(file, "classes", seed, 5, "skinnytrees", 0.9)
        store_result(file, "classes", seed, 5, "forest", 0.8)
    store_result(file, "classes", 1, 5, "catboost", 0.99)
    line = pool_report.line(pool_report.read(file, "test", "default"), "classes")
    assert (line.n_splits, line.gap, list(line.scores)) == (2, pytest.approx(10), ["skinnytrees", "forest"])
    store_result(file, "classes", 2, 5, "catboost", 0.97)
    line = pool_report.line(pool_report.read(file, "test", "default"), "classes")
    assert (line.gap, line.scores["catboost"]) == pytest.approx((10, 98))


def test_negative_r2_counts_as_zero(folder):
    store(folder, "reg-numbers")
    for system, score in (("skinnytrees", -3.0), ("forest", -0.5)):
        store_result(folder / "results.csv", "reg-numbers", 1, 5, system, score)
    line = pool_report.line(pool_report.read(folder / "results.csv", "test", "default"), "reg-numbers")
    assert line.gap == 0


def test_peers_file_fills_in_on_test_rows_only(folder):
    store(folder, "classes")
    peers_file, file = folder / "peers.csv", folder / "results.csv"
    with peers_file.open("w", newline="") as opened:
        csv.writer(opened).writerows([
            ("table", "seed", "budget", "system", "score", "log_loss", "seconds"),
            ("classes", 1, 5, "forest", 0.7, 0.6, 1.0),
        ])  # fmt: skip
    for rows in ("test", "inner"):
        store_result(file, "classes", 1, 5, "skinnytrees", 0.9, rows=rows)
    assert len(pool_report.lines(pool_report.read(file, "test", "default", peers_file), ["classes"])) == 1
    assert pool_report.lines(pool_report.read(file, "inner", "default", peers_file), ["classes"]) == []


def test_comparison_pairs_splits_and_is_new_minus_old(folder):
    store(folder, "classes")
    file = folder / "results.csv"
    for seed, score in ((1, 0.7), (2, 0.8), (3, 0.1)):
        store_result(file, "classes", seed, 5, "skinnytrees", score, 0.5)
    for seed, score in ((1, 0.71), (2, 0.83)):  # the third split is not there yet
        store_result(file, "classes", seed, 5, "skinnytrees", score, 0.25, rule="l2=1", seconds=2.0)
    new, old = (pool_report.read(file, "test", label) for label in ("l2=1", "default"))
    found = pool_report.difference(new, old, "classes")
    assert (found.n_splits, found.points, found.error) == pytest.approx((2, 2.0, 1.0))
    assert (found.log_loss, found.seconds) == pytest.approx((np.log(0.5), np.log(2)))


def test_report_lists_tables_far_below_and_draws_the_picture(folder, capsys, monkeypatch):
    store(folder, "classes")
    store(folder, "reg-numbers", n_rows=500)
    file, picture = folder / "results.csv", folder / "docs" / "pool.png"
    for table, ours in (("classes", 0.6), ("reg-numbers", 0.9)):
        for seed in (1, 2):
            store_result(file, table, seed, 5, "skinnytrees", ours + seed / 100, 0.5)
            store_result(file, table, seed, 5, "forest", 0.8, 0.25)
    arguments = ["pool", "--report-only", "--results", str(file), "--picture", str(picture)]
    monkeypatch.setattr("sys.argv", arguments)
    pool.main()
    printed = capsys.readouterr().out
    assert "- classes: -18.5 ± 0.5" in printed
    assert "| classification, fewer than 400 rows | 1 | -18.5 ± ? | -18.5 ± ? | 0.50 |" in printed
    assert "| regression, others | 1 | +11.5 ± ? | +11.5 ± ? |" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
