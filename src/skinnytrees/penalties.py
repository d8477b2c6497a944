"""Penalties on groups of hyperplane weights: small objects that turn a step number into thresholds.

The proximal step itself (``kernels/prox.py``) knows two numbers: a group is zeroed unless its norm exceeds ``hard``, and
what is left shrinks by ``soft``.
"""

import html
import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skinnytrees.exceptions import refuse_unless
from skinnytrees.kernels.compilation import kernel
from skinnytrees.kernels.prox import threshold_group

Array = NDArray[Any]

_threshold = kernel(threshold_group.py_func)


class Penalty(Protocol):
    """What training asks of a penalty."""

    def strength(self, step: Array) -> Array:
        """Penalty strength at each step, the first step being 1."""

    def thresholds(self, step: Array, eta: Array) -> tuple[Array, Array]:
        """``(hard, soft)`` at each step, for the learning rates ``eta``."""


class Searchable:
    """scikit-learn's ``get_params`` and ``set_params`` for a dataclass, so that a grid can name ``penalty__gamma``."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The numbers that the constructor takes."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Self:
        """Change numbers in place, which scikit-learn does to copies while it searches."""
        known = self.get_params()
        unknown = sorted(set(params) - set(known))
        refuse_unless(
            not unknown,
            f"{type(self).__name__} has no parameter {', '.join(map(repr, unknown))}. Use one of {sorted(known)}.",
        )
        checked = type(self)(**{**known, **params})
        for name, value in checked.get_params().items():
            object.__setattr__(self, name, value)
        return self

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"


@dataclass(frozen=True)
class GroupL0(Searchable):
    """``lambda0`` times the number of features in use, annealed from dense to sparse (paper, section 5.3).

    Parameters
    ----------
    gamma : float
        Largest ``lambda0``.
    rate : float or None, default=None
        ``lambda0(t) = gamma (1 - exp(-rate t))`` at step t = 1, 2, ...; None keeps ``lambda0 = gamma`` throughout.

    Examples
    --------
    >>> from skinnytrees.penalties import GroupL0
    >>> GroupL0(gamma=2.0).strength(1.0)
    2.0
    >>> round(float(GroupL0(gamma=2.0, rate=0.5).strength(1.0)), 4)
    0.7869

    Where to start a search: values between "nothing is removed" and "nothing is left".

    >>> import numpy as np
    >>> [round(penalty.gamma, 2) for penalty in GroupL0.grid(np.zeros((500, 30)), n_values=3)]
    [2.76, 12.36, 55.26]
    """

    gamma: float
    rate: float | None = None
    name: ClassVar[str] = "group_l0"

    def __post_init__(self) -> None:
        """Refuse negative numbers."""
        refuse_unless(self.gamma >= 0, f"gamma={self.gamma!r} must not be negative: it is the largest penalty.")
        refuse_unless(
            self.rate is None or self.rate > 0, f"rate={self.rate!r} must be positive, or None for a constant penalty."
        )

    @classmethod
    def grid(
        cls, X: Any, *, n_values: int = 10, n_estimators: int = 50, max_depth: int = 3, learning_rate: float = 0.1,
        max_epochs: int = 100, batch_size: int = 64,
    ) -> list["GroupL0"]:  # fmt: skip
        """Penalties to start a search with, from the weakest to the strongest.

        A feature whose weights stay at their random start has the squared norm ``2 k / (p + k)`` on average, for p columns and
        k splits in the ensemble; it is removed when ``gamma`` exceeds half of that over the learning rate. Useful features have
        grown by then. So the values lie between 0.3 and 6 times this one, evenly on a logarithmic scale.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The training table, of which only the shape counts.
        n_values : int, default=10
            How many penalties.
        n_estimators, max_depth, learning_rate, max_epochs, batch_size
            As they are given to the estimator; the defaults are the estimators' own with a penalty object.

        Returns
        -------
        list of GroupL0
            Annealed: ``rate`` is such that ``lambda0`` has come within one percent of ``gamma`` at the end of training.
        """
        n_rows, n_columns = np.shape(X)
        n_splits = n_estimators * (2**max_depth - 1)
        untrained = n_splits / ((n_columns + n_splits) * learning_rate)
        n_steps = max_epochs * math.ceil(n_rows / min(batch_size, n_rows))
        factors = np.geomspace(0.3, 6.0, n_values)
        return [cls(gamma=float(untrained * factor), rate=5.0 / n_steps) for factor in factors]

    def strength(self, step: Any) -> Any:
        """``lambda0`` at a step."""
        if self.rate is None:
            return self.gamma + 0.0 * step
        return -self.gamma * np.expm1(-self.rate * step)

    def thresholds(self, step: Array, eta: Array) -> tuple[Array, Array]:
        """A group survives only if its norm exceeds ``sqrt(2 eta lambda0)`` (paper, equation 5)."""
        return np.sqrt(2 * eta * self.strength(step)), np.zeros_like(eta)


@dataclass(frozen=True)
class GroupLasso(Searchable):
    """``lam`` times the sum of the groups' norms, with a proximal step: the paper's S-Prox.

    Parameters
    ----------
    lam : float
        Strength.

    Examples
    --------
    >>> from skinnytrees.penalties import GroupLasso
    >>> GroupLasso(lam=0.1).strength(1.0)
    0.1
    """

    lam: float
    name: ClassVar[str] = "group_lasso"

    def __post_init__(self) -> None:
        """Refuse a negative strength."""
        refuse_unless(self.lam >= 0, f"lam={self.lam!r} must not be negative.")

    def strength(self, step: Any) -> Any:
        """``lam``, at every step."""
        return self.lam + 0.0 * step

    def thresholds(self, step: Array, eta: Array) -> tuple[Array, Array]:
        """A group's norm shrinks by ``eta lam``, down to zero."""
        return np.zeros_like(eta), eta * self.strength(step)


@dataclass(frozen=True)
class NoPenalty(Searchable):
    """Dense soft trees.

    Examples
    --------
    >>> from skinnytrees.penalties import NoPenalty
    >>> NoPenalty().strength(1.0)
    0.0
    """

    name: ClassVar[str] = "none"

    def strength(self, step: Any) -> Any:
        """Zero."""
        return 0.0 * step

    def thresholds(self, step: Array, eta: Array) -> tuple[Array, Array]:
        """No group is touched."""
        return np.zeros_like(eta), np.zeros_like(eta)


# The penalties that model files know, by their names there. A new penalty is registered here, and nowhere else.
PENALTIES: dict[str, type[Any]] = {kind.name: kind for kind in (GroupL0, GroupLasso, NoPenalty)}


def hard_threshold(group: ArrayLike, threshold: float) -> Array:
    """Prox of the group l0 norm: the whole group if its norm exceeds the threshold, else zeros.

    Parameters
    ----------
    group : array
        Weights of one group.
    threshold : float
        ``sqrt(2 eta lambda0)``.

    Returns
    -------
    array

    Examples
    --------
    >>> from skinnytrees.penalties import hard_threshold
    >>> hard_threshold([3.0, 4.0], 4.9).tolist(), hard_threshold([3.0, 4.0], 5.0).tolist()
    ([3.0, 4.0], [0.0, 0.0])
    """
    return _prox(group, threshold, 0.0)


def soft_threshold(group: ArrayLike, threshold: float) -> Array:
    """Prox of the group lasso: the group with its norm shrunk by the threshold, zeros if nothing is left.

    Parameters
    ----------
    group : array
        Weights of one group.
    threshold : float
        ``eta lam``.

    Returns
    -------
    array

    Examples
    --------
    >>> from skinnytrees.penalties import soft_threshold
    >>> soft_threshold([3.0, 4.0], 2.5).tolist(), soft_threshold([3.0, 4.0], 6.0).tolist()
    ([1.5, 2.0], [0.0, 0.0])
    """
    return _prox(group, 0.0, threshold)


def _prox(group: ArrayLike, hard: float, soft: float) -> Array:
    result = np.array(group, dtype=float)
    _threshold(result.reshape(1, -1), hard, soft)
    return result
