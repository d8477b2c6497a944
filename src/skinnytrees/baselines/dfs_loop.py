"""The loop of DFS: screen by gradients, train on the candidates, prune to k features (Chen, Gao, Liang and Wang 2021)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.baselines.networks import (
    Generator,
    LoopSettings,
    Network,
    PerRowLoss,
    Rows,
    Tensor,
    check_finite,
    import_torch,
    loss_value,
    make_optimizer,
    mean_loss,
    train,
)


@dataclass(frozen=True)
class DFSSettings:
    """Numbers of the loop: the authors' for classification, their weight decays at c = 1.

    ``carry_gradient`` adds what the last update left in the gradient to the one that screens, as the authors' code does.
    """

    learning_rate: float = 0.05
    optimizer: str = "adam"
    weight_decay: float = 0.0025
    selection_weight_decay: float = 0.0005
    n_repeats: int = 250
    n_steps: int = 5
    max_rounds: int = 10
    carry_gradient: bool = False


class Round(NamedTuple):
    """Result of one round: its candidates, the features it kept and the training loss on these."""

    candidates: NDArray[np.intp]
    support: NDArray[np.intp]
    loss: float


@dataclass
class SelectionNetwork:
    """A weight ``s`` per feature in front of a network.

    ``group`` has the feature of each column, ``trained`` are the parameters behind ``s`` that are trained.
    """

    s: Tensor
    group: Tensor
    network: Callable[[Tensor], Tensor]
    trained: Sequence[Tensor]

    @classmethod
    def start(cls, network: Network, n_groups: int, group: Tensor, generator: Generator) -> "SelectionNetwork":
        """The authors' start: s uniform in +-1/sqrt(p)."""
        torch = import_torch()
        s = (2 * torch.rand(n_groups, generator=generator, dtype=network.weights[0].dtype) - 1) * n_groups**-0.5
        return cls(s.requires_grad_(), group, network, network.parameters)

    def __call__(self, X: Tensor) -> Tensor:
        """One column per output."""
        return self.network(X * self.s[self.group])

    @property
    def parameters(self) -> list[Tensor]:
        """S and the parameters behind it."""
        return [self.s, *self.trained]


def select_features(
    model: SelectionNetwork,
    rows: Rows,
    loss: PerRowLoss,
    k: int,
    settings: DFSSettings,
    support: NDArray[np.intp] | None = None,
) -> list[Round]:
    """Set ``model`` to the round with the lowest training loss, with at most k features; return all rounds.

    ``support`` is what the first round starts from, by default all features: then it trains all of them.
    """
    torch = import_torch()
    everything = _loop(settings, settings.weight_decay)
    selection = _loop(settings, settings.selection_weight_decay)
    optimizers = (make_optimizer(model.parameters, everything), make_optimizer([model.s], selection))
    current = np.arange(len(model.s)) if support is None else support
    rounds: list[Round] = []
    kept: list[Tensor] = []
    for _ in range(settings.max_rounds):
        candidates = _candidates(model, rows, loss, k, current, settings.carry_gradient)
        _train_candidates(model, rows, loss, candidates, settings, optimizers)
        pruned = _prune(model.s, candidates, k)
        rounds.append(Round(candidates, pruned, loss_value(model, rows, loss)))
        if rounds[-1].loss <= min(r.loss for r in rounds):
            kept = [P.detach().clone() for P in model.parameters]
        if np.array_equal(pruned, current):
            break
        current = pruned
    with torch.no_grad():
        for P, best in zip(model.parameters, kept, strict=True):
            P.copy_(best)
    return rounds


def best_round(rounds: Sequence[Round]) -> Round:
    """The round that `select_features` goes back to: the lowest training loss, of equal ones the last."""
    lowest = min(r.loss for r in rounds)
    return next(r for r in reversed(rounds) if r.loss == lowest)


def train_on_support(model: SelectionNetwork, rows: Rows, loss: PerRowLoss, settings: LoopSettings) -> float:
    """The second step: s stays as it is, the parameters behind it are trained; return the last training loss."""
    generator = import_torch().Generator()  # full batches: nothing is drawn
    return train(model.trained, lambda _: mean_loss(model(rows.X), rows, loss), len(rows.X), settings, generator).loss


def _loop(settings: DFSSettings, weight_decay: float) -> LoopSettings:
    return LoopSettings(settings.learning_rate, 1, optimizer=settings.optimizer, weight_decay=weight_decay)


def _candidates(
    model: SelectionNetwork, rows: Rows, loss: PerRowLoss, k: int, support: NDArray[np.intp], carry_gradient: bool
) -> NDArray[np.intp]:
    """The 2k features with the largest gradient in s, and the present support."""
    if not carry_gradient:
        model.s.grad = None
    mean_loss(model(rows.X), rows, loss).backward()
    gradient = model.s.grad.abs().numpy()
    steepest = np.argsort(-gradient, kind="stable")[: 2 * k]
    return np.union1d(steepest, support)


def _train_candidates(
    model: SelectionNetwork,
    rows: Rows,
    loss: PerRowLoss,
    candidates: NDArray[np.intp],
    settings: DFSSettings,
    optimizers: tuple[Any, Any],
) -> None:
    """Alternate between all parameters and s alone; entries of s outside the candidates are restored after each update."""
    torch = import_torch()
    outside = torch.ones(len(model.s), dtype=torch.bool)
    outside[candidates.tolist()] = False
    before = model.s.detach()[outside].clone()
    any_outside = bool(outside.any())
    for _ in range(settings.n_repeats):
        for optimizer in optimizers:
            for _ in range(settings.n_steps):
                optimizer.zero_grad()
                value = mean_loss(model(rows.X), rows, loss)
                value.backward()
                optimizer.step()
                if any_outside:
                    with torch.no_grad():
                        model.s[outside] = before
    check_finite(value, settings.learning_rate)


def _prune(s: Tensor, candidates: NDArray[np.intp], k: int) -> NDArray[np.intp]:
    """Keep the k candidates with the largest weights and set all other weights to zero, in place."""
    size = np.full(len(s), -1.0)
    size[candidates] = s.detach().abs().numpy()[candidates]
    support = np.sort(np.argsort(-size, kind="stable")[:k])
    with import_torch().no_grad():
        kept = s[support.tolist()].clone()
        s.zero_()
        s[support.tolist()] = kept
    return support
