"""A live p, as q and its objectives see it: at a temperature, without zeros, in a precision.

A model may learn: its parameters move between updates of q. A :class:`Target` keeps the model
itself and derives from it what is asked for, detached, so that gradients of q's losses never reach
p. What it derived is kept and dropped as soon as the model has moved: by the version counters of
its tensors, and by their content for those that require gradients, since not every optimizer
counts its step as a new version.
"""

from __future__ import annotations

import zlib

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.models.changes import log_changes
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.groups import Columns
from deltaai.models.partial_scores import PartialEnergy, partial_log_scores
from deltaai.models.temperature import tempered
from deltaai.models.units import StandardUnits, held_together, standardised
from deltaai.models.zeros.smoothing import smoothed

Given = Float[Tensor, "batch *feature"] | None


class Target:
    """What q is trained for.

    A subclass may score states in other ways than by factors, and see what is given with them; its
    model then has no factors that q could know of.

    Parameters
    ----------
    model : p; it is looked at, never copied for good.
    smoothing : what zeros of its tables are floored at, as a share of the largest entry.
    beta : inverse temperature. Real variables are held together by a normal density at the power
        of 1 - beta, so that there is a distribution at any temperature.
    units : of real variables; states and scores are in standard coordinates then.

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> model = zoo.ising_lattice(side=2, sigma=0.5, seed=0)
    >>> target, x = Target(model), torch.zeros(1, 4, dtype=torch.long)
    >>> before = target.now(torch.float32).log_score(x)
    >>> _ = model.groups[0].strengths.add_(0.5)
    >>> bool(target.now(torch.float32).log_score(x) == before)
    False
    """

    def __init__(
        self,
        model: FactorGraph,
        *,
        smoothing: float | int | None = None,
        beta: float | int = 1.0,
        units: StandardUnits | None = None,
    ) -> None:
        self.model, self.smoothing, self.beta = model, smoothing, beta
        self.units = units
        self.untempered = self  # the one that others at other temperatures come from
        self._kept: dict[torch.dtype, tuple[tuple[int, ...], FactorGraph]] = {}

    def tempered(self, beta: float | int) -> Target:
        """Return the same target at another inverse temperature."""
        if beta in (self.beta, self.untempered.beta):
            return self if beta == self.beta else self.untempered
        other = Target(self.model, smoothing=self.smoothing, beta=beta, units=self.units)
        other.untempered = self.untempered
        return other

    @property
    def moment(self) -> tuple[int, ...]:
        """Numbers that change when the model has moved."""
        return moment_of(self.model)

    @property
    def num_states(self) -> Int[Tensor, "var"]:
        """Number of states of each variable."""
        return self.model.num_states

    def log_scores(self, columns: Columns, given: Given = None) -> Float[Tensor, "batch"]:
        """Log score of full states, in double: it is a sum of many factors.

        Parameters
        ----------
        given : what else is given with each column; factors depend on states alone.
        """
        return self.now(torch.float64).log_score(columns.T)

    def log_changes(
        self, columns: Columns, others: Columns, dtype: torch.dtype, given: Given = None
    ) -> Float[Tensor, "var batch"]:
        """Change of the log score when one variable takes its value in ``others``, for each."""
        return log_changes(self.now(dtype), columns, others)

    def partial_log_scores(
        self, columns: Columns, ranks: Columns, kind: PartialEnergy, given: Given = None
    ) -> Float[Tensor, "step batch"]:
        """Log score of each state after its first 0, 1, ..., n variables are set, in double."""
        return partial_log_scores(self.now(torch.float64), columns, ranks, kind)

    def now(self, dtype: torch.dtype) -> FactorGraph:
        """Return the target as it is at this moment, without gradients."""
        moment = self.moment
        kept = self._kept.get(dtype)
        if kept is None or kept[0] != moment:
            kept = moment, self._derived(dtype)
            self._kept[dtype] = kept
        return kept[1]

    def _derived(self, dtype: torch.dtype) -> FactorGraph:
        with torch.no_grad():
            found = self.model
            if self.smoothing is not None:
                found = smoothed(found, self.smoothing)
            if found.dtype != dtype or any(True for _ in found.parameters()):
                found = found.to(dtype=dtype)
                for parameter in found.parameters():
                    parameter.requires_grad_(False)
            if self.units is not None and not self.units.are_trivial:
                found = standardised(found, self.units)
            warm = tempered(found, self.beta)
            return warm if found.is_discrete else held_together(warm, 1 - self.beta)


def moment_of(model: FactorGraph) -> tuple[int, ...]:
    """Numbers that change when a tensor of the model has moved."""
    marks: list[int] = []
    for group in model.groups:
        learned = {id(parameter) for parameter in group.parameters()}
        for value in group.tensors():
            is_counted = not value.is_inference() and id(value) not in learned
            marks.append(value._version if is_counted else _checksum(value))
    return tuple(marks)


def _checksum(value: Tensor) -> int:
    array = value.detach().cpu().contiguous().numpy()
    return zlib.crc32(array.tobytes())
