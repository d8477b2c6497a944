"""Versions of this library and of what it works with, for reports of problems."""

import importlib.metadata
import os
import platform
import sys

from threadpoolctl import threadpool_info

_CORE = ("skinnytrees", "numpy", "scipy", "scikit-learn", "numba", "llvmlite", "joblib", "threadpoolctl", "narwhals")
_OPTIONAL = (
    "pandas",
    "polars",
    "pyarrow",
    "matplotlib",
    "tqdm",
    "optuna",
    "torch",
    "xgboost",
    "lightgbm",
    "catboost",
    "onnx",
)


def show_versions() -> None:
    """Print the versions of Python, of this library and of its dependencies, and the BLAS libraries in use.

    Examples
    --------
    >>> import skinnytrees
    >>> skinnytrees.show_versions()
    Python ...
    """
    print(f"Python {sys.version.split()[0]} on {platform.platform()}, {os.cpu_count()} processors")
    for title, names in (("Core", _CORE), ("Optional", _OPTIONAL)):
        print(f"\n{title}:")
        for name in names:
            print(f"  {name:<14} {_version(name)}")
    print("\nThread pools:")
    for pool in threadpool_info():
        print(f"  {pool['user_api']:<7} {pool['internal_api']} {pool['version']}, {pool['num_threads']} threads")


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
