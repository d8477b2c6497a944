"""Other systems at the same budget, untuned.

Forests and boosting are fitted on all columns, cut to their top columns by importance and fitted again. LassoNet walks its
own path, and its best model on validation rows within the budget counts.
"""

import copy
import json
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import ensemble
from sklearn.metrics import roc_auc_score

from skinnytrees.datasets import PublishedData, load

NAMES = ("rf", "xgb", "lgbm", "cat", "lassonet")
# A process of its own has this many seconds for its imports and for reading the data.
START_UP = 15


def probabilities(model: Any, X: Any) -> np.ndarray:
    """In double precision: scikit-learn wants rows that sum to one."""
    P = model.predict_proba(X).astype(float)
    return P / P.sum(axis=1, keepdims=True)


def test_auc(model: Any, X: Any, y: np.ndarray) -> float:
    P = probabilities(model, X)
    return 100 * (roc_auc_score(y, P[:, 1]) if P.shape[1] == 2 else roc_auc_score(y, P, multi_class="ovo"))


def new_model(name: str, kind: str = "Classifier", n_trees: int | None = None, n_jobs: int = 2, seed: int = 0) -> Any:
    """An unfitted peer; kind is ``"Classifier"`` or ``"Regressor"``, and None for 500 trees of a forest or 300 of boosting."""
    if name == "rf":
        return getattr(ensemble, f"RandomForest{kind}")(n_trees or 500, n_jobs=n_jobs, random_state=seed)
    boosting = {"n_estimators": n_trees or 300, "learning_rate": 0.1, "random_state": seed}
    if name == "xgb":
        import xgboost

        return getattr(xgboost, f"XGB{kind}")(max_depth=4, n_jobs=n_jobs, **boosting)
    if name == "lgbm":
        import lightgbm

        return getattr(lightgbm, f"LGBM{kind}")(num_leaves=15, n_jobs=n_jobs, verbose=-1, **boosting)
    import catboost

    return getattr(catboost, f"CatBoost{kind}")(depth=4, thread_count=n_jobs, verbose=False, allow_writing_files=False,
                                                **boosting)  # fmt: skip


def fit(name: str, data: PublishedData, columns: np.ndarray | None = None) -> Any:
    X = data.X_train if columns is None else data.X_train[:, columns]
    return new_model(name).fit(sparse.csr_matrix(X) if sparse.issparse(X) else X, data.y_train)


def auc_on(name: str, data: PublishedData, columns: np.ndarray) -> float:
    """Test AUC of a peer fitted on these columns."""
    return test_auc(fit(name, data, columns), test_rows(data, columns), data.y_test)


def test_rows(data: PublishedData, columns: np.ndarray) -> Any:
    X = data.X_test[:, columns]
    return sparse.csr_matrix(X) if sparse.issparse(X) else X


def by_importance(name: str, data: PublishedData) -> np.ndarray:
    """All columns, the most important first."""
    return ranking(fit(name, data))


def ranking(model: Any) -> np.ndarray:
    """All columns of a fitted peer, the most important first."""
    return np.argsort(-model.feature_importances_, kind="stable")


def lassonet_auc(data: PublishedData, n_allowed: int) -> float:
    """Test AUC of the model with the lowest validation loss on LassoNet's path within the budget."""
    from lassonet import LassoNetClassifier

    X_train, X_val, X_test = (dense(X) for X in (data.X_train, data.X_val, data.X_test))
    model = LassoNetClassifier(random_state=0, torch_seed=0, verbose=0)
    best: dict[str, Any] = {"loss": np.inf}

    def watch(model: Any, history: list[Any]) -> None:
        last = history[-1]
        if int(last.selected.sum()) <= n_allowed and last.val_loss < best["loss"]:
            best.update(loss=last.val_loss, weights=copy.deepcopy(model.model.state_dict()))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of its own starting value
        model.path(X_train, data.y_train, X_val=X_val, y_val=data.y_val, callback=watch)
    model.load(best["weights"])
    return test_auc(model, X_test, data.y_test)


def dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float32)


def run(name: str, data: PublishedData, n_allowed: int) -> tuple[float, float]:
    """Test AUC at the budget, and seconds."""
    started = time.perf_counter()
    if name == "lassonet":
        auc = lassonet_auc(data, n_allowed)
    else:
        auc = auc_on(name, data, np.sort(by_importance(name, data)[:n_allowed]))
    return auc, time.perf_counter() - started


def run_within(name: str, set_name: str, n_allowed: int, limit: float) -> tuple[float, float]:
    """The same in a process of its own, which is ended at the limit: then the AUC is not a number."""
    command = [sys.executable, "-m", "benchmarks.peers", name, set_name, str(n_allowed)]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=limit + START_UP, check=True).stdout
    except subprocess.TimeoutExpired:
        return np.nan, limit
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"{name} failed on {set_name}:\n{error.stderr.strip().splitlines()[-1]}\n"
            'If it is not installed: make torch, then pip install -c constraints.txt -e ".[baselines]".'
        ) from None
    auc, seconds = json.loads(answer.splitlines()[-1])
    return auc, seconds


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit("Use: python -m benchmarks.peers NAME SET NUMBER_OF_COLUMNS, such as cat churn 8.")
    print(json.dumps(run(sys.argv[1], load(sys.argv[2]), int(sys.argv[3]))))
