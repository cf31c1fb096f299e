"""The local objective at some variables of full samples, drawn at random for each batch.

The residual of u needs u, its parents, its children and theirs, and nothing else of a sample. So
with a few variables in place of all, an update costs that share, whatever the model's size:
conditionals of other variables are never evaluated. With all of them it is the loss of
:class:`~deltaai.objectives.delta.DeltaObjective`, computed without sharing between variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import Proposal
from deltaai.errors import ConfigError
from deltaai.graphs import ChordalGraph
from deltaai.objectives.base import Objective, Paths
from deltaai.objectives.delta import draw_alternatives
from deltaai.objectives.sub_dag import SubDagBatch, prepare_sub_dags, sub_dag_residuals
from deltaai.objectives.sub_dag_plan import SubDagPlan, SubDagPlanner


@dataclass(frozen=True, eq=False)
class SampledBatch:
    """Chosen variables of each order, with changes of theirs, and what follows from them."""

    variables: Int[Tensor, "dag chosen"]
    alternatives: Int[Tensor, "u sample"]
    plan: SubDagPlan
    batch: SubDagBatch


class SampledDeltaObjective(Objective[SampledBatch]):
    """The mean squared residual over random variables.

    Parameters
    ----------
    proposal : q.
    chordal : the graph whose orientations its orders are.
    num_variables : how many variables of each order are drawn for a batch.
    """

    def __init__(self, proposal: Proposal, chordal: ChordalGraph, num_variables: int) -> None:
        super().__init__()
        self.free = (proposal.model.num_states > 1).nonzero().squeeze(1)
        if num_variables < 1:
            raise ConfigError(f"num_variables is {num_variables}; it must be at least 1")
        self.num_chosen = min(num_variables, len(self.free))
        self.planner = SubDagPlanner(proposal, chordal)

    def prepare(
        self, proposal: Proposal, paths: Paths, generator: torch.Generator | None
    ) -> SampledBatch:
        """Choose variables of each order, and new values for them."""
        chance = torch.rand(
            len(paths.dags), len(self.free), generator=generator, dtype=torch.float32, device="cpu"
        )
        variables = self.free[chance.argsort(1)[:, : self.num_chosen]]
        return self._batch(proposal, paths, variables, None, generator)

    def losses(self, proposal: Proposal, batch: SampledBatch) -> Float[Tensor, "batch"]:
        """Mean squared residual of each sample over the variables that were chosen."""
        residuals = sub_dag_residuals(proposal, batch.plan, batch.batch)
        shape = (*batch.variables.shape, residuals.shape[1])
        return residuals.view(shape).square().mean(1).flatten()

    def drawn(self, batch: SampledBatch) -> dict[str, Tensor]:
        """The variables and their new values."""
        return {"variables": batch.variables, "alternatives": batch.alternatives}

    def prepare_again(
        self,
        proposal: Proposal,
        paths: Paths,
        drawn: Mapping[str, Tensor],
        generator: torch.Generator | None,
    ) -> SampledBatch:
        """Prepare with the choices of a checkpoint."""
        return self._batch(proposal, paths, drawn["variables"], drawn["alternatives"], generator)

    def _batch(
        self,
        proposal: Proposal,
        paths: Paths,
        variables: Int[Tensor, "dag chosen"],
        alternatives: Int[Tensor, "u sample"] | None,
        generator: torch.Generator | None,
    ) -> SampledBatch:
        chosen = zip(paths.dags, variables.tolist(), strict=True)
        plan = self.planner.under([(dag, variable) for dag, row in chosen for variable in row])
        by_dag = paths.columns.view(len(paths.columns), len(paths.dags), paths.each)
        states = by_dag[plan.variables, plan.sub_dags // max(variables.shape[1], 1)]
        if alternatives is None:
            num_states = proposal.model.num_states[plan.variables[plan.centres]]
            alternatives = draw_alternatives(states[plan.centres], num_states, generator)
        batch = prepare_sub_dags(proposal, plan, states, alternatives, paths.beta)
        return SampledBatch(variables, alternatives, plan, batch)
