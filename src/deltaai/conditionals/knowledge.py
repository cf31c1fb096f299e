"""What q knows before training, as numbers that are added to those of its networks.

A component of q, like the networks, and it answers the same three questions: at full states; with
each input changed in turn; for some variables at inputs that are handed over. Two kinds are here:
nothing, and the log-factors inside what is known. A third needs no more than a subclass: tables
over any of a variable's inputs.

Given states, what is known does not depend on the networks, so it is computed once for a batch of
states and used for as many updates as are made on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.base import Known
from deltaai.conditionals.folded import LARGEST_ARITY, FoldedBlock, fold
from deltaai.conditionals.informed import FactorTerms, relative_slices
from deltaai.conditionals.layout import Layout
from deltaai.models import FactorGraph

# Whether an input is known to each of some pairs: the same in all samples, or not.
PairsKnown = Float[Tensor, "pair input"] | Float[Tensor, "pair input batch"] | None


class Knowledge(ABC):
    """What is added to the parameters of every variable's head."""

    layout: Layout

    @abstractmethod
    def logits(
        self, model: FactorGraph, columns: Int[Tensor, "var batch"], known: Known
    ) -> Float[Tensor, "row batch"]:
        """What is known of every variable at full states."""

    @abstractmethod
    def logits_and_flips(
        self,
        model: FactorGraph,
        columns: Int[Tensor, "var batch"],
        others: Int[Tensor, "var batch"],
        known: Known,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """The same, and with each input in turn at its value in ``others``."""

    @abstractmethod
    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> Any:  # noqa: ANN401
        """Prepare for being asked about some members of a block, again and again.

        Parameters
        ----------
        known : which inputs are known, if that will be the same every time.
        """

    @abstractmethod
    def logits_at(
        self,
        model: FactorGraph,
        chosen: Any,  # noqa: ANN401
        inputs: Inputs,
    ) -> Float[Tensor, "pair logit batch"] | None:
        """What is known of chosen members at given inputs; ``None`` for nothing."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Values of the inputs of some members of a block.

    Parameters
    ----------
    block, members : whose.
    features : encoded.
    values : a table of values, one row a cell.
    cells : where the value of each input stands in it; anywhere for inputs that are not there.
    known : which of them are known; ``None`` for all.
    """

    block: int
    members: Int[Tensor, "pair"]
    features: Float[Tensor, "pair input feature batch"]
    values: Int[Tensor, "cell batch"]
    cells: Int[Tensor, "pair input"]
    known: PairsKnown = None

    def at(
        self, pairs: Int[Tensor, "some"], inputs: Int[Tensor, "other some"]
    ) -> Int[Tensor, "other some batch"]:
        """Values of some inputs of some of the members."""
        cells = self.cells[pairs, inputs]
        chosen = self.values.index_select(0, cells.flatten())
        return chosen.view(*cells.shape, self.values.shape[1])

    @property
    def mask(self) -> Float[Tensor, "pair input batch"] | None:
        """What is known in each sample."""
        if self.known is None or self.known.ndim == 3:
            return self.known
        return self.known[:, :, None].expand(-1, -1, self.features.shape[3])


class NoKnowledge(Knowledge):
    """Nothing: the networks learn all of it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def logits(
        self, model: FactorGraph, columns: Int[Tensor, "var batch"], known: Known
    ) -> Float[Tensor, "row batch"]:
        """Zeros."""
        return columns.new_zeros(self.layout.num_rows, columns.shape[1], dtype=model.dtype)

    def logits_and_flips(
        self,
        model: FactorGraph,
        columns: Int[Tensor, "var batch"],
        others: Int[Tensor, "var batch"],
        known: Known,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """Zeros."""
        flips = columns.new_zeros(self.layout.num_flips, columns.shape[1], dtype=model.dtype)
        return self.logits(model, columns, known), flips

    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> None:
        """Nothing to prepare."""

    def logits_at(self, model: FactorGraph, chosen: None, inputs: Inputs) -> None:
        """Nothing."""


@dataclass(frozen=True, eq=False)
class WideFactors:
    """Factors over too many variables to be folded that enter the logits of chosen members.

    Parameters
    ----------
    group, factors : which they are.
    place : where the variable whose logits they enter stands in their scope.
    pairs : whose logits each enters.
    inputs : at which input of that variable each variable of the scope is; at its own place any.
    """

    group: int
    factors: Int[Tensor, "factor"]
    place: int
    pairs: Int[Tensor, "factor"]
    inputs: Int[Tensor, "arity factor"]


class FactorKnowledge(Knowledge):
    """Log-factors inside a variable and its known inputs.

    Parameters
    ----------
    model : the target; only which variables its factors have is kept of it.
    layout : variables and their inputs.
    """

    def __init__(self, model: FactorGraph, layout: Layout) -> None:
        self.layout = layout
        self.terms = FactorTerms(model, layout)
        self._folded: tuple[FactorGraph, tuple[FoldedBlock, ...]] | None = None

    def logits(
        self, model: FactorGraph, columns: Int[Tensor, "var batch"], known: Known
    ) -> Float[Tensor, "row batch"]:
        """Sum of the log-factors inside each variable and its known inputs."""
        with torch.no_grad():
            return self.terms.logits(model.groups, columns, known, model.dtype)

    def logits_and_flips(
        self,
        model: FactorGraph,
        columns: Int[Tensor, "var batch"],
        others: Int[Tensor, "var batch"],
        known: Known,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """The sums at full states, and what a change of one input makes of them."""
        base = self.logits(model, columns, known)
        repeated = [
            block.rows_of(base)[:, None].expand(-1, block.num_flipped, -1, -1).flatten(0, 2)
            for block in self.layout.blocks
        ]
        with torch.no_grad():
            changes = self.terms.flipped_changes(model.groups, columns, others, known, model.dtype)
        return base, torch.cat([base[:0], *repeated]) + changes

    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> tuple[WideFactors, ...]:
        """Find the wide factors that may enter the logits of the members."""
        chosen = []
        for wide in self._wide[block]:
            # All (pair, factor) with the factor's variable at the pair: rows of varying length.
            start, stop = wide.offsets[members], wide.offsets[members + 1]
            count = stop - start
            pairs = torch.arange(len(members), device=members.device).repeat_interleave(count)
            before = (count.cumsum(0) - count)[pairs]
            entry = start[pairs] + torch.arange(len(pairs), device=members.device) - before
            inputs = wide.inputs[:, entry]
            if known is not None:
                is_inside = (known[pairs, inputs] > 0).all(0)
                pairs, entry, inputs = pairs[is_inside], entry[is_inside], inputs[:, is_inside]
            if len(pairs):
                factors, place = wide.factors[entry], wide.place
                inputs = torch.cat((inputs[:place], inputs[:1], inputs[place:]))
                chosen.append(WideFactors(wide.group, factors, wide.place, pairs, inputs))
        return tuple(chosen)

    def logits_at(
        self, model: FactorGraph, chosen: tuple[WideFactors, ...], inputs: Inputs
    ) -> Float[Tensor, "pair logit batch"]:
        """Log-factors inside chosen members and their known inputs."""
        with torch.no_grad():
            mask = inputs.mask
            folded = self._folded_for(model)[inputs.block]
            logits = folded.logits(inputs.members, inputs.features, mask)
            for wide in chosen:
                values = inputs.at(wide.pairs, wide.inputs)
                group = model.groups[wide.group]
                slices = relative_slices(group, wide.factors, values, wide.place)
                if mask is not None:
                    slices = slices * mask[wide.pairs, wide.inputs].prod(0)[:, None]
                logits = logits.index_add(0, wide.pairs, slices)
            return logits

    def _folded_for(self, model: FactorGraph) -> tuple[FoldedBlock, ...]:
        """Unary and pairwise factors as weights; kept while the target is the same value."""
        kept = self._folded
        if kept is None or kept[0] is not model:
            kept = model, fold(self.terms, model.groups, model.dtype)
            self._folded = kept
        return kept[1]

    @property
    def _wide(self) -> tuple[tuple[_ByMember, ...], ...]:
        if not hasattr(self, "_kept_wide"):
            self._kept_wide = _by_member(self.terms, self.layout)
        return self._kept_wide


@dataclass(frozen=True, eq=False)
class _ByMember:
    """Wide factors of one group and place, sorted by the member of a block that they are for."""

    group: int
    place: int
    offsets: Int[Tensor, "member_plus_one"]
    factors: Int[Tensor, "entry"]
    inputs: Int[Tensor, "other entry"]


def _by_member(terms: FactorTerms, layout: Layout) -> tuple[tuple[_ByMember, ...], ...]:
    found: list[list[_ByMember]] = [[] for _ in layout.blocks]
    for term in terms.terms:
        if term.slots.shape[1] + 1 <= LARGEST_ARITY:
            continue
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
            entry = _ByMember(term.group, term.place, offsets, term.factors[here], slots.T)
            found[number].append(entry)
    return tuple(map(tuple, found))
