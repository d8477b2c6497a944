"""Make model files for ``tests/model/data``: run it once per format, and never overwrite what is there.

``python tests/model/make_data.py FORMAT`` writes two files and the predictions that they must give for ever.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from skinnytrees import SkinnyTreesClassifier, SkinnyTreesRegressor
from skinnytrees.losses import Huber
from skinnytrees.penalties import GroupL0

FOLDER = Path(__file__).parent / "data"


def example_table():
    """Numbers with gaps, text and categories; the values are few, so that files are small."""
    rows = np.arange(48)
    return pd.DataFrame(
        {
            "dose": np.where(rows % 9 == 0, np.nan, rows * 7 % 11),
            "colour": np.array(["red", "green", "blue"])[rows % 3],
            "ward": pd.Categorical(rows * 3 % 4),
        }
    )


def example_models():
    X = example_table()
    score = X.dose.fillna(5) + 4 * (X.colour == "red")
    few = {"n_estimators": 2, "max_depth": 2, "max_epochs": 3, "random_state": 0}
    classifier = SkinnyTreesClassifier(2.5, feature_costs={"colour": 1.5, "ward": np.inf}, size_rule="full", **few)
    regressor = SkinnyTreesRegressor(loss=Huber(2.0), penalty=GroupL0(0.01, rate=0.1), feature_groups=[[0, 1]], **few)
    return {
        "classifier": classifier.fit(X, np.where(score > 6, "ill", "well")),
        "regressor": regressor.fit(X, score),
    }


def predictions(model):
    X = example_table()
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


if __name__ == "__main__":
    for kind, model in example_models().items():
        file = FOLDER / f"{kind}_format{sys.argv[1]}.skinny"
        if file.exists():
            raise SystemExit(f"{file} is there already: a kept file must not change.")
        model.save(file)
        np.save(file.with_suffix(".npy"), predictions(model))
        print(file, file.stat().st_size)
