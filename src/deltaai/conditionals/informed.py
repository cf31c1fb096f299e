"""Log-factors inside what is known: the part of a conditional that need not be learned.

For v and its known inputs, every factor over v whose other variables are all known enters v's
logits as it is; the networks learn only the correction, which is the message from the variables
that come later. At a leaf there is none, and the conditional is exact before any training.

This file evaluates all variables at full states; :mod:`deltaai.conditionals.knowledge` joins it
with the weights of :mod:`deltaai.conditionals.folded` for some variables at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.conditionals.base import Known
from deltaai.conditionals.layout import Layout
from deltaai.models import Columns, FactorGraph, FactorGroup

LARGEST_ARITY = 2  # of factors that are folded


@dataclass(frozen=True, eq=False)
class Term:
    """Factors of one group that may enter the logits of the variable at one place of their scope.

    Parameters
    ----------
    group : number of the group in the model.
    place : where the variable whose logits they enter stands.
    factors : which factors of the group.
    owners : that variable.
    slots : slot of (that variable, each other variable of the scope).
    is_wide : whether they are too wide to be folded into weights, or no tables.
    """

    group: int
    place: int
    factors: Int[Tensor, "factor"]
    owners: Int[Tensor, "factor"]
    slots: Int[Tensor, "factor other"]
    is_wide: bool = False


class FactorTerms:
    """Log-factors as logits, for all variables or for some.

    Parameters
    ----------
    model : the target.
    layout : variables and their inputs.
    """

    def __init__(self, model: FactorGraph, layout: Layout) -> None:
        self.layout = layout
        self.terms = tuple(terms_of(model, layout, lambda group, place: group.sizes[place] > 0))

    def logits(
        self,
        groups: tuple[FactorGroup, ...],
        columns: Columns,
        known: Known,
        dtype: torch.dtype,
    ) -> Float[Tensor, "row batch"]:
        """Sum of the log-factors inside each variable and its known inputs."""
        rows = columns.new_zeros(self.layout.num_rows, columns.shape[1], dtype=dtype)
        for term in self.terms:
            group = groups[term.group]
            values = columns[group.scopes[term.factors].T]  # (arity, factor, batch)
            logits = relative_slices(group, term.factors, values, term.place)
            if known is not None:
                logits = logits * known[term.slots].prod(1)[:, None]
            first = self.layout.first_row_of[term.owners]
            at = first[:, None] + torch.arange(logits.shape[1], device=first.device)
            rows = rows.index_add(0, at.reshape(-1), logits.flatten(0, 1))
        return rows

    def flipped_changes(
        self,
        groups: tuple[FactorGroup, ...],
        columns: Columns,
        alternatives: Columns,
        known: Known,
        dtype: torch.dtype,
    ) -> Float[Tensor, "flip batch"]:
        """Change of those sums when one input of a variable takes its alternative value."""
        flips = columns.new_zeros(self.layout.num_flips, columns.shape[1], dtype=dtype)
        for term in self.terms:
            group = groups[term.group]
            scopes = group.scopes[term.factors]
            values = columns[scopes.T]
            before = relative_slices(group, term.factors, values, term.place)
            others = [place for place in range(group.arity) if place != term.place]
            for number, other in enumerate(others):
                moved = values.clone()
                moved[other] = alternatives[scopes[:, other]]
                change = relative_slices(group, term.factors, moved, term.place) - before
                if known is not None:
                    change = change * known[term.slots].prod(1)[:, None]
                first = self.layout.first_flip_of[term.slots[:, number]]
                if bool((first < 0).any()):  # context is not changed
                    is_flipped = (first >= 0).nonzero().squeeze(1)
                    first, change = first[is_flipped], change[is_flipped]
                at = first[:, None] + torch.arange(change.shape[1], device=first.device)
                flips = flips.index_add(0, at.reshape(-1), change.flatten(0, 1))
        return flips


def relative_slices(
    group: FactorGroup,
    factors: Int[Tensor, "factor"],
    values: Num[Tensor, "arity factor batch"],
    place: int,
) -> Float[Tensor, "factor logit batch"]:
    """Log-factors for each state at ``place`` but the first, less that of the first."""
    slices = group.log_slices_at(factors, values, place)
    return slices[:, 1:] - slices[:, :1]


def terms_of(
    model: FactorGraph, layout: Layout, is_wanted: Callable[[FactorGroup, int], bool]
) -> Iterator[Term]:
    """Factors that may enter the parameters of a variable, at places that are wanted."""
    for number, group in enumerate(model.groups):
        scopes = group.scopes.cpu().numpy()
        is_wide = group.arity > LARGEST_ARITY or not group.has_tables
        for place in range(group.arity):
            if not is_wanted(group, place):
                continue
            others = [other for other in range(group.arity) if other != place]
            variable = scopes[:, [place] * len(others)]
            found = layout.slots_of(variable, scopes[:, others])
            chosen = np.flatnonzero((found >= 0).all(axis=1))
            if len(chosen):
                indices = (chosen, scopes[chosen, place], found[chosen])
                factors, owners, slots = (torch.from_numpy(i).to(layout.device) for i in indices)
                yield Term(number, place, factors, owners, slots, is_wide)
