"""Theorem 1 of the paper: over the full batch, at a small rate, Algorithm 1 descends, stays bounded and converges."""

import functools
from typing import NamedTuple

import numpy as np
import pytest
from reference import Ensemble, objective, random_trees, single_columns

from skinnytrees.activations import SmoothStep
from skinnytrees.kernels.state import Data, view_trees
from skinnytrees.losses import SquaredError
from skinnytrees.penalties import GroupL0
from skinnytrees.training.loop import TrainingSettings, run_epochs

LAMBDA0, L2 = 0.02, 0.02


class Run(NamedTuple):
    """Weights before the first step and after every step, with the objective at each."""

    W: np.ndarray
    flat: np.ndarray
    objective: np.ndarray


@functools.cache
def descend(seed: int, n_trees: int, depth: int, eta: float, n_steps: int) -> Run:
    """Full-batch training on steps in two columns; the other four say nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 6))
    data = Data(X, np.sign(X[:, :1]) + 0.5 * np.sign(X[:, 1:2]), np.ones(40))
    trees = random_trees(6, 1, rng, n_trees=n_trees, depth=depth)
    iterates = [trees.flat.copy()]
    settings = TrainingSettings(
        SquaredError(), SmoothStep(), n_epochs=n_steps, batch_size=40, learning_rate=eta, l2=L2,
        penalty=GroupL0(LAMBDA0),
    )  # fmt: skip
    for _, _, run in run_epochs(trees.copy(), data, single_columns(6), settings, rng):
        trees.put(*run.snapshot()())
        iterates.append(trees.flat.copy())
    ensembles = [view_trees(flat, *trees.W.shape, trees.O.shape) for flat in iterates]
    values = [objective(Ensemble.of(e), data, SquaredError(), SmoothStep(), LAMBDA0, L2) for e in ensembles]
    return Run(np.array([e.W for e in ensembles]), np.array(iterates), np.array(values))


STUMPS = [(seed, 1, 1, 0.3, 2000) for seed in (0, 1, 2)]
FORESTS = [(seed, 3, 2, 0.05, 1000) for seed in (0, 1)]


@pytest.mark.parametrize("case", STUMPS + FORESTS)
def test_objective_never_rises(case):
    values = descend(*case).objective
    assert np.diff(values).max() <= 1e-12
    assert values[-1] < values[0] / 2


@pytest.mark.parametrize("case", STUMPS + FORESTS)
def test_hyperplanes_stay_bounded_by_what_the_ridge_allows(case):
    """As the objective never rises, the ridge term alone never exceeds the objective of the start."""
    W, _, values = descend(*case)
    ridge = L2 / W.shape[2] * np.sum(W**2, axis=(1, 2))
    assert ridge.max() <= values[0]


@pytest.mark.parametrize("case", STUMPS)
def test_iterates_converge_and_the_support_settles(case):
    """For single stumps, whose leaf weights stay bounded here, as the theorem asks (assumption A3)."""
    W, flat, _ = descend(*case)
    lengths = np.linalg.norm(np.diff(flat, axis=0), axis=1)
    assert lengths[0] > 0.01
    assert lengths[-100:].max() < 1e-9
    support = W.any(axis=2)
    assert (support[-1000:] == support[-1]).all()
    assert 0 < support[-1].sum() < 6
