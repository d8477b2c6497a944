"""Copies, as loops: array assignments take seconds to compile."""

from skinnytrees.kernels.compilation import inner_kernel


@inner_kernel
def gather_rows(source, rows, target):  # type: ignore[no-untyped-def]
    """Copy the given rows to the top of ``target``."""
    for i in range(rows.shape[0]):
        row, place = source[rows[i]], target[i]
        for j in range(source.shape[1]):
            place[j] = row[j]


@inner_kernel
def gather_columns(source, rows, columns, n_columns, target):  # type: ignore[no-untyped-def]
    """Copy the first ``n_columns`` of the given columns, of the given rows, to the top left of ``target``."""
    for i in range(rows.shape[0]):
        row, place = source[rows[i]], target[i]
        for j in range(n_columns):
            place[j] = row[columns[j]]


@inner_kernel
def repeat_row(row, target):  # type: ignore[no-untyped-def]
    """Fill every row of ``target`` with the same row."""
    for i in range(target.shape[0]):
        place = target[i]
        for j in range(row.shape[0]):
            place[j] = row[j]


@inner_kernel
def copy_rows(source, start, target):  # type: ignore[no-untyped-def]
    """Fill ``target`` with the rows from ``start`` on."""
    for i in range(target.shape[0]):
        row, place = source[start + i], target[i]
        for j in range(target.shape[1]):
            place[j] = row[j]
