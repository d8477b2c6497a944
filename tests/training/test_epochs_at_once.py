"""Many epochs in one compiled call do what the same epochs do one by one."""

import numpy as np
import pytest
from reference import random_data, random_trees
from scipy import sparse

from skinnytrees.activations import Sigmoid
from skinnytrees.exceptions import DivergenceError
from skinnytrees.losses import SquaredError
from skinnytrees.optimizers import Adam, FixedSupportSGD, OneCycle
from skinnytrees.training.loop import TrainingSettings, run_epochs, train_unwatched

OPTIMIZERS = pytest.mark.parametrize("optimizer", [FixedSupportSGD(), Adam()], ids=lambda optimizer: optimizer.steps)


def problem(kind):
    """An ensemble and 30 rows: four steps per epoch of eight rows."""
    rng = np.random.default_rng(1)
    n_columns = 50 if kind == "wide" else 4
    trees = random_trees(n_columns, 1, rng, dtype=np.float32)
    data = random_data(SquaredError(), 30, n_columns, 1, rng, np.float32)
    return trees, data._replace(X=sparse.csr_array(data.X)) if kind == "sparse" else data


def settings_for(optimizer, learning_rate=0.05):
    return TrainingSettings(
        SquaredError(), Sigmoid(), n_epochs=9, batch_size=8, learning_rate=learning_rate, l2=0.1, optimizer=optimizer,
        schedule=OneCycle(),
    )  # fmt: skip


def one_by_one(kind, settings, rng):
    """Weights, the last loss, and what the generator draws next."""
    trees, data = problem(kind)
    *_, (loss, _, runner) = run_epochs(trees, data, np.array([0, len(trees.W)]), settings, rng)
    runner.sync()
    return trees.flat, loss, rng.random()


def at_once(kind, settings, rng):
    trees, data = problem(kind)
    loss = train_unwatched(trees, data, settings, rng)
    return trees.flat, loss, rng.random()


@pytest.mark.parametrize("multiplied", [0, 10_000, 10**9], ids=["one epoch per call", "some", "all in one call"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "wide"])
@OPTIMIZERS
def test_epochs_at_once_give_the_same_bits_as_one_by_one(optimizer, kind, multiplied, monkeypatch):
    monkeypatch.setattr("skinnytrees.training.loop._MULTIPLIED_AT_ONCE", multiplied)
    settings = settings_for(optimizer)
    expected = one_by_one(kind, settings, np.random.default_rng(3))
    found = at_once(kind, settings, np.random.default_rng(3))
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1:] == expected[1:]
    assert (found[0] != problem(kind)[0].flat).any()


@pytest.mark.parametrize("kind", ["dense", "sparse", "wide"])
@pytest.mark.parametrize(
    ("optimizer", "learning_rate"), [(FixedSupportSGD(), 1e4), (Adam(), 1e16)], ids=["plain", "Adam"]
)
def test_training_that_diverges_in_the_middle_of_a_call_stops_in_the_same_epoch(optimizer, learning_rate, kind):
    settings = settings_for(optimizer, learning_rate)
    next_numbers = []
    for train in (one_by_one, at_once):
        rng = np.random.default_rng(3)
        with pytest.raises(DivergenceError, match="in epoch 2:"), np.errstate(all="ignore"):
            train(kind, settings, rng)
        next_numbers.append(rng.random())
    assert next_numbers[0] == next_numbers[1], "what follows must not depend on how many epochs one call makes"
