"""Shapley values by their definition, from predictions of whole rows."""

from itertools import combinations
from math import comb

import numpy as np


def worth(predict, row, background, coalition):
    """Mean prediction over background rows whose coalition features are the row's."""
    hybrid = background.copy()
    hybrid[:, list(coalition)] = row[list(coalition)]
    return predict(hybrid).mean(axis=0)


def shapley_values(predict, rows, background, features):
    """(rows, features, ...) of every row, for the features that play; other columns are never changed."""
    n = len(features)
    values = []
    for row in rows:
        of_row = []
        for f in features:
            others = [g for g in features if g != f]
            total = 0.0
            for size in range(n):
                for coalition in combinations(others, size):
                    gain = worth(predict, row, background, (*coalition, f)) - worth(predict, row, background, coalition)
                    total = total + gain / (n * comb(n - 1, size))
            of_row.append(total)
        values.append(of_row)
    return np.array(values)
