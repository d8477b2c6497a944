"""Draws the pictures of README and docs/export.md from real fits: ``.venv/bin/python docs/make_pictures.py``.

The picture of the calculator needs Chromium; without it, the other pictures are drawn.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlencode

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

from skinnytrees import SkinnyTreesClassifier

HERE = Path(__file__).parent


def draw_idea() -> None:
    """Hyperplane weights of the ensemble at three sizes of one path, and the curve of the whole path."""
    data = load_breast_cancer()
    model = SkinnyTreesClassifier(feature_budget=8, random_state=0).fit(data.data, data.target)
    path = model.path_
    figure, axes = plt.subplots(1, 4, figsize=(11, 3.6), width_ratios=[1, 1, 1, 1.7], layout="constrained")
    for ax, size in zip(axes, (30, 8, 3), strict=False):
        entry = path.find(size)
        fitted = path.models[entry]
        weights = np.zeros((30, fitted.trees.W.shape[1]))
        # A feature has several columns: its value and its ranks.
        np.maximum.at(weights, fitted.encoder.feature, np.abs(fitted.trees.W))
        ax.imshow(np.minimum(weights, np.quantile(weights[weights > 0], 0.98)), aspect="auto", cmap="GnBu")
        ax.set_title(f"{path.n_features[entry]} features")
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel("splits of all trees")
    axes[0].set_ylabel("features: one row of weights each")
    path.plot(axes[3])
    axes[3].set_title("one fit, the whole path")
    figure.savefig(HERE / "idea.png", dpi=130)


def patients(n_rows: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    """Generated patients; age, blood pressure and stage raise the risk of a relapse, and one hospital lowers it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(57, 14, n_rows).round(),
            "blood pressure (systolic)": rng.normal(130, 18, n_rows).round(),
            "stage": rng.integers(1, 5, n_rows),
            "hospital": rng.choice(["north", "south", "west"], n_rows),
        }
    )
    risk = (frame["age"] - 57) / 14 + (frame["blood pressure (systolic)"] - 130) / 18 + 0.8 * (frame["stage"] - 2.5)
    risk -= 1.5 * (frame["hospital"] == "west")
    return frame, np.where(risk + rng.logistic(size=n_rows) > 0.5, "relapse", "no relapse")


def draw_calculator() -> None:
    """A screenshot of the exported page, with the values of one patient filled in."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("calculator.png is left as it is: it needs Chromium, which is not installed.")
        return
    X, y = patients()
    model = SkinnyTreesClassifier(size_rule="full", random_state=0).fit(X, y)
    units = {"age": "years", "blood pressure (systolic)": "mmHg"}
    values = urlencode({"age": 64, "blood pressure (systolic)": 151, "stage": 2, "hospital": "west"})
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "calculator.html"
        model.export(page, title="Relapse within one year", target="Relapse", units=units, X=X)
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--hide-scrollbars",
            "--window-size=1100,960",
        ]
        profile, picture = f"--user-data-dir={folder}/profile", f"--screenshot={HERE / 'calculator.png'}"
        subprocess.run(
            [chromium, *flags, profile, picture, f"{page.as_uri()}#{values}"], check=True, capture_output=True
        )


if __name__ == "__main__":
    draw_idea()
    draw_calculator()
