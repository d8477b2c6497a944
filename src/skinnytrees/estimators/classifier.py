"""The classifier: labels become codes, raw outputs become probabilities."""

import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from skinnytrees.activations import Activation
from skinnytrees.estimators.all_or_nothing import become, unfitted
from skinnytrees.estimators.base import SkinnyTrees, checked
from skinnytrees.estimators.checkpoints import fit_memory
from skinnytrees.exceptions import refuse_unless
from skinnytrees.losses import Loss, Multinomial, TargetScale
from skinnytrees.optimizers import Optimizer, RateSchedule
from skinnytrees.penalties import Penalty
from skinnytrees.tables.rows import Rows
from skinnytrees.tables.targets import open_target
from skinnytrees.training.loop import Callback

_LARGEST_CLASS_WEIGHT = 1e50


class SkinnyTreesClassifier(ClassifierMixin, SkinnyTrees):
    """Soft tree ensemble that learns which few features it needs, for two or more classes.

    Parameters
    ----------
    feature_budget : int, float or None, default=None
        At most this many features (int) or this fraction of them (float up to 1); with ``feature_costs="groups"``, this many
        groups; with other ``feature_costs``, at most this total cost. Always met. None allows all features.
    size_rule : {"best", "one_se", "full"}, default="best"
        Which size within the budget to take: the largest that is as good as the best, up to the noise of the held-out
        rows (where that is in doubt, the one that ranks them better); the smallest within one standard error of the best;
        or the largest.
    scoring : str, callable or None, default=None
        A scikit-learn scorer name or callable by which sizes, branches and final ensembles are compared on held-out rows;
        None compares by the loss.
    n_estimators : int or "auto", default="auto"
        Number of trees of the fitted model; with the path, of all ensembles together whose mean is the final model. "auto" adapts
        to the size of the data.
    max_depth : int or "auto", default="auto"
        Depth of every tree; each tree is full. With the path, of the final ensemble.
    learning_rate : float or "auto", default="auto"
        Step size; with the path, of the final ensemble's training.
    max_epochs : int or "auto", default="auto"
        Passes over the training rows; with a penalty object, exactly this many; with the path, for the final ensemble.
    batch_size : int or "auto", default="auto"
        Rows per step; as many as there are rows, or more, trains on the full batch.
    l2 : float or "auto", default="auto"
        Ridge: ``l2 / (n_estimators * n_splits)`` times the squared norm of the hyperplanes, as in the paper.
    activation : {"sigmoid", "smoothstep"}, Sigmoid or SmoothStep, default="sigmoid"
        Routing function; an object carries its own ``theta``.
    penalty : GroupL0, GroupLasso, "path" or None, default="path"
        What makes the ensemble sparse; None is a dense ensemble.
    optimizer : {"sgd", "adam"}, SGD or Adam, default="sgd"
        With a penalty object: the paper's plain steps, or Adam (for ``penalty=None`` only).
    schedule : {"constant", "one_cycle"}, Constant or OneCycle, default="constant"
        Schedule of the learning rate, with a penalty object or None.
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
        Scale columns to mean 0 and standard deviation 1, and clip values beyond five standard deviations; with the path, also use
        their ranks if the table is not wide. False leaves them as they are.
    validation_fraction : float, "auto" or None, default="auto"
        Fraction of the rows that is held out to choose the size (with a penalty object: to watch training). "auto" holds out a
        fifth; with the path and fewer than 400 rows, it holds out every row once, by five folds, so that all rows train the final
        model. None trains on all rows and takes the largest size.
    cv : int, splitter or None, default=None
        Folds to choose the size by, instead of one held-out fraction. With ``groups`` in ``fit``, a number means folds of whole
        groups, and a splitter must keep groups together.
    refit : bool, default=True
        Train the final ensemble on the held-out rows, too. Where rows are held out by folds, they train it in any case.
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
        **SkinnyTrees._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        feature_budget: float | None = None,
        *,
        size_rule: Literal["best", "one_se", "full"] = "best",
        scoring: str | Callable[..., float] | None = None,
        n_estimators: int | Literal["auto"] = "auto",
        max_depth: int | Literal["auto"] = "auto",
        learning_rate: float | Literal["auto"] = "auto",
        max_epochs: int | Literal["auto"] = "auto",
        batch_size: int | Literal["auto"] = "auto",
        l2: float | Literal["auto"] = "auto",
        activation: Literal["sigmoid", "smoothstep"] | Activation = "sigmoid",
        penalty: Literal["path"] | Penalty | None = "path",
        optimizer: Literal["sgd", "adam"] | Optimizer = "sgd",
        schedule: Literal["constant", "one_cycle"] | RateSchedule = "constant",
        feature_costs: ArrayLike | Mapping[Any, float] | Literal["groups"] | None = None,
        feature_groups: Sequence[Any] | NDArray[Any] | Mapping[Any, Any] | None = None,
        always_select: ArrayLike | None = None,
        categorical_features: ArrayLike | Literal["from_dtype"] = "from_dtype",
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        standardize: bool = True,
        validation_fraction: float | Literal["auto"] | None = "auto",
        cv: Any = None,
        refit: bool = True,
        callbacks: Sequence[Callback] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
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

    @checked
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        groups: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: ArrayLike | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
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
            One label per row, a number or text, for the origin of the row (a patient, a mouse). Rows with the
            same label are never on both sides of a split: they are held out together, or kept together, and ``cv``
            splits groups. Nothing changes where no rows are split: with ``validation_fraction=None`` or ``X_val``
            (and ``cv=None``).
        X_val, y_val, sample_weight_val : arrays or None
            Rows to validate on, instead of rows held out of the training table.
        checkpoint : str, path or None
            A file in which the fit stores its finished parts. After a fit was killed, the same fit with the same file continues
            from there and gives bit-identical results. It requires a number as ``random_state``. The file is not removed;
            delete it once the model is saved.

        Returns
        -------
        self
        """
        fresh = unfitted(self)
        with fit_memory(self, checkpoint) as memory:
            fresh._fit(X, y, sample_weight, groups, X_val, y_val, sample_weight_val, memory)
        return become(self, fresh)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Raw scores: for two classes the log-odds of the second one, else one column per class.

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
        y = column_or_1d(open_target(self, y), warn=True)
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
        if self.class_weight is not None:
            _check_class_weights(self.class_weight)
        return compute_sample_weight(self.class_weight, self.classes_[codes])

    def _strata(self, Y: NDArray[np.float64]) -> NDArray[Any] | None:
        return Y[:, 0]

    def _n_outputs(self, rows: Rows) -> int:
        return len(self.classes_)

    def _target_scale(self, rows: Rows, loss: Loss) -> TargetScale:
        return TargetScale.none(len(self.classes_))


def _check_class_weights(class_weight: Mapping[Any, Any]) -> None:
    wrong = {
        label: weight
        for label, weight in class_weight.items()
        if not isinstance(weight, Real) or not 0 <= float(weight) <= _LARGEST_CLASS_WEIGHT
    }
    refuse_unless(
        not wrong,
        f"class_weight has values that are no weights: {wrong}. Use numbers from 0 to {_LARGEST_CLASS_WEIGHT:.0e}, such as 1.0.",
    )
