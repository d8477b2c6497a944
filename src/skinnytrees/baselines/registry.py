"""All systems by name, with what a comparison needs to know of them before it starts."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from skinnytrees.exceptions import refuse_unless


@dataclass(frozen=True)
class System:
    """One system.

    Attributes
    ----------
    name : str
        Short name.
    classifier, regressor : class or None
        None where the system is not defined for the task.
    cost : str
        Cost of one fit with its path on 1,000 rows and 500 columns: "seconds", "minutes" or "hours".
    description : str
        One line.
    """

    name: str
    classifier: type[Any] | None
    regressor: type[Any] | None
    cost: str
    description: str

    @property
    def needs(self) -> tuple[str, ...]:
        """Packages that must be installed."""
        return tuple((self.classifier or self.regressor)._needs)  # type: ignore[union-attr]

    @property
    def extra(self) -> str:
        """Extra of this library that installs them."""
        return str((self.classifier or self.regressor)._extra)  # type: ignore[union-attr]

    @property
    def binary_only(self) -> bool:
        """Whether the classifier takes two classes only."""
        return self.classifier is not None and bool(self.classifier._binary_only)

    @property
    def is_installed(self) -> bool:
        """Whether all packages are there."""
        return all(find_spec(package) is not None for package in self.needs)

    def of_task(self, task: str) -> type[Any] | None:
        """The class for "classification" or "regression"."""
        refuse_unless(
            task in ("classification", "regression"),
            f"task={task!r} is not known. Use 'classification' or 'regression'.",
        )
        return self.classifier if task == "classification" else self.regressor


def choose(systems: dict[str, System], task: str | None, n_classes: int | None) -> dict[str, System]:
    """Those that are installed, are defined for the task and take this many classes."""
    chosen = {}
    for name, system in systems.items():
        too_many = n_classes is not None and n_classes > 2 and system.binary_only and task != "regression"
        if system.is_installed and not too_many and (task is None or system.of_task(task) is not None):
            chosen[name] = system
    return chosen
