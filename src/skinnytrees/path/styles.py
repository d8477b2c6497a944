"""Styles: how numeric columns are encoded for an ensemble, where its trees start, and in which coordinates it is trained."""

from dataclasses import dataclass

from skinnytrees.starts import AxisAligned, Glorot, Start
from skinnytrees.tables.column_views import Views


@dataclass(frozen=True)
class Style:
    """How numeric columns are encoded for an ensemble, where its trees start, and in which coordinates it is trained."""

    views: Views
    start: Start
    variance_floor: float | None = None


# Ranks beside values, and splits that begin with one column each: right for most tables.
RANKS_AND_AXES = Style(Views(), AxisAligned())
# The distance of a rank from the middle in place of its normal score. Screening by norm does not see a column that matters only
# symmetrically, such as one of the three of a sphere; this makes its effect linear. On other tables it is worse.
FOLDED_RANKS_AND_AXES = Style(Views(folded=True), AxisAligned())
# Values only, and splits that begin with all columns: right where small differences between columns of one scale matter. These
# are found only in uncorrelated coordinates.
VALUES_AND_PLANES = Style(Views.linear_only(), Glorot(), variance_floor=1e-4)
