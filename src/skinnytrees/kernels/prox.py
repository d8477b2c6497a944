"""The proximal operator of the penalties, on one group of hyperplane weights."""

from math import sqrt

from skinnytrees.kernels.compilation import inner_kernel, kernel


@kernel
def threshold_group(rows, hard, soft):  # type: ignore[no-untyped-def]
    """Zero the group if its norm is not above ``hard``, else shrink its norm by ``soft``; tell whether it is in use.

    ``hard = sqrt(2 eta lambda0)`` is the prox of the group l0 norm (paper, section 5.1), ``soft = eta lambda`` that of
    the group lasso; with both zero the group stays as it is.
    """
    norm = norm_of(rows)
    if norm <= hard or norm <= soft:
        for k in range(rows.shape[0]):
            row = rows[k]
            for j in range(row.shape[0]):
                row[j] = 0
        return False
    if soft > 0:
        factor = rows.dtype.type(1 - soft / norm)
        for k in range(rows.shape[0]):
            row = rows[k]
            for j in range(row.shape[0]):
                row[j] *= factor
    return True


@inner_kernel
def norm_of(rows):  # type: ignore[no-untyped-def]
    """Root of the sum of all squares; rows are added up in double precision."""
    squares = 0.0
    for k in range(rows.shape[0]):
        row = rows[k]
        partial = rows.dtype.type(0)
        for j in range(row.shape[0]):
            partial += row[j] * row[j]
        squares += partial
    return sqrt(squares)
