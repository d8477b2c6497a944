"""The ensemble's outputs for rows of which some features come from one row and the others from another.

The score of a split is a sum with one term per feature, so a feature changes hands by changing one term of every split, whatever
the encoding of the feature. With logistic routing even that sum is not needed: exp(-score) is a product with one factor per
feature, and the probability to go left is 1 / (1 + product). Everywhere, ``parts`` are such terms or factors.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.compilation import inner_kernel, kernel, part, pointer
from skinnytrees.kernels.views import in_row


class Ensemble(NamedTuple):
    """What follows once the parts of all features are joined."""

    leaves: NDArray[np.float32]  # (outputs, leaves x trees)
    by_products: bool  # parts are factors of exp(-score), instead of terms of the score
    activation: Any
    theta: float


class Room(NamedTuple):
    """Memory for one thread: joined parts of a growing set of features, and one way up the trees."""

    joined: NDArray[np.float32]  # (features + 1, splits)
    left: NDArray[np.float32]  # (1, splits)
    slope: NDArray[np.float32]  # (1, splits)
    worth: NDArray[np.float32]  # (1, leaves)


def make_room(n_features: int, n_splits: int, n_leaves: int) -> Room:
    """Room for coalitions of up to this many features."""
    return Room(
        joined=np.empty((n_features + 1, n_splits), np.float32),
        left=np.empty((1, n_splits), np.float32),
        slope=np.empty((1, n_splits), np.float32),
        worth=np.empty((1, n_leaves), np.float32),
    )


@kernel
def all_coalitions(start, of_row, of_background, ensemble, room, out):  # type: ignore[no-untyped-def]
    """Outputs for every coalition and background row.

    ``start`` (1, splits) has the biases, ``of_row`` (features, splits) the row's parts, ``of_background``
    (background rows x features, splits) the others. ``out`` (background rows x 2**features, outputs): bit f of a coalition's
    number says that feature f is the row's.
    """
    n_features, n_splits = of_row.shape
    n_coalitions = 1 << n_features
    _copy(in_row(start, 0, 0, n_splits), in_row(room.joined, 0, 0, n_splits))
    for j in range(of_background.shape[0] // n_features):
        for coalition in range(n_coalitions):
            # Features are joined from the highest bit down; only the bits that changed are joined again.
            changed = n_features - 1
            if coalition > 0:
                changed = 0
                while (coalition >> changed) & 1 == 0:
                    changed += 1
            for bit in range(changed, 0, -1):
                place = n_features - bit
                _join(
                    ensemble.by_products, in_row(room.joined, place - 1, 0, n_splits),
                    _part(coalition, bit, of_row, of_background, j * n_features, n_splits),
                    in_row(room.joined, place, 0, n_splits),
                )  # fmt: skip
            last = _part(coalition, 0, of_row, of_background, j * n_features, n_splits)
            _go_left(in_row(room.joined, n_features - 1, 0, n_splits), last, ensemble, room)
            _add_up(ensemble, room, out, j * n_coalitions + coalition)


@kernel
def walk_orders(origin, of_row, undo_background, orders, ensemble, room, out):  # type: ignore[no-untyped-def]
    """Outputs while features change from a background row's to the row's, in given orders and in the reverse orders.

    ``origin`` (background rows, splits) has the joined parts of each background row, ``undo_background`` what takes one part out
    again, ``orders`` (background rows x repeats, features) one order each. ``out`` (background rows x repeats x 2 x
    (features + 1), outputs) begins and ends each walk with the two rows themselves.
    """
    n_features, n_splits = of_row.shape
    n_repeats = orders.shape[0] // origin.shape[0]
    for walk in range(2 * orders.shape[0]):
        order, is_reversed = walk // 2, walk % 2 == 1
        j = order // n_repeats
        at = walk * (n_features + 1)
        state = in_row(room.joined, 0, 0, n_splits)
        _copy(in_row(origin, j, 0, n_splits), state)
        _go_left_from(state, ensemble, room)
        _add_up(ensemble, room, out, at)
        for step in range(n_features):
            f = orders[order, n_features - 1 - step if is_reversed else step]
            undo = in_row(undo_background, j * n_features + f, 0, n_splits)
            _exchange(ensemble.by_products, state, in_row(of_row, f, 0, n_splits), undo, state)
            _go_left_from(state, ensemble, room)
            _add_up(ensemble, room, out, at + step + 1)


@kernel
def small_coalitions(origin, of_row, undo_background, ensemble, room, out):  # type: ignore[no-untyped-def]
    """Outputs for the empty coalition, each feature, and each pair of features f < g, in this order, per background row.

    ``out`` has (background rows x (1 + features + pairs), outputs); the pairs of the first feature come first.
    """
    n_features, n_splits = of_row.shape
    n_coalitions = 1 + n_features + n_features * (n_features - 1) // 2
    one, two = in_row(room.joined, 0, 0, n_splits), in_row(room.joined, 1, 0, n_splits)
    for j in range(origin.shape[0]):
        at = j * n_coalitions
        state = in_row(origin, j, 0, n_splits)
        _go_left_from(state, ensemble, room)
        _add_up(ensemble, room, out, at)
        pair = at + n_features
        for f in range(n_features):
            undo = in_row(undo_background, j * n_features + f, 0, n_splits)
            _exchange(ensemble.by_products, state, in_row(of_row, f, 0, n_splits), undo, one)
            _go_left_from(one, ensemble, room)
            _add_up(ensemble, room, out, at + 1 + f)
            for g in range(f + 1, n_features):
                pair += 1
                undo = in_row(undo_background, j * n_features + g, 0, n_splits)
                _exchange(ensemble.by_products, one, in_row(of_row, g, 0, n_splits), undo, two)
                _go_left_from(two, ensemble, room)
                _add_up(ensemble, room, out, pair)


@part
def _part(coalition, bit, of_row, of_background, first, n_splits):  # type: ignore[no-untyped-def]
    if (coalition >> bit) & 1:
        return in_row(of_row, bit, 0, n_splits)
    return in_row(of_background, first + bit, 0, n_splits)


@inner_kernel
def _copy(source, out):  # type: ignore[no-untyped-def]
    for n in range(out.shape[0]):
        out[n] = source[n]


@inner_kernel
def _join(by_products, state, part, out):  # type: ignore[no-untyped-def]
    if by_products:
        for n in range(out.shape[0]):
            out[n] = state[n] * part[n]
    else:
        for n in range(out.shape[0]):
            out[n] = state[n] + part[n]


@inner_kernel
def _exchange(by_products, state, part, undo, out):  # type: ignore[no-untyped-def]
    if by_products:
        for n in range(out.shape[0]):
            out[n] = state[n] * (part[n] * undo[n])
    else:
        for n in range(out.shape[0]):
            out[n] = state[n] + (part[n] + undo[n])


@inner_kernel
def _go_left(state, last, ensemble, room):  # type: ignore[no-untyped-def]
    """Join the last part and fill the probability to go left at every split."""
    left = in_row(room.left, 0, 0, state.shape[0])
    if ensemble.by_products:
        _left_of_product(state, last, left)
    else:
        _join(False, state, last, left)
        ensemble.activation(pointer(room.left), pointer(room.slope), left.shape[0], ensemble.theta)


@inner_kernel
def _go_left_from(state, ensemble, room):  # type: ignore[no-untyped-def]
    left = in_row(room.left, 0, 0, state.shape[0])
    if ensemble.by_products:
        _left_of(state, left)
    else:
        _copy(state, left)
        ensemble.activation(pointer(room.left), pointer(room.slope), left.shape[0], ensemble.theta)


@inner_kernel
def _left_of_product(state, last, left):  # type: ignore[no-untyped-def]
    one = np.float32(1)
    for n in range(left.shape[0]):
        left[n] = one / (one + state[n] * last[n])


@inner_kernel
def _left_of(state, left):  # type: ignore[no-untyped-def]
    one = np.float32(1)
    for n in range(left.shape[0]):
        left[n] = one / (one + state[n])


@inner_kernel
def _add_up(ensemble, room, out, place):  # type: ignore[no-untyped-def]
    """Worth of every tree's root, from the leaves up (the layout is that of ``routing.py``), summed over trees."""
    n_splits, n_leaves = room.left.shape[1], ensemble.leaves.shape[1]
    n_trees = n_leaves - n_splits
    for c in range(out.shape[1]):
        width, end = n_leaves // 2, n_splits
        worth = in_row(room.worth, 0, 0, n_leaves)
        if n_splits == 0:
            _copy(in_row(ensemble.leaves, c, 0, n_leaves), worth)
        else:
            _choose(
                in_row(room.left, 0, end - width, end), in_row(ensemble.leaves, c, 0, width),
                in_row(ensemble.leaves, c, width, n_leaves), in_row(room.worth, 0, 0, width),
            )  # fmt: skip
            end, width = end - width, width // 2
            while width >= n_trees and end > 0:
                _choose(
                    in_row(room.left, 0, end - width, end), in_row(room.worth, 0, 0, width),
                    in_row(room.worth, 0, width, 2 * width), in_row(room.worth, 0, 0, width),
                )  # fmt: skip
                end, width = end - width, width // 2
        total = 0.0
        for tree in range(n_trees):
            total += worth[tree]
        out[place, c] = total


@inner_kernel
def _choose(go, left, right, worth):  # type: ignore[no-untyped-def]
    for i in range(go.shape[0]):
        other = right[i]
        worth[i] = other + go[i] * (left[i] - other)
