"""What of an estimator goes into a model file, under which name, and what has to hold when it comes back."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from skinnytrees.exceptions import refuse_unless
from skinnytrees.model.storage import Saved

# Names in a file, and the attributes that they stand for.
_LEARNED = {
    "n_features": "n_features_in_",
    "feature_names": "feature_names_in_",
    "support": "support_",
    "classes": "classes_",
    "is_multi_output": "_is_multi_output",
    "n_targets": "_n_targets",
    "vocabulary": "_vocabulary",
    "history": "history_",
    "model": "model_",
    "path": "path_",
}
_OF_ALL = {"n_features", "support", "vocabulary", "history", "model"}
_OPTIONAL = {"feature_names", "path", "output"}


def to_saved(estimator: Any, path: bool) -> Saved:
    """What a file holds of a fitted estimator."""
    parameters = {name: value for name, value in estimator.get_params(deep=False).items() if name != "callbacks"}
    if callable(parameters["scoring"]):
        parameters["scoring"] = None
    if not isinstance(parameters["random_state"], Integral | None):
        parameters["random_state"] = None
    attributes = vars(estimator)
    learned = {name: attributes[attribute] for name, attribute in _LEARNED.items() if attribute in attributes}
    if not path:
        learned.pop("path", None)
    if "_sklearn_output_config" in attributes:
        learned["output"] = attributes["_sklearn_output_config"].get("transform")
    return Saved("classifier" if is_classifier(estimator) else "regressor", parameters, learned)


def from_saved(estimator: Any, saved: Saved) -> Any:
    """Make a new estimator what the file holds, all of which is checked first."""
    unknown = sorted(set(saved.parameters) - set(estimator.get_params(deep=False)))
    refuse_unless(not unknown, f"it has parameters that this version does not know: {unknown[:5]}")
    for name, value in saved.parameters.items():
        setattr(estimator, name, value)
    estimator._validate_params()
    learned = {name: value for name, value in saved.learned.items() if value is not None or name not in _OPTIONAL}
    own = {"classes"} if is_classifier(estimator) else {"is_multi_output", "n_targets"}
    missing, strange = sorted((_OF_ALL | own) - set(learned)), sorted(set(learned) - _OF_ALL - own - _OPTIONAL)
    refuse_unless(not missing and not strange, f"it lacks {missing[:5]} or has {strange[:5]}")
    _check_features(learned)
    _check_history(learned["history"])
    (_check_classes if is_classifier(estimator) else _check_targets)(learned)
    if "output" in learned:
        estimator.set_output(transform=learned["output"])
    for name, attribute in _LEARNED.items():
        if name in learned:
            setattr(estimator, attribute, learned[name])
    if "path" in learned:
        estimator.path_ = estimator._labelled(learned["path"])
    if not is_classifier(estimator):
        estimator._loss()
    estimator._adopt_model(learned["model"])
    refuse_unless(bool(np.array_equal(estimator.support_, learned["support"])), "its support is not that of its model")
    return estimator


def _check_features(learned: dict[str, Any]) -> None:
    """The support is as long as there are columns, so that a file cannot name more columns than it has bytes."""
    n_features, support, names = learned["n_features"], learned["support"], learned.get("feature_names")
    is_sound = type(n_features) is int and support.dtype == np.bool_ and support.shape == (n_features,)
    refuse_unless(is_sound, f"n_features is {str(n_features)[:30]}, but its support has the shape {support.shape}")
    if names is not None:
        is_sound = names.shape == (n_features,) and names.dtype == object and all(type(name) is str for name in names)
        refuse_unless(is_sound, "its feature names are not one text per feature")
    vocabulary, path = learned["vocabulary"], learned.get("path")
    if vocabulary is not None:
        numbered = [list(words.values()) == list(range(len(words))) for words in vocabulary.words.values()]
        is_sound = all(numbered) and all(type(column) is int for column in vocabulary.words)
        refuse_unless(is_sound, "its vocabulary does not number the words of columns")
    used = (
        [learned["model"].features]
        if path is None
        else [learned["model"].features, path.final_model.features, *path.supports]
    )
    columns = [] if vocabulary is None else list(vocabulary.words)
    highest = max([*columns, *(int(some.max(initial=-1)) for some in used)], default=-1)
    lowest = min([*columns, *(int(some.min(initial=0)) for some in used)], default=0)
    refuse_unless(lowest >= 0 and highest < n_features, f"it reads column {highest}, but has {n_features} columns")


def _check_history(history: Any) -> None:
    refuse_unless(isinstance(history, dict) and all(type(name) is str for name in history), "its history has no names")
    shapes = {column.shape for column in history.values()}
    refuse_unless(all(column.dtype.kind in "iuf" for column in history.values()), "its history is not made of numbers")
    refuse_unless(
        len(shapes) <= 1 and all(len(shape) == 1 for shape in shapes), "its history has columns of other lengths"
    )


def _check_classes(learned: dict[str, Any]) -> None:
    classes = learned["classes"]
    is_sound = classes.ndim == 1 and len(classes) == _n_outputs(learned) > 1
    refuse_unless(is_sound, f"it has classes of the shape {classes.shape}, but {_n_outputs(learned)} outputs")
    refuse_unless(bool(np.all(classes[1:] > classes[:-1])), "its classes are not in order")


def _check_targets(learned: dict[str, Any]) -> None:
    n_targets, is_multi_output = learned["n_targets"], learned["is_multi_output"]
    is_sound = type(n_targets) is int and type(is_multi_output) is bool and n_targets == _n_outputs(learned)
    refuse_unless(
        is_sound and (is_multi_output or n_targets == 1), f"it has {_n_outputs(learned)} outputs, but other targets"
    )


def _n_outputs(learned: dict[str, Any]) -> int:
    model, path = learned["model"], learned.get("path")
    refuse_unless(
        path is None or len(path.final_model.base) == len(model.base), "its path has other outputs than its model"
    )
    return len(model.base)
