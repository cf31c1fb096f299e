"""Climbers: from near and from far uphill, to the modes of a density over real variables.

They start from 1 to 64 units away from a centre, half of them as many in all variables, half as
many as may be in each.

Climbing is by the signs of slopes alone (Riedmiller and Braun, *RPROP*, 1993), with a stride for
each variable of each climber that grows while the sign stays and is halved when it turns: densities
may be of any scale. How wide a mode is follows from the second derivatives along each variable, by
differences of slopes, and where it is at the end of a support from the slope itself:

    s_v = ( max(0, -∂²log p~/∂x_v²) + (∂log p~/∂x_v)² )^(-1/2).

Variables without a common factor do not enter each other's second derivatives, so all of one colour
of the Markov graph are moved at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.graphs import greedy_colouring
from deltaai.mcmc.hamiltonian import HamiltonianKernel, HamiltonianState
from deltaai.mcmc.reference import Reference
from deltaai.mcmc.state_updates import StateUpdates
from deltaai.mcmc.sweep_cost import SweepCost
from deltaai.models import Columns, FactorGraph
from deltaai.randomness import integers

_REACHES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)  # units from the centre
_STRIDES, _SWEEP_EVERY = 90, 20
# Climbers, and nanoseconds that all may take, roughly: a narrow mode is found by one of very many.
_FEWEST, _MOST, _WORK = 128, 3072, 6e8
_FIRST, _LONGER, _SHORTER = 0.1, 1.4, 0.5  # strides, the first relative to the reach
_STEPS = (1e-4, 0.3)  # of differences: relative to the width of all, then of the mode
_APART = 6.0  # widths, in some variable, from which on two ends are in two modes
_ARRIVED, _ATTEMPTS = 0.3, 100  # widths: strides of those that have; how many are looked at


@dataclass(frozen=True, eq=False)
class Summits:
    """Where climbers ended, the highest first.

    Parameters
    ----------
    columns : their states.
    scores : log p~ there; -inf for those that never found a possible state.
    strides : how far each went last, which is not far where climbers have arrived.
    """

    columns: Columns
    scores: Float64[Tensor, "climber"]
    strides: Float64[Tensor, "real climber"]

    def of(self, chosen: Tensor) -> Summits:
        """Some of them."""
        return Summits(self.columns[:, chosen], self.scores[chosen], self.strides[:, chosen])


class Climbers:
    """Climbers over one model.

    Parameters
    ----------
    model : with at least one real variable.
    near : where to start, at several times its width.
    """

    def __init__(self, model: FactorGraph, near: Reference) -> None:
        self.model, self.near = model, near
        self._kernel = HamiltonianKernel(model, reference=near, num_leapfrog=1)

    def climbed(self, generator: torch.Generator) -> Summits:
        """Climb from near and from far."""
        near = self.near
        columns = self._starts(generator)
        has_states = bool((near.num_states > 1).any())
        updates = StateUpdates.build(self.model) if has_states else None
        away = (columns[near.real].double() - near.centre[0][:, None]).abs()
        away = torch.maximum(away, near.width[:, None])
        stride = _FIRST * torch.where(near.is_flat[0][:, None], near.width[:, None], away)
        before, last = torch.zeros_like(stride), stride
        for number in range(_STRIDES):
            if updates is not None and number % _SWEEP_EVERY == 0:
                with torch.no_grad():
                    updates.sweep(columns, 1.0, generator)
            signs = self._at(columns).slopes.sign()
            turns = signs * before
            stride = stride * torch.where(turns > 0, _LONGER, torch.where(turns < 0, _SHORTER, 1.0))
            before = signs
            there = self._moved(columns, signs * stride)
            last = (there - columns)[near.real].double().abs()
            columns = there
        scores = self._at(columns).scores
        order = torch.argsort(scores, descending=True, stable=True)
        return Summits(columns, scores, last).of(order)

    def _starts(self, generator: torch.Generator) -> Columns:
        """Where climbers start: half of them as far in all variables, half in each as may be."""
        near, half = self.near, self._num_climbers // 2
        shape = (half, len(near.real))
        alike = integers(len(_REACHES), (half, 1), generator, self.model.device).expand(shape)
        apart = integers(len(_REACHES), shape, generator, self.model.device)
        reaches = torch.tensor(_REACHES, dtype=torch.float64, device=self.model.device)
        drawn = [
            near.draw_each(reaches[chosen] * near.unit[0], generator) for chosen in (alike, apart)
        ]
        return torch.cat(drawn, 1).to(self._kernel.column_dtype)

    def widths(self, summits: Summits) -> Float64[Tensor, "real climber"]:
        """How wide the mode around each of them is, in each real variable."""
        near = self.near.width[:, None]
        most = torch.where(self.near.is_flat[0][:, None], near, _REACHES[-1] * near)
        width = near.expand(-1, len(summits.scores))
        slopes = self._at(summits.columns).slopes
        # First from nearby; then over a good part of what was found, for modes are not parabolas.
        for relative in _STEPS:
            step, curvature = relative * width, torch.zeros_like(width)
            for members in self._colours:
                moved = torch.zeros_like(width)
                moved[members] = step[members]
                ends = [self._moved(summits.columns, sign * moved) for sign in (1, -1)]
                high, low = (self._at(end).slopes[members] for end in ends)
                apart = (ends[0] - ends[1])[self.near.real][members].double()
                curvature[members] = (low - high) / apart
            found = (curvature.clamp(min=0) + slopes.square()).rsqrt()
            width = torch.where(found.isfinite(), torch.minimum(found, most), most)
        return width

    def modes(self, summits: Summits, most: int) -> tuple[Summits, Float64[Tensor, "real mode"]]:
        """The highest end in each mode, and how wide the mode is; no more than so many.

        Those that were still on their way are left out.
        """
        positions = summits.columns[self.near.real].double()
        is_left = torch.ones_like(summits.scores, dtype=torch.bool)
        chosen, widths = (
            [torch.zeros(0, dtype=torch.long, device=self.model.device)],
            [positions[:, :0]],
        )
        for _ in range(_ATTEMPTS):
            if len(chosen) > most or not bool(is_left.any()):
                break
            first = is_left.nonzero()[:1, 0]
            width = self.widths(summits.of(first))
            is_left[first] = False
            if bool((summits.strides[:, first] > _ARRIVED * width).any()):
                continue
            chosen.append(first)
            widths.append(width)
            is_left &= ((positions - positions[:, first]).abs() / width > _APART).any(0)
        return summits.of(torch.cat(chosen)), torch.cat(widths, 1)

    @property
    def _num_climbers(self) -> int:
        cost = SweepCost.of(self._kernel)
        affordable = (_WORK / _STRIDES - cost.sweep) / max(cost.sweep_per_chain, 1.0)
        return int(min(max(affordable, _FEWEST), _MOST))

    @cached_property
    def _colours(self) -> list[Tensor]:
        """Real variables, by their place among these, of one colour each."""
        place = {number: place for place, number in enumerate(self.near.real.tolist())}
        classes = (
            [place[number] for number in colour if number in place]
            for colour in greedy_colouring(self.model.markov_graph())
        )
        device = self.model.device
        return [torch.tensor(some, dtype=torch.long, device=device) for some in classes if some]

    def _moved(self, columns: Columns, by: Float64[Tensor, "real climber"]) -> Columns:
        """States with their real variables moved, as far as supports go."""
        near, moved = self.near, columns.clone()
        position = columns[near.real].double() + by
        position = torch.clamp(position, near.low[:, None], near.high[:, None])
        moved[near.real] = position.to(columns.dtype)
        return moved

    def _at(self, columns: Columns) -> HamiltonianState:
        return self._kernel.at(columns)
