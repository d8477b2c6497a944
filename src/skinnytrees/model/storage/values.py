"""Parameters and labels in a document: plain values, arrays, and the library's small parts.

A loss, penalty, activation, optimiser or schedule is written by the name under which its own module registers it, with its
fields. So a new one can be saved as soon as it is registered.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import ACTIVATIONS
from skinnytrees.exceptions import refuse_unless
from skinnytrees.losses import REGRESSION_LOSSES
from skinnytrees.model.storage.archive import Allowance, n_bytes
from skinnytrees.optimizers import OPTIMIZERS, SCHEDULES
from skinnytrees.penalties import PENALTIES

# What a document may ask to be made, by its role and its name.
_PARTS: dict[str, Mapping[str, type[Any]]] = {
    "activation": ACTIVATIONS,
    "loss": REGRESSION_LOSSES,
    "optimizer": OPTIMIZERS,
    "penalty": PENALTIES,
    "schedule": SCHEDULES,
}
_SEQUENCES: dict[str, type[Any]] = {kind.__name__: kind for kind in (tuple, set, frozenset)}
_NOT_FINITE = ("nan", "inf", "-inf")


class Arrays:
    """The arrays of a file that is being written; equal ones are kept once."""

    def __init__(self) -> None:
        self.all: list[NDArray[Any]] = []
        self._place: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def add(self, array: NDArray[Any], name: str) -> int:
        """Place of an array in the file."""
        array = np.asarray(array)
        # Not np.ascontiguousarray, which makes a row of a number.
        array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        try:
            n_bytes(array.dtype.str, array.shape)
        except ValueError as error:
            raise TypeError(
                f"{name} holds numbers of the type {array.dtype}, which a model file cannot hold. Convert it before fit."
            ) from error
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._place:
            self._place[key] = len(self.all)
            self.all.append(array)
        return self._place[key]


class StoredArrays:
    """The arrays of a file that is being read."""

    def __init__(self, arrays: list[NDArray[Any]]) -> None:
        self.all = arrays
        self._allowance = Allowance(sum(array.nbytes for array in arrays))

    def copy_of(self, place: Any) -> NDArray[Any]:
        """The array at this place. Arrays that were equal are two again: whoever changes one does not change the other."""
        refuse_unless(type(place) is int and 0 <= place < len(self.all), "it names an array that is not there")
        self._allowance.take(self.all[place].nbytes)
        return self.all[place].copy()


def describe(value: Any, name: str, arrays: Arrays) -> Any:
    """A value as JSON; ``name`` is what messages call it."""

    def parts(values: Any) -> list[Any]:
        return [describe(each, name, arrays) for each in values]

    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"is": "float", "value": str(value)}
    if isinstance(value, list):
        return parts(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "O":
        kind = "array" if isinstance(value, np.ndarray) else "number"
        return {"is": kind, "array": arrays.add(np.asarray(value), name)}
    if isinstance(value, np.ndarray):
        return {"is": "objects", "shape": list(value.shape), "items": parts(value.ravel())}
    if type(value) in _SEQUENCES.values():
        return {"is": type(value).__name__, "items": parts(value)}
    if _is_series(value):
        value = dict(zip(value.index.tolist(), value.tolist(), strict=True))
    if isinstance(value, Mapping):
        return {"is": "dict", "keys": parts(value.keys()), "values": parts(value.values())}
    for role, registered in _PARTS.items():
        for part_name, part in registered.items():
            if type(value) is part:
                fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
                described = {key: describe(each, name, arrays) for key, each in fields.items()}
                return {"is": role, "name": part_name, "fields": described}
    raise TypeError(
        f"{name} holds {value!r}, a {type(value).__name__}, which a model file cannot hold: it has numbers, texts and "
        "skinnytrees' own objects only. Convert it before fit, or store the estimator with joblib.dump."
    )


def make(described: Any, arrays: StoredArrays) -> Any:
    """The value that was described."""
    if isinstance(described, list):
        return [make(each, arrays) for each in described]
    if not isinstance(described, dict):
        return described
    kind = described["is"]
    if kind in ("array", "number"):
        stored = arrays.copy_of(described["array"])
        return stored if kind == "array" else stored[()]
    if kind == "float":
        refuse_unless(described["value"] in _NOT_FINITE, "a number that is not finite is unknown")
        return float(described["value"])
    if kind == "objects":
        flat = np.empty(len(described["items"]), dtype=object)
        for i, item in enumerate(described["items"]):
            flat[i] = make(item, arrays)
        return flat.reshape(described["shape"])
    if kind == "dict":
        return dict(zip(make(described["keys"], arrays), make(described["values"], arrays), strict=True))
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](make(described["items"], arrays))
    refuse_unless(kind in _PARTS and described["name"] in _PARTS[kind], "it asks for an object that is unknown here")
    return _PARTS[kind][described["name"]](**{key: make(each, arrays) for key, each in described["fields"].items()})


def _is_series(value: Any) -> bool:
    """Whether it is a pandas Series, which a user may give for a mapping."""
    return hasattr(value, "index") and hasattr(value, "tolist") and hasattr(value, "iloc")
