"""ControlBurn's solver against clarabel and the optimality conditions, and its forest against its stopping rules."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import Lasso

from skinnytrees.baselines import ControlBurnClassifier, ControlBurnRegressor
from skinnytrees.baselines.base import Sample
from skinnytrees.baselines.controlburn import BagBoosting, forest_converged, round_converged
from skinnytrees.baselines.nonnegative_lasso import NonNegativeLasso


def random_problem(seed, is_logistic):
    """Columns like trees' predictions: correlated, some of them twice, with one to four features each."""
    rng = np.random.default_rng(seed)
    n, t = int(rng.integers(30, 80)), int(rng.integers(5, 40))
    A = rng.normal(size=(n, 4)) @ rng.normal(size=(4, t)) + 0.3 * rng.normal(size=(n, t))
    A[:, 1] = A[:, 0]
    eta = A[:, 2] - 0.5 * A[:, 3]
    y = (rng.random(n) < expit(eta)).astype(float) if is_logistic else eta + rng.normal(size=n)
    price = rng.integers(1, 5, size=t).astype(float)
    problem = NonNegativeLasso.of(A, y, rng.uniform(0.5, 2, size=n), price, is_logistic)
    return problem, A, float(10 ** rng.uniform(-3, -0.1)) * problem.alpha_max


@pytest.mark.parametrize("is_logistic", [True, False])
def test_objective_is_that_of_clarabel(is_logistic):
    cvxpy = pytest.importorskip("cvxpy", reason="the second solver needs cvxpy and clarabel")
    pytest.importorskip("clarabel", reason="the second solver needs cvxpy and clarabel")
    for seed in range(20):
        problem, A, alpha = random_problem(seed, is_logistic)
        w = cvxpy.Variable(A.shape[1], nonneg=True)
        eta = A @ w
        loss = cvxpy.logistic(eta) - cvxpy.multiply(problem.y, eta) if is_logistic else cvxpy.square(eta - problem.y)
        reference = cvxpy.Problem(cvxpy.Minimize(problem.row_weight @ loss + alpha * problem.price @ w))
        reference.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        ours = problem.objective(problem.solve(alpha), alpha)
        assert abs(ours - reference.value) <= 1e-6 * abs(reference.value)


@pytest.mark.parametrize("is_logistic", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_optimality_conditions_hold(seed, is_logistic):
    problem, A, alpha = random_problem(seed, is_logistic)
    w = problem.solve(alpha)
    eta = A @ w
    slope = expit(eta) - problem.y if is_logistic else 2 * (eta - problem.y)
    gradient = A.T @ (problem.row_weight * slope) + alpha * problem.price
    assert np.all(w >= 0)
    assert np.all(gradient >= -1e-6 * problem.alpha_max * problem.price)
    np.testing.assert_allclose(gradient[w > 0], 0, atol=1e-6 * problem.alpha_max * problem.price.max())


@pytest.mark.parametrize("is_logistic", [True, False])
def test_scaled_and_weighted_forms_agree(is_logistic):
    problem, A, alpha = random_problem(3, is_logistic)
    w = problem.solve(alpha)
    scaled = NonNegativeLasso.of(
        A / problem.price, problem.y, problem.row_weight, np.ones_like(problem.price), is_logistic
    )
    v = scaled.solve(alpha)
    np.testing.assert_allclose(A @ w, (A / problem.price) @ v, atol=1e-6)
    assert abs(problem.objective(w, alpha) - scaled.objective(v, alpha)) < 1e-10


def test_squared_loss_is_scikit_learns_lasso_at_half_the_penalty():
    problem, A, alpha = random_problem(4, False)
    problem = NonNegativeLasso.of(A, problem.y, np.ones(len(A)), np.ones(A.shape[1]), False)
    lasso = Lasso(alpha / 2, positive=True, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(A, problem.y)
    np.testing.assert_allclose(A @ problem.solve(alpha), A @ lasso.coef_, atol=1e-6)


@pytest.mark.parametrize("is_logistic", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_all_weights_vanish_exactly_from_alpha_max_on(seed, is_logistic):
    problem, A, _ = random_problem(seed, is_logistic)
    assert not problem.solve(problem.alpha_max).any()
    assert problem.solve(0.99 * problem.alpha_max).any()
    if is_logistic:
        half = A.T @ (problem.row_weight * (problem.y - 0.5)) / problem.price
        assert problem.alpha_max == pytest.approx(half.max())


def test_warm_starts_end_where_cold_starts_do():
    problem = random_problem(6, True)[0]
    alphas = problem.alpha_max * np.geomspace(0.9, 1e-3, 12)
    for alpha, w in zip(alphas, problem.path(alphas), strict=True):
        assert problem.objective(w, alpha) == pytest.approx(problem.objective(problem.solve(alpha), alpha), rel=1e-9)


def test_a_round_stops_by_its_rule_on_recorded_scores():
    rising = [0.5, 0.6, 0.7, 0.8, 0.81, 0.82, 0.83, 0.84]
    assert not any(round_converged(rising[:n]) for n in range(1, 9))
    flat = [*rising, 0.8405, 0.841, 0.8412, 0.8412, 0.8400]
    # The change into the last of the rising scores must have left the tail of five.
    assert [round_converged(flat[:n]) for n in range(8, 14)] == [False] * 5 + [True]
    assert not round_converged([0.9] * 6)
    assert round_converged([0.9] * 7)
    assert round_converged([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3])  # falling counts as no gain


def test_the_forest_stops_by_its_rule_on_recorded_gains():
    assert forest_converged([0.0])
    assert forest_converged([0.2, -0.1])
    assert not forest_converged([0.2, 0.1, 0.05])
    assert not forest_converged([5e-4, 5e-4, 5e-4])  # three rounds are too few
    assert forest_converged([0.2, 5e-4, 5e-4, 5e-4])
    assert not forest_converged([5e-4, 5e-4, 2e-3, 5e-4])
    assert not forest_converged([0.2, 5e-4, 5e-4, 5e-4], threshold=1e-4)


def test_depths_rise_from_round_to_round_and_each_round_has_seven_trees_at_least():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    trees = BagBoosting(3, 100, 1e-3, True).grow(Sample(X, y, np.ones(200)), np.random.default_rng(0))
    depths = np.array([tree.max_depth for tree in trees])
    assert np.all(np.diff(depths) >= 0)
    assert depths[0] == 1
    assert np.bincount(depths)[1:].min() >= 7


def test_a_copied_column_is_reported_not_asserted(record_property):
    """The published claim is that one of two copies is selected; the penalty does not force it."""
    both = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(150, 6))
        X[:, 1] = X[:, 0]
        y = (X[:, 0] + 0.5 * rng.normal(size=150) > 0).astype(int)
        model = ControlBurnClassifier(
            3, random_state=seed, n_estimators=5, n_alphas=20, max_depth=2, max_trees=10, n_jobs=1
        ).fit(X, y)
        assert model.support_[:2].any()
        both += int(model.support_[:2].all())
    record_property("both copies selected, of 3", both)


@pytest.mark.parametrize("cls", [ControlBurnClassifier, ControlBurnRegressor])
def test_thinned_forest_predicts_without_polish(cls):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = X[:, 0] + 0.5 * X[:, 3] if cls is ControlBurnRegressor else (X[:, 0] + 0.5 * X[:, 3] > 0).astype(int)
    model = cls(3, polish=False, max_depth=4, max_trees=15, random_state=0, n_jobs=1).fit(X, y)
    assert model.score(X, y) > 0.7
    assert set(model.path_[0].setting) == {"alpha"}
    assert len(model.path_) == 100


def test_several_classes_are_refused():
    with pytest.raises(ValueError, match="defined for two classes, but y has 3"):
        ControlBurnClassifier().fit(np.eye(6), [0, 0, 1, 1, 2, 2])
