"""Settings for all tests."""

import hashlib
import os
from pathlib import Path

from hypothesis import settings

# Numba's cache of a kernel does not notice an edit of another kernel that it calls; a folder a version does.
_package = Path(__file__).parents[1] / "src" / "skinnytrees"
_version = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(_package.rglob("kernels/*.py")))).hexdigest()[
    :12
]
os.environ.setdefault("NUMBA_CACHE_DIR", str(_package.parents[1] / ".numba_cache" / _version))

# The first example of a property test may compile a kernel, which takes longer than hypothesis allows by default.
settings.register_profile("compiled", deadline=None)
settings.load_profile("compiled")
