"""scikit-learn estimators: validate, encode, train, set attributes. The work is done elsewhere."""

import copy
from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context, is_classifier
from sklearn.feature_selection import SelectorMixin
from sklearn.model_selection import check_cv
from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted

from skinnytrees import storage
from skinnytrees.columns import Groups, find_columns
from skinnytrees.encoding import Scaling, varying_features
from skinnytrees.exceptions import refuse_unless
from skinnytrees.fitting import PathSettings, Problem, Splits, fit_path, fit_penalised
from skinnytrees.losses import Loss, Multinomial, TargetScale, as_columns, regression_loss
from skinnytrees.model import SoftTrees
from skinnytrees.parameters import (
    CONSTRAINTS,
    chosen_activation,
    final_recipe,
    penalised_size,
    penalised_training,
)
from skinnytrees.path.comparison import Scorer
from skinnytrees.path.rules import DEFAULT_RULES, PathRules
from skinnytrees.progress import path_progress
from skinnytrees.rows import Rows, check_folds, check_groups, fold_rows, merge_rows, split_rows
from skinnytrees.tables import Vocabulary, is_float_array, open_table, read_columns, read_groups, read_table
from skinnytrees.threads import allowed_threads
from skinnytrees.training import EpochReport

Folds = Sequence[tuple[Rows, Rows]]


class _SkinnyTrees(SelectorMixin, BaseEstimator):
    """What classifier and regressor share."""

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
        self, X: Any, y: Any, sample_weight: Any, groups: Any, X_val: Any, y_val: Any, sample_weight_val: Any
    ) -> None:
        given = self._read_rows(X, y, sample_weight, reset=True)
        row_groups = read_groups(groups, len(given.Y))
        if self.cv is not None or (self.validation_fraction is not None and X_val is None):
            given = given._replace(group=row_groups)
        rows = merge_rows(given)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        held_out = None
        if X_val is None and y_val is None:
            refuse_unless(
                sample_weight_val is None, "sample_weight_val was given without X_val. Give X_val and y_val, too."
            )
        else:
            refuse_unless(X_val is not None and y_val is not None, "Give X_val and y_val both, or neither.")
            held_out = self._read_rows(X_val, y_val, sample_weight_val, reset=False)
        self.__dict__.pop("path_", None)  # of an earlier fit
        if isinstance(self.penalty, str):
            self._fit_path(self._split(given, rows, held_out, rng), rng)
        else:
            training, held_out = self._hold_out(rows, rng) if held_out is None else (rows, held_out)
            problem = self._problem(training, self._column_groups())
            settings = penalised_training(self, problem.loss, problem.activation)
            self._adopt(*fit_penalised(problem, training, held_out, settings, *penalised_size(self), rng))

    def _fit_path(self, splits: Splits, rng: np.random.Generator) -> None:
        groups = self._column_groups()
        budget = groups.total_price(self.feature_budget, self.n_features_in_, self.feature_costs)
        useful = groups.worth_trying(budget, varying_features(splits.training.X))
        problem = self._problem(splits.training, useful)
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
        self.path_ = fitted.path
        self._adopt(fitted.model, fitted.reports)

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
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        refuse_unless(bool(weight.sum() > 0), "sample_weight is zero for every row. Give some rows a positive weight.")
        return Rows(X, Y, weight * self._class_weights(Y, weight))

    def _read_table(self, X: Any, reset: bool) -> Any:
        """All columns as numbers; a frame's words are learned with ``reset``."""
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

    def _split(self, given: Rows, rows: Rows, held_out: Rows | None, rng: np.random.Generator) -> Splits:
        """Which rows train and which judge: those the user names, else folds where rows are few, else a held-out fraction."""
        rules = self._rules.evidence
        if held_out is not None:
            refuse_unless(
                self.cv is None,
                f"X_val was given, and cv={self.cv!r}. Either of them chooses the size: leave the other out.",
            )
            return Splits(rows, held_out, (), rows.join(held_out) if self.refit else rows)
        if self.cv is not None:
            return Splits(rows, None, self._folds(given, rows, rng), rows)
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

    def _folds(self, given: Rows, rows: Rows, rng: np.random.Generator) -> Folds:
        """The user's folds."""
        if isinstance(self.cv, Integral):
            check_groups(rows.group, int(self.cv))
            refuse_unless(
                int(self.cv) <= len(rows.Y),
                f"cv={self.cv} asks for more folds than there are rows ({len(rows.Y)}). Use a number up to {len(rows.Y)}.",
            )
            return self._own_folds(rows, int(self.cv), rng)
        # Folds that are given as row numbers speak of the rows as they were given.
        splitter = check_cv(self.cv, given.Y[:, 0], classifier=is_classifier(self))
        targets_and_groups = (given.Y[:, 0],) if given.group is None else (given.Y[:, 0], given.group)
        pairs = check_folds(splitter.split(np.zeros((len(given.Y), 1)), *targets_and_groups), given.group)
        return [(merge_rows(given.take(kept)), merge_rows(given.take(held))) for kept, held in pairs]

    def _own_folds(self, rows: Rows, n_folds: int, rng: np.random.Generator) -> Folds:
        """Folds that spread every class as evenly as they can; none where there is nothing to hold out."""
        pairs = fold_rows(len(rows.Y), n_folds, rng, self._strata(rows.Y), rows.group)
        return [(rows.take(kept), rows.take(held)) for kept, held in pairs]

    def _column_groups(self) -> Groups:
        return Groups.read(
            self.feature_groups, self.feature_costs, self.always_select, self.n_features_in_, self._names()
        )

    def _problem(self, training: Rows, groups: Groups) -> Problem:
        loss = self._loss()
        words = set() if self._vocabulary is None else set(self._vocabulary.words)
        return Problem(
            loss=loss,
            activation=chosen_activation(self),
            n_outputs=self._n_outputs(training),
            groups=groups,
            is_categorical=np.isin(np.arange(self.n_features_in_), sorted(words | self._categorical_columns())),
            standardize=self.standardize,
            target=self._target_scale(training, loss),
            n_threads=allowed_threads(self.n_jobs),
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

    def at(self, n_features: int) -> Any:
        """The fitted estimator at another size of the path, without training.

        Parameters
        ----------
        n_features : int
            At most this many features: the largest size of the path that fits is taken.

        Returns
        -------
        estimator
            A fitted copy. At the chosen size its model is the final one, elsewhere the one that the path had at this size,
            trained on the training rows.
        """
        check_is_fitted(self)
        if not hasattr(self, "path_"):
            raise AttributeError(
                f"at() needs a path, but penalty={self.penalty!r} leaves none. Fit with penalty='path'."
            )
        smaller = copy.copy(self)
        entry = self.path_.find(n_features)
        smaller._adopt_model(self.path_.final if entry == self.path_.chosen else self.path_.models[entry])
        return smaller

    def save(self, file: storage.File) -> None:
        """Write the fitted estimator to a file that ``skinnytrees.load`` reads; there is no pickle inside.

        Parameters
        ----------
        file : str, path or binary file
            Where to; a file that is there already is replaced once the new one is whole.

        Notes
        -----
        Everything is kept, the path included, but for ``callbacks``, a callable given as ``scoring`` and a random generator
        given as ``random_state``: they come back as None. An object that is not of this library, such as a loss of your own,
        is refused.
        """
        check_is_fitted(self)
        state = {name: value for name, value in vars(self).items() if name != "callbacks"}
        if callable(self.scoring):
            state["scoring"] = None
        if not isinstance(self.random_state, Integral | None):
            state["random_state"] = None
        storage.write(file, type(self).__name__, state)

    def _raw(self, X: Any) -> NDArray[np.float64]:
        """The ensemble's outputs; of X, only the selected columns are read."""
        check_is_fitted(self, "model_")
        if not self._is_ready(X):
            X = open_table(self, X, self._vocabulary, reset=False)
        if is_float_array(X):
            return self.model_.raw(X)
        return self.model_.narrowed.raw(read_columns(self, X, self._vocabulary, self.model_.features))

    def _is_ready(self, X: Any) -> bool:
        """Whether scikit-learn's checks, which take longer than predicting a row, would have nothing to say."""
        as_wide = is_float_array(X) and X.shape[1] == self.n_features_in_
        return as_wide and self._vocabulary is None and self._names() is None

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_


class SkinnyTreesClassifier(ClassifierMixin, _SkinnyTrees):
    """Soft tree ensemble that learns which few features it needs, for two or more classes.

    Parameters
    ----------
    feature_budget : int, float or None, default=None
        At most this many features (int) or this fraction of them (float up to 1); with ``feature_costs="groups"``, so many
        groups; with other ``feature_costs``, at most this total cost. Always met. None allows all features.
    size_rule : {"best", "one_se", "full"}, default="best"
        Which size within the budget to take: the largest that is as good as the best, up to the noise of the held-out
        rows (where that is in doubt, the one that ranks them better); the smallest within one standard error of the best;
        or the largest.
    scoring : str, callable or None, default=None
        A scikit-learn scorer name or callable by which sizes, branches and final ensembles are compared on held-out rows;
        None compares by the loss.
    n_estimators : int or "auto", default="auto"
        Number of trees; with the path, of each of the ensembles whose mean is the final one. "auto" adapts to the size of
        the data.
    max_depth : int or "auto", default="auto"
        Depth of every tree; each tree is full. With the path, of the final ensemble.
    learning_rate : float or "auto", default="auto"
        Step size; with the path, of the final ensemble's training.
    max_epochs : int or "auto", default="auto"
        Passes over the training rows; with a penalty object, exactly this many; with the path, for the final ensemble.
    batch_size : int or "auto", default="auto"
        Rows a step; as many as there are rows, or more, trains on the full batch.
    l2 : float or "auto", default="auto"
        Ridge: ``l2 / (n_estimators * n_splits)`` times the squared norm of the hyperplanes, as in the paper.
    activation : {"sigmoid", "smoothstep"}, Sigmoid or SmoothStep, default="sigmoid"
        Routing function; an object carries its own ``theta``.
    penalty : GroupL0, GroupLasso, "path" or None, default="path"
        What makes the ensemble sparse; None is a dense ensemble.
    optimizer : {"sgd", "adam"}, SGD or Adam, default="sgd"
        With a penalty object: the paper's plain steps, or Adam (for ``penalty=None`` only).
    schedule : {"constant", "one_cycle"}, Constant or OneCycle, default="constant"
        Course of the learning rate, with a penalty object or None.
    feature_costs : array, mapping, Series or "groups", default=None
        Cost of each feature; 0 is free, infinity means never. Columns that a mapping leaves out cost 1. Where
        ``feature_groups`` is a mapping, too, the name of a group stands for its total cost. With "groups" every group costs 1,
        however many features it has. A feature that costs little or nothing must contribute to be selected, like any other.
    feature_groups : list of lists, mapping or one label per column, default=None
        Features that enter and leave together; a feature in no group is its own.
    always_select : list of names or numbers, default=None
        Features that are never left out.
    categorical_features : "from_dtype", list of names or numbers, or mask, default="from_dtype"
        Columns whose values are categories; by default a frame's text and categorical columns are.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, as in scikit-learn.
    standardize : bool, default=True
        Bring columns to mean 0 and deviation 1, and cut what lies farther out than five deviations; with the path, also read
        their ranks where the table is not wide. False leaves them as they are.
    validation_fraction : float, "auto" or None, default="auto"
        Fraction of the rows that is held out to choose the size (with a penalty object: to watch training). "auto" holds out a
        fifth; with the path and fewer than 400 rows, it holds out every row once, by five folds, so that all rows train the final
        model. None trains on all rows and takes the largest size.
    cv : int, splitter or None, default=None
        Folds to choose the size by, instead of one held-out fraction. With ``groups`` in ``fit``, a number means folds of whole
        groups, and a splitter must keep groups together.
    refit : bool, default=True
        Train the final ensemble on all rows.
    callbacks : list of callables or None, default=None
        Each is called with an ``EpochReport`` after every epoch and stops training by returning True.
    random_state : int, RandomState or None, default=None
        Seed of the start, the shuffles and the held-out rows.
    n_jobs : int or None, default=None
        Upper limit of threads; None or -1 allows all cores. The result does not depend on it.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    classes_ : array
        Class labels.
    support_ : array of bool of shape (n_features_in_,)
        Which features the model reads.
    n_features_selected_ : int
        How many they are.
    feature_importances_ : array of shape (n_features_in_,)
        A feature's weights in all splits, each times what the split changes in the outputs, as a fraction of the sum over
        features.
    history_ : dict of arrays
        ``epoch``, ``loss``, ``lambda0``, ``n_features`` and ``val_loss`` of every epoch (with the path, of every size).
    path_ : FeaturePath
        The accuracy-against-size curve, with ``penalty="path"``.
    model_ : SoftTrees
        The fitted ensemble on the selected features.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from skinnytrees import SkinnyTreesClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SkinnyTreesClassifier(feature_budget=5, random_state=0).fit(X, y)
    >>> model.n_features_selected_ <= 5
    True
    >>> model.transform(X).shape[1] == model.n_features_selected_
    True
    >>> model.at(2).n_features_selected_
    2
    """

    classes_: NDArray[Any]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_SkinnyTrees._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(  # type: ignore[no-untyped-def]
        self, feature_budget=None, *, size_rule="best", scoring=None, n_estimators="auto", max_depth="auto",
        learning_rate="auto", max_epochs="auto", batch_size="auto", l2="auto", activation="sigmoid", penalty="path",
        optimizer="sgd", schedule="constant", feature_costs=None, feature_groups=None, always_select=None,
        categorical_features="from_dtype", class_weight=None, standardize=True, validation_fraction="auto", cv=None, refit=True,
        callbacks=None, random_state=None, n_jobs=None, verbose=0,
    ):  # fmt: skip
        self.feature_budget = feature_budget
        self.size_rule = size_rule
        self.scoring = scoring
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.l2 = l2
        self.activation = activation
        self.penalty = penalty
        self.optimizer = optimizer
        self.schedule = schedule
        self.feature_costs = feature_costs
        self.feature_groups = feature_groups
        self.always_select = always_select
        self.categorical_features = categorical_features
        self.class_weight = class_weight
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.cv = cv
        self.refit = refit
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(  # type: ignore[no-untyped-def]
        self, X, y, sample_weight=None, *, groups=None, X_val=None, y_val=None, sample_weight_val=None
    ):
        """Learn the features and the ensemble together.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Training table.
        y : array of shape (n_samples,)
            Class labels.
        sample_weight : array of shape (n_samples,) or None
            Weight of each row; an integer weight is the same as repeating the row.
        groups : array of shape (n_samples,) or None
            One label per row, a number or text, that says where the row comes from (a patient, a mouse). Rows with the
            same label are never on both sides of a split: they are held out together, or kept together, and ``cv``
            splits groups. Nothing changes where no rows are split: with ``validation_fraction=None`` or ``X_val``
            (and ``cv=None``).
        X_val, y_val, sample_weight_val : arrays or None
            Rows to validate on, instead of rows held out of the training table.

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight, groups, X_val, y_val, sample_weight_val)
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Raw scores: for two classes the log-odds of the second one, else one column a class.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
        """
        raw = self._raw(X)
        return raw[:, 1] - raw[:, 0] if raw.shape[1] == 2 else raw

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
        return self._loss().to_prediction(self._raw(X))

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
        codes = self._raw(X).argmax(axis=1)
        return self.classes_[codes]

    def _loss(self) -> Loss:
        return Multinomial()

    def _read_target(self, y: Any, reset: bool) -> NDArray[np.float64]:
        _refuse_missing_target(self, y)
        y = column_or_1d(y, warn=True)
        if not reset:
            unknown = np.setdiff1d(y, self.classes_)
            refuse_unless(
                len(unknown) == 0,
                f"y_val has classes that y has not: {unknown.tolist()}. Use classes of {self.classes_.tolist()}.",
            )
            return np.searchsorted(self.classes_, y).astype(np.float64).reshape(-1, 1)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        refuse_unless(
            len(self.classes_) > 1,
            f"y has only one class ({self.classes_[0]!r}); a classifier needs at least 2 classes. Check how y was made.",
        )
        return codes.astype(np.float64).reshape(-1, 1)

    def _class_weights(self, Y: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        codes = Y[:, 0].astype(int)
        if self.class_weight == "balanced":
            total = np.bincount(codes, weight, len(self.classes_))
            return (weight.sum() / (len(total) * np.maximum(total, np.finfo(float).tiny)))[codes]
        return compute_sample_weight(self.class_weight, self.classes_[codes])

    def _strata(self, Y: NDArray[np.float64]) -> NDArray[Any] | None:
        return Y[:, 0]

    def _n_outputs(self, rows: Rows) -> int:
        return len(self.classes_)

    def _target_scale(self, rows: Rows, loss: Loss) -> TargetScale:
        return TargetScale.none(len(self.classes_))


class SkinnyTreesRegressor(RegressorMixin, _SkinnyTrees):
    """Soft tree ensemble that learns which few features it needs, for one or more numbers.

    Parameters
    ----------
    feature_budget : int, float or None, default=None
        At most this many features, or this fraction of them; with ``feature_costs="groups"``, of groups; with other
        ``feature_costs``, at most this total cost.
    loss : {"squared_error", "huber", "quantile", "poisson"} or object, default="squared_error"
        What training minimises: a name, an object of ``skinnytrees.losses`` such as ``Quantile(level=0.9)``, or any object
        with ``value(y, raw)`` (one number a row) and ``gradient(y, raw)``.
    size_rule, scoring, n_estimators, max_depth, learning_rate, max_epochs, batch_size, l2, activation, penalty, \
optimizer, schedule, feature_costs, feature_groups, always_select, categorical_features, \
validation_fraction, cv, refit, callbacks, random_state, n_jobs, verbose
        As in :class:`SkinnyTreesClassifier`.
    standardize : bool, default=True
        Bring columns, and the target where the loss allows it, to mean 0 and deviation 1, and cut what in a column lies
        farther out than five deviations; False leaves them as they are.

    Attributes
    ----------
    support_, n_features_selected_, feature_importances_, history_, path_, model_
        As in :class:`SkinnyTreesClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from skinnytrees import SkinnyTreesRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SkinnyTreesRegressor(penalty=None, max_epochs=20, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.4
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_SkinnyTrees._parameter_constraints,
        "loss": [str, HasMethods(["value", "gradient"])],
    }

    def __init__(  # type: ignore[no-untyped-def]
        self, feature_budget=None, *, loss="squared_error", size_rule="best", scoring=None, n_estimators="auto",
        max_depth="auto", learning_rate="auto", max_epochs="auto", batch_size="auto", l2="auto", activation="sigmoid",
        penalty="path", optimizer="sgd", schedule="constant", feature_costs=None, feature_groups=None, always_select=None,
        categorical_features="from_dtype", standardize=True, validation_fraction="auto", cv=None, refit=True, callbacks=None,
        random_state=None, n_jobs=None, verbose=0,
    ):  # fmt: skip
        self.feature_budget = feature_budget
        self.loss = loss
        self.size_rule = size_rule
        self.scoring = scoring
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.l2 = l2
        self.activation = activation
        self.penalty = penalty
        self.optimizer = optimizer
        self.schedule = schedule
        self.feature_costs = feature_costs
        self.feature_groups = feature_groups
        self.always_select = always_select
        self.categorical_features = categorical_features
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.cv = cv
        self.refit = refit
        self.callbacks = callbacks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(  # type: ignore[no-untyped-def]
        self, X, y, sample_weight=None, *, groups=None, X_val=None, y_val=None, sample_weight_val=None
    ):
        """Learn the features and the ensemble together.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Training table.
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array of shape (n_samples,) or None
            Weight of each row; an integer weight is the same as repeating the row.
        groups : array of shape (n_samples,) or None
            One label per row, a number or text, that says where the row comes from (a patient, a mouse). Rows with the
            same label are never on both sides of a split: they are held out together, or kept together, and ``cv``
            splits groups. Nothing changes where no rows are split: with ``validation_fraction=None`` or ``X_val``
            (and ``cv=None``).
        X_val, y_val, sample_weight_val : arrays or None
            Rows to validate on, instead of rows held out of the training table.

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight, groups, X_val, y_val, sample_weight_val)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted targets.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Rows to predict.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_outputs)
        """
        prediction = self._loss().to_prediction(self._raw(X))
        return prediction if self._is_multi_output else prediction[:, 0]

    def _loss(self) -> Loss:
        return regression_loss(self.loss)

    def _read_target(self, y: Any, reset: bool) -> NDArray[np.float64]:
        _refuse_missing_target(self, y)
        y = _check_y(y, multi_output=True, y_numeric=True, estimator=self)
        Y = as_columns(y.astype(np.float64))
        if reset:
            self._is_multi_output, self._n_targets = y.ndim == 2, Y.shape[1]
        refuse_unless(
            Y.shape[1] == self._n_targets,
            f"y_val has {Y.shape[1]} targets a row, but y has {self._n_targets}. Give both the same targets.",
        )
        self._loss().check_target(Y)
        return Y

    def _n_outputs(self, rows: Rows) -> int:
        return rows.Y.shape[1]

    def _target_scale(self, rows: Rows, loss: Loss) -> TargetScale:
        if not self.standardize:
            return TargetScale.none(rows.Y.shape[1])
        moments = Scaling.learn(rows.Y, rows.weight)
        return loss.target_scale(moments.mean, moments.scale)


def _refuse_missing_target(estimator: Any, y: Any) -> None:
    refuse_unless(
        y is not None,
        f"{type(estimator).__name__} requires y to be passed, but the target y is None. Pass the targets as y.",
    )


_KINDS = {kind.__name__: kind for kind in (SkinnyTreesClassifier, SkinnyTreesRegressor)}


def load(file: storage.File) -> SkinnyTreesClassifier | SkinnyTreesRegressor:
    """Read an estimator that ``save`` has written.

    Parameters
    ----------
    file : str, path or binary file
        Where it is.

    Returns
    -------
    SkinnyTreesClassifier or SkinnyTreesRegressor
        Fitted, with all its sizes.

    Examples
    --------
    >>> from io import BytesIO
    >>> from sklearn.datasets import load_wine
    >>> from skinnytrees import SkinnyTreesClassifier, load
    >>> X, y = load_wine(return_X_y=True)
    >>> file = BytesIO()  # or a path, such as "wine.skinny"
    >>> SkinnyTreesClassifier(feature_budget=3, max_epochs=2, random_state=0).fit(X, y).save(file)
    >>> _ = file.seek(0)
    >>> load(file).n_features_selected_
    3
    """
    kind, state = storage.read(file)
    refuse_unless(
        kind in _KINDS, f"{file} holds a {kind!r}, which is none of {sorted(_KINDS)}. Upgrade skinnytrees to read it."
    )
    estimator = _KINDS[kind]()
    for name, value in state.items():
        setattr(estimator, name, value)
    return estimator
