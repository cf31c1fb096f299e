"""References that are wide enough, and know of narrow modes: by what climbers find.

Chains that are cooled from a reference find what it reaches. Units by the curvature at one mode are
far too narrow for another one that is many of them away. So climbers start from 1 to 64 units away
from the centre (:mod:`deltaai.mcmc.climbing`), and the first component of the reference spans all
that is nearly as high as the best they found.

That is not enough where modes differ in width. Chains part for good when they are still so warm
that a broad mode in four dimensions holds hundreds of times as many of them as a narrow one of the
same share of p, which may then have none. So each mode that was found has a component of its own,
twice as wide as the mode. Where there are too many to list, there are none of these.

What no climber comes near is not found by this; only what chains say that they see is claimed for
them.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from deltaai.mcmc.climbing import Climbers
from deltaai.mcmc.reference import Reference
from deltaai.models import FactorGraph, StandardUnits
from deltaai.threads import limited_threads

# Nats that an end may lie below the best: a low mode may be wide, the more so in many dimensions.
_LOWER, _LOWER_EACH = 15.0, 5.0
_WIDER = 2.0  # than a unit, and than a mode
_MOST_MODES, _SHARE = 8, 0.7  # that have components, and how many of the chains start there


@limited_threads(1)
def wide_reference(
    model: FactorGraph, generator: torch.Generator, units: StandardUnits | None = None
) -> Reference:
    """A reference that spans the modes which climbers find.

    Parameters
    ----------
    model : with at least one real variable.
    units : centre and unit of each variable, to start from; found by looking at the model if there
        are none.

    Examples
    --------
    >>> from deltaai.models import FactorGraph, GaussianFactor, MixtureFactor, Variable
    >>> parts = [GaussianFactor("x", -20.0, 1.0), GaussianFactor("x", 30.0, 1.0)]
    >>> model = FactorGraph([Variable("x", support="line")], [MixtureFactor(parts)])
    >>> found = wide_reference(model, torch.Generator().manual_seed(0))
    >>> sorted(round(float(centre)) for centre in found.centre[1:])
    [-20, 30]
    """
    near = Reference.of(model, units)
    climbers = Climbers(model, near)
    summits = climbers.climbed(generator)
    if not bool(summits.scores.isfinite().any()):
        return near
    lower = _LOWER + _LOWER_EACH * len(near.real)
    summits = summits.of(summits.scores >= summits.scores[0] - lower)
    positions = summits.columns[near.real].double()
    low, high = positions.aminmax(dim=1)
    # On a half-line that begins nearby the mean stays at the end.
    is_line = near.low.isinf() & near.high.isinf()
    centre = torch.where(is_line, (low + high) / 2, near.centre[0])
    reach = torch.where(is_line, (high - low) / 2, torch.maximum(high - centre, centre - low))
    unit = torch.maximum(_WIDER * near.unit[0], reach)
    wide = replace(near, centre=centre[None], unit=unit[None])
    modes, widths = climbers.modes(summits, _MOST_MODES + 1)
    if len(modes.scores) > _MOST_MODES:
        return wide
    return wide.mixed(_SHARE, modes.columns[near.real].double().T, _WIDER * widths.T)
