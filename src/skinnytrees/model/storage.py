"""Model files: plain arrays and a description of what they belong to, in one zip archive that numpy can open.

Nothing is pickled, so opening a file never runs code from it: only the classes named below are made, from their fields.
"""

import contextlib
import dataclasses
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.activations import Sigmoid, SmoothStep
from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.state import Trees, view_trees
from skinnytrees.losses import Huber, Multinomial, Poisson, Quantile, SquaredError
from skinnytrees.model.feature_path import FeaturePath
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.optimizers import SGD, Adam, Constant, OneCycle
from skinnytrees.penalties import GroupL0, GroupLasso
from skinnytrees.tables.column_views import Curves
from skinnytrees.tables.encoding import Encoder
from skinnytrees.tables.frames import Vocabulary

# Raise it when a file can no longer be read by the code before the change.
FORMAT = 2
_DESCRIPTION = "description"
# What a description may ask to be made.
_CLASSES = {
    kind.__name__: kind
    for kind in (
        Adam, Constant, Curves, Encoder, FeaturePath, GroupL0, GroupLasso, Huber, Multinomial, OneCycle, Poisson, Quantile, SGD,
        Sigmoid, SmoothStep, SoftTrees, SquaredError, Vocabulary,
    )
}  # fmt: skip
_SEQUENCES = {kind.__name__: kind for kind in (tuple, set, frozenset)}

File = str | os.PathLike[str] | IO[bytes]


def write(file: File, kind: str, state: dict[str, Any]) -> None:
    """Write the attributes of an object of this kind; a file that was there before is replaced as a whole or not at all."""
    if not isinstance(file, str | os.PathLike) and not hasattr(file, "write"):
        raise TypeError(f"file={file!r} is neither a path nor a binary file. Use a name such as 'model.skinny'.")
    arrays: dict[str, Any] = {}
    described = {name: _describe(value, name.strip("_"), arrays) for name, value in state.items()}
    text = json.dumps({"format": FORMAT, "kind": kind, "state": described})
    arrays[_DESCRIPTION] = np.array(text)
    with open_to_replace(file) as stream:
        np.savez(stream, **arrays)


def read(file: File) -> tuple[str, dict[str, Any]]:
    """Kind and attributes of what was written."""
    if not isinstance(file, str | os.PathLike) and not hasattr(file, "read"):
        raise TypeError(f"file={file!r} is neither a path nor a binary file. Use the name that was given to save().")
    with _refuse_damage(file):
        with _open_to_read(file) as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        description = json.loads(str(arrays[_DESCRIPTION]))
        is_known = description["format"] <= FORMAT
    refuse_unless(is_known, f"{file} was written by a newer version of skinnytrees. Upgrade skinnytrees to read it.")
    with _refuse_damage(file):
        return description["kind"], {name: _make(value, arrays) for name, value in description["state"].items()}


@contextlib.contextmanager
def _refuse_damage(file: File) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{file} is not a whole skinnytrees model file ({error}). Use a file that save() has written."
        ) from error


def _open_to_read(file: File) -> contextlib.AbstractContextManager[IO[bytes]]:
    return open(file, "rb") if isinstance(file, str | os.PathLike) else contextlib.nullcontext(file)


@contextlib.contextmanager
def open_to_replace(file: File) -> Iterator[IO[bytes]]:
    """A stream whose content takes the file's place when all of it is written."""
    if not isinstance(file, str | os.PathLike):
        yield file
        return
    path = Path(file)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Name a file in it, such as {path / 'model.skinny'}.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent}. Make it first, or name a file elsewhere.")
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as stream:
            yield stream
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _describe(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """A value as JSON; arrays are put aside and named."""

    def parts(values: Any) -> list[Any]:
        return [_describe(each, name, arrays) for each in values]

    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list):
        return parts(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "O":
        arrays[f"array{len(arrays)}"] = np.asarray(value)
        return {"is": "array", "name": f"array{len(arrays) - 1}"}
    if isinstance(value, np.ndarray):
        return {"is": "objects", "shape": list(value.shape), "items": parts(value.ravel())}
    if isinstance(value, Trees):
        return {"is": "Trees", "fields": dict(zip("WbO", parts(value[1:]), strict=True))}
    if type(value) in _SEQUENCES.values():
        return {"is": type(value).__name__, "items": parts(value)}
    if _is_series(value):
        value = dict(zip(value.index.tolist(), value.tolist(), strict=True))
    if isinstance(value, Mapping):
        return {"is": "dict", "keys": parts(value.keys()), "values": parts(value.values())}
    if type(value) is _CLASSES.get(type(value).__name__):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {
            "is": type(value).__name__,
            "fields": {key: _describe(each, name, arrays) for key, each in fields.items()},
        }
    raise TypeError(
        f"{name} holds {value!r}, a {type(value).__name__}, which a model file cannot hold: it has numbers, texts and "
        "skinnytrees' own objects only. Convert it before fit, or store the estimator with joblib.dump."
    )


def _is_series(value: Any) -> bool:
    """Whether it is a pandas Series, which a user may give for a mapping."""
    return hasattr(value, "index") and hasattr(value, "tolist") and hasattr(value, "iloc")


def _make(described: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """The value that was described."""
    if isinstance(described, list):
        return [_make(each, arrays) for each in described]
    if not isinstance(described, dict):
        return described
    kind = described["is"]
    if kind == "array":
        stored = arrays[described["name"]]
        return stored if stored.ndim else stored[()]
    if kind == "objects":
        flat = np.empty(len(described["items"]), dtype=object)
        for i, item in enumerate(described["items"]):
            flat[i] = _make(item, arrays)
        return flat.reshape(described["shape"])
    if kind == "dict":
        return dict(zip(_make(described["keys"], arrays), _make(described["values"], arrays), strict=True))
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_make(described["items"], arrays))
    fields = {name: _make(value, arrays) for name, value in described["fields"].items()}
    if kind == "Trees":
        W, b, leaves = (fields[name] for name in "WbO")
        return view_trees(np.concatenate([W.ravel(), b, leaves.ravel()]), W.shape[0], W.shape[1], leaves.shape)
    if kind == "Encoder":
        fields.setdefault("curves", Curves.none(len(fields["feature"])))  # format 1 had no curves
    return _CLASSES[kind](**fields)
