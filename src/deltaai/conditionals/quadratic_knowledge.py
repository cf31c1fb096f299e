"""What q knows of real variables before training: the quadratic factors inside what is known.

    Σ_k log φ_k(x_v, known) = c + h x_v - ½ P x_v²,     location h / P,   scale P^(-1/2)

over the factors of v all of whose other variables are known, and which are parabolas along v. At a
variable that nothing comes after it is exact; else what comes after takes precision away, which
networks learn. Where there is none, the standard normal stands for it: variables come in standard
coordinates.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.base import Known
from deltaai.conditionals.chosen_factors import ChosenFactors, FactorsByMember
from deltaai.conditionals.heads import RealHead
from deltaai.conditionals.informed import terms_of
from deltaai.conditionals.knowledge import Inputs, Knowledge
from deltaai.conditionals.layout import Block, Layout
from deltaai.conditionals.normal_given import Places, normal_places, parabola_at
from deltaai.models import Columns, FactorGraph

_LEAST_PRECISION = 0.05  # in standard coordinates; less says next to nothing


class QuadraticKnowledge(Knowledge):
    """Location and scale of each real variable given its known inputs; of states nothing.

    Parameters
    ----------
    model : the target; only which variables its factors have is kept of it.
    layout : variables and their inputs.
    places : where factors are parabolas, if that is known.
    """

    def __init__(self, model: FactorGraph, layout: Layout, places: Places | None = None) -> None:
        self.layout = layout
        places = normal_places(model) if places is None else places
        are_there = {(id(model.groups[number]), place) for number, place in places}
        self.terms = tuple(terms_of(model, layout, lambda g, place: (id(g), place) in are_there))
        self._by_member = FactorsByMember(self.terms, layout)

    def logits(
        self, model: FactorGraph, columns: Columns, known: Known
    ) -> Float[Tensor, "row batch"]:
        """Parameters of every variable's head at full states; states may have gradients."""
        precision, shift = self._sums(model, columns, known)
        parts = [
            _parameters(block, precision[block.variables], shift[block.variables]).flatten(0, 1)
            for block in self.layout.blocks
        ]
        return torch.cat([precision[:0], *parts])

    def logits_and_flips(
        self, model: FactorGraph, columns: Columns, others: Columns, known: Known
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """The same, and with each input in turn at its value in ``others``."""
        layout = self.layout
        with torch.no_grad():
            sums = self._sums(model, columns, known)
            precision, shift = (part.index_select(0, layout.slot_variable) for part in sums)
            for term in self.terms:
                group = model.groups[term.group]
                values = columns[group.scopes[term.factors].T]
                before = parabola_at(model, group, term.factors, values, term.place)
                places = [place for place in range(group.arity) if place != term.place]
                for number, place in enumerate(places):
                    moved = values.clone()
                    moved[place] = others[group.scopes[term.factors, place]]
                    after = parabola_at(model, group, term.factors, moved, term.place)
                    slots = term.slots[:, number]
                    mask = 1.0 if known is None else known[term.slots].prod(1)
                    precision.index_add_(0, slots, (after[0] - before[0]) * mask)
                    shift.index_add_(0, slots, (after[1] - before[1]) * mask)
            rows, flips = [sums[0][:0]], [sums[0][:0]]
            for block in layout.blocks:
                own = (part[block.variables] for part in sums)
                rows.append(_parameters(block, *own).flatten(0, 1))
                shape = (block.size, block.num_inputs, columns.shape[1])
                each = (
                    part[block.slots].view(shape)[:, : block.num_flipped]
                    for part in (precision, shift)
                )
                flips.append(_parameters(block, *each).flatten(0, 2))
            return torch.cat(rows), torch.cat(flips)

    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> tuple[ChosenFactors, ...]:
        """Find the factors that may enter the parameters of the members."""
        return self._by_member.choose(block, members, known)

    def logits_at(
        self, model: FactorGraph, chosen: tuple[ChosenFactors, ...], inputs: Inputs
    ) -> Float[Tensor, "pair logit batch"] | None:
        """Parameters of chosen members at given inputs."""
        block = self.layout.blocks[inputs.block]
        if not block.head.is_real:
            return None
        with torch.no_grad():
            shape = (len(inputs.members), inputs.features.shape[3])
            precision = inputs.features.new_zeros(shape)
            shift, mask = torch.zeros_like(precision), inputs.mask
            for some in chosen:
                seen = inputs.at(some.pairs, some.others)
                own = seen.new_zeros(1, len(some.pairs), shape[1])  # which is not looked at
                values = torch.cat((seen[: some.place], own, seen[some.place :]))
                group = model.groups[some.group]
                parts = parabola_at(model, group, some.factors, values, some.place)
                if mask is not None:
                    is_known = mask[some.pairs, some.others].prod(0)
                    parts = (parts[0] * is_known, parts[1] * is_known)
                precision = precision.index_add(0, some.pairs, parts[0])
                shift = shift.index_add(0, some.pairs, parts[1])
            return _parameters(block, precision, shift)

    def _sums(
        self, model: FactorGraph, columns: Columns, known: Known
    ) -> tuple[Float[Tensor, "var batch"], Float[Tensor, "var batch"]]:
        """Precision and shift of every variable from the factors inside what is known."""
        precision = torch.zeros(columns.shape, dtype=model.dtype, device=columns.device)
        shift = torch.zeros_like(precision)
        for term in self.terms:
            group = model.groups[term.group]
            values = columns[group.scopes[term.factors].T]
            parts = parabola_at(model, group, term.factors, values, term.place)
            if known is not None:
                mask = known[term.slots].prod(1)
                parts = (parts[0] * mask, parts[1] * mask)
            precision = precision.index_add(0, term.owners, parts[0])
            shift = shift.index_add(0, term.owners, parts[1])
        return precision, shift


class SummedKnowledge(Knowledge):
    """Several kinds of knowledge at once, each of other variables.

    Parameters
    ----------
    parts : what is summed.
    """

    def __init__(self, *parts: Knowledge) -> None:
        self.parts, self.layout = parts, parts[0].layout

    def logits(
        self, model: FactorGraph, columns: Columns, known: Known
    ) -> Float[Tensor, "row batch"]:
        """The sum at full states."""
        first, *others = (part.logits(model, columns, known) for part in self.parts)
        for other in others:
            first = first + other
        return first

    def logits_and_flips(
        self, model: FactorGraph, columns: Columns, others: Columns, known: Known
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """The sums at full states, and with each input in turn at its value in ``others``."""
        rows, flips = self.parts[0].logits_and_flips(model, columns, others, known)
        for part in self.parts[1:]:
            more = part.logits_and_flips(model, columns, others, known)
            rows, flips = rows + more[0], flips + more[1]
        return rows, flips

    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> tuple[Any, ...]:
        """Prepare each part."""
        return tuple(part.choose(block, members, known) for part in self.parts)

    def logits_at(
        self, model: FactorGraph, chosen: tuple[Any, ...], inputs: Inputs
    ) -> Float[Tensor, "pair logit batch"] | None:
        """The sum of what the parts know of chosen members."""
        found = None
        for part, prepared in zip(self.parts, chosen, strict=True):
            one = part.logits_at(model, prepared, inputs)
            if one is not None:
                found = one if found is None else found + one
        return found


def _parameters(
    block: Block, precision: Float[Tensor, "*lead batch"], shift: Float[Tensor, "*lead batch"]
) -> Float[Tensor, "*lead logit batch"]:
    """What a precision and a shift are to the head of a block; nothing where it has states."""
    head = block.head
    if not isinstance(head, RealHead):
        shape = (*precision.shape[:-1], head.num_parameters, precision.shape[-1])
        return precision.new_zeros(shape)
    is_known = precision != 0
    sharpness = precision.clamp(min=_LEAST_PRECISION)
    location = (shift / sharpness).where(is_known, 0.0)
    log_scale = (-0.5 * sharpness.log()).where(is_known, 0.0)
    return head.known_parameters(location, log_scale)
