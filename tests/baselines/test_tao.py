"""Tree alternating optimisation against its definition."""

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.utils.fixes import parse_version

from skinnytrees.baselines import TAOClassifier
from skinnytrees.baselines.base import Sample
from skinnytrees.baselines.oblique_tree import (
    NodeStep,
    ObliqueTree,
    iterate,
    largest_penalty,
    optimise,
    prune,
    pseudo_labels,
    update_leaves,
)


def random_sample(seed, n_rows=60, n_columns=4, n_classes=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=n_rows)).argsort().argsort() * n_classes // n_rows
    return Sample(X, y, np.ones(n_rows))


def start(seed, depth, sample, n_classes=3):
    tree = ObliqueTree.random(depth, sample.X.shape[1], n_classes, np.random.default_rng(seed))
    update_leaves(tree, sample)
    return tree


def n_errors(tree, sample):
    return int((tree.predict_proba(sample.X).argmax(axis=1) != sample.y).sum())


class Watched(NodeStep):
    """Keeps the training error after each node."""

    errors: list = []  # noqa: RUF012

    def __call__(self, tree, node, sample, rows):
        super().__call__(tree, node, sample, rows)
        self.errors.append(n_errors(tree, sample))


@settings(max_examples=10)
@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([0.1, 1.0, 10.0]))
def test_training_error_never_rises_at_any_node(seed, depth, lam):
    sample = random_sample(seed)
    tree = start(seed, depth, sample)
    step = Watched(lam, "no_worse", 0)
    step.errors.clear()
    step.errors.append(n_errors(tree, sample))
    for _ in range(3):
        iterate(tree, sample, step)
    update_leaves(tree, sample)
    step.errors.append(n_errors(tree, sample))
    assert np.all(np.diff(step.errors) <= 0)


def test_error_can_rise_where_every_hyperplane_is_accepted():
    """The other rule is needed: under this one the error does rise on some of these tables."""
    for seed in range(40):
        sample = random_sample(seed)
        tree = start(seed, 3, sample)
        step = Watched(5.0, "always", 0)
        step.errors.clear()
        for _ in range(3):
            iterate(tree, sample, step)
        if np.any(np.diff(step.errors) > 0):
            return
    pytest.fail("the error never rose")


def test_one_node_with_fixed_leaves_is_the_logistic_regression_of_all_rows():
    sample = random_sample(0, n_rows=120, n_classes=2)
    tree = ObliqueTree(np.zeros((1, 4)), np.ones(1), np.eye(2))
    NodeStep(2.0, "always", 0)(tree, 0, sample, np.arange(120))
    l1 = {"l1_ratio": 1.0} if parse_version(sklearn.__version__) >= parse_version("1.8") else {"penalty": "l1"}
    liblinear = LogisticRegression(solver="liblinear", C=0.5, intercept_scaling=100, random_state=0, **l1)
    reference = liblinear.fit(sample.X, sample.y)
    np.testing.assert_allclose(tree.W[0], reference.coef_[0], atol=1e-6)
    np.testing.assert_allclose(tree.b[0], reference.intercept_[0], atol=1e-6)
    # The same minimum, by its definition: no small move of the weights lowers ||w||_1 + C sum of log-losses.
    sign = 2 * sample.y - 1

    def objective(w, b):
        return np.abs(w).sum() + 0.5 * np.logaddexp(0, -sign * (sample.X @ w + b)).sum()

    best = objective(tree.W[0], tree.b[0])
    for k in range(4):
        for move in (-0.05, 0.05):
            assert objective(tree.W[0] + move * np.eye(4)[k], tree.b[0]) > best


def test_order_of_updates_within_a_depth_does_not_matter():
    sample, step = random_sample(1), NodeStep(0.5, "always", 0)
    forward, backward = start(1, 3, sample), start(1, 3, sample)
    reached = forward.route(sample.X, np.arange(60))
    for tree, nodes in ((forward, (3, 4, 5, 6)), (backward, (6, 5, 4, 3))):
        for node in nodes:
            if node in reached:
                step(tree, node, sample, reached[node])
    np.testing.assert_array_equal(forward.W, backward.W)
    np.testing.assert_array_equal(forward.b, backward.b)


@pytest.mark.parametrize("node", range(7))
def test_pseudo_labels_are_those_of_forcing_the_node_left_and_right(node):
    sample = random_sample(2)
    tree = start(2, 3, sample)
    rows = tree.route(sample.X, np.arange(60)).get(node, np.arange(0))
    care, right = pseudo_labels(tree, node, sample, rows)
    wrong = {}
    for side, threshold in (("left", -np.inf), ("right", np.inf)):
        forced = tree.copy()
        forced.W[node], forced.b[node] = 0.0, threshold
        wrong[side] = forced.predict_proba(sample.X).argmax(axis=1) != sample.y
    expected = [n for n in rows if wrong["left"][n] != wrong["right"][n]]
    assert sorted(care) == sorted(expected)
    assert dict(zip(care.tolist(), right.tolist(), strict=True)) == {n: bool(wrong["left"][n]) for n in expected}


@pytest.mark.parametrize("seed", range(5))
def test_pruning_leaves_the_predictions_of_the_training_rows_unchanged(seed):
    sample = random_sample(seed)
    tree = start(seed, 4, sample)
    optimise(tree, sample, NodeStep(1.0, "no_worse", 0), 3)
    pruned = prune(tree, sample)
    np.testing.assert_array_equal(pruned.predict_proba(sample.X), tree.predict_proba(sample.X))
    assert len(pruned.b) < tree.n_nodes
    assert len(pruned.frequencies) == len(pruned.b) + 1


def test_pruning_removes_nodes_that_send_all_rows_one_way():
    sample = random_sample(0)
    tree = ObliqueTree(np.zeros((3, 4)), np.array([1.0, 1.0, 0.0]), np.eye(4, 3))
    tree.W[2, 0] = 1.0  # only the right child of the root splits
    pruned = prune(tree, sample)
    assert len(pruned.b) == 1
    np.testing.assert_array_equal(pruned.predict_proba(sample.X), tree.predict_proba(sample.X))


def test_a_large_penalty_empties_every_node():
    sample = random_sample(3)
    lam = np.abs(sample.X).sum(axis=0).max()
    tree = start(3, 3, sample)
    # Under "always", every node that has rows with a choice is replaced.
    optimise(tree, sample, NodeStep(lam, "always", 0), 10)
    assert not prune(tree, sample).W.any()


def test_largest_penalty_is_where_the_last_weight_goes():
    sample = random_sample(4, n_classes=2)
    # A symmetric table: liblinear's penalised intercept, zero here, does not disturb the comparison.
    sample = Sample(np.vstack([sample.X, -sample.X]), np.append(sample.y, 1 - sample.y), np.ones(120))
    tree = ObliqueTree(np.zeros((1, 4)), np.ones(1), np.eye(2))
    lam = largest_penalty(tree, sample)
    for factor, is_empty in ((1.01, True), (0.95, False)):
        node = tree.copy()
        NodeStep(factor * lam, "always", 0)(node, 0, sample, np.arange(120))
        assert (not node.W.any()) == is_empty


def test_xor_is_solved_from_one_of_ten_starts():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 2))
    X += 0.1 * np.sign(X)
    sample = Sample(X, (X[:, 0] * X[:, 1] > 0).astype(int), np.ones(300))
    errors = []
    for seed in range(10):
        tree = start(seed, 2, sample, n_classes=2)
        optimise(tree, sample, NodeStep(0.01, "no_worse", 0), 30)
        errors.append(n_errors(tree, sample))
    assert min(errors) == 0


def test_cart_start_predicts_like_cart():
    from sklearn.tree import DecisionTreeClassifier

    sample = random_sample(5)
    tree = ObliqueTree.from_cart(3, sample, 3, 0)
    cart = DecisionTreeClassifier(max_depth=3, random_state=0).fit(sample.X, sample.y)
    np.testing.assert_allclose(tree.predict_proba(sample.X), cart.predict_proba(sample.X))


def test_path_gets_sparser_under_the_rule_that_never_raises_the_error():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    y = (X[:, 0] - X[:, 2] + 0.5 * rng.normal(size=200) > 0).astype(int)
    sizes = TAOClassifier(max_depth=2, n_lambdas=6, random_state=0).fit(X, y).path_.n_features
    assert sizes[0] >= 8
    assert sizes.min() <= 3


@pytest.mark.parametrize("accept", ["no_worse", "always"])
@pytest.mark.parametrize("init", ["cart", "random"])
def test_every_rule_and_start_learns_a_plane(accept, init):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = (X[:, 0] - X[:, 2] > 0).astype(int)
    model = TAOClassifier(3, accept=accept, init=init, max_depth=2, n_lambdas=5, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.support_[[0, 2]].all()
    assert {"lam"} == set(model.path_[0].setting)
