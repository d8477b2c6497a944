"""Numbers of any size: counts, columns, targets and weights that are ordinary, huge or tiny."""

import warnings

import numpy as np
import pytest

from skinnytrees import SkinnyTreesRegressor
from skinnytrees.exceptions import NothingLearnedWarning


@pytest.mark.parametrize(("n_rows", "n_columns"), [(60, 40), (100, 100)])
def test_path_on_ordinary_counts_is_no_worse_than_their_mean(n_rows, n_columns):
    """Where training overshoots, exp(raw) must not send it to outputs of -1e9, which predict zero everywhere."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows + 300, n_columns))
    y = rng.poisson(np.exp(X[:, 0] / 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingLearnedWarning)
        model = SkinnyTreesRegressor(loss="poisson", random_state=0).fit(X[:n_rows], y[:n_rows])
    error = np.mean((y[n_rows:] - model.predict(X[n_rows:])) ** 2)
    assert error < 1.2 * np.var(y[n_rows:])  # 1.9 and more when all predictions are zero
