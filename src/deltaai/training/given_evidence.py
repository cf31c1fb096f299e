"""Training q given evidence that differs between columns.

Evidence is drawn for each column, the unobserved variables are drawn from q given that, and the
local residual of each of them is squared. The objective is correct for evidence from anywhere, so
where it comes from only says where q is to be good:

- :class:`AnyEvidence`: a random set of observed variables, of random size, with values from q
  itself;
- :class:`FixedEvidence`: always the same variables, with values from Gibbs chains, since q has no
  conditionals of these.

In a share of the columns values are uniform, as unlikely evidence is asked for too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals import Observed, Proposal, known_given
from deltaai.errors import ConfigError, Setting
from deltaai.mcmc import ChainState, GibbsKernel
from deltaai.objectives import delta_residuals, draw_alternatives, prepare_delta
from deltaai.sampling import (
    ON_POLICY,
    GivenSchedule,
    ImportanceEstimate,
    Orders,
    Policy,
    estimate_from_log_weights,
    sample_given,
)
from deltaai.training.task import Task

_UNIFORM_SHARE = 0.25  # of columns, with evidence that q would not draw
_EMPTY_SHARE = 0.1  # of columns, without evidence
_SWEEPS = 5  # of the chains between draws


class GivenEvidence(Task):
    """The local objective given evidence.

    Parameters
    ----------
    proposal : the q to train, laid out with evidence as context.
    orders : its one order.
    """

    def __init__(self, proposal: Proposal, orders: Orders) -> None:
        if orders.kind != "one":
            raise ConfigError("evidence is trained in one order: choose ", Setting("orders", "one"))
        self.proposal = proposal
        self.trained = nn.ModuleDict({"conditionals": proposal.conditionals})
        self.schedule = GivenSchedule.build(proposal, orders.fixed)
        self.scorer = proposal.scorer()
        self.num_states = proposal.model.num_states

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups of q."""
        return self.proposal.conditionals.parameter_groups(learning_rate)

    def redraw(self, rng: np.random.Generator) -> None:
        """Do nothing: there is one order."""

    def draw(
        self, size: int, policy: Policy, beta: float | int, generator: torch.Generator
    ) -> None:
        """Draw evidence, then the unobserved variables given it."""
        columns, observed = self.draw_evidence(size, beta, generator)
        chance = torch.rand(columns.shape, generator=generator, dtype=torch.float32, device="cpu")
        uniform = (chance * self.num_states[:, None]).long()
        is_uniform = (
            torch.rand(size, generator=generator, dtype=torch.float32, device="cpu")
            < _UNIFORM_SHARE
        )
        columns = uniform.where(is_uniform, columns)
        columns, _ = self.sample(columns, observed, policy, beta, generator)
        alternatives = draw_alternatives(columns, self.num_states, generator)
        self._set_batch(columns, observed, alternatives, beta)

    @abstractmethod
    def draw_evidence(
        self, size: int, beta: float | int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "var batch"], Observed]:
        """Likely states, and which of them are evidence."""

    def sample(
        self,
        columns: Int[Tensor, "var batch"],
        observed: Observed,
        policy: Policy,
        beta: float | int,
        generator: torch.Generator,
    ) -> tuple[Int[Tensor, "var batch"], Float[Tensor, "batch"]]:
        """Draw the unobserved variables; also return their log q."""
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
        self.batch = prepare_delta(self.proposal, columns, alternatives, known, beta, observed)
        is_free = ~observed & (self.num_states > 1)[:, None]
        self.num_free = max(int(is_free.sum()), 1)

    def loss(self) -> Float[Tensor, ""]:
        """Mean squared residual of the unobserved variables."""
        return delta_residuals(self.proposal, self.batch).square().sum() / self.num_free

    def estimate(self, num_samples: int, generator: torch.Generator) -> ImportanceEstimate:
        """Importance estimate of log Z given one evidence."""
        columns, observed = self.one_evidence(num_samples, generator)
        columns, log_q = self.sample(columns, observed, ON_POLICY, 1.0, generator)
        with torch.no_grad():
            log_p = self.scorer.log_score(columns.T)
        return estimate_from_log_weights(log_p - log_q.double())

    @abstractmethod
    def one_evidence(
        self, size: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "var batch"], Observed]:
        """The same evidence in all columns."""

    def state(self) -> dict[str, Any]:
        """Evidence and states in use."""
        return self._drawn

    def restore(self, state: Mapping[str, Any], generator: torch.Generator) -> None:
        """Take up evidence and states from a checkpoint."""
        self._set_batch(state["columns"], state["observed"], state["alternatives"], state["beta"])


class AnyEvidence(GivenEvidence):
    """Random sets of observed variables.

    Parameters
    ----------
    most_observed : variables that are observed in a column at most.
    """

    def __init__(self, proposal: Proposal, orders: Orders, most_observed: int) -> None:
        super().__init__(proposal, orders)
        if not 0 <= most_observed <= proposal.layout.num_variables:
            raise ConfigError(
                f"most_observed is {most_observed}; it must be between 0 and the number of "
                f"variables, {proposal.layout.num_variables}"
            )
        self.most_observed = most_observed

    def draw_evidence(
        self, size: int, beta: float | int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "var batch"], Observed]:
        """States of q without evidence, and random sets of their variables."""
        columns, nothing = self.one_evidence(size, generator)
        columns, _ = self.sample(columns, nothing, ON_POLICY, beta, generator)
        number = (
            torch.randint(1, self.most_observed + 2, (size,), generator=generator, device="cpu") - 1
        )
        is_empty = (
            torch.rand(size, generator=generator, dtype=torch.float32, device="cpu") < _EMPTY_SHARE
        )
        number = number.masked_fill(is_empty, 0)
        chance = torch.rand(columns.shape, generator=generator, dtype=torch.float32, device="cpu")
        return columns, chance.argsort(0).argsort(0) < number

    def one_evidence(
        self, size: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "var batch"], Observed]:
        """None at all."""
        nothing = torch.zeros(len(self.num_states), size, dtype=torch.bool, device="cpu")
        return nothing.long(), nothing


class FixedEvidence(GivenEvidence):
    """Always the same observed variables.

    Parameters
    ----------
    variables : the observed ones.
    """

    def __init__(self, proposal: Proposal, orders: Orders, variables: Sequence[int]) -> None:
        super().__init__(proposal, orders)
        self.observed = torch.zeros(len(self.num_states), 1, dtype=torch.bool, device="cpu")
        self.observed[list(variables)] = True
        self.kernel = GibbsKernel(self.scorer)
        self.chains: ChainState | None = None

    def draw_evidence(
        self, size: int, beta: float | int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "var batch"], Observed]:
        """States of Gibbs chains that go on from draw to draw."""
        if self.chains is None or self.chains.num_chains != size:
            self.chains = self.kernel.init(size, generator)
        for _ in range(_SWEEPS):
            self.chains, _ = self.kernel.step(self.chains, generator, beta)
        return self.chains.columns.long(), self.observed.expand(-1, size)

    def one_evidence(
        self, size: int, generator: torch.Generator
    ) -> tuple[Int[Tensor, "var batch"], Observed]:
        """That of the first chain."""
        if self.chains is None:
            self.draw_evidence(1, 1.0, generator)
        assert self.chains is not None
        return self.chains.columns[:, :1].long().expand(-1, size), self.observed.expand(-1, size)

    def state(self) -> dict[str, Any]:
        """Where the chains stand, besides."""
        assert self.chains is not None
        return {**super().state(), "chains": self.chains.columns}

    def restore(self, state: Mapping[str, Any], generator: torch.Generator) -> None:
        """Take up the chains, besides."""
        super().restore(state, generator)
        self.chains = ChainState(state["chains"])
