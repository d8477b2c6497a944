"""Pictures in the style of scikit-learn's displays: ``from_estimator`` makes one, ``plot(ax)`` draws it again.

A display keeps its numbers, and after drawing the axes (``ax_`` or ``axes_``) and the figure (``figure_``). matplotlib is needed
to draw only, and its style decides about light and dark.
"""

from skinnytrees.plots.contributions import BeeswarmDisplay, ContributionBarDisplay, WaterfallDisplay
from skinnytrees.plots.effects import EffectsDisplay
from skinnytrees.plots.feature_path import FeaturePathDisplay
from skinnytrees.plots.history import HistoryDisplay

__all__ = [
    "BeeswarmDisplay",
    "ContributionBarDisplay",
    "EffectsDisplay",
    "FeaturePathDisplay",
    "HistoryDisplay",
    "WaterfallDisplay",
]
