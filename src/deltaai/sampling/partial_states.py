"""States that are filled in step by step: the logits of what is due, and writing what was drawn.

Every way of ancestral sampling is a loop over what is due (:mod:`deltaai.sampling.levels`). What
becomes of the probabilities of what was drawn is the loop's.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Num, Shaped
from torch import Tensor

from deltaai.conditionals import Context, Inputs, Proposal
from deltaai.sampling.levels import Due, Schedule
from deltaai.sampling.paths import Given
from deltaai.sampling.policies import Choose


class PartialStates:
    """States of all variables in some orders, as far as they are there.

    Parameters
    ----------
    proposal : q.
    schedule : of the orders.
    num_samples : samples of each order.
    given : evidence and what is known, if the schedule is for that; the columns of the first order
        come first.
    context : what is given with each column, as every conditional sees it.
    """

    def __init__(
        self,
        proposal: Proposal,
        schedule: Schedule,
        num_samples: int,
        given: Given | None = None,
        context: Context | None = None,
    ) -> None:
        encoding, device = proposal.layout.encoding, proposal.device
        self.proposal, self.num_dags = proposal, schedule.num_dags
        self.model = proposal.model  # as it is now
        shape = (schedule.num_dags, num_samples)
        cells = proposal.layout.num_variables * schedule.num_dags
        self.observed: Bool[Tensor, "cell sample"] | None = None
        self.known: Float[Tensor, "slot dag sample"] | None = None
        if given is None:
            dtype = proposal.value_dtype
            self.states = torch.zeros(cells, num_samples, dtype=dtype, device=device)
            num_rows = (encoding.num_rows + 1) * schedule.num_dags
            self.features = torch.zeros(num_rows, num_samples, dtype=proposal.dtype, device=device)
        else:
            states = given.columns.where(given.observed, 0).to(proposal.value_dtype)
            features = proposal.features(states)
            features[:-1] *= given.observed[encoding.owners]  # the rest is not there yet
            self.states = states.reshape(cells, num_samples)
            self.features = features.reshape(len(features) * self.num_dags, num_samples)
            self.observed = given.observed.reshape(cells, num_samples)
            if given.known is not None:
                self.known = given.known.view(len(given.known), *shape)
        self.context = context

    def logits(self, due: Due) -> Float[Tensor, "pair logit sample"]:
        """Logits of what is due, given the states so far."""
        proposal, members = self.proposal, due.members
        known = due.known
        if self.known is not None:
            block = proposal.layout.blocks[due.block]
            shape = (block.size, block.num_inputs, *self.known.shape[1:])
            by_slot = self.known[block.slots].view(shape)
            known = by_slot[members, :, due.dags]
        context = None
        if self.context is not None:
            context = self.context.of_pairs(due.block, members, due.dags, self.num_dags)
        features = _rows(self.features, due.input_rows)
        logits = proposal.conditionals.logits_at(due.block, members, features, known, context)
        inputs = Inputs(due.block, members, features, self.states, due.input_cells, known)
        inside = proposal.knowledge.logits_at(self.model, due.chosen, inputs)
        return logits if inside is None else logits.add_(inside)

    def fill(
        self, due: Due, choose: Choose
    ) -> tuple[Float[Tensor, "pair sample"], Bool[Tensor, "pair sample"] | None]:
        """Draw what is due where it is not observed.

        Returns
        -------
        Log q of what is there now, of q itself whatever the policy, and where it was observed.
        """
        logits, drawn, is_given = self.put(due, choose)
        head = self.proposal.layout.blocks[due.block].head
        return head.log_density(logits, drawn), is_given

    def put(
        self, due: Due, choose: Choose
    ) -> tuple[Tensor, Num[Tensor, "pair sample"], Bool[Tensor, "pair sample"] | None]:
        """Draw what is due where it is not observed; return logits, values, and where it was."""
        head = self.proposal.layout.blocks[due.block].head
        logits = self.logits(due)
        drawn, is_given = choose(head, logits, due.dags).to(self.states.dtype), None
        if self.observed is not None:
            is_given = _rows(self.observed, due.cells)
            drawn = _rows(self.states, due.cells).where(is_given, drawn)
        self.states.index_copy_(0, due.cells, drawn)
        num_rows, num_samples = self.features.shape
        by_dag = self.features.view(num_rows // self.num_dags, self.num_dags, num_samples)
        self.proposal.layout.encoding.write(by_dag, due.variables, drawn, due.dags)
        return logits, drawn, is_given

    def keep(self, index: Int[Tensor, "sample"]) -> None:
        """Replace every sample by another; evidence must be the same in both."""
        self.states = self.states.index_select(1, index)
        self.features = self.features.index_select(1, index)


def _rows(table: Tensor, rows: Int[Tensor, "*wanted"]) -> Shaped[Tensor, "*wanted sample"]:
    """``table[rows]``, in a quarter of the time."""
    return table.index_select(0, rows.flatten()).view(*rows.shape, table.shape[1])
