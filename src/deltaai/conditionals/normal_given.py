"""Real variables that are normal given others, though the factors over them are not quadratic.

Much of what people write is so: an effect θ ~ N(μ, τ²) is normal given μ and τ, and y ~ N(x², 1)
given x. Along such a variable the log of a factor is a parabola, which its values at three places
tell without error:

    f(c + t) = f(c) + s t - ½ P t²,   P = (2 f(c) - f(c - h) - f(c + h)) / h²,
                                      s = (f(c + h) - f(c - h)) / 2h

That it is one is tried once, by a fourth place. A variable is *settled* if that holds for all its
factors and all their other variables are inputs of its conditional, which is then known exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Float64, Int, Num
from torch import Tensor

from deltaai.models import FactorGraph, FactorGroup

_TRIALS, _EXACT = 32, 1e-7  # relative to the changes that are compared

Places = frozenset[tuple[int, int]]  # numbers of groups, and places of their scopes


def parabola_nodes(
    model: FactorGraph, variables: Int[Tensor, "some"]
) -> tuple[Float64[Tensor, "some"], Float64[Tensor, "some"]]:
    """A place in the middle for each variable, and a step: three steps ahead are in its support."""
    low, high = (bound[variables] for bound in model.bounds)
    has_low, has_high = low.isfinite(), high.isfinite()
    is_box = has_low & has_high
    centre = torch.where(has_low, low + 2, torch.where(has_high, high - 2, 0.0))
    step = torch.where(has_high, -1.0, 1.0).double()
    width = (high - low).where(is_box, 1.0)
    return torch.where(is_box, low + 0.25 * width, centre), torch.where(is_box, width / 5, step)


def parabola_at(
    model: FactorGraph,
    group: FactorGroup,
    factor: Int[Tensor, "some"],
    values: Num[Tensor, "arity some batch"],
    place: int,
) -> tuple[Float[Tensor, "some batch"], Float[Tensor, "some batch"]]:
    """Precision and shift of the variable at a place, given the others."""
    if group.is_quadratic:
        return group.quadratic_slices_at(factor, values, place)
    centre, step = parabola_nodes(model, group.scopes[factor, place])
    before, here, after = _values_at(group, factor, values, place, centre, step, (-1, 0, 1))
    step = step[:, None]
    precision = (2 * here - before - after) / step.square()
    shift = (after - before) / (2 * step) + precision * centre[:, None]
    return precision.to(group.dtype), shift.to(group.dtype)


@torch.no_grad()
def normal_places(model: FactorGraph) -> Places:
    """Where along real variables factors are parabolas; no randomness is in it."""
    found = set()
    generator = torch.Generator().manual_seed(0)
    for number, group in enumerate(model.groups):
        if group.arity == 0 or group.has_tables:
            continue
        places = [place for place, size in enumerate(group.sizes) if size == 0]
        if group.is_quadratic:
            found |= {(number, place) for place in places}
            continue
        if any(True for _ in group.parameters()):  # what learns may bend
            continue
        values = _anywhere(model, group, generator)
        every = torch.arange(group.num_factors, device=group.scopes.device)
        for place in places:
            centre, step = parabola_nodes(model, group.scopes[:, place])
            y = _values_at(group, every, values, place, centre, step, (0, 1, 2, 3))
            change = [other - y[0] for other in y[1:]]
            size = sum((one.abs() for one in change), torch.zeros_like(y[0]))
            if bool(((change[2] - 3 * change[1] + 3 * change[0]).abs() <= _EXACT * size).all()):
                found.add((number, place))
    return frozenset(found)


def settled_variables(
    model: FactorGraph, inputs: Sequence[tuple[int, ...]], places: Places
) -> list[int]:
    """Real variables whose conditional given their inputs is normal, cut or not, and known."""
    is_settled = model.is_real.tolist()
    for number, group in enumerate(model.groups):
        for scope in group.scopes.tolist():
            for place, variable in enumerate(scope):
                others = {*scope} - {variable}
                if (number, place) not in places or not others.issubset(inputs[variable]):
                    is_settled[variable] = False
    return [variable for variable, settled in enumerate(is_settled) if settled]


def bent_variables(model: FactorGraph) -> list[int]:
    """Real variables that are not normal given all others."""
    places = normal_places(model)
    bent = {
        int(variable)
        for number, group in enumerate(model.groups)
        for place, size in enumerate(group.sizes)
        if size == 0 and (number, place) not in places
        for variable in group.scopes[:, place].tolist()
    }
    return sorted(bent)


def _anywhere(
    model: FactorGraph, group: FactorGroup, generator: torch.Generator
) -> Float64[Tensor, "arity factor trial"]:
    """Values of the scopes, within their supports."""
    shape = (group.arity, group.num_factors, _TRIALS)
    chance = torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu").to(
        group.scopes.device
    )
    parts = []
    for place in range(group.arity):
        low, high = (bound[group.scopes[:, place]][:, None] for bound in model.bounds)
        if group.sizes[place]:
            parts.append((chance[place] * (high - low + 1)).floor())
            continue
        centre, step = (part[:, None] for part in parabola_nodes(model, group.scopes[:, place]))
        parts.append(centre + step * (3 * chance[place] - 1))
    return torch.stack(parts)


def _values_at(
    group: FactorGroup,
    factor: Int[Tensor, "some"],
    values: Num[Tensor, "arity some batch"],
    place: int,
    centre: Float64[Tensor, "some"],
    step: Float64[Tensor, "some"],
    steps: tuple[int, ...],
) -> list[Float64[Tensor, "some batch"]]:
    """Chosen factors in double with one place of their scope some steps from the centre."""
    arity, count, batch = values.shape
    spread = values.double().unsqueeze(1).repeat(1, len(steps), 1, 1)
    for number, times in enumerate(steps):
        spread[place, number] = (centre + times * step)[:, None]
    chosen = factor.repeat_interleave(batch).repeat(len(steps))
    found = group.to(None, torch.float64).log_values_at(chosen, spread.view(arity, -1))
    return list(found.view(len(steps), count, batch).unbind())
