"""Soft trees as peers: the group lasso's proximal step, and the path from dense to sparse."""

import numpy as np
import pytest
from scipy.optimize import minimize

from skinnytrees import SkinnyTreesClassifier
from skinnytrees.baselines import GroupLassoTreeClassifier
from skinnytrees.penalties import GroupLasso, soft_threshold
from tests.baselines.helpers import new, small_table

ONE_TREE = {
    "n_estimators": 1,
    "max_depth": 2,
    "max_epochs": 5,
    "l2": 0.0,
    "random_state": 0,
    "validation_fraction": None,
}


@pytest.mark.parametrize("seed", range(3))
def test_group_lasso_step_minimises_its_definition(seed):
    rng = np.random.default_rng(seed)
    z, c = rng.normal(size=5), 0.7

    def objective(w):
        return 0.5 * np.sum((w - z) ** 2) + c * np.linalg.norm(w)

    best = min((minimize(objective, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 5_000})
                for start in (z, 0.1 * z)), key=lambda result: result.fun)  # fmt: skip
    assert objective(soft_threshold(z, c)) <= best.fun + 1e-9


def test_kept_norms_fall_by_exactly_the_threshold():
    z = np.array([3.0, 4.0])
    assert np.linalg.norm(soft_threshold(z, 1.25)) == pytest.approx(5 - 1.25)
    assert not soft_threshold(z, 5.0).any()


def test_strength_zero_is_the_dense_tree_bit_by_bit():
    X, y = small_table("classifier")
    dense = SkinnyTreesClassifier(penalty=None, **ONE_TREE).fit(X, y)
    lasso = SkinnyTreesClassifier(penalty=GroupLasso(0.0), **ONE_TREE).fit(X, y)
    np.testing.assert_array_equal(dense.predict_proba(X), lasso.predict_proba(X))


def test_strength_is_the_papers_lambda1_over_the_root_of_the_splits():
    assert GroupLassoTreeClassifier(max_depth=3)._penalty(2.0).lam == pytest.approx(2.0 / np.sqrt(7))


@pytest.mark.parametrize("name", ["group_lasso_tree", "skinny_tree"])
def test_path_goes_from_all_features_to_few(name):
    X, y = small_table("classifier")
    path = new(name, n_strengths=10, max_epochs=30, batch_size=8).fit(X, y).path_
    assert path[0].setting == {"strength": 0.0}
    assert path.n_features[0] == 11  # all that vary
    assert path.n_features.min() <= 5
    strengths = [entry.setting["strength"] for entry in path]
    assert strengths == sorted(strengths)
