"""Hashes of a table's rows and columns that do not depend on the order of either.

Zeros are ignored, so that a dense table and its sparse version have the same hashes.
"""

import numpy as np

from skinnytrees.kernels.compilation import inner_kernel, kernel

_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFT_0, _SHIFT_1, _SHIFT_2 = _SHIFTS
_FACTOR_0, _FACTOR_1 = _FACTORS


@inner_kernel
def mixed(bits):  # type: ignore[no-untyped-def]
    """A number whose bits all depend on all of these (the last steps of the generator splitmix64)."""
    bits = (bits ^ (bits >> _SHIFT_0)) * _FACTOR_0
    bits = (bits ^ (bits >> _SHIFT_1)) * _FACTOR_1
    return bits ^ (bits >> _SHIFT_2)


@kernel
def add_cell_hashes(bits, row_hash, column_hash, row_sum, column_sum):  # type: ignore[no-untyped-def]
    """Add to each column's sum the hash of its values with those of their rows, and to each row's sum the other way round."""
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            if bits[i, j] != 0:
                column_sum[j] += mixed(bits[i, j] ^ row_hash[i])
                row_sum[i] += mixed(bits[i, j] ^ column_hash[j])


@kernel
def add_stored_hashes(bits, starts, columns, row_hash, column_hash, row_sum, column_sum):  # type: ignore[no-untyped-def]
    """The same for the stored values of a CSR matrix."""
    for i in range(len(starts) - 1):
        for k in range(starts[i], starts[i + 1]):
            j = columns[k]
            if bits[k] != 0:
                column_sum[j] += mixed(bits[k] ^ row_hash[i])
                row_sum[i] += mixed(bits[k] ^ column_hash[j])
