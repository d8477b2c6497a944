"""One file for each kind of epoch.

``runner.py`` says what all of them have in common, ``choice.py`` takes the one that suits the optimiser and the data.
``fixed_support.py`` and ``sample_space.py`` train at a fixed support; in ``active_set.py``, ``csr.py``, ``threaded.py`` and
``wide.py`` groups enter and leave.
"""
