"""Common base of classifier and regressor: validate, encode, train, set attributes. The work is done elsewhere."""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, ClassVar, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, _fit_context, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.model_selection import check_cv
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from skinnytrees.estimators.explaining import Explains
from skinnytrees.estimators.exporting import ExportMixin
from skinnytrees.estimators.parameters import (
    CONSTRAINTS,
    chosen_activation,
    final_recipe,
    penalised_size,
    penalised_training,
    refuse_unused,
    refuse_unused_evidence,
    warn_of_selection,
)
from skinnytrees.estimators.saving import to_saved
from skinnytrees.exceptions import NothingLearnedWarning, refuse_unless
from skinnytrees.fitting import PathSettings, Problem, Splits, fit_path, fit_penalised
from skinnytrees.losses import Loss, TargetScale
from skinnytrees.memory import estimate_memory, estimate_training_memory, refuse_if_too_large
from skinnytrees.model import storage
from skinnytrees.model.feature_path import FeaturePath
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.path.rules import DEFAULT_RULES, PathRules
from skinnytrees.path.scoring import Scorer
from skinnytrees.tables.column_order import column_keys
from skinnytrees.tables.encoding import varying_features
from skinnytrees.tables.frames import (
    Vocabulary,
    as_container,
    find_panel,
    is_float_array,
    is_frame,
    open_table,
    read_columns,
    read_groups,
    read_table,
    take_columns,
    unbatched,
)
from skinnytrees.tables.groups import Groups, find_columns, penalty_factors
from skinnytrees.tables.rows import (
    Rows,
    check_folds,
    check_groups,
    combine_weights,
    fold_rows,
    merge_rows,
    read_weights,
    split_rows,
    stored_alike,
)
from skinnytrees.threads import allowed_threads
from skinnytrees.training.loop import EpochReport
from skinnytrees.training.memory import Memory
from skinnytrees.training.progress import path_progress

Folds = Sequence[tuple[Rows, Rows]]
Fit = TypeVar("Fit", bound=Callable[..., Any])


class SkinnyTrees(Explains, ExportMixin, SelectorMixin, BaseEstimator):
    """Common base of classifier and regressor."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS
    # A subclass may have other rules, which is how benchmarks and tests compare them; cloning keeps a class.
    _rules: ClassVar[PathRules] = DEFAULT_RULES
    _vocabulary: Vocabulary | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    # --- what fit does -----------------------------------------------------------------------------------------------

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, X_val: Any, y_val: Any, sample_weight_val: Any,
        memory: Memory | None = None,
    ) -> None:  # fmt: skip
        refuse_unused(self)
        refuse_unused_evidence(self, X_val is not None)
        given = self._read_rows(X, y, sample_weight, reset=True)
        row_groups = read_groups(groups, len(given.Y))
        if self.cv is not None or (self.validation_fraction is not None and X_val is None):
            given = given._replace(group=row_groups)
        held_out = self._read_validation(given, X_val, y_val, sample_weight_val)
        # A fit depends neither on the order of the rows nor on that of the columns.
        keys = column_keys(merge_rows(given), self.standardize)
        rows = merge_rows(given, np.argsort(keys, kind="stable"))
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        columns = self._column_groups().ordered(keys)
        if isinstance(self.penalty, str):
            self._fit_path(self._split(given, rows, keys, held_out, rng), columns, rng, memory)
        else:
            training, held_out = self._hold_out(rows, rng) if held_out is None else (rows, held_out)
            useful = columns.worth_trying(np.inf, varying_features(training.X))
            problem = self._problem(training, useful, memory)
            settings = penalised_training(self, problem.loss, problem.activation)
            factors, size = penalty_factors(problem.groups, self.feature_costs), penalised_size(self)
            refuse_if_too_large(estimate_training_memory(training.X, size, settings, problem.n_outputs))
            self._adopt(*fit_penalised(problem, training, held_out, settings, *size, factors, rng))
            warn_of_selection(self, problem.groups)

    def _read_validation(self, given: Rows, X_val: Any, y_val: Any, sample_weight_val: Any) -> Rows | None:
        """The user's validation rows, stored as the training rows are."""
        if X_val is None and y_val is None:
            refuse_unless(
                sample_weight_val is None, "sample_weight_val was given without X_val. Give X_val and y_val, too."
            )
            return None
        refuse_unless(X_val is not None and y_val is not None, "Give X_val and y_val both, or neither.")
        rows = self._read_rows(X_val, y_val, sample_weight_val, reset=False)
        return rows._replace(X=stored_alike(rows.X, given.X))

    def _fit_path(self, splits: Splits, groups: Groups, rng: np.random.Generator, memory: Memory | None) -> None:
        budget = groups.total_price(self.feature_budget, self.n_features_in_, self.feature_costs)
        varies = varying_features(splits.training.X)
        useful = groups.worth_trying(budget, varies)
        _warn_if_constant(useful, varies)
        problem = self._problem(splits.training, useful, memory)
        refuse_if_too_large(
            estimate_memory(
                *splits.training.X.shape, n_outputs=problem.n_outputs, n_stored=getattr(splits.training.X, "nnz", None),
                n_threads=problem.n_threads, rules=self._rules, **final_recipe(self),
            )
        )  # fmt: skip
        with path_progress(self.verbose) as show:
            settings = PathSettings(
                budget=budget,
                size_rule=self.size_rule,
                refit=self.refit,
                rules=self._rules,
                final_recipe=final_recipe(self),
                scorer=self._scorer(problem),
                callbacks=tuple(self.callbacks or ()),
                show=show,
            )
            fitted = fit_path(problem, splits, settings, rng)
        self.path_ = self._labelled(fitted.path)
        self._adopt(fitted.model, fitted.reports)

    def _labelled(self, path: FeaturePath) -> FeaturePath:
        """The path with the names of the columns and the budget, for tables and pictures."""
        budget = self._column_groups().total_price(self.feature_budget, self.n_features_in_, self.feature_costs)
        return replace(path, feature_names=self._names(), budget=float(budget))

    def _scorer(self, problem: Problem) -> Scorer | None:
        """What the user gave as ``scoring``, for raw outputs in the unit of the target."""
        if self.scoring is None:
            return None
        multi_output = getattr(self, "_is_multi_output", False)
        return Scorer(self.scoring, getattr(self, "classes_", None), problem.loss.to_prediction, multi_output)

    def _read_rows(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> Rows:
        X = self._read_table(X, reset)
        Y = self._read_target(y, reset)
        check_consistent_length(X, Y)
        weight = read_weights(sample_weight, X)
        return Rows(X, Y, combine_weights(weight, self._class_weights(Y, weight)))

    def _read_table(self, X: Any, reset: bool) -> Any:
        """All columns as numbers; with ``reset``, the categories of a frame are learned."""
        X = open_table(self, X, None if reset else self._vocabulary, reset=reset)
        if reset:
            self._vocabulary = Vocabulary.learn(X, self._categorical_columns())
        return read_table(self, X, self._vocabulary)

    def _categorical_columns(self) -> set[int]:
        if isinstance(self.categorical_features, str):
            return set()
        columns = find_columns(self.categorical_features, self.n_features_in_, self._names(), "categorical_features")
        return set(columns.tolist())

    def _names(self) -> NDArray[Any] | None:
        return getattr(self, "feature_names_in_", None)

    def _split(
        self, given: Rows, rows: Rows, keys: NDArray[np.uint64], held_out: Rows | None, rng: np.random.Generator
    ) -> Splits:
        """Training and held-out rows: those the user names, else folds if rows are few, else a held-out fraction."""
        rules = self._rules.evidence
        if held_out is not None:
            refuse_unless(
                self.cv is None,
                f"X_val was given, and cv={self.cv!r}. Either of them chooses the size: leave the other out.",
            )
            return Splits(rows, held_out, (), rows.join(held_out) if self.refit else rows)
        if self.cv is not None:
            return Splits(rows, None, self._folds(given, rows, keys, rng), rows)
        if self.validation_fraction == "auto" and len(rows.Y) < rules.folds_below_rows:
            return Splits(rows, None, self._own_folds(rows, rules.n_folds, rng), rows)
        return Splits(*self._hold_out(rows, rng), (), rows)

    def _hold_out(self, rows: Rows, rng: np.random.Generator) -> tuple[Rows, Rows | None]:
        fraction = self.validation_fraction
        if fraction is None or self.cv is not None:
            return rows, None
        fraction = self._rules.evidence.held_out_fraction if fraction == "auto" else fraction
        kept, held_out = split_rows(len(rows.Y), fraction, rng, self._strata(rows.Y), rows.group)
        return rows.take(kept), rows.take(held_out) if len(held_out) else None

    def _folds(self, given: Rows, rows: Rows, keys: NDArray[np.uint64], rng: np.random.Generator) -> Folds:
        """The user's folds."""
        if isinstance(self.cv, Integral):
            check_groups(rows.group, int(self.cv))
            refuse_unless(
                int(self.cv) <= len(rows.Y),
                f"cv={self.cv} asks for more folds than there are rows ({len(rows.Y)}). Use a number up to {len(rows.Y)}.",
            )
            return self._own_folds(rows, int(self.cv), rng)
        if isinstance(self.cv, list | tuple):
            refuse_unless(
                all(isinstance(fold, list | tuple) and len(fold) == 2 for fold in self.cv),
                "cv is a list whose elements are not all pairs. Give (rows to train on, rows to hold out) for every fold, or a "
                "number of folds, such as 5.",
            )
        # Folds that are given as row numbers refer to the rows in the user's order.
        splitter = check_cv(self.cv, given.Y[:, 0], classifier=is_classifier(self))
        targets_and_groups = (given.Y[:, 0],) if given.group is None else (given.Y[:, 0], given.group)
        folds = splitter.split(np.zeros((len(given.Y), 1)), *targets_and_groups)
        pairs, order = check_folds(folds, given.weight, given.group), np.argsort(keys, kind="stable")
        return [(merge_rows(given.take(kept), order), merge_rows(given.take(held), order)) for kept, held in pairs]

    def _own_folds(self, rows: Rows, n_folds: int, rng: np.random.Generator) -> Folds:
        """Folds that spread every class as evenly as they can; none where there is nothing to hold out."""
        pairs = fold_rows(len(rows.Y), n_folds, rng, self._strata(rows.Y), rows.group)
        return [(rows.take(kept), rows.take(held)) for kept, held in pairs]

    def _column_groups(self) -> Groups:
        return Groups.read(
            self.feature_groups, self.feature_costs, self.always_select, self.n_features_in_, self._names()
        )

    def _problem(self, training: Rows, groups: Groups, memory: Memory | None) -> Problem:
        loss = self._loss()
        target = self._target_scale(training, loss)
        words = set() if self._vocabulary is None else set(self._vocabulary.words)
        return Problem(
            loss=loss.for_targets((training.Y - target.shift) / target.scale),
            activation=chosen_activation(self),
            n_outputs=self._n_outputs(training),
            groups=groups,
            is_categorical=np.isin(np.arange(self.n_features_in_), sorted(words | self._categorical_columns())),
            standardize=self.standardize,
            target=target,
            n_threads=allowed_threads(self.n_jobs),
            memory=memory,
        )

    def _adopt(self, model: SoftTrees, reports: list[EpochReport]) -> None:
        self._adopt_model(model)
        self.history_ = {
            name: np.array(column) for name, column in zip(EpochReport._fields, zip(*reports, strict=True), strict=True)
        }

    def _adopt_model(self, model: SoftTrees) -> None:
        self.model_ = model
        self.support_ = np.zeros(self.n_features_in_, dtype=bool)
        self.support_[model.encoder.feature] = True
        self.n_features_selected_ = int(self.support_.sum())
        importance = np.bincount(model.encoder.feature, model.column_importances(), self.n_features_in_)
        self.feature_importances_ = importance / max(importance.sum(), np.finfo(float).tiny)

    # --- what differs between classifier and regressor ----------------------------------------------------------------

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _read_target(self, y: Any, reset: bool) -> NDArray[np.float64]:
        raise NotImplementedError

    def _class_weights(self, Y: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.ones(len(Y))

    def _strata(self, Y: NDArray[np.float64]) -> NDArray[Any] | None:
        return None

    def _n_outputs(self, rows: Rows) -> int:
        raise NotImplementedError

    def _target_scale(self, rows: Rows, loss: Loss) -> TargetScale:
        raise NotImplementedError

    # --- after fit --------------------------------------------------------------------------------------------------

    def at(self, n_features: int | None = None, *, cost: float | None = None) -> Self:
        """The fitted estimator at another size of the path, without training.

        Parameters
        ----------
        n_features : int or None
            At most this many features: the largest size of the path that fits is taken.
        cost : float or None
            Instead of a number of features: at most this total cost.

        Returns
        -------
        estimator
            A fitted copy for this size alone: its ``feature_budget`` is what was asked for, and it has no path. At
            the chosen size its model is the final one, elsewhere the one that the path had at this size, trained on the
            training rows.
        """
        check_is_fitted(self)
        if not hasattr(self, "path_"):
            raise AttributeError(
                f"at() needs a path, but this estimator has none (penalty={self.penalty!r}). Fit with penalty='path', and call "
                "at() before compact() or another at(), which keep one size only."
            )
        refuse_unless(
            (n_features is None) != (cost is None),
            f"at() got n_features={n_features!r} and cost={cost!r}. Give one of them.",
        )
        entry = self.path_.find(n_features, cost)
        smaller = copy.copy(self)
        del smaller.path_
        if self.feature_costs is None and n_features is not None:
            smaller.feature_budget = min(n_features, self.n_features_in_)
        else:  # a whole number where features or groups are counted, because 1.0 would mean all of them
            counts = self.feature_costs is None or isinstance(self.feature_costs, str)
            smaller.feature_budget = (int if counts else float)(self.path_.cost[entry])
        smaller._adopt_model(self.path_.final_model if entry == self.path_.chosen_index else self.path_.models[entry])
        return smaller

    def transform(self, X: Any) -> Any:
        """The selected columns; a frame gives a frame of the same kind with the same types, unless ``set_output`` changes that.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            Rows with the columns of the fit.

        Returns
        -------
        table of shape (n_samples, n_features_selected_)
        """
        check_is_fitted(self)
        X = unbatched(X)
        if not is_frame(X) or not self.support_.any():
            return super().transform(X)
        X = open_table(self, X, self._vocabulary, reset=False)
        container = _get_output_config("transform", self)["dense"]
        return as_container(take_columns(X, np.flatnonzero(self.support_)), container)

    def compact(self) -> Self:
        """The fitted estimator for tables that have only the selected columns.

        Returns
        -------
        estimator
            A fitted copy whose inputs are the selected columns, in their order; ``n_features_in_`` is their number. It predicts
            the same, has no path, and its file is as small as its weights.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from skinnytrees import SkinnyTreesClassifier
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> model = SkinnyTreesClassifier(feature_budget=3, max_epochs=2, random_state=0).fit(X, y)
        >>> panel = model.compact()
        >>> panel.n_features_in_, bool((panel.predict(X[panel.feature_names_in_]) == model.predict(X)).all())
        (3, True)
        """
        check_is_fitted(self)
        kept = self.model_.features
        small = copy.copy(self)
        small.__dict__.pop("path_", None)
        for name in ("feature_budget", "feature_costs", "feature_groups", "always_select"):
            setattr(small, name, None)  # they refer to the columns of the fit
        if not isinstance(self.categorical_features, str):
            small.categorical_features = np.flatnonzero(np.isin(kept, sorted(self._categorical_columns()))).tolist()
        names = self._names()
        if names is not None:
            small.feature_names_in_ = names[kept]
        small._vocabulary = None if self._vocabulary is None else self._vocabulary.select(kept)
        small.n_features_in_ = len(kept)
        small._adopt_model(self.model_.narrowed)
        return small

    def save(self, file: storage.File, path: bool = True) -> None:
        """Write the fitted estimator to a file that ``skinnytrees.load`` reads; there is no pickle inside.

        Parameters
        ----------
        file : str, path or binary file
            Where to; a file that is there already is replaced once the new one is whole.
        path : bool, default=True
            Whether to keep the path. Without it the file is smaller by the models of all other sizes, and ``at()`` and
            ``path_`` are gone.

        Notes
        -----
        Everything is kept except ``callbacks``, a callable given as ``scoring`` and a random generator given as ``random_state``:
        they are None after loading. An object that is not of this library, such as a loss of your own, is refused.
        """
        check_is_fitted(self)
        storage.write(file, to_saved(self, path))

    def _raw(self, X: Any) -> NDArray[np.float64]:
        """The ensemble's outputs; of X, which may also hold the selected columns alone, only these are read."""
        check_is_fitted(self, "model_")
        panel = None if self._is_ready(X) else find_panel(X, self._names(), self.model_.features, self.n_features_in_)
        if panel is not None:
            vocabulary = None if self._vocabulary is None else self._vocabulary.select(self.model_.features)
            return self.model_.narrowed.raw(read_table(self, panel, vocabulary))
        if not self._is_ready(X):
            X = open_table(self, X, self._vocabulary, reset=False)
        if is_float_array(X):
            return self.model_.raw(X)
        return self.model_.narrowed.raw(read_columns(self, X, self._vocabulary, self.model_.features))

    def _is_ready(self, X: Any) -> bool:
        """Whether scikit-learn's checks, which take longer than predicting a row, would find nothing."""
        as_wide = is_float_array(X) and X.shape[1] == self.n_features_in_
        return as_wide and self._vocabulary is None and self._names() is None

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_


def _warn_if_constant(groups: Groups, varies: NDArray[np.bool_]) -> None:
    """Warn if no column that may be used has more than one value."""
    if not varies[groups.features].any():
        warnings.warn(
            "No column that fits the budget has more than one value, so that the model is a constant. Check X, or allow more "
            "columns (feature_budget).",
            NothingLearnedWarning,
            stacklevel=6,
        )


def checked(fit: Fit) -> Fit:
    """scikit-learn's check of the parameters before ``fit``, without losing what type checkers know of it."""
    return cast(Fit, _fit_context(prefer_skip_nested_validation=True)(fit))
