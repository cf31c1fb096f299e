"""Training at full samples: any objective, at states from any source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from deltaai.conditionals import Proposal
from deltaai.importance import ImportanceEstimate, estimate_from_log_weights
from deltaai.objectives import Objective
from deltaai.sampling import Paths, Policy, Source
from deltaai.training.task import Task


class FullSamples(Task):
    """Full states along orders, perhaps given evidence, and an objective at them.

    Parameters
    ----------
    source : where states come from; the conditionals of its proposal are changed in place.
    objective : what is minimised.
    """

    def __init__(self, source: Source, objective: Objective[Any]) -> None:
        self.source, self.objective = source, objective
        self.trained = nn.ModuleDict({"q": self.proposal.trained, "objective": objective})
        self.paths: Paths | None = None
        self.beta: float | int = 1.0

    @property
    def proposal(self) -> Proposal:
        """The q that is trained."""
        return self.source.proposal

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups of q, and of what the objective learns besides."""
        groups = self.proposal.parameter_groups(learning_rate)
        return groups + self.objective.parameter_groups(learning_rate)

    def target_parameters(self) -> Iterator[Tensor]:
        """Parameters of the target, if it learns."""
        yield from self.proposal.target.model.parameters()

    def redraw(self, rng: np.random.Generator) -> None:
        """Draw new orders; if there is but one, nothing changes."""
        if self.source.redraw(rng):
            self.batch = None  # its states belong to the orders before

    def draw(
        self, size: int, policy: Policy, beta: float | int, generator: torch.Generator
    ) -> None:
        """Draw states, equally many for each order."""
        self.beta, self._generator = beta, generator
        proposal, each = self.proposal.tempered(beta), self.objective.each_evidence
        self.paths = self.source.draw(proposal, size, policy, generator, each_evidence=each)
        self._moment = proposal.target.moment
        self.batch = self.objective.prepare(proposal, self.paths, generator)

    def loss(self) -> Float[Tensor, ""]:
        """Mean loss of the samples; what was prepared from a target that moved is dropped."""
        moment = self.proposal.target.moment
        if moment != self._moment:
            assert self.paths is not None
            self._prepare_again(self.objective.drawn(self.batch))
        return self.objective.losses(self.proposal, self.batch).mean()

    def estimate(self, num_samples: int, generator: torch.Generator) -> ImportanceEstimate:
        """Importance estimate of log Z over the orders in use, given the usual evidence."""
        columns, log_q = self.source.usual(self.proposal, num_samples, generator)
        with torch.no_grad():
            log_p = self.proposal.scorer.log_score(columns.T)
        return estimate_from_log_weights(log_p - log_q.double())

    def state(self) -> dict[str, Any]:
        """Orders, states, and what the objective drew; nothing before the first update."""
        if self.paths is None:
            return {}
        drawn = self.objective.drawn(self.batch)
        return {"source": self.source.state(self.paths), "beta": self.beta, "drawn": drawn}

    def restore(self, state: Mapping[str, Any], generator: torch.Generator) -> None:
        """Take up orders and states from a checkpoint."""
        if not state:
            return
        self.paths, self.beta = self.source.restore(state["source"]), state["beta"]
        self._generator = generator
        drawn = state["drawn"].items()
        self._prepare_again({name: value.to(self.proposal.device) for name, value in drawn})

    def _prepare_again(self, drawn: Mapping[str, Tensor]) -> None:
        assert self.paths is not None
        proposal = self.proposal.tempered(self.beta)
        self._moment = proposal.target.moment
        self.batch = self.objective.prepare_again(proposal, self.paths, drawn, self._generator)
