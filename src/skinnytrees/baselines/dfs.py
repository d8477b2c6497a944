"""DFS: a weight per feature in front of a network, at most k of them not zero (Chen, Gao, Liang and Wang 2021)."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from skinnytrees.baselines.base import CONSTRAINTS, Baseline, BaselineClassifier, BaselineRegressor, Fitted, Problem
from skinnytrees.baselines.dfs_loop import (
    DFSSettings,
    SelectionNetwork,
    best_round,
    select_features,
    train_on_support,
)
from skinnytrees.baselines.network_task import NetworkTask, Widths, layer_widths, on_table
from skinnytrees.baselines.networks import FittedNetwork, LoopSettings, Network, Tensor, make_network, seeded
from skinnytrees.baselines.selection_path import PathEntry, SelectionPath

# With size_rule="bic", each size is this fraction of the previous one.
_SHRINK = 0.7


class _Size(NamedTuple):
    support: NDArray[np.intp]
    bic: float
    network: FittedNetwork
    s: NDArray[np.float64]


class _DFS(Baseline):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_budget": CONSTRAINTS["feature_budget"],
        "hidden": ["array-like"],
        "size_rule": [StrOptions({"full", "bic"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "selection_weight_decay": [Interval(Real, 0, None, closed="left")],
        "n_repeats": [Interval(Integral, 1, None, closed="left")],
        "n_steps": [Interval(Integral, 1, None, closed="left")],
        "max_rounds": [Interval(Integral, 1, None, closed="left")],
        "second_step_epochs": [Interval(Integral, 1, None, closed="left")],
        "carry_gradient": ["boolean"],
        "random_state": CONSTRAINTS["random_state"],
    }
    _standardize = True
    _needs = ("torch",)
    _extra = "torch"

    def __init__(
        self,
        feature_budget: float | None = None,
        *,
        hidden: Widths = (50, 10),
        size_rule: str = "full",
        learning_rate: float = 0.05,
        weight_decay: float = 0.0025,
        selection_weight_decay: float = 0.0005,
        n_repeats: int = 250,
        n_steps: int = 5,
        max_rounds: int = 10,
        second_step_epochs: int = 1000,
        carry_gradient: bool = False,
        random_state: Any = None,
    ) -> None:
        self.feature_budget = feature_budget
        self.hidden = hidden
        self.size_rule = size_rule
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.selection_weight_decay = selection_weight_decay
        self.n_repeats = n_repeats
        self.n_steps = n_steps
        self.max_rounds = max_rounds
        self.second_step_epochs = second_step_epochs
        self.carry_gradient = carry_gradient
        self.random_state = random_state

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """The supplement's ranges; it searched the number of features too, which is ``feature_budget`` here.

        Returns
        -------
        dict
            See `Baseline.tuning_space`.
        """
        return {
            "hidden": ("choice", tuple((width,) * 3 for width in (1 / 3, 2 / 3, 1.0, 4 / 3))),
            "learning_rate": ("log", 0.001, 0.1),
        }

    def _fit_problem(self, problem: Problem) -> Fitted:
        task = NetworkTask.of(problem)
        k = min(problem.budget, task.n_groups)
        sizes = [k] if self.size_rule == "full" else _descending(k)
        tried = self._fit_sizes(task, sizes)
        chosen = int(np.argmin([size.bic for size in tried]))
        best = tried[chosen]
        entries = tuple(
            PathEntry(len(size.support), size.support, {"k": float(k), "bic": size.bic}, float("nan"))
            for k, size in zip(sizes, tried, strict=True)
        )
        path = SelectionPath(entries, chosen)
        return Fitted(best.support, task.model(best.network), path=path, importances=on_table(task, np.abs(best.s)))

    def _settings(self) -> DFSSettings:
        return DFSSettings(
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            selection_weight_decay=self.selection_weight_decay,
            n_repeats=self.n_repeats,
            n_steps=self.n_steps,
            max_rounds=self.max_rounds,
            carry_gradient=self.carry_gradient,
        )

    def _fit_sizes(self, task: NetworkTask, sizes: list[int]) -> list[_Size]:
        """Each size starts from the network and the support of the previous one; the first starts from a random network."""
        generator = seeded(task.problem.seed)
        widths = layer_widths(self.hidden, task.n_columns)
        network = make_network(task.n_columns, widths, task.n_outputs, generator, start="uniform")
        model = SelectionNetwork.start(network, task.n_groups, task.group, generator)
        support: NDArray[np.intp] | None = None
        tried = []
        for k in sizes:
            rounds = select_features(model, task.rows, task.loss, k, self._settings(), support)
            support = best_round(rounds).support
            tried.append(self._second_step(task, model, network, support))
        return tried

    def _second_step(
        self, task: NetworkTask, model: SelectionNetwork, network: Network, support: NDArray[np.intp]
    ) -> _Size:
        """Train the network behind s on the support; s and the network of the first step stay as they are."""
        copy = Network(_copies(network.weights), _copies(network.biases), network.activation)
        second = replace(model, network=copy, trained=copy.parameters)
        settings = LoopSettings(0.01, self.second_step_epochs, weight_decay=0.0025, check_every=self.second_step_epochs)
        loss = train_on_support(second, task.rows, task.loss, settings)
        features = task.features[support]
        fitted = copy.fitted(task.problem.columns_of(features), model.s[task.group])
        bic = _bic(loss, len(task.rows.X), len(support), task.problem.n_classes)
        return _Size(features, bic, fitted, model.s.detach().double().numpy().copy())


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    return [P.detach().clone().requires_grad_() for P in tensors]


def _descending(k: int) -> list[int]:
    """Sizes from k to 1, each about 0.7 times the previous one."""
    sizes = [k]
    while sizes[-1] > 1:
        sizes.append(max(1, min(sizes[-1] - 1, round(_SHRINK * sizes[-1]))))
    return sizes


def _bic(loss: float, n_rows: int, k: int, n_classes: int) -> float:
    """The authors' criteria: 2 N loss + k log N for classes, N log(mean squared error) + 3 k log N for numbers."""
    if n_classes:
        return 2 * n_rows * loss + k * float(np.log(n_rows))
    return n_rows * float(np.log(max(loss, np.finfo(float).tiny))) + 3 * k * float(np.log(n_rows))


class DFSClassifier(_DFS, BaselineClassifier):
    """DFS: deep feature selection with exactly k features.

    A weight per feature multiplies the inputs of a ReLU network. Each round takes the 2k features with the steepest gradient and
    the present ones as candidates, trains on them, and keeps the k largest weights; it ends when they stay the same. The round of
    lowest training loss counts, and the network behind the weights is then trained once more.

    Source: Chen, Gao, Liang and Wang, Nonlinear variable selection via deep neural networks, Journal of Computational and
    Graphical Statistics 2021; the steps follow the authors' code. Ours: gradients are cleared before features are screened
    (``carry_gradient=True`` keeps the gradient of the last update, as the authors' code does), one weight for all columns of a
    category, standardised columns and targets, and with ``size_rule="bic"`` the warm-started sizes, each about 0.7 times the
    previous one.

    Parameters
    ----------
    feature_budget : int, float or None
        Number of features, or fraction of them; None selects all.
    hidden : sequence
        Widths of the ReLU layers: numbers of units (int), or multiples of the number of columns (float).
    size_rule : {"full", "bic"}
        Use the whole budget, or the size within it with the lowest BIC on the training rows.
    learning_rate : float
        Of Adam.
    weight_decay, selection_weight_decay : float
        In updates of all parameters, and in updates of the selection weights alone.
    n_repeats, n_steps : int
        A round repeats ``n_steps`` updates of all parameters and ``n_steps`` of the selection weights ``n_repeats`` times.
    max_rounds : int
        Maximum number of rounds.
    second_step_epochs : int
        Updates on the final support.
    carry_gradient : bool
        Whether the screening gradient includes what the last update left behind.
    random_state : int, RandomState or None
        Seed of the weights.

    Examples
    --------
    >>> from skinnytrees.baselines.dfs import DFSClassifier
    >>> system = DFSClassifier(feature_budget=4, random_state=0)  # then system.fit(X, y)
    >>> sorted(system.tuning_space())
    ['hidden', 'learning_rate']
    """


class DFSRegressor(_DFS, BaselineRegressor):
    """DFS for numbers, with squared error on standardised targets; parameters as for `DFSClassifier`.

    Examples
    --------
    >>> from skinnytrees.baselines.dfs import DFSRegressor
    >>> DFSRegressor(feature_budget=3, size_rule="bic").size_rule
    'bic'
    """
