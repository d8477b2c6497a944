"""JavaScript without dependencies, for Node.js and browsers: the model as an object, read by ``templates/predict.js``."""

import json
from importlib import resources
from typing import Any

import numpy as np

from skinnytrees.model.export.limits import refuse_large
from skinnytrees.model.export.portable import Input, PortableModel, level_tolerance


def to_bytes(model: PortableModel) -> bytes:
    """The JavaScript source of a model.

    Parameters
    ----------
    model : PortableModel
        What to write.

    Returns
    -------
    bytes
    """
    refuse_large(model, "JavaScript source")
    return script(model).encode()


def script(model: PortableModel) -> str:
    """The source, which defines ``skinnytrees``."""
    template = resources.files("skinnytrees.model.export").joinpath("templates/predict.js").read_text("utf-8")
    W, b, leaves = model.trees
    described = {
        "inputs": [_describe(one) for one in model.inputs],
        "base": model.base.tolist(),
        "nNodes": model.n_nodes,
        "routing": model.routing,
        "theta": model.theta,
        "link": model.link,
        "labels": list(model.labels),
    }
    numbers = ", ".join(f'"{name}": {_numbers(part)}' for name, part in (("W", W), ("b", b), ("O", leaves)))
    return template.replace("@MODEL@", f"{{{script_json(described)[1:-1]}, {numbers}}}")


def script_json(value: Any) -> str:
    """JSON that can stand in a script of a page: no text in it can end the script."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")


def _describe(one: Input) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "value": None if one.value is None else vars(one.value),
        "hasMissingColumn": one.has_missing_column,
        "knots": one.knots,
        "curves": one.curves,
        "levels": one.levels,
        "tolerances": [level_tolerance(level) if isinstance(level, float) else 0.0 for level in one.levels],
    }


def _numbers(values: Any) -> str:
    """Nine digits give back every number of single precision."""
    return "[" + ",".join(np.char.mod("%.9g", values.ravel()).tolist()) + "]"
