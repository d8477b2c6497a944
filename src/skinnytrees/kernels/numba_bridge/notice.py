"""A line on standard error when kernels have to be compiled.

Why: a first fit compiles for several seconds and must not look stuck. numba tells of a compilation by its event system only,
which is in ``numba.core``.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from numba.core import event


class _TellOnce(event.Listener):
    """Prints one line when something has to be compiled, so that a first fit does not look stuck."""

    def __init__(self) -> None:
        self.told = False

    def on_start(self, event: Any) -> None:
        if not self.told:
            self.told = True
            print("skinnytrees: compiling its kernels (once on this machine, a few seconds) ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        pass


_teller = _TellOnce()


@contextlib.contextmanager
def compilation_notice() -> Iterator[None]:
    """Within this context, a compilation (not a load from the cache) is announced, once per process."""
    with event.install_listener("numba:compile", _teller):
        yield
