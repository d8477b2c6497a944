"""Errors that say what is wrong and what to do."""


class DivergenceError(ValueError):
    """Training left the numbers a computer can hold.

    Examples
    --------
    >>> from skinnytrees.exceptions import DivergenceError
    >>> issubclass(DivergenceError, ValueError)
    True
    """


def refuse_unless(condition: bool, message: str) -> None:
    """Raise a ValueError with ``message`` unless the condition holds."""
    if not condition:
        raise ValueError(message)


class NothingLearnedWarning(UserWarning):
    """The fitted model is no better than a constant on rows that it has not seen."""


class SelectionWarning(UserWarning):
    """A penalty has removed no feature, or all of them."""
