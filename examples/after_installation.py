"""A fit, a prediction and a file, to see that an installation works."""

import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer

from skinnytrees import SkinnyTreesClassifier, load, show_versions

X, y = load_breast_cancer(return_X_y=True)
model = SkinnyTreesClassifier(feature_budget=3, random_state=0).fit(X[:300], y[:300])
with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "model.skinny")
    again = load(Path(folder) / "model.skinny")
show_versions()
accuracy = again.score(X[300:], y[300:])
print(f"\n{again.n_features_selected_} of {X.shape[1]} features, accuracy {accuracy:.3f} on rows it has not seen")
assert accuracy > 0.85, "the installation does not work as it should"
