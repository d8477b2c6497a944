"""From a prepared problem to a network's rows and back: what the neural systems share above the plain networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from skinnytrees.baselines.base import Fitted, Problem, Sample
from skinnytrees.baselines.networks import (
    FittedNetwork,
    LoopSettings,
    Network,
    PerRowLoss,
    Rows,
    Tensor,
    cross_entropy,
    import_torch,
    make_network,
    make_rows,
    seeded,
    squared_error,
    train_network,
)
from skinnytrees.baselines.selection_path import PathEntry, SelectionPath, best_entry
from skinnytrees.exceptions import refuse_unless

# A width of a hidden layer: a number of units (int) or a multiple of the number of columns (float), as in the paper's supplement.
Widths = Sequence[Any]

# Maximum number of epochs of the plain network that is fitted on selected features.
REFIT_EPOCHS = 200


@dataclass(frozen=True)
class NetworkModel:
    """A fitted network as a predictor; a regressor's output is ``center + spread * network``."""

    network: FittedNetwork
    center: float = 0.0
    spread: float = 1.0

    def predict_proba(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities of the classes."""
        return np.asarray(softmax(self.network(X), axis=1))

    def predict(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Predicted numbers."""
        return self.center + self.spread * self.network(X)[:, 0]


@dataclass(frozen=True)
class NetworkTask:
    """A problem as tensors; ``group`` numbers the features that have a column, ``features`` are their places in the table.

    Targets of a regression get mean 0 and standard deviation 1, so that step lengths and penalties mean the same on all tables.
    """

    problem: Problem
    train: Rows
    val: Rows | None
    rows: Rows
    loss: PerRowLoss
    features: NDArray[np.intp]
    group: Tensor
    center: float
    spread: float

    @classmethod
    def of(cls, problem: Problem) -> "NetworkTask":
        """The tensors of a problem."""
        center, spread = (0.0, 1.0) if problem.n_classes else _moments(problem.rows)

        def tensors(sample: Sample) -> Rows:
            y = sample.y.astype(np.int64) if problem.n_classes else (sample.y - center) / spread
            return make_rows(sample.X, y, sample.weight)

        features, group = np.unique(problem.feature, return_inverse=True)
        return cls(
            problem=problem,
            train=tensors(problem.train),
            val=None if problem.val is None else tensors(problem.val),
            rows=tensors(problem.rows),
            loss=cross_entropy if problem.n_classes else squared_error,
            features=features,
            group=import_torch().tensor(group),
            center=center,
            spread=spread,
        )

    @property
    def n_groups(self) -> int:
        """Number of features that have a column."""
        return len(self.features)

    @property
    def n_columns(self) -> int:
        """Number of inputs of a network on all features."""
        return len(self.problem.feature)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network."""
        return max(1, self.problem.n_classes)

    def restrict(self, features: NDArray[np.intp]) -> "NetworkTask":
        """The same task with the columns of these features of the table only."""
        return NetworkTask.of(self.problem.restrict(features))

    def model(self, network: FittedNetwork) -> NetworkModel:
        """A predictor in the user's units."""
        return NetworkModel(network, self.center, self.spread)

    def val_score(self, network: FittedNetwork, support: NDArray[np.intp]) -> float:
        """Validation score of a network on the columns of ``support``; NaN without validation rows."""
        val = self.problem.val
        if val is None:
            return float("nan")
        return self.problem.score(self.model(network), val.columns(self.problem.columns_of(support)))


def _moments(sample: Sample) -> tuple[float, float]:
    center = float(np.average(sample.y, weights=sample.weight))
    spread = float(np.sqrt(np.average((sample.y - center) ** 2, weights=sample.weight)))
    return center, spread if spread > 0 else 1.0


def layer_widths(hidden: Widths, n_columns: int) -> list[int]:
    """Numbers of units of the hidden layers."""
    refuse_unless(
        all(isinstance(width, Real) and float(width) > 0 for width in hidden),
        f"hidden={hidden!r} has a width that is not positive. Use numbers of units such as (50, 10), or multiples of the number "
        "of columns such as (0.5,).",
    )
    return [int(width) if isinstance(width, Integral) else max(1, round(width * n_columns)) for width in hidden]


def fit_plain(task: NetworkTask, hidden: Widths, activation: str, max_epochs: int) -> NetworkModel:
    """A network on all columns of the task, without selection.

    A first training determines the number of epochs by validation rows, and a second one takes as many on all rows. Without
    validation rows, the maximum number of epochs is used.
    """
    seed = task.problem.seed
    n_epochs = max_epochs
    if task.val is not None:
        network = _plain_network(task, hidden, activation)
        loop = _refit_loop(max_epochs, len(task.train.X))
        n_epochs = train_network(network, task.train, task.loss, loop, seeded(seed), task.val).best_epoch
        if task.problem.rows is task.problem.train:
            return task.model(network.fitted())
    network = _plain_network(task, hidden, activation)
    loop = _refit_loop(n_epochs, len(task.rows.X))
    train_network(network, task.rows, task.loss, loop, seeded(seed))
    return task.model(network.fitted())


def _plain_network(task: NetworkTask, hidden: Widths, activation: str) -> Network:
    start = "glorot" if activation == "tanh" else "uniform"
    widths = layer_widths(hidden, task.n_columns)
    return make_network(
        task.n_columns, widths, task.n_outputs, seeded(task.problem.seed), activation=activation, start=start
    )


def _refit_loop(max_epochs: int, n_rows: int) -> LoopSettings:
    """About sixteen steps per epoch, in batches of 16 to 512 rows."""
    batch_size = min(512, max(16, n_rows // 16))
    return LoopSettings(5e-3, max_epochs, batch_size, optimizer="adamw", weight_decay=1e-3, patience=30)


class Candidate(NamedTuple):
    """A point of a path, its network on the columns of its support, and the importance of each group of the task."""

    entry: PathEntry
    network: FittedNetwork
    importance: NDArray[np.float64]


def candidate(
    task: NetworkTask,
    network: FittedNetwork,
    support: NDArray[np.intp],
    setting: dict[str, float],
    importance: NDArray[np.float64],
) -> Candidate:
    """A point of a path with its validation score."""
    score = task.val_score(network, support) if len(support) else float("nan")
    return Candidate(PathEntry(len(support), support, setting, score), network, importance)


def choose(
    task: NetworkTask, points: list[Candidate], hidden: Widths, activation: str, refit: bool, refit_epochs: int
) -> Fitted:
    """The best validated point within the budget, or the most important features where the path has none.

    With ``refit``, and where the path has none, a plain network is fitted on the selected features.
    """
    problem = task.problem
    entries = [point.entry for point in points]
    chosen = best_entry(entries, problem.budget)
    if chosen is not None:
        support, importance = entries[chosen].support, points[chosen].importance
    else:
        in_use = [point for point in points if point.entry.n_features] or points[:1]
        importance = min(in_use, key=lambda point: point.entry.n_features).importance
        support = problem.top(on_table(task, importance), problem.budget)
    if refit or chosen is None:
        model = fit_plain(task.restrict(support), hidden, activation, refit_epochs)
    else:
        model = task.model(points[chosen].network)
    if chosen is None:
        # Rows that were held out of the training rows have trained this model, so that they cannot judge it.
        score = task.val_score(model.network, support) if problem.rows is problem.train else float("nan")
        entries.append(PathEntry(len(support), support, dict.fromkeys(entries[0].setting, float("nan")), score))
        chosen = len(entries) - 1
    path = SelectionPath(tuple(entries), chosen)
    return Fitted(support, model, path=path, importances=on_table(task, importance))


def on_table(task: NetworkTask, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """A value per feature of the table from one per group; zero for features without a column."""
    out = np.zeros(task.problem.n_features)
    out[task.features] = values
    return out
