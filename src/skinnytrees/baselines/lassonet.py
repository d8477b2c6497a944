"""LassoNet through its own package (Lemhadri, Ruan, Abraham and Tibshirani, JMLR 2021)."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from skinnytrees.baselines.base import (
    CONSTRAINTS,
    Baseline,
    BaselineClassifier,
    BaselineRegressor,
    Fitted,
    Problem,
)
from skinnytrees.baselines.network_task import (
    REFIT_EPOCHS,
    Candidate,
    NetworkTask,
    Widths,
    candidate,
    choose,
    layer_widths,
)
from skinnytrees.baselines.networks import FittedNetwork
from skinnytrees.baselines.selection_path import PathEntry
from skinnytrees.exceptions import DivergenceError, import_optional


class _LassoNet(Baseline):
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "feature_budget": CONSTRAINTS["feature_budget"],
        "hidden": ["array-like"],
        "M": [Interval(Real, 0, None, closed="neither")],
        "path_multiplier": [Interval(Real, 1, None, closed="neither")],
        "lambdas": ["array-like", None],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "max_epochs": ["array-like"],
        "patience": ["array-like"],
        "refit": ["boolean"],
        "refit_epochs": [Interval(Integral, 1, None, closed="left")],
        "validation_fraction": CONSTRAINTS["validation_fraction"],
        "random_state": CONSTRAINTS["random_state"],
    }
    _standardize = True
    _needs_validation = True
    _honours_weights = False
    # The package brings torch.
    _needs = ("lassonet",)
    _extra = "torch"

    def __init__(
        self,
        feature_budget: float | None = None,
        *,
        hidden: Widths = (100,),
        M: float = 10.0,
        path_multiplier: float = 1.02,
        lambdas: Sequence[float] | None = None,
        batch_size: int | None = None,
        max_epochs: Sequence[int] = (1000, 100),
        patience: Sequence[int] = (100, 10),
        refit: bool = True,
        refit_epochs: int = REFIT_EPOCHS,
        validation_fraction: float = 0.1,
        random_state: Any = None,
    ) -> None:
        self.feature_budget = feature_budget
        self.hidden = hidden
        self.M = M
        self.path_multiplier = path_multiplier
        self.lambdas = lambdas
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.refit = refit
        self.refit_epochs = refit_epochs
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    @classmethod
    def tuning_space(cls) -> dict[str, tuple[Any, ...]]:
        """The supplement's ranges; it used a path of 100 values of lambda in [1, 1e4] for each of these settings.

        Returns
        -------
        dict
            See `Baseline.tuning_space`.
        """
        return {
            "hidden": ("choice", ((1 / 3,), (2 / 3,), (1.0,), (4 / 3,))),
            "batch_size": ("choice", (64, 128, 256, 512)),
        }

    def _fit_problem(self, problem: Problem) -> Fitted:
        task = NetworkTask.of(problem)
        return choose(task, self._path(task), self.hidden, "relu", self.refit, self.refit_epochs)

    def _path(self, task: NetworkTask) -> list[Candidate]:
        """One candidate per lambda; a network is kept on the columns that it uses, and only within the budget."""
        points: list[Candidate] = []
        left_at = np.zeros(task.n_groups)

        def record(system: Any, history: list[Any]) -> None:
            last = history[-1]
            left_at[_groups_in_use(task, last.selected)] = len(history)
            support = task.features[_groups_in_use(task, last.selected)]
            fits = len(support) <= task.problem.budget
            network = _cut(system.model, task.problem.columns_of(support) if fits else np.arange(0))
            setting = {"lambda": float(last.lambda_)}
            points.append(
                candidate(task, network, support, setting, left_at.copy())
                if fits
                else Candidate(PathEntry(len(support), support, setting, float("nan")), network, left_at.copy())
            )

        self._walk(task, record)
        # A feature's importance is how long it stays, whichever point is chosen.
        return [point._replace(importance=left_at) for point in points]

    def _walk(self, task: NetworkTask, record: Any) -> None:
        """Run the package's path; its random numbers come from torch's global generator, whose state is restored afterwards."""
        import torch
        from lassonet.interfaces import NonFiniteLossError

        system = self._system(task)
        rows, val = task.train, task.train if task.val is None else task.val
        X, y = rows.X.numpy(), _target(rows.target)
        with torch.random.fork_rng(devices=[]):
            try:
                # Explicit validation rows: otherwise the package would hold out some of the training rows.
                system.path(
                    X,
                    y,
                    X_val=val.X.numpy(),
                    y_val=_target(val.target),
                    lambda_seq=None if self.lambdas is None else [float(value) for value in self.lambdas],
                    callback=record,
                    disable_lambda_warning=True,
                )
            except NonFiniteLossError as error:
                raise DivergenceError(
                    f"LassoNet's training loss is not finite with hidden={self.hidden!r}. Use smaller layers, or a larger "
                    "batch_size."
                ) from error

    def _system(self, task: NetworkTask) -> Any:
        """A new object of the package with every setting given: its classifiers cannot be cloned."""
        lassonet = import_optional("lassonet", type(self).__name__, self._extra)
        kind = lassonet.LassoNetClassifier if task.problem.n_classes else lassonet.LassoNetRegressor
        several = len(task.group) > task.n_groups
        groups = [np.flatnonzero(task.group.numpy() == g).tolist() for g in range(task.n_groups)] if several else None
        return kind(
            hidden_dims=tuple(layer_widths(self.hidden, task.n_columns)),
            M=self.M,
            path_multiplier=self.path_multiplier,
            groups=groups,
            batch_size=self.batch_size,
            n_iters=tuple(self.max_epochs),
            patience=tuple(self.patience),
            device="cpu",
            verbose=0,
            torch_seed=task.problem.seed,
        )


def _target(target: Any) -> NDArray[Any]:
    return np.asarray(target.numpy())


def _groups_in_use(task: NetworkTask, selected: Any) -> NDArray[np.intp]:
    return np.unique(task.group.numpy()[selected.numpy()])


def _cut(model: Any, columns: NDArray[np.intp]) -> FittedNetwork:
    """The package's network on some of its inputs, as arrays."""
    weights = [layer.weight.detach().double().numpy().T.copy() for layer in model.layers]
    biases = [layer.bias.detach().double().numpy().copy() for layer in model.layers]
    skip = model.skip.weight.detach().double().numpy().T
    return FittedNetwork((weights[0][columns], *weights[1:]), tuple(biases), "relu", skip[columns].copy())


class LassoNetClassifier(_LassoNet, BaselineClassifier):
    """LassoNet: a ReLU network with a linear skip layer that decides which features the network may use.

    The path starts at a dense network and raises lambda, the penalty on the skip weights, until no feature is left; a feature's
    first-layer weights are at most M times its skip weight.

    Source: Lemhadri, Ruan, Abraham and Tibshirani, LassoNet: a neural network with feature sparsity, JMLR 2021, by the package
    ``lassonet``. Ours: what the package leaves to its users. Every setting reaches the package, validation rows are explicit,
    class labels are encoded, torch's random state is restored, one group for all columns of a category, networks are kept only
    within the budget and only on the columns in use, and the refit. The package's ``gamma`` terms do not reach the gradient and
    are not offered. With ``batch_size``, the package leaves out the last incomplete batch of each epoch. It does not support
    sample weights.

    Parameters
    ----------
    feature_budget : int, float or None
        At most this many features, or this fraction of them; None allows all.
    hidden : sequence
        Widths of the ReLU layers: numbers of units (int), or multiples of the number of columns (float).
    M : float
        Hierarchy: how large a feature's first-layer weights may be relative to its skip weight.
    path_multiplier : float
        Ratio of a lambda to the previous one. Larger values are faster and coarser.
    lambdas : sequence of float or None
        Increasing penalties of the path; None starts where the first features are about to leave and multiplies by
        ``path_multiplier``.
    batch_size : int or None
        Rows per step; None is all.
    max_epochs, patience : pairs of int
        Maximum number of epochs, and number of epochs without an improvement of one per cent on validation rows after
        which training ends, for the dense network and for each lambda.
    refit : bool
        Whether the final model is a plain network fitted on the selected features; else it is the path's own.
    refit_epochs : int
        Maximum number of epochs of that network.
    validation_fraction : float
        Fraction of the rows that is held out to stop training and to choose by, unless ``X_val`` is given.
    random_state : int, RandomState or None
        Seed of weights, batches and split.

    Examples
    --------
    >>> from skinnytrees.baselines.lassonet import LassoNetClassifier
    >>> system = LassoNetClassifier(feature_budget=5, random_state=0)  # then system.fit(X, y)
    >>> sorted(system.tuning_space())
    ['batch_size', 'hidden']
    """


class LassoNetRegressor(_LassoNet, BaselineRegressor):
    """LassoNet for numbers, with squared error on standardised targets; parameters as for `LassoNetClassifier`.

    Examples
    --------
    >>> from skinnytrees.baselines.lassonet import LassoNetRegressor
    >>> LassoNetRegressor(feature_budget=5).M
    10.0
    """
