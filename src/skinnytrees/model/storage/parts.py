"""The fitted model, its path and its vocabulary in a document: the names in a file are these, whatever attributes are called."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.state import view_trees
from skinnytrees.model.feature_path import FeaturePath
from skinnytrees.model.soft_trees import SoftTrees
from skinnytrees.model.storage.values import Arrays, StoredArrays, describe, make
from skinnytrees.tables.column_views import Curves
from skinnytrees.tables.encoding import Encoder
from skinnytrees.tables.frames import Vocabulary

Described = dict[str, Any]

# Names in a file, and the attributes that they stand for.
_ENCODER = {
    "features": "feature",
    "means": "mean",
    "scales": "scale",
    "levels": "level",
    "is_missing_indicator": "is_indicator",
    "is_level": "is_level",
    "group_offsets": "offsets",
}
_CURVES = {"knots": "knots", "heights": "heights", "offsets": "offsets"}
_PATH = {
    "n_features": "n_features",
    "scores": "val_score",
    "score_errors": "val_score_se",
    "training_losses": "train_loss",
    "costs": "cost",
}


def describe_model(model: SoftTrees, arrays: Arrays) -> Described:
    """A fitted model as JSON."""
    trees, encoder = model.trees, model.encoder
    columns = _describe_fields(encoder, _ENCODER, arrays)
    curves = _describe_fields(encoder.curves, _CURVES, arrays)
    return {
        "activation": describe(model.activation, "activation", arrays),
        "split_weights": arrays.add(_as_small_as_it_goes(trees.W), "model"),
        "split_biases": arrays.add(trees.b, "model"),
        "leaf_weights": arrays.add(trees.O, "model"),
        "base": arrays.add(model.base, "model"),
        "encoder": {**columns, "curves": curves, "farthest": float(encoder.farthest)},
    }


def make_model(described: Any, arrays: StoredArrays) -> SoftTrees:
    """The fitted model that was described; its constructor checks that all parts fit together."""
    names = {"activation", "split_weights", "split_biases", "leaf_weights", "base", "encoder"}
    refuse_other_fields(described, names, "a model")
    encoder = described["encoder"]
    refuse_other_fields(encoder, {*_ENCODER, "curves", "farthest"}, "an encoder")
    curves = Curves(**_make_fields(encoder["curves"], _CURVES, arrays, "curves"))
    columns = {name: encoder[name] for name in _ENCODER}
    return SoftTrees(
        encoder=Encoder(
            **_make_fields(columns, _ENCODER, arrays, "an encoder"), curves=curves, farthest=encoder["farthest"]
        ),
        trees=make_trees(
            *(_array(described[name], arrays) for name in ("split_weights", "split_biases", "leaf_weights"))
        ),
        base=_array(described["base"], arrays),
        activation=make(described["activation"], arrays),
    )


def _as_small_as_it_goes(W: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in half precision, where that holds all of them, as it does those of the path's models."""
    with np.errstate(over="ignore"):
        half = W.astype(np.float16)
    return half if np.array_equal(half.astype(W.dtype), W) else W


def make_trees(W: NDArray[Any], b: NDArray[Any], leaves: NDArray[Any]) -> Any:
    """The weights of an ensemble in one flat array, as kernels want them."""
    W = W.astype(b.dtype) if W.dtype == np.float16 else W
    is_sound = W.ndim == 2 and b.shape == W.shape[1:] and leaves.ndim == 2 and W.dtype == b.dtype == leaves.dtype
    refuse_unless(is_sound, f"weights of the shapes {W.shape}, {b.shape} and {leaves.shape} make no trees")
    return view_trees(np.concatenate([W.ravel(), b, leaves.ravel()]), W.shape[0], W.shape[1], leaves.shape)


def describe_path(path: FeaturePath, arrays: Arrays) -> Described:
    """A path as JSON."""
    return {
        **_describe_fields(path, _PATH, arrays),
        "supports": [arrays.add(support, "path") for support in path.supports],
        "models": [describe_model(model, arrays) for model in path.models],
        "chosen": int(path.chosen_index),
        "final": describe_model(path.final_model, arrays),
    }


def make_path(described: Any, arrays: StoredArrays) -> FeaturePath:
    """The path that was described; its constructor checks that all parts fit together."""
    refuse_other_fields(described, {*_PATH, "supports", "models", "chosen", "final"}, "a path")
    columns = {name: described[name] for name in _PATH}
    return FeaturePath(
        **_make_fields(columns, _PATH, arrays, "a path"),
        supports=[_array(support, arrays) for support in described["supports"]],
        models=[make_model(model, arrays) for model in described["models"]],
        chosen_index=described["chosen"],
        final_model=make_model(described["final"], arrays),
    )


def describe_vocabulary(vocabulary: Vocabulary, arrays: Arrays) -> Described:
    """The categories of columns as JSON, in the order of their numbers."""
    by_column = vocabulary.words.items()
    words = [[word for word, _ in sorted(numbers.items(), key=lambda item: item[1])] for _, numbers in by_column]
    return {
        "columns": [int(column) for column, _ in by_column],
        "words": [describe(some, "vocabulary", arrays) for some in words],
    }


def make_vocabulary(described: Any, arrays: StoredArrays) -> Vocabulary:
    """The vocabulary that was described."""
    refuse_other_fields(described, {"columns", "words"}, "a vocabulary")
    pairs = list(zip(described["columns"], make(described["words"], arrays), strict=True))
    vocabulary = Vocabulary({column: {word: code for code, word in enumerate(words)} for column, words in pairs})
    is_sound = len(vocabulary.words) == len(pairs) and all(type(column) is int for column, _ in pairs)
    is_sound &= all(len(vocabulary.words[column]) == len(words) for column, words in pairs)
    refuse_unless(is_sound, "its vocabulary has a column or a word twice")
    return vocabulary


def refuse_other_fields(described: Any, names: set[str], what: str) -> None:
    """Refuse what has not exactly these fields."""
    refuse_unless(isinstance(described, dict) and set(described) == names, f"{what} has other fields than it should")


def _describe_fields(value: Any, names: dict[str, str], arrays: Arrays) -> Described:
    return {name: arrays.add(getattr(value, attribute), "model") for name, attribute in names.items()}


def _make_fields(described: Any, names: dict[str, str], arrays: StoredArrays, what: str) -> dict[str, Any]:
    refuse_other_fields(described, set(names), what)
    return {attribute: _array(described[name], arrays) for name, attribute in names.items()}


def _array(place: Any, arrays: StoredArrays) -> NDArray[Any]:
    return arrays.copy_of(place)
