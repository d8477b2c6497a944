"""From a fitted estimator and a user's table to a game, with the names of its columns and categories."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import is_classifier

from skinnytrees.exceptions import refuse_unless
from skinnytrees.explain.games import Game
from skinnytrees.explain.interactions import evenly_spaced
from skinnytrees.tables.frames import find_panel, open_table, read_columns, read_table
from skinnytrees.threads import allowed_threads

OUTPUTS = "raw", "probability", "prediction"


@dataclass(frozen=True)
class Columns:
    """Names of the selected features; ``words`` has the names of categories, by the feature's place and the category's code."""

    names: list[str]
    words: dict[int, dict[float, str]]

    def word(self, place: int, value: float) -> str:
        """A value as people write it."""
        if np.isnan(value):
            return "missing"
        if place in self.words:
            return self.words[place].get(float(value), "unknown category")
        return f"{value:.4g}"

    def in_words(self, data: NDArray[np.float64]) -> NDArray[Any]:
        """A table in which categories have their names."""
        shown = data.astype(object)
        for place in self.words:
            shown[:, place] = [self.word(place, value) for value in data[:, place]]
        return shown


def selected_columns(estimator: Any) -> Columns:
    """Names of the columns that a fitted estimator reads."""
    features = estimator.model_.features
    known = estimator._names()
    names = [f"x{k}" if known is None else str(known[k]) for k in features.tolist()]
    vocabulary = getattr(estimator, "_vocabulary", None)
    words: dict[int, dict[float, str]] = {}
    for place, k in enumerate(features.tolist()):
        if vocabulary is not None and k in vocabulary.words:
            words[place] = {float(code): str(word) for word, code in vocabulary.words[k].items()}
        elif k in estimator._categorical_columns():
            levels = estimator.model_.encoder.level[estimator.model_.encoder.feature == k]
            words[place] = {float(level): f"{level:g}" for level in levels if not np.isnan(level)}
    return Columns(names, words)


def selected_values(estimator: Any, X: Any) -> NDArray[np.float64]:
    """The selected columns of a table as numbers, categories by their numbers; the table may hold these columns alone."""
    panel = find_panel(X, estimator._names(), estimator.model_.features, estimator.n_features_in_)
    if panel is not None:
        vocabulary = estimator._vocabulary
        some = read_table(
            estimator, panel, None if vocabulary is None else vocabulary.select(estimator.model_.features)
        )
        return _dense(some)
    opened = open_table(estimator, X, estimator._vocabulary, reset=False)
    some = read_columns(estimator, opened, estimator._vocabulary, estimator.model_.features)
    return _dense(some)


def make_game(estimator: Any, X: Any, background: Any, output: str, n_jobs: int | None) -> Game:
    """The game that explains an output of the estimator for the rows of X."""
    rows = selected_values(estimator, X)
    if background is None or isinstance(background, int | np.integer):
        most = 100 if background is None else int(background)
        refuse_unless(most > 0, f"background={background} asks for no rows. Use a positive number, such as 100.")
        chosen = rows[evenly_spaced(len(rows), most)]
    else:
        chosen = selected_values(estimator, background)
    mixing, link = _explained(estimator, output)
    return Game(estimator.model_.narrowed, mixing, link, rows, chosen, allowed_threads(n_jobs))


def output_names(estimator: Any) -> list[Any]:
    """The class or target of each explained output."""
    if not is_classifier(estimator):
        return list(range(len(estimator.model_.base)))
    classes = estimator.classes_.tolist()
    return [classes[1]] if len(classes) == 2 else classes


def _explained(
    estimator: Any, output: str
) -> tuple[NDArray[np.float64], Callable[[NDArray[np.float64]], NDArray[np.float64]]]:
    """Combinations of raw outputs, and the link from them to what is explained."""
    refuse_unless(output in OUTPUTS, f"output={output!r} is not known. Use one of {', '.join(map(repr, OUTPUTS))}.")
    n_raw = len(estimator.model_.base)
    if is_classifier(estimator):
        refuse_unless(
            output != "prediction",
            "output='prediction' is for regressors. Use output='raw' for scores or 'probability' for probabilities.",
        )
        if n_raw == 2:  # one score is enough: the log-odds of the second class
            return np.array([[-1.0, 1.0]]), expit if output == "probability" else _as_it_is
        return np.eye(n_raw), estimator._loss().to_prediction if output == "probability" else _as_it_is
    refuse_unless(
        output != "probability",
        "output='probability' is for classifiers. Use output='raw', or 'prediction' for what predict gives.",
    )
    return np.eye(n_raw), estimator._loss().to_prediction if output == "prediction" else _as_it_is


def _dense(table: Any) -> NDArray[np.float64]:
    return np.ascontiguousarray(table.toarray() if sparse.issparse(table) else table, dtype=np.float64)


def _as_it_is(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return scores
