"""Small fully connected networks on torch, shared by the neural systems: layers, losses, loops, the group proximal step.

Which features a network may use is decided in the modules of the systems. torch is imported inside functions only, every random
number comes from a generator of its own, and torch's global random state and number of threads are left alone. A fitted network
is a few NumPy arrays: predicting needs no torch.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import DivergenceError, import_optional, refuse_unless

# Tensors and modules of torch; torch itself is optional and has no types that hold with and without it.
Tensor = Any
Generator = Any
PerRowLoss = Callable[[Tensor, Tensor], Tensor]

ACTIVATIONS = ("relu", "tanh", "identity")
STARTS = ("glorot", "uniform", "normal")


def import_torch() -> Any:
    """The torch package, or an error that names the extra to install."""
    return import_optional("torch", "This system", "torch")


def seeded(seed: int) -> Generator:
    """A random generator of its own."""
    return import_torch().Generator().manual_seed(int(seed))


class Rows(NamedTuple):
    """Rows as tensors: inputs, targets (class codes, or numbers with one column per output) and weights."""

    X: Tensor
    target: Tensor
    weight: Tensor

    def take(self, index: Tensor) -> "Rows":
        """Some of the rows."""
        return Rows(self.X[index], self.target[index], self.weight[index])

    def keep_columns(self, columns: NDArray[np.intp]) -> "Rows":
        """Some of the columns."""
        return self._replace(X=self.X[:, columns.tolist()].contiguous())


def make_rows(
    X: NDArray[Any], y: NDArray[Any], sample_weight: NDArray[Any] | None = None, dtype: str = "float32"
) -> Rows:
    """Copies of NumPy arrays as tensors; integers in ``y`` are class codes, floats are numbers to predict."""
    torch = import_torch()
    real = getattr(torch, dtype)
    weight = np.ones(len(y)) if sample_weight is None else sample_weight
    is_code = np.issubdtype(np.asarray(y).dtype, np.integer)
    target = torch.tensor(np.asarray(y), dtype=torch.int64 if is_code else real)
    return Rows(
        torch.tensor(np.asarray(X), dtype=real),
        target if is_code or target.ndim == 2 else target[:, None],
        torch.tensor(np.asarray(weight), dtype=real),
    )


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    """Negative log-likelihood of each row; ``output`` has one logit per class."""
    return import_torch().nn.functional.cross_entropy(output, target, reduction="none")


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    """Squared error of each row, the mean over outputs."""
    return (output - target).square().mean(dim=1)


def mean_loss(output: Tensor, rows: Rows, loss: PerRowLoss) -> Tensor:
    """Weighted mean of the rows' losses."""
    return (rows.weight * loss(output, rows.target)).sum() / rows.weight.sum()


@dataclass
class Network:
    """Fully connected layers; ``weights[l]`` has a row per input of layer l, so row k of the first belongs to feature k."""

    weights: list[Tensor]
    biases: list[Tensor]
    activation: str

    @property
    def parameters(self) -> list[Tensor]:
        """All tensors that are trained."""
        return [*self.weights, *self.biases]

    def __call__(self, X: Tensor) -> Tensor:
        """One column per output."""
        torch = import_torch()
        activate = {"relu": torch.relu, "tanh": torch.tanh, "identity": lambda Z: Z}[self.activation]
        last = len(self.weights) - 1
        for layer, (W, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            X = torch.addmm(b, X, W)
            X = X if layer == last else activate(X)
        return X

    def fitted(self, columns: NDArray[np.intp] | None = None, scale: Tensor | None = None) -> "FittedNetwork":
        """The network as arrays on some of its inputs, the rows of the first layer multiplied by ``scale``."""
        first = self.weights[0].detach()
        first = first if scale is None else first * scale.detach()[:, None]
        chosen = first if columns is None else first[columns.tolist()]
        weights = [chosen, *self.weights[1:]]
        return FittedNetwork(
            tuple(W.detach().double().numpy().copy() for W in weights),
            tuple(b.detach().double().numpy().copy() for b in self.biases),
            self.activation,
        )


@dataclass(frozen=True)
class FittedNetwork:
    """A trained network as NumPy arrays; ``skip`` (LassoNet) is a linear map from inputs to outputs that is added."""

    weights: tuple[NDArray[np.float64], ...]
    biases: tuple[NDArray[np.float64], ...]
    activation: str
    skip: NDArray[np.float64] | None = None

    def __call__(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """One column per output."""
        X = np.asarray(X, dtype=np.float64)
        hidden = X
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = _activate(hidden @ W + b, self.activation)
        output = hidden @ self.weights[-1] + self.biases[-1]
        return output if self.skip is None else output + X @ self.skip


def _activate(Z: NDArray[np.float64], activation: str) -> NDArray[np.float64]:
    if activation == "relu":
        return np.maximum(Z, 0.0)
    return np.tanh(Z) if activation == "tanh" else Z


def make_network(
    n_inputs: int,
    hidden: Sequence[int],
    n_outputs: int,
    generator: Generator,
    *,
    activation: str = "relu",
    start: str = "glorot",
    dtype: str = "float32",
) -> Network:
    """A network with random weights.

    ``start`` is ``"glorot"`` (uniform, variance 2 / (inputs + outputs), zero biases), ``"uniform"`` (weights and biases uniform
    in +-1/sqrt(inputs), torch's own rule for linear layers) or ``"normal"`` (standard normal, unscaled).
    """
    refuse_unless(activation in ACTIVATIONS, f"activation={activation!r} is not known. Use one of {ACTIVATIONS}.")
    refuse_unless(start in STARTS, f"init={start!r} is not known. Use one of {STARTS}.")
    sizes = [n_inputs, *(int(width) for width in hidden), n_outputs]
    layers = [_start_layer(a, b, start, generator, dtype) for a, b in itertools.pairwise(sizes)]
    return Network([W for W, _ in layers], [b for _, b in layers], activation)


def _start_layer(n_in: int, n_out: int, start: str, generator: Generator, dtype: str) -> tuple[Tensor, Tensor]:
    torch = import_torch()
    kind: dict[str, Any] = {"generator": generator, "dtype": getattr(torch, dtype)}
    if start == "normal":
        W, b = torch.randn(n_in, n_out, **kind), torch.randn(n_out, **kind)
    else:
        limit = (6 / (n_in + n_out)) ** 0.5 if start == "glorot" else n_in**-0.5
        W = (2 * torch.rand(n_in, n_out, **kind) - 1) * limit
        b = (2 * torch.rand(n_out, **kind) - 1) * (limit if start == "uniform" else 0.0)
    return W.requires_grad_(), b.requires_grad_()


@dataclass(frozen=True)
class LoopSettings:
    """Settings of a loop of gradient steps; ``batch_size=None`` is one step per epoch on all rows.

    With validation rows the loop ends after ``patience`` epochs without a lower validation loss, checked every ``check_every``
    epochs, and the best parameters are restored.
    """

    learning_rate: float
    max_epochs: int
    batch_size: int | None = None
    optimizer: str = "adam"
    weight_decay: float = 0.0
    patience: int = 50
    check_every: int = 1


def make_optimizer(parameters: Sequence[Tensor], settings: LoopSettings) -> Any:
    """One of torch's optimizers."""
    torch = import_torch()
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    return kinds[settings.optimizer](parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay)


class Training(NamedTuple):
    """The lowest validation loss and its epoch, or the last training loss and epoch where there are no validation rows."""

    loss: float
    best_epoch: int


def train(
    parameters: Sequence[Tensor],
    batch_loss: Callable[[Tensor | None], Tensor],
    n_rows: int,
    settings: LoopSettings,
    generator: Generator,
    *,
    after_step: Callable[[], None] | None = None,
    validation_loss: Callable[[], Tensor] | None = None,
) -> Training:
    """Train in place; with validation rows the best parameters are restored, otherwise the last ones stay.

    ``batch_loss`` is given the numbers of the batch's rows, or None for all rows.
    """
    optimizer = make_optimizer(parameters, settings)
    watch = None if validation_loss is None else _Watch(parameters, validation_loss, settings.patience)
    last = float("nan")
    for epoch in range(1, settings.max_epochs + 1):
        for batch in _batches(n_rows, settings.batch_size, generator):
            optimizer.zero_grad()
            loss = batch_loss(batch)
            loss.backward()
            optimizer.step()
            if after_step is not None:
                after_step()
        if epoch % settings.check_every == 0 or epoch == settings.max_epochs:
            last = check_finite(loss, settings.learning_rate)
            if watch is not None and watch.should_stop(epoch):
                break
    return Training(last, settings.max_epochs) if watch is None else watch.restore()


def check_finite(loss: Tensor, learning_rate: float) -> float:
    """The loss as a number; one that is not finite is an error."""
    value = float(loss.detach())
    if not np.isfinite(value):
        raise DivergenceError(
            f"The network's training loss became {value} at learning_rate={learning_rate:g}. Use a smaller learning_rate."
        )
    return value


def _batches(n_rows: int, batch_size: int | None, generator: Generator) -> Iterator[Tensor | None]:
    """Numbers of the rows of each batch, in a new order each time; None stands for all rows."""
    if batch_size is None or batch_size >= n_rows:
        yield None
        return
    order = import_torch().randperm(n_rows, generator=generator)
    # The remainder is not a batch of its own: a step on one or two rows would only add noise.
    for start in range(0, n_rows - batch_size // 2, batch_size):
        yield order[start : start + batch_size]


class _Watch:
    """Keeps the parameters with the lowest validation loss."""

    def __init__(self, parameters: Sequence[Tensor], validation_loss: Callable[[], Tensor], patience: int) -> None:
        self.parameters, self.validation_loss, self.patience = parameters, validation_loss, patience
        self.best, self.best_epoch = float("inf"), 0
        self.kept = [P.detach().clone() for P in parameters]

    def should_stop(self, epoch: int) -> bool:
        with import_torch().no_grad():
            loss = float(self.validation_loss())
        if loss < self.best:
            self.best, self.best_epoch = loss, epoch
            self.kept = [P.detach().clone() for P in self.parameters]
        return epoch - self.best_epoch >= self.patience

    def restore(self) -> Training:
        with import_torch().no_grad():
            for P, kept in zip(self.parameters, self.kept, strict=True):
                P.copy_(kept)
        return Training(self.best, self.best_epoch)


def train_network(
    network: Network,
    rows: Rows,
    loss: PerRowLoss,
    settings: LoopSettings,
    generator: Generator,
    validation: Rows | None = None,
    after_step: Callable[[], None] | None = None,
) -> Training:
    """Train a network without a penalty in the loss; see `train`."""

    def batch_loss(batch: Tensor | None) -> Tensor:
        part = rows if batch is None else rows.take(batch)
        return mean_loss(network(part.X), part, loss)

    def validation_loss() -> Tensor:
        assert validation is not None
        return mean_loss(network(validation.X), validation, loss)

    watch = None if validation is None else validation_loss
    return train(
        network.parameters, batch_loss, len(rows.X), settings, generator, after_step=after_step, validation_loss=watch
    )


def group_norms(W: Tensor, group: Tensor) -> Tensor:
    """Euclidean norm of the rows of each group; ``group`` has the group's number of each row."""
    squares = W.detach().square().sum(dim=1)
    return squares.new_zeros(int(group.max()) + 1).index_add(0, group, squares).sqrt()


def shrink_groups(W: Tensor, group: Tensor, thresholds: Tensor) -> None:
    """Proximal step of a group lasso, in place: the rows W_g of group g become W_g max(0, 1 - t_g / ||W_g||)."""
    torch = import_torch()
    with torch.no_grad():
        norms = W.new_zeros(len(thresholds)).index_add(0, group, W.square().sum(dim=1)).sqrt()
        factor = (1 - thresholds / norms.clamp_min(torch.finfo(W.dtype).tiny)).clamp_min(0)
        W.mul_(factor[group][:, None])


def loss_value(network: Callable[[Tensor], Tensor], rows: Rows, loss: PerRowLoss) -> float:
    """Mean loss without gradients."""
    with import_torch().no_grad():
        return float(mean_loss(network(rows.X), rows, loss))
