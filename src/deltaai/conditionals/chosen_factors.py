"""Factors that enter the parameters of some variables at a time, as sampling asks for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.informed import Term
from deltaai.conditionals.layout import Layout


@dataclass(frozen=True, eq=False)
class ChosenFactors:
    """Factors of one group that enter the parameters of chosen members of a block.

    Parameters
    ----------
    group, factors : which they are.
    place : where the variable whose parameters they enter stands in their scope.
    pairs : whose parameters each enters.
    inputs : at which input of that variable each variable of the scope is; at its own place any.
    """

    group: int
    factors: Int[Tensor, "factor"]
    place: int
    pairs: Int[Tensor, "factor"]
    inputs: Int[Tensor, "arity factor"]

    @property
    def others(self) -> Int[Tensor, "other factor"]:
        """At which inputs the variables of the scope are, but for the one whose place it is."""
        return torch.cat((self.inputs[: self.place], self.inputs[self.place + 1 :]))


class FactorsByMember:
    """Factors, sorted by the member of a block that they are for.

    Parameters
    ----------
    terms : which factors enter whose parameters.
    layout : variables and their inputs.
    """

    def __init__(self, terms: Sequence[Term], layout: Layout) -> None:
        self._entries = _by_member(terms, layout)

    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> tuple[ChosenFactors, ...]:
        """Find the factors that may enter the parameters of some members of a block.

        Parameters
        ----------
        known : which inputs are known, if that will be the same every time.
        """
        chosen = []
        for entries in self._entries[block]:
            # All (pair, factor) with the factor's variable at the pair: rows of varying length.
            start, stop = entries.offsets[members], entries.offsets[members + 1]
            count = stop - start
            pairs = torch.arange(len(members), device=members.device).repeat_interleave(count)
            before = (count.cumsum(0) - count)[pairs]
            entry = start[pairs] + torch.arange(len(pairs), device=members.device) - before
            inputs = entries.inputs[:, entry]
            if known is not None:
                is_inside = (known[pairs, inputs] > 0).all(0)
                pairs, entry, inputs = pairs[is_inside], entry[is_inside], inputs[:, is_inside]
            if len(pairs):
                factors, place = entries.factors[entry], entries.place
                own = torch.zeros_like(entry)[None]
                inputs = torch.cat((inputs[:place], own, inputs[place:]))
                chosen.append(ChosenFactors(entries.group, factors, place, pairs, inputs))
        return tuple(chosen)


@dataclass(frozen=True, eq=False)
class _Entries:
    """Factors of one group and place, those of one member after those of another."""

    group: int
    place: int
    offsets: Int[Tensor, "member_plus_one"]
    factors: Int[Tensor, "entry"]
    inputs: Int[Tensor, "other entry"]


def _by_member(terms: Sequence[Term], layout: Layout) -> tuple[tuple[_Entries, ...], ...]:
    found: list[list[_Entries]] = [[] for _ in layout.blocks]
    for term in terms:
        where = layout.block_of[term.owners]
        for number, block in enumerate(layout.blocks):
            here = (where[:, 0] == number).nonzero().squeeze(1)
            if not len(here):
                continue
            here = here[where[here, 1].argsort(stable=True)]
            members = where[here, 1]
            counts = torch.bincount(members, minlength=block.size)
            offsets = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
            slots = term.slots[here] - block.first_slot - (members * block.num_inputs)[:, None]
            entry = _Entries(term.group, term.place, offsets, term.factors[here], slots.T)
            found[number].append(entry)
    return tuple(map(tuple, found))
