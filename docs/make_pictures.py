"""Draws the README's pictures from real fits: ``.venv/bin/python docs/make_pictures.py``."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
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


if __name__ == "__main__":
    draw_idea()
