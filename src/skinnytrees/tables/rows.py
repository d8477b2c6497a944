"""Which rows are trained on and which are held out, independent of the order in which they were given.

Rows may belong to groups (a patient, a mouse): rows of one group are never on both sides of a split.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight

from skinnytrees.exceptions import refuse_unless
from skinnytrees.tables.frames import refuse_masked
from skinnytrees.tables.table_views import StackedRows, pick_rows

# Columns read to put rows in order; rows that agree in all of them are compared in full.
_KEY_COLUMNS = 64
# Sums and squares of weights up to this size are numbers, and so are those of their inverses.
_LARGEST_WEIGHT = 1e100
# Rows whose keys are made at once: bounds the memory.
_KEYS_AT_ONCE = 1024


class Rows(NamedTuple):
    """Rows of a table of numbers: features X, targets Y (rows, width), weights, and labels of their groups or None."""

    X: Any
    Y: NDArray[np.float64]
    weight: NDArray[np.float64]
    group: NDArray[Any] | None = None

    def take(self, rows: NDArray[np.intp]) -> "Rows":
        """Some of the rows."""
        group = None if self.group is None else self.group[rows]
        return Rows(pick_rows(self.X, rows), self.Y[rows], self.weight[rows], group)

    def join(self, other: "Rows") -> "Rows":
        """These rows and others; of dense ones nothing is copied. Groups are kept where both have them."""
        is_sparse = sparse.issparse(self.X)
        X = sparse.vstack([self.X, other.X], format="csr") if is_sparse else StackedRows((self.X, other.X))
        has_groups = self.group is not None and other.group is not None
        group = np.concatenate([self.group, other.group]) if has_groups else None
        return Rows(X, np.concatenate([self.Y, other.Y]), np.concatenate([self.weight, other.weight]), group)


def merge_rows(rows: Rows, columns: NDArray[np.intp] | None = None) -> Rows:
    """Put rows in an order that depends only on their content, and merge equal rows into one with the sum of their weights.

    A fit then depends neither on the order of the rows nor on whether a row is repeated or has the weight two. Rows of
    weight zero are left out. Equal rows of different groups stay apart. Groups are numbered in the order of their first
    rows, so that the labels do not matter: they only decide the order of equal rows. With ``columns``, the order of the rows
    is that of a table whose columns have been put in this order.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.rows import Rows, merge_rows
    >>> merged = merge_rows(Rows(np.array([[1.0], [2.0], [1.0]]), np.zeros((3, 1)), np.ones(3)))
    >>> sorted(zip(merged.X[:][:, 0].tolist(), merged.weight.tolist()))
    [(1.0, 2.0), (2.0, 1.0)]
    """
    X, Y, weight = rows[:3]
    group = None if rows.group is None else np.unique(rows.group, return_inverse=True)[1].ravel()
    used = np.flatnonzero(weight > 0)
    columns = np.arange(X.shape[1]) if columns is None else columns
    some_columns = columns[:: max(1, len(columns) // _KEY_COLUMNS)]
    quick = _row_keys(pick_rows(X[:, some_columns], used)) ^ _row_keys(Y[used])
    order = np.argsort(quick, kind="stable")
    used, quick = used[order], quick[order]
    next_is_tied = quick[1:] == quick[:-1]
    in_a_tie = np.append(next_is_tied, False) | np.append(False, next_is_tied)
    if not in_a_tie.any():
        return Rows(*rows.take(used)[:3], _in_order_of_appearance(group, used))
    full = np.zeros_like(quick)
    full[in_a_tie] = _row_keys(X[used[in_a_tie]][:, columns])
    keys = (full, quick) if group is None else (group[used], full, quick)
    order = np.lexsort((weight[used], *keys))  # weights of equal rows are summed in one order, to the last bit
    used, quick, full = used[order], quick[order], full[order]
    tied = np.flatnonzero((quick[1:] == quick[:-1]) & (full[1:] == full[:-1]))
    same = _rows_equal(X, used[tied], used[tied + 1]) & _rows_equal(Y, used[tied], used[tied + 1])
    if group is not None:
        same &= group[used[tied]] == group[used[tied + 1]]
    starts = np.delete(np.arange(len(used)), tied[same] + 1)
    summed, used = np.add.reduceat(weight[used], starts), used[starts]
    return Rows(pick_rows(X, used), Y[used], summed, _in_order_of_appearance(group, used))


def _in_order_of_appearance(group: NDArray[np.intp] | None, used: NDArray[np.intp]) -> NDArray[np.intp] | None:
    """The groups of the rows in use, numbered from 0 in the order in which they first appear there."""
    if group is None:
        return None
    _, first, codes = np.unique(group[used], return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes.ravel()]


def _row_keys(values: Any) -> NDArray[np.uint64]:
    """One number per row, made of the bits of its values, the same wherever the row stands."""
    multipliers = np.random.default_rng(0).integers(1, 2**63, size=values.shape[1], dtype=np.uint64) | np.uint64(1)
    if sparse.issparse(values):
        values = values.tocsr()
        values.sum_duplicates()
        products = _mixed_bits(values.data) * multipliers[values.indices]
        running = np.append(np.uint64(0), np.cumsum(products, dtype=np.uint64))
        keys = running[values.indptr[1:]] - running[values.indptr[:-1]]
    else:
        keys = np.empty(len(values), dtype=np.uint64)
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            piece = slice(start, start + _KEYS_AT_ONCE)
            keys[piece] = (_mixed_bits(values[piece]) * multipliers).sum(axis=1, dtype=np.uint64)
    return keys ^ (keys >> np.uint64(29))


def _mixed_bits(values: Any) -> NDArray[np.uint64]:
    # Adding zero makes -0.0 the same as 0.0. The bits of round numbers end in zeros: fold the high half onto the low one.
    bits = np.ascontiguousarray(values + 0.0, dtype=np.float64).view(np.uint64)
    return bits ^ (bits >> np.uint64(32))


def _rows_equal(values: Any, left: NDArray[np.intp], right: NDArray[np.intp]) -> NDArray[np.bool_]:
    a, b = values[left], values[right]
    if sparse.issparse(values):
        for part in (a, b):
            part.data[np.isnan(part.data)] = np.inf  # missing values are equal, and no other value is infinite
        return np.asarray((a != b).sum(axis=1)).ravel() == 0
    return np.all((a == b) | ((a != a) & (b != b)), axis=1)


def stored_alike(X: Any, example: Any) -> Any:
    """A table stored as another one is: sparse or dense."""
    if sparse.issparse(X) == sparse.issparse(example):
        return X
    return X.toarray() if sparse.issparse(X) else sparse.csr_array(X)


def read_weights(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """One weight per row, not negative and not all zero."""
    refuse_masked(sample_weight, "sample_weight", "Use weights of 0")
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    largest = float(weight.max())
    refuse_unless(largest > 0, "sample_weight is zero for every row. Give some rows a positive weight.")
    refuse_unless(
        1 / _LARGEST_WEIGHT <= largest <= _LARGEST_WEIGHT,
        f"sample_weight has {largest:.0e} as its largest value, with which sums overflow in double precision. "
        f"Divide all weights by {largest:.0e}.",
    )
    return np.asarray(weight)


def combine_weights(weight: NDArray[np.float64], class_weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of rows times those of their classes, if any is left."""
    combined = weight * class_weight
    refuse_unless(
        bool(np.any(combined > 0)),
        "class_weight is zero for every class that has rows of positive weight. Give some of them a positive weight.",
    )
    return combined


def split_rows(
    n_rows: int,
    fraction: float,
    rng: np.random.Generator,
    labels: NDArray[Any] | None = None,
    groups: NDArray[Any] | None = None,
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Training and validation rows; with ``labels``, each class gives its fraction and keeps at least one training row.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    fraction : float
        Fraction of the rows to hold out.
    rng : numpy.random.Generator
        Decides which.
    labels : array of shape (n_rows,) or None
        Classes; None treats all rows alike.
    groups : array of shape (n_rows,) or None
        Rows with the same label stay on one side. Groups are held out while that brings each class closer to its
        fraction; at least one is, unless each of them has all rows of some class.

    Returns
    -------
    tuple of arrays
        Row numbers (training, held out), in increasing order.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.rows import split_rows
    >>> train, held_out = split_rows(10, 0.2, np.random.default_rng(0))
    >>> len(train), len(held_out)
    (8, 2)
    >>> train, held_out = split_rows(10, 0.2, np.random.default_rng(0), groups=np.arange(10) // 2)
    >>> held_out // 2
    array([2, 2])
    """
    if groups is not None:
        return _split_groups(fraction, rng, *_class_counts(n_rows, labels, groups))
    shuffled = rng.permutation(n_rows)
    strata = np.zeros(n_rows, dtype=int) if labels is None else np.unique(labels, return_inverse=True)[1].ravel()
    by_stratum = shuffled[np.argsort(strata[shuffled], kind="stable")]
    sizes = np.bincount(strata)
    rank = np.arange(n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    n_held_out = np.minimum(np.round(sizes * fraction), sizes - 1)
    held_out = rank < np.repeat(n_held_out, sizes)
    return np.sort(by_stratum[~held_out]), np.sort(by_stratum[held_out])


def _split_groups(
    fraction: float, rng: np.random.Generator, group: NDArray[np.intp], counts: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    in_class, part = counts > 0, counts / counts.sum(axis=0)
    groups_left = in_class.sum(axis=0)
    is_held = np.zeros(len(counts), dtype=bool)
    lacking = np.where(groups_left > 1, fraction, 0.0)
    shuffled = rng.permutation(len(counts))
    for one in shuffled:
        if np.all(lacking <= 0):
            break
        after = lacking - part[one]
        if np.all(groups_left[in_class[one]] > 1) and after @ after < lacking @ lacking:
            is_held[one], lacking = True, after
            groups_left -= in_class[one]
    spare = shuffled[np.all(~in_class | (groups_left > 1), axis=1)[shuffled]]
    if fraction > 0 and len(spare) and not is_held.any():
        # All groups are larger than twice the fraction: the one that comes closest.
        is_held[spare[((part[spare] - fraction) ** 2).sum(axis=1).argmin()]] = True
    of_row = is_held[group]
    return np.flatnonzero(~of_row), np.flatnonzero(of_row)


def fold_rows(
    n_rows: int,
    n_folds: int,
    rng: np.random.Generator,
    labels: NDArray[Any] | None = None,
    groups: NDArray[Any] | None = None,
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Folds for few rows: each class is spread over the folds as evenly as whole groups allow.

    No row is held out twice, and every training side contains every class. Rows whose absence would leave a class
    without training rows, such as the only row of a class, are never held out; all other rows are held out once.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    n_folds : int
        Number of folds, at least 2. Where there are fewer rows or groups to hold out, the folds are fewer.
    rng : numpy.random.Generator
        Decides which rows share a fold.
    labels : array of shape (n_rows,) or None
        Classes; None treats all rows alike.
    groups : array of shape (n_rows,) or None
        Rows with the same label are held out together; None lets every row be its own group.

    Returns
    -------
    list of tuples
        Row numbers (kept, held out) of each fold, in increasing order.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.rows import fold_rows
    >>> labels = np.array([0, 0, 0, 0, 1, 1, 2])
    >>> folds = fold_rows(7, 2, np.random.default_rng(0), labels)
    >>> [labels[held_out].tolist() for _, held_out in folds]
    [[0, 0, 1], [0, 0, 1]]
    >>> patients = np.array(["a", "a", "b", "b", "b", "c"])
    >>> sorted(patients[held_out].tolist() for _, held_out in fold_rows(6, 3, np.random.default_rng(0), groups=patients))
    [['a', 'a'], ['b', 'b', 'b'], ['c']]
    """
    refuse_unless(n_folds > 1, f"n_folds={n_folds} leaves no rows to train on. Use at least 2 folds.")
    group, counts = _class_counts(n_rows, labels, groups)
    n_groups, in_class = len(counts), counts > 0
    shuffled = rng.permutation(n_groups)
    # Large groups first, while every fold has room; equal ones class by class, which keeps folds equally large.
    order = shuffled[np.lexsort((counts[shuffled].argmax(axis=1), -counts[shuffled].sum(axis=1)))]
    weights = counts / np.maximum(counts.sum(axis=0), 1) ** 2.0
    held = np.zeros((n_folds, counts.shape[1]), dtype=counts.dtype)
    always_kept = np.zeros(counts.shape[1], dtype=bool)
    groups_left = in_class.sum(axis=0)
    fold = np.full(n_groups, -1)
    for one in order:
        # The last group of a class may not join a fold that holds all other groups of the class.
        is_last = in_class[one] & (groups_left == 1)
        elsewhere = always_kept | ((held > 0).sum(axis=0) > (held > 0))
        allowed = elsewhere[:, is_last].all(axis=1)
        groups_left -= in_class[one]
        if not allowed.any():
            always_kept |= in_class[one]
            continue
        crowding = np.where(allowed, (held * weights[one]).sum(axis=1), np.inf)
        fold[one] = np.lexsort((held.sum(axis=1), crowding))[0]
        held[fold[one]] += counts[one]
    of_row = fold[group]
    return [(np.flatnonzero(of_row != f), np.flatnonzero(of_row == f)) for f in range(n_folds) if np.any(of_row == f)]


def _class_counts(
    n_rows: int, labels: NDArray[Any] | None, groups: NDArray[Any] | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The group of each row as a number, and how many rows of each class each group has."""
    check_groups(groups, 2)
    group = np.arange(n_rows) if groups is None else np.unique(groups, return_inverse=True)[1].ravel()
    stratum = np.zeros(n_rows, dtype=int) if labels is None else np.unique(labels, return_inverse=True)[1].ravel()
    shape = group.max(initial=-1) + 1, stratum.max(initial=-1) + 1
    counts = np.bincount(group * shape[1] + stratum, minlength=shape[0] * shape[1]).reshape(shape)
    return group, counts


def check_groups(groups: NDArray[Any] | None, n_parts: int) -> None:
    """Refuse groups that are fewer than the parts into which they shall be split."""
    n_groups = n_parts if groups is None else len(np.unique(groups))
    refuse_unless(
        n_groups > 1,
        "groups has the same label in every row (of positive weight), so that no rows can be held out. "
        "Give labels of at least 2 groups, or leave groups out.",
    )
    refuse_unless(
        n_groups >= n_parts,
        f"cv={n_parts} asks for more folds than there are groups ({n_groups}). Use a number up to {n_groups}.",
    )


def check_folds(
    folds: Iterable[tuple[NDArray[np.intp], NDArray[np.intp]]], weight: NDArray[Any], groups: NDArray[Any] | None
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """The folds that hold out rows, refused where a fold cannot be used or a group is on both sides of one.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.tables.rows import check_folds
    >>> check_folds([(np.array([0, 1]), np.array([], dtype=int))], np.ones(2), None)
    Traceback (most recent call last):
    ValueError: cv gives a fold that holds out no rows of positive weight (and 2 to train on). Use folds that have both.
    """
    found = []
    for kept, held in folds:
        kept, held = _row_numbers(kept, len(weight)), _row_numbers(held, len(weight))
        n_kept, n_held = int((weight[kept] > 0).sum()), int((weight[held] > 0).sum())
        if n_held == 0 and groups is not None:
            continue  # StratifiedGroupKFold may leave folds empty
        refuse_unless(
            n_held > 0,
            f"cv gives a fold that holds out no rows of positive weight (and {n_kept} to train on). Use folds that have both.",
        )
        refuse_unless(
            n_kept > 0,
            f"cv gives a fold with no rows of positive weight to train on (and {n_held} held out). Use folds that have both.",
        )
        n_both = len(np.intersect1d(kept, held))
        refuse_unless(
            n_both == 0,
            f"cv gives a fold that holds out {n_both} of the rows it trains on. Use folds whose two sides have no row in common.",
        )
        found.append((kept, held))
    refuse_unless(len(found) > 0, "cv gives no fold that holds out rows. Use a number of folds, such as 5.")
    if groups is None:
        return found
    for kept, held in found:
        both = np.intersect1d(groups[kept], groups[held])
        refuse_unless(
            len(both) == 0,
            f"cv puts rows of {len(both)} groups on both sides of a fold, such as {both[:1].tolist()}. Use a number of "
            "folds or a splitter that keeps groups together, such as GroupKFold(5), or leave groups out.",
        )
    return found


def _row_numbers(rows: Any, n_rows: int) -> NDArray[np.intp]:
    """Row numbers of a fold, also from a mask."""
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n_rows,):
        return np.flatnonzero(rows)
    rows = rows if rows.size else rows.astype(np.intp)
    refuse_unless(
        rows.ndim == 1 and rows.dtype.kind in "iu" and bool(np.all((rows >= 0) & (rows < n_rows))),
        f"cv gives a fold with rows that X does not have. Use row numbers from 0 to {n_rows - 1}.",
    )
    return rows.astype(np.intp)
