"""What the estimators' parameters may be, in which mode each is used, and the settings that they stand for."""

import inspect
import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from skinnytrees.activations import ACTIVATIONS, Activation
from skinnytrees.exceptions import SelectionWarning, refuse_unless
from skinnytrees.losses import Loss
from skinnytrees.optimizers import OPTIMIZERS, SCHEDULES, SGD, Adam, FixedSupportSGD
from skinnytrees.penalties import GroupL0, NoPenalty
from skinnytrees.tables.groups import Groups
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

# One table has the parameters that each mode uses; those that are not listed are used in every mode. What a mode does not use
# is refused when it is set, with the alternative named.
PATH, PENALISED, DENSE = "penalty='path'", "a penalty object", "penalty=None"
MODES_OF: dict[str, frozenset[str]] = {
    "feature_budget": frozenset({PATH}),
    "size_rule": frozenset({PATH}),
    "scoring": frozenset({PATH}),
    "cv": frozenset({PATH}),
    "refit": frozenset({PATH}),
    "feature_costs": frozenset({PATH, PENALISED}),
    "feature_groups": frozenset({PATH, PENALISED}),
    "always_select": frozenset({PATH, PENALISED}),
    "optimizer": frozenset({PENALISED, DENSE}),
    "schedule": frozenset({PENALISED, DENSE}),
}
_ADVICE = {
    "feature_budget": "Only the path promises a number of features: use penalty='path', or leave feature_budget out.",
    "size_rule": "There is only one size: use penalty='path', or leave size_rule out.",
    "scoring": "Nothing is chosen by a score: use penalty='path', or search over the penalty with scikit-learn's GridSearchCV.",
    "cv": "Nothing is chosen by folds: use penalty='path', or scikit-learn's GridSearchCV(cv=...) around the estimator.",
    "refit": "Nothing is fitted again: leave refit out, and use validation_fraction=None to train on all rows.",
    "feature_costs": "All features are kept: use penalty='path' or a penalty object such as GroupL0.",
    "feature_groups": "All features are kept: use penalty='path' or a penalty object such as GroupL0.",
    "always_select": "All features are kept: leave always_select out.",
    "optimizer": "The path has optimisers of its own: leave optimizer out, or use a penalty object or None.",
    "schedule": "The path has schedules of its own: leave schedule out, or use a penalty object or None.",
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


def mode_of(penalty: Any) -> str:
    """Which of the three ways to train this penalty stands for."""
    if penalty is None:
        return DENSE
    return PATH if isinstance(penalty, str) else PENALISED


def refuse_unused(estimator: Any) -> None:
    """Refuse parameters that have been set, but that the mode does not use."""
    mode = mode_of(estimator.penalty)
    defaults = {name: one.default for name, one in inspect.signature(type(estimator)).parameters.items()}
    for name, modes in MODES_OF.items():
        value = getattr(estimator, name)
        unset = value is defaults[name] or (isinstance(value, str | bool) and value == defaults[name])
        refuse_unless(
            mode in modes or unset,
            f"{name}={_short(value)} has no effect with penalty={estimator.penalty!r}. {_ADVICE[name]}",
        )


def refuse_unused_evidence(estimator: Any, has_validation_rows: bool) -> None:
    """Refuse parameters about held-out rows that have been set where other rows are held out, or none."""
    fraction = estimator.validation_fraction
    if isinstance(fraction, Real):
        taken = "X_val" if has_validation_rows else f"cv={_short(estimator.cv)}"
        refuse_unless(
            not has_validation_rows and estimator.cv is None,
            f"validation_fraction={fraction} has no effect with {taken}, which says what is held out. Leave one of them out.",
        )
    if mode_of(estimator.penalty) == PATH and estimator.cv is not None:
        refuse_unless(
            estimator.refit,
            f"refit=False has no effect with cv={_short(estimator.cv)}: by folds, every row is held out once, and all rows train "
            "the final ensemble. Leave refit out, or hold rows out by validation_fraction or X_val.",
        )
    nothing = fraction is None and estimator.cv is None and not has_validation_rows
    if mode_of(estimator.penalty) == PATH and nothing:
        for name, is_set in (
            ("size_rule", estimator.size_rule == "one_se"),
            ("scoring", estimator.scoring is not None),
        ):
            refuse_unless(
                not is_set,
                f"{name}={_short(getattr(estimator, name))} has no effect with validation_fraction=None: no rows are held out to "
                f"choose by. Give X_val and y_val, use cv or another validation_fraction, or leave {name} out.",
            )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def warn_of_selection(estimator: Any, groups: Groups) -> None:
    """Warn if a penalty has removed everything that it may, or nothing."""
    penalty = estimator.penalty
    if mode_of(penalty) != PENALISED or groups.always_selected.all() or not np.any(penalty.strength(np.ones(1)) > 0):
        return
    n_left, n_kept = estimator.n_features_selected_, int(groups.n_features[groups.always_selected].sum())
    rate = _penalised(estimator, "learning_rate")
    weaker, stronger = "a weaker penalty", "a stronger penalty"
    if isinstance(penalty, GroupL0):
        weaker, stronger = "a smaller gamma", "a larger gamma"
    if n_left <= n_kept:
        left = "all features" if n_kept == 0 else "all features but those of always_select"
        message = f"penalty={penalty!r} has removed {left}. Use {weaker}, or a learning_rate below {rate}"
    elif n_left == len(groups.features):
        message = (
            f"penalty={penalty!r} has removed no feature. Use {stronger}, more epochs, or a learning_rate above {rate}"
        )
    else:
        return
    warnings.warn(f"{message}; GroupL0.grid(X) gives values to start with.", SelectionWarning, stacklevel=5)


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
