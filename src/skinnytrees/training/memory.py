"""What a long fit keeps, so that another process can continue it: results by a fingerprint of all that they depend on.

Training is deterministic, so a result that is there under the same fingerprint has the same bits as one that is computed again.
"""

import hashlib
import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from skinnytrees.kernels.state import Data
from skinnytrees.tables.table_views import pieces

# Bits may depend on these.
_BASIS = [platform.machine(), *(version(name) for name in ("skinnytrees", "numpy", "numba", "scipy"))]


class Remembered(NamedTuple):
    """Numbers as JSON has them, and arrays by name."""

    numbers: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class Memory(Protocol):
    """What training asks of a memory."""

    def recall(self, key: str) -> Remembered | None:
        """What was kept last under this key."""

    def keep(self, key: str, numbers: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Keep something under a key, in place of what was there."""

    def is_due(self) -> bool:
        """Whether it is time to keep what is under way."""


def fingerprint(parts: list[Any], rng: np.random.Generator) -> str:
    """A key for what follows from these parts and the state of a generator.

    Parts are arrays, rows of data, and objects that show all they hold when they are printed.
    """
    digest = hashlib.sha256()
    for part in [_BASIS, rng.bit_generator.state, *parts]:
        _add(part, digest)
    return digest.hexdigest()


def generator_state(rng: np.random.Generator) -> Any:
    """The state of a generator as JSON has it."""
    return json.loads(json.dumps(rng.bit_generator.state))


def _add(part: Any, digest: Any) -> None:
    if isinstance(part, Data):
        for X in part:
            _add_rows(X, digest)
    elif isinstance(part, np.ndarray):
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).data)
    else:
        digest.update(f"{part!r};".encode())


def _add_rows(X: Any, digest: Any) -> None:
    if sparse.issparse(X):
        for array in (np.array(X.shape), X.indptr, X.indices, X.data):
            _add(array, digest)
        return
    _add(np.array(X.shape), digest)
    for rows in pieces(X.shape[0], int(np.prod(X.shape[1:]))):
        _add(np.asarray(X[rows]), digest)
