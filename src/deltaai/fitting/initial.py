"""Start q at what loopy belief propagation says, before any training.

What a conditional of q has to learn is the message from the variables that come later. Belief
propagation gives an estimate of it: with m the log messages from factors to variables,

    correction_v(k) = Σ_{f of v, not inside v and what is known} ( m_{f→v}(k) - m_{f→v}(0) )

A constant for each variable, where all its inputs are known (one order). Where that varies (many
orders, evidence), a factor tells v nothing more once it is inside the known, and each of its other
variables takes its share of the message back by becoming known. If no log-factors are part of the
logits, none is inside: q starts as the product of the beliefs.

On a forest of factors over one and two variables the corrections of one order do not depend on the
parents, and q is exact. Elsewhere it is a start. Messages that did not converge are not used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from deltaai.arguments import checked_choice
from deltaai.conditionals import Layout, Proposal, relative_slices
from deltaai.messages import BeliefPropagation, loopy_belief_propagation
from deltaai.models import FactorGroup, on_cpu
from deltaai.sampling import OrdersKind

InitialName = Literal["bp"]

_ITERATIONS, _DAMPING, _TOLERANCE = 200, 0.5, 1e-5


def check_initial(initial: str | None) -> None:
    """Refuse what is no name of an initialisation."""
    names = get_args(InitialName)
    if initial is not None:
        checked_choice("initial", initial, names)


@torch.no_grad()
def start_from_messages(proposal: Proposal, orders: OrdersKind = "one") -> bool:
    """Set the corrections of an untrained q to the messages of belief propagation.

    Parameters
    ----------
    proposal : q, at the temperature of the target that training begins with.
    orders : whether it is asked in one order or in many.

    Returns
    -------
    Whether the messages converged; if not, q is left as it is.
    """
    found = loopy_belief_propagation(
        proposal.model,
        num_iterations=_ITERATIONS,
        damping=_DAMPING,
        tolerance=_TOLERANCE,
    )
    if not found.is_converged:
        return False
    layout = proposal.layout
    is_varying = _varying_slots(layout, orders)
    first_of_slot, first_row_of = _first_of_slot(layout), layout.first_row_of.cpu()
    rows = torch.zeros(layout.num_rows, dtype=torch.float64, device="cpu")
    shares = torch.zeros(int(first_of_slot[-1]), dtype=torch.float64, device="cpu")
    for variables, slots, messages in _messages(proposal, found):
        is_inside = (slots >= 0).all(1) & proposal.is_informed
        varying = is_varying[slots] & is_inside[:, None]
        num_varying = varying.sum(1)
        is_added = ~is_inside | (num_varying > 0)
        logits = torch.arange(messages.shape[1], device="cpu")
        at = first_row_of[variables][:, None] + logits
        rows.index_add_(0, at[is_added].flatten(), messages[is_added].flatten())
        factor, other = varying.nonzero(as_tuple=True)
        share = -messages[factor] / num_varying[factor][:, None]
        at = first_of_slot[slots[factor, other]][:, None] + logits
        shares.index_add_(0, at.flatten(), share.flatten())
    has_shares = proposal.is_informed and bool(is_varying.any())
    when_known = list(_by_block(layout, shares, first_of_slot)) if has_shares else None
    proposal.conditionals.set_constant(rows.to(proposal.device, proposal.model.dtype), when_known)
    return True


def _messages(
    proposal: Proposal, found: BeliefPropagation
) -> Iterator[tuple[Int[Tensor, "factor"], Int[Tensor, "factor other"], Tensor]]:
    """Messages of the factors of a group to one place of their scopes, relative to the first state.

    Yields the variables there, the slots of the other variables of each factor, -1 where there is
    none, and the messages.
    """
    model, layout = on_cpu(proposal.model), proposal.layout
    sent = _Sent.of(found)
    for group in model.groups:
        for place in range(group.arity):
            if group.sizes[place] == 1:
                continue
            others = [other for other in range(group.arity) if other != place]
            scopes = group.scopes.cpu()
            variables = scopes[:, place]
            slots = layout.slots_of(
                variables.numpy()[:, None].repeat(len(others), 1), scopes[:, others].numpy()
            )
            if all(group.sizes[other] == 1 for other in others):
                messages = _own_messages(group, place)
            else:
                messages = sent.to(group.ids.cpu(), variables, group.sizes[place])
            yield variables, torch.from_numpy(slots), messages


def _own_messages(group: FactorGroup, place: int) -> Float[Tensor, "factor logit"]:
    """What factors say that tie no other variable with a choice: their own values."""
    states = torch.zeros(group.arity, group.num_factors, 1, dtype=torch.long, device="cpu")
    every = torch.arange(group.num_factors, device="cpu")
    return relative_slices(group, every, states, place).squeeze(2).double().cpu()


@dataclass(frozen=True, eq=False)
class _Sent:
    """Messages of belief propagation, relative to the first state, to be looked up.

    Parameters
    ----------
    keys : one number for each (factor, variable), ascending.
    first : where the message begins in ``values``.
    """

    num_variables: int
    keys: np.ndarray
    first: Int[Tensor, "message"]
    values: Float[Tensor, "entry"]

    @classmethod
    def of(cls, found: BeliefPropagation) -> _Sent:
        num_variables, begin = found.model.num_variables, 0
        keys, firsts = (
            [np.zeros(0, dtype=np.int64)],
            [torch.zeros(0, dtype=torch.long, device="cpu")],
        )
        values = [torch.zeros(0, dtype=torch.float64, device="cpu")]
        for part in found.factor_messages():
            relative = (part.log_messages[:, 1:] - part.log_messages[:, :1]).cpu()
            keys.append((part.ids * num_variables + part.variables).cpu().numpy())
            firsts.append(begin + torch.arange(len(relative), device="cpu") * relative.shape[1])
            values.append(relative.flatten())
            begin += relative.numel()
        together = np.concatenate(keys)
        order = np.argsort(together, kind="stable")
        return cls(num_variables, together[order], torch.cat(firsts)[order], torch.cat(values))

    def to(
        self, ids: Int[Tensor, "factor"], variables: Int[Tensor, "factor"], num_states: int
    ) -> Float[Tensor, "factor logit"]:
        """Messages of some factors to one variable each."""
        at = np.searchsorted(self.keys, (ids * self.num_variables + variables).numpy())
        return self.values[self.first[at][:, None] + torch.arange(num_states - 1, device="cpu")]


def _varying_slots(layout: Layout, orders: OrdersKind) -> Bool[Tensor, "slot_plus_one"]:
    """Which inputs are known at some times only: all under many orders, else context.

    The last entry is for slots that are not there, -1.
    """
    is_context = layout.first_flip_of.cpu() < 0
    is_varying = torch.ones_like(is_context) if orders == "many" else is_context
    return torch.cat((is_varying, torch.zeros(1, dtype=torch.bool, device="cpu")))


def _first_of_slot(layout: Layout) -> Int[Tensor, "slot_plus_one"]:
    """Where the logits of each slot's variable begin, if those of all slots stand in one row."""
    logits = [
        torch.full((b.size * b.num_inputs,), b.num_logits, dtype=torch.long, device="cpu")
        for b in layout.blocks
    ]
    return torch.cat([torch.zeros(1, dtype=torch.long, device="cpu"), *logits]).cumsum(0)


def _by_block(
    layout: Layout, row: Float[Tensor, "entry"], first_of_slot: Int[Tensor, "slot_plus_one"]
) -> Iterator[Float[Tensor, "_variable _logit _input"]]:
    for block in layout.blocks:
        begin, end = first_of_slot[[block.slots.start, block.slots.stop]].tolist()
        shape = (block.size, block.num_inputs, block.num_logits)
        yield row[begin:end].view(shape).transpose(1, 2)
