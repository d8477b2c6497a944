"""Training ensembles at a fixed support: one, several in parallel, and the mean of several."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from skinnytrees.activations import Activation
from skinnytrees.exceptions import DivergenceError
from skinnytrees.kernels.state import Data, Functions, Trees, view_trees
from skinnytrees.losses import Loss, evaluate_loss
from skinnytrees.path.coordinates import Coordinates
from skinnytrees.path.rules import Blend, Recipe
from skinnytrees.starts import StartRows
from skinnytrees.threads import side_by_side
from skinnytrees.training.loop import TrainingSettings, evaluate, refuse_divergence, train_unwatched
from skinnytrees.training.memory import Memory, fingerprint, generator_state

# The loss of an ensemble that overflows; its square is still a number.
_HOPELESS = 1e100
# Training has diverged where it ends with more than this many times the loss of outputs that are zero, with or without overflow.
_DIVERGED = 3.0


@dataclass(frozen=True)
class Trainer:
    """Loss and activation, and what can be done with them on this many threads."""

    loss: Loss
    activation: Activation
    n_outputs: int
    n_threads: int = 1
    memory: Memory | None = None

    @property
    def functions(self) -> Functions:
        """Compiled loss and activation."""
        return TrainingSettings(self.loss, self.activation, 1, 1, 1.0, 0.0).functions(np.float32)

    def train(self, trees: Trees, data: Data, recipe: Recipe, rng: np.random.Generator) -> float:
        """Train in place at a fixed support and return the last epoch's mean loss."""
        coordinates = Coordinates(data, recipe.variance_floor)
        coordinates.enter(trees)
        loss = self._train_or_recall(trees, coordinates.data, recipe, rng)
        coordinates.leave(trees)
        return loss

    def _train_or_recall(self, trees: Trees, data: Data, recipe: Recipe, rng: np.random.Generator) -> float:
        """Train in place.

        What an earlier process has trained from the same start on the same data is taken from the memory. Without epochs, the
        ensemble stays as it has started.
        """
        if recipe.n_epochs == 0:
            return float(np.average(self.row_losses(trees, data), weights=data.weight))
        if self.memory is None:
            return self._train(trees, data, recipe, rng)
        key = fingerprint([self.loss, self.activation, recipe, trees.flat, trees.O, data], rng)
        known = self.memory.recall(key)
        if known is not None:
            trees.flat[:] = known.arrays["weights"]
            rng.bit_generator.state = known.numbers["generator"]
            return float(known.numbers["loss"])
        loss = self._train(trees, data, recipe, rng)
        self.memory.keep(key, {"generator": generator_state(rng), "loss": loss}, {"weights": trees.flat})
        return loss

    def _train(self, trees: Trees, data: Data, recipe: Recipe, rng: np.random.Generator) -> float:
        """A rate at which training diverges is reduced until it does not; the smallest rate only has to give numbers."""
        start = trees.flat.copy()
        limit = self._highest_loss(data)
        rate = recipe.learning_rate
        while True:
            is_smallest = rate < 1e-6 * recipe.learning_rate
            settings = TrainingSettings(
                self.loss, self.activation, recipe.n_epochs, recipe.batch_size, rate, recipe.l2,
                optimizer=recipe.optimizer, schedule=recipe.schedule,
            )  # fmt: skip
            try:
                loss = train_unwatched(trees, data, settings, rng)
                has_arrived = loss <= limit or is_smallest
                refuse_divergence(loss if has_arrived else math.inf, trees.flat, recipe.n_epochs, settings)
                return loss
            except DivergenceError as error:
                if is_smallest:
                    raise DivergenceError(
                        f"The path cannot be trained on this data: with each learning rate from {recipe.learning_rate:g} down to "
                        f"{rate:.0e}, the loss is not a finite number. The numbers in X or y, or those that the loss gives, are "
                        "too large. Divide them by their typical size, or leave standardize=True."
                    ) from error
                trees.flat[:] = start
                rate /= 4

    def _highest_loss(self, data: Data) -> float:
        """The mean loss above which training has diverged; infinite where outputs of zero are perfect or the scale is unknown."""
        zeros = np.zeros((len(data.Y), self.n_outputs), dtype=np.float32)
        above_perfect = self.losses_of(zeros, data.Y) - self.loss.least_loss(data.Y)
        span = float(np.average(above_perfect, weights=data.weight.astype(float)))
        perfect = float(np.average(self.loss.least_loss(data.Y), weights=data.weight.astype(float)))
        return perfect + _DIVERGED * span if span > 0 else math.inf

    def start(self, data: Data, recipe: Recipe, rng: np.random.Generator) -> tuple[Trees, float]:
        """A new ensemble, trained; copies are averaged into one."""
        return self.start_each(data, [recipe], rng)[0]

    def start_each(self, data: Data, recipes: Sequence[Recipe], rng: np.random.Generator) -> list[tuple[Trees, float]]:
        """A new ensemble by each of the recipes; they and their copies are trained in parallel."""
        coordinates = {floor: Coordinates(data, floor) for floor in {recipe.variance_floor for recipe in recipes}}

        def one_copy(recipe: Recipe, rng: np.random.Generator) -> tuple[Trees, float]:
            here = coordinates[recipe.variance_floor]
            trees = recipe.start.trees(_start_rows(self, here.data, recipe), recipe.n_trees, recipe.depth, rng)
            loss = self._train_or_recall(trees, here.data, recipe, rng)
            here.leave(trees)
            return trees, loss

        tasks = [
            functools.partial(one_copy, recipe, own_rng)
            for recipe in recipes
            for own_rng in split_generator(rng, recipe.n_copies)
        ]
        # The last first: boosted trees, which take longest and cannot be divided, come last.
        copies = iter(side_by_side(tasks[::-1], self.n_threads)[::-1])
        results = []
        for recipe in recipes:
            trees, losses = zip(*itertools.islice(copies, recipe.n_copies), strict=True)
            results.append((average(list(trees)), float(np.mean(losses))))
        return results

    def start_blend(self, data: Data, blend: Blend, rng: np.random.Generator) -> Trees:
        """The mean of new ensembles by these recipes."""
        return average([trees for trees, _ in self.start_each(data, blend, rng)])

    def outputs(self, trees: Trees, X: Any) -> NDArray[np.float32]:
        """Raw outputs of an ensemble; those that overflow are zero, which is no better than a guess."""
        return np.nan_to_num(evaluate(trees, X, self.functions), nan=0.0, posinf=0.0, neginf=0.0)

    def row_losses(self, trees: Trees, data: Data) -> NDArray[np.float64]:
        """Loss of every row."""
        return self.losses_of(evaluate(trees, data.X, self.functions), data.Y)

    def losses_of(self, outputs: NDArray[np.float32], Y: NDArray[np.float32]) -> NDArray[np.float64]:
        """Loss of every row for raw outputs."""
        functions = self.functions
        losses = evaluate_loss(functions.loss, functions.loss_parameter, outputs, Y)[0].astype(np.float64)
        self.loss.raise_error()
        return np.nan_to_num(losses, nan=_HOPELESS, posinf=_HOPELESS)

    def reference_losses(self, Y: NDArray[np.float32], weight: NDArray[np.float64]) -> tuple[float, float]:
        """Mean loss of a perfect prediction, and of the best constant one."""
        fraction, functions = weight / weight.sum(), self.functions

        def mean_loss(constant: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            F = np.tile(constant.astype(np.float32), (len(Y), 1))
            row_loss, G = evaluate_loss(functions.loss, functions.loss_parameter, F, Y)
            return float(row_loss @ fraction), (fraction @ G).astype(np.float64)

        best = minimize(mean_loss, np.zeros(self.n_outputs), jac=True, method="L-BFGS-B")
        return float(fraction @ self.loss.least_loss(Y)), float(best.fun)


def split_generator(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """Generators for tasks that run in parallel, so that no result depends on which comes first."""
    return [np.random.default_rng(seed) for seed in rng.integers(2**63, size=n)]


def _start_rows(trainer: Trainer, data: Data, recipe: Recipe) -> StartRows:
    if not recipe.start.reads_steps:
        return StartRows.without_steps(data.X, trainer.n_outputs)
    steps_from = newton_steps(trainer, data)
    return StartRows(data.X, data.weight, steps_from(_zeros(trainer, data)), steps_from)


def steps_towards_targets(trainer: Trainer, data: Data) -> NDArray[np.float64]:
    """How far the outputs of each row should go from zero: a Newton step for each output."""
    return newton_steps(trainer, data)(_zeros(trainer, data))


def newton_steps(trainer: Trainer, data: Data) -> Callable[[NDArray[np.float32]], NDArray[np.float64]]:
    """How far the outputs of each row should go from where they are: a Newton step for each output.

    The curvature is that between outputs of zero and one, where the gradient of any loss has changed; it is the mean over rows,
    so that no row has a step of its own length.
    """
    functions = trainer.functions

    def gradient(F: NDArray[np.float32]) -> NDArray[np.float64]:
        G = evaluate_loss(functions.loss, functions.loss_parameter, F, data.Y)[1].astype(np.float64)
        trainer.loss.raise_error()
        return np.nan_to_num(G, posinf=0.0, neginf=0.0)

    F = _zeros(trainer, data)
    at_zero, curvature = gradient(F), np.zeros(trainer.n_outputs)
    for k in range(trainer.n_outputs):
        F[:, k] = 1
        curvature[k] = np.average(gradient(F)[:, k] - at_zero[:, k], weights=data.weight)
        F[:, k] = 0

    def steps_from(outputs: NDArray[np.float32]) -> NDArray[np.float64]:
        G = gradient(outputs)
        return np.divide(-G, curvature, out=np.zeros_like(G), where=curvature > 0)

    return steps_from


def _zeros(trainer: Trainer, data: Data) -> NDArray[np.float32]:
    return np.zeros((len(data.Y), trainer.n_outputs), dtype=np.float32)


def average(copies: list[Trees]) -> Trees:
    """One ensemble whose output is the mean of the copies' outputs; all have trees of one depth."""
    if len(copies) == 1:
        return copies[0]
    n, n_columns = len(copies), copies[0].W.shape[0]
    n_outputs = copies[0].O.shape[0]

    def concatenated(parts: list[NDArray[Any]], rows: int) -> NDArray[Any]:
        by_node = [part.reshape(rows, -1, trees.n_trees) for part, trees in zip(parts, copies, strict=True)]
        return np.concatenate(by_node, axis=2).reshape(rows, -1)

    W = concatenated([trees.W for trees in copies], n_columns)
    b = concatenated([trees.b for trees in copies], 1)
    leaves = concatenated([trees.O / n for trees in copies], n_outputs)
    flat = np.concatenate([W.ravel(), b.ravel(), leaves.ravel()])
    return view_trees(flat, n_columns, W.shape[1], leaves.shape)
