"""One fit on scikit-learn's breast cancer data: which few measurements are enough, and how good is the model on them?

Run with ``make demo``. Writes a picture of the path, the table behind it and the model to ``output/demo``.
"""

import csv
import time
from pathlib import Path

from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from skinnytrees import SkinnyTreesClassifier

BUDGET = 5
OUTPUT = Path("output/demo")


def main() -> None:
    data = load_breast_cancer()
    X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.3, stratify=data.target, random_state=0)

    def test_auc(model: SkinnyTreesClassifier) -> float:
        return roc_auc_score(y_test, model.predict_proba(X_test)[:, 1])

    print(f"Breast cancer: {X.shape[0]} training rows, {X.shape[1]} features, at most {BUDGET} wanted.\n")
    started = time.perf_counter()
    model = SkinnyTreesClassifier(feature_budget=BUDGET, random_state=0).fit(X, y)
    seconds = time.perf_counter() - started
    dense = SkinnyTreesClassifier(penalty=None, random_state=0).fit(X, y)
    smaller = model.at(2)

    print(f"Chosen in one fit of {seconds:.1f} s, with each feature's share of the weight:")
    for k in sorted(model.get_support(indices=True), key=lambda k: -model.feature_importances_[k]):
        print(f"  {data.feature_names[k]:<25} {model.feature_importances_[k]:.2f}")
    print("\nTest AUC")
    print(f"  {model.n_features_selected_:>2} features  {test_auc(model):.4f}")
    print(f"  {dense.n_features_selected_:>2} features  {test_auc(dense):.4f}  (dense soft trees)")
    print(
        f"  {smaller.n_features_selected_:>2} features  {test_auc(smaller):.4f}  (the same fit, model.at(2), no training)"
    )

    OUTPUT.mkdir(parents=True, exist_ok=True)
    model.path_.plot().figure.savefig(OUTPUT / "path.png", dpi=150)
    with (OUTPUT / "path.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["n_features", "val_score", "val_score_se", "features"])
        for size, score, error, support in zip(
            model.path_.n_features, model.path_.val_score, model.path_.val_score_se, model.path_.supports, strict=True
        ):
            table.writerow([size, f"{score:.4f}", f"{error:.4f}", "; ".join(data.feature_names[support])])
    model.save(OUTPUT / "model.skinny")
    print(f"\nThe whole path: {OUTPUT / 'path.png'} and {OUTPUT / 'path.csv'}")
    print(f"The model: {OUTPUT / 'model.skinny'}, which skinnytrees.load reads")


if __name__ == "__main__":
    main()
