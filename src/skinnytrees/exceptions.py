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


class NothingLearnedWarning(UserWarning):
    """The fitted model is no better than a constant on rows that it has not seen."""


class SelectionWarning(UserWarning):
    """A penalty has removed no feature, or all of them."""


class UnstableSelectionWarning(UserWarning):
    """Fits on different rows select different features, so that one selection is one of many."""
