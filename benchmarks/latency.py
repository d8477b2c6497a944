"""One row at a time: the fitted model in Python, its ONNX file in onnxruntime and its C source as a shared library.

``python -m benchmarks.latency``, after ``pip install onnx onnxruntime``; gcc compiles the C source. All sides run by turns, each
on one thread; the C function is called through ctypes with its arguments made ready, onnxruntime with its feeds made ready.
"""

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer

from skinnytrees import SkinnyTreesClassifier

N_FEATURES = 10
N_ROUNDS, N_CALLS = 20, 50


def onnx_predictor(model: Any, row: np.ndarray, folder: Path) -> Callable[[], np.ndarray]:
    import onnxruntime

    model.export(folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    feeds = {
        name: row[:, [k]].astype(np.float32)
        for name, k in zip(model.get_feature_names_out(), np.flatnonzero(model.support_), strict=True)
    }
    return lambda: session.run(["probabilities"], feeds)[0]


def c_predictor(model: Any, row: np.ndarray, folder: Path) -> Callable[[], np.ndarray]:
    model.export(folder / "model.c")
    command = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", "-o", "model.so", "model.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    predict = ctypes.CDLL(str(folder / "model.so")).skinnytrees_predict
    numbers, out = np.ascontiguousarray(row[0, model.support_]), np.empty((1, len(model.classes_)))
    # Kept by the function below, so that the addresses stay good.
    addresses = numbers.ctypes.data_as(ctypes.c_void_p), None, out.ctypes.data_as(ctypes.c_void_p)

    def call() -> np.ndarray:
        predict(*addresses)
        return out

    return call


def microseconds(predictors: dict[str, Callable[[], np.ndarray]]) -> dict[str, np.ndarray]:
    """Of every call, by turns."""
    times: dict[str, list[float]] = {name: [] for name in predictors}
    for _ in range(N_ROUNDS):
        for name, predict in predictors.items():
            for _ in range(N_CALLS):
                started = time.perf_counter()
                predict()
                times[name].append(1e6 * (time.perf_counter() - started))
    return {name: np.array(each) for name, each in times.items()}


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = SkinnyTreesClassifier(feature_budget=N_FEATURES, size_rule="full", random_state=0).fit(X, y)
    row = X[:1].astype(np.float32).astype(np.float64)
    trees, n_features = model.model_.trees, model.n_features_selected_
    print(
        f"{n_features} columns as {len(trees.W)} design columns, {trees.n_trees} trees with {len(trees.b)} splits in all"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        predictors = {
            "Python, predict_proba": lambda: model.predict_proba(row),
            "ONNX, onnxruntime": onnx_predictor(model, row, folder),
            "C, through ctypes": c_predictor(model, row, folder),
        }
        for label, predict in predictors.items():
            np.testing.assert_allclose(predict(), model.predict_proba(row), atol=1e-5, err_msg=label)
        times = microseconds(predictors)
    native = np.median(times["Python, predict_proba"])
    print(f"{'one row':<24} {'median us':>10} {'minimum us':>11} {'ratio of medians':>17}")
    for label, each in times.items():
        print(f"{label:<24} {np.median(each):>10.1f} {each.min():>11.1f} {np.median(each) / native:>17.2f}")


if __name__ == "__main__":
    main()
