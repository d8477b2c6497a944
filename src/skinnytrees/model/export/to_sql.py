"""Standard SQL: one SELECT that joins every row with the table of trees.

The weights stand in the statement once, one row of VALUES per tree; what a tree computes is written once, for all of them. Only
CASE, EXP, ROW_NUMBER and common table expressions are used, which DuckDB, SQLite and PostgreSQL, among others, understand.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless
from skinnytrees.model.export.limits import refuse_large
from skinnytrees.model.export.portable import Input, Level, PortableModel, level_tolerance

# PostgreSQL takes up to 1,664 columns, SQLite 2,000.
_MOST_COLUMNS = 1_600
# Databases refuse powers of e beyond the numbers of double precision, and some refuse those that become zero.
_FARTHEST_POWER = 700
# Beyond all values of a table, and far enough from the end of double precision that differences of two are still numbers.
_LARGEST = 1e300
_LARGEST_FINITE = np.finfo(np.float64).max


def to_bytes(model: PortableModel, table: str = "data", key: str = "id") -> bytes:
    """The SQL statement of a model.

    Parameters
    ----------
    model : PortableModel
        What to write.
    table : str, default="data"
        Table or view to read, after its schema and a dot if it has one. Its columns have the names of the model's inputs, and
        missing values are NULL. A row with an infinite number has the prediction NULL.
    key : str, default="id"
        Column of the table that the result repeats, so that it can be joined.

    Returns
    -------
    bytes
    """
    refuse_large(model, "a SQL statement")
    per_tree = model.n_nodes * (len(model.W) + 1) + model.n_outputs * (model.n_nodes + 1) + len(model.W)
    refuse_unless(
        per_tree <= _MOST_COLUMNS,
        f"A tree of this model has {per_tree:,} numbers ({len(model.W)} design columns, {model.n_nodes} splits, "
        f"{model.n_outputs} outputs); databases take about {_MOST_COLUMNS:,} columns. Use ONNX, a smaller size of the path with "
        "at(n_features), or fit with a smaller max_depth.",
    )
    pieces = [_pieces(one, f"x{k}") for k, one in enumerate(model.inputs) if one.curves]
    tables = [_inputs(model, table, key), *pieces, _design(model), _trees(model), _splits(model), _sums(model)]
    return (
        f"-- A model fitted by skinnytrees, as one statement. It reads {_list_names(model)}\n"
        f"-- and {_quoted(key)} from {_table(table)}; NULL is a missing value, and the answer to an infinite number.\n"
        "WITH\n" + ",\n".join([*tables, _predictions(model)]) + f"\n{_result(model, key)}\n"
    ).encode()


def _list_names(model: PortableModel) -> str:
    return ", ".join(_quoted(one.name) for one in model.inputs).replace("\n", " ")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _table(name: str) -> str:
    return ".".join(_quoted(part) for part in name.split("."))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _number(value: float) -> str:
    """With an exponent, so that no database takes it for a decimal number of few digits."""
    return f"{value:.16e}"


def _inputs(model: PortableModel, table: str, key: str) -> str:
    """Inputs as numbers and text, under names of our own; the row number keeps rows apart whose keys are equal."""
    columns = [
        f"{_quoted(one.name)} AS x{k}"
        if one.kind == "text"
        else f"CAST({_quoted(one.name)} AS DOUBLE PRECISION) AS x{k}"
        for k, one in enumerate(model.inputs)
    ]
    listed = ", ".join(["ROW_NUMBER() OVER () AS row_id", f"{_quoted(key)} AS row_key", *columns])
    return f"st_inputs AS (SELECT {listed} FROM {_table(table)})"


def _design(model: PortableModel) -> str:
    formulas = [formula for k, one in enumerate(model.inputs) for formula in _formulas(one, f"x{k}")]
    columns = [f"{formula} AS d{k}" for k, formula in enumerate(formulas)]
    # The row number is asked for once more, because databases do not merge such a query into the next one, where they would
    # work out every column anew for every tree.
    listed = ",\n    ".join(["ROW_NUMBER() OVER () AS row_number", "row_id", "row_key", *columns])
    return f"st_design AS (SELECT\n    {listed}\n  FROM st_inputs)"


def _formulas(one: Input, x: str) -> list[str]:
    made = []
    if one.value is not None:
        mean, scale, far = one.value.mean, one.value.scale, one.value.farthest
        high, low, scaled = mean + far * scale, mean - far * scale, f"({x} - ({_number(mean)})) / {_number(scale)}"
        made.append(
            f"CASE WHEN {x} IS NULL THEN 0e0 WHEN {x} >= {_number(high)} THEN {_number(far)} "
            f"WHEN {x} <= {_number(low)} THEN {_number(-far)} ELSE {scaled} END"
        )
    if one.has_missing_column:
        made.append(_if(f"{x} IS NULL"))
    made += [_curve(x, c) for c in range(len(one.curves))]
    made += [_if(_is_level(x, level)) for level in one.levels]
    if one.kind != "text":
        # Every tree reads every design column, so that one NULL makes the prediction NULL.
        made[0] = f"CASE WHEN ABS({x}) > {_number(_LARGEST_FINITE)} THEN NULL ELSE {made[0]} END"
    return made


def _if(condition: str) -> str:
    return f"CASE WHEN {condition} THEN 1e0 ELSE 0e0 END"


def _is_level(x: str, level: Level) -> str:
    if level is None:
        return f"{x} IS NULL"
    if isinstance(level, str):
        return f"{x} = {_text(level)}"
    low, high = level - level_tolerance(level), level + level_tolerance(level)
    return f"{x} BETWEEN {_number(low)} AND {_number(high)}"


def _curve(x: str, c: int) -> str:
    """Height at x of curve c of the input; no piece has a missing x."""
    return (
        f"COALESCE((SELECT start{c} + ({x} - low) * slope{c} FROM st_pieces_{x} WHERE {x} >= low AND {x} < high), 0e0)"
    )


def _pieces(one: Input, x: str) -> str:
    """The straight pieces of an input's curves, those before the first and after the last knot included.

    They are a table because databases that compile expressions take a minute for hundreds of cases.
    """
    knots = np.array([-_LARGEST, *one.knots, _LARGEST])
    columns = [knots[:-1], knots[1:]]
    for heights in one.curves:
        slopes = np.concatenate([[0.0], np.diff(heights) / np.diff(one.knots), [0.0]])
        columns += [np.array([heights[0], *heights]), slopes]
    # Before the first knot the distance from the lower end is beyond all numbers that matter; the slope there is zero.
    names = [name for c in range(len(one.curves)) for name in (f"start{c}", f"slope{c}")]
    return f"st_pieces_{x}(low, high, {', '.join(names)}) AS {_values(np.column_stack(columns), '%.16e')}"


def _values(rows: np.ndarray, digits: str) -> str:
    texts = np.char.mod(digits, rows).tolist()
    # The first row determines the type of the columns: without the cast, some databases compute with decimal numbers.
    texts[0] = [f"CAST({text} AS DOUBLE PRECISION)" for text in texts[0]]
    return "(VALUES\n    " + ",\n    ".join(f"({', '.join(row)})" for row in texts) + ")"


def _trees(model: PortableModel) -> str:
    W, b, leaves = model.trees
    n_columns, n_nodes = len(model.W), model.n_nodes
    # The softness is put into the weights.
    scaled: list[NDArray[Any]] = [part.astype(np.float64) / model.theta for part in (b, W.transpose(0, 2, 1))]
    rows = np.hstack([part.reshape(model.n_trees, -1) for part in (*scaled, leaves)])
    names = [f"b{i}" for i in range(n_nodes)]
    names += [f"w{i}_{k}" for i in range(n_nodes) for k in range(n_columns)]
    names += [f"o{c}_{i}" for c in range(model.n_outputs) for i in range(n_nodes + 1)]
    return f"st_trees({', '.join(names)}) AS {_values(rows, '%.9e')}"


def _splits(model: PortableModel) -> str:
    """For every row and tree, the probability of going left at every split."""
    columns = ["ROW_NUMBER() OVER () AS row_number", "row_id", "row_key"]  # as in the design
    bound = np.abs(model.W).T.astype(np.float64) @ _largest_design(model) + np.abs(model.b)
    bounds = bound.reshape(model.n_nodes, model.n_trees).max(axis=1) / model.theta
    for i, most in enumerate(bounds):
        t = _sum([f"b{i}", *(f"w{i}_{k} * d{k}" for k in range(len(model.W)))])
        columns.append(f"{_ROUTING[model.routing](t, float(most))} AS s{i}")
    columns += [f"o{c}_{i}" for c in range(model.n_outputs) for i in range(model.n_nodes + 1)]
    listed = ",\n    ".join(columns)
    return f"st_splits AS (SELECT\n    {listed}\n  FROM st_design CROSS JOIN st_trees)"


def _largest_design(model: PortableModel) -> np.ndarray:
    """The largest absolute value that each design column can have."""
    largest: list[float] = []
    for one in model.inputs:
        largest += [] if one.value is None else [one.value.farthest]
        largest += [1.0] * one.has_missing_column
        largest += [max(map(abs, heights)) for heights in one.curves]
        largest += [1.0] * len(one.levels)
    return np.array(largest)


def _sigmoid(t: str, most: float) -> str:
    return f"1e0 / (1e0 + {_power(f'-({t})', most)})"


def _smooth_step(t: str, most: float) -> str:
    inside = f"5e-1 + 25e-2 * ({t}) * (3e0 - ({t}) * ({t}))"
    return f"CASE WHEN {t} >= 1e0 THEN 1e0 WHEN {t} <= -1e0 THEN 0e0 ELSE {inside} END"


_ROUTING = {"sigmoid": _sigmoid, "smoothstep": _smooth_step}


def _power(exponent: str, most: float) -> str:
    """The power of e, for an exponent that is between ``-most`` and ``most``."""
    if most <= _FARTHEST_POWER:
        return f"EXP({exponent})"
    far = f"{_FARTHEST_POWER}e0"
    return f"EXP(CASE WHEN {exponent} > {far} THEN {far} WHEN {exponent} < -{far} THEN -{far} ELSE {exponent} END)"


def _sum(terms: Sequence[str]) -> str:
    """A sum in brackets by halves: databases bound how deep an expression may be."""
    if len(terms) <= 8:
        return " + ".join(terms)
    half = len(terms) // 2
    return f"({_sum(terms[:half])}) + ({_sum(terms[half:])})"


def _sums(model: PortableModel) -> str:
    columns = [
        f"SUM({_subtree(model.n_nodes, 0, 1, c)}) + ({_number(float(model.base[c]))}) AS r{c}"
        for c in range(model.n_outputs)
    ]
    listed = ",\n    ".join(["row_id", "row_key", *columns])
    return f"st_sums AS (SELECT\n    {listed}\n  FROM st_splits GROUP BY row_id, row_key)"


def _subtree(n_nodes: int, node: int, width: int, c: int) -> str:
    """Output c below a node of a level that is ``width`` wide: all left children of a level come before all right ones."""
    if node >= n_nodes:
        return f"o{c}_{node - n_nodes}"
    left, right = (_subtree(n_nodes, node + side * width, 2 * width, c) for side in (1, 2))
    return f"(s{node} * {left} + (1e0 - s{node}) * {right})"


def _predictions(model: PortableModel) -> str:
    """Outputs after the link, under names of our own."""
    most = 2 * float((np.abs(model.base) + np.abs(model.O).sum(axis=1)).max())
    outputs = range(model.n_outputs)
    if model.link == "softmax":
        formulas = [f"1e0 / ({_sum([_power(f'(r{j} - r{c})', most) for j in outputs])})" for c in outputs]
    elif model.link == "exp":
        formulas = [_power(f"r{c}", most) for c in outputs]
    else:
        formulas = [f"r{c}" for c in outputs]
    columns = [f"{formula} AS p{c}" for c, formula in enumerate(formulas)]
    return f"st_predictions AS (SELECT row_id, row_key, {', '.join(columns)} FROM st_sums)"


def _result(model: PortableModel, key: str) -> str:
    names = [f"probability_{name}" if model.labels else name for name in model.output_names]
    columns = [f"row_key AS {_quoted(key)}"]
    if model.labels:
        columns.append(f"{_label(model)} AS label")
    columns += [f"p{c} AS {_quoted(name)}" for c, name in enumerate(names)]
    listed = ",\n  ".join(columns)
    return f"SELECT\n  {listed}\nFROM st_predictions ORDER BY row_id"


def _label(model: PortableModel) -> str:
    """The first of the most probable classes; NULL where the probabilities are."""
    labels = [str(label) if isinstance(label, int) else _text(label) for label in model.labels]
    outputs = range(model.n_outputs)
    cases = [f"WHEN {' AND '.join(f'p{c} >= p{j}' for j in outputs if j != c)} THEN {labels[c]}" for c in outputs[:-1]]
    return f"CASE WHEN p0 IS NULL THEN NULL {' '.join(cases)} ELSE {labels[-1]} END"
