"""The heads of real variables by name, and which suits a support.

A new kind is one file with a subclass of :class:`~deltaai.conditionals.heads.real.RealHead` and one
line here; a user adds one with :func:`register_head`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from deltaai.conditionals.heads.beta import Beta
from deltaai.conditionals.heads.location_scale import LocationScale
from deltaai.conditionals.heads.mixture import Mixture
from deltaai.conditionals.heads.normal import Normal
from deltaai.conditionals.heads.real import RealHead
from deltaai.conditionals.heads.truncated_normal import TruncatedNormal
from deltaai.models import Interval
from deltaai.registry import add_entry, checked_callable, entry_of

HeadBuilder = Callable[[float, float, int], RealHead]


def _normal(low: float, high: float, components: int) -> LocationScale:
    if math.isinf(low) and math.isinf(high):
        return Normal()
    return TruncatedNormal(low, high)


REAL_HEADS: dict[str, HeadBuilder] = {
    "normal": _normal,
    "mixture": lambda low, high, components: Mixture(_normal(low, high, components), components),
    "beta": lambda low, high, components: Beta(low, high),
}


def register_head(name: str, build: HeadBuilder, *, replace: bool = False) -> None:
    """Make a head a choice for real variables.

    Parameters
    ----------
    name : what settings and files call it.
    build : gives the head for the low and the high end of a support, in standard coordinates, and
        the number of components that is asked for.
    replace : whether it may take the place of one of that name.
    """
    checked_callable("the builder of a head", build, "(low, high, components)")
    add_entry(REAL_HEADS, "head", name, build, replace=replace)


def head_for(support: Interval, kind: str = "normal", components: int = 3) -> RealHead:
    """The head of a kind for a support in standard coordinates.

    Parameters
    ----------
    support : an interval: [-1, 1], from zero up, or the line.
    kind : ``"normal"``, cut to the support; ``"mixture"`` of such; ``"beta"``, for boxes; or one
        registered.
    components : how many a mixture has.
    """
    return entry_of(REAL_HEADS, "head", kind)(support.low, support.high, components)
