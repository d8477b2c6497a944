"""Fitted models of several kinds with rows to predict, and how close two predictions must be."""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, load_wine

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.activations import SmoothStep

SMALL = {"max_epochs": 4, "n_estimators": 6, "max_depth": 3, "random_state": 0}
CITIES = ["Paris", "O'Hara", 'say "hi" <b>', "München", "a\\b?"]


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model, a frame of rows that it has not seen, and what it predicts for them."""

    model: Any
    X: pd.DataFrame

    @functools.cached_property
    def inputs(self) -> pd.DataFrame:
        """The selected columns, by the names that files give them."""
        names = list(self.model.get_feature_names_out())
        return (
            self.X[names]
            if names[0] in self.X
            else self.X.iloc[:, np.flatnonzero(self.model.support_)].set_axis(names, axis=1)
        )

    @functools.cached_property
    def table(self) -> Any:
        """What the estimator itself predicts from."""
        return self.X if hasattr(self.model, "feature_names_in_") else self.X.to_numpy()

    @functools.cached_property
    def expected(self) -> np.ndarray:
        if hasattr(self.model, "classes_"):
            return self.model.predict_proba(self.table)
        return self.model.predict(self.table).reshape(len(self.X), -1)

    @functools.cached_property
    def text_columns(self) -> list[str]:
        return [name for name in self.inputs if not pd.api.types.is_numeric_dtype(self.inputs[name])]


def assert_equal_to_single_precision(given: Any, expected: np.ndarray) -> None:
    """Python computes in single precision: what computes in double precision must agree to 1e-6 of the largest value."""
    given = np.asarray(given, dtype=np.float64)
    np.testing.assert_allclose(given, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def mixed_frame(n_rows: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers, skewed numbers, codes, fractions and text, with missing values; names that need quotes."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(50, 12, n_rows),
            'income "net"': rng.lognormal(8, 1.5, n_rows),
            "dose in mg": rng.choice([0.1, 0.2, 0.3, 0.7], n_rows),
            "stage": rng.choice([1.0, 2.0, 3.0, 7.0], n_rows),
            "city": rng.choice(np.array(CITIES, dtype=object), n_rows),
        }
    )
    X.loc[rng.random(n_rows) < 0.2, "age"] = np.nan
    X.loc[rng.random(n_rows) < 0.2, "city"] = None
    X["city"] = X["city"].astype(object).where(X["city"].notna(), None)
    z = (
        (X["age"].fillna(70) - 50) / 12
        + np.log(X['income "net"'])
        - 8
        + 3 * (X["city"] == "Paris")
        - 2 * X["city"].isna()
    )
    z = z + 4 * (X["dose in mg"] - 0.3) + (X["stage"] == 2)
    return X, np.where(z + rng.normal(0, 0.3, n_rows) > 0, "ill", "well")


def odd_rows(X: pd.DataFrame) -> pd.DataFrame:
    """The rows, and some that are missing, far out, unknown, or exactly on knots and levels."""
    odd = X.iloc[:8].copy()
    for name in odd:
        if odd[name].dtype == object:
            odd[name] = [None, "never seen", "", *CITIES]
        else:
            known = X[name].dropna()
            odd[name] = [np.nan, 1e9, -1e9, known.min(), known.max(), 0.0, known.iloc[0], 2.5]
    return pd.concat([X, odd], ignore_index=True)


@functools.cache
def mixed() -> Case:
    X, y = mixed_frame(300, 0)
    model = SkinnyTreesClassifier(5, size_rule="full", categorical_features=["stage"], **SMALL).fit(X, y)
    return Case(model, odd_rows(mixed_frame(60, 1)[0]))


@functools.cache
def several_classes() -> Case:
    """A path on an array without names."""
    X, y = load_wine(return_X_y=True)
    model = SkinnyTreesClassifier(feature_budget=4, **SMALL).fit(X[::2], y[::2])
    return Case(model, odd_rows(pd.DataFrame(X[1::2])))


@functools.cache
def regression() -> Case:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = SkinnyTreesRegressor(feature_budget=3, **SMALL).fit(X[::2], y[::2])
    return Case(model, odd_rows(X[1::4]))


@functools.cache
def counts() -> Case:
    """Two outputs, hard splits, positive predictions."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "label"])
    y = rng.poisson(np.exp(X[["a", "label"]].to_numpy()))
    model = SkinnyTreesRegressor(loss="poisson", penalty=None, activation=SmoothStep(0.3), **SMALL).fit(X, y)
    return Case(model, odd_rows(X))


@functools.cache
def unscaled() -> Case:
    """Columns as they are, so that scores of splits may be beyond what EXP takes."""
    X, y = load_wine(return_X_y=True, as_frame=True)
    model = SkinnyTreesClassifier(penalty=None, standardize=False, **SMALL).fit(1e3 * X, y)
    return Case(model, odd_rows(1e3 * X[::3]))


@functools.cache
def folded() -> Case:
    """A smaller size of a path that screens columns before it prunes them: curves of the folded rank, which falls and rises."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(560, 110))).add_prefix("c")
    y = (X["c3"] ** 2 + X["c5"] ** 2 < 1.4).to_numpy().astype(int)
    model = SkinnyTreesClassifier(4, size_rule="full", **SMALL).fit(X[:510], y[:510])
    return Case(model.at(3), odd_rows(X[510:]))


@functools.cache
def stepped() -> Case:
    """Boosted trees with nearly hard splits, which a function with steps needs."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(size=(1600, 2)), columns=["a", "b"])
    y = np.floor(5 * X["a"]) % 2 + np.floor(3 * X["b"]) + 0.1 * rng.normal(size=1600)
    model = SkinnyTreesRegressor(2, size_rule="full", random_state=0).fit(X[:1500], y[:1500])
    assert model.model_.trees.n_trees >= 150, "boosted"
    return Case(model, odd_rows(X[1500:]))


ALL = {case.__name__: case for case in (mixed, several_classes, regression, counts, unscaled, folded, stepped)}
