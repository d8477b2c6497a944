"""A process that is forked while another thread compiles can compile, too.

Why: numba compiles under one lock per process. A child that is forked meanwhile has that lock, but not the thread that would
release it, so that its first fit waits for ever. The thread that forks therefore takes the lock before, when nobody compiles, and
parent and child release it. numba has no public name for its lock.
"""

import os

from numba.core.compiler_lock import global_compiler_lock

# Seconds. Kernels of a first fit take ten; a compilation that waits for the thread that forks must not stop it for ever.
_LONGEST_WAIT = 60.0


class _HeldAcrossForks:
    """The lock of numba's compiler, taken before a fork and released by parent and child."""

    def __init__(self) -> None:
        self.is_held = False

    def take(self) -> None:
        # A whole compilation is waited for: a child with half of one would have numba's tables in disorder.
        self.is_held = global_compiler_lock._lock.acquire(timeout=_LONGEST_WAIT)

    def release(self) -> None:
        if self.is_held:
            global_compiler_lock._lock.release()


def wait_for_compilations_before_forks() -> None:
    """Register this for all later forks of this process; systems without forks need nothing."""
    if hasattr(os, "register_at_fork"):
        held = _HeldAcrossForks()
        os.register_at_fork(before=held.take, after_in_parent=held.release, after_in_child=held.release)
