"""The ensemble's outputs for rows of which some features come from one row and the others from another.

The score of a split is a sum with one term per feature, so replacing the value of a feature changes one term of every split,
however the feature is encoded. With logistic routing the sum is not needed either: exp(-score) is a product with one factor per
feature, and the probability to go left is 1 / (1 + product). ``parts`` are such factors, or such terms.

Outputs are added to what ``out`` holds, so that a large ensemble can be evaluated some trees at a time. Arrays over
splits and leaves have the layout of ``routing.py``.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.kernels.compilation import inner_kernel, kernel, part
from skinnytrees.kernels.numba_bridge.pointers import pointer
from skinnytrees.kernels.numba_bridge.views import in_row

# A probability to go left below 1e-9 is taken to be 1e-9: a product of four such numbers then stays within single precision.
_LARGEST = np.float32(1e9)
_ONE = np.float32(1)


class Room(NamedTuple):
    """Memory for one thread."""

    joined: NDArray[np.float32]  # (features + 1 or 4, splits): joined parts of sets of features
    left: NDArray[np.float32]  # (4, splits): probability to go left, for up to four coalitions
    slope: NDArray[np.float32]  # (1, splits): what activations fill beside it
    worth: NDArray[np.float32]  # (4, leaves): worth of the nodes of a level, for up to four coalitions


def make_room(n_features: int, n_splits: int, n_leaves: int) -> Room:
    """Room for coalitions of up to this many features."""
    shapes = (max(n_features + 1, 4), n_splits), (4, n_splits), (1, n_splits), (4, n_leaves)
    return Room(*(np.empty(shape, np.float32) for shape in shapes))


# --- every coalition ---------------------------------------------------------------------------------------------------
# ``start`` (1, splits) has the biases, ``of_row`` (features, splits) the row's parts, ``of_background`` (background rows x
# features, splits) the others. ``out`` is (background rows x 2**features, outputs); bit f of a coalition's number says that
# feature f is the row's.


@kernel
def add_all_coalitions(start, of_row, of_background, leaves, room, out):  # type: ignore[no-untyped-def]
    """Outputs for every coalition and background row; parts are factors, and there are at least two features."""
    n_features, n_splits = of_row.shape
    _copy(in_row(start, 0, 0, n_splits), in_row(room.joined, 0, 0, n_splits))
    for j in range(of_background.shape[0] // n_features):
        first = j * n_features
        for coalition in range(0, 1 << n_features, 4):
            _join_changed(True, 2, coalition, of_row, of_background, first, room, n_splits)
            _add_four(
                in_row(room.joined, n_features - 2, 0, n_splits),
                in_row(of_background, first + 1, 0, n_splits), in_row(of_row, 1, 0, n_splits),
                in_row(of_background, first, 0, n_splits), in_row(of_row, 0, 0, n_splits),
                leaves, room, out, (j << n_features) + coalition,
            )  # fmt: skip


@inner_kernel
def _join_changed(by_products, lowest, coalition, of_row, of_background, first, room, n_splits):  # type: ignore[no-untyped-def]
    """Features are joined from the highest bit down to ``lowest``; only those whose bits changed are joined again."""
    n_features = of_row.shape[0]
    changed = n_features - 1
    if coalition > 0:
        changed = lowest
        while (coalition >> changed) & 1 == 0:
            changed += 1
    for bit in range(changed, lowest - 1, -1):
        place = n_features - bit
        _join(
            by_products,
            in_row(room.joined, place - 1, 0, n_splits),
            _part(coalition, bit, of_row, of_background, first, n_splits),
            in_row(room.joined, place, 0, n_splits),
        )


@inner_kernel
def _join(by_products, state, part, out):  # type: ignore[no-untyped-def]
    if by_products:
        for n in range(out.shape[0]):
            out[n] = state[n] * part[n]
    else:
        for n in range(out.shape[0]):
            out[n] = state[n] + part[n]


@part
def _part(coalition, bit, of_row, of_background, first, n_splits):  # type: ignore[no-untyped-def]
    if (coalition >> bit) & 1:
        return in_row(of_row, bit, 0, n_splits)
    return in_row(of_background, first + bit, 0, n_splits)


@inner_kernel
def _add_four(state, z1, x1, z0, x0, leaves, room, out, place):  # type: ignore[no-untyped-def]
    """Four coalitions that differ in the last two features: 00, 01, 10, 11."""
    n_splits, n_leaves = state.shape[0], leaves.shape[1]
    n_trees = n_leaves - n_splits
    for c in range(leaves.shape[0]):
        width, end = n_leaves // 2, n_splits
        _four_from_leaves(
            state[end - width : end], z1[end - width : end], x1[end - width : end], z0[end - width : end],
            x0[end - width : end], in_row(leaves, c, 0, width), in_row(leaves, c, width, n_leaves),
            in_row(room.worth, 0, 0, width), in_row(room.worth, 1, 0, width),
            in_row(room.worth, 2, 0, width), in_row(room.worth, 3, 0, width),
        )  # fmt: skip
        end, width = end - width, width // 2
        while end > 0:
            _four_from_below(
                state[end - width : end], z1[end - width : end], x1[end - width : end], z0[end - width : end],
                x0[end - width : end], in_row(room.worth, 0, 0, width), in_row(room.worth, 0, width, 2 * width),
                in_row(room.worth, 1, 0, width), in_row(room.worth, 1, width, 2 * width),
                in_row(room.worth, 2, 0, width), in_row(room.worth, 2, width, 2 * width),
                in_row(room.worth, 3, 0, width), in_row(room.worth, 3, width, 2 * width),
            )  # fmt: skip
            end, width = end - width, width // 2
        for i in range(4):
            out[place + i, c] += _sum(in_row(room.worth, i, 0, n_trees))


@part
def _four_probabilities(state, z1, x1, z0, x0):  # type: ignore[no-untyped-def]
    out, into = state * z1, state * x1
    return _four_inverses(out * z0, out * x0, into * z0, into * x0)


@part
def _four_inverses(a, b, c, d):  # type: ignore[no-untyped-def]
    """1 / (1 + number) of four numbers, with one division: it takes longer than all the products."""
    a, b = _ONE + min(a, _LARGEST), _ONE + min(b, _LARGEST)
    c, d = _ONE + min(c, _LARGEST), _ONE + min(d, _LARGEST)
    low, high = a * b, c * d
    inverse = _ONE / (low * high)
    of_low, of_high = inverse * high, inverse * low
    return of_low * b, of_low * a, of_high * d, of_high * c


@inner_kernel
def _four_from_leaves(state, z1, x1, z0, x0, left, right, w0, w1, w2, w3):  # type: ignore[no-untyped-def]
    for n in range(state.shape[0]):
        p0, p1, p2, p3 = _four_probabilities(state[n], z1[n], x1[n], z0[n], x0[n])
        other = right[n]
        difference = left[n] - other
        w0[n] = other + p0 * difference
        w1[n] = other + p1 * difference
        w2[n] = other + p2 * difference
        w3[n] = other + p3 * difference


@inner_kernel
def _four_from_below(state, z1, x1, z0, x0, l0, r0, l1, r1, l2, r2, l3, r3):  # type: ignore[no-untyped-def]
    """The worth of a level takes the place of its left children's."""
    for n in range(state.shape[0]):
        p0, p1, p2, p3 = _four_probabilities(state[n], z1[n], x1[n], z0[n], x0[n])
        l0[n] = r0[n] + p0 * (l0[n] - r0[n])
        l1[n] = r1[n] + p1 * (l1[n] - r1[n])
        l2[n] = r2[n] + p2 * (l2[n] - r2[n])
        l3[n] = r3[n] + p3 * (l3[n] - r3[n])


@kernel
def add_all_coalitions_by_sums(start, of_row, of_background, leaves, routing, room, out):  # type: ignore[no-untyped-def]
    """The same for parts that are terms, and any routing function; one coalition at a time."""
    n_features, n_splits = of_row.shape
    _copy(in_row(start, 0, 0, n_splits), in_row(room.joined, 0, 0, n_splits))
    for j in range(of_background.shape[0] // n_features):
        for coalition in range(1 << n_features):
            _join_changed(False, 0, coalition, of_row, of_background, j * n_features, room, n_splits)
            state = in_row(room.joined, n_features, 0, n_splits)
            _add_one(state, leaves, routing, room, out, (j << n_features) + coalition)


# --- some coalitions ---------------------------------------------------------------------------------------------------
# ``origin`` (background rows, splits) has the joined parts of each background row, and ``undo_background`` (background rows x
# features, splits) what takes one part out again.


class Routing(NamedTuple):
    """How joined parts become probabilities to go left."""

    by_products: bool  # parts are factors of exp(-score), instead of terms of the score
    activation: Any
    theta: float


@kernel
def add_walks(origin, of_row, undo_background, orders, leaves, room, out):  # type: ignore[no-untyped-def]
    """Outputs while features change from a background row's to the row's, two orders and their reverses side by side.

    ``orders`` (background rows x 2, features) has two orders for each background row; ``out`` (background rows x 2 x 2 x
    (features + 1), outputs) begins and ends the first of each four walks with the two rows themselves, where all walks are
    equal. Parts are factors.
    """
    n_features, n_splits = of_row.shape
    for j in range(origin.shape[0]):
        at = 4 * j * (n_features + 1)
        for walk in range(4):
            _copy(in_row(origin, j, 0, n_splits), in_row(room.joined, walk, 0, n_splits))
        _invert(in_row(origin, j, 0, n_splits), in_row(room.left, 0, 0, n_splits))
        _add_up(in_row(room.left, 0, 0, n_splits), leaves, room, out, at)
        for step in range(n_features):
            f, g = orders[2 * j, step], orders[2 * j, n_features - 1 - step]
            h, i = orders[2 * j + 1, step], orders[2 * j + 1, n_features - 1 - step]
            first = j * n_features
            _exchange_four(
                in_row(room.joined, 0, 0, n_splits), in_row(room.joined, 1, 0, n_splits),
                in_row(room.joined, 2, 0, n_splits), in_row(room.joined, 3, 0, n_splits),
                in_row(of_row, f, 0, n_splits), in_row(of_row, g, 0, n_splits),
                in_row(of_row, h, 0, n_splits), in_row(of_row, i, 0, n_splits),
                in_row(undo_background, first + f, 0, n_splits), in_row(undo_background, first + g, 0, n_splits),
                in_row(undo_background, first + h, 0, n_splits), in_row(undo_background, first + i, 0, n_splits),
                in_row(room.left, 0, 0, n_splits), in_row(room.left, 1, 0, n_splits),
                in_row(room.left, 2, 0, n_splits), in_row(room.left, 3, 0, n_splits),
            )  # fmt: skip
            for walk in range(1 if step == n_features - 1 else 4):
                go = in_row(room.left, walk, 0, n_splits)
                _add_up(go, leaves, room, out, at + walk * (n_features + 1) + step + 1)


@inner_kernel
def _exchange_four(s0, s1, s2, s3, x0, x1, x2, x3, u0, u1, u2, u3, g0, g1, g2, g3):  # type: ignore[no-untyped-def]
    for n in range(s0.shape[0]):
        a, b = s0[n] * (x0[n] * u0[n]), s1[n] * (x1[n] * u1[n])
        c, d = s2[n] * (x2[n] * u2[n]), s3[n] * (x3[n] * u3[n])
        s0[n], s1[n], s2[n], s3[n] = a, b, c, d
        g0[n], g1[n], g2[n], g3[n] = _four_inverses(a, b, c, d)


@kernel
def add_walks_by_sums(origin, of_row, undo_background, orders, leaves, routing, room, out):  # type: ignore[no-untyped-def]
    """The same for parts that are terms, and any routing function; one walk at a time."""
    n_features, n_splits = of_row.shape
    state = in_row(room.joined, 0, 0, n_splits)
    for walk in range(2 * orders.shape[0]):
        order, is_reversed = walk // 2, walk % 2 == 1
        j, at = order // 2, walk * (n_features + 1)
        _copy(in_row(origin, j, 0, n_splits), state)
        _add_one(state, leaves, routing, room, out, at)
        for step in range(n_features):
            f = orders[order, n_features - 1 - step if is_reversed else step]
            undo = in_row(undo_background, j * n_features + f, 0, n_splits)
            _exchange(False, state, in_row(of_row, f, 0, n_splits), undo, state)
            _add_one(state, leaves, routing, room, out, at + step + 1)


@kernel
def add_small_coalitions(origin, of_row, undo_background, leaves, routing, room, out):  # type: ignore[no-untyped-def]
    """Outputs for the empty coalition, each feature, and each pair of features f < g, in this order, per background row.

    ``out`` is (background rows x (1 + features + pairs), outputs); the pairs of the first feature come first.
    """
    n_features, n_splits = of_row.shape
    n_coalitions = 1 + n_features + n_features * (n_features - 1) // 2
    one, two = in_row(room.joined, 0, 0, n_splits), in_row(room.joined, 1, 0, n_splits)
    for j in range(origin.shape[0]):
        empty = j * n_coalitions
        state = in_row(origin, j, 0, n_splits)
        _add_one(state, leaves, routing, room, out, empty)
        pair = empty + n_features
        for f in range(n_features):
            undo = in_row(undo_background, j * n_features + f, 0, n_splits)
            _exchange(routing.by_products, state, in_row(of_row, f, 0, n_splits), undo, one)
            _add_one(one, leaves, routing, room, out, empty + 1 + f)
            for g in range(f + 1, n_features):
                pair += 1
                undo = in_row(undo_background, j * n_features + g, 0, n_splits)
                _exchange(routing.by_products, one, in_row(of_row, g, 0, n_splits), undo, two)
                _add_one(two, leaves, routing, room, out, pair)


@inner_kernel
def _exchange(by_products, state, part, undo, out):  # type: ignore[no-untyped-def]
    if by_products:
        for n in range(out.shape[0]):
            out[n] = state[n] * (part[n] * undo[n])
    else:
        for n in range(out.shape[0]):
            out[n] = state[n] + (part[n] + undo[n])


@inner_kernel
def _add_one(state, leaves, routing, room, out, place):  # type: ignore[no-untyped-def]
    """Add the outputs of one coalition whose parts are joined: the worth of every tree's root, from the leaves up."""
    n_splits = state.shape[0]
    go = in_row(room.left, 0, 0, n_splits)
    if routing.by_products:
        _invert(state, go)
    else:
        _copy(state, go)
        routing.activation(pointer(room.left), pointer(room.slope), n_splits, routing.theta)
    _add_up(go, leaves, room, out, place)


@inner_kernel
def _add_up(go, leaves, room, out, place):  # type: ignore[no-untyped-def]
    """Add the worth of every tree's root, from the leaves up."""
    n_splits, n_leaves = go.shape[0], leaves.shape[1]
    for c in range(leaves.shape[0]):
        width, end = n_leaves // 2, n_splits
        _choose(
            go[end - width : end], in_row(leaves, c, 0, width), in_row(leaves, c, width, n_leaves),
            in_row(room.worth, 0, 0, width),
        )  # fmt: skip
        end, width = end - width, width // 2
        while end > 0:
            _choose_in_place(
                go[end - width : end], in_row(room.worth, 0, 0, width), in_row(room.worth, 0, width, 2 * width)
            )
            end, width = end - width, width // 2
        out[place, c] += _sum(in_row(room.worth, 0, 0, n_leaves - n_splits))


@inner_kernel
def _invert(state, go):  # type: ignore[no-untyped-def]
    for n in range(go.shape[0]):
        go[n] = _ONE / (_ONE + state[n])


@inner_kernel
def _choose(go, left, right, worth):  # type: ignore[no-untyped-def]
    for n in range(go.shape[0]):
        worth[n] = right[n] + go[n] * (left[n] - right[n])


@inner_kernel
def _choose_in_place(go, left, right):  # type: ignore[no-untyped-def]
    # A function of its own: where two arguments are one array, the compiler gives up SIMD lanes.
    for n in range(go.shape[0]):
        left[n] = right[n] + go[n] * (left[n] - right[n])


@inner_kernel
def _sum(worth):  # type: ignore[no-untyped-def]
    total = 0.0
    for n in range(worth.shape[0]):
        total += worth[n]
    return total


@inner_kernel
def _copy(source, out):  # type: ignore[no-untyped-def]
    for n in range(out.shape[0]):
        out[n] = source[n]
