"""Training one q for any evidence: random evidence in every column.

A column has a random set of observed variables, of random size, with values from q itself (likely
evidence) or, in a share of the columns, uniform ones (unlikely evidence). The unobserved variables
are drawn from q given that, and the local residual of each of them is squared. The objective is
correct for evidence from anywhere, so these choices only say where q is to be good.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals import Proposal
from deltaai.conditionals.evidence import Observed, known_given
from deltaai.errors import ConfigError
from deltaai.objectives.delta import delta_residuals, draw_alternatives, prepare
from deltaai.sampling.conditioned import GivenSchedule, sample_given
from deltaai.sampling.importance import ImportanceEstimate, estimate_from_log_weights
from deltaai.sampling.orders import Orders
from deltaai.sampling.policies import ON_POLICY, Policy
from deltaai.training.task import Task

_UNIFORM_SHARE = 0.25  # of columns, with evidence that q would not draw
_EMPTY_SHARE = 0.1  # of columns, without evidence


class AnyEvidence(Task):
    """Random evidence, and the local objective given it.

    Parameters
    ----------
    proposal : the q to train, laid out with descendants as context.
    orders : its one order.
    most_observed : variables that are observed in a column at most.
    """

    def __init__(self, proposal: Proposal, orders: Orders, most_observed: int) -> None:
        if orders.kind != "one":
            raise ConfigError("any evidence is trained in one order: choose orders='one'")
        if not 0 <= most_observed <= proposal.layout.num_variables:
            raise ConfigError(
                f"most_observed is {most_observed}; it must be between 0 and the number of "
                f"variables, {proposal.layout.num_variables}"
            )
        self.proposal, self.most_observed = proposal, most_observed
        self.trained = nn.ModuleDict({"conditionals": proposal.conditionals})
        self.schedule = GivenSchedule.build(proposal, orders.fixed)
        self.scorer = proposal.model.to(dtype=torch.float64)
        self.num_states = proposal.model.num_states
        self.batch: Any = None

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups of q."""
        return self.proposal.conditionals.parameter_groups(learning_rate)

    def redraw(self, rng: np.random.Generator) -> None:
        """Do nothing: there is one order."""

    @property
    def is_drawn(self) -> bool:
        """Whether there are states to make an update at."""
        return self.batch is not None

    def draw(
        self, size: int, policy: Policy, beta: float | int, generator: torch.Generator
    ) -> None:
        """Draw evidence, then the unobserved variables given it."""
        nothing = self._nothing(size)
        columns, _ = self._sample(nothing.long(), nothing, ON_POLICY, beta, generator)
        chance = torch.rand(columns.shape, generator=generator)
        uniform = (chance * self.num_states[:, None]).long()
        is_uniform = torch.rand(size, generator=generator) < _UNIFORM_SHARE
        columns = uniform.where(is_uniform, columns)
        observed = self._draw_observed(size, generator)
        columns, _ = self._sample(columns, observed, policy, beta, generator)
        alternatives = draw_alternatives(columns, self.num_states, generator)
        self._set_batch(columns, observed, alternatives, beta)

    def _draw_observed(self, size: int, generator: torch.Generator) -> Observed:
        number = torch.randint(1, self.most_observed + 2, (size,), generator=generator) - 1
        is_empty = torch.rand(size, generator=generator) < _EMPTY_SHARE
        number = number.masked_fill(is_empty, 0)
        chance = torch.rand(len(self.num_states), size, generator=generator)
        return chance.argsort(0).argsort(0) < number

    def _nothing(self, size: int) -> Observed:
        return torch.zeros(len(self.num_states), size, dtype=torch.bool)

    def _sample(
        self,
        columns: Int[Tensor, "var batch"],
        observed: Observed,
        policy: Policy,
        beta: float | int,
        generator: torch.Generator,
    ) -> tuple[Int[Tensor, "var batch"], Float[Tensor, "batch"]]:
        return sample_given(
            self.proposal,
            self.schedule,
            columns,
            observed,
            known_given(self.proposal.layout, observed, self.proposal.model.dtype),
            policy=policy,
            beta=beta,
            generator=generator,
        )

    def _set_batch(
        self,
        columns: Int[Tensor, "var batch"],
        observed: Observed,
        alternatives: Int[Tensor, "var batch"],
        beta: float | int,
    ) -> None:
        self._drawn = {
            "columns": columns,
            "observed": observed,
            "alternatives": alternatives,
            "beta": beta,
        }
        known = known_given(self.proposal.layout, observed, self.proposal.model.dtype)
        self.batch = prepare(self.proposal, columns, alternatives, known, beta, observed)
        is_free = ~observed & (self.num_states > 1)[:, None]
        self.num_free = max(int(is_free.sum()), 1)

    def loss(self) -> Float[Tensor, ""]:
        """Mean squared residual of the unobserved variables."""
        return delta_residuals(self.proposal, self.batch).square().sum() / self.num_free

    def estimate(self, num_samples: int, generator: torch.Generator) -> ImportanceEstimate:
        """Importance estimate of log Z without evidence."""
        nothing = self._nothing(num_samples)
        columns, log_q = self._sample(nothing.long(), nothing, ON_POLICY, 1.0, generator)
        with torch.no_grad():
            log_p = self.scorer.log_score(columns.T)
        return estimate_from_log_weights(log_p - log_q.double())

    def state(self) -> dict[str, Any]:
        """Evidence and states in use."""
        return self._drawn

    def restore(self, state: Mapping[str, Any], generator: torch.Generator) -> None:
        """Take up evidence and states from a checkpoint."""
        self._set_batch(state["columns"], state["observed"], state["alternatives"], state["beta"])
