"""``evaluate``: repeat the whole fit, the selection included, in every fold."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, check_cv
from sklearn.utils import indexable

from skinnytrees.evaluation.folds import run_fold
from skinnytrees.evaluation.results import Evaluation
from skinnytrees.evaluation.results_file import ResultsFile, fingerprint
from skinnytrees.evaluation.scoring import named_scoring, score_range, scorers_for
from skinnytrees.exceptions import refuse_unless
from skinnytrees.training.progress import count_progress


def evaluate(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    cv: Any = None,
    groups: ArrayLike | None = None,
    scoring: Any = None,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    results_file: str | os.PathLike[str] | None = None,
    verbose: int = 0,
) -> Evaluation:
    """Estimate how good a model will be on new rows, and how stable its selection is.

    The whole fit is repeated in every fold, the selection of features included. A score on rows that took part in the selection,
    such as ``path_.val_score``, is biased; this one is not.

    Parameters
    ----------
    model : estimator
        Estimator to evaluate: one of this library, or any other with the interface of scikit-learn. It is cloned.
    X : array, sparse matrix or frame of shape (n_samples, n_features)
        The table.
    y : array of shape (n_samples,)
        Classes or numbers.
    cv : int, splitter, iterable or None, default=None
        The folds; None is five folds, repeated five times, stratified for classes. With groups, five folds of groups.
    groups : array of shape (n_samples,) or None
        Rows of one group are never on both sides of a split, here and inside the fit.
    scoring : str, callable, list, dict or None, default=None
        scikit-learn's names of scores. None is AUC, log-loss and accuracy for classes, R squared and the root mean squared error
        for numbers.
    sample_weight : array of shape (n_samples,) or None
        Weights for fits and scores.
    n_jobs : int or None, default=None
        None uses all cores, by one fold after another, each fit on all cores. A number is how many folds run in parallel, by
        joblib: ``parallel_config`` chooses the backend, Dask included. Results do not depend on it.
    results_file : str, path or None, default=None
        File to which finished folds are written, so that an interrupted evaluation can be continued.
    verbose : int, default=0
        Show progress.

    Returns
    -------
    Evaluation
        Scores with intervals, panels and their stability, predictions of rows that were held out; ``summary()`` has the main
        results as text.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skinnytrees import SkinnyTreesClassifier, evaluate
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = SkinnyTreesClassifier(feature_budget=3, max_epochs=3, random_state=0)
    >>> result = evaluate(model, X, y, cv=3, scoring="roc_auc")
    >>> result.n_folds, 0.9 < result.scores["roc_auc"].mean <= 1
    (3, True)
    """
    refuse_unless(
        hasattr(model, "fit") and hasattr(model, "get_params"),
        f"model={model!r} is not an estimator. Give one with fit and get_params, such as SkinnyTreesClassifier().",
    )
    X, target, labels = indexable(X, np.asarray(y), None if groups is None else np.asarray(groups))
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    refuse_unless(
        weight is None or len(weight) == len(target),
        f"sample_weight has {0 if weight is None else len(weight)} entries, but y has {len(target)}. Give one per row.",
    )
    scoring = named_scoring(model, scoring, target)
    scorers = scorers_for(model, scoring, target)
    splits = _splits(model, X, target, cv, labels)
    belongs_to = fingerprint(
        repr(model.get_params()), X, target, labels, weight, sorted(scorers), [list(s) for s in splits]
    )
    results = ResultsFile(results_file, belongs_to)
    missing = [i for i in range(len(splits)) if str(i) not in results.found]
    with count_progress(len(missing), verbose, "fold") as show:
        tasks = [delayed(_numbered)(i, model, X, target, splits[i], scorers, labels, weight) for i in missing]
        for fold, result in _in_parallel(tasks, n_jobs):
            results.add(str(fold), result)
            show()
    folds = [results.found[str(i)] for i in range(len(splits))]
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else [f"x{k}" for k in range(X.shape[1])]
    classes = np.unique(target) if is_classifier(model) else None
    ranges = {name: score_range(one) for name, one in scoring.items()}
    return Evaluation(folds, splits, target, names, classes, ranges)


def _splits(
    model: Any, X: Any, y: NDArray[Any], cv: Any, groups: NDArray[Any] | None
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    if cv is None and groups is None:
        kind = RepeatedStratifiedKFold if is_classifier(model) else RepeatedKFold
        cv = kind(n_splits=5, n_repeats=5, random_state=0)
    elif cv is None or (isinstance(cv, int) and groups is not None):
        from sklearn.model_selection import GroupKFold, StratifiedGroupKFold

        n_splits = 5 if cv is None else cv
        cv = StratifiedGroupKFold(n_splits) if is_classifier(model) else GroupKFold(n_splits)
    splitter = check_cv(cv, y, classifier=is_classifier(model))
    splits = [(np.asarray(kept), np.asarray(held)) for kept, held in splitter.split(X, y, groups)]
    refuse_unless(len(splits) > 0, f"cv={cv!r} gives no fold. Use a number of folds of at least 2.")
    return splits


def _numbered(fold: int, *args: Any) -> tuple[int, dict[str, Any]]:
    return fold, run_fold(*args)


def _in_parallel(tasks: list[Any], n_jobs: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Results as they are finished; all at once from backends that cannot return them one by one."""
    try:
        yield from Parallel(n_jobs=n_jobs, return_as="generator")(tasks)
    except ValueError as error:
        if "return_as" not in str(error) and "generator" not in str(error):
            raise
        yield from Parallel(n_jobs=n_jobs)(tasks)
