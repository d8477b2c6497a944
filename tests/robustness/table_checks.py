"""What must hold for every problem, however hostile: a model that keeps its promises, or a refusal that helps."""

import re
import traceback
import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from robustness.hostile_tables import Case, Problem, build
from skinnytrees.exceptions import NothingLearnedWarning
from skinnytrees.tables.frames import is_frame

# Words with which our messages tell what to do.
_REMEDY = re.compile(
    r"\b(Use|use|Give|Bring|Pass|Leave|Check|Convert|Divide|Multiply|Split|Fit|Collect|Build|Put|Allow|Ask|Price|leave|fit|pass|reshape)\b"
)


def check_case(case: Case) -> str:
    """Fit and predict; return "fitted" or "refused", or raise an AssertionError that says what is wrong."""
    problem = build(case)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.simplefilter("error", RuntimeWarning)  # of numpy, for the traceback
        try:
            problem.estimator.fit(problem.X, problem.y, **problem.fit)
        except (ValueError, TypeError) as error:
            _check_refusal(error)
            _check_warnings(seen)
            return "refused"
        _check_model(problem)
    _check_warnings(seen)
    return "fitted"


def _check_refusal(error: Exception) -> None:
    """Raised by this library with advice, or by scikit-learn's own checks, not by a library below."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    message = str(error)
    assert "/skinnytrees/" in frame.filename or "/sklearn/" in frame.filename, f"raised in {frame.filename}: {message}"
    if "/skinnytrees/" in frame.filename:
        assert _REMEDY.search(message), f"no remedy: {message}"
    assert len(message) > 20, f"too short: {message}"


def _check_warnings(seen: list[warnings.WarningMessage]) -> None:
    for one in seen:
        assert issubclass(one.category, UserWarning | NothingLearnedWarning), f"{one.category.__name__}: {one.message}"


def _check_model(problem: Problem) -> None:
    model, X = problem.estimator, problem.X
    _check_selection(model)
    n_rows = len(problem.y)
    if is_classifier(model):
        P = model.predict_proba(X)
        assert np.isfinite(P).all(), "probabilities that are not finite"
        np.testing.assert_allclose(P.sum(axis=1), 1, rtol=0, atol=1e-6)
        assert set(model.predict(X)) <= set(model.classes_)
    else:
        prediction = model.predict(X)
        assert len(prediction) == n_rows
        assert np.isfinite(prediction).all(), "predictions that are not finite"
    if model.support_.any():
        _check_transform(model, X)


def _check_selection(model: Any) -> None:
    """The budget is met; groups are whole; what must be selected is; what must not be is not."""
    support, n_columns = model.support_, model.n_features_in_
    labels = np.arange(n_columns) if model.feature_groups is None else np.asarray(model.feature_groups)
    for label in np.unique(labels):
        members = support[labels == label]
        assert members.all() or not members.any(), f"group {label} is split"
    costs = np.ones(n_columns)
    if model.feature_costs == "groups":
        costs = 1.0 / np.array([np.sum(labels == label) for label in labels])
    elif model.feature_costs is not None:
        costs = np.asarray(model.feature_costs, dtype=float)
    assert not np.any(support & np.isinf(costs)), "a column of infinite cost is selected"
    if not isinstance(model.penalty, str):
        return
    if model.always_select is not None:
        assert support[np.asarray(model.always_select, dtype=int)].all(), "always_select is not selected"
    if model.feature_budget is not None:
        n_all = len(np.unique(labels)) if model.feature_costs == "groups" else n_columns
        is_fraction = isinstance(model.feature_budget, float) and not isinstance(model.feature_costs, list)
        budget = max(1, int(model.feature_budget * n_all + 1e-9)) if is_fraction else model.feature_budget
        assert costs[support].sum() <= budget * (1 + 1e-6), f"{costs[support].sum()} is over the budget of {budget}"


def _check_transform(model: Any, X: Any) -> None:
    out = model.transform(X)
    if not is_frame(X):
        assert out.shape == (np.shape(X)[0] if isinstance(X, list) else X.shape[0], model.n_features_selected_)
        return
    assert type(out) is type(X)
    if isinstance(X, pd.DataFrame):
        pd.testing.assert_frame_equal(out, X.loc[:, model.support_])
    else:
        expected = X.select([str(name) for name in model.get_feature_names_out()])
        assert out.schema == expected.schema
        pd.testing.assert_frame_equal(out.to_pandas(), expected.to_pandas())  # in which NaN is NaN
