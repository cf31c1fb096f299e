"""Unnormalised full conditionals of some variables at once: what Gibbs sampling draws from.

For variables of one colour the full conditionals depend only on variables of other colours, so

    log p(x_v = k | all others) = Σ_{factors with v} log φ(x with x_v = k) + constant

is evaluated for all of them in a few operations, one for each group of factors and place in its
scope. Factors of value zero are taken as the limit of a small value: where every choice of x_v
breaks some factor, those that break the fewest are kept, so chains started at an impossible state
find their way out, and nothing is ever 0 / 0. At possible states this is p itself.

This file evaluates states one by one; where a variable has few neighbours,
:mod:`deltaai.mcmc.conditional_tables` lists all cases beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.mcmc.chains import tempered
from deltaai.models import Columns, FactorGraph, FactorGroup

# Scores evaluated at once: more would leave the cache.
BLOCK_ENTRIES = 2**20


@dataclass(frozen=True, eq=False)
class Incident:
    """Factors of one group that have one of some variables at one place of their scope.

    Parameters
    ----------
    group : number of the group in the model.
    place : place in the scope.
    factors : the factors.
    owners : which of the variables stands there, by its position among them.
    """

    group: int
    place: int
    factors: Int[Tensor, "pair"]
    owners: Int[Tensor, "pair"]


def incidents(model: FactorGraph, members: Int[Tensor, "member"]) -> tuple[Incident, ...]:
    """List all factors that touch some variables."""
    position = torch.full((model.num_variables,), -1, dtype=torch.long, device=model.device)
    position[members] = torch.arange(len(members), device=model.device)
    found = []
    for number, group in enumerate(model.groups):
        for place in range(group.arity):
            owners = position[group.scopes[:, place]]
            factors = (owners >= 0).nonzero().squeeze(1)
            if len(factors):
                found.append(Incident(number, place, factors, owners[factors]))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Touching:
    """Factors with a member at one place of their scope, and the member of each."""

    group: FactorGroup
    place: int
    owners: Int[Tensor, "pair"]


@dataclass(frozen=True, eq=False)
class LocalScores:
    """Local scores of variables with one number of states, no two of them neighbours.

    Parameters
    ----------
    num_members : how many variables.
    num_states : states of each.
    dtype : type of the scores.
    parts : the factors that touch them.
    """

    num_members: int
    num_states: int
    dtype: torch.dtype
    parts: tuple[Touching, ...]

    @classmethod
    def build(
        cls,
        model: FactorGraph,
        members: Int[Tensor, "member"],
        row_of: Int[Tensor, "var"],
    ) -> LocalScores:
        """Collect the factors of the members, for columns whose rows stand in another order.

        Parameters
        ----------
        row_of : where each variable stands in the columns to be scored.
        """
        parts = []
        for incident in incidents(model, members):
            group = model.groups[incident.group].select(incident.factors)
            moved = replace(group, scopes=row_of[group.scopes])
            parts.append(Touching(moved, incident.place, incident.owners))
        num_states = len(model.variables[int(members[0])].states)
        return cls(len(members), num_states, model.dtype, tuple(parts))

    def log_scores(self, columns: Columns) -> Float[Tensor, "member state chain"]:
        """Local log score of every state of every member, zeros settled."""
        shape = (self.num_members, self.num_states, columns.shape[1])
        total = torch.zeros(shape, dtype=self.dtype, device=columns.device)
        num_zeros: Tensor | None = None
        for part in self.parts:
            slices = part.group.log_slices(columns, part.place)
            if columns.is_floating_point():  # functions of real variables may be no number
                slices = slices.nan_to_num(-torch.inf, -torch.inf, -torch.inf)
            is_zero = slices == -torch.inf
            if bool(is_zero.any()):
                num_zeros = torch.zeros_like(total) if num_zeros is None else num_zeros
                num_zeros.index_add_(0, part.owners, is_zero.to(self.dtype))
                slices = slices.masked_fill(is_zero, 0)
            total.index_add_(0, part.owners, slices)
        return total if num_zeros is None else settle_zeros(total, num_zeros, 1)

    def draw(
        self, columns: Columns, beta: float | int, generator: torch.Generator
    ) -> Num[Tensor, "member chain"]:
        """Draw every member from its full conditional, given all other rows of the columns."""
        largest = max((len(part.owners) for part in self.parts), default=0)
        width = BLOCK_ENTRIES // (max(largest, self.num_members) * self.num_states)
        drawn = []
        for chains in torch.split(columns, max(width, 1), dim=1):
            scores = tempered(self.log_scores(chains), beta)
            cumulative = torch.softmax(scores.double(), 1).cumsum(1)
            shape = (self.num_members, 1, chains.shape[1])
            uniform = torch.rand(
                shape, generator=generator, dtype=torch.float64, device=columns.device
            )
            # Just below the total, so that rounding cannot reach a last state of probability 0.
            threshold = uniform * (1 - 2**-52) * cumulative[:, -1:]
            drawn.append((cumulative[:, :-1] <= threshold).sum(1, dtype=columns.dtype))
        return torch.cat(drawn, 1)


def settle_zeros(
    finite: Float[Tensor, "*shape"], num_zeros: Float[Tensor, "*shape"], dim: int
) -> Float[Tensor, "*shape"]:
    """Keep, along one axis, the states that break the fewest factors; the others get -inf.

    Parameters
    ----------
    finite : sum of the finite log-factors.
    num_zeros : number of factors that are zero.
    """
    return finite.masked_fill(num_zeros > num_zeros.amin(dim, keepdim=True), -torch.inf)
