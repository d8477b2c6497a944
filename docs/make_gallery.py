"""Draws the pictures of docs/gallery.md from real fits: ``.venv/bin/python docs/make_gallery.py``."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.model_selection import train_test_split

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor, compare, evaluate
from skinnytrees.estimators.stability import StabilitySelector
from skinnytrees.penalties import GroupL0
from skinnytrees.plots import FeaturePathDisplay

FOLDER = Path(__file__).parent / "gallery"
Draw = Callable[[], Any]


def houses(n_rows: int = 500) -> tuple[pd.DataFrame, "pd.Series[float]"]:
    """A generated table with categories, missing values, long names and an interaction."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "living area of the house without cellar and attic, in square metres": rng.uniform(40, 220, n_rows).round(),
            "district": rng.choice(["harbour", "old town", "north", "west", "industrial estate"], n_rows),
            "year of construction": rng.integers(1880, 2024, n_rows).astype(float),
            "distance to the station": rng.exponential(2, n_rows),
            "energy class": rng.choice(list("ABCDEFG"), n_rows),
            "noise": rng.normal(size=n_rows),
        }
    )
    area, year = frame.iloc[:, 0], frame["year of construction"]
    price = 3 * area + 150 * (frame.district == "harbour") - 20 * frame["distance to the station"] * (area > 120)
    frame.loc[rng.random(n_rows) < 0.15, "year of construction"] = np.nan
    return frame, price + (year - 1950) / 2 + rng.normal(0, 20, n_rows)


def pictures() -> Iterator[tuple[str, Draw]]:
    """Name of each picture, and what draws it."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    labels = np.array(["malignant", "benign"])[y]
    X, X_test, y, y_test = train_test_split(X, labels, test_size=0.4, random_state=0, stratify=labels)
    cancer = SkinnyTreesClassifier(8, random_state=0).fit(X, y)
    explanation = cancer.explain(X_test, background=X[:50])
    yield "path", lambda: cancer.path_.plot()
    yield "path_auc", lambda: FeaturePathDisplay.from_estimator(cancer, X_test, y_test, metric="roc_auc")
    yield "bar", lambda: explanation.plot_bar()
    yield "beeswarm", lambda: explanation.plot_beeswarm()
    yield "waterfall", lambda: explanation.plot_waterfall(row=3)

    wine, kinds = load_wine(return_X_y=True, as_frame=True)
    three = SkinnyTreesClassifier(6, random_state=0).fit(wine, np.array(["Barolo", "Grignolino", "Barbera"])[kinds])
    yield "bar_classes", lambda: three.explain(wine, output="probability").plot_bar()
    yield "effects_classes", lambda: three.plot_effects(wine, what="probability", n_pairs=0)

    X_house, price = houses()
    costs = dict(zip(X_house.columns, [5, 1, 2, 3, 1, 1], strict=True))
    house = SkinnyTreesRegressor(11, feature_costs=costs, random_state=0).fit(X_house, price)
    yield "path_cost", lambda: house.path_.plot()
    yield "effects", lambda: house.plot_effects(X_house)
    yield "waterfall_categories", lambda: house.explain(X_house[:5], X_house[::10]).plot_waterfall(row=1)

    X_sugar, sugar = load_diabetes(return_X_y=True, as_frame=True)
    penalised = SkinnyTreesRegressor(
        penalty=GroupL0(20, rate=0.002),
        learning_rate=0.1,
        max_epochs=60,
        n_estimators=20,
        max_depth=3,
        random_state=0,
    ).fit(X_sugar, sugar)
    yield "history", lambda: penalised.plot_history()
    selector = StabilitySelector(SkinnyTreesRegressor(4), n_resamples=10, random_state=0).fit(X_sugar, sugar)
    yield "stability", lambda: selector.plot()

    X_all, y_all = load_breast_cancer(return_X_y=True, as_frame=True)
    evaluation = evaluate(
        SkinnyTreesClassifier(8, random_state=0), X_all, np.array(["malignant", "benign"])[y_all], cv=5
    )
    yield "evaluation", lambda: evaluation.plot()
    comparison = compare(X_all, y_all, ["skinnytrees", "forest", "xgboost", "l1_path", "mrmr"], budgets=[2, 4, 8], cv=5)
    yield "compare", lambda: comparison.plot()


def main(folder: Path = FOLDER) -> None:
    """Draw every picture in light, and two in dark."""
    folder.mkdir(parents=True, exist_ok=True)
    everything = "--dark" in sys.argv
    for name, draw in pictures():
        styles = [("default", ""), ("dark_background", "_dark")]
        for style, ending in styles if everything or name in ("beeswarm", "path") else styles[:1]:
            with plt.style.context(style):
                draw()
                plt.savefig(folder / f"{name}{ending}.png", dpi=75)
                plt.close("all")


if __name__ == "__main__":
    main(*map(Path, [argument for argument in sys.argv[1:] if not argument.startswith("-")]))
