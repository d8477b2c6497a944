"""What the estimators' parameters may be, and the settings that they stand for."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from skinnytrees.activations import ACTIVATIONS, Activation
from skinnytrees.exceptions import refuse_unless
from skinnytrees.losses import Loss
from skinnytrees.optimizers import OPTIMIZERS, SCHEDULES, SGD, Adam, FixedSupportSGD
from skinnytrees.penalties import NoPenalty
from skinnytrees.training.loop import TrainingSettings

CONSTRAINTS: dict[str, list[Any]] = {
    "feature_budget": [Interval(Integral, 1, None, closed="left"), Interval(Real, 0, None, closed="neither"), None],
    "size_rule": [StrOptions({"best", "one_se", "full"})],
    "scoring": [str, callable, None],
    "n_estimators": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "max_depth": [Interval(Integral, 1, 12, closed="both"), StrOptions({"auto"})],
    "learning_rate": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    "max_epochs": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
    "l2": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "activation": [StrOptions(set(ACTIVATIONS)), HasMethods("kernel")],
    "penalty": [StrOptions({"path"}), HasMethods("thresholds"), None],
    "optimizer": [StrOptions(set(OPTIMIZERS)), SGD, FixedSupportSGD, Adam],
    "schedule": [StrOptions(set(SCHEDULES)), HasMethods("rates")],
    "feature_costs": ["array-like", Mapping, StrOptions({"groups"}), None],
    "feature_groups": ["array-like", Mapping, None],
    "always_select": ["array-like", None],
    "categorical_features": ["array-like", StrOptions({"from_dtype"})],
    "standardize": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto"}), None],
    "cv": ["cv_object"],
    "refit": ["boolean"],
    "callbacks": [list, tuple, None],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
}

# With a penalty object, "auto" stands for these.
_PENALISED_DEFAULTS: dict[str, Any] = {
    "n_estimators": 50,
    "max_depth": 3,
    "learning_rate": 0.1,
    "max_epochs": 100,
    "batch_size": 64,
    "l2": 0.1,
}
# With the path, they are the rules' own, whose recipes have other names for what is set.
_NAMES_IN_RECIPES = {
    "n_estimators": "n_trees",
    "max_depth": "depth",
    "learning_rate": "learning_rate",
    "max_epochs": "n_epochs",
    "batch_size": "batch_size",
    "l2": "l2",
}


def chosen_activation(estimator: Any) -> Activation:
    """The routing function."""
    return _named(estimator.activation, ACTIVATIONS)


def final_recipe(estimator: Any) -> dict[str, Any]:
    """What the user sets of the recipe of the path's final ensembles."""
    values = {field: getattr(estimator, name) for name, field in _NAMES_IN_RECIPES.items()}
    return {field: value for field, value in values.items() if not isinstance(value, str)}


def penalised_size(estimator: Any) -> tuple[int, int]:
    """Number and depth of the trees, with a penalty object."""
    return _penalised(estimator, "n_estimators"), _penalised(estimator, "max_depth")


def penalised_training(estimator: Any, loss: Loss, activation: Activation) -> TrainingSettings:
    """How to train with a penalty object or None; combinations that cannot work are refused."""
    refuse_unless(
        estimator.feature_budget is None,
        f"feature_budget={estimator.feature_budget!r} needs penalty='path', but penalty={estimator.penalty!r} was given, which "
        "cannot promise a number of features. Use penalty='path', or leave feature_budget out.",
    )
    penalty = NoPenalty() if estimator.penalty is None else estimator.penalty
    optimizer = _named(estimator.optimizer, OPTIMIZERS)
    refuse_unless(
        optimizer.has_prox or isinstance(penalty, NoPenalty),
        f"optimizer={estimator.optimizer!r} has no proximal step, so it cannot work with penalty={estimator.penalty!r}. "
        "Use optimizer='sgd', or penalty=None.",
    )
    return TrainingSettings(
        loss=loss,
        activation=activation,
        n_epochs=_penalised(estimator, "max_epochs"),
        batch_size=_penalised(estimator, "batch_size"),
        learning_rate=_penalised(estimator, "learning_rate"),
        l2=_penalised(estimator, "l2"),
        penalty=penalty,
        optimizer=optimizer,
        schedule=_named(estimator.schedule, SCHEDULES),
        callbacks=tuple(estimator.callbacks or ()),
        verbose=int(estimator.verbose),
    )


def _penalised(estimator: Any, name: str) -> Any:
    value = getattr(estimator, name)
    return _PENALISED_DEFAULTS[name] if isinstance(value, str) else value


def _named(choice: Any, known: dict[str, Any]) -> Any:
    """The object behind a name, or the object itself."""
    return known[choice]() if isinstance(choice, str) else choice
