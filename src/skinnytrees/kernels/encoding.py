"""From the values of a table to design rows; ``skinnytrees.encoding`` says what the columns of a design mean."""

from skinnytrees.kernels.compilation import kernel

_INFINITY = float("inf")


@kernel
def encode_rows(values, mean, scale, level, is_indicator, is_level, farthest, design):  # type: ignore[no-untyped-def]
    """Fill ``design`` from ``values`` of the same shape, and return how many values are infinite."""
    n_infinite = 0
    for i in range(values.shape[0]):
        row, place = values[i], design[i]
        for j in range(row.shape[0]):
            x = row[j]
            missing = x != x
            n_infinite += abs(x) == _INFINITY
            if is_level[j]:
                place[j] = x == level[j] or (missing and level[j] != level[j])
            elif is_indicator[j]:
                place[j] = missing
            elif missing:
                place[j] = 0
            else:
                place[j] = max(-farthest, min(farthest, (x - mean[j]) / scale[j]))
    return n_infinite
