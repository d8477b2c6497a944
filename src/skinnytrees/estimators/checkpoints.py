"""Fits that continue after they were killed: the conditions for that, and the file that keeps what is finished."""

import contextlib
import os
from collections.abc import Iterator
from numbers import Integral
from typing import Any

from skinnytrees.activations import ACTIVATIONS
from skinnytrees.exceptions import refuse_unless
from skinnytrees.losses import REGRESSION_LOSSES
from skinnytrees.model.storage.checkpoint import open_checkpoint
from skinnytrees.optimizers import OPTIMIZERS, SCHEDULES
from skinnytrees.penalties import PENALTIES
from skinnytrees.training.memory import Memory

# Parameters that may be objects, and the classes whose ``repr`` determines what their objects do.
_PARTS: dict[str, Any] = {
    "activation": ACTIVATIONS,
    "loss": REGRESSION_LOSSES,
    "optimizer": OPTIMIZERS,
    "penalty": PENALTIES,
    "schedule": SCHEDULES,
}


@contextlib.contextmanager
def fit_memory(estimator: Any, checkpoint: str | os.PathLike[str] | None) -> Iterator[Memory | None]:
    """The memory of a fit in this file, or None; a fit that could not be repeated is refused."""
    if checkpoint is not None:
        seed = estimator.random_state
        refuse_unless(
            isinstance(seed, Integral),
            f"checkpoint needs a fit that can be repeated, but random_state={seed!r}. Set random_state to a whole number.",
        )
        for name, known in _PARTS.items():
            part = getattr(estimator, name, None)
            refuse_unless(
                part is None or isinstance(part, str) or type(part) in known.values(),
                f"checkpoint cannot tell whether {name}={part!r} is the same in another process. Use one of the library's own, "
                "or fit without a checkpoint.",
            )
    with open_checkpoint(checkpoint) as memory:
        yield memory
