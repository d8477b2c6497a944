"""Errors that say what is wrong and what to do."""


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


class NothingLearnedWarning(UserWarning):
    """The fitted model is no better than a constant on rows that it has not seen."""


class SelectionWarning(UserWarning):
    """A penalty has removed no feature, or all of them."""


class UnstableSelectionWarning(UserWarning):
    """Fits on different rows select different features, so that one selection is one of many."""
