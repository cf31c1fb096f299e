"""Real variables in standard coordinates: the same model, seen where networks feel at home.

    x = centre + unit z,      log p~_z(z) = log p~_x(x) + Σ log |unit|

The model is asked where it is and how wide, by climbing to a mode and looking at the curvature
there, which need not be right, only near. A box becomes [-R, R] with R a power of two, 1 if it is
full; a half-line [0, inf), or [-R, inf) where its end is far, one that goes down being turned
around. So there are few kinds of supports however many variables. log Z stays what it is. States
are left alone: their centre is 0 and their unit 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64, Int, Num
from torch import Tensor

from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import Clamp, Columns, FactorGroup
from deltaai.models.interval import Interval
from deltaai.models.quadratic_group import MixtureGroup, QuadraticGroup
from deltaai.models.table_group import TableGroup
from deltaai.models.variable import Variable
from deltaai.models.wrapped_group import WrappedGroup

_CLIMBS, _STARTS, _REACH = 100, 16, 3.0  # steps of climbs, how many there are, how far apart
_LIKELY = 8.0  # nats that a mode may lie below the best
_MOST_INVERTED = 200  # variables whose curvatures are inverted together
_HOLD = 0.5  # precision of what holds values together, in standard coordinates
_SAME = 0.1  # deviations that climbs to one mode may end apart
_FAR = 4.0  # deviations from the end of a half-line where that end does not matter
_WIDEST, _NARROWEST = 1e6, 1e-6  # units


@dataclass(frozen=True, eq=False)
class StandardUnits:
    """Where each variable is and how wide, as far as it matters.

    Parameters
    ----------
    centre, unit : x = centre + unit z; units of half-lines that go down are negative.
    anchor : a mode of the model, in standard coordinates.
    has_one_mode : whether all climbs that came high ended there, as far as is known.
    """

    centre: Float64[Tensor, "var"]
    unit: Float64[Tensor, "var"]
    anchor: Float64[Tensor, "var"]
    has_one_mode: bool = False

    @property
    def are_trivial(self) -> bool:
        """Whether the model is in standard coordinates as it is."""
        return bool((self.centre == 0).all() and (self.unit == 1).all())

    @property
    def log_volume(self) -> float:
        """Log of the volume in x that a unit volume in z has."""
        return float(self.unit.abs().log().sum())

    def support_of(self, variable: int, support: Interval) -> Interval:
        """Where a variable may lie in standard coordinates."""
        centre, unit = float(self.centre[variable]), float(self.unit[variable])
        low, high = sorted((end - centre) / unit for end in (support.low, support.high))
        # Ends are whole numbers but for rounding; and no zero is negative.
        return Interval(*(end if math.isinf(end) else round(end) + 0.0 for end in (low, high)))

    def inward(self, columns: Columns) -> Columns:
        """Columns of states in standard coordinates."""
        centre, unit = self._as(columns)
        return (columns - centre) / unit

    def outward(self, columns: Columns) -> Columns:
        """Columns of states as the user has them."""
        centre, unit = self._as(columns)
        return centre + unit * columns

    def of(self, variables: list[int]) -> StandardUnits:
        """Those of some of the variables."""
        parts = self.centre[variables], self.unit[variables], self.anchor[variables]
        return StandardUnits(*parts, self.has_one_mode)

    def _as(self, columns: Columns) -> tuple[Tensor, Tensor]:
        where = columns.device
        return self.centre.to(where)[:, None], self.unit.to(where)[:, None]


def standard_units(model: FactorGraph) -> StandardUnits:
    """Find the centre and unit of each variable; no randomness is in it."""
    low, high = (bound.cpu() for bound in model.bounds)
    is_real = model.is_real.cpu()
    if not bool(is_real.any()):
        return StandardUnits(torch.zeros_like(low), torch.ones_like(low), torch.zeros_like(low))
    modes = _modes(model)
    mode, spread = modes.mode, modes.spread
    is_line = low.isinf() & high.isinf()
    is_box = low.isfinite() & high.isfinite()
    middle, half = (low + high) / 2, (high - low) / 2
    # In a box the middle stays in the middle, so that both ends are the same number away.
    off = torch.hypot(spread, mode - middle)
    full = half / _power_of_two(half / off).clamp(min=1.0)
    end = torch.where(low.isfinite(), low, high)
    sign = torch.where(low.isfinite(), 1.0, -1.0).double()
    inside = (sign * (mode - end)).clamp(min=0)
    far = torch.where(inside > _FAR * spread, _power_of_two(inside / spread), 0.0)
    reach = torch.where(far > 0, spread, (inside + spread).clamp(_NARROWEST, _WIDEST))
    centre = torch.where(is_line, mode, torch.where(is_box, middle, end + sign * far * reach))
    unit = torch.where(is_line, spread, torch.where(is_box, full, sign * reach))
    centre, unit = centre.where(is_real, 0.0), unit.where(is_real, 1.0)
    anchor = ((modes.best - centre) / unit).where(is_real, 0.0)
    return StandardUnits(centre, unit, anchor, modes.is_one)


def _power_of_two(ratio: Float64[Tensor, "var"]) -> Float64[Tensor, "var"]:
    """The largest power of two that is not above each ratio."""
    return torch.exp2(ratio.nan_to_num(1.0, 1.0, 1.0).clamp(_NARROWEST, _WIDEST).log2().floor())


@dataclass(frozen=True, eq=False)
class _Modes:
    """What climbs found: the middle of the modes, how far they and values reach, and the best."""

    mode: Float64[Tensor, "var"]
    spread: Float64[Tensor, "var"]
    best: Float64[Tensor, "var"]
    is_one: bool


def _modes(model: FactorGraph) -> _Modes:
    """A mode of the real variables, and how far each may go from there, by the curvature.

    What is on a half-line or in a box is climbed for along log or logit of where it is inside, and
    states are those of the best of some starting points.
    """
    model = model.to(device="cpu", dtype=torch.float64)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    low, high = model.bounds
    is_real = model.is_real
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(_STARTS, len(low), generator=generator, dtype=torch.float64, device="cpu")
    chance = torch.rand(_STARTS, len(low), generator=generator, dtype=torch.float64, device="cpu")
    states = (chance * (high - low + 1)).floor().nan_to_num(0.0, 0.0, 0.0)
    noise = noise * _REACH
    noise[0] = 0.0
    # Without infinities, for what is multiplied by zero has a gradient, too.
    bottom, top = (end.where(end.isfinite(), 0.0) for end in (low, high))

    def inside(free: Tensor) -> Tensor:
        """Values within their supports, of free numbers."""
        box = bottom + (top - bottom) * torch.sigmoid(free)
        away = free.clamp(max=50.0).exp()
        half = torch.where(low.isfinite(), bottom + away, top - away)
        found = torch.where(low.isfinite() & high.isfinite(), box, half)
        return torch.where(low.isinf() & high.isinf(), free, found)

    def scores(free: Tensor, chosen: Tensor) -> Tensor:
        found: Tensor = model.log_score(torch.where(is_real, inside(free), chosen))
        return found

    with torch.enable_grad():
        free = noise.clone().requires_grad_(True)
        climber = torch.optim.LBFGS([free], max_iter=_CLIMBS, line_search_fn="strong_wolfe")

        def slope() -> Tensor:
            climber.zero_grad()
            loss = -scores(free, states).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        try:
            climber.step(slope)  # type: ignore[no-untyped-call]
        except (RuntimeError, ValueError, IndexError):  # a score that is not finite on the way
            free = noise.clone()
        free = free.detach().nan_to_num(0.0)
        modes, reached = inside(free), scores(free, states).detach().nan_to_num(-math.inf)
        best = int(reached.argmax())
        curvature = _curvature(model, torch.where(is_real, modes[best], states[best]))
    likely = modes[reached >= reached[best] - _LIKELY]
    spread = curvature.clamp(min=_WIDEST**-2).rsqrt()
    is_usable = curvature.isfinite() & (curvature > 0)
    spread = torch.where(is_usable, spread, 1.0)
    apart = likely.std(0, correction=0).nan_to_num(0.0)  # of modes that climbs ended at
    is_one = bool((apart <= _SAME * spread)[is_real].all()) and bool(is_usable[is_real].all())
    spread = torch.hypot(spread, apart).clamp(_NARROWEST, _WIDEST)
    middle = likely.mean(0).nan_to_num(0.0, 0.0, 0.0)
    return _Modes(middle, spread, modes[best].nan_to_num(0.0, 0.0, 0.0), is_one)


def _curvature(model: FactorGraph, x: Float64[Tensor, "var"]) -> Float64[Tensor, "var"]:
    """What a normal density at a mode would have as the reciprocal of each marginal variance."""
    real = model.is_real.nonzero().squeeze(1)
    at = x[None].clone().requires_grad_(True)
    found = torch.full_like(x, math.nan)
    total = model.log_score(at).sum()
    if not total.requires_grad:  # the same everywhere
        return found
    (slope,) = torch.autograd.grad(total, at, create_graph=True)
    if not slope.requires_grad:  # linear in all of them
        return found
    if len(real) > _MOST_INVERTED:  # then given the others, by differences
        step = 1e-4 * x[real].abs().clamp(min=1.0)
        moved = torch.zeros(len(real), len(x), dtype=x.dtype, device=x.device).scatter_(
            1, real[:, None], step[:, None]
        )
        low, high = model.bounds
        ahead, behind = (torch.clamp(x + sign * moved, low, high) for sign in (1, -1))
        with torch.no_grad():
            sums = model.log_score(ahead) + model.log_score(behind) - 2 * model.log_score(x[None])
        found[real] = -sums / step.square()
        return found
    rows = []
    for variable in real.tolist():
        (row,) = torch.autograd.grad(slope[0, variable], at, retain_graph=True, allow_unused=True)
        rows.append(torch.zeros_like(x) if row is None else -row[0])
    hessian = torch.stack(rows)[:, real].nan_to_num(0.0)
    is_convex = bool((torch.linalg.eigvalsh(hessian) > 0).all())
    inverse = torch.linalg.inv_ex(hessian)[0].diagonal() if is_convex else None
    found[real] = hessian.diagonal() if inverse is None else inverse.reciprocal()
    return found.detach()


def standardised(model: FactorGraph, units: StandardUnits) -> FactorGraph:
    """The same distribution in standard coordinates; log Z is that of the model."""
    variables = [
        variable
        if variable.support is None
        else Variable(variable.name, support=units.support_of(number, variable.support))
        for number, variable in enumerate(model.variables)
    ]
    device = model.device
    centre, unit = units.centre.to(device), units.unit.to(device)
    groups = [_standard_group(group, centre, unit) for group in model.groups]
    number = torch.tensor([model.num_factors], dtype=torch.long, device=device)
    volume = torch.tensor([units.log_volume], dtype=model.dtype, device=device)
    groups.append(TableGroup(number, number.new_zeros(1, 0), volume))
    made = FactorGraph.from_groups(variables, groups)
    made.dtype, made.device = model.dtype, model.device
    return made


def held_together(model: FactorGraph, share: float | int) -> FactorGraph:
    """A model in standard coordinates times a normal density at a power, about where values are.

    Values that have an end on both sides are held by that.
    """
    if share == 0:
        return model
    low, high = model.bounds
    open_ended = (model.is_real & (low.isinf() | high.isinf())).nonzero()
    if not len(open_ended):
        return model
    count, device = len(open_ended), model.device
    ids = torch.arange(model.num_factors, model.num_factors + count, device=device)
    ones = torch.ones(count, 1, 1, dtype=model.dtype, device=device)
    zeros = torch.zeros(count, 1, dtype=model.dtype, device=device)
    parts = share * _HOLD * ones, zeros, zeros[:, 0]
    made = FactorGraph.from_groups(
        model.variables, [*model.groups, QuadraticGroup(ids, open_ended, (0,), *parts)]
    )
    made.dtype, made.device = model.dtype, model.device
    return made


def _standard_group(group: FactorGroup, centre: Tensor, unit: Tensor) -> FactorGroup:
    if group.has_tables:
        return group
    scopes = group.scopes
    if type(group) is QuadraticGroup:
        return _quadratic(group, centre, unit)
    if type(group) is MixtureGroup and isinstance(group.base, QuadraticGroup):
        base = _quadratic(group.base, centre, unit)
        return MixtureGroup(group.ids, scopes, base, group.num_components)
    return StandardGroup(group.ids, scopes, group, centre[scopes], unit[scopes])


def _quadratic(group: QuadraticGroup, centre: Tensor, unit: Tensor) -> QuadraticGroup:
    """C + hᵀx - ½ xᵀPx with x = m + Uz is again quadratic in z."""
    real = group.scopes[:, group.real_places]
    shape = (len(real), *[1] * (group.constant.ndim - 1), real.shape[1])
    mean = centre.to(group.dtype)[real].view(shape)
    scale = unit.to(group.dtype)[real].view(shape)
    pulled = (group.precision * mean[..., None, :]).sum(-1)
    constant = group.constant + (mean * (group.shift - 0.5 * pulled)).sum(-1)
    shift = scale * (group.shift - pulled)
    precision = scale[..., :, None] * group.precision * scale[..., None, :]
    return QuadraticGroup(group.ids, group.scopes, group.place_sizes, precision, shift, constant)


@dataclass(frozen=True, eq=False)
class StandardGroup(WrappedGroup):
    """A group that is asked in standard coordinates.

    Parameters
    ----------
    centre, unit : of each place of each factor.
    """

    centre: Float64[Tensor, "factor arity"]
    unit: Float64[Tensor, "factor arity"]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each place of the scope, zero where it is real."""
        return self.base.sizes

    def log_values_at(
        self, factor: Int[Tensor, "pair"], values: Num[Tensor, "arity pair"]
    ) -> Float[Tensor, "pair"]:
        """Evaluate chosen factors, each at given values of its scope."""
        centre, unit = self.centre[factor].T, self.unit[factor].T
        return self.base.log_values_at(factor, centre + unit * values)

    def log_values(self, columns: Columns) -> Float[Tensor, "factor batch"]:
        """Evaluate every factor at full states."""
        return self._local(columns).log_values(self._outward(columns))

    def log_changes(
        self, columns: Columns, others: Columns, place: int
    ) -> Float[Tensor, "factor batch"]:
        """Change of every factor when the variable at ``place`` takes its value in ``others``."""
        there = self._outward(others)
        return self._local(columns).log_changes(self._outward(columns), there, place)

    def condition(self, clamp: Clamp) -> list[FactorGroup]:
        """Return the groups that remain when some variables are fixed."""
        values = clamp.values.double()
        remaining: list[FactorGroup] = []
        for _, free, chosen in clamp.patterns(self.scopes):
            group = self.select(chosen)
            outward = group.centre + group.unit * values[group.scopes]
            # Every factor has places of its own, so that each may have values of its own.
            count, arity = group.scopes.shape
            own = torch.arange(count * arity, device=values.device).view(count, arity)
            renumbered = torch.full((count * arity,), -1, dtype=torch.long, device=values.device)
            renumbered[own[:, free].flatten()] = clamp.renumbered[group.scopes[:, free]].flatten()
            local = group._base_with(own)
            for part in local.condition(Clamp(outward.flatten(), renumbered)):
                if part.has_tables:
                    remaining.append(part)
                    continue
                centre, unit = group.centre[:, free], group.unit[:, free]
                remaining.append(StandardGroup(part.ids, part.scopes, part, centre, unit))
        return remaining

    def content(self) -> Iterator[tuple[str, Tensor]]:
        """Yield, under stable names, all that the values of the factors depend on."""
        yield from super().content()
        yield from self.base.content()

    def _outward(self, columns: Columns) -> Float[Tensor, "row batch"]:
        """A row for each place of each factor, in the model's own coordinates."""
        rows = columns.index_select(0, self.scopes.reshape(-1))
        centre, unit = self.centre.reshape(-1, 1), self.unit.reshape(-1, 1)
        return (centre + unit * rows).to(torch.promote_types(columns.dtype, self.dtype))

    def _local(self, columns: Columns) -> FactorGroup:
        """The base over those rows."""
        count, arity = self.scopes.shape
        own = torch.arange(count * arity, device=columns.device).view(count, arity)
        return self._base_with(own)

    def _base_with(self, scopes: Int[Tensor, "factor arity"]) -> FactorGroup:
        return replace(self.base, scopes=scopes)
