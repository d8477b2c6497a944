"""Deep Lasso: a network whose loss should not depend on most inputs (Cherepanova et al., NeurIPS 2023)."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from skinnytrees.baselines.base import CONSTRAINTS, Baseline, BaselineClassifier, BaselineRegressor, Fitted, Problem
from skinnytrees.baselines.network_task import REFIT_EPOCHS, NetworkTask, Widths, fit_plain, layer_widths, on_table
from skinnytrees.baselines.networks import (
    LoopSettings,
    Network,
    PerRowLoss,
    Rows,
    Tensor,
    import_torch,
    loss_value,
    make_network,
    mean_loss,
    seeded,
    train,
)

# Added below the root: a norm has no gradient at zero.
_SMALL = 1e-8


def gradient_norms(loss: Tensor, X: Tensor, group: Tensor, n_groups: int) -> Tensor:
    """For each feature, the norm over rows (and its columns) of the loss's gradient with respect to the input."""
    (gradient,) = import_torch().autograd.grad(loss, X, create_graph=True)
    squares = gradient.square().sum(dim=0)
    return (squares.new_zeros(n_groups).index_add(0, group, squares) + _SMALL).sqrt()


def penalised_loss(
    network: Network, rows: Rows, loss: PerRowLoss, group: Tensor, n_groups: int, penalty_weight: float
) -> Tensor:
    """(1 - penalty_weight) * loss + penalty_weight * sum of the features' gradient norms."""
    X = rows.X.detach().requires_grad_()
    value = mean_loss(network(X), rows, loss)
    return (1 - penalty_weight) * value + penalty_weight * gradient_norms(value, X, group, n_groups).sum()


class _DeepLasso(Baseline):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_budget": CONSTRAINTS["feature_budget"],
        "hidden": ["array-like"],
        "penalty_weight": [Interval(Real, 0, 1, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "patience": [Interval(Integral, 1, None, closed="left")],
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
        hidden: Widths = (100, 50),
        penalty_weight: float = 0.1,
        learning_rate: float = 1e-3,
        weight_decay: float = 2e-4,
        batch_size: int = 128,
        max_epochs: int = 200,
        patience: int = 20,
        refit_epochs: int = REFIT_EPOCHS,
        validation_fraction: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.feature_budget = feature_budget
        self.hidden = hidden
        self.penalty_weight = penalty_weight
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.refit_epochs = refit_epochs
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """The ranges of the authors' own search; the Skinny Trees paper does not have this system.

        Returns
        -------
        dict
            See `Baseline.tuning_space`.
        """
        widths = (32, 64, 128, 256, 512)
        return {
            "hidden": ("choice", tuple((width,) * depth for depth in (1, 2, 4, 8) for width in widths)),
            "penalty_weight": ("log", 1e-2, 5e-1),
            "learning_rate": ("log", 1e-5, 1e-2),
            "weight_decay": ("log", 1e-6, 1e-3),
        }

    def _fit_problem(self, problem: Problem) -> Fitted:
        task = NetworkTask.of(problem)
        importances = on_table(task, self._importance(task))
        support = problem.top(importances, problem.budget)
        model = fit_plain(task.restrict(support), self.hidden, "relu", self.refit_epochs)
        return Fitted(support, model, importances=importances)

    def _importance(self, task: NetworkTask) -> NDArray[np.float64]:
        """Gradient norms of the trained network on validation rows, or on the training rows where there are none."""
        generator = seeded(task.problem.seed)
        widths = layer_widths(self.hidden, task.n_columns)
        network = make_network(task.n_columns, widths, task.n_outputs, generator, start="uniform")
        loop = LoopSettings(
            self.learning_rate,
            self.max_epochs,
            self.batch_size,
            optimizer="adamw",
            weight_decay=self.weight_decay,
            patience=self.patience,
        )

        def batch_loss(batch: Tensor | None) -> Tensor:
            rows = task.train if batch is None else task.train.take(batch)
            return penalised_loss(network, rows, task.loss, task.group, task.n_groups, self.penalty_weight)

        val = task.val
        watch = None if val is None else lambda: loss_value(network, val, task.loss)
        train(network.parameters, batch_loss, len(task.train.X), loop, generator, validation_loss=watch)
        judged = task.train if val is None else val
        X = judged.X.detach().requires_grad_()
        norms = gradient_norms(mean_loss(network(X), judged, task.loss), X, task.group, task.n_groups)
        return np.asarray(norms.detach().double().numpy())


class DeepLassoClassifier(_DeepLasso, BaselineClassifier):
    """Deep Lasso: the K features to which the loss of a penalised ReLU network is most sensitive.

    The penalty is the sum over features of the Euclidean norm, over the rows of a batch, of the loss's gradient with respect to
    the feature: a group lasso on what the network does rather than on its weights. The trained network ranks features by the same
    norm on validation rows; a plain network is then fitted on the first K. It is a ranking: supports are nested in the budget.

    Source: Cherepanova, Levin, Somepalli, Geiping, Bruss, Wilson, Goldstein and Goldblum, A performance-driven benchmark for
    feature selection in tabular deep learning, NeurIPS 2023, and its public code. Ours: a plain network without embedding,
    dropout, warm-up and step schedule, smaller batches, one norm for all columns of a category.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    hidden : sequence
        Widths of the ReLU layers: numbers of units (int), or multiples of the number of columns (float).
    penalty_weight : float
        Weight of the penalty in [0, 1); the weight of the loss is one minus this.
    learning_rate, weight_decay, batch_size : float, float, int
        Of AdamW.
    max_epochs, patience : int
        Maximum number of epochs, and number of epochs without a lower validation loss after which training ends.
    refit_epochs : int
        Maximum number of epochs of the network that is fitted on the selected features.
    validation_fraction : float
        Fraction of the rows that is held out to stop training and to rank by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed of weights, batches and split.

    Examples
    --------
    >>> from skinnytrees.baselines.deep_lasso import DeepLassoClassifier
    >>> system = DeepLassoClassifier(feature_budget=5, random_state=0)  # then system.fit(X, y)
    >>> system.tuning_space()["penalty_weight"]
    ('log', 0.01, 0.5)
    """


class DeepLassoRegressor(_DeepLasso, BaselineRegressor):
    """Deep Lasso for numbers, with squared error on standardised targets; parameters as for `DeepLassoClassifier`.

    Examples
    --------
    >>> from skinnytrees.baselines.deep_lasso import DeepLassoRegressor
    >>> DeepLassoRegressor(feature_budget=5).penalty_weight
    0.1
    """
