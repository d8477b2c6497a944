"""The generated designs of the benchmarks are what their tables say they are."""

import numpy as np
import pytest

budget_fits = pytest.importorskip("benchmarks.budget_fits", reason="a source distribution has no benchmarks")
from benchmarks import interactions  # noqa: E402

Problem, Outcome = budget_fits.Problem, budget_fits.Outcome


# --- interactions ---------------------------------------------------------------------------------------------------------


def definition(name, X, true_columns):
    """The target without noise, written out."""
    z = X[:, true_columns].T
    if name == "ring":
        return z[0] ** 2 + z[1] ** 2 + z[2] ** 2 > 2.366
    if name == "plateau":
        return np.sin(np.pi * z[0]) * z[1]
    if name == "two-products":
        return z[0] * z[1] + z[2] * z[3]
    if name.startswith("sine"):
        return np.sin(2 * z[0]) * z[1]
    return z[0] * z[1] > 0 if name == "xor" else z[0] * z[1]


@pytest.mark.parametrize("name", interactions.DESIGNS)
def test_target_is_made_of_the_true_columns_and_little_noise(name):
    problem, true_columns = interactions.DESIGNS[name].draw(3)
    signal = definition(name, problem.X_test, true_columns)
    if problem.is_regression:
        unexplained = np.mean((problem.y_test - signal) ** 2) / np.var(problem.y_test)
        assert 0.007 < unexplained < 0.013
    else:
        # The rounded radius may put a row of the ring on the other side.
        assert np.mean(problem.y_test == signal) > 0.995
        assert 0.45 < problem.y_test.mean() < 0.55


@pytest.mark.parametrize("name", interactions.DESIGNS)
def test_true_columns_have_no_linear_effect(name):
    problem, true_columns = interactions.DESIGNS[name].draw(0)
    X, y = problem.X_test[:, true_columns], problem.y_test
    # Products of normal columns have heavy tails: the standard error of the correlation is up to 3 / sqrt(n).
    assert np.all(np.abs(np.corrcoef(X.T, y)[-1, :-1]) < 4 * 3 / np.sqrt(len(y)))


def test_design_has_the_rows_columns_and_budget_of_the_table():
    design = interactions.DESIGNS["ring"]
    problem, true_columns = design.draw(0)
    assert problem.X.shape == (600, 200)
    assert problem.X_test.shape == (interactions.N_TEST, 200)
    assert (len(set(true_columns)), design.budget) == (3, 6)


def test_draws_differ_and_can_be_repeated():
    design = interactions.DESIGNS["product-32"]
    (first, columns), (again, same_columns), (other, _) = design.draw(1), design.draw(1), design.draw(2)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(columns, same_columns)
    assert not np.any(first.X == other.X)


@pytest.fixture
def empty_results(tmp_path, monkeypatch):
    monkeypatch.setattr(interactions, "RESULTS", tmp_path / "ours.csv")
    monkeypatch.setattr(interactions, "PEER_RESULTS", tmp_path / "peers.csv")


def test_interrupted_run_goes_on_where_it_stopped(empty_results, monkeypatch):
    fitted = []

    def fit(system, problem, true_columns, budget, seed):
        fitted.append((system, seed))
        return Outcome(true_columns[:1] if system == "forest" else true_columns, 0.5, 1.0)

    monkeypatch.setattr(interactions, "fit", fit)
    interactions.run(["product-32"], 1, ["skinnytrees"], 1)
    interactions.run(["product-32"], 2, ["skinnytrees", "forest"], 1)
    assert fitted == [("skinnytrees", 0), ("forest", 0), ("skinnytrees", 1), ("forest", 1)]
    assert [row["found"] for row in interactions.all_rows()] == [2, 2, 1, 1]


def test_table_counts_draws_in_which_all_true_columns_were_found():
    def row(draw, system, found, score):
        fields = {"draw": draw, "system": system, "found": found, "score": score}
        return {"design": "product-32", "columns": 3 + draw, "seconds": 2.0, **fields}

    told = interactions.FOREST_ON_TRUE
    # Draws are paired, whatever their order in the file.
    rows = [row(1, told, 2, 0.75), row(0, "skinnytrees", 2, 0.9), row(1, "skinnytrees", 1, 0.7), row(0, told, 2, 0.85)]
    line = interactions.table_line("product-32", [*rows, row(0, "forest", 1, 0.2)], ["forest"])
    assert line == (
        "| product-32 | 500 x 32 | 2, 4 | 1 of 2 | 3.5 | 0.800 | 0.800 | +0.000 ± 0.050 | 0 of 1 | 2.0 |"
    )  # fmt: skip


# --- fits -----------------------------------------------------------------------------------------------------------------


def easy_problem(as_classes):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    y = 2 * X[:, 5] + X[:, 2]
    y = (y > 0).astype(int) if as_classes else y
    return Problem(X[:200], y[:200], X[200:], y[200:])


@pytest.mark.parametrize("as_classes", [True, False])
@pytest.mark.parametrize("peer", budget_fits.PEERS)
def test_peer_is_refitted_on_its_top_columns_most_important_first(peer, as_classes):
    if peer != "forest":
        pytest.importorskip(peer)
    problem = easy_problem(as_classes)
    outcome = budget_fits.fit_peer(peer, problem, 2, seed=1)
    np.testing.assert_array_equal(outcome.columns, [5, 2])
    alone = budget_fits.fit_peer_on(np.array([5, 2]), peer, problem, seed=1)
    assert outcome.score == alone.score > 0.85


@pytest.mark.parametrize("as_classes", [True, False])
def test_our_fit_is_scored_on_the_test_rows(as_classes):
    problem = easy_problem(as_classes)
    outcome = budget_fits.fit_ours(problem, 2, seed=0, max_epochs=5)
    np.testing.assert_array_equal(outcome.columns, [2, 5])
    against = problem._replace(y_test=1 - problem.y_test if as_classes else -problem.y_test)
    assert budget_fits.fit_ours(against, 2, seed=0, max_epochs=5).score < 0.5 < outcome.score
