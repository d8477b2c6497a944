"""Interventional Shapley values of a game: exactly from all coalitions, or from sampled orders with a standard error.

Features that are not in a coalition are taken from the background rows, independently of those that are in it (Lundberg & Lee
2017; Janzing, Minorics & Bloebaum 2020). The sampling is that of Castro, Gomez & Tejada (2009): a feature's value is its mean
contribution when features join in random order. Every pair of a row and a background row has orders of its own, each used in
both directions (antithetic), so that effects of single features and of pairs are exact after one order.
"""

from math import factorial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless
from skinnytrees.explain.games import Game

# All coalitions of up to this many features are evaluated if asked for; beyond, time and memory double with every feature.
MOST_FEATURES_EXACT = 14
# What "auto" takes for affordable: as many features, and splits to evaluate (about 5 s of one core).
_MOST_FEATURES_AUTO = 12
_MOST_SPLITS_AUTO = 2e10
# Orders per row and background row in each round; two are the fewest that have a variance.
_REPEATS = 2
_MOST_ROUNDS = 64


class Contributions(NamedTuple):
    """Shapley values (rows, features, outputs), their standard errors (zero where they are exact), and how they were computed."""

    values: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    method: str


def shapley_values(game: Game, method: str, max_error: float, seed: int) -> Contributions:
    """Shapley values that add up to each row's score minus the mean score of the background rows.

    Parameters
    ----------
    game : Game
        Gives the worth of coalitions.
    method : {"auto", "exact", "sampling"}
        "auto" is exact where that is affordable.
    max_error : float
        Sampling continues until the root mean square of all standard errors is at most this fraction of the standard deviation of
        the explained scores.
    seed : int
        Of the sampled orders.
    """
    refuse_unless(
        method in ("auto", "exact", "sampling"), f"method={method!r} is not known. Use 'auto', 'exact' or 'sampling'."
    )
    refuse_unless(max_error > 0, f"max_error={max_error!r} cannot be reached. Use a positive number, such as 0.01.")
    refuse_unless(
        method != "exact" or game.n_features <= MOST_FEATURES_EXACT,
        f"method='exact' evaluates all coalitions, which are too many for {game.n_features} features. Use method='sampling', or "
        f"a model with at most {MOST_FEATURES_EXACT} features, such as model.at({MOST_FEATURES_EXACT}).",
    )
    whole = game.scores(game.rows) - game.scores(game.background).mean(axis=0)
    if game.n_features <= 1:
        values = np.repeat(whole[:, None, :], game.n_features, axis=1)
        return Contributions(values, np.zeros_like(values), "exact")
    if method == "exact" or (method == "auto" and _is_affordable(game)):
        weights = coalition_weights(game.n_features)
        values = game.all_coalitions(lambda worth: weights @ worth)
        errors, method = np.zeros_like(values), "exact"
    else:
        values, errors = _sampled(game, max_error * float(np.sqrt(whole.var(axis=0).mean())), seed)
        method = "sampling"
    # What rounding in single precision leaves.
    values += ((whole - values.sum(axis=1)) / game.n_features)[:, None, :]
    return Contributions(values, errors, method)


def coalition_weights(n_features: int) -> NDArray[np.float64]:
    """Weights (features, coalitions) that turn the worth of coalitions into Shapley values.

    Examples
    --------
    >>> from skinnytrees.explain.shapley import coalition_weights
    >>> coalition_weights(2)  # the coalitions {}, {0}, {1}, {0, 1}
    array([[-0.5,  0.5, -0.5,  0.5],
           [-0.5, -0.5,  0.5,  0.5]])
    """
    coalitions = np.arange(1 << n_features)
    is_in = (coalitions >> np.arange(n_features)[:, None]) & 1 == 1
    size = is_in.sum(axis=0)
    # Weight of adding a feature to a coalition of each size.
    adding = [factorial(s) * factorial(n_features - 1 - s) / factorial(n_features) for s in range(n_features)]
    with_it, without_it = np.array([0.0, *adding]), np.array([*adding, 0.0])
    return np.where(is_in, with_it[size], -without_it[size])


def _is_affordable(game: Game) -> bool:
    if game.n_features > _MOST_FEATURES_AUTO:
        return False
    n_evaluations = len(game.rows) * len(game.background) * 2.0**game.n_features
    return n_evaluations * game.splits_per_coalition <= _MOST_SPLITS_AUTO


def _sampled(game: Game, wanted: float, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means over rounds of sampled orders, and their standard errors."""
    total, variance = _sample_once(game, [seed, 1])
    n_rounds = 1
    while np.sqrt(variance.mean()) / n_rounds > wanted and n_rounds < _MOST_ROUNDS:
        n_rounds += 1
        values, round_variance = _sample_once(game, [seed, n_rounds])
        total += values
        variance += round_variance
    return total / n_rounds, np.sqrt(variance) / n_rounds


def _sample_once(game: Game, seed: list[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    shape = len(game.background), _REPEATS, game.n_features

    def orders(i: int) -> NDArray[np.intp]:
        in_order = np.broadcast_to(np.arange(game.n_features), shape)
        return np.random.default_rng([*seed, i]).permuted(in_order, axis=2)

    def summary(order: NDArray[np.intp], worth: NDArray[np.float64]) -> NDArray[np.float64]:
        added = np.diff(worth, axis=3)
        by_place = (added[:, :, 0] + added[:, :, 1, ::-1]) / 2
        place = np.argsort(order, axis=2)
        values = np.take_along_axis(by_place, place[..., None], axis=2)
        # Background rows are given, not sampled: only orders vary.
        variance = values.var(axis=1, ddof=1).mean(axis=0) / (_REPEATS * len(values))
        return np.array([values.mean(axis=(0, 1)), variance])

    found = game.walks(orders, summary)
    return found[:, 0], found[:, 1]
