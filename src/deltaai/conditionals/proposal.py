"""q itself: conditionals of every variable given what is known, as a product over an order.

    log q(x) = Σ_v log q(x_v | known of v),   logits = β · log-factors inside + correction

A :class:`Proposal` joins a family of corrections with the log-factors of the target. ``β`` is the
inverse temperature of the target, which training may raise from a small value to one. Orders enter
only through ``known``: which inputs each variable may see, per slot and column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.base import Conditionals, Known
from deltaai.conditionals.informed import FactorTerms
from deltaai.conditionals.layout import Block, Layout
from deltaai.errors import ModelError, Setting
from deltaai.graphs import Dag
from deltaai.models import FactorGraph


class Proposal:
    """A sampler's distribution: a target's factors, and conditionals that correct them.

    Parameters
    ----------
    model : the target, all of whose factors are positive.
    conditionals : the corrections.
    is_informed : whether log-factors inside the known are part of the logits.
    """

    def __init__(
        self, model: FactorGraph, conditionals: Conditionals, *, is_informed: bool = True
    ) -> None:
        refuse_zeros(model)
        self.model = model
        self.conditionals = conditionals
        self.is_informed = is_informed
        self.layout: Layout = conditionals.layout
        self.terms = FactorTerms(model, self.layout)

    def scorer(self) -> FactorGraph:
        """Return the target in double precision: scores of large models are sums of many factors.

        It does not follow a target that learns: take it anew when that has changed.
        """
        return self.model.to(dtype=torch.float64)

    def factor_logits(
        self, columns: Int[Tensor, "var batch"], known: Known = None, beta: float | int = 1.0
    ) -> Float[Tensor, "row batch"]:
        """Log-factors inside each variable and its known inputs, as logits."""
        if not self.is_informed:
            return torch.zeros(
                self.layout.num_rows, columns.shape[1], dtype=self.model.dtype, device="cpu"
            )
        with torch.no_grad():
            return beta * self.terms.logits(self.model.groups, columns, known)

    def log_conditionals(
        self, columns: Int[Tensor, "var batch"], known: Known = None, beta: float | int = 1.0
    ) -> Float[Tensor, "var batch"]:
        """Log q(x_v | known) of every variable at full states."""
        features = self.layout.encoding.encode(columns, self.model.dtype)
        logits = self.conditionals.logits(features, known)
        logits = logits + self.factor_logits(columns, known, beta)
        return log_conditionals_of(self.layout, logits, columns)

    def log_prob(
        self, columns: Int[Tensor, "var batch"], known: Known = None, beta: float | int = 1.0
    ) -> Float[Tensor, "batch"]:
        """Log q(x) of full states under the order that ``known`` describes."""
        return self.log_conditionals(columns, known, beta).sum(0)


def log_conditionals_of(
    layout: Layout, logits: Float[Tensor, "row batch"], columns: Int[Tensor, "var batch"]
) -> Float[Tensor, "var batch"]:
    """Log-probability of each variable's state under relative logits in the layout's order."""
    batch = columns.shape[1]
    result = logits.new_zeros(layout.num_variables, batch)
    for block in layout.blocks:
        rows = logits[block.rows].view(block.size, block.num_logits, batch)
        states = columns.index_select(0, block.variables)
        result = result.index_copy(0, block.variables, log_softmax_at(rows, states))
    return result


def log_softmax_at(
    logits: Float[Tensor, "*lead logit batch"], states: Int[Tensor, "*lead batch"]
) -> Float[Tensor, "*lead batch"]:
    """Log-probability of a state under logits relative to the first state."""
    if logits.shape[-2] == 1:  # two states
        sign = states.to(logits.dtype).mul(2).sub(1)
        return torch.nn.functional.logsigmoid(sign * logits.squeeze(-2))
    full = with_first(logits)
    chosen = full.gather(-2, states.long().unsqueeze(-2)).squeeze(-2)
    return chosen - full.logsumexp(-2)


def with_first(logits: Float[Tensor, "*lead logit batch"]) -> Float[Tensor, "*lead state batch"]:
    """Put the first state's logit, zero, in front."""
    zero = torch.zeros_like(logits[..., :1, :]) if logits.shape[-2] else None
    if zero is None:
        zero = logits.new_zeros(*logits.shape[:-2], 1, logits.shape[-1])
    return torch.cat((zero, logits), dim=-2)


def known_under(
    layout: Layout, dags: Sequence[Dag], dtype: torch.dtype = torch.float32
) -> Float[Tensor, "slot dag"]:
    """Which inputs come before their variable, in each of several orders."""
    rank = np.empty((layout.num_variables + 1, len(dags)), dtype=np.int64)
    rank[-1] = layout.num_variables  # padding comes after everything
    for number, dag in enumerate(dags):
        rank[list(dag.order), number] = np.arange(layout.num_variables)
    before = rank[layout.slot_input.numpy()] < rank[layout.slot_variable.numpy()]
    return torch.from_numpy(before).to(dtype)


def logits_of_block(
    block: Block, logits: Float[Tensor, "row batch"]
) -> Float[Tensor, "variable logit batch"]:
    """Rows of one block."""
    return logits[block.rows].view(block.size, block.num_logits, logits.shape[1])


def refuse_zeros(model: FactorGraph) -> None:
    """Refuse a target with zeros: log-ratios between its states are not all defined."""
    for group in model.groups:
        for name, value in group.content():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise ModelError(
                    f"the model has zero or non-finite entries ({type(group).__name__}.{name}): "
                    "training needs factors that are positive everywhere; use exact inference, or "
                    "fit with ",
                    Setting("smoothing", 1e-3),
                    " to train on tables without zeros",
                )
