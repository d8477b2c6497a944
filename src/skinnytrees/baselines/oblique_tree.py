"""A complete binary tree with a hyperplane per node, and the steps of tree alternating optimisation (TAO) on it.

Nodes are numbered from the root, 0; the children of node i are 2 i + 1 and 2 i + 2. Node i sends x right if
``w_i'x + b_i >= 0``. Leaf j is node ``n_nodes + j``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from skinnytrees.baselines.base import Sample
from skinnytrees.baselines.l1_logistic import fit_l1_logistic

Array = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass
class ObliqueTree:
    """Hyperplanes of the nodes, and the class frequencies of the leaves.

    Attributes
    ----------
    W : array of shape (n_nodes, n_columns)
        Weights.
    b : array of shape (n_nodes,)
        Thresholds.
    frequencies : array of shape (n_nodes + 1, n_classes)
        Class frequencies of each leaf; its label is the largest one.
    """

    W: Array
    b: Array
    frequencies: Array

    @classmethod
    def random(cls, depth: int, n_columns: int, n_classes: int, rng: np.random.Generator) -> "ObliqueTree":
        """Standard normal hyperplanes: on columns of mean 0 the root splits near the middle."""
        n_nodes = 2**depth - 1
        frequencies = rng.dirichlet(np.ones(n_classes), n_nodes + 1)
        return cls(rng.standard_normal((n_nodes, n_columns)), rng.standard_normal(n_nodes), frequencies)

    @classmethod
    def from_cart(cls, depth: int, sample: Sample, n_classes: int, seed: int) -> "ObliqueTree":
        """The splits of a CART tree; where it ends early, nodes send all rows to the right."""
        grown = DecisionTreeClassifier(max_depth=depth, random_state=seed)
        grown.fit(sample.X, sample.y, sample_weight=sample.weight)
        cart = grown.tree_
        n_nodes = 2**depth - 1
        tree = cls(np.zeros((n_nodes, sample.X.shape[1])), np.ones(n_nodes), np.zeros((n_nodes + 1, n_classes)))
        place = {0: 0}  # of our nodes in CART's
        for i in range(2 * n_nodes + 1):
            node = place[i]
            is_leaf = cart.children_left[node] < 0
            if i >= n_nodes:
                tree.frequencies[i - n_nodes, grown.classes_.astype(int)] = (
                    cart.value[node][0] / cart.value[node][0].sum()
                )
                continue
            if not is_leaf:
                tree.W[i, cart.feature[node]] = 1.0
                tree.b[i] = -cart.threshold[node]
            place[2 * i + 1] = node if is_leaf else int(cart.children_left[node])
            place[2 * i + 2] = node if is_leaf else int(cart.children_right[node])
        return tree

    @property
    def n_nodes(self) -> int:
        """Number of nodes with a hyperplane."""
        return len(self.b)

    def copy(self) -> "ObliqueTree":
        """A deep copy."""
        return ObliqueTree(self.W.copy(), self.b.copy(), self.frequencies.copy())

    def split(self, node: int, X: Array, rows: Rows) -> tuple[Rows, Rows]:
        """Rows that a node sends left and right."""
        goes_right = X[rows] @ self.W[node] + self.b[node] >= 0
        return rows[~goes_right], rows[goes_right]

    def route(self, X: Array, rows: Rows, start: int = 0) -> dict[int, Rows]:
        """Rows that reach each node and leaf of the subtree below ``start``; those that none reaches are left out."""
        reached = {start: rows}
        waiting = [start]
        while waiting:
            node = waiting.pop()
            if node >= self.n_nodes:
                continue
            for child, part in zip((2 * node + 1, 2 * node + 2), self.split(node, X, reached[node]), strict=True):
                if len(part):
                    reached[child] = part
                    waiting.append(child)
        return reached

    def leaves(self, X: Array, rows: Rows, start: int = 0) -> Rows:
        """Number of the leaf that each of the rows reaches, from the node ``start``."""
        leaf = np.zeros(len(X), dtype=np.intp)
        for node, reached in self.route(X, rows, start).items():
            if node >= self.n_nodes:
                leaf[reached] = node - self.n_nodes
        return leaf[rows]

    def labels(self, X: Array, rows: Rows, start: int = 0) -> Rows:
        """Predicted class of the rows, from the node ``start``."""
        return self.frequencies.argmax(axis=1)[self.leaves(X, rows, start)]

    def predict_proba(self, X: Array) -> Array:
        """Class frequencies of the rows' leaves."""
        return self.frequencies[self.leaves(X, np.arange(len(X)))]


def update_leaves(tree: ObliqueTree, sample: Sample) -> None:
    """Class frequencies of the rows that reach each leaf; a leaf that none reaches keeps its own."""
    leaf = tree.leaves(sample.X, np.arange(len(sample.y)))
    counts = np.zeros_like(tree.frequencies)
    np.add.at(counts, (leaf, sample.y), sample.weight)
    total = counts.sum(axis=1)
    reached = total > 0
    tree.frequencies[reached] = counts[reached] / total[reached, None]


def pseudo_labels(tree: ObliqueTree, node: int, sample: Sample, rows: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """Rows that one child classifies correctly and the other does not, and whether the right child is the better one."""
    wrong_left = tree.labels(sample.X, rows, 2 * node + 1) != sample.y[rows]
    wrong_right = tree.labels(sample.X, rows, 2 * node + 2) != sample.y[rows]
    matters = wrong_left != wrong_right
    return rows[matters], wrong_left[matters]


@dataclass(frozen=True)
class NodeStep:
    """How one node is solved.

    Attributes
    ----------
    lam : float
        Price of the weights' l1 norm.
    accept : {"always", "no_worse"}
        Whether a new hyperplane must not raise the error of the rows that matter.
    seed : int
        Of liblinear.
    """

    lam: float
    accept: str
    seed: int

    def __call__(self, tree: ObliqueTree, node: int, sample: Sample, rows: Rows) -> None:
        """Replace the hyperplane of a node, which the rows reach, by that of an l1 logistic regression."""
        care, right = pseudo_labels(tree, node, sample, rows)
        if len(care) == 0:
            return
        w, b = self._solve(sample.X[care], right, sample.weight[care])
        if self.accept == "no_worse":
            scores = sample.X[care] @ np.column_stack([tree.W[node], w]) + [tree.b[node], b]
            old_error, new_error = sample.weight[care] @ ((scores >= 0) != right[:, None])
            if new_error > old_error:
                return
        tree.W[node], tree.b[node] = w, b

    def _solve(self, X: Array, right: NDArray[np.bool_], weight: Array) -> tuple[Array, float]:
        if right.all() or not right.any():
            return np.zeros(X.shape[1]), 1.0 if right[0] else -1.0
        model = fit_l1_logistic(X, right, weight, 1 / self.lam, self.seed)
        return model.coef_[0], float(model.intercept_[0])


def iterate(tree: ObliqueTree, sample: Sample, step: NodeStep) -> None:
    """One iteration: the leaves, then all nodes from the deepest to the root.

    Which rows reach a node depends on the nodes above it only, so that one routing serves the whole iteration.
    """
    update_leaves(tree, sample)
    reached = tree.route(sample.X, np.arange(len(sample.y)))
    for node in range(tree.n_nodes - 1, -1, -1):
        if node in reached:
            step(tree, node, sample, reached[node])


def optimise(tree: ObliqueTree, sample: Sample, step: NodeStep, n_iterations: int) -> int:
    """Iterate in place, until nothing changes or the limit is reached, and update the leaves; return the number of iterations."""
    n_done = 0
    while n_done < n_iterations:
        n_done += 1
        before = tree.copy()
        iterate(tree, sample, step)
        if np.array_equal(before.W, tree.W) and np.array_equal(before.b, tree.b):
            break
    update_leaves(tree, sample)
    return n_done


def largest_penalty(tree: ObliqueTree, sample: Sample) -> float:
    """The smallest lambda that empties every node of this tree, the leaves and the rows of each node being as they are."""
    largest = 0.0
    for node, rows in tree.route(sample.X, np.arange(len(sample.y))).items():
        if node >= tree.n_nodes:
            continue
        care, right = pseudo_labels(tree, node, sample, rows)
        if len(care):
            weight = sample.weight[care]
            gap = weight * (right - np.average(right, weights=weight))
            largest = max(largest, float(np.abs(gap @ sample.X[care]).max()))
    return largest


@dataclass(frozen=True)
class PrunedTree:
    """Only the nodes that split rows. ``left`` and ``right`` are nodes, or -1 - j for leaf j.

    Attributes
    ----------
    W, b : arrays
        Hyperplanes.
    left, right : array of int
        Children.
    frequencies : array of shape (n_leaves, n_classes)
        Class frequencies.
    reached : array of float
        Fraction of the training rows that reach each node.
    """

    W: Array
    b: Array
    left: Rows
    right: Rows
    frequencies: Array
    reached: Array

    @property
    def importances(self) -> Array:
        """For each column, the sum over nodes of the fraction of rows times the absolute weight."""
        return np.asarray(self.reached @ np.abs(self.W))

    def predict_proba(self, X: Array) -> Array:
        """Class frequencies of the rows' leaves."""
        out = np.empty((len(X), self.frequencies.shape[1]))
        waiting = [(0 if len(self.b) else -1, np.arange(len(X)))]
        while waiting:
            node, rows = waiting.pop()
            if node < 0:
                out[rows] = self.frequencies[-1 - node]
                continue
            goes_right = X[rows] @ self.W[node] + self.b[node] >= 0
            waiting += [(int(self.left[node]), rows[~goes_right]), (int(self.right[node]), rows[goes_right])]
        return out

    def columns(self, columns: NDArray[Any]) -> "PrunedTree":
        """The same tree for a matrix that has only these columns, which must be all that it reads."""
        return PrunedTree(self.W[:, columns], self.b, self.left, self.right, self.frequencies, self.reached)


def prune(tree: ObliqueTree, sample: Sample) -> PrunedTree:
    """Remove what no training row reaches, and replace a node that sends all rows to one child by that child."""
    reached = tree.route(sample.X, np.arange(len(sample.y)))
    nodes: list[int] = []
    children: list[tuple[int, int]] = []
    leaves: list[int] = []

    def keep(node: int) -> int:
        while node < tree.n_nodes:
            left, right = 2 * node + 1, 2 * node + 2
            if left in reached and right in reached:
                place = len(nodes)
                nodes.append(node)
                children.append((0, 0))
                children[place] = keep(left), keep(right)
                return place
            node = left if left in reached else right
        leaves.append(node - tree.n_nodes)
        return -len(leaves)

    keep(0)
    left, right = np.array(children, dtype=np.intp).reshape(-1, 2).T
    fraction = np.array([sample.weight[reached[node]].sum() for node in nodes]) / sample.weight.sum()
    return PrunedTree(tree.W[nodes], tree.b[nodes], left, right, tree.frequencies[leaves], fraction)
