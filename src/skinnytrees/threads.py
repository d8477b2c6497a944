"""How many threads BLAS may use while we compute; the user's settings come back afterwards."""

import contextlib
import functools
from collections.abc import Iterator

from threadpoolctl import ThreadpoolController


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run BLAS on one thread.

    The products of a training step are small: a second thread that spins between them costs more than it gives, and the
    result of a product depends in its last bits on how it was cut for threads, so a fit would not repeat.
    """
    with _controller().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _controller() -> ThreadpoolController:
    import scipy.linalg.cython_blas  # noqa: F401  (the BLAS to be limited must be loaded when we look)

    return ThreadpoolController()
