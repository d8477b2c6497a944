"""ONNX: a graph of standard operators (opset 15, ai.onnx.ml 2) with categories and missing values inside.

Inputs and outputs are those that users of skl2onnx know: one input of shape [N, 1] per column, by its name, of floats (NaN where
a value is missing) or strings (``missing_text`` where it is missing); outputs ``label`` and ``probabilities``, or ``variable``.
What an input becomes is computed in double precision, so that rows come to the same side of a knot or level as in Python; the
trees compute in single precision, as in Python.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import import_optional, refuse_unless
from skinnytrees.model.export.portable import PortableModel, level_tolerance

OPSET, ML_OPSET, IR_VERSION = 15, 2, 8
ML_DOMAIN = "ai.onnx.ml"
# Types of TensorProto, which the standard fixes.
FLOAT, INT64, STRING, DOUBLE = 1, 7, 8, 11
_INPUT_TYPES = {"float": FLOAT, "double": DOUBLE}


class Node(NamedTuple):
    """One operator of a graph."""

    operator: str
    inputs: tuple[str, ...]
    output: str
    domain: str
    attributes: dict[str, Any]


class Graph:
    """Operators and constants, as plain data."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.nodes: list[Node] = []
        self.constants: dict[str, NDArray[Any]] = {}

    def add(self, operator: str, *inputs: str, output: str | None = None, domain: str = "", **attributes: Any) -> str:
        """Add an operator and return the name of its output."""
        output = output or f"{self.prefix}{operator}{len(self.nodes)}"
        self.nodes.append(Node(operator, inputs, output, domain, attributes))
        return output

    def constant(self, values: Any, dtype: Any) -> str:
        """Add a constant and return its name."""
        name = f"{self.prefix}constant{len(self.constants)}"
        self.constants[name] = np.array(values, dtype=dtype)
        return name

    def join(self, names: Sequence[str]) -> str:
        """Columns side by side."""
        return names[0] if len(names) == 1 else self.add("Concat", *names, axis=1)

    def pick(self, table: str, columns: Sequence[int]) -> str:
        """Some columns of a table."""
        return self.add("Gather", table, self.constant(columns, np.int64), axis=1)


def to_bytes(model: PortableModel, input_type: str = "float") -> bytes:
    """The ONNX file of a model.

    Parameters
    ----------
    model : PortableModel
        What to write.
    input_type : {"float", "double"}, default="float"
        Type of the inputs that are numbers. Doubles are for numbers that single precision cannot distinguish.

    Returns
    -------
    bytes
    """
    refuse_unless(input_type in _INPUT_TYPES, f"input_type={input_type!r} is not known. Use 'float' or 'double'.")
    onnx = import_extra("onnx")
    make, taken = onnx.helper, {one.name for one in model.inputs}
    inputs = [
        make.make_tensor_value_info(one.name, STRING if one.kind == "text" else _INPUT_TYPES[input_type], [None, 1])
        for one in model.inputs
    ]
    graph = Graph("skinnytrees/")
    numbers = [one.name for one in model.inputs if one.kind != "text"]
    texts = [one.name for one in model.inputs if one.kind == "text"]
    names = tuple(_free_name(name, taken) for name in (("label", "probabilities") if model.labels else ("variable",)))
    add_model(graph, model, graph.join(numbers) if numbers else None, texts, names)
    types = [INT64 if isinstance(model.labels[0], int) else STRING, FLOAT] if model.labels else [FLOAT]
    shapes = [[None], [None, model.n_outputs]] if model.labels else [[None, model.n_outputs]]
    outputs = [make.make_tensor_value_info(*each) for each in zip(names, types, shapes, strict=True)]
    body = make.make_graph(
        [make.make_node(n.operator, n.inputs, [n.output], domain=n.domain, **n.attributes) for n in graph.nodes],
        "skinnytrees",
        inputs,
        outputs,
        [make_tensor(name, values) for name, values in graph.constants.items()],
    )
    opsets = [make.make_opsetid("", OPSET), make.make_opsetid(ML_DOMAIN, ML_OPSET)]
    whole = make.make_model(body, opset_imports=opsets, ir_version=IR_VERSION, producer_name="skinnytrees")
    missing = {one.name: missing_text(one.categories) for one in model.inputs if one.kind == "text"}
    make.set_model_props(whole, {"missing_text": json.dumps(missing)})
    onnx.checker.check_model(whole, full_check=True)
    return bytes(whole.SerializeToString())


def missing_text(categories: Sequence[str]) -> str:
    """What stands for a missing text, because ONNX has no missing strings: the empty one, unless that is a category.

    Examples
    --------
    >>> from skinnytrees.model.export.to_onnx import missing_text
    >>> missing_text(["a", "b"]), missing_text(["", "b"])
    ('', '<missing>')
    """
    return "" if "" not in categories else "<missing>"


def add_model(
    graph: Graph, model: PortableModel, numbers: str | None, texts: Sequence[str], outputs: Sequence[str]
) -> None:
    """Add all operators of a model.

    Parameters
    ----------
    graph : Graph
        Where to.
    model : PortableModel
        What to add.
    numbers : str or None
        Name of the table of all inputs that are not text, in their order.
    texts : sequence of str
        Names of the inputs that are text, of shape [N, 1].
    outputs : sequence of str
        Names that the outputs get: label and probabilities, or the predictions.
    """
    design, order = _add_design(graph, model, numbers, texts)
    raw = _add_trees(graph, model, design, order)
    if not model.labels:
        graph.add("Exp" if model.link == "exp" else "Identity", raw, output=outputs[0])
        return
    kind = np.int64 if isinstance(model.labels[0], int) else object
    code = graph.add("ArgMax", raw, axis=1, keepdims=0)
    graph.add("Gather", graph.constant(model.labels, kind), code, output=outputs[0], axis=0)
    graph.add("Softmax", raw, output=outputs[1], axis=1)


def _add_design(
    graph: Graph, model: PortableModel, numbers: str | None, texts: Sequence[str]
) -> tuple[str, NDArray[np.intp]]:
    """The design columns, kind by kind, and which column of the model each of them is."""
    parts: list[str] = []
    kinds: list[str] = []
    if numbers is not None:
        x = graph.add("Cast", numbers, to=DOUBLE)
        missing = graph.add("IsNaN", x)
        for kind, adder in _NUMBER_COLUMNS.items():
            part = adder(graph, [one for one in model.inputs if one.kind != "text"], x, missing)
            if part is not None:
                parts.append(part)
                kinds.append(kind)
    if texts:
        parts.append(_add_texts(graph, [one for one in model.inputs if one.kind == "text"], texts))
        kinds.append("text")
    kind_of = np.array([kind for one in model.inputs for kind in _kinds_of(one)])
    return graph.join(parts), np.concatenate([np.flatnonzero(kind_of == kind) for kind in kinds])


def _kinds_of(one: Any) -> list[str]:
    """Which part of the graph computes each of an input's design columns."""
    if one.kind == "text":
        return ["text"] * len(one.levels)
    first = ["value"] * (one.value is not None) + ["missing"] * one.has_missing_column + ["curve"] * len(one.curves)
    return first + ["missing" if level is None else "level" for level in one.levels]


def _add_values(graph: Graph, inputs: Sequence[Any], x: str, missing: str) -> str | None:
    places = [k for k, one in enumerate(inputs) if one.value is not None]
    if not places:
        return None
    values = [inputs[k].value for k in places]
    x, missing = graph.pick(x, places), graph.pick(missing, places)
    mean = graph.constant([[value.mean for value in values]], np.float64)
    scale = graph.constant([[value.scale for value in values]], np.float64)
    far = np.array([[value.farthest for value in values]])
    scaled = graph.add("Div", graph.add("Sub", graph.add("Where", missing, mean, x), mean), scale)
    low, high = graph.constant(-far, np.float64), graph.constant(far, np.float64)
    return graph.add("Cast", graph.add("Max", graph.add("Min", scaled, high), low), to=FLOAT)


def _add_missing(graph: Graph, inputs: Sequence[Any], x: str, missing: str) -> str | None:
    places = [k for k, one in enumerate(inputs) for kind in _kinds_of(one) if kind == "missing"]
    return graph.add("Cast", graph.pick(missing, places), to=FLOAT) if places else None


def _add_curves(graph: Graph, inputs: Sequence[Any], x: str, missing: str) -> str | None:
    """Height at x = first height + sum over the gaps between knots of (part of the gap below x) * (rise over the gap)."""
    curves = [(k, heights) for k, one in enumerate(inputs) for heights in one.curves]
    if not curves:
        return None
    with_knots = [k for k, one in enumerate(inputs) if len(one.knots) > 1]
    gaps = [np.diff(inputs[k].knots) for k in with_knots]
    gap_of = np.concatenate([np.full(len(gap), k) for k, gap in zip(with_knots, gaps, strict=True)])
    rises = np.zeros((len(gap_of), len(curves)))
    for c, (k, heights) in enumerate(curves):
        rises[gap_of == k, c] = np.diff(heights)
    lower = np.concatenate([inputs[k].knots[:-1] for k in with_knots])
    zero, one = graph.constant(0.0, np.float64), graph.constant(1.0, np.float64)
    distance = graph.add("Sub", graph.pick(x, gap_of.tolist()), graph.constant([lower], np.float64))
    # A missing value must not reach the product, where zero times it is missing, too.
    distance = graph.add("Where", graph.pick(missing, gap_of.tolist()), zero, distance)
    part = graph.add("Div", distance, graph.constant([np.concatenate(gaps)], np.float64))
    part = graph.add("Min", graph.add("Max", part, zero), one)
    rise = graph.add("MatMul", part, graph.constant(rises, np.float64))
    height = graph.add("Add", rise, graph.constant([[heights[0] for _, heights in curves]], np.float64))
    height = graph.add("Where", graph.pick(missing, [k for k, _ in curves]), zero, height)
    return graph.add("Cast", height, to=FLOAT)


def _add_levels(graph: Graph, inputs: Sequence[Any], x: str, missing: str) -> str | None:
    levels = [(k, level) for k, one in enumerate(inputs) for level in one.categories]
    if not levels:
        return None
    values = graph.constant([[level for _, level in levels]], np.float64)
    tolerances = graph.constant([[level_tolerance(level) for _, level in levels]], np.float64)
    distance = graph.add("Abs", graph.add("Sub", graph.pick(x, [k for k, _ in levels]), values))
    return graph.add("Cast", graph.add("LessOrEqual", distance, tolerances), to=FLOAT)


_NUMBER_COLUMNS = {"value": _add_values, "missing": _add_missing, "curve": _add_curves, "level": _add_levels}


def _add_texts(graph: Graph, inputs: Sequence[Any], texts: Sequence[str]) -> str:
    codes: list[str] = []
    places: list[int] = []
    numbers: list[int] = []
    for k, (one, text) in enumerate(zip(inputs, texts, strict=True)):
        words = [missing_text(one.categories) if level is None else level for level in one.levels]
        encode: dict[str, Any] = {"keys_strings": words, "values_int64s": list(range(len(words))), "default_int64": -1}
        codes.append(graph.add("LabelEncoder", text, domain=ML_DOMAIN, **encode))
        places += [k] * len(words)
        numbers += range(len(words))
    picked = graph.pick(graph.join(codes), places)
    return graph.add("Cast", graph.add("Equal", picked, graph.constant([numbers], np.int64)), to=FLOAT)


def _add_trees(graph: Graph, model: PortableModel, design: str, order: NDArray[np.intp]) -> str:
    """Raw outputs from design columns, of which column j is the model's column ``order[j]``."""
    # The softness is put into the weights.
    weights, biases = (part.astype(np.float64) / model.theta for part in (model.W[order], model.b))
    t = graph.add("Gemm", design, graph.constant(weights, np.float32), graph.constant(biases, np.float32))
    go_left = _ROUTING[model.routing](graph, t)
    one = graph.constant(1.0, np.float32)
    reach, at, width = None, 0, model.n_trees
    # On a level, all left children come before all right ones.
    while at < model.W.shape[1]:
        ends = (graph.constant([bound], np.int64) for bound in (at, at + width, 1))
        here = graph.add("Slice", go_left, *ends)
        left = here if reach is None else graph.add("Mul", reach, here)
        reach = graph.add("Concat", left, graph.add("Sub", reach or one, left), axis=1)
        at, width = at + width, 2 * width
    leaves, base = graph.constant(model.O.T, np.float32), graph.constant(model.base, np.float32)
    return graph.add("Gemm", str(reach), leaves, base)


def _add_sigmoid(graph: Graph, t: str) -> str:
    return graph.add("Sigmoid", t)


def _add_smooth_step(graph: Graph, t: str) -> str:
    half, quarter, one, minus, three = (graph.constant(value, np.float32) for value in (0.5, 0.25, 1.0, -1.0, 3.0))
    t = graph.add("Clip", t, minus, one)
    rest = graph.add("Sub", three, graph.add("Mul", t, t))
    return graph.add("Add", half, graph.add("Mul", quarter, graph.add("Mul", t, rest)))


_ROUTING = {"sigmoid": _add_sigmoid, "smoothstep": _add_smooth_step}


def make_tensor(name: str, values: NDArray[Any]) -> Any:
    """A constant as ONNX has it; text is an array of objects."""
    onnx = import_extra("onnx")
    if values.dtype == object:
        return onnx.helper.make_tensor(name, STRING, values.shape, [text.encode() for text in values.ravel()])
    return onnx.numpy_helper.from_array(values, name)


def import_extra(module: str) -> Any:
    """A module of the extra for ONNX."""
    return import_optional(module, "The export to ONNX", "onnx")


def _free_name(name: str, taken: set[str]) -> str:
    """The name, with underscores appended while a column has it already."""
    while name in taken:
        name += "_"
    return name
