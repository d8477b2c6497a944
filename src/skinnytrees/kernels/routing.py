"""How a sample runs down soft trees and how its gradient runs back up (paper, section S2).

Layout: node i of tree j of one sample stands at ``i * n_trees + j``, nodes in breadth-first order, the leaves after
the split nodes. Trees are innermost, so every loop here runs over trees in SIMD lanes.
"""

from skinnytrees.kernels.compilation import kernel


@kernel
def descend(n_rows, n_trees, S, reach, alive):  # type: ignore[no-untyped-def]
    """From the chance S to go left at every split node, fill the chance ``reach`` to arrive at every node and leaf.

    A node that no tree sends the sample to (smooth-step gives exact zeros) is marked dead and costs a fill with zeros.
    """
    n_splits = S.shape[1] // n_trees
    for row in range(n_rows):
        go, here, live = S[row], reach[row], alive[row]
        for tree in range(n_trees):
            here[tree] = 1
        live[0] = True
        for node in range(n_splits):
            at, left, right = node * n_trees, (2 * node + 1) * n_trees, (2 * node + 2) * n_trees
            if not live[node]:
                for tree in range(2 * n_trees):
                    here[left + tree] = 0
                live[2 * node + 1] = False
                live[2 * node + 2] = False
                continue
            some_left = S.dtype.type(0)
            some_right = S.dtype.type(0)
            for tree in range(n_trees):
                to_left = here[at + tree] * go[at + tree]
                to_right = here[at + tree] - to_left
                here[left + tree] = to_left
                here[right + tree] = to_right
                some_left += to_left
                some_right += to_right
            live[2 * node + 1] = some_left != 0
            live[2 * node + 2] = some_right != 0


@kernel
def ascend(n_rows, n_trees, S, reach, alive, value, D):  # type: ignore[no-untyped-def]
    """From the leaves' part of ``value`` (loss gradient times leaf weight), turn ``D`` into the hyperplanes' gradient.

    ``D`` holds the activation's slope on entry and the loss gradient with respect to each split's w.x + b on return.
    """
    n_splits = S.shape[1] // n_trees
    for row in range(n_rows):
        go, here, live, worth, gradient = S[row], reach[row], alive[row], value[row], D[row]
        for node in range(n_splits - 1, -1, -1):
            at, left, right = node * n_trees, (2 * node + 1) * n_trees, (2 * node + 2) * n_trees
            if not live[node]:
                for tree in range(n_trees):
                    worth[at + tree] = 0
                    gradient[at + tree] = 0
                continue
            _pass_up(
                go[at : at + n_trees], here[at : at + n_trees], worth[left : left + n_trees],
                worth[right : right + n_trees], worth[at : at + n_trees], gradient[at : at + n_trees],
            )  # fmt: skip


@kernel
def _pass_up(go, here, left, right, worth, gradient):  # type: ignore[no-untyped-def]
    # On slices, so that the compiler need not fear that one node's row overlaps another's: three times as fast.
    for tree in range(go.shape[0]):
        other = right[tree]
        difference = left[tree] - other
        worth[tree] = other + go[tree] * difference
        gradient[tree] = gradient[tree] * here[tree] * difference
