"""The formulas of ``PortableModel`` in numpy and double precision, for what a file reports about a model besides its weights."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.model.export.portable import Input, PortableModel, level_tolerance

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]


def raw_outputs(model: PortableModel, columns: Columns) -> NDArray[np.float64]:
    """Raw outputs (rows, outputs) for the values of each input, by its name."""
    design = np.hstack([design_columns(one, columns[one.name]) for one in model.inputs])
    t = (design @ model.W.astype(np.float64) + model.b) / model.theta
    go_left = _ROUTING[model.routing](t)
    # On a level, all left children come before all right ones.
    reach, at = np.ones((len(design), model.n_trees)), 0
    while at < go_left.shape[1]:
        here = go_left[:, at : at + reach.shape[1]]
        at += reach.shape[1]
        reach = np.hstack([reach * here, reach * (1 - here)])
    return reach @ model.O.T.astype(np.float64) + model.base


def predictions(model: PortableModel, columns: Columns) -> NDArray[np.float64]:
    """Probabilities of the classes, or predicted numbers."""
    return _LINKS[model.link](raw_outputs(model, columns))


def design_columns(one: Input, values: Any) -> NDArray[np.float64]:
    """The design columns of one input."""
    if one.kind == "text":
        missing = np.array([value is None or value != value for value in values])
        made = [missing if level is None else np.array([value == level for value in values]) for level in one.levels]
        return np.column_stack(made).astype(np.float64)
    x = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    missing = np.isnan(x)
    made = []
    if one.value is not None:
        far = one.value.farthest
        made.append(np.where(missing, 0.0, np.clip((x - one.value.mean) / one.value.scale, -far, far)))
    if one.has_missing_column:
        made.append(missing)
    made += [np.where(missing, 0.0, np.interp(x, one.knots, heights)) for heights in one.curves]
    for level in one.levels:
        made.append(missing if level is None else np.abs(x - float(level)) <= level_tolerance(float(level)))
    return np.column_stack(made).astype(np.float64)


def _sigmoid(t: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 + 0.5 * np.tanh(0.5 * t)


def _smooth_step(t: NDArray[np.float64]) -> NDArray[np.float64]:
    t = np.clip(t, -1, 1)
    return 0.5 + 0.25 * t * (3 - t * t)


def _softmax(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(raw - raw.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


_ROUTING = {"sigmoid": _sigmoid, "smoothstep": _smooth_step}
_LINKS: dict[str, Callable[[Any], Any]] = {"identity": lambda raw: raw, "exp": np.exp, "softmax": _softmax}
