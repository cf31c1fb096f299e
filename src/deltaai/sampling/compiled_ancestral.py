"""Ancestral sampling in one compiled pass, where it is made for the case.

That is: one order, no evidence, variables with two states, a small network each, what is known
before training nothing or tables, on the CPU, and numba is there. It is the case of latent-variable
models, whose graphs are so dense that nearly every variable waits for the one before it, and of
lattices of spins.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import Categorical, Context, LocalConditionals, Proposal, Stacked
from deltaai.randomness import uniform
from deltaai.sampling.levels import Schedule
from deltaai.sampling.policies import Policy
from deltaai.watch import look


def compiled_pass(
    proposal: Proposal, schedule: Schedule, num_samples: int, policy: Policy
) -> Stacked | None:
    """What draws in one pass, if there is enough to do and this is the case it is made for."""
    conditionals = proposal.conditionals
    is_plain = schedule.num_dags == 1 and not schedule.is_given and policy.uniform_share == 0
    if (
        not is_plain
        or not isinstance(conditionals, LocalConditionals)
        or any(head != Categorical(2) for head in proposal.layout.heads)
    ):
        return None
    if not proposal.knowledge.has_tables:
        return None
    return conditionals.in_one_pass(num_samples)


@torch.no_grad()
def sample_in_one_pass(
    proposal: Proposal,
    stacked: Stacked,
    schedule: Schedule,
    num_samples: int,
    policy: Policy,
    generator: torch.Generator | None,
    context: Context | None,
) -> tuple[Int[Tensor, "var 1 sample"], Float[Tensor, "1 sample"]]:
    """Draw samples; also return log q of what was drawn."""
    look()  # the pass itself does not stop: those who have little time ask for few at once
    (dag,) = schedule.dags
    tables = proposal.knowledge.tables_for_drawing(proposal.model)
    assert tables is not None
    scales = policy.scales((1, num_samples), generator)
    chance = uniform((len(dag.order), num_samples), generator, dtype=torch.float32, device="cpu")
    states, logits = stacked.draw(dag.order, chance, scales[0], context, tables)
    log_q = Categorical(2).log_density(logits[:, None], states).sum(0)
    return states[:, None], log_q[None]
