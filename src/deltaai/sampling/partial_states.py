"""States that are filled in step by step: the logits of what is due, and writing what was drawn.

Every way of ancestral sampling is a loop over what is due (:mod:`deltaai.sampling.levels`) of two
steps: ask for logits, choose states from them and write these. How states are chosen, and what
becomes of their probabilities, is the loop's.
"""

from __future__ import annotations

from jaxtyping import Float, Int, Shaped
from torch import Tensor

from deltaai.conditionals import Known, Proposal, fold, relative_slices
from deltaai.sampling.levels import Due


class PartialStates:
    """States of all variables in some orders, as far as they are there.

    Parameters
    ----------
    proposal : q.
    num_dags : number of orders.
    states : one row a cell; zero where nothing is written yet.
    features : the same, encoded.
    """

    def __init__(
        self,
        proposal: Proposal,
        num_dags: int,
        states: Int[Tensor, "cell sample"],
        features: Float[Tensor, "feature_row sample"],
    ) -> None:
        self.proposal, self.num_dags = proposal, num_dags
        self.states, self.features = states, features
        self.folded = None
        if proposal.is_informed:
            self.folded = fold(proposal.terms, proposal.model.groups, proposal.model.dtype)

    def logits(
        self, due: Due, beta: float | int, known: Known = None
    ) -> Float[Tensor, "pair logit sample"]:
        """Logits of what is due given the states so far.

        ``known`` says which inputs are seen if that differs between the samples of one order;
        otherwise ``due`` does.
        """
        proposal, members, num_samples = self.proposal, due.members, self.states.shape[1]
        inputs = _rows(self.features, due.input_rows)
        seen = due.known
        if known is not None:
            block = proposal.layout.blocks[due.block]
            seen = known[block.slots].view(block.size, block.num_inputs, num_samples)[members]
        logits = proposal.conditionals.logits_at(due.block, members, inputs, seen)
        if self.folded is not None:
            if due.known is not None:
                seen = due.known[:, :, None].expand(-1, -1, num_samples)
            inside = self.folded[due.block].logits(members, inputs, seen)
            logits = logits.add(inside, alpha=beta)
        for wide in due.wide:
            group = proposal.model.groups[wide.group]
            values = _rows(self.states, wide.cells)
            slices = relative_slices(group, wide.factors, values, wide.place)
            if known is not None:
                slices = slices * known[wide.slots].prod(1)[:, None]
            logits = logits.index_add(0, wide.pairs, slices, alpha=beta)
        return logits

    def write(self, due: Due, states: Int[Tensor, "pair sample"]) -> None:
        """Set the variables of a due."""
        self.states.index_copy_(0, due.cells, states)
        by_dag = self.features.view(len(self.features) // self.num_dags, self.num_dags, -1)
        self.proposal.layout.encoding.write(by_dag, due.variables, states, due.dags)

    def keep(self, index: Int[Tensor, "sample"]) -> None:
        """Replace every sample by another."""
        self.states = self.states.index_select(1, index)
        self.features = self.features.index_select(1, index)


def _rows(table: Tensor, rows: Int[Tensor, "*wanted"]) -> Shaped[Tensor, "*wanted sample"]:
    """``table[rows]``, in a quarter of the time."""
    return table.index_select(0, rows.flatten()).view(*rows.shape, table.shape[1])
