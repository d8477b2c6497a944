"""From a prepared problem to a network's rows and back: what the neural systems share above the plain networks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from skinnytrees.baselines.base import Problem, Sample
from skinnytrees.baselines.networks import (
    FittedNetwork,
    LoopSettings,
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

# The plain network that is fitted on selected features: epochs without a lower validation loss before it ends.
_PATIENCE = 30


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


def fit_plain(task: NetworkTask, hidden: Sequence[int], settings: LoopSettings, activation: str) -> NetworkModel:
    """A network on all columns of the task, without selection.

    The training rows and the validation rows say for how many epochs, and a second training goes for so many on all rows. Without
    validation rows it takes ``max_epochs``.
    """
    seed, start = task.problem.seed, "glorot" if activation == "tanh" else "uniform"
    n_epochs = settings.max_epochs
    network = make_network(task.n_columns, hidden, task.n_outputs, seeded(seed), activation=activation, start=start)
    if task.val is not None:
        loop = replace(settings, patience=_PATIENCE)
        n_epochs = train_network(network, task.train, task.loss, loop, seeded(seed), task.val).best_epoch
        if len(task.rows.X) == len(task.train.X):
            return task.model(network.fitted())
        network = make_network(task.n_columns, hidden, task.n_outputs, seeded(seed), activation=activation, start=start)
    train_network(network, task.rows, task.loss, replace(settings, max_epochs=n_epochs), seeded(seed))
    return task.model(network.fitted())
