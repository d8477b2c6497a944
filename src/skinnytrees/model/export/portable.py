"""A fitted model as plain data: what every export format is written from, and nothing that only training needs.

The formulas, for one row: each input becomes its design columns (``Input``), all of them together the vector d. Split n of the
ensemble has the score z = b[n] + sum over k of d[k] W[k, n] and sends the row left with the probability ``routing(z / theta)``.
The raw outputs are ``base`` plus the sum over all leaves of the probability to arrive there times the leaf's weight; ``link``
turns them into predictions. The layout of W, b and O is that of ``skinnytrees.kernels.routing``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import Sigmoid, SmoothStep
from skinnytrees.exceptions import refuse_unless
from skinnytrees.losses import CompiledLoss, Loss, Multinomial, Poisson
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.tables.encoding import Encoder

# A fraction that was read in single precision stands for the same level as the one in double precision.
_SINGLE_PRECISION = 2.0**-23

Level = float | str | None


@dataclass(frozen=True)
class ScaledValue:
    """The design column ``(x - mean) / scale``, cut at ``farthest`` on either side; zero where x is missing."""

    mean: float
    scale: float
    farthest: float


@dataclass(frozen=True)
class Input:
    """One column that a model reads, and the design columns made of it, in this order.

    Attributes
    ----------
    name : str
        Of the column.
    kind : {"number", "category", "text"}
        A number; a number that only names a category; text that names a category.
    value : ScaledValue or None
        The first design column of a number; categories have none.
    has_missing_column : bool
        Whether there is a design column that is 1 where x is missing and 0 elsewhere.
    knots : tuple of float
        Of the piecewise-linear curves, in increasing order.
    curves : tuple of tuples of float
        One design column each: the height at x of the curve through these heights at the knots, constant beyond the first
        and the last knot; zero where x is missing.
    levels : tuple of float, str or None
        One design column each: 1 where x is this value (None: is missing), 0 elsewhere, also for an unknown category. A
        number that is not whole counts as equal within single precision, see ``level_tolerance``.
    importance : float
        Fraction of all inputs' importance.
    """

    name: str
    kind: str
    value: ScaledValue | None
    has_missing_column: bool
    knots: tuple[float, ...]
    curves: tuple[tuple[float, ...], ...]
    levels: tuple[Level, ...]
    importance: float

    @property
    def n_columns(self) -> int:
        """Number of design columns."""
        return (self.value is not None) + self.has_missing_column + len(self.curves) + len(self.levels)

    @property
    def categories(self) -> tuple[Any, ...]:
        """The levels that are not "missing"."""
        return tuple(level for level in self.levels if level is not None)


@dataclass(frozen=True, eq=False)
class PortableModel:
    """Inputs, trees and link of a fitted model.

    Attributes
    ----------
    inputs : tuple of Input
        In the order in which the design columns stand.
    W, b, O : arrays of float32
        Hyperplanes (design columns, splits), biases (splits,) and leaf weights (outputs, leaves).
    base : array of float64
        Added to the raw outputs.
    routing : {"sigmoid", "smoothstep"}
        ``1 / (1 + exp(-t))``, or with t cut to [-1, 1] ``1/2 + t (3 - t**2) / 4``.
    theta : float
        Softness.
    link : {"identity", "exp", "softmax"}
        From raw outputs to predictions.
    labels : tuple of int or str
        The classes of a classifier; empty for a regressor.
    """

    inputs: tuple[Input, ...]
    W: NDArray[np.float32] = field(repr=False)
    b: NDArray[np.float32] = field(repr=False)
    O: NDArray[np.float32] = field(repr=False)  # noqa: E741
    base: NDArray[np.float64]
    routing: str
    theta: float
    link: str
    labels: tuple[int | str, ...]

    @property
    def n_trees(self) -> int:
        """Number of trees: a perfect tree has one leaf more than it has splits."""
        return int(self.O.shape[1] - self.W.shape[1])

    @property
    def n_nodes(self) -> int:
        """Number of splits per tree."""
        return self.W.shape[1] // self.n_trees

    @property
    def n_outputs(self) -> int:
        """Number of raw outputs."""
        return len(self.base)

    @property
    def n_numbers(self) -> int:
        """Numbers that a file must hold."""
        in_curves = sum(len(one.knots) * (1 + len(one.curves)) for one in self.inputs)
        return int(self.W.size + self.b.size + self.O.size + in_curves)

    @property
    def trees(self) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Weights tree by tree: W (trees, design columns, splits), b (trees, splits), O (trees, outputs, leaves)."""
        n_nodes, n_trees = self.n_nodes, self.n_trees
        return (
            self.W.reshape(len(self.W), n_nodes, n_trees).transpose(2, 0, 1),
            self.b.reshape(n_nodes, n_trees).T,
            self.O.reshape(self.n_outputs, n_nodes + 1, n_trees).transpose(2, 0, 1),
        )

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the outputs are called: the classes, or "prediction", with a number where there are several."""
        if self.labels:
            return tuple(str(label) for label in self.labels)
        return ("prediction",) if self.n_outputs == 1 else tuple(f"prediction{c}" for c in range(self.n_outputs))


def level_tolerance(level: float) -> float:
    """How far a number may be from a level that it still stands for: whole numbers must be equal.

    Examples
    --------
    >>> from skinnytrees.model.export.portable import level_tolerance
    >>> level_tolerance(3.0), level_tolerance(0.5)
    (0.0, 5.960464477539063e-08)
    """
    return 0.0 if level == np.floor(level) else _SINGLE_PRECISION * abs(level)


def describe(
    model: SoftTrees, names: Sequence[Any], words: Mapping[int, Mapping[Any, int]], loss: Loss, classes: Sequence[Any]
) -> PortableModel:
    """A fitted model as plain data.

    Parameters
    ----------
    model : SoftTrees
        Fitted ensemble.
    names : sequence
        Name of every column of the table, those that are not read included.
    words : mapping
        For each column that was read as categories, the number that each category has in the encoder.
    loss : Loss
        Determines how raw outputs become predictions.
    classes : sequence
        Labels of a classifier; empty for a regressor.

    Returns
    -------
    PortableModel
    """
    features, encoder = model.features, model.encoder
    refuse_unless(
        len(features) > 0,
        "The model reads no column, so that its prediction is a constant and there is nothing to export. "
        "Fit with a weaker penalty or a larger feature_budget.",
    )
    _refuse_repeats([str(names[k]) for k in features.tolist()])
    importance = np.bincount(encoder.feature, model.column_importances(), int(features[-1]) + 1)
    importance = importance / max(importance.sum(), np.finfo(float).tiny)
    described = [
        _describe_input(encoder, k, str(names[k]), words.get(k), float(importance[k])) for k in features.tolist()
    ]
    order = np.concatenate([columns for _, columns in described])
    activation = model.activation
    if not isinstance(activation, Sigmoid | SmoothStep):
        raise TypeError(f"activation={activation!r} has no formula to export. Use 'sigmoid' or 'smoothstep'.")
    return PortableModel(
        inputs=tuple(one for one, _ in described),
        W=model.trees.W[order].astype(np.float32),
        b=model.trees.b.astype(np.float32),
        O=model.trees.O.astype(np.float32),
        base=model.base,
        routing=activation.name,
        theta=float(activation.theta),
        link=_link(loss),
        labels=tuple(_label(label) for label in classes),
    )


def _describe_input(
    encoder: Encoder, k: int, name: str, words: Mapping[Any, int] | None, importance: float
) -> tuple[Input, NDArray[np.intp]]:
    """One input, and where its design columns stand in the encoder."""
    columns = np.flatnonzero(encoder.feature == k)
    is_level, is_missing, is_curve = (
        mask[columns] for mask in (encoder.is_level, encoder.is_indicator, encoder.curves.exists)
    )
    is_value = ~(is_level | is_missing | is_curve)
    kinds = [columns[mask] for mask in (is_value, is_missing, is_curve, is_level)]
    values, missing, curves, levels = kinds
    spans = [slice(*encoder.curves.offsets[j : j + 2]) for j in curves]
    knots = {tuple(encoder.curves.knots[span].tolist()) for span in spans} or {()}
    (shared_knots,) = knots  # the two ranks of a feature are curves over the same knots
    kind, level_values = _read_levels(name, encoder.level[levels].tolist(), words)
    value = None
    if len(values):
        mean, scale = float(encoder.mean[values[0]]), float(encoder.scale[values[0]])
        kind, value = "number", ScaledValue(mean, scale, float(encoder.farthest))
    one = Input(
        name=name,
        kind=kind,
        value=value,
        has_missing_column=len(missing) > 0,
        knots=shared_knots,
        curves=tuple(tuple(encoder.curves.heights[span].tolist()) for span in spans),
        levels=level_values,
        importance=importance,
    )
    return one, np.concatenate(kinds)


def _refuse_repeats(names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    refuse_unless(
        not repeated,
        f"Several columns that the model reads have the name {repeated[:1]}, so that a file cannot tell them apart. "
        "Rename them before fit.",
    )


def _read_levels(name: str, levels: list[float], words: Mapping[Any, int] | None) -> tuple[str, tuple[Level, ...]]:
    """What a column of categories holds, and the values that its levels stand for."""
    if words is None:
        return "category", tuple(None if level != level else level for level in levels)
    word_of = {code: word for word, code in words.items()}
    if all(isinstance(word, str) for word in words):
        return "text", tuple(None if level != level else word_of[int(level)] for level in levels)
    for word in words:
        refuse_unless(
            isinstance(word, int | float),
            f"Column {name!r} has the category {word!r}, a {type(word).__name__}; files can hold categories that are all "
            "text or all numbers. Convert the column to text before fit.",
        )
    return "category", tuple(None if level != level else float(word_of[int(level)]) for level in levels)


def _link(loss: Loss) -> str:
    if isinstance(loss, Multinomial):
        return "softmax"
    if isinstance(loss, Poisson):
        return "exp"
    is_identity = isinstance(loss, CompiledLoss) or not hasattr(getattr(loss, "loss", None), "to_prediction")
    refuse_unless(
        is_identity,
        f"The loss {getattr(loss, 'loss', loss)!r} has a to_prediction of its own, which no file can hold. Use a loss of "
        "skinnytrees, or one whose predictions are the raw outputs.",
    )
    return "identity"


def _label(label: Any) -> int | str:
    label = getattr(label, "item", lambda: label)()
    if isinstance(label, str):
        return label
    refuse_unless(
        isinstance(label, int | float) and float(label).is_integer(),
        f"The class {label!r} is neither text nor a whole number, so that no file can hold it. Fit with such labels.",
    )
    return int(label)
