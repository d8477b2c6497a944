"""Ways to damage the files of a cache of compiled kernels."""

from pathlib import Path

import numpy as np


def cache_files(folder: Path) -> list[Path]:
    """Indexes and machine code, without files that were emptied and that nobody has needed since."""
    return sorted(path for path in folder.rglob("*.nb[ic]") if path.stat().st_size > 0)


def damage(path: Path, rng: np.random.Generator) -> str:
    """Truncate a file, change some of its bits, overwrite a stretch, or empty it; returns what was done."""
    content = bytearray(path.read_bytes())
    way = rng.choice(["truncated", "bits flipped", "overwritten", "emptied"], p=[0.3, 0.4, 0.2, 0.1])
    at = int(rng.integers(len(content)))
    if way == "truncated":
        del content[at:]
    elif way == "bits flipped":
        for place in rng.integers(len(content), size=rng.integers(1, 5)):
            content[place] ^= 1 << int(rng.integers(8))
    elif way == "overwritten":
        content[at : at + 64] = rng.bytes(len(content[at : at + 64]))
    else:
        content.clear()
    path.write_bytes(content)
    return f"{path.name}: {way}"
