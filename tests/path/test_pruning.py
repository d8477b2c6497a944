"""Pruning: its start, and what is done where that stays on the plateau of a constant prediction."""

from dataclasses import replace

import numpy as np
import pytest

from skinnytrees.kernels.state import Data
from skinnytrees.path.pruning import start_pruning
from skinnytrees.path.rules import DEFAULT_RULES, PathRules
from skinnytrees.path.trainer import Trainer
from skinnytrees.starts import Glorot

from .helpers import make_inputs


def rules_of_one_epoch(**changes):
    start = replace(
        DEFAULT_RULES.pruning.start, n_epochs=1, learning_rate=0.03, n_trees=20, batch_size=32, start=Glorot()
    )
    pruning = replace(DEFAULT_RULES.pruning, start=start, full_steps_up_to_columns=np.inf, plateau=0.9, **changes)
    return PathRules(pruning=pruning, training=replace(DEFAULT_RULES.training, fewest_epochs=1))


def parity():
    """The product of three signs: fewer than all three say nothing, and a few epochs from random planes learn nothing."""
    X = np.sign(np.random.default_rng(0).normal(size=(400, 3))).astype(np.float32)
    return Data(X, X.prod(axis=1, keepdims=True), np.ones(400, dtype=np.float32))


@pytest.fixture
def trained_epochs(monkeypatch):
    """Number of epochs of every new ensemble."""
    epochs, start = [], Trainer.start
    monkeypatch.setattr(
        Trainer,
        "start",
        lambda trainer, data, recipe, rng: epochs.append(recipe.n_epochs) or start(trainer, data, recipe, rng),
    )
    return epochs


def start_on(data, rules):
    inputs = make_inputs(data, rules=rules)
    return start_pruning(inputs, np.arange(data.X.shape[1]), np.random.default_rng(0))


def test_start_that_stays_on_the_plateau_is_trained_longer(trained_epochs):
    data = parity()
    short = start_on(data, rules_of_one_epoch(more_epochs=()))
    _, constant = make_inputs(data).trainer.reference_losses(data.Y, data.weight.astype(float))
    assert short.train_loss > 0.9 * constant, "nothing to rescue"
    rescued = start_on(data, rules_of_one_epoch(more_epochs=(3.0, 100.0, 200.0)))
    assert trained_epochs == [1, 1, 3, 100], "the last is not needed"
    assert rescued.train_loss < 0.5 * constant


def test_best_start_is_kept_where_none_leaves_the_plateau(trained_epochs):
    rng = np.random.default_rng(0)
    noise = Data(*(rng.normal(size=(60, n)).astype(np.float32) for n in (2, 1)), np.ones(60, dtype=np.float32))
    rules = rules_of_one_epoch(more_epochs=(2.0, 3.0))
    point = start_on(noise, replace(rules, pruning=replace(rules.pruning, plateau=0.0)))
    assert trained_epochs == [1, 2, 3]
    losses = []
    for n_epochs in (1, 2, 3):
        start = replace(rules.pruning.start, n_epochs=n_epochs)
        losses.append(
            start_on(noise, replace(rules, pruning=replace(rules.pruning, start=start, more_epochs=()))).train_loss
        )
    assert point.train_loss <= losses[0]
    assert point.groups.tolist() == [0, 1]


def test_start_that_learns_is_not_trained_again(trained_epochs):
    data = parity()
    data = data._replace(Y=data.X[:, :1].copy())
    rules = rules_of_one_epoch()
    start_on(data, replace(rules, pruning=replace(rules.pruning, start=replace(rules.pruning.start, n_epochs=20))))
    assert trained_epochs == [20]
