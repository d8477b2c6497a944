"""The forward pass of a sample through soft trees and the backpropagation of its gradient (paper, section S2).

Layout: node i of tree j of one sample stands at ``i * n_trees + j``, level after level, the leaves last. Where a level is
``width`` long, the node at ``at`` has its left child at ``at + width`` and its right child at ``at + 2 * width``: all left
children of a level come before all right ones. So a level is one loop in SIMD lanes, however few the trees.

Exact zeros of the smooth-step function take part in these loops: testing for nodes that no row reaches and skipping them was
slower (docs/speed.md). Where the products can be skipped with them, in prediction, they are: see ``hard_splits.py``.
"""

from skinnytrees.kernels.compilation import inner_kernel
from skinnytrees.kernels.numba_bridge.views import in_row


@inner_kernel
def descend(n_rows, n_trees, S, reach):  # type: ignore[no-untyped-def]
    """From the probability S to go left at every split node, fill the probability ``reach`` to arrive at every node and leaf."""
    for row in range(n_rows):
        for tree in range(n_trees):
            reach[row, tree] = 1
        at, width = 0, n_trees
        while at < S.shape[1]:
            below, last = at + width, at + 2 * width
            _split_reach(
                in_row(S, row, at, below), in_row(reach, row, at, below),
                in_row(reach, row, below, last), in_row(reach, row, last, last + width),
            )  # fmt: skip
            at, width = below, 2 * width


@inner_kernel
def ascend(n_rows, n_trees, S, reach, leaf_gradient, D):  # type: ignore[no-untyped-def]
    """From the leaves' part of ``leaf_gradient`` (loss gradient times leaf weight), turn ``D`` into the hyperplanes' gradient.

    ``D`` holds the activation's slope on entry and the loss gradient with respect to each split's w.x + b on return.
    """
    for row in range(n_rows):
        below, width = S.shape[1], (S.shape[1] + n_trees) // 2
        while below > 0:
            at, last = below - width, below + width
            _join(
                in_row(S, row, at, below), in_row(reach, row, at, below), in_row(leaf_gradient, row, below, last),
                in_row(leaf_gradient, row, last, last + width), in_row(leaf_gradient, row, at, below), in_row(D, row, at, below),
            )  # fmt: skip
            below, width = at, width // 2


# On slices, so that the compiler knows that parts of a row do not overlap: three times as fast.


@inner_kernel
def _split_reach(go, here, left, right):  # type: ignore[no-untyped-def]
    for i in range(go.shape[0]):
        to_left = here[i] * go[i]
        left[i] = to_left
        right[i] = here[i] - to_left


@inner_kernel
def _join(go, here, left, right, worth, gradient):  # type: ignore[no-untyped-def]
    for i in range(go.shape[0]):
        other = right[i]
        difference = left[i] - other
        worth[i] = other + go[i] * difference
        gradient[i] = gradient[i] * here[i] * difference
