"""The dense-to-sparse path: one walk from all features down to one, in phases, and the choice of a size.

This is the budgeted form of the paper's problem (1): the number of selected features follows a schedule instead of resulting from
a penalty.

- *Screening* (``screening.py``) trains a small ensemble by plain gradient steps and keeps the groups of largest norm.
- *Pruning* (``pruning.py``, ``elimination.py``) takes over when few groups are left and there are enough rows: from a larger
  ensemble, the groups whose removal costs least are removed.
- *Swaps* (``swapping.py``), where rows are too few for pruning, exchange groups inside for groups outside.

``walk.py`` goes through the phases, ``evidence.py`` measures their points on held-out rows, ``size_choice.py`` chooses one and
``final.py`` makes the final ensemble there. ``rules.py`` has every number that determines all this. Arrays in, arrays out; tables
and estimators are not known here.
"""
