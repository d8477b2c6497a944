"""The generated designs and added columns of the benchmarks are what their tables say they are."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

budget_fits = pytest.importorskip("benchmarks.budget_fits", reason="a source distribution has no benchmarks")
from benchmarks import added_columns, interactions, pool_tables, sharp_functions  # noqa: E402

Problem, Outcome = budget_fits.Problem, budget_fits.Outcome


# --- sharp functions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sharp_functions.DESIGNS)
def test_only_the_columns_that_are_said_to_matter_do(name):
    design = sharp_functions.DESIGNS[name]
    Z = np.random.default_rng(0).uniform(size=(500, sharp_functions.N_COLUMNS))
    other = np.random.default_rng(1).uniform(size=Z.shape)
    for column in range(Z.shape[1]):
        changed = Z.copy()
        changed[:, column] = other[:, column]
        assert np.any(design.target(changed) != design.target(Z)) == (column < design.n_true)


def test_table_of_sharp_functions_has_every_system(capsys, monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["sharp_functions", "--designs", "smooth", "--draws", "1", "--rows", "300", "--peers"]
    )
    sharp_functions.main()
    head, _, line = capsys.readouterr().out.splitlines()
    assert head == "| AUC or R2 | skinnytrees |"
    assert float(line.split("|")[2]) > 0.6


# --- interactions ---------------------------------------------------------------------------------------------------------


def definition(name, X, true_columns):
    """The target without noise, written out."""
    z = X[:, true_columns].T
    if name == "ring":
        return z[0] ** 2 + z[1] ** 2 + z[2] ** 2 > 2.366
    if name == "plateau":
        return np.cos(np.pi * z[0]) * z[1]
    if name == "sine-uniform":
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


@pytest.mark.parametrize(("name", "expected"), [("plateau", 0.0), ("sine-uniform", 0.78)])
def test_only_the_plateau_is_uncorrelated_with_the_product_of_its_columns(name, expected):
    problem, true_columns = interactions.DESIGNS[name].draw(0)
    product = np.prod(problem.X[:, true_columns], axis=1)
    np.testing.assert_allclose(np.corrcoef(product, problem.y)[0, 1], expected, atol=4 / np.sqrt(8192))


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
    for module in (interactions, added_columns):
        monkeypatch.setattr(module, "RESULTS", tmp_path / f"{module.__name__}.csv")
        monkeypatch.setattr(module, "PEER_RESULTS", tmp_path / f"{module.__name__}_peers.csv")


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


# --- added columns --------------------------------------------------------------------------------------------------------


@pytest.fixture
def X():
    """Skewed columns of very different scales."""
    return np.random.default_rng(0).lognormal(size=(4000, 6)) * 10.0 ** np.arange(6)


@pytest.mark.parametrize("way", added_columns.WAYS)
@pytest.mark.parametrize(("fraction", "n_columns"), [(0.5, 12), (0.75, 24)])
def test_fraction_counts_added_columns_among_all(X, way, fraction, n_columns):
    table, is_original = added_columns.with_added_columns(X, way, fraction, seed=1)
    assert table.shape == (4000, n_columns)
    assert np.mean(~is_original) == fraction


@pytest.mark.parametrize("way", added_columns.WAYS)
def test_original_columns_are_unchanged_and_not_in_front(X, way):
    table, is_original = added_columns.with_added_columns(X, way, 0.75, seed=1)
    originals = table[:, is_original]
    np.testing.assert_array_equal(originals[:, np.argsort(originals.mean(axis=0))], X)
    assert not is_original[:6].all()


def test_random_columns_are_standard_normal_and_know_nothing_of_the_table(X):
    added = added_columns.random_columns(X, 5, np.random.default_rng(1))
    np.testing.assert_allclose([added.mean(), added.std()], [0, 1], atol=0.03)
    assert np.all(np.abs(np.corrcoef(X.T, added.T)[:6, 6:]) < 0.07)


def test_corrupted_copy_is_half_column_half_noise_of_the_same_deviation(X):
    added = added_columns.corrupted_copies(X, 8, np.random.default_rng(1))
    correlations = np.corrcoef(X.T, added.T)[:6, 6:]
    source = correlations.argmax(axis=0)
    np.testing.assert_allclose(correlations.max(axis=0), np.sqrt(0.5), atol=0.04)
    np.testing.assert_allclose((2 * added - X[:, source]).std(axis=0) / X[:, source].std(axis=0), 1, atol=0.06)


def test_second_order_column_is_the_product_of_two_columns(X):
    products = [X[:, i] * X[:, j] for i, j in combinations_with_replacement(range(6), 2)]
    for column in added_columns.second_order(X, 18, np.random.default_rng(1)).T:
        assert any(np.array_equal(column, one) for one in products)


def test_table_with_added_columns_is_measured_by_what_was_kept(X, empty_results, monkeypatch):
    """A system that keeps three original columns of six, and one that keeps them all."""
    y = X[:, 0]

    def keep(problem, n):
        is_original = np.array([any(np.isin(column[:5], X)) for column in problem.X.T])
        return Outcome(
            np.concatenate([np.flatnonzero(is_original)[:n], np.flatnonzero(~is_original)[: 6 - n]]), -0.1, 1.0
        )

    monkeypatch.setattr(added_columns.pool_tables, "load", lambda name: pool_tables.Table(name, X, y))
    monkeypatch.setattr(added_columns, "fit_ours", lambda problem, budget, seed, size_rule: keep(problem, 3))
    monkeypatch.setattr(added_columns, "fit_peer", lambda name, problem, budget, seed: keep(problem, budget))
    added_columns.run(["some"], ["random"], range(1, 2), ["skinnytrees, full", "forest"], 1)
    rows = added_columns.all_rows()
    assert [(row["system"], row["originals"], row["score"]) for row in rows] == 2 * [
        ("skinnytrees, full", 0.5, 0.0)
    ] + 2 * [("forest", 1, 0.0)]
    assert added_columns.gap(rows, ("some", "random", 0.5), "skinnytrees, full", ["forest"], "originals") == -0.5


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


def test_split_keeps_the_classes_in_proportion():
    y = np.repeat([0, 1], [90, 10])
    problem = added_columns.split(np.zeros((100, 1)), y, seed=1)
    assert (len(problem.y_test), problem.y_test.sum()) == (20, 2)
