"""A second implementation to hold the compiled one against: NumPy, one tree and one leaf at a time, from the paper.

It shares neither code nor method with the kernels: chances are products over a leaf's ancestors (section S2), gradients
come from the product rule and not from a pass back up the tree. Below it stand the small cases that tests probability.
"""

import ctypes
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, softmax

from skinnytrees.activations import Sigmoid, SmoothStep
from skinnytrees.kernels.state import Data, Trees, start_trees
from skinnytrees.losses import Huber, Multinomial, Poisson, Quantile, SquaredError
from skinnytrees.optimizers import SGD, Adam
from skinnytrees.penalties import GroupL0, GroupLasso, NoPenalty
from skinnytrees.training.loop import TrainingSettings


class Ensemble(NamedTuple):
    """Weights tree by tree: W (trees, nodes, columns), b (trees, nodes), O (trees, leaves, outputs)."""

    W: np.ndarray
    b: np.ndarray
    O: np.ndarray  # noqa: E741

    @classmethod
    def of(cls, trees: Trees, dtype=np.float64) -> "Ensemble":
        """From the kernels' layout, in which trees are innermost: column = node * n_trees + tree."""
        n_trees = trees.n_trees
        W = trees.W.reshape(len(trees.W), len(trees.b) // n_trees, n_trees).transpose(2, 1, 0)
        leaves = trees.O.reshape(len(trees.O), -1, n_trees).transpose(2, 1, 0)
        return cls(*(np.array(part, dtype=dtype) for part in (W, trees.b.reshape(-1, n_trees).T, leaves)))

    def flat(self) -> np.ndarray:
        """In the order of ``Trees.flat``."""
        return np.concatenate([self.W.transpose(2, 1, 0).ravel(), self.b.T.ravel(), self.O.transpose(2, 1, 0).ravel()])


# ------------------------------------------------------------------------------------------------ the ensemble


def route(activation, z):
    """Share that goes left, and its slope."""
    theta = activation.theta
    if isinstance(activation, Sigmoid):
        return expit(z / theta), expit(z / theta) * expit(-z / theta) / theta
    assert isinstance(activation, SmoothStep)
    gamma = 2 * theta  # the smooth-step of Hazimeh et al. (2020), with its width gamma
    inside = np.abs(z) < theta
    probability = np.where(inside, -2 * z**3 / gamma**3 + 3 * z / (2 * gamma) + 0.5, z > 0)
    return probability, np.where(inside, -6 * z**2 / gamma**3 + 3 / (2 * gamma), 0)


def path_to(leaf: int, n_splits: int) -> Iterator[tuple[int, bool]]:
    """The split nodes above a leaf, each with whether the leaf is on its left."""
    level_above = (n_splits + 1) // 2
    while level_above > 0:
        left, leaf = leaf < level_above, leaf % level_above
        yield level_above - 1 + leaf, left
        level_above //= 2


def turns(probability: np.ndarray, leaf: int) -> list[np.ndarray]:
    """The factors whose product is the chance to arrive at a leaf."""
    return [
        probability[:, node] if left else 1 - probability[:, node] for node, left in path_to(leaf, probability.shape[1])
    ]


def predict(ensemble: Ensemble, X, activation):
    """Sum over trees of the leaf weights, each with the chance to arrive there."""
    F = np.zeros((len(X), ensemble.O.shape[2]), dtype=ensemble.O.dtype)
    for W, b, leaves in zip(*ensemble, strict=True):
        probability, _ = route(activation, X @ W.T + b)
        for leaf, weights in enumerate(leaves):
            F += np.outer(np.prod(turns(probability, leaf), axis=0), weights)
    return F


def loss_and_gradient(loss, F, Y):
    """Each row's loss, and its gradient with respect to the outputs."""
    residual = F - Y
    match loss:
        case SquaredError():
            return (residual**2).sum(axis=1) / 2, residual
        case Huber(delta=delta):
            size = np.abs(residual)
            value = np.where(size <= delta, size**2 / 2, delta * (size - delta / 2))
            return value.sum(axis=1), np.clip(residual, -delta, delta)
        case Quantile(level=level):
            value = np.maximum(-level * residual, (1 - level) * residual)
            return value.sum(axis=1), np.where(residual > 0, 1 - level, -level)
        case Poisson():
            return (np.exp(F) - Y * F).sum(axis=1), np.exp(F) - Y
        case Multinomial():
            label = Y[:, 0].astype(int)
            return logsumexp(F, axis=1) - F[np.arange(len(F)), label], softmax(F, axis=1) - np.eye(F.shape[1])[label]


def gradients(ensemble: Ensemble, data: Data, loss, activation) -> tuple[float, Ensemble]:
    """Weighted mean loss and its gradient, by the product rule over each leaf's ancestors."""
    X, Y, weight = data
    row_loss, G = loss_and_gradient(loss, predict(ensemble, X, activation), Y)
    G = G * (weight / len(X))[:, None]
    result = Ensemble(*(np.zeros_like(part) for part in ensemble))
    for tree, (W, b, leaves) in enumerate(zip(*ensemble, strict=True)):
        probability, slope = route(activation, X @ W.T + b)
        by_probability = np.zeros_like(probability)
        for leaf, weights in enumerate(leaves):
            factors = turns(probability, leaf)
            result.O[tree, leaf] = np.prod(factors, axis=0) @ G
            for k, (node, left) in enumerate(path_to(leaf, probability.shape[1])):
                others = np.prod(factors[:k] + factors[k + 1 :], axis=0)
                by_probability[:, node] += (1 if left else -1) * others * (G @ weights)
        result.W[tree] = (by_probability * slope).T @ X
        result.b[tree] = (by_probability * slope).sum(axis=0)
    return float(np.mean(weight * row_loss)), result


def objective(ensemble: Ensemble, data: Data, loss, activation, lambda0: float, l2: float) -> float:
    """The paper's objective (equation 3) with a group for every column."""
    row_loss, _ = loss_and_gradient(loss, predict(ensemble, data.X, activation), data.Y)
    in_use = np.any(ensemble.W != 0, axis=(0, 1)).sum()
    return np.mean(data.weight * row_loss) + lambda0 * in_use + l2 / ensemble.b.size * np.sum(ensemble.W**2)


# ------------------------------------------------------------------------------------------------ training


def train(start: Ensemble, data: Data, offsets, settings: TrainingSettings, rng) -> tuple[Ensemble, list[float]]:
    """What ``skinnytrees.training.train`` should do at a constant rate: the weights, and each epoch's mean loss."""
    ensemble, losses, t = start, [], 0
    first = second = Ensemble(*(np.zeros_like(part) for part in start))
    for _ in range(settings.n_epochs):
        order, total = rng.permutation(len(data.X)), 0.0
        for begin in range(0, len(order), settings.batch_size):
            rows = order[begin : begin + settings.batch_size]
            t += 1
            batch = Data(data.X[rows], data.Y[rows], data.weight[rows])
            loss, gradient = gradients(ensemble, batch, settings.loss, settings.activation)
            total += loss * len(rows)
            gradient = gradient._replace(W=gradient.W + 2 * settings.l2 / ensemble.b.size * ensemble.W)
            if isinstance(settings.optimizer, SGD):
                ensemble = descend(ensemble, gradient, settings.learning_rate)
                ensemble = ensemble._replace(W=prox(settings.penalty, ensemble.W, offsets, t, settings.learning_rate))
            else:
                assert isinstance(settings.optimizer, Adam)
                first = mix(0.9, first, gradient)
                second = mix(0.999, second, Ensemble(*(g**2 for g in gradient)))
                direction = zip(first, second, strict=True)
                move = (m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8) for m, v in direction)
                ensemble = descend(ensemble, Ensemble(*move), settings.learning_rate)
        losses.append(total / len(order))
    return ensemble, losses


def descend(ensemble: Ensemble, gradient: Ensemble, eta: float) -> Ensemble:
    return Ensemble(*(weights - eta * g for weights, g in zip(ensemble, gradient, strict=True)))


def mix(keep: float, old: Ensemble, new: Ensemble) -> Ensemble:
    return Ensemble(*(keep * o + (1 - keep) * n for o, n in zip(old, new, strict=True)))


def prox(penalty, Z, offsets, t: int, eta: float):
    """Line 7 of Algorithm 1, group by group."""
    W = np.zeros_like(Z)
    for first, end in pairwise(offsets):
        norm = np.linalg.norm(Z[..., first:end])
        match penalty:
            case GroupL0(gamma=gamma, rate=rate):
                lambda0 = gamma if rate is None else gamma * (1 - np.exp(-rate * t))  # section 5.3
                factor = float(norm >= np.sqrt(2 * eta * lambda0))  # equation 5
            case GroupLasso(lam=lam):
                factor = max(0.0, 1 - eta * lam / norm) if norm > 0 else 0.0
            case NoPenalty():
                factor = 1.0
        W[..., first:end] = factor * Z[..., first:end]
    return W


# ------------------------------------------------------------------------------------------------ cases for tests

LOSSES = {
    "squared error of two outputs": (SquaredError(), 2),
    "huber": (Huber(delta=0.7), 2),
    "quantile": (Quantile(level=0.8), 1),
    "poisson": (Poisson(), 1),
    "two classes": (Multinomial(), 2),
    "five classes": (Multinomial(), 5),
}


def random_targets(loss, n_rows: int, n_outputs: int, rng, dtype=np.float64) -> np.ndarray:
    """Targets that the loss is made for."""
    if isinstance(loss, Multinomial):
        return rng.integers(n_outputs, size=(n_rows, 1)).astype(dtype)
    if isinstance(loss, Poisson):
        return rng.poisson(2.0, size=(n_rows, n_outputs)).astype(dtype)
    return rng.normal(size=(n_rows, n_outputs)).astype(dtype)


def random_data(loss, n_rows: int, n_columns: int, n_outputs: int, rng, dtype=np.float64) -> Data:
    """Rows with weights that differ and have mean one."""
    weight = rng.uniform(0.5, 1.5, size=n_rows)
    return Data(
        rng.normal(size=(n_rows, n_columns)).astype(dtype),
        random_targets(loss, n_rows, n_outputs, rng, dtype),
        (weight / weight.mean()).astype(dtype),
    )


def random_trees(n_columns: int, n_outputs: int, rng, n_trees=3, depth=2, dtype=np.float64) -> Trees:
    """An ensemble in which every weight, biases too, has something to say."""
    trees = start_trees(n_columns, n_trees, depth, n_outputs, rng, dtype)
    trees.flat[:] = rng.normal(scale=0.5, size=len(trees.flat))
    return trees


def single_columns(n_columns: int) -> np.ndarray:
    """Group offsets of a table in which every column is its own group."""
    return np.arange(n_columns + 1)


def central_differences(function, at: np.ndarray, h: float = 1e-6) -> np.ndarray:
    """Derivative of ``function`` along every coordinate of ``at``."""
    result = []
    for i in range(len(at)):
        left, right = at.copy(), at.copy()
        left[i] -= h
        right[i] += h
        result.append((function(right) - function(left)) / (2 * h))
    return np.array(result)


def run_activation(activation, z) -> tuple[np.ndarray, np.ndarray]:
    """Probability and slope as compiled code gives them."""
    probability = np.array(z)
    slope = np.full_like(probability, np.inf)
    number = ctypes.POINTER(np.ctypeslib.as_ctypes_type(probability.dtype))
    function = activation.kernel(probability.dtype).ctypes
    function(probability.ctypes.data_as(number), slope.ctypes.data_as(number), probability.size, activation.theta)
    return probability, slope


def leaf_of(tree, X) -> np.ndarray:
    """The node on the last level that each row reaches in a grown tree; where there is no split, rows go to the left."""
    n_splits, node = len(tree.column), np.zeros(len(X), dtype=int)
    first, n_in_level = 0, 1
    while first < n_splits:
        column = tree.column[node]
        goes_right = (column >= 0) & (X[np.arange(len(X)), column] > tree.threshold[node])
        node = 2 * first + 1 + (node - first) + n_in_level * goes_right
        first, n_in_level = 2 * first + 1, 2 * n_in_level
    return node


def values_by_following(tree, X) -> np.ndarray:
    """What a grown tree says about each row."""
    return tree.value[leaf_of(tree, X)]
