"""Files of formats 1 and 2: attributes by the names that they had then, without a check sum.

What such a file holds is checked like any other model; a number that was changed into another possible one goes unnoticed.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import ACTIVATIONS
from skinnytrees.exceptions import refuse_unless
from skinnytrees.losses import REGRESSION_LOSSES
from skinnytrees.model.feature_path import FeaturePath
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.model.storage.archive import Members, make_array, n_bytes, parse_document
from skinnytrees.model.storage.parts import make_trees
from skinnytrees.optimizers import OPTIMIZERS, SCHEDULES
from skinnytrees.penalties import PENALTIES
from skinnytrees.tables.column_views import Curves
from skinnytrees.tables.encoding import Encoder
from skinnytrees.tables.frames import Vocabulary

NEWEST_OLD_FORMAT = 2
_DESCRIPTION = "description"
_NPY = re.compile(rb"\x93NUMPY\x01\x00..(\{.{0,300}\}) *\n", re.DOTALL)
_HEADER = re.compile(r"\{'descr': '([^']+)', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), \}")
_KINDS = {"SkinnyTreesClassifier": "classifier", "SkinnyTreesRegressor": "regressor"}
# Fields of a path that have other names today.
_FIELDS_OF_PATH = {"chosen": "chosen_index", "final": "final_model"}
_SEQUENCES: dict[str, type[Any]] = {kind.__name__: kind for kind in (tuple, set, frozenset)}
_PARTS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kinds in (ACTIVATIONS, REGRESSION_LOSSES, OPTIMIZERS, PENALTIES, SCHEDULES)
    for kind in kinds.values()
}
_MODELS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Curves, Encoder, FeaturePath, SoftTrees, Vocabulary)}
# Attributes that a fit left, and what they are called now. What can be derived from the others is not read.
_LEARNED = {
    "n_features_in_": "n_features",
    "feature_names_in_": "feature_names",
    "support_": "support",
    "classes_": "classes",
    "_is_multi_output": "is_multi_output",
    "_n_targets": "n_targets",
    "_vocabulary": "vocabulary",
    "history_": "history",
    "model_": "model",
    "path_": "path",
    "_sklearn_output_config": "output",
}
_DERIVED = {"n_features_selected_", "feature_importances_"}


def read_old(members: Members) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Kind of estimator, parameters, and what it has learned."""
    description = parse_document(str(_read_array(members, _DESCRIPTION)).encode())
    refuse_unless(description["format"] in (1, 2), f"its format is {str(description['format'])[:30]!r}")
    refuse_unless(description["kind"] in _KINDS, f"it holds a {str(description['kind'])[:60]!r}, which is unknown here")
    state = {name: _make(value, members) for name, value in description["state"].items() if name not in _DERIVED}
    learned = {_LEARNED[name]: state.pop(name) for name in list(state) if name in _LEARNED}
    if "output" in learned:
        learned["output"] = learned["output"]["transform"]
    return _KINDS[description["kind"]], state, learned


def _make(described: Any, members: Members) -> Any:
    """The value that was described."""
    if isinstance(described, list):
        return [_make(each, members) for each in described]
    if not isinstance(described, dict):
        return described
    kind = described["is"]
    if kind == "array":
        stored = _read_array(members, described["name"])
        return stored if stored.ndim else stored[()]
    if kind == "objects":
        flat = np.empty(len(described["items"]), dtype=object)
        for i, item in enumerate(described["items"]):
            flat[i] = _make(item, members)
        return flat.reshape(described["shape"])
    if kind == "dict":
        return dict(zip(_make(described["keys"], members), _make(described["values"], members), strict=True))
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_make(described["items"], members))
    fields = {name: _make(value, members) for name, value in described["fields"].items()}
    if kind == "Trees":
        return make_trees(fields["W"], fields["b"], fields["O"])
    if kind == "FeaturePath":
        fields = {_FIELDS_OF_PATH.get(name, name): value for name, value in fields.items()}
    if kind == "Encoder":
        fields.setdefault("curves", Curves.none(len(fields["feature"])))  # format 1 had no curves
    refuse_unless(kind in _PARTS or kind in _MODELS, f"it asks for a {str(kind)[:60]!r}, which is unknown here")
    return (_PARTS[kind] if kind in _PARTS else _MODELS[kind])(**fields)


def _read_array(members: Members, name: str) -> NDArray[Any]:
    """An array as numpy's savez writes it; its header is matched, not evaluated."""
    content = members.read(f"{name}.npy")
    found = _NPY.match(content)
    header = None if found is None else _HEADER.fullmatch(found[1].decode("latin-1"))
    if found is None or header is None:
        raise ValueError(f"{str(name)[:60]!r} is no array")
    dtype, is_fortran, sizes = header[1], header[2] == "True", header[3]
    shape = tuple(int(size) for size in sizes.split(",") if size.strip())
    values = memoryview(content)[found.end() :]
    refuse_unless(n_bytes(dtype, shape) == len(values), f"{str(name)[:60]!r} is longer or shorter than declared")
    return make_array(values, dtype, shape[::-1]).T.copy() if is_fortran else make_array(values, dtype, shape)
