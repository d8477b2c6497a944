"""How much memory a fit will take, and a refusal where there is not enough of it.

The estimate counts the design, the ensembles held at once and the room for their batches, but not the table itself, which
the user holds already.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from skinnytrees.exceptions import refuse_unless
from skinnytrees.optimizers import Adam
from skinnytrees.path.rules import DEFAULT_RULES, PathRules, Recipe
from skinnytrees.training.loop import TrainingSettings

_BYTES = 4  # single precision
_BYTES_PER_STORED_VALUE = 12  # of a sparse design: the value, and its column as the kernels take it
# A number has its value and two ranks in the design of a small table.
_COLUMNS_PER_NUMBER = 3
# Adam holds the gradient and two moments beside the weights; every training holds the weights it started from.
_COPIES_OF_ADAM, _COPIES_OF_SGD = 5, 2
# For less than this, the available memory is not checked.
_NEVER_TOO_LARGE = 2**28
# The sizes of a path, each three quarters of the one before, add up to four times the first.
_SIZES_OF_A_PATH = 4.0
# Where a control group limits the memory of a process.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_USED = (Path("/sys/fs/cgroup/memory.current"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"))


class MemoryEstimate(NamedTuple):
    """Bytes that a fit takes at most, about: the design, the ensembles held at once, and the room for their batches."""

    design: int
    ensembles: int
    batches: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.design + self.ensembles + self.batches


def estimate_memory(
    n_rows: int, n_columns: int, *, n_outputs: int = 1, n_stored: int | None = None, n_threads: int = 1,
    rules: PathRules = DEFAULT_RULES, **choices: Any,
) -> MemoryEstimate:  # fmt: skip
    """Memory that fitting a path takes beside the table.

    Parameters
    ----------
    n_rows, n_columns : int
        Shape of the table, with a column for each category.
    n_outputs : int, default=1
        Number of classes, or of targets.
    n_stored : int or None
        Stored values of a sparse table; None for a dense one.
    n_threads : int, default=1
        Trainings in parallel.
    rules : PathRules
        The path's own numbers.
    **choices : int
        What the user sets of the final ensembles: ``n_trees``, ``depth`` and ``batch_size``.

    Returns
    -------
    MemoryEstimate

    Examples
    --------
    >>> from skinnytrees.memory import estimate_memory
    >>> estimate = estimate_memory(150, 8, n_trees=500, depth=12)
    >>> estimate.total == estimate.design + estimate.ensembles + estimate.batches
    True
    >>> 4e9 < estimate.total < 6e9
    True
    """
    recipes = rules.for_rows(n_rows, **choices)
    views = rules.styles[0].views
    if n_stored is None and n_columns <= n_rows and _COLUMNS_PER_NUMBER * n_columns * n_rows <= views.max_cells:
        n_columns *= _COLUMNS_PER_NUMBER
    narrow = min(n_columns, max(n_rows, recipes.prune_from))  # from there on, few columns are left
    tried = [(recipes.with_users_choices(recipes.large),), (recipes.averaged,), (recipes.small,)]
    if n_rows >= rules.final.few_rows_below:
        tried.append((recipes.boosted,))
    final = [recipe for blend in recipes.with_users_trees(tried) for recipe in blend]
    n_folds = rules.evidence.n_folds if n_rows < rules.evidence.folds_below_rows else 1  # all keep their ensembles
    of_path = _ensembles([recipes.screen], n_columns, n_outputs, n_threads, _SIZES_OF_A_PATH)
    of_final = _ensembles(final, narrow, n_outputs, n_threads, n_folds)
    ensembles, batches = max(of_path, of_final, key=sum)
    return MemoryEstimate(_design_size(n_rows, n_columns, n_stored), ensembles, batches)


def estimate_training_memory(
    X: Any, size: tuple[int, int], settings: TrainingSettings, n_outputs: int = 1
) -> MemoryEstimate:
    """Memory that one training of this many trees of this depth takes beside the table, with a penalty or without."""
    n_trees, depth = size
    recipe = replace(
        DEFAULT_RULES.screening.start, n_trees=n_trees, depth=depth, batch_size=min(settings.batch_size, X.shape[0]),
        optimizer=settings.optimizer,
    )  # fmt: skip
    ensembles, batches = _ensembles([recipe], X.shape[1], n_outputs, 1, 1.0)
    return MemoryEstimate(_design_size(X.shape[0], X.shape[1], getattr(X, "nnz", None)), ensembles, batches)


def refuse_if_too_large(estimate: MemoryEstimate, available: int | None = None) -> None:
    """Refuse a fit that cannot succeed before it starts, by the memory that the system says is available unless it is given.

    Examples
    --------
    >>> from skinnytrees.memory import MemoryEstimate, refuse_if_too_large
    >>> refuse_if_too_large(MemoryEstimate(10**9, 7 * 10**9, 2 * 10**9), available=4 * 10**9)
    Traceback (most recent call last):
    ValueError: The fit needs about 10.0 GB of memory (design 1.0, ensembles 7.0, batches 2.0), but 4.0 GB are available. ...
    """
    if estimate.total < _NEVER_TOO_LARGE:
        return
    available = available_memory() if available is None else available
    refuse_unless(
        available is None or estimate.total <= available,
        f"The fit needs about {estimate.total / 1e9:.1f} GB of memory (design {estimate.design / 1e9:.1f}, ensembles "
        f"{estimate.ensembles / 1e9:.1f}, batches {estimate.batches / 1e9:.1f}), but {(available or 0) / 1e9:.1f} GB are "
        "available. Use fewer trees (n_estimators), a smaller max_depth or batch_size, or give fewer columns.",
    )


def available_memory() -> int | None:
    """Bytes that this process may still take, or None where the system does not say."""
    found = []
    try:
        with Path("/proc/meminfo").open() as lines:
            found += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")]
    except OSError:
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for limit, used in zip(_LIMITS, _USED, strict=True):
        try:
            found.append(max(0, int(limit.read_text()) - int(used.read_text())))
        except (OSError, ValueError):  # no control group, or no limit
            continue
    return min(found) if found else None


def _design_size(n_rows: int, n_columns: int, n_stored: int | None) -> int:
    return n_rows * n_columns * _BYTES if n_stored is None else n_stored * _BYTES_PER_STORED_VALUE


def _ensembles(
    recipes: Sequence[Recipe], n_columns: int, n_outputs: int, n_threads: int, n_kept: float
) -> tuple[int, int]:
    """Bytes of the ensembles by these recipes while one of them is trained, and of the room for its batches."""
    kept, in_training, batches = 0.0, 0, 0
    for recipe in recipes:
        n_leaves = 2**recipe.depth * recipe.n_trees
        n_splits = n_leaves - recipe.n_trees
        weights = ((n_columns + 1) * n_splits + n_outputs * n_leaves) * _BYTES
        copies = _COPIES_OF_ADAM if isinstance(recipe.optimizer, Adam) else _COPIES_OF_SGD
        at_once = min(n_threads, recipe.n_copies)
        kept += n_kept * recipe.n_copies * weights
        in_training = max(in_training, at_once * copies * weights)
        per_row = 2 * n_splits + 2 * (n_splits + n_leaves) + n_columns
        batches = max(batches, at_once * recipe.batch_size * per_row * _BYTES)
    return int(kept) + in_training, batches
