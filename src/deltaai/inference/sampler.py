"""A trained sampler: draw states, evaluate log q, estimate log Z, say where q is still wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals import Proposal, known_under
from deltaai.errors import EvidenceError, StateError
from deltaai.graphs import Dag, random_dag
from deltaai.inference.posterior import EvidenceDrawer
from deltaai.inference.proposals import EvidenceKind
from deltaai.inference.trust import Verdict
from deltaai.inference.weighted import WeightedSamples
from deltaai.models import Evidence, FactorGraph, States
from deltaai.models.storage import model_to_tensors
from deltaai.objectives import delta_residuals, draw_alternatives, prepare
from deltaai.sampling.ancestral import Schedule, sample_ancestrally
from deltaai.sampling.importance import ImportanceEstimate, estimate_from_log_weights
from deltaai.sampling.orders import Orders
from deltaai.sampling.policies import ON_POLICY
from deltaai.threads import limited_threads
from deltaai.training.checkpoint import save_tensors
from deltaai.training.config import TrainingConfig

SAMPLER_KIND = "sampler"
_CHUNK = 4096


@dataclass(eq=False)
class Sampler:
    """A Bayesian network q that was trained to sample from a model.

    Parameters
    ----------
    model : the target, in its own precision; weights are computed with it.
    proposal : q.
    orders : the orders it was trained for.
    config : how it was trained.
    family, hidden : which conditionals q has, and their width.
    evidence : what evidence q was trained for: ``"any"``, some variables every time, or none.
    smoothing : floor of zeros in the tables that q was trained on; the model keeps its zeros.
    history : estimates taken while training, one row each.
    """

    model: FactorGraph
    proposal: Proposal
    orders: Orders
    config: TrainingConfig
    family: str = "local"
    hidden: int = 32
    evidence: EvidenceKind = None
    smoothing: float | int | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._schedules: dict[tuple[int, ...], Schedule] = {}

    @property
    def has_masks(self) -> bool:
        """Whether conditionals must be told which of their inputs are known."""
        return self.orders.kind == "many" or self.proposal.layout.has_context

    def random_order(self, seed: int) -> Dag:
        """Draw one of the orders this sampler knows: the only one, or a random one."""
        if self.orders.kind == "one":
            return self.orders.fixed
        return random_dag(self.orders.graph, np.random.default_rng(seed))

    def sample(
        self, num_samples: int, generator: torch.Generator | None = None, *, dag: Dag | None = None
    ) -> States:
        """Draw independent states from q."""
        return self.sample_with_log_prob(num_samples, generator, dag=dag)[0]

    def sample_with_log_prob(
        self, num_samples: int, generator: torch.Generator | None = None, *, dag: Dag | None = None
    ) -> tuple[States, Float[Tensor, "batch"]]:
        """Draw states from q, with their log q."""
        if num_samples < 0:
            raise StateError(f"the number of samples cannot be {num_samples}")
        schedule = self._schedule(self._checked(dag))
        states, log_probs = [], []
        with limited_threads(1):
            for start in range(0, max(num_samples, 1), _CHUNK):
                columns, log_q = sample_ancestrally(
                    self.proposal,
                    schedule,
                    min(_CHUNK, num_samples - start),
                    policy=ON_POLICY,
                    generator=generator,
                )
                states.append(columns[:, 0].T)
                log_probs.append(log_q[0].double())
        return torch.cat(states), torch.cat(log_probs)

    def log_prob(self, x: States, *, dag: Dag | None = None) -> Float[Tensor, "batch"]:
        """Log q of full states, under the default order or another that the sampler knows."""
        self.model.check_states(x)
        chosen = self._checked(dag)
        known_once = None
        if self.has_masks:
            known_once = known_under(self.proposal.layout, [chosen])
        found = []
        with torch.no_grad(), limited_threads(1):
            for part in torch.split(x, _CHUNK) if len(x) else (x,):
                known = None if known_once is None else known_once.expand(-1, len(part))
                found.append(self.proposal.log_prob(part.T, known).double())
        return torch.cat(found)

    def log_partition(
        self, num_samples: int = 10_000, generator: torch.Generator | None = None
    ) -> ImportanceEstimate:
        """Estimate log Z by importance sampling: with standard error, ELBO, ESS and k-hat."""
        x, log_q = self.sample_with_log_prob(num_samples, generator)
        with torch.no_grad():
            return estimate_from_log_weights(self.model.log_score(x).double() - log_q)

    def posterior(
        self,
        evidence: Evidence | None = None,
        num_samples: int = 10_000,
        generator: torch.Generator | None = None,
    ) -> WeightedSamples:
        """Weighted samples given evidence, whatever evidence the sampler was trained for.

        A sampler trained for evidence draws from its conditionals given the evidence. Any other
        draws in an order that has the evidence first, as far as the graph allows, with particles
        that are weighted and resampled as observed variables are passed.

        Parameters
        ----------
        evidence : what was observed: names to labels or state indices.
        num_samples : how many samples.
        """
        (found,) = self.posteriors([evidence or {}], num_samples, generator)
        return found

    def posteriors(
        self,
        rows: Sequence[Evidence],
        num_samples: int = 1000,
        generator: torch.Generator | None = None,
    ) -> Iterator[WeightedSamples]:
        """Weighted samples for each of many rows of evidence, evaluated together."""
        drawer = EvidenceDrawer.of(self.model, self.proposal, self.orders)
        resolved = [self.model.resolve_evidence(row) for row in rows]
        needed = self.evidence if isinstance(self.evidence, tuple) else ()
        for row in resolved:
            missing = [self.model.variables[v].name for v in needed if v not in row]
            if missing:
                raise EvidenceError(
                    f"this sampler needs the values of {', '.join(missing)}: give them, or fit "
                    "with evidence='any'"
                )
        with limited_threads(1):
            yield from drawer.draw(resolved, num_samples, generator)

    def trust(
        self,
        answer: WeightedSamples,
        num_chains: int = 200,
        generator: torch.Generator | None = None,
    ) -> Verdict:
        """Judge an answer of :meth:`posterior`: by its weights, and by independent Markov chains.

        Parameters
        ----------
        answer : weighted samples.
        num_chains : annealed Gibbs chains that look for states which q misses.
        """
        drawer = EvidenceDrawer.of(self.model, self.proposal, self.orders)
        with limited_threads(1):
            return drawer.trust(answer, num_chains, generator or torch.Generator())

    def residuals(
        self, num_samples: int = 1000, generator: torch.Generator | None = None
    ) -> dict[str, float]:
        """Mean squared Delta residual of each variable, at samples of q: where q is still wrong."""
        dag = self._checked(None)
        columns = self.sample(num_samples, generator, dag=dag).T.contiguous()
        known = None
        if self.has_masks:
            known = known_under(self.proposal.layout, [dag]).expand(-1, columns.shape[1])
        alternatives = draw_alternatives(columns, self.model.num_states, generator)
        with torch.no_grad(), limited_threads(1):
            batch = prepare(self.proposal, columns, alternatives, known)
            mean = delta_residuals(self.proposal, batch).square().mean(1)
        return dict(zip((v.name for v in self.model.variables), mean.tolist(), strict=True))

    def _checked(self, dag: Dag | None) -> Dag:
        if isinstance(self.evidence, tuple) and self.evidence:
            names = ", ".join(self.model.variables[v].name for v in self.evidence)
            raise StateError(f"this sampler is for given values of {names}: use posterior")
        if dag is None:
            return self.orders.fixed
        if self.orders.kind == "one" and dag.parents != self.orders.fixed.parents:
            raise StateError(
                "this sampler was trained for one order: fit with orders='many' to use others"
            )
        if not self.orders.graph.contains(dag.skeleton):
            raise StateError("the order is no orientation of the sampler's chordal graph")
        return dag

    def _schedule(self, dag: Dag) -> Schedule:
        if dag.order not in self._schedules:
            schedule = Schedule.build(self.proposal, [dag], masks=self.has_masks)
            self._schedules[dag.order] = schedule
        return self._schedules[dag.order]

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the sampler, its model and its settings to one file, all or nothing."""
        conditionals = self.proposal.conditionals
        stored, described = model_to_tensors(self.model)
        tensors = {f"model.{name}": value for name, value in stored.items()}
        tensors |= {f"q.{name}": value for name, value in conditionals.state_dict().items()}
        tensors["graph.edges"] = torch.from_numpy(self.orders.graph.edges())
        tensors["graph.order"] = torch.tensor(self.orders.graph.order, dtype=torch.long)
        metadata = {
            "model": described,
            "orders": self.orders.kind,
            "family": self.family,
            "hidden": self.hidden,
            "evidence": list(self.evidence) if isinstance(self.evidence, tuple) else self.evidence,
            "smoothing": self.smoothing,
            "is_informed": self.proposal.is_informed,
            "config": self.config.to_dict(),
            "history": self.history,
        }
        save_tensors(path, tensors, metadata, kind=SAMPLER_KIND)
