"""STG: a network behind stochastic gates, one per feature (Yamada, Lindenbaum, Negahban and Kluger, ICML 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skinnytrees.baselines.base import CONSTRAINTS, Baseline, BaselineClassifier, BaselineRegressor, Fitted, Problem
from skinnytrees.baselines.network_task import (
    REFIT_EPOCHS,
    Candidate,
    NetworkTask,
    Widths,
    candidate,
    choose,
    layer_widths,
)
from skinnytrees.baselines.networks import (
    Generator,
    LoopSettings,
    Network,
    PerRowLoss,
    Rows,
    Tensor,
    import_torch,
    make_network,
    mean_loss,
    seeded,
    train,
)


def gate(mu: Tensor, noise: Tensor) -> Tensor:
    """clip(0.5 + mu + noise, 0, 1); noise is sigma times standard normal in training and zero at prediction."""
    return (0.5 + mu + noise).clamp(0, 1)


def open_probability(mu: Tensor, sigma: float) -> Tensor:
    """Probability that a gate is above zero: Phi((mu + 0.5) / sigma). Its mean over the gates is the penalty."""
    return import_torch().special.ndtr((mu + 0.5) / sigma)


@dataclass
class GatedNetwork:
    """A gate per feature in front of a network; ``group`` has the feature of each column."""

    mu: Tensor
    group: Tensor
    network: Network
    sigma: float

    @classmethod
    def start(
        cls, network: Network, n_groups: int, group: Tensor, sigma: float, generator: Generator
    ) -> "GatedNetwork":
        """The authors' start: mu is 0.01 times standard normal."""
        torch = import_torch()
        mu = 0.01 * torch.randn(n_groups, generator=generator, dtype=network.weights[0].dtype)
        return cls(mu.requires_grad_(), group, network, sigma)

    def objective(self, rows: Rows, loss: PerRowLoss, lam: float, weight_decay: float, generator: Generator) -> Tensor:
        """Loss with fresh noise in the gates of every row, the penalty, and weight decay of the network, not of the gates."""
        torch = import_torch()
        noise = self.sigma * torch.randn((len(rows.X), len(self.mu)), generator=generator, dtype=self.mu.dtype)
        output = self.network(rows.X * gate(self.mu, noise)[:, self.group])
        decay = sum(W.square().sum() for W in self.network.weights)
        penalty = open_probability(self.mu, self.sigma).mean()
        return mean_loss(output, rows, loss) + lam * penalty + 0.5 * weight_decay * decay

    def train(
        self,
        rows: Rows,
        loss: PerRowLoss,
        lam: float,
        weight_decay: float,
        settings: LoopSettings,
        generator: Generator,
    ) -> None:
        """Train gates and network together, in place."""

        def batch_loss(batch: Tensor | None) -> Tensor:
            part = rows if batch is None else rows.take(batch)
            return self.objective(part, loss, lam, weight_decay, generator)

        train([self.mu, *self.network.parameters], batch_loss, len(rows.X), settings, generator)


class _STG(Baseline):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_budget": CONSTRAINTS["feature_budget"],
        "hidden": ["array-like"],
        "lambdas": ["array-like"],
        "sigma": [Interval(Real, 0, None, closed="neither")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "path_epochs": [Interval(Integral, 1, None, closed="left")],
        "refit": ["boolean"],
        "refit_epochs": [Interval(Integral, 1, None, closed="left")],
        "validation_fraction": CONSTRAINTS["validation_fraction"],
        "random_state": CONSTRAINTS["random_state"],
    }
    _standardize = True
    _needs_validation = True
    _needs = ("torch",)
    _extra = "torch"

    def __init__(
        self,
        feature_budget: float | None = None,
        *,
        hidden: Widths = (60, 30),
        lambdas: Sequence[float] = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4),
        sigma: float = 0.5,
        learning_rate: float = 0.005,
        weight_decay: float = 1e-3,
        batch_size: int = 100,
        max_epochs: int = 200,
        path_epochs: int = 50,
        refit: bool = True,
        refit_epochs: int = REFIT_EPOCHS,
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.feature_budget = feature_budget
        self.hidden = hidden
        self.lambdas = lambdas
        self.sigma = sigma
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.path_epochs = path_epochs
        self.refit = refit
        self.refit_epochs = refit_epochs
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """Ours: the Skinny Trees paper does not have this system.

        Returns
        -------
        dict
            See `Baseline.tuning_space`.
        """
        return {
            "hidden": ("choice", ((60, 30), (200, 100), (400, 200))),
            "learning_rate": ("log", 1e-4, 1e-2),
            "sigma": ("float", 0.25, 1.0),
            "max_epochs": ("int", 50, 500),
        }

    def _fit_problem(self, problem: Problem) -> Fitted:
        task = NetworkTask.of(problem)
        return choose(task, self._path(task), self.hidden, "relu", self.refit, self.refit_epochs)

    def _path(self, task: NetworkTask) -> list[Candidate]:
        """Lambda ascending, warm-started, until no gate is open."""
        generator = seeded(task.problem.seed)
        widths = layer_widths(self.hidden, task.n_columns)
        network = make_network(task.n_columns, widths, task.n_outputs, generator, start="uniform")
        gated = GatedNetwork.start(network, task.n_groups, task.group, self.sigma, generator)
        points: list[Candidate] = []
        for i, lam in enumerate(sorted(self.lambdas)):
            epochs = self.max_epochs if i == 0 else self.path_epochs
            loop = LoopSettings(self.learning_rate, epochs, self.batch_size, check_every=epochs)
            gated.train(task.train, task.loss, float(lam), self.weight_decay, loop, generator)
            mu = gated.mu.detach()
            is_open = (mu > -0.5).numpy()
            support = task.features[is_open]
            z = gate(mu, import_torch().zeros_like(mu))[task.group]
            fitted = network.fitted(task.problem.columns_of(support), z)
            # Shifted to be positive: the order of the gates is what counts, also among those that are closed.
            importance = mu.double().numpy() - float(mu.min()) + np.finfo(float).eps
            points.append(candidate(task, fitted, support, {"lambda": float(lam)}, importance))
            if not len(support):
                break
        return points


class STGClassifier(_STG, BaselineClassifier):
    """STG: a ReLU network behind stochastic gates.

    Feature k is multiplied by clip(0.5 + mu_k + sigma e, 0, 1) with fresh normal noise e per row. The penalty is lambda times the
    expected fraction of open gates, which has a gradient in mu. A feature is selected if mu_k > -0.5: its gate is open without
    noise.

    Source: Yamada, Lindenbaum, Negahban and Kluger, Feature selection using stochastic gates, ICML 2020. Ours: the lambda path
    with warm starts, the choice by validation rows, the features of largest mu where the path has no size within the budget, one
    gate for all columns of a category, no weight decay on mu, a step length that suits few epochs (the package's is 1e-5), the
    smaller layers and the refit.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    hidden : sequence
        Widths of the ReLU layers: numbers of units (int), or multiples of the number of columns (float).
    lambdas : sequence of float
        Penalties of the path, used in increasing order.
    sigma : float
        Standard deviation of the noise in the gates.
    learning_rate, weight_decay, batch_size : float, float, int
        Of Adam.
    max_epochs, path_epochs : int
        Epochs at the smallest lambda, and at each further one.
    refit : bool
        Whether the final model is a plain network fitted on the selected features; else it is the path's own, with its gates.
    refit_epochs : int
        Maximum number of epochs of that network.
    validation_fraction : float
        Fraction of the rows that is held out to choose by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed of weights, noise, batches and split.

    Examples
    --------
    >>> from skinnytrees.baselines.stg import STGClassifier
    >>> system = STGClassifier(feature_budget=5, random_state=0)  # then system.fit(X, y)
    >>> system.sigma
    0.5
    """


class STGRegressor(_STG, BaselineRegressor):
    """STG for numbers, with squared error on standardised targets; parameters as for `STGClassifier`.

    Examples
    --------
    >>> from skinnytrees.baselines.stg import STGRegressor
    >>> STGRegressor(feature_budget=5).lambdas[0]
    0.1
    """
