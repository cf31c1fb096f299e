"""Factors of another group with some places of their scope fixed by evidence.

Used where the factors cannot be sliced: a neural factor whose variable is observed is still the
same network, with that part of its input held. Groups of such factors are :class:`UnslicedGroup`s,
which is also the short way to a new kind of factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.models.factors import Factor
from deltaai.models.groups import Clamp, FactorGroup
from deltaai.models.variable import Variable
from deltaai.models.wrapped_group import WrappedGroup, as_tables


@dataclass(frozen=True, eq=False)
class ClampedGroup(WrappedGroup):
    """A group seen as a function of the free places of its scopes; the base's own are not used.

    Parameters
    ----------
    free : places of the base scope that are still variables.
    fixed : places that are held.
    held : the value at each fixed place of each factor.
    """

    free: tuple[int, ...]
    fixed: tuple[int, ...]
    held: Num[Tensor, "factor num_fixed"]

    @classmethod
    def build(
        cls, base: FactorGroup, fixed: tuple[int, ...], free: tuple[int, ...], clamp: Clamp
    ) -> ClampedGroup:
        """Hold the fixed places of every factor of ``base`` at the clamp's values."""
        held = clamp.values[base.scopes[:, fixed]]
        return cls(base.ids, clamp.renumbered[base.scopes[:, free]], base, free, fixed, held)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of states at each free place."""
        return tuple(self.base.sizes[place] for place in self.free)

    def log_values_at(
        self, factor: Int[Tensor, "pair"], values: Num[Tensor, "arity pair"]
    ) -> Float[Tensor, "pair"]:
        """Evaluate chosen factors, each at given values of its free places."""
        dtype = torch.long
        if self.held.is_floating_point() or values.is_floating_point():
            dtype = torch.promote_types(values.dtype, self.held.dtype)
        full = torch.empty(self.base.arity, factor.shape[0], dtype=dtype, device=factor.device)
        full[list(self.fixed)] = self.held[factor].T.to(dtype)
        full[list(self.free)] = values.to(dtype)
        return self.base.log_values_at(factor, full)

    def condition(self, clamp: Clamp) -> list[FactorGroup]:
        """Return the groups that remain when more variables are fixed."""
        remaining: list[FactorGroup] = []
        for fixed, free, chosen in clamp.patterns(self.scopes):
            group = self.select(chosen)
            scopes = clamp.renumbered[group.scopes[:, free]]
            held = torch.cat((group.held, clamp.values[group.scopes[:, fixed]]), dim=1)
            remaining.append(
                replace(
                    group,
                    scopes=scopes,
                    free=tuple(self.free[place] for place in free),
                    fixed=self.fixed + tuple(self.free[place] for place in fixed),
                    held=held,
                )
            )
        return remaining

    def content(self) -> Iterator[tuple[str, Tensor]]:
        """Yield, under stable names, all that the values of the factors depend on."""
        yield from super().content()
        yield "free", torch.tensor(self.free, dtype=torch.long, device="cpu")
        yield "fixed", torch.tensor(self.fixed, dtype=torch.long, device="cpu")
        yield from self.base.content()


@dataclass(frozen=True, eq=False)
class UnslicedGroup(FactorGroup):
    """A group that evidence leaves whole, with the observed places of its scopes held.

    A subclass defines ``sizes``, ``dtype`` and ``log_values_at``, and ``as_factors`` if its factors
    are not to be written out as tables.
    """

    def as_factors(self, variables: Sequence[Variable]) -> list[Factor]:
        """Return the factors one by one, as tables."""
        return as_tables(self, variables)

    def condition(self, clamp: Clamp) -> list[FactorGroup]:
        """Return the groups that remain when some variables are fixed."""
        remaining: list[FactorGroup] = []
        for fixed, free, chosen in clamp.patterns(self.scopes):
            group = self.select(chosen)
            if not fixed:
                remaining.append(replace(group, scopes=clamp.renumbered[group.scopes]))
            else:
                remaining.append(ClampedGroup.build(group, fixed, free, clamp))
        return remaining
