"""From the values of a table to design rows; ``skinnytrees.tables.encoding`` says what the columns of a design mean."""

from math import floor

from skinnytrees.kernels.compilation import inner_kernel, kernel

_INFINITY = float("inf")
# A fraction that was read in single precision stands for the same level as the one in double precision.
_SINGLE_PRECISION = 2.0**-23


@inner_kernel
def is_at_level(x, level):  # type: ignore[no-untyped-def]
    """Whether a value is the one that a level stands for; whole numbers must be equal, and a missing level is NaN."""
    if x == level:
        return True
    if level != level:
        return x != x
    return abs(x - level) <= _SINGLE_PRECISION * abs(level) and level != floor(level)


@inner_kernel
def height_at(x, knots, heights, first, end):  # type: ignore[no-untyped-def]
    """Height at x of the piecewise-linear curve through the points from ``first`` to ``end``, constant beyond them."""
    low, n = first, end - first
    while n > 1:
        half = n // 2
        if knots[low + half] <= x:
            low += half
        n -= half
    if x <= knots[low] or low == end - 1:
        return heights[low]
    gap = knots[low + 1] - knots[low]
    # The gap of two knots may exceed the largest number.
    fraction = (x - knots[low]) / gap if gap < _INFINITY else 0.5
    low_height, high_height = heights[low], heights[low + 1]
    height = low_height + fraction * (high_height - low_height)
    # Rounding must not lead past the next knot.
    return min(height, high_height) if low_height <= high_height else max(height, high_height)


@kernel
def encode_rows(  # type: ignore[no-untyped-def]
    values, mean, scale, farthest, level, is_indicator, is_level, knots, heights, knot_offsets, design
):
    """Fill ``design`` from ``values`` of the same shape, and return how many values are infinite."""
    n_infinite = 0
    for i in range(values.shape[0]):
        row, place = values[i], design[i]
        for j in range(row.shape[0]):
            x = row[j]
            missing = x != x
            n_infinite += abs(x) == _INFINITY
            if is_level[j]:
                place[j] = is_at_level(x, level[j])
            elif is_indicator[j]:
                place[j] = missing
            elif missing:
                place[j] = 0
            else:
                place[j] = max(-farthest, min(farthest, (x - mean[j]) / scale[j]))
    # Curves column by column, because a column's knots then stay in the first-level cache: a quarter of the time on wide tables.
    for j in range(values.shape[1]):
        first, end = knot_offsets[j], knot_offsets[j + 1]
        if first < end:
            for i in range(values.shape[0]):
                if values[i, j] == values[i, j]:
                    design[i, j] = height_at(values[i, j], knots, heights, first, end)
    return n_infinite
