"""Common base of all systems: reading and preparing a table, holding out rows to choose by, and keeping to the budget.

A system implements how it fits prepared rows (``_fit_problem``); everything that a user sees is here.
"""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted

from skinnytrees.baselines.preparation import Preparation
from skinnytrees.baselines.selection_path import SelectionPath
from skinnytrees.exceptions import import_optional, refuse_unless
from skinnytrees.tables.frames import Vocabulary, open_table, read_columns, read_table
from skinnytrees.tables.groups import Groups
from skinnytrees.tables.rows import split_rows
from skinnytrees.threads import allowed_threads

# Parameters that most systems have. A system adds its own.
CONSTRAINTS: dict[str, list[Any]] = {
    "feature_budget": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, None, closed="neither"), None],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}


class Sample(NamedTuple):
    """Prepared rows: the matrix, class codes (0, 1, ...) or numbers, and weights."""

    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64]

    def take(self, rows: NDArray[np.intp]) -> "Sample":
        """Some of the rows."""
        return Sample(self.X[rows], self.y[rows], self.weight[rows])

    def columns(self, columns: NDArray[np.intp]) -> "Sample":
        """All rows with some columns of the matrix."""
        return self._replace(X=self.X[:, columns])


@dataclass(frozen=True)
class Problem:
    """What a system gets to fit.

    Attributes
    ----------
    train : Sample
        Rows to train on while settings are tried.
    val : Sample or None
        Rows to choose by; None for a system that does not choose, or where there are too few rows.
    rows : Sample
        All rows that may train the final model: ``train``, and ``val`` unless the user gave it.
    feature : array of int
        Feature of each column of the matrix.
    n_features : int
        Number of features of the user's table. Those that do not vary have no column.
    budget : int
        At most this many features.
    n_classes : int
        Number of classes; 0 for a regression.
    seed : int
        Of all random numbers.
    n_jobs : int
        Number of threads or processes that may be used.
    """

    train: Sample
    val: Sample | None
    rows: Sample
    feature: NDArray[np.intp]
    n_features: int
    budget: int
    n_classes: int
    seed: int
    n_jobs: int

    def columns_of(self, features: NDArray[np.intp]) -> NDArray[np.intp]:
        """Columns of the matrix that belong to these features, in increasing order."""
        return np.flatnonzero(np.isin(self.feature, features))

    def features_of(self, columns: NDArray[Any]) -> NDArray[np.intp]:
        """Features that these columns (numbers or a mask) belong to, in increasing order."""
        return np.unique(self.feature[columns])

    def per_feature(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Sum of the columns' values for each feature of the table."""
        return np.bincount(self.feature, values, self.n_features).astype(np.float64)

    def top(self, importances: NDArray[np.float64], k: int) -> NDArray[np.intp]:
        """The k features of largest importance among those that vary, in increasing order; ties by column number."""
        return np.sort(rank_features(importances, self.feature)[:k])

    def restrict(self, features: NDArray[np.intp]) -> "Problem":
        """The same problem with the columns of these features only."""
        columns = self.columns_of(features)
        train = self.train.columns(columns)
        return replace(
            self,
            train=train,
            val=None if self.val is None else self.val.columns(columns),
            rows=train if self.rows is self.train else self.rows.columns(columns),
            feature=self.feature[columns],
        )

    def score(self, model: Any, sample: Sample | None) -> float:
        """Validation score of a model that was fitted on the same columns; NaN without rows."""
        if sample is None:
            return float("nan")
        return validation_score(sample, model_output(model, sample.X, self.n_classes), self.n_classes)


@dataclass(frozen=True)
class Fitted:
    """What a system returns.

    Attributes
    ----------
    support : array of int
        Selected features of the table.
    model : object
        With ``predict_proba`` (a classifier, fitted on class codes) or ``predict`` (a regressor), for the matrix restricted
        to ``columns``.
    columns : array of int or None
        Columns of the matrix that the model reads, in increasing order; None stands for those of the selected features.
    path : SelectionPath or None
        The settings that were tried.
    importances : array of shape (n_features,) or None
        Larger is more important. They become ``feature_importances_`` (normalised to sum 1) and ``ranking_``.
    """

    support: NDArray[np.intp]
    model: Any
    columns: NDArray[np.intp] | None = None
    path: SelectionPath | None = None
    importances: NDArray[np.float64] | None = None


class Baseline(SelectorMixin, BaseEstimator):
    """Common base of classifiers and regressors."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS
    # Whether columns get mean 0 and standard deviation 1.
    _standardize: ClassVar[bool] = False
    # Whether the system chooses by rows that it is not trained on.
    _needs_validation: ClassVar[bool] = False
    _honours_weights: ClassVar[bool] = True
    _accepts_sparse: ClassVar[bool] = False
    _binary_only: ClassVar[bool] = False
    # Distributions to import and the extra that has them.
    _needs: ClassVar[tuple[str, ...]] = ()
    _extra: ClassVar[str] = "baselines"
    _vocabulary: Vocabulary | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._accepts_sparse
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """The ranges that the Skinny Trees paper's supplement searched for this system, as plain data.

        Returns
        -------
        dict
            Parameter -> ``("int", low, high)``, ``("float", low, high)``, ``("log", low, high)`` (log-uniform) or
            ``("choice", values)``. Empty where the paper did not tune the system.
        """
        return {}

    def _packages(self) -> tuple[str, ...]:
        """Packages that a fit with the present settings imports."""
        return self._needs

    # --- what a system writes -----------------------------------------------------------------------------------------

    def _fit_problem(self, problem: Problem) -> Fitted:
        """Fit within ``problem.budget`` features."""
        raise NotImplementedError

    # --- what fit does ------------------------------------------------------------------------------------------------

    def fit(  # type: ignore[no-untyped-def]
        self, X, y, sample_weight=None, *, X_val=None, y_val=None, sample_weight_val=None
    ):
        """Select features and fit a model on them.

        Parameters
        ----------
        X : array, frame or sparse matrix of shape (n_samples, n_features)
            Training table. Frames may hold text, categories and missing values.
        y : array of shape (n_samples,)
            Classes or numbers.
        sample_weight : array of shape (n_samples,) or None
            Weight of each row.
        X_val, y_val, sample_weight_val : arrays or None
            Rows to choose by, for a system that chooses; they train no model. Without them such a system holds out
            ``validation_fraction`` of the rows and trains its final model on all of them.

        Returns
        -------
        self
        """
        self._validate_params()
        for package in self._packages():
            import_optional(package, type(self).__name__, self._extra)
        refuse_unless(
            sample_weight is None or self._honours_weights,
            f"{type(self).__name__} does not support sample weights, but sample_weight was given. Leave it out, or repeat rows.",
        )
        refuse_unless((X_val is None) == (y_val is None), "Give X_val and y_val both, or neither.")
        table, target, weight = self._read(X, y, sample_weight, reset=True)
        held_out = None if X_val is None else self._read(X_val, y_val, sample_weight_val, reset=False)
        problem = self._problem((table, target, weight), held_out)
        if len(problem.feature) == 0 or np.all(problem.rows.y == problem.rows.y[0]):
            self._adopt(_constant(problem), problem)
        else:
            self._adopt(self._fit_problem(problem), problem)
        return self

    def _read(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, NDArray[Any], NDArray[np.float64]]:
        """The table as numbers, the target as codes or numbers, and the weights; rows of weight zero are left out."""
        X = open_table(self, X, None if reset else self._vocabulary, reset=reset)
        if sparse.issparse(X) and not self._accepts_sparse:
            raise TypeError(
                f"{type(self).__name__} does not take sparse data, but X is a sparse matrix. Use X.toarray()."
            )
        if reset:
            self._vocabulary = Vocabulary.learn(X, set())
        table = read_table(self, X, self._vocabulary)
        refuse_unless(
            y is not None,
            f"{type(self).__name__} requires y to be passed, but the target y is None. Pass the targets as y.",
        )
        target = column_or_1d(y, warn=True)
        check_consistent_length(table, target)
        weight = _check_sample_weight(sample_weight, table, dtype=np.float64, ensure_non_negative=True)
        refuse_unless(bool(weight.sum() > 0), "sample_weight is zero for every row. Give some rows a positive weight.")
        used = np.flatnonzero(weight)
        if len(used) < len(weight):
            table, target, weight = table[used], target[used], weight[used]
        return table, self._read_target(target, reset), weight

    def _problem(self, given: tuple[Any, Any, Any], held_out: tuple[Any, Any, Any] | None) -> Problem:
        table, _, weight = given
        n_features = self.n_features_in_
        is_categorical = np.isin(np.arange(n_features), list(self._vocabulary.words) if self._vocabulary else [])
        self.preparation_ = Preparation.learn(table, weight, is_categorical, self._standardize)

        def sample(rows: tuple[Any, Any, Any]) -> Sample:
            return Sample(self.preparation_.encode(rows[0][:, self.preparation_.features]), rows[1], rows[2])

        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        rows = sample(given)
        train, val = rows, None if held_out is None else sample(held_out)
        if self._needs_validation and held_out is None:
            train, val = self._hold_out(rows, seed)
        budget = int(Groups.singles(n_features).total_price(self.feature_budget, n_features, None))
        return Problem(
            train=train, val=val, rows=rows, feature=self.preparation_.feature, n_features=n_features, budget=budget,
            n_classes=self._n_classes(), seed=seed, n_jobs=allowed_threads(getattr(self, "n_jobs", 1)),
        )  # fmt: skip

    def _hold_out(self, rows: Sample, seed: int) -> tuple[Sample, Sample | None]:
        labels = rows.y if self._n_classes() else None
        kept, held = split_rows(len(rows.y), self.validation_fraction, np.random.default_rng(seed), labels)
        return rows.take(kept), rows.take(held) if len(held) else None

    def _adopt(self, fitted: Fitted, problem: Problem) -> None:
        self.support_ = np.isin(np.arange(problem.n_features), fitted.support)
        self.n_features_selected_ = int(self.support_.sum())
        columns = problem.columns_of(fitted.support) if fitted.columns is None else fitted.columns
        self.model_, self._of_model = fitted.model, self.preparation_.select(columns)
        for name in ("path_", "feature_importances_", "ranking_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if fitted.path is not None:
            self.path_ = fitted.path
        if fitted.importances is not None:
            self.feature_importances_ = normalised(fitted.importances)
            order = rank_features(fitted.importances, problem.feature)
            self.ranking_ = np.full(problem.n_features, problem.n_features, dtype=np.intp)
            self.ranking_[order] = np.arange(1, len(order) + 1)

    # --- what differs between classifier and regressor ----------------------------------------------------------------

    def _read_target(self, y: NDArray[Any], reset: bool) -> NDArray[Any]:
        raise NotImplementedError

    def _n_classes(self) -> int:
        raise NotImplementedError

    # --- after fit ----------------------------------------------------------------------------------------------------

    def _output(self, X: Any) -> NDArray[np.float64]:
        """Probabilities or predictions; of X, only the columns that the model needs are read."""
        check_is_fitted(self, "model_")
        X = open_table(self, X, self._vocabulary, reset=False)
        if sparse.issparse(X) and not self._accepts_sparse:
            raise TypeError(f"{type(self).__name__} does not take sparse data. Use X.toarray().")
        values = read_columns(self, X, self._vocabulary, self._of_model.features)
        return model_output(self.model_, self._of_model.encode(values), self._n_classes())

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_


class BaselineClassifier(ClassifierMixin, Baseline):
    """A system for classes."""

    classes_: NDArray[Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = not self._binary_only
        return tags

    def _read_target(self, y: NDArray[Any], reset: bool) -> NDArray[Any]:
        if not reset:
            unknown = np.setdiff1d(y, self.classes_)
            refuse_unless(
                len(unknown) == 0,
                f"y_val has classes that y has not: {unknown.tolist()}. Use classes of {self.classes_.tolist()}.",
            )
            return np.asarray(np.searchsorted(self.classes_, y))
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        refuse_unless(
            n_classes > 1,
            f"y has only one class ({self.classes_[0]!r}); a classifier needs at least 2 classes. Check how y was made.",
        )
        refuse_unless(
            n_classes == 2 or not self._binary_only,
            f"Only binary classification is supported. The type of the target is multiclass: {type(self).__name__} is "
            f"defined for two classes, but y has {n_classes}. Choose another system, or two of the classes.",
        )
        return codes

    def _n_classes(self) -> int:
        return len(self.classes_)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class, in the order of ``classes_``.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array of shape (n_samples, n_classes)
        """
        return self._output(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Most probable class.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array of shape (n_samples,)
        """
        codes = self._output(X).argmax(axis=1)
        return self.classes_[codes]


class BaselineRegressor(RegressorMixin, Baseline):
    """A system for numbers."""

    def _read_target(self, y: NDArray[Any], reset: bool) -> NDArray[Any]:
        return _check_y(y, y_numeric=True, estimator=self).astype(np.float64)

    def _n_classes(self) -> int:
        return 0

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted numbers.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array of shape (n_samples,)
        """
        return self._output(X)


def normalised(importances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Importances that are not negative and sum to 1 (all zero where none is positive)."""
    positive = np.maximum(importances, 0.0)
    total = positive.sum()
    return positive / total if total > 0 else positive


def rank_features(importances: NDArray[np.float64], feature: NDArray[np.intp]) -> NDArray[np.intp]:
    """The features that have a column, the most important first; ties by column number."""
    candidates = np.unique(feature)
    return candidates[np.argsort(-importances[candidates], kind="stable")]


def model_output(model: Any, X: Any, n_classes: int) -> NDArray[np.float64]:
    """Probabilities of all classes, also of those that the model was not trained on, or a regressor's predictions."""
    if n_classes == 0:
        return np.asarray(model.predict(X), dtype=np.float64).ravel()
    probability = np.asarray(model.predict_proba(X), dtype=np.float64)
    known = np.asarray(getattr(model, "classes_", np.arange(n_classes)), dtype=np.intp)
    out = np.zeros((probability.shape[0], n_classes))
    out[:, known] = probability / probability.sum(axis=1, keepdims=True)  # float32 rows do not sum to 1
    return out


def validation_score(sample: Sample, output: NDArray[np.float64], n_classes: int) -> float:
    """AUC (the mean of one class against the rest, over the classes there are), or R squared; larger is better."""
    if n_classes == 0:
        return float(r2_score(sample.y, output, sample_weight=sample.weight)) if len(sample.y) > 1 else float("nan")
    judged = [c for c in range(n_classes) if 0 < np.count_nonzero(sample.y == c) < len(sample.y)]
    if not judged:  # one class only
        return float(np.average(output.argmax(axis=1) == sample.y, weights=sample.weight))
    classes = judged[-1:] if n_classes == 2 else judged
    return float(np.mean([roc_auc_score(sample.y == c, output[:, c], sample_weight=sample.weight) for c in classes]))


class Constant:
    """Predicts the class frequencies or the mean: where the table or the target does not vary."""

    def __init__(self, output: NDArray[np.float64]) -> None:
        self.output = output

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The mean, for each row."""
        return np.repeat(self.output, X.shape[0])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The class frequencies, for each row."""
        return np.tile(self.output, (X.shape[0], 1))


def _constant(problem: Problem) -> Fitted:
    rows = problem.rows
    weight = rows.weight / rows.weight.sum()
    output = np.bincount(rows.y, weight, problem.n_classes) if problem.n_classes else np.array([weight @ rows.y])
    return Fitted(np.array([], dtype=np.intp), Constant(np.asarray(output, dtype=np.float64)))
