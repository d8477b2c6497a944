"""Optimisers and learning-rate schedules as small parts.

A schedule gives the rate of every step. An optimiser names its kind of steps; ``training/epoch_runners`` has the code for it.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from skinnytrees.exceptions import refuse_unless

# The kinds of steps that training knows: with a threshold after each, without any, and those of Adam.
Steps = Literal["proximal", "fixed_support", "adam"]


class RateSchedule(Protocol):
    """What training asks of a learning-rate schedule."""

    def rates(self, step: NDArray[Any], n_steps: int, learning_rate: float) -> NDArray[np.float64]:
        """Learning rate at each step (the first step is 1) of a training of ``n_steps``."""


@dataclass(frozen=True)
class Constant:
    """The same rate at every step.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.optimizers import Constant
    >>> Constant().rates(np.array([1, 2]), 2, 0.1).tolist()
    [0.1, 0.1]
    """

    name: ClassVar[str] = "constant"

    def rates(self, step: NDArray[Any], n_steps: int, learning_rate: float) -> NDArray[np.float64]:
        """Learning rate at each step."""
        return np.full(len(step), learning_rate)


@dataclass(frozen=True)
class OneCycle:
    """Warm up along a cosine to the full rate, then anneal along a cosine to almost nothing.

    Parameters
    ----------
    warm_up : float, default=0.3
        Fraction of the steps that go up.
    start : float, default=0.04
        First rate as a fraction of the full one.
    end : float, default=0.0001
        Last rate as a fraction of the full one.

    Examples
    --------
    >>> import numpy as np
    >>> from skinnytrees.optimizers import OneCycle
    >>> OneCycle(warm_up=0.5).rates(np.array([1, 51, 100]), 100, 1.0).round(2).tolist()
    [0.04, 1.0, 0.0]
    """

    warm_up: float = 0.3
    start: float = 0.04
    end: float = 1e-4
    name: ClassVar[str] = "one_cycle"

    def __post_init__(self) -> None:
        """Refuse a warm-up that is no fraction."""
        refuse_unless(0 < self.warm_up < 1, f"warm_up={self.warm_up!r} must lie between 0 and 1, such as 0.3.")

    def rates(self, step: NDArray[Any], n_steps: int, learning_rate: float) -> NDArray[np.float64]:
        """Learning rate at each step."""
        done = (np.asarray(step) - 1) / max(1, n_steps - 1)
        up = np.clip(done / self.warm_up, 0, 1)
        down = np.clip((done - self.warm_up) / (1 - self.warm_up), 0, 1)
        rising = self.start + (1 - self.start) * (1 - np.cos(np.pi * up)) / 2
        falling = self.end + (1 - self.end) * (1 + np.cos(np.pi * down)) / 2
        return learning_rate * np.where(done < self.warm_up, rising, falling)


class Optimizer(Protocol):
    """What training asks of an optimiser."""

    steps: ClassVar[Steps]
    has_prox: ClassVar[bool]


@dataclass(frozen=True)
class SGD:
    """The paper's plain proximal gradient steps.

    Examples
    --------
    >>> from skinnytrees.optimizers import SGD
    >>> SGD().has_prox
    True
    """

    name: ClassVar[str] = "sgd"
    steps: ClassVar[Steps] = "proximal"
    has_prox: ClassVar[bool] = True


@dataclass(frozen=True)
class FixedSupportSGD:
    """Plain gradient steps without a threshold.

    Examples
    --------
    >>> from skinnytrees.optimizers import FixedSupportSGD
    >>> FixedSupportSGD().has_prox
    False
    """

    steps: ClassVar[Steps] = "fixed_support"
    has_prox: ClassVar[bool] = False


@dataclass(frozen=True)
class Adam:
    """Adam, for training at a fixed support: it has no proximal step, so it takes no penalty.

    Examples
    --------
    >>> from skinnytrees.optimizers import Adam
    >>> Adam().has_prox
    False
    """

    name: ClassVar[str] = "adam"
    steps: ClassVar[Steps] = "adam"
    has_prox: ClassVar[bool] = False


SCHEDULES: dict[str, type[Constant] | type[OneCycle]] = {kind.name: kind for kind in (Constant, OneCycle)}
OPTIMIZERS: dict[str, type[SGD] | type[Adam]] = {kind.name: kind for kind in (SGD, Adam)}
