"""``compare``: every system on one table, with the same splits and the same budgets."""

import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils.multiclass import type_of_target

from skinnytrees.baselines import SYSTEMS, available_systems
from skinnytrees.comparison.processes import machine_memory, run_tasks
from skinnytrees.comparison.results import Comparison
from skinnytrees.comparison.tasks import COMMON_MODELS, OURS, Task, estimator_for
from skinnytrees.evaluation.results_file import ResultsFile, fingerprint
from skinnytrees.exceptions import cannot_write, refuse_unless
from skinnytrees.path.scoring import find_scorer
from skinnytrees.threads import allowed_threads
from skinnytrees.training.progress import count_progress

# Unless the user says otherwise, a system may take this fraction of the machine's memory.
_MEMORY_FRACTION = 0.8


def compare(
    X: Any,
    y: ArrayLike,
    systems: Sequence[str] | Mapping[str, Any] | None = None,
    budgets: Sequence[float] = (5, 10, 0.25),
    *,
    cv: Any = None,
    groups: ArrayLike | None = None,
    scoring: str | None = None,
    common_model: str | None = "forest",
    task: str | None = None,
    n_jobs: int | None = 1,
    time_limit: float = 600.0,
    memory_limit: float | None = None,
    results_file: str | os.PathLike[str] | None = None,
    random_state: int = 0,
    verbose: int = 0,
) -> Comparison:
    """Fit several systems that select features on the same folds with the same budgets.

    Every fit runs in a process of its own. A system that fails, hangs or runs out of memory gets a row with the
    reason, and the comparison continues.

    Parameters
    ----------
    X : array, sparse matrix or frame of shape (n_samples, n_features)
        The table.
    y : array of shape (n_samples,)
        Classes or numbers.
    systems : list of str, mapping of str to estimator, or None, default=None
        Names of :data:`skinnytrees.baselines.SYSTEMS` and ``"skinnytrees"``, or estimators of your own that have
        ``feature_budget`` and ``get_support``. None is every system that is installed and defined for the target.
    budgets : sequence of int or float, default=(5, 10, 0.25)
        Numbers of features, or fractions of them. Budgets that stand for the same number are tried once.
    cv : int, splitter, iterable or None, default=None
        The folds; None is five, stratified for classes.
    groups : array of shape (n_samples,) or None
        For splitters that keep groups together.
    scoring : str or None, default=None
        Name of a scikit-learn scorer. None is ``"roc_auc"`` for two classes, ``"roc_auc_ovo"`` for more, ``"r2"`` for
        numbers.
    common_model : {"forest", "lightgbm", "linear"} or None, default="forest"
        Model that is also fitted on the columns of every system, to compare the columns alone. None leaves it out.
    task : {"classification", "regression"} or None, default=None
        None is classification unless y has numbers with fractions or more than 20 different ones.
    n_jobs : int or None, default=1
        Number of fits that run in parallel; None uses all cores. Seconds are comparable only with 1.
    time_limit : float, default=600
        Seconds after which a fit is stopped.
    memory_limit : float or None, default=None
        Bytes that a fit may take; None is 80 percent of the machine's memory.
    results_file : str, path or None, default=None
        File to which finished fits are written, so that an interrupted comparison can be continued, also with more systems or
        budgets.
    random_state : int, default=0
        Seed of folds and systems.
    verbose : int, default=0
        Show progress.

    Returns
    -------
    Comparison
        ``to_frame()`` has a row per system, budget and fold; ``summary()`` has intervals and differences to ours, ``in_words()``
        has one sentence per budget, and ``plot()`` draws scores against budgets.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from skinnytrees import compare
    >>> X, y = load_wine(return_X_y=True)
    >>> result = compare(X, y, ["mrmr", "mutual_information"], budgets=[2], cv=2)  # doctest: +SKIP
    >>> sorted(result.summary()["system"])  # doctest: +SKIP
    ['mrmr', 'mutual_information']
    """
    X, target = X if hasattr(X, "shape") else np.asarray(X), np.asarray(y)
    refuse_unless(
        len(target) == X.shape[0], f"X has {X.shape[0]} rows, but y has {len(target)}. Give one target per row."
    )
    refuse_unless(time_limit > 0, f"time_limit={time_limit!r} leaves no time. Use a number of seconds, such as 600.")
    refuse_unless(
        common_model is None or common_model in COMMON_MODELS,
        f"common_model={common_model!r} is not known. Use one of {COMMON_MODELS}, or None for no such model.",
    )
    task = _task(target) if task is None else task
    models = _models(systems, task, target, random_state)
    sizes = _budgets(budgets, X.shape[1])
    splits = _splits(X, target, cv, groups, task, random_state)
    scoring = _default_scoring(task, target) if scoring is None else scoring
    refuse_unless(
        isinstance(scoring, str),
        f"scoring={scoring!r} is not a name. Give the name of a scikit-learn scorer, such as 'accuracy'.",
    )
    find_scorer(scoring, np.unique(target) if task == "classification" else None)
    tasks = [
        Task(name, size, fold, clone(model).set_params(feature_budget=size), kept, held, scoring, common_model)
        for fold, (kept, held) in enumerate(splits)
        for size in sizes
        for name, model in models.items()
    ]
    belongs_to = fingerprint(X, target, [list(split) for split in splits], scoring, common_model)
    results = ResultsFile(results_file, belongs_to)
    missing = [one for one in tasks if one.key not in results.found]
    if memory_limit is None and (total := machine_memory()) is not None:
        memory_limit = _MEMORY_FRACTION * total
    with tempfile.TemporaryDirectory() as folder, count_progress(len(missing), verbose, "fit") as show:
        data_file = str(Path(folder) / "table.joblib")
        _write_table(X, target, data_file)
        for one, result in run_tasks(missing, data_file, allowed_threads(n_jobs), time_limit, memory_limit):
            results.add(one.key, result)
            show()
    rows = [{"system": one.system, "budget": one.budget, "fold": one.fold, **results.found[one.key]} for one in tasks]
    ratio = float(np.mean([len(held) / len(kept) for kept, held in splits]))
    return Comparison(rows, X.shape[1], scoring, ratio)


def _write_table(X: Any, y: NDArray[Any], file: str) -> None:
    try:
        joblib.dump((X, y), file)
    except OSError as error:
        raise cannot_write(
            error,
            f"{file}, a copy of the table for the processes that fit, cannot be written. Free space on its disk, or set TMPDIR "
            "to a folder elsewhere.",
        ) from error


def _task(y: NDArray[Any]) -> str:
    with warnings.catch_warnings():  # some versions ask whether many whole numbers are classes; the answer is below
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        kind = type_of_target(y)
    refuse_unless(
        kind in ("binary", "multiclass", "continuous"),
        f"y is {kind!r}, but a comparison needs classes or numbers, one per row. Compare one target at a time.",
    )
    many = kind == "multiclass" and y.dtype.kind in "iuf" and len(np.unique(y)) > 20
    return "regression" if kind == "continuous" or many else "classification"


def _models(systems: Any, task: str, y: NDArray[Any], random_state: int) -> dict[str, Any]:
    n_classes = len(np.unique(y)) if task == "classification" else None
    installed = available_systems(task, n_classes)
    if isinstance(systems, Mapping):
        return dict(systems)
    names = [OURS, *installed] if systems is None else list(systems)
    for name in names:
        if name == OURS or name in installed:
            continue
        refuse_unless(name in SYSTEMS, f"There is no system {name!r}. Use some of {[OURS, *SYSTEMS]}.")
        system = SYSTEMS[name]
        refuse_unless(
            system.is_installed,
            f"{name!r} needs {', '.join(system.needs)}: pip install 'skinnytrees[{system.extra}]'.",
        )
        raise ValueError(f"{name!r} is not defined for this target ({task}, {n_classes} classes). Leave it out.")
    return {name: estimator_for(name, task, random_state) for name in names}


def _budgets(budgets: Sequence[float], n_features: int) -> list[int]:
    """Numbers of features, each once, from the smallest to the largest."""
    refuse_unless(len(budgets) > 0, "budgets is empty. Give at least one, such as 5 or 0.25.")
    for budget in budgets:
        refuse_unless(
            budget > 0, f"budgets holds {budget!r}, but budgets must be positive. Use numbers such as 5 or 0.25."
        )
    numbers = [int(b) if isinstance(b, int | np.integer) else max(1, int(b * n_features + 1e-9)) for b in budgets]
    return sorted({min(number, n_features) for number in numbers})


def _splits(
    X: Any, y: NDArray[Any], cv: Any, groups: Any, task: str, random_state: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    if cv is None:
        kind = StratifiedKFold if task == "classification" else KFold
        cv = kind(5, shuffle=True, random_state=random_state)
    splitter = check_cv(cv, y, classifier=task == "classification")
    return [(np.asarray(kept), np.asarray(held)) for kept, held in splitter.split(np.zeros(len(y)), y, groups)]


def _default_scoring(task: str, y: NDArray[Any]) -> str:
    if task == "regression":
        return "r2"
    return "roc_auc" if len(np.unique(y)) == 2 else "roc_auc_ovo"
