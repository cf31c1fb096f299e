"""Reference densities: where chains over real variables begin, as hot as can be.

Paths from a flat distribution to p begin with uniform states; a line has no uniform density. So a
path of targets begins here instead, with a mixture of a few components in each of which variables
are independent,

    r(x) = Σ_c w_c Π_v r_cv(x_v),

uniform over the states of a variable; of a real one either uniform, in a box, or normal with a
centre and a unit for its mean and deviation, and cut off at the ends of the support. r is
normalised: chains that are cooled from it to p measure Z itself.

What is far outside r is found late, or not at all; what r is too wide for costs some temperatures.
So a reference should be wide, with narrow components where p is known to have a narrow mode: see
:mod:`deltaai.mcmc.wide_references`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from deltaai.errors import ConfigError
from deltaai.models import Columns, FactorGraph, StandardUnits, standard_units
from deltaai.randomness import uniform


@dataclass(frozen=True, eq=False)
class Reference:
    """A density from which states are drawn and whose slopes are known.

    Parameters
    ----------
    real : numbers of the real variables, of which what follows tells.
    low, high : ends of their supports.
    num_states : number of states of every variable, zero if it is real.
    shares : of the components; the first one is the widest.
    centre, unit : mean and deviation of a normal density, before it is cut off.
    is_flat : whether the density is uniform instead.
    """

    real: Int[Tensor, "real"]
    low: Float64[Tensor, "real"]
    high: Float64[Tensor, "real"]
    num_states: Int[Tensor, "var"]
    shares: Float64[Tensor, "component"]
    centre: Float64[Tensor, "component real"]
    unit: Float64[Tensor, "component real"]
    is_flat: Bool[Tensor, "component real"]

    @classmethod
    def of(cls, model: FactorGraph, units: StandardUnits | None = None) -> Reference:
        """One component: uniform in boxes, elsewhere normal.

        Parameters
        ----------
        units : centre and unit of each variable; found by looking at the model if there are none.
        """
        units = standard_units(model) if units is None else units
        return cls.normal(model, units.centre, units.unit)

    @classmethod
    def normal(
        cls, model: FactorGraph, centre: Float64[Tensor, "var"], unit: Float64[Tensor, "var"]
    ) -> Reference:
        """The same, by the centre and the unit of each variable."""
        real = model.is_real.nonzero().squeeze(1)
        low, high = (end[real] for end in model.bounds)
        centre = torch.clamp(centre.to(model.device)[real], low, high)
        unit = unit.to(model.device)[real].abs()
        if not bool((centre.isfinite() & (unit > 0) & unit.isfinite()).all()):
            raise ConfigError("centres must be numbers, and units numbers above 0")
        counts = [len(variable.states) for variable in model.variables]
        num_states = torch.tensor(counts, dtype=torch.long, device=model.device)
        one = torch.ones(1, dtype=torch.float64, device=model.device)
        is_flat = (low.isfinite() & high.isfinite())[None]
        return cls(real, low, high, num_states, one, centre[None], unit[None], is_flat)

    def mixed(
        self,
        share: float,
        centre: Float64[Tensor, "component real"],
        unit: Float64[Tensor, "component real"],
    ) -> Reference:
        """The same with normal components beside the first one.

        Parameters
        ----------
        share : of all of these together.
        """
        count = len(centre)
        shares = centre.new_full((count,), share / max(count, 1))
        first = centre.new_full((1,), 1 - share if count else 1.0)
        return replace(
            self,
            shares=torch.cat((first, shares)),
            centre=torch.cat((self.centre[:1], centre)),
            unit=torch.cat((self.unit[:1], unit)),
            is_flat=torch.cat((self.is_flat[:1], torch.zeros_like(centre, dtype=torch.bool))),
        )

    @property
    def num_components(self) -> int:
        """How many components there are."""
        return len(self.shares)

    @property
    def width(self) -> Float64[Tensor, "real"]:
        """The deviation of each real variable in the widest component, about."""
        return torch.where(self.is_flat[0], (self.high - self.low) / 4, self.unit[0])

    def _cut(
        self, centre: Float64[Tensor, "*shape"], unit: Float64[Tensor, "*shape"]
    ) -> tuple[Float64[Tensor, "*shape"], Float64[Tensor, "*shape"]]:
        """Probabilities below the lower and the upper end, before densities are cut off."""
        shape = (len(self.real), *[1] * (centre.ndim - 1))
        below, above = ((end.view(shape) - centre) / unit for end in (self.low, self.high))
        return torch.special.ndtr(below), torch.special.ndtr(above)

    def draw(self, num_chains: int, generator: torch.Generator) -> Columns:
        """Columns of independent states."""
        device = self.num_states.device
        if self.num_components == 1:
            return self._drawn(torch.zeros(num_chains, dtype=torch.long, device=device), generator)
        points = uniform((num_chains,), generator, dtype=torch.float64, device=device)
        ends = self.shares.cumsum(0)[:-1]
        return self._drawn(torch.searchsorted(ends, points, right=True), generator)

    def draw_each(self, unit: Float64[Tensor, "chain real"], generator: torch.Generator) -> Columns:
        """Columns of independent states of the first component with units of their own."""
        count = len(unit)
        each = replace(
            self,
            shares=unit.new_full((count,), 1 / max(count, 1)),
            centre=self.centre[:1].expand(count, -1),
            unit=unit,
            is_flat=self.is_flat[:1].expand(count, -1),
        )
        return each._drawn(torch.arange(count, device=unit.device), generator)

    def _drawn(self, chosen: Int[Tensor, "chain"], generator: torch.Generator) -> Columns:
        """One state of each chosen component."""
        shape = (len(self.num_states), len(chosen))
        chance = uniform(shape, generator, dtype=torch.float64, device=chosen.device)
        columns = (chance * self.num_states[:, None]).floor()
        given = chance[self.real]
        centre, unit = self.centre[chosen].T, self.unit[chosen].T
        first, last = self._cut(centre, unit)
        # Never the ends themselves, where a quantile is infinite.
        within = first + given.clamp(2**-54, 1 - 2**-53) * (last - first)
        normal = centre + unit * torch.special.ndtri(within)
        low, high = self.low[:, None], self.high[:, None]
        drawn = torch.where(self.is_flat[chosen].T, low + given * (high - low), normal)
        drawn = torch.where(drawn.isfinite(), drawn, centre)
        columns[self.real] = torch.clamp(drawn, low, high)
        return columns

    def _log_parts(self, columns: Columns) -> Float64[Tensor, "component chain"]:
        """Log density of each component, times its share; states are left out."""
        values, parts = columns[self.real].double(), []
        each = zip(self.shares, self.centre, self.unit, self.is_flat, strict=True)
        for share, centre, unit, is_flat in each:
            first, last = self._cut(centre, unit)
            log_scale = (unit * (last - first)).log() + 0.5 * math.log(2 * math.pi)
            log_width = (self.high - self.low).log()
            log_norm = torch.where(is_flat, log_width, log_scale).sum()
            square = ((values - centre[:, None]) / unit[:, None]).square()
            square = square.masked_fill(is_flat[:, None], 0.0)
            parts.append(share.log() - log_norm - 0.5 * square.sum(0))
        return torch.stack(parts)

    def log_density(self, columns: Columns) -> Float64[Tensor, "chain"]:
        """Log density of states; probabilities of those of variables that have states count."""
        log_count = self.num_states.clamp(min=1).double().log().sum()
        return self._log_parts(columns).logsumexp(0) - log_count

    def slopes(self, columns: Columns) -> Float64[Tensor, "real chain"]:
        """Derivatives of the log density by the real variables."""
        values, total = (
            columns[self.real].double(),
            torch.zeros((), dtype=torch.float64, device="cpu"),
        )
        shares = self._log_parts(columns).softmax(0) if self.num_components > 1 else None
        for number, (centre, unit) in enumerate(zip(self.centre, self.unit, strict=True)):
            away = (centre[:, None] - values) / unit.square()[:, None]
            away = away.masked_fill(self.is_flat[number][:, None], 0.0)
            total = total + (away if shares is None else shares[number] * away)
        return total
