"""Prediction: what the fitted ensemble computes, what it reads to do so, and what it leaves alone."""

import functools
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import reference
from reference import Ensemble, random_trees
from scipy import sparse
from sklearn import config_context
from threadpoolctl import threadpool_limits

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.activations import Sigmoid, SmoothStep
from skinnytrees.kernels.hard_splits import reached_fraction
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.penalties import GroupL0
from skinnytrees.tables.column_views import Curves
from skinnytrees.tables.encoding import Encoder

N_FEATURES = 30


def plain_encoder(features, rng=None) -> Encoder:
    """One design column per feature, standardised by numbers that differ."""
    n = len(features)
    rng = rng or np.random.default_rng(0)
    nothing = np.zeros(n, dtype=bool)
    return Encoder(
        feature=np.asarray(features, dtype=np.intp),
        mean=rng.normal(size=n),
        scale=rng.uniform(0.5, 2, size=n),
        level=np.full(n, np.nan),
        is_indicator=nothing,
        is_level=nothing,
        curves=Curves.none(n),
        offsets=np.arange(n + 1),
        farthest=1e15,
    )


def random_model(features, n_outputs=2, activation=None, dtype=np.float32, **shape) -> SoftTrees:
    rng = np.random.default_rng(0)
    trees = random_trees(len(features), n_outputs, rng, dtype=dtype, **shape)
    return SoftTrees(plain_encoder(features), trees, rng.normal(size=n_outputs), activation or Sigmoid())


def random_table(n_rows=70, n_columns=N_FEATURES):
    return np.random.default_rng(1).normal(size=(n_rows, n_columns))


# ------------------------------------------------------------------------------------------------ what is computed


@pytest.mark.parametrize("activation", [Sigmoid(0.7), SmoothStep(1.5)], ids=lambda activation: activation.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_columns", [0, 1, 7, 8, 9, 24, 30])
def test_prediction_is_the_sum_over_trees(activation, dtype, n_columns):
    """Columns are added in eights, splits in blocks of hundreds: 900 splits make a block and a part of one."""
    X = random_table()
    for shape in ({"n_trees": 3, "depth": 3}, {"n_trees": 300, "depth": 2}):
        model = random_model(np.arange(n_columns), 3, activation, dtype, **shape)
        design = np.float32((X[:, :n_columns] - model.encoder.mean) / model.encoder.scale).astype(float)
        expected = reference.predict(Ensemble.of(model.trees), design, activation) + model.base
        exact = dtype == np.float64
        np.testing.assert_allclose(model.raw(X), expected, rtol=1e-10 if exact else 1e-4, atol=0 if exact else 1e-4)


@pytest.mark.parametrize("activation", [Sigmoid(), SmoothStep(0.01)], ids=["all nodes", "reached nodes"])
@pytest.mark.parametrize("n_columns", [5, 200])
def test_outputs_of_a_row_do_not_depend_on_the_rows_beside_it(n_columns, activation):
    model = random_model(np.arange(n_columns), n_trees=10, depth=6, activation=activation)
    X = random_table(1500, 200)
    together = model.raw(X)
    for rows in ([0], [1], [31, 32], range(700), range(5, 38), [1499]):
        np.testing.assert_array_equal(model.raw(X[list(rows)]), together[list(rows)])


def test_outputs_do_not_depend_on_the_number_of_threads():
    """The product of all rows with all splits is large enough for BLAS to cut it for threads."""
    model = random_model(np.arange(N_FEATURES), n_trees=50, depth=4)
    X = random_table(500)
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            results.append(model.raw(X))
    np.testing.assert_array_equal(*results)


def test_design_is_what_the_encoder_says_of_each_column():
    """Values, an indicator of gaps, and 0/1 columns of two categories and of the missing one."""
    encoder = Encoder(
        feature=np.array([0, 0, 1, 1, 1]),
        mean=np.array([2.0, 0, 0, 0, 0]),
        scale=np.array([4.0, 1, 1, 1, 1]),
        level=np.array([np.nan, np.nan, 0, 3, np.nan]),
        is_indicator=np.array([False, True, False, False, False]),
        is_level=np.array([False, False, True, True, True]),
        curves=Curves.none(5),
        offsets=np.array([0, 2, 5]),
        farthest=10.0,
    )
    X = np.array([[6.0, 3.0], [np.nan, 0.0], [1e300, np.nan], [-1e300, -1.0]])
    expected = [[1, 0, 0, 1, 0], [0, 1, 1, 0, 0], [10, 0, 0, 0, 1], [-10, 0, 0, 0, 0]]
    np.testing.assert_array_equal(encoder.encode(X), np.float32(expected))
    np.testing.assert_array_equal(encoder.encode(sparse.csr_array(X)), np.float32(expected))


def test_narrowed_model_predicts_the_same_from_its_columns_alone():
    model = random_model([3, 3, 11, 7])
    X = random_table()
    assert model.features.tolist() == [3, 7, 11]
    np.testing.assert_array_equal(model.narrowed.raw(X[:, [3, 7, 11]]), model.raw(X))


# ------------------------------------------------------------------------------------------------ what is not reached


def hard_model(theta=0.05, dtype=np.float32, n_columns=200, depth=6) -> SoftTrees:
    """Splits so hard that most nodes of a tree are not reached."""
    return random_model(np.arange(n_columns), 3, SmoothStep(theta), dtype, n_trees=4, depth=depth)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("theta", [0.01, 0.3, 5.0])
@pytest.mark.parametrize("depth", [1, 2, 6])
def test_nodes_visited_one_by_one_give_the_same_outputs(theta, dtype, depth, monkeypatch):
    """With 300 rows, more than go down a tree together."""
    model, X = hard_model(theta, dtype, depth=depth), random_table(300, 200)
    outputs = []
    for pays in (True, False):
        monkeypatch.setattr("skinnytrees.model.soft_trees.visits_pay", lambda trees, theta, pays=pays: pays)
        fresh = pickle.loads(pickle.dumps(model))
        outputs.append(fresh.raw(X))
        assert (fresh.reached_nodes is not None) == pays
    np.testing.assert_allclose(*outputs, **({"rtol": 1e-10} if dtype == np.float64 else {"rtol": 1e-3, "atol": 1e-3}))


def test_subtrees_that_a_row_does_not_reach_are_not_read():
    """What is not a number there does not show."""
    model, X = hard_model(), random_table(1, 200)
    expected = model.raw(X)
    nodes, n_splits = model.reached_nodes, model.trees.W.shape[1] // model.trees.n_trees
    for tree in range(model.trees.n_trees):
        root = tree * n_splits
        score = model.encoder.encode_dense(X)[0] @ nodes.W[root] + nodes.b[root, 0]
        assert abs(score) > model.activation.theta
        nodes.W[root + (2 if score > 0 else 1)] = np.nan
    np.testing.assert_array_equal(model.raw(X), expected)


def test_visits_are_chosen_where_few_nodes_are_reached():
    assert hard_model(theta=0.05).reached_nodes is not None
    assert hard_model(theta=50.0).reached_nodes is None
    assert random_model(np.arange(200), n_trees=4, depth=6).reached_nodes is None, "a sigmoid has no exact zeros"
    assert random_model([], activation=SmoothStep(0.05)).raw(random_table(2)).shape == (2, 2)


@pytest.mark.parametrize("theta", [0.3, 3.0])
def test_share_of_reached_nodes_is_foreseen_from_the_weights(theta):
    trees = hard_model(theta).trees
    design = np.random.default_rng(2).normal(size=(2_000, len(trees.W)))
    scores = design @ trees.W + trees.b
    reached = np.ones_like(scores, dtype=bool)
    for level in range(1, 6):
        first, width = trees.n_trees * (2 ** (level - 1) - 1), trees.n_trees * 2 ** (level - 1)
        here, below = slice(first, first + width), first + width
        reached[:, below : below + width] = reached[:, here] & (scores[:, here] > -theta)
        reached[:, below + width : below + 2 * width] = reached[:, here] & (scores[:, here] < theta)
    assert reached_fraction(trees, theta) == pytest.approx(reached.mean(), rel=0.1)


# ------------------------------------------------------------------------------------------------ what is read


LAYOUTS = {
    "columns first": np.asfortranarray,
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "backwards": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "other byte order": lambda X: X.astype(">f8"),
    "objects": lambda X: X.astype(object),
    "lists": lambda X: X.tolist(),
    "csr": sparse.csr_array,
    "csc": sparse.csc_matrix,
    "coo": sparse.coo_array,
    "pandas": lambda X: pd.DataFrame(X),
}


@functools.cache
def fitted():
    """A regressor on five of the columns."""
    X = random_table()
    return SkinnyTreesRegressor(5, size_rule="full", max_epochs=2, random_state=0).fit(X, X[:, :5].sum(axis=1))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_same_numbers_are_predicted_the_same_however_they_are_laid_out(layout):
    X = random_table()
    np.testing.assert_allclose(fitted().predict(layout(X)), fitted().predict(X), rtol=1e-6)


def test_read_only_and_mapped_arrays_are_predicted(tmp_path):
    X = random_table()
    mapped = np.memmap(tmp_path / "table", dtype=np.float64, mode="w+", shape=X.shape)
    mapped[:] = X
    frozen = X.copy()
    frozen.setflags(write=False)
    for table in (mapped, frozen):
        np.testing.assert_array_equal(fitted().predict(table), fitted().predict(X))


def test_single_precision_is_read_as_it_is():
    X = random_table().astype(np.float32)
    np.testing.assert_array_equal(fitted().predict(X), fitted().predict(X.astype(np.float64)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_unselected_columns_may_hold_anything(value):
    model, X = fitted(), random_table()
    others = X.copy()
    others[:, ~model.support_] = value
    np.testing.assert_array_equal(model.predict(others), model.predict(X))
    for kind in (sparse.csr_array, sparse.csc_array, pd.DataFrame):
        np.testing.assert_allclose(model.predict(kind(others)), model.predict(X), rtol=1e-6)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_unselected_columns_of_a_frame_may_hold_anything(kind):
    rng = np.random.default_rng(0)
    plain = {"size": rng.normal(size=80), "noise": rng.normal(size=80)}
    for frame in (plain, {**plain, "colour": rng.choice(["red", "blue"], 80)}):
        model = SkinnyTreesRegressor(1, max_epochs=2, random_state=0).fit(kind(frame), frame["size"])
        assert model.get_feature_names_out().tolist() == ["size"]
        changed = {name: column if name == "size" else ["?"] * 80 for name, column in frame.items()}
        np.testing.assert_array_equal(model.predict(kind(changed)), model.predict(kind(frame)))


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, pd.DataFrame, sparse.csr_array])
def test_infinity_in_a_selected_column_is_refused(kind):
    X = random_table()
    X[60, np.flatnonzero(fitted().support_)[2]] = np.inf
    with pytest.raises(ValueError, match=r"Input X contains infinity or a value too large"):
        fitted().predict(kind(X))


def test_users_who_vouch_for_their_numbers_are_believed():
    X = random_table()
    X[60, fitted().support_] = np.inf
    with config_context(assume_finite=True):
        assert np.isfinite(fitted().predict(X)).all()


@pytest.mark.filterwarnings("ignore::skinnytrees.exceptions.SelectionWarning")
def test_model_without_features_predicts_its_constant():
    X = random_table()
    model = SkinnyTreesClassifier(penalty=GroupL0(1e6), max_epochs=2, n_estimators=3, random_state=0).fit(
        X, X[:, 0] > 0
    )
    assert model.n_features_selected_ == 0
    for table in (np.full((4, N_FEATURES), np.nan), pd.DataFrame(X[:4]), sparse.csr_array(X[:4]), X[:4].tolist()):
        proba = model.predict_proba(table)
        np.testing.assert_array_equal(proba, np.tile(proba[:1], (4, 1)))


@pytest.mark.parametrize("features", [[3, 50, 199], range(200)], ids=["few columns", "all columns"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_table_is_not_copied(features, order):
    model = random_model(list(features), n_outputs=1)
    X = np.zeros((20_000, 200), order=order)
    model.raw(X[:2])
    tracemalloc.start()
    model.raw(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < X.nbytes / 20
