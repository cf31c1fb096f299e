"""q itself: a Bayesian network that was trained for a model, drawn from and evaluated as it is.

What it draws is not weighted here, and nothing is judged: that is what
:mod:`deltaai.fitting.judging` adds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.arguments import checked_object, checked_samples, checked_seed
from deltaai.budget import Budget
from deltaai.conditionals import Proposal, known_under
from deltaai.display import Card, Shown, listing, plural
from deltaai.errors import Setting, StateError
from deltaai.fitting.defaults import columns_at_once
from deltaai.fitting.piece_clock import PieceClock
from deltaai.fitting.posterior import EvidenceDrawer
from deltaai.fitting.spec import EvidenceFor, SamplerSpec
from deltaai.fitting.training_memory import bytes_per_column
from deltaai.graphs import Dag, random_dag
from deltaai.models import Columns, FactorGraph, States
from deltaai.objectives import delta_residuals, prepare_delta
from deltaai.randomness import Randomness, as_generator
from deltaai.sampling import ON_POLICY, KeptSchedules, Orders, sample_ancestrally
from deltaai.threads import Turn, limited_threads
from deltaai.training import TrainingConfig

_BYTES_PER_STATE = 16  # of a variable in a sample, while samples are put together
_RESIDUALS_SHARE = 0.5  # of the memory, for those that are evaluated at once


@dataclass(eq=False, repr=False)
class TrainedNetwork(Shown):
    """A Bayesian network q, the model it is for, and how it was trained.

    Parameters
    ----------
    model : the target, in its own precision; weights are computed with it.
    proposal : q.
    orders : the orders it was trained for.
    config : how it was trained.
    spec : what kind of q it is.
    history : estimates taken while training, one row each.
    kept_diagnostics : what judging it found, kept with the sampler in its file.
    """

    model: FactorGraph
    proposal: Proposal
    orders: Orders
    config: TrainingConfig
    spec: SamplerSpec = field(default_factory=SamplerSpec)
    history: list[dict[str, Any]] = field(default_factory=list)
    kept_diagnostics: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        masks = {"masks": self.spec.has_masks, "is_given": False}
        self._schedules = KeptSchedules(self.proposal, **masks)
        self._kept_drawer: EvidenceDrawer | None = None
        self._turn = Turn()  # at it

    @property
    def evidence(self) -> EvidenceFor:
        """What evidence q was trained for: ``"any"``, some variables every time, or none."""
        return self.spec.evidence

    def _card(self) -> Card:
        evidence = "none" if self.evidence is None else "any"
        if isinstance(self.evidence, tuple):
            evidence = listing(self.model.variables[v].name for v in self.evidence)
        rows = [
            ("conditionals", f"{self.spec.family}, {self.spec.hidden} hidden units"),
            ("orders", self.orders.kind),
            ("evidence", evidence),
        ]
        if self.history:
            last = self.history[-1]
            rows.append(("training", f"{last['step']} updates, {last['seconds']:.1f} s"))
        doubts: list[str] = []
        if self.kept_diagnostics:
            found = self.kept_diagnostics
            rows += [
                ("log Z", f"{found['log_partition']:.6g} ± {found['stderr'] or 0:.2g}"),
                ("effective samples", f"{found['ess_fraction']:.1%} of {found['num_samples']}"),
                ("status", str(found["status"])),
            ]
            doubts = found["doubts"]
        title = f"Sampler for {plural(self.model.num_variables, 'variable')}"
        return Card(title, tuple(rows), tuple(doubts))

    def random_order(self, seed: int) -> Dag:
        """Draw one of the orders this sampler knows: the only one, or a random one."""
        if self.orders.kind == "one":
            return self.orders.fixed
        return random_dag(self.orders.graph, np.random.default_rng(checked_seed(seed)))

    def sample_with_log_prob(
        self,
        num_samples: int,
        generator: Randomness = None,
        *,
        dag: Dag | None = None,
        budget: Budget | None = None,
    ) -> tuple[States, Float[Tensor, "batch"]]:
        """Draw states from q, with their log q.

        Parameters
        ----------
        num_samples : how many.
        generator : the randomness, or a seed for it.
        dag : the order to draw in, of a sampler for many.
        budget : what it may use.

        Raises
        ------
        TimeLimitError
            If the time was over before the last one.
        """
        num_samples, generator = checked_samples(num_samples, 0), as_generator(generator)
        budget, chosen = Budget.given(budget), self._checked(dag)
        with budget.watched("the first sample"):
            schedule = self._schedules.of(self.orders.graph, chosen.order)
        layout = self.proposal.layout
        needed = _BYTES_PER_STATE * num_samples * layout.num_variables
        budget.refuse(f"{num_samples} samples", needed, "draw fewer at a time")
        at_once = columns_at_once(layout, budget.memory)
        states, log_probs = [], []
        with limited_threads(1), budget.watched("the last sample"):
            for start in range(0, max(num_samples, 1), at_once):
                columns, log_q = sample_ancestrally(
                    self.proposal,
                    schedule,
                    min(at_once, num_samples - start),
                    policy=ON_POLICY,
                    generator=generator,
                )
                states.append(self._outward(columns[:, 0]).T)
                log_probs.append(log_q[0].double())
        log_prob = torch.cat(log_probs) - self._log_volume
        if bool(log_prob.isnan().any()):
            raise StateError("the sampler's weights are not finite numbers: train it again")
        return torch.cat(states), log_prob

    def log_prob(self, x: States, *, dag: Dag | None = None) -> Float[Tensor, "batch"]:
        """Log q of full states, under the default order or another that the sampler knows."""
        self.model.check_states(x)
        chosen = self._checked(dag)
        known_once = None
        if self.spec.has_masks:
            known_once = known_under(self.proposal.layout, [chosen])
        found = []
        with torch.no_grad(), limited_threads(1):
            for part in torch.split(x, self._columns_at_once) if len(x) else (x,):
                known = None if known_once is None else known_once.expand(-1, len(part))
                log_q = self.proposal.log_prob(self._inward(part.T), known)
                found.append(log_q.double())
        return torch.cat(found) - self._log_volume

    def residuals(
        self,
        num_samples: int = 1000,
        generator: Randomness = None,
        *,
        budget: Budget | None = None,
    ) -> dict[str, float]:
        """Mean squared Delta residual of each variable, at samples of q: where q is still wrong.

        Parameters
        ----------
        num_samples : how many samples.
        generator : the randomness, or a seed for it.
        budget : what it may use; if the time is short, fewer samples are drawn.

        Raises
        ------
        TimeLimitError
            If the time was over before the first of them.
        """
        num_samples, generator = checked_samples(num_samples), as_generator(generator)
        budget, dag = Budget.given(budget), self._checked(None)
        layout, takes_masks = self.proposal.layout, self.spec.has_masks
        each = bytes_per_column(layout, self.spec.hidden, takes_masks=takes_masks)
        most = max(int(_RESIDUALS_SHARE * budget.memory / max(each, 1)), 1)
        if budget.time_limit is not None:
            most = min(most, self.config.batch_size)  # a piece takes as long as an update
        total = torch.zeros(self.model.num_variables, dtype=torch.float64, device="cpu")
        clock, done = PieceClock(budget, most), 0
        while done < num_samples and clock.has_time:
            count = min(clock.size, num_samples - done)
            x, _ = self.sample_with_log_prob(count, generator, dag=dag, budget=budget)
            with torch.no_grad(), limited_threads(1), budget.watched("the residuals"):
                columns = self._inward(x.T).contiguous()
                total += self._squared_residuals(columns, dag, generator).cpu().double()
            done += count
            clock.tick(count)
        mean = (total / done).tolist()
        return dict(zip((v.name for v in self.model.variables), mean, strict=True))

    def _squared_residuals(
        self, columns: Columns, dag: Dag, generator: torch.Generator | None
    ) -> Float[Tensor, "var"]:
        """Squared residuals of each variable, of all columns together."""
        known = None
        if self.spec.has_masks:
            known = known_under(self.proposal.layout, [dag]).expand(-1, columns.shape[1])
        alternatives = self.proposal.propose(columns, generator, known)
        batch = prepare_delta(self.proposal, columns, alternatives, known)
        return delta_residuals(self.proposal, batch).square().sum(1)

    def _inward(self, columns: Columns) -> Columns:
        """States as q has them: real variables in standard coordinates."""
        units = self.proposal.target.units
        if units is None:
            return columns
        return units.inward(columns.double()).to(self.proposal.dtype)

    def _outward(self, columns: Columns) -> Columns:
        """States as the model has them."""
        units = self.proposal.target.units
        return columns if units is None else units.outward(columns.double())

    @property
    def _log_volume(self) -> float:
        """What a log density in standard coordinates is more than that in the model's."""
        units = self.proposal.target.units
        return 0.0 if units is None else units.log_volume

    @property
    def _columns_at_once(self) -> int:
        return columns_at_once(self.proposal.layout)

    def _checked(self, dag: Dag | None) -> Dag:
        if isinstance(self.evidence, tuple) and self.evidence:
            names = ", ".join(self.model.variables[v].name for v in self.evidence)
            raise StateError(f"this sampler is for given values of {names}: use posterior")
        if dag is None:
            return self.orders.fixed
        checked_object("dag", dag, Dag, "take one of random_order, or leave it out", StateError)
        if self.orders.kind == "one" and dag.parents != self.orders.fixed.parents:
            raise StateError(
                "this sampler was trained for one order: fit with ",
                Setting("orders", "many"),
                " to use others",
            )
        if not self.orders.graph.contains(dag.skeleton):
            raise StateError("the order is no orientation of the sampler's chordal graph")
        return dag
