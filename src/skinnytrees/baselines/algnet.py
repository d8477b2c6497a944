"""AlgNet: a tanh network whose input groups are chosen by an adaptive group lasso (Dinh and Ho, NeurIPS 2020)."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

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
    group_norms,
    import_torch,
    loss_value,
    make_network,
    seeded,
    shrink_groups,
    train_network,
)

# xi increases from this fraction of the value at which the adaptive penalty of a typical feature equals lambda to this multiple
# of it. The path ends before that where no feature is left.
_XI_RANGE = (1e-2, 1e4)


def train_group_lasso(
    network: Network,
    rows: Rows,
    loss: PerRowLoss,
    group: Tensor,
    penalties: Tensor,
    settings: LoopSettings,
    generator: Generator,
) -> None:
    """Minimise loss + sum_g penalty_g ||W1_g|| in place by full-batch proximal gradient steps."""
    thresholds = settings.learning_rate * penalties
    first = network.weights[0]
    shrink_groups(first, group, _only_infinite(thresholds))  # an infinite penalty holds from the start
    train_network(network, rows, loss, settings, generator, after_step=lambda: shrink_groups(first, group, thresholds))


def adaptive_penalties(norms: Tensor, xi: float, gamma: float) -> Tensor:
    """Xi / ||W1_g||^gamma: infinite for a group that the first stage removed, so that it stays out."""
    return xi / norms.pow(gamma)


def _only_infinite(thresholds: Tensor) -> Tensor:
    torch = import_torch()
    return torch.where(torch.isinf(thresholds), thresholds, torch.zeros_like(thresholds))


class _AlgNet(Baseline):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_budget": CONSTRAINTS["feature_budget"],
        "hidden": ["array-like"],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "path_epochs": [Interval(Integral, 1, None, closed="left")],
        "lambdas": ["array-like"],
        "n_xi": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither")],
        "init": [StrOptions({"glorot", "normal"})],
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
        hidden: Widths = (20, 20, 20),
        learning_rate: float = 0.1,
        max_epochs: int = 2000,
        path_epochs: int = 200,
        lambdas: Sequence[float] = (0.001, 0.01, 0.05),
        n_xi: int = 30,
        gamma: float = 2.0,
        init: str = "glorot",
        refit: bool = True,
        refit_epochs: int = REFIT_EPOCHS,
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.feature_budget = feature_budget
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.max_epochs = max_epochs
        self.path_epochs = path_epochs
        self.lambdas = lambdas
        self.n_xi = n_xi
        self.gamma = gamma
        self.init = init
        self.refit = refit
        self.refit_epochs = refit_epochs
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """The supplement's ranges.

        Returns
        -------
        dict
            See `Baseline.tuning_space`. ``lambdas`` holds sequences of one value, which xi then follows.
        """
        return {
            "hidden": ("choice", tuple((width,) * 3 for width in (1 / 3, 2 / 3, 1.0, 4 / 3))),
            "learning_rate": ("log", 0.01, 1.0),
            "lambdas": ("choice", tuple((float(value),) for value in np.logspace(-1, 3, 9))),
            "max_epochs": ("int", 5, 2000),
        }

    def _fit_problem(self, problem: Problem) -> Fitted:
        task = NetworkTask.of(problem)
        lam, norms = self._first_stage(task)
        return choose(task, self._path(task, lam, norms), self.hidden, "tanh", self.refit, self.refit_epochs)

    def _loop(self, max_epochs: int) -> LoopSettings:
        return LoopSettings(self.learning_rate, max_epochs, optimizer="sgd", check_every=min(100, max_epochs))

    def _network(self, task: NetworkTask, seed: int) -> Network:
        widths = layer_widths(self.hidden, task.n_columns)
        return make_network(task.n_columns, widths, task.n_outputs, seeded(seed), activation="tanh", start=self.init)

    def _first_stage(self, task: NetworkTask) -> tuple[float, Tensor]:
        """Group lasso: the lambda of lowest validation loss and the norms of its groups."""
        torch = import_torch()
        best: tuple[float, float, Tensor] | None = None
        for lam in self.lambdas:
            network = self._network(task, task.problem.seed)
            penalties = torch.full((task.n_groups,), float(lam))
            loop = self._loop(self.max_epochs)
            train_group_lasso(network, task.train, task.loss, task.group, penalties, loop, seeded(task.problem.seed))
            judged = task.train if task.val is None else task.val
            loss, norms = loss_value(network, judged, task.loss), group_norms(network.weights[0], task.group)
            if bool(norms.any()) and (best is None or loss < best[0]):
                best = (loss, float(lam), norms)
        if best is None:  # every lambda removed everything: start without a first stage
            return float(min(self.lambdas)), torch.ones(task.n_groups)
        return best[1], best[2]

    def _path(self, task: NetworkTask, lam: float, norms: Tensor) -> list[Candidate]:
        """Adaptive stage from new random weights: xi ascending, warm-started, until no feature is left."""
        typical = float(norms[norms > 0].median())
        grid = np.geomspace(*_XI_RANGE, self.n_xi) * lam * typical**self.gamma
        seed = task.problem.seed + 1
        network = self._network(task, seed)
        points: list[Candidate] = []
        for i, xi in enumerate(grid):
            penalties = adaptive_penalties(norms, float(xi), self.gamma)
            loop = self._loop(self.max_epochs if i == 0 else self.path_epochs)
            train_group_lasso(network, task.train, task.loss, task.group, penalties, loop, seeded(seed))
            present = group_norms(network.weights[0], task.group).double().numpy()
            support = task.features[present > 0]
            fitted = network.fitted(task.problem.columns_of(support))
            importance = present if len(support) else norms.double().numpy()
            points.append(candidate(task, fitted, support, {"lambda": lam, "xi": float(xi)}, importance))
            if not len(support):
                break
        return points


class AlgNetClassifier(_AlgNet, BaselineClassifier):
    """AlgNet: a tanh network with an adaptive group lasso on the weights that leave each feature.

    Stage one trains with a group lasso of weight lambda. Stage two starts from new random weights with the penalty xi /
    ||W_k||^gamma on feature k, where W_k are its weights after stage one: features that stage one removed stay out, strong ones
    are hardly shrunk.

    Source: Dinh and Ho, Consistent feature selection for analytic deep neural networks, NeurIPS 2020; the steps follow a
    description of the authors' code. Ours: classes (the authors have squared error only), the Glorot start, the xi path with warm
    starts and its range, the choice by validation rows, one group for all columns of a category, and the refit.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    hidden : sequence
        Widths of the tanh layers: numbers of units (int), or multiples of the number of columns (float).
    learning_rate : float
        Length of the proximal gradient steps.
    max_epochs : int
        Full-batch steps of the first stage for each lambda, and of the second at its smallest xi.
    path_epochs : int
        Full-batch steps at each further xi.
    lambdas : sequence of float
        Penalties of the first stage to choose from.
    n_xi : int
        Number of penalties of the second stage.
    gamma : float
        Power of the adaptive weights.
    init : {"glorot", "normal"}
        Start of the weights. The authors start with "normal" (unscaled), which saturates tanh on wide tables.
    refit : bool
        Whether the final model is a plain network fitted on the selected features; else it is the path's own.
    refit_epochs : int
        Maximum number of epochs of that network.
    validation_fraction : float
        Fraction of the rows that is held out to choose by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed of the weights and of the split.

    Examples
    --------
    >>> from skinnytrees.baselines.algnet import AlgNetClassifier
    >>> system = AlgNetClassifier(feature_budget=5, random_state=0)  # then system.fit(X, y)
    >>> sorted(system.tuning_space())
    ['hidden', 'lambdas', 'learning_rate', 'max_epochs']
    """


class AlgNetRegressor(_AlgNet, BaselineRegressor):
    """AlgNet for numbers, with squared error on standardised targets; parameters as for `AlgNetClassifier`.

    Examples
    --------
    >>> from skinnytrees.baselines.algnet import AlgNetRegressor
    >>> AlgNetRegressor(feature_budget=0.1).feature_budget
    0.1
    """
