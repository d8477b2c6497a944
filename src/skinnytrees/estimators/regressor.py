"""The regressor: one or more numbers per row, in the unit of the target."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import _check_y

from skinnytrees.activations import Activation
from skinnytrees.estimators.all_or_nothing import become, unfitted
from skinnytrees.estimators.base import SkinnyTrees, checked
from skinnytrees.estimators.checkpoints import fit_memory
from skinnytrees.exceptions import refuse_unless
from skinnytrees.losses import Loss, TargetScale, as_columns, regression_loss
from skinnytrees.optimizers import Optimizer, RateSchedule
from skinnytrees.penalties import Penalty
from skinnytrees.tables.rows import Rows
from skinnytrees.tables.scaling import Scaling
from skinnytrees.tables.targets import check_target_size, open_target, warn_of_survival_pairs
from skinnytrees.training.loop import Callback


class SkinnyTreesRegressor(RegressorMixin, SkinnyTrees):
    """Soft tree ensemble that learns which few features it needs, for one or more numbers.

    Parameters
    ----------
    feature_budget : int, float or None, default=None
        At most this many features, or this fraction of them; with ``feature_costs="groups"``, of groups; with other
        ``feature_costs``, at most this total cost.
    loss : {"squared_error", "huber", "quantile", "poisson"} or object, default="squared_error"
        What training minimises: a name, an object of ``skinnytrees.losses`` such as ``Quantile(level=0.9)``, or any object
        with ``value(y, raw)`` (one number per row) and ``gradient(y, raw)``.
    size_rule, scoring, n_estimators, max_depth, learning_rate, max_epochs, batch_size, l2, activation, penalty, \
optimizer, schedule, feature_costs, feature_groups, always_select, categorical_features, \
validation_fraction, cv, refit, callbacks, random_state, n_jobs, verbose
        As in :class:`SkinnyTreesClassifier`.
    standardize : bool, default=True
        Scale columns, and the target where the loss allows it, to mean 0 and standard deviation 1, and clip columns at five
        standard deviations; False leaves them as they are.

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
        **SkinnyTrees._parameter_constraints,
        "loss": [str, HasMethods(["value", "gradient"])],
    }

    def __init__(
        self,
        feature_budget: float | None = None,
        *,
        loss: Literal["squared_error", "huber", "quantile", "poisson"] | Any = "squared_error",
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
        y : array of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
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
        y = _read_numbers(self, open_target(self, y))
        Y = as_columns(y)
        if reset:
            self._is_multi_output, self._n_targets = y.ndim == 2, Y.shape[1]
            warn_of_survival_pairs(Y)
        refuse_unless(
            Y.shape[1] == self._n_targets,
            f"y_val has {Y.shape[1]} targets per row, but y has {self._n_targets}. Give both the same targets.",
        )
        self._loss().check_target(Y)
        return Y

    def _n_outputs(self, rows: Rows) -> int:
        return rows.Y.shape[1]

    def _target_scale(self, rows: Rows, loss: Loss) -> TargetScale:
        moments = Scaling.learn(rows.Y, rows.weight)
        scale = (
            loss.target_scale(moments.mean, moments.scale) if self.standardize else TargetScale.none(rows.Y.shape[1])
        )
        factor = scale.raw_scale / scale.scale  # from the target's unit to that of raw outputs
        check_target_size(rows.Y * factor, moments.scale * factor)
        return scale


def _read_numbers(estimator: Any, y: Any) -> NDArray[np.float64]:
    refuse_unless(
        getattr(getattr(y, "dtype", None), "kind", "") not in ("M", "m"),
        "y holds times, whose unit predictions would not show. Pass numbers, such as days after a first day: "
        "(y - first) / np.timedelta64(1, 'D').",
    )
    try:
        return np.asarray(_check_y(y, multi_output=True, y_numeric=True, estimator=estimator)).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ValueError) and "could not convert" not in str(error):
            raise
        raise ValueError(
            f"y holds something that is no number ({error}). Pass one number per row, or use SkinnyTreesClassifier for classes."
        ) from error
