"""Ancestral sampling by levels, in one order or in several at once.

Variables whose parents are all set can be set together. A :class:`Schedule` lists, for each such
step, which variables of which order are due and which factors enter their logits; a step is then
a few batched operations, whatever the number of variables and orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals.proposal import Proposal, known_under
from deltaai.graphs import Dag
from deltaai.sampling.filling import Filling
from deltaai.sampling.parts import Levels, parts_by_level
from deltaai.sampling.policies import Policy
from deltaai.watch import look


@dataclass(frozen=True, eq=False)
class Schedule:
    """Steps of ancestral sampling for some orders."""

    steps: Levels
    num_dags: int

    @classmethod
    def build(cls, proposal: Proposal, dags: Sequence[Dag], *, masks: bool) -> Schedule:
        """Work out which variables and factors are due when."""
        known = known_under(proposal.layout, dags, proposal.model.dtype) if masks else None
        return cls(parts_by_level(proposal, dags, known, only_before=True), len(dags))


def sample_ancestrally(
    proposal: Proposal,
    schedule: Schedule,
    num_samples: int,
    *,
    policy: Policy,
    beta: float | int = 1.0,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "var dag sample"], Float[Tensor, "dag sample"]]:
    """Draw samples in each order; also return their log q (of q itself, whatever the policy)."""
    layout, dtype = proposal.layout, proposal.model.dtype
    shape = (schedule.num_dags, num_samples)
    states = torch.zeros(
        layout.num_variables * schedule.num_dags, num_samples, dtype=torch.long, device="cpu"
    )
    num_rows = (layout.encoding.num_rows + 1) * schedule.num_dags
    features = torch.zeros(num_rows, num_samples, dtype=dtype, device="cpu")
    log_q = torch.zeros(shape, dtype=dtype, device="cpu")
    choose = policy.prepare(shape, generator)
    with torch.no_grad():
        filling = Filling(proposal, schedule.num_dags, states, features)
        for step in schedule.steps:
            look()
            for part in step:
                drawn, log_prob = choose(filling.logits(part, beta), part.dags)
                filling.write(part, drawn)
                log_q.index_add_(0, part.dags, log_prob)
    return states.view(layout.num_variables, *shape), log_q
