"""Systems are compared on the same rows, and one that fails takes nothing with it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from skinnytrees.baselines import ForestImportanceClassifier, L1PathClassifier, LightGBMImportanceClassifier
from skinnytrees.comparison import compare
from skinnytrees.comparison.results import COLUMNS, Comparison

from .faulty import FirstColumns, IsKilled, Raises, SleepsForEver, TakesAllMemory

FAULTY = {
    "works": FirstColumns(),
    "raises": Raises(),
    "sleeps": SleepsForEver(),
    "greedy": TakesAllMemory(),
    "killed": IsKilled(),
}


def table():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:150], y[:150]


@pytest.fixture(scope="module")
def survived(tmp_path_factory):
    file = tmp_path_factory.mktemp("results") / "results.jsonl"
    X, y = table()
    return compare(
        X, y, FAULTY, [2], cv=2, common_model=None, n_jobs=2, time_limit=4, memory_limit=20e9, results_file=file
    ), file


def test_system_that_fails_hangs_or_takes_all_memory_gets_a_row_that_says_so(survived):
    frame = survived[0].to_frame()
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == 10
    errors = frame.groupby("system")["error"].first()
    assert errors["works"] == ""
    assert errors["raises"] == "RuntimeError: the moon is in the wrong phase"
    assert errors["sleeps"] == "stopped after 4 s"
    assert errors["greedy"] == "needs more memory than the limit of 20.0 GB allows"
    assert errors["killed"] == "ended by signal 9 (out of memory?)"
    assert frame.loc[frame["system"] == "works", "score"].notna().all()


def test_finished_rows_are_kept_and_not_computed_again(survived):
    first, file = survived
    X, y = table()
    again = compare(X, y, FAULTY, [2], cv=2, common_model=None, time_limit=1e-9, results_file=file)
    assert again.rows == first.rows, "with such a time limit, nothing can have run again"
    more = compare(X, y, {"works": FirstColumns()}, [2, 3], cv=2, common_model=None, results_file=file)
    assert [row["error"] for row in more.rows] == [""] * 4


def test_results_of_other_data_are_refused(survived):
    X, y = table()
    with pytest.raises(ValueError, match=r"holds results of other data or other settings\. Name another results_file"):
        compare(X + 1, y, {"works": FirstColumns()}, [2], cv=2, common_model=None, results_file=survived[1])


def test_line_that_was_cut_off_is_computed_again(tmp_path):
    X, y = table()
    file = tmp_path / "results.jsonl"
    first = compare(X, y, {"works": FirstColumns()}, [2], cv=2, common_model=None, results_file=file)
    text = file.read_text()
    file.write_text(text[:-20])
    again = compare(X, y, {"works": FirstColumns()}, [2], cv=2, common_model=None, results_file=file)
    assert [row["score"] for row in again.rows] == [row["score"] for row in first.rows]
    assert all(json.loads(line) for line in file.read_text().splitlines() if line.endswith("}"))


def test_scores_are_those_of_the_same_fits_by_hand():
    X, y = table()
    cv = StratifiedKFold(2, shuffle=True, random_state=1)
    result = compare(X, y, {"works": FirstColumns()}, [3], cv=cv, common_model=None)
    for row, (kept, held) in zip(result.rows, cv.split(X, y), strict=True):
        model = FirstColumns(3).fit(X[kept], y[kept])
        assert row["score"] == pytest.approx(roc_auc_score(y[held], model.predict_proba(X[held])[:, 1]))
        assert row["log_loss"] == pytest.approx(log_loss(y[held], model.predict_proba(X[held])))
        assert row["support"] == [0, 1, 2]
    frame = result.to_frame()
    assert (frame["stability"] == 1).all(), "the same three columns in every fold"
    assert (frame["seconds"] > 0).all()
    assert frame["peak_memory"].between(1e7, 1e11).all()
    assert result.summary()["peak_memory"].item() == pytest.approx(frame["peak_memory"].mean())


@pytest.mark.parametrize(
    ("name", "kind"),
    [("forest", ForestImportanceClassifier), ("lightgbm", LightGBMImportanceClassifier), ("linear", L1PathClassifier)],
)
def test_common_model_gets_the_selected_columns_only_and_can_be_left_out(name, kind):
    for package in kind._needs:
        pytest.importorskip(package, reason=f"needs {package}, which the extra [baselines] installs")
    X, y = table()
    cv = StratifiedKFold(2, shuffle=True, random_state=1)
    with_forest = compare(X, y, {"works": FirstColumns()}, [3], cv=cv, common_model=name)
    for row, (kept, held) in zip(with_forest.rows, cv.split(X, y), strict=True):
        model = kind(random_state=0).fit(X[kept, :3], y[kept])
        assert row["score_common"] == pytest.approx(roc_auc_score(y[held], model.predict_proba(X[held, :3])[:, 1]))
    without = compare(X, y, {"works": FirstColumns()}, [3], cv=cv, common_model=None)
    assert [row["score_common"] for row in without.rows] == [None, None]
    assert [row["score"] for row in without.rows] == [row["score"] for row in with_forest.rows]


def test_named_systems_run_for_classes_and_numbers():
    X, y = load_wine(return_X_y=True)
    classes = compare(X, y, ["mrmr", "forest"], [2, 0.25], cv=2)
    assert {row["error"] for row in classes.rows} == {""}
    assert all(row["n_features"] <= row["budget"] for row in classes.rows)
    X, y = load_diabetes(return_X_y=True)
    numbers = compare(X[:100], y[:100], ["mrmr"], [3], cv=2)
    assert {row["error"] for row in numbers.rows} == {""}
    assert numbers.scoring == "r2"


def test_frames_with_categories_and_gaps_are_compared():
    pd = pytest.importorskip("pandas", reason="frames need pandas, which the extra [frames] installs")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"noise": rng.normal(size=80), "word": pd.Categorical(rng.choice(["a", "b"], 80)), "gap": rng.normal(size=80)}
    )
    y = (frame["word"] == "a").to_numpy()
    frame.loc[::5, "gap"] = np.nan
    result = compare(frame, y, ["mrmr", "l1_path"], [1], cv=2, common_model="linear")
    assert [row["error"] for row in result.rows] == [""] * 4
    assert {row["score"] for row in result.rows} == {row["score_common"] for row in result.rows} == {1.0}


@pytest.mark.parametrize("has_bar", [True, False])
def test_progress_counts_the_fits_that_are_done(has_bar, capfd, monkeypatch):
    if has_bar:
        pytest.importorskip("tqdm", reason="bars need tqdm, which the extra [progress] installs")
    else:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    X, y = table()
    compare(X, y, {"works": FirstColumns()}, [2], cv=2, common_model=None, verbose=1)
    shown = capfd.readouterr()
    assert "2/2" in (shown.err if has_bar else shown.out)


def test_fractions_and_numbers_that_mean_the_same_are_tried_once():
    X, y = table()
    result = compare(X, y, {"works": FirstColumns()}, [3, 0.1, 500], cv=2, common_model=None)
    assert result.budgets == [3, 30]


@pytest.mark.parametrize(
    ("systems", "message"),
    [(["forrest"], "There is no system 'forrest'. Use some of"), (["controlburn"], "is not defined for this target")],
)
def test_system_that_cannot_be_used_is_refused_before_anything_runs(systems, message):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        compare(X, y, systems, [2])


def made_up(scores):
    rows = [
        {"system": name, "budget": 5, "fold": i, "score": score, "n_features": 5, "support": [0, 1], "error": ""}
        for name, of_folds in scores.items()
        for i, score in enumerate(of_folds)
    ]
    return Comparison(rows, 10, "roc_auc", 0.25)


def test_words_are_fair_to_the_better_and_the_worse():
    result = made_up(
        {"skinnytrees": [0.80, 0.81, 0.79], "good": [0.90, 0.91, 0.89], "level": [0.83, 0.78, 0.79], "bad": [0.5] * 3}
    )
    words = result.in_words()
    assert words.startswith(
        "With 5 features, good has the best roc_auc (0.900; 4 systems finished). skinnytrees has 0.800"
    )
    assert (
        "Clearly better than skinnytrees: good; clearly worse: bad; for the others the difference is within noise."
        in words
    )


def test_words_do_not_judge_what_has_too_few_folds_in_common():
    nan = np.nan
    words = made_up(
        {"skinnytrees": [0.80, 0.81, 0.79], "lucky": [0.99, nan, nan], "good": [0.90, 0.91, 0.89]}
    ).in_words()
    assert "Clearly better than skinnytrees: good; clearly worse: none." in words
    assert "not judged: lucky." in words


def test_differences_are_paired_and_corrected_for_shared_rows():
    ours, other = np.array([0.8, 0.9, 0.7, 0.6]), np.array([0.82, 0.93, 0.71, 0.66])
    row = made_up({"skinnytrees": ours, "other": other}).summary().set_index("system").loc["other"]
    difference = other - ours
    error = np.sqrt(difference.var(ddof=1) * (1 / 4 + 0.25))
    assert row["difference"] == pytest.approx(difference.mean())
    assert row["difference_high"] - row["difference"] == pytest.approx(3.182446 * error, rel=1e-5)


def with_budgets(scores, budgets):
    rows = [{**row, "budget": budget} for row in made_up(scores).rows for budget in budgets]
    return Comparison(rows, 10, "roc_auc", 0.25)


@pytest.fixture
def close_figures():
    import matplotlib.pyplot as plt

    yield
    plt.close("all")


@pytest.mark.usefixtures("close_figures")
def test_picture_has_a_line_per_system_that_finished():
    scores = {"skinnytrees": [0.8, 0.81], "good": [0.9, 0.91], "failed": [np.nan, np.nan]}
    shown = with_budgets(scores, [3, 5]).plot()
    assert [text.get_text() for text in shown.ax_.get_legend().get_texts()] == ["good", "skinnytrees"]


@pytest.mark.usefixtures("close_figures")
def test_no_two_of_25_systems_look_the_same():
    scores = {"skinnytrees": [0.8, 0.81], **{f"system {i}": [0.7, 0.7 + i / 100] for i in range(24)}}
    lines = with_budgets(scores, [3, 5]).plot().ax_.get_lines()
    assert len({(str(line.get_color()), line.get_marker()) for line in lines}) == 25


@pytest.mark.usefixtures("close_figures")
def test_picture_of_a_single_budget_names_the_systems_from_the_best_down():
    shown = made_up({"skinnytrees": [0.8, 0.81], "good": [0.9, 0.91], "failed": [np.nan, np.nan]}).plot()
    assert [label.get_text() for label in shown.ax_.get_yticklabels()] == ["good", "skinnytrees"]
    bottom, top = shown.ax_.get_ylim()
    assert bottom > top, "the first name is at the top"
    drawn = [line.get_xdata()[0] for line in shown.ax_.get_lines() if line.get_marker() == "o"]
    assert drawn == pytest.approx([0.905, 0.805])


def test_program_without_a_guard_is_not_run_again_and_may_define_systems(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """
import numpy as np
from sklearn.datasets import load_breast_cancer
from skinnytrees import compare
from skinnytrees.baselines import MRMRClassifier

print("run")
class Mine(MRMRClassifier):
    pass
X, y = load_breast_cancer(return_X_y=True)
print([row["error"] for row in compare(X[:100], y[:100], {"mine": Mine()}, [2], cv=2, common_model=None).rows])
"""
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["run", "['', '']"], done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("ended_by", ["SIGINT", "SIGKILL"])
def test_interrupted_or_killed_comparison_keeps_finished_rows_and_leaves_no_process_behind(tmp_path, ended_by):
    number, results = tmp_path / "number", tmp_path / "results.jsonl"
    program = tmp_path / "program.py"
    program.write_text(
        f"""
import signal
from skinnytrees import compare
from tests.comparison.faulty import FirstColumns, LeavesItsNumber
from tests.comparison.test_compare import table

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
systems = {{"works": FirstColumns(), "sleeps": LeavesItsNumber()}}
compare(*table(), systems, [2], cv=2, common_model=None, results_file={str(results)!r})
"""
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "NUMBER_OF_PROCESS": str(number)}
    with subprocess.Popen(
        [sys.executable, str(program)], env=environment, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            wait_until(lambda: number.exists() and number.read_text() != "")
            running.send_signal(getattr(signal, ended_by))
            error = running.communicate(timeout=60)[1]
        finally:
            running.kill()
    assert ("KeyboardInterrupt" in error) == (ended_by == "SIGINT")
    wait_until(lambda: not is_alive(int(number.read_text())))
    X, y = table()
    found = compare(
        X, y, {"works": FirstColumns()}, [2], cv=2, common_model=None, time_limit=1e-9, results_file=results
    )
    assert found.rows[0]["error"] == "", "finished before the interrupt, and not run again"
    assert found.rows[1]["error"] == "stopped after 1e-09 s", "not run before the interrupt"


def wait_until(is_true, seconds=60):
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def is_alive(number):
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"time_limit": 0}, "leaves no time"),
        ({"common_model": "svm"}, "Use one of"),
        ({"scoring": "auc"}, "Did you mean 'roc_auc'"),
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(wrong, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        compare(X, y, {"works": FirstColumns()}, [2], cv=2, **wrong)
