"""Settings for the tests of the systems."""

from importlib.util import find_spec

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread_of_torch():
    """Small networks are faster on one thread, and results do not depend on the machine."""
    if find_spec("torch") is not None:
        import torch

        torch.set_num_threads(1)
