"""What q knows before training: messages from what comes later, as factors inside the known.

Weighted mini-bucket messages in the order of q (:class:`~deltaai.messages.MessagePlan`) stand
beside the factors of the target, and what is known of a variable are all of them in which it comes
last of what q draws: so this is knowledge of factors, of a graph with more of them. Where no bucket
was split it is exact, and else networks learn what was lost.

Messages are those of the target as it is: at another temperature there are others, and when p has
moved, too. It is made for one order without evidence.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.base import Known
from deltaai.conditionals.chosen_factors import ChosenFactors
from deltaai.conditionals.knowledge import FactorKnowledge, Inputs, Knowledge
from deltaai.conditionals.layout import Layout
from deltaai.messages import MessagePlan
from deltaai.models import Columns, FactorGraph


class MessageKnowledge(Knowledge):
    """Log-factors and messages inside a variable and its inputs.

    Parameters
    ----------
    model : the target; only which variables its factors have is kept of it.
    layout : variables and their inputs, which are all that come later in the plan's tables, or
        more.
    plan : the messages.
    """

    def __init__(self, model: FactorGraph, layout: Layout, plan: MessagePlan) -> None:
        self.layout, self.plan = layout, plan
        joined = plan.joined_with_messages(model)
        self._kept = model, joined
        self._inner = FactorKnowledge(joined, layout)

    @property
    def has_tables(self) -> bool:
        """Whether the compiled pass is made for these tables."""
        return self._inner.has_tables

    def logits(
        self, model: FactorGraph, columns: Columns, known: Known
    ) -> Float[Tensor, "row batch"]:
        """Sum of the log-factors and messages of each variable at full states."""
        return self._inner.logits(self._joined(model), columns, known)

    def logits_and_flips(
        self, model: FactorGraph, columns: Columns, others: Columns, known: Known
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """The same, and with each input in turn at its value in ``others``."""
        return self._inner.logits_and_flips(self._joined(model), columns, others, known)

    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> tuple[ChosenFactors, ...]:
        """Find the wide tables that may enter the logits of the members."""
        return self._inner.choose(block, members, known)

    def logits_at(
        self,
        model: FactorGraph,
        chosen: Any,  # noqa: ANN401
        inputs: Inputs,
    ) -> Float[Tensor, "pair logit batch"]:
        """Log-factors and messages of chosen members at given inputs."""
        return self._inner.logits_at(self._joined(model), chosen, inputs)

    def tables_for_drawing(self, model: FactorGraph) -> list[Tensor]:
        """All factors and messages inside the known, as compiled drawing reads them."""
        return self._inner.tables_for_drawing(self._joined(model))

    def _joined(self, model: FactorGraph) -> FactorGraph:
        """The target with its messages; kept while it is the same value."""
        kept = self._kept
        if kept[0] is not model:
            with torch.no_grad():
                kept = model, self.plan.joined_with_messages(model)
            self._kept = kept
        return kept[1]
