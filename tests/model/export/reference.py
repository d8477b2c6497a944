"""The formulas of a portable model in plain Python, one row at a time, written from its documentation."""

import math
from typing import Any

from skinnytrees.model.export.portable import Input, PortableModel


def predict_row(model: PortableModel, row: dict[str, Any]) -> list[float]:
    design = [d for one in model.inputs for d in design_of(one, row[one.name])]
    n_trees, n_splits = model.n_trees, len(model.b)
    scores = [
        float(model.b[n]) + sum(d * float(w) for d, w in zip(design, model.W[:, n], strict=True))
        for n in range(n_splits)
    ]
    raw = [float(base) for base in model.base]
    for tree in range(n_trees):
        for leaf in range(n_splits // n_trees + 1):
            probability = probability_of_leaf(model, scores, tree, leaf)
            for c in range(len(raw)):
                raw[c] += probability * float(model.O[c, leaf * n_trees + tree])
    return link(model.link, raw)


def probability_of_leaf(model: PortableModel, scores: list[float], tree: int, leaf: int) -> float:
    """From the leaf up to the root: a node at place p of a level has its children at p and p + width of the next one."""
    width, place, probability = (len(scores) // model.n_trees + 1) // 2, leaf, 1.0
    while width >= 1:
        is_left, place = place < width, place % width
        t = scores[(width - 1 + place) * model.n_trees + tree] / model.theta
        go_left = routing(model.routing, t)
        probability *= go_left if is_left else 1 - go_left
        width //= 2
    return probability


def design_of(one: Input, x: Any) -> list[float]:
    missing = x is None or x != x
    design = []
    if one.value is not None:
        z = 0.0 if missing else (x - one.value.mean) / one.value.scale
        design.append(max(-one.value.farthest, min(one.value.farthest, z)))
    if one.has_missing_column:
        design.append(float(missing))
    design += [0.0 if missing else height_at(x, one.knots, heights) for heights in one.curves]
    return design + [float(is_level(x, missing, level)) for level in one.levels]


def is_level(x: Any, missing: bool, level: Any) -> bool:
    if missing or level is None:
        return missing and level is None
    if isinstance(level, str) or level == math.floor(level):
        return x == level
    return abs(x - level) <= 2**-23 * abs(level)


def height_at(x: float, knots: tuple[float, ...], heights: tuple[float, ...]) -> float:
    if x <= knots[0]:
        return heights[0]
    for i in range(1, len(knots)):
        if x < knots[i]:
            return heights[i - 1] + (x - knots[i - 1]) / (knots[i] - knots[i - 1]) * (heights[i] - heights[i - 1])
    return heights[-1]


def routing(name: str, t: float) -> float:
    if name == "sigmoid":
        return 1 / (1 + math.exp(-t)) if t > 0 else math.exp(t) / (1 + math.exp(t))
    t = max(-1.0, min(1.0, t))
    return 0.5 + 0.25 * t * (3 - t * t)


def link(name: str, raw: list[float]) -> list[float]:
    if name == "exp":
        return [math.exp(r) for r in raw]
    if name == "identity":
        return raw
    powers = [math.exp(r - max(raw)) for r in raw]
    return [power / sum(powers) for power in powers]
