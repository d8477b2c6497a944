"""The paper's Algorithm 1 in plain PyTorch, as a second opinion on results and a yardstick for speed.

Same arithmetic as ``skinnytrees.training.loop`` with ``SGD``, ``Multinomial`` and ``GroupL0`` at a constant rate, by other
means: autograd instead of a pass back up the trees, and ``torch.optim.SGD``. Needs torch 2.4 or newer.
"""

from collections.abc import Callable, Iterator

import numpy as np

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ImportError as error:
    raise ImportError("This needs PyTorch 2.4 or newer: pip install -c constraints.txt -e '.[torch]'") from error

from skinnytrees.activations import Activation, Sigmoid, SmoothStep
from skinnytrees.kernels.state import Trees
from skinnytrees.penalties import GroupL0
from skinnytrees.training.loop import TrainingSettings


class SoftTrees(nn.Module):
    """An ensemble of perfect binary soft trees, all trees at once; weights are laid out as in ``Trees``."""

    def __init__(self, start: Trees, activation: Activation) -> None:
        super().__init__()
        self.n_trees = start.n_trees
        self.depth = (start.O.shape[1] // start.n_trees).bit_length() - 1
        self.probability_left = probability_left(activation)
        self.W = nn.Parameter(torch.tensor(start.W))
        self.b = nn.Parameter(torch.tensor(start.b))
        self.O = nn.Parameter(torch.tensor(start.O.T).contiguous())

    def forward(self, X: Tensor) -> Tensor:
        S = self.probability_left(torch.addmm(self.b, X, self.W)).view(len(X), -1, self.n_trees)
        reach = S.new_ones(1, 1, 1)
        for level in range(self.depth):
            left = reach * S[:, 2**level - 1 : 2 ** (level + 1) - 1]
            reach = torch.cat([left, reach - left], dim=1)
        return reach.flatten(1) @ self.O

    @torch.no_grad()
    def threshold_groups(self, threshold: float) -> int:
        """Zero the rows of W whose norm is not above the threshold (paper, equation 5); how many are left."""
        kept = torch.linalg.vector_norm(self.W, dim=1) > threshold
        self.W.mul_(kept[:, None])
        return int(kept.sum())


def probability_left(activation: Activation) -> Callable[[Tensor], Tensor]:
    """The package's activation in torch."""
    theta = activation.theta
    if isinstance(activation, Sigmoid):
        return torch.sigmoid if theta == 1 else lambda Z: torch.sigmoid(Z / theta)
    assert isinstance(activation, SmoothStep)
    return lambda Z: smooth_step(Z / theta)


def smooth_step(Z: Tensor) -> Tensor:
    Z = Z.clamp(-1, 1)
    return 0.5 + 0.25 * Z * (3 - Z * Z)


def run_epochs(
    model: SoftTrees, X: Tensor, y: Tensor, settings: TrainingSettings, rng: np.random.Generator, tuned: bool
) -> Iterator[tuple[float, int]]:
    """Train in place; after every epoch give its mean loss and the number of features in use.

    The ridge ``l2 / (trees x splits) ||W||^2`` is a term of the loss, as one writes it first. ``tuned`` is what torch does
    fastest: weight decay on W instead, and the fused step.
    """
    assert isinstance(settings.penalty, GroupL0)
    ridge = settings.l2 / len(model.b)
    optimizer = new_optimizer(model, settings.learning_rate, 2 * ridge if tuned else None)
    step = 0
    for _ in range(settings.n_epochs):
        total = 0.0
        for rows in torch.from_numpy(rng.permutation(len(X))).split(settings.batch_size):
            step += 1
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(X[rows]), y[rows])
            (loss if tuned else loss + ridge * model.W.square().sum()).backward()
            optimizer.step()
            n_features = model.threshold_groups(l0_threshold(settings.penalty, step, settings.learning_rate))
            total += loss.item() * len(rows)
        yield total / len(X), n_features


def new_optimizer(model: SoftTrees, learning_rate: float, weight_decay: float | None) -> torch.optim.SGD:
    """Plain SGD; with weight decay (on W alone), its fused form."""
    if weight_decay is None:
        return torch.optim.SGD(model.parameters(), lr=learning_rate)
    parameters = [{"params": [model.W], "weight_decay": weight_decay}, {"params": [model.b, model.O]}]
    return torch.optim.SGD(parameters, lr=learning_rate, fused=True)


def l0_threshold(penalty: GroupL0, step: int, learning_rate: float) -> float:
    """``sqrt(2 eta lambda0(t))`` with the annealed lambda0 (paper, section 5.3)."""
    annealed = 1.0 if penalty.rate is None else 1 - np.exp(-penalty.rate * step)
    return float(np.sqrt(2 * learning_rate * penalty.gamma * annealed))
