"""Settings for all tests."""

from hypothesis import settings

# The first example of a property test may compile a kernel, which takes longer than hypothesis allows by default.
settings.register_profile("compiled", deadline=None)
settings.load_profile("compiled")
