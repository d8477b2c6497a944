"""Tables in which nothing can be learned."""

import numpy as np
import pytest

from tests.baselines.helpers import BOTH, new, output


@pytest.mark.parametrize(("name", "kind"), BOTH)
def test_noise_still_gives_a_selection_within_the_budget(name, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    y = rng.integers(2, size=40)
    model = new(name, kind, 2).fit(X, y if kind == "classifier" else y.astype(float))
    assert 1 <= model.n_features_selected_ <= 2
    assert np.isfinite(output(model, X)).all()


@pytest.mark.parametrize("name", [name for name, kind in (param.values for param in BOTH) if kind == "regressor"])
def test_a_constant_number_is_predicted(name):
    X = np.random.default_rng(0).normal(size=(30, 4))
    model = new(name, "regressor", 2).fit(X, np.full(30, 3.5))
    np.testing.assert_allclose(model.predict(X), 3.5)
    assert model.n_features_selected_ == 0
