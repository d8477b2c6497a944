"""Errors that say what is wrong and what to do."""

import importlib
from typing import Any


class DivergenceError(ValueError):
    """Training diverged: the loss or the weights are no longer finite numbers.

    Examples
    --------
    >>> from skinnytrees.exceptions import DivergenceError
    >>> issubclass(DivergenceError, ValueError)
    True
    """


class ModelFileError(ValueError):
    """A file does not hold a model that this version can read.

    Examples
    --------
    >>> from io import BytesIO
    >>> from skinnytrees import load
    >>> from skinnytrees.exceptions import ModelFileError
    >>> try:
    ...     load(BytesIO(b"age,weight"))
    ... except ModelFileError as error:
    ...     print(str(error).split(": ")[1][:22])
    it looks like text. lo
    """


def refuse_unless(condition: bool, message: str) -> None:
    """Raise a ValueError with ``message`` unless the condition holds."""
    if not condition:
        raise ValueError(message)


def cannot_write(error: OSError, message: str) -> OSError:
    """The same error, as of a full disk, with words about what was to be written and what to do."""
    text = f"{reason_of(error)}: {message}"
    return OSError(text) if error.errno is None else OSError(error.errno, text)


def reason_of(error: OSError) -> str:
    """What the system says, without numbers and names of files."""
    return error.strerror or str(error)


def import_optional(package: str, user: str, extra: str) -> Any:
    """Import an optional package, or raise an error that names the extra to install.

    Parameters
    ----------
    package : str
        Name to import.
    user : str
        What needs it.
    extra : str
        Extra of this library that installs it.

    Examples
    --------
    >>> from skinnytrees.exceptions import import_optional
    >>> import_optional("a_package_that_is_not_there", "to_frame()", "frames")
    Traceback (most recent call last):
    ImportError: to_frame() needs a_package_that_is_not_there, which is not installed: pip install 'skinnytrees[frames]'.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        missing = package.split(".")[0]
        raise ImportError(
            f"{user} needs {missing}, which is not installed: pip install 'skinnytrees[{extra}]'."
        ) from error


class NothingLearnedWarning(UserWarning):
    """The fitted model is no better than a constant on rows that it has not seen."""


class SelectionWarning(UserWarning):
    """A penalty has removed no feature, or all of them."""


class UnstableSelectionWarning(UserWarning):
    """Fits on different rows select different features, so that one selection is one of many."""
