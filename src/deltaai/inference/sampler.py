"""A trained sampler: draw states, evaluate log q, estimate log Z, say where q is still wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.arguments import checked_count, checked_samples, checked_seed
from deltaai.budget import Budget
from deltaai.conditionals import Proposal, known_under
from deltaai.display import Card, Shown, listing, plural
from deltaai.errors import EvidenceError, Setting, StateError
from deltaai.graphs import Dag, random_dag
from deltaai.inference.answer import Answer, sampled_answer, sampled_quality
from deltaai.inference.defaults import columns_at_once
from deltaai.inference.estimate import Estimate, Marginals
from deltaai.inference.joints import sampled_joint
from deltaai.inference.posterior import Drawn, EvidenceDrawer
from deltaai.inference.proposals import EvidenceKind
from deltaai.inference.samples import Samples
from deltaai.inference.second_opinion import NUM_SAMPLES as CHECK_SAMPLES
from deltaai.inference.trust import Verdict
from deltaai.inference.weighted import WeightedSamples
from deltaai.models import Evidence, FactorGraph, States
from deltaai.models.frames import states_frame
from deltaai.models.storage import model_from_tensors, model_to_tensors
from deltaai.objectives import delta_residuals, draw_alternatives, prepare
from deltaai.randomness import (
    Randomness,
    as_generator,
    fresh_generator,
    generator_of,
)
from deltaai.sampling.ancestral import Schedule, sample_ancestrally
from deltaai.sampling.orders import Orders
from deltaai.sampling.policies import ON_POLICY
from deltaai.sampling.tempering import annealed_chains
from deltaai.threads import Turn, limited_threads
from deltaai.training.checkpoint import save_tensors
from deltaai.training.config import TrainingConfig

SAMPLER_KIND = "sampler"
DIAGNOSTICS = (
    "log_partition",
    "stderr",
    "elbo",
    "ess",
    "ess_fraction",
    "khat",
    "visible_share",
    "num_samples",
    "status",
    "doubts",
)
# Shares of the time that is left: for drawing, and after that for the check. The rest is for what
# is computed from the samples, which takes as long as drawing them or so.
_DRAWING_SHARE, _CHECKING_SHARE = 0.3, 0.8
_BYTES_PER_STATE = 16  # of a variable in a sample, while samples are put together
_CHAIN_STEPS = 50, 10  # of the chain that a sampler for given values is judged at
# States drawn for one that is kept, and in any case: of a few, samples would be biased.
DRAWN_PER_SAMPLE, _FEWEST_DRAWN = 4, 4000


@dataclass(eq=False, repr=False)
class Sampler(Shown):
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
    kept_diagnostics : what :meth:`diagnose` found, kept with the sampler in its file.
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
    kept_diagnostics: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._schedules: dict[tuple[int, ...], Schedule] = {}
        self._kept_drawer: EvidenceDrawer | None = None
        self._turn = Turn()  # at these two

    def _card(self) -> Card:
        evidence = "none" if self.evidence is None else "any"
        if isinstance(self.evidence, tuple):
            evidence = listing(self.model.variables[v].name for v in self.evidence)
        rows = [
            ("conditionals", f"{self.family}, {self.hidden} hidden units"),
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

    @property
    def has_masks(self) -> bool:
        """Whether conditionals must be told which of their inputs are known."""
        return self.orders.kind == "many" or self.proposal.layout.has_context

    def random_order(self, seed: int) -> Dag:
        """Draw one of the orders this sampler knows: the only one, or a random one."""
        if self.orders.kind == "one":
            return self.orders.fixed
        return random_dag(self.orders.graph, np.random.default_rng(checked_seed(seed)))

    @overload
    def sample(
        self,
        num_samples: int,
        generator: Randomness = None,
        *,
        dag: Dag | None = None,
        evidence: Evidence | None = None,
        budget: Budget | None = None,
        as_frame: Literal[False] = False,
    ) -> States: ...
    @overload
    def sample(
        self,
        num_samples: int,
        generator: Randomness = None,
        *,
        dag: Dag | None = None,
        evidence: Evidence | None = None,
        budget: Budget | None = None,
        as_frame: Literal[True],
    ) -> Any: ...  # noqa: ANN401
    def sample(
        self,
        num_samples: int,
        generator: Randomness = None,
        *,
        dag: Dag | None = None,
        evidence: Evidence | None = None,
        budget: Budget | None = None,
        as_frame: bool = False,
    ) -> Any:
        """Draw independent states from q; with evidence, states that agree with it.

        Given evidence, some thousand states are drawn and weighted however few are asked for, and
        four times as many if many are; those to return are taken in proportion to their weights,
        and Gibbs sweeps move them apart. They are then :class:`Samples`, which say what they are
        worth (``status``, ``doubts``). Without evidence they are q's own: ``diagnose`` judges it.

        Parameters
        ----------
        num_samples : how many.
        generator : the randomness, or a seed for it.
        dag : the order to draw in, of a sampler for many.
        evidence : what was observed: names to labels or state indices.
        budget : what it may use.
        as_frame : return a pandas ``DataFrame`` with a column a variable and labels in the cells.
        """
        x = self._sampled(num_samples, as_generator(generator), dag, evidence, budget)
        return states_frame(self.model, x) if as_frame else x

    def _sampled(
        self,
        num_samples: int,
        generator: torch.Generator | None,
        dag: Dag | None,
        evidence: Evidence | None,
        budget: Budget | None,
    ) -> States:
        num_samples = checked_samples(num_samples, 0)
        if not evidence:
            return self.sample_with_log_prob(num_samples, generator, dag=dag, budget=budget)[0]
        start = time.perf_counter()
        wanted = max(DRAWN_PER_SAMPLE * num_samples, _FEWEST_DRAWN)
        posterior = self.posterior(evidence, wanted, generator, budget=budget)
        drawn = self.judged(posterior, generator, budget=budget)
        chosen = drawn.samples.sample_apart(num_samples, generator)
        return Samples.of(chosen, sampled_quality(drawn, time.perf_counter() - start))

    def sample_with_log_prob(
        self,
        num_samples: int,
        generator: Randomness = None,
        *,
        dag: Dag | None = None,
        budget: Budget | None = None,
    ) -> tuple[States, Float[Tensor, "batch"]]:
        """Draw states from q, with their log q."""
        num_samples, generator = checked_samples(num_samples, 0), as_generator(generator)
        schedule = self._schedule(self._checked(dag))
        layout, budget = self.proposal.layout, Budget.of() if budget is None else budget
        needed = _BYTES_PER_STATE * num_samples * layout.num_variables
        budget.refuse(f"{num_samples} samples", needed, "draw fewer at a time")
        at_once = columns_at_once(layout.num_slots, layout.num_variables, budget.memory)
        states, log_probs = [], []
        with limited_threads(1):
            for start in range(0, max(num_samples, 1), at_once):
                columns, log_q = sample_ancestrally(
                    self.proposal,
                    schedule,
                    min(at_once, num_samples - start),
                    policy=ON_POLICY,
                    generator=generator,
                )
                states.append(columns[:, 0].T)
                log_probs.append(log_q[0].double())
        log_prob = torch.cat(log_probs)
        if bool(log_prob.isnan().any()):
            raise StateError("the sampler's weights are not finite numbers: train it again")
        return torch.cat(states), log_prob

    def log_prob(self, x: States, *, dag: Dag | None = None) -> Float[Tensor, "batch"]:
        """Log q of full states, under the default order or another that the sampler knows."""
        self.model.check_states(x)
        chosen = self._checked(dag)
        known_once = None
        if self.has_masks:
            known_once = known_under(self.proposal.layout, [chosen])
        found = []
        with torch.no_grad(), limited_threads(1):
            for part in torch.split(x, self._columns_at_once) if len(x) else (x,):
                known = None if known_once is None else known_once.expand(-1, len(part))
                found.append(self.proposal.log_prob(part.T, known).double())
        return torch.cat(found)

    def log_partition(
        self,
        num_samples: int = 10_000,
        generator: Randomness = None,
        *,
        evidence: Evidence | None = None,
    ) -> Estimate:
        """Log Z, with evidence that of the states which agree: value, error, status and more."""
        return self.answer(evidence, num_samples, generator).partition

    def marginals(
        self,
        evidence: Evidence | None = None,
        num_samples: int = 10_000,
        generator: Randomness = None,
    ) -> Marginals:
        """Posterior probabilities of every variable's states, with errors and status."""
        return self.answer(evidence, num_samples, generator).marginals

    def answer(
        self,
        evidence: Evidence | None = None,
        num_samples: int = 10_000,
        generator: Randomness = None,
        *,
        upper: float | None = None,
        check_samples: int = CHECK_SAMPLES,
        joints: Sequence[tuple[str, ...]] = (),
        budget: Budget | None = None,
    ) -> Answer:
        """Log Z and all marginals from one set of weighted samples, judged (:meth:`judged`).

        Parameters
        ----------
        evidence : what was observed: names to labels or state indices.
        num_samples : how many samples.
        upper : an upper bound on log Z, if one is known.
        check_samples : samples of the second opinion; more see smaller missing parts.
        joints : variables whose joint marginals are wanted, too.
        budget : what it may use. If the time is short, fewer samples are drawn, which ``notes``
            tells, and the second opinion may be left out.
        """
        start, generator = time.perf_counter(), as_generator(generator)
        budget = Budget.of() if budget is None else budget
        drawing = budget.part(_DRAWING_SHARE)
        samples = self.posterior(evidence, num_samples, generator, budget=drawing)
        drawn = self.judged(
            samples, generator, check_samples=check_samples, budget=budget.part(_CHECKING_SHARE)
        )
        answer = sampled_answer(drawn, time.perf_counter() - start, upper)
        found = {names: sampled_joint(drawn.refined, names) for names in joints}
        answer = answer.with_joints(
            {names: mean for names, (mean, _) in found.items()},
            {names: error for names, (_, error) in found.items()},
        )
        if len(samples.states) >= num_samples:
            return answer
        few = f"{len(samples.states)} of {num_samples} samples were drawn within the time limit"
        return replace(answer, notes=(*answer.notes, few))

    def posterior(
        self,
        evidence: Evidence | None = None,
        num_samples: int = 10_000,
        generator: Randomness = None,
        *,
        budget: Budget | None = None,
    ) -> WeightedSamples:
        """Weighted samples given evidence, whatever evidence the sampler was trained for.

        A sampler trained for evidence draws from its conditionals given the evidence. Any other
        draws in an order that has the evidence first, as far as the graph allows, with particles
        that are weighted and resampled as observed variables are passed.

        Parameters
        ----------
        evidence : what was observed: names to labels or state indices.
        num_samples : how many samples.
        budget : what it may use; if the time is over before all are drawn, there are fewer.
        """
        (found,) = self.posteriors([evidence or {}], num_samples, generator, budget=budget)
        return found

    def posteriors(
        self,
        rows: Sequence[Evidence],
        num_samples: int = 1000,
        generator: Randomness = None,
        *,
        budget: Budget | None = None,
    ) -> Iterator[WeightedSamples]:
        """Weighted samples for each of many rows of evidence, evaluated together."""
        num_samples, generator = checked_samples(num_samples), as_generator(generator)
        resolved = [self.model.resolve_evidence(row) for row in rows]
        needed = self.evidence if isinstance(self.evidence, tuple) else ()
        for row in resolved:
            missing = [self.model.variables[v].name for v in needed if v not in row]
            if missing:
                raise EvidenceError(
                    f"this sampler needs the values of {', '.join(missing)}: give them, or fit "
                    "with ",
                    Setting("evidence", "any"),
                )
        drawn = self._drawer.draw(resolved, num_samples, generator, budget=budget)
        for _ in resolved:
            with limited_threads(1):  # not while the caller looks at a row
                found = next(drawn)
            yield found

    def trust(
        self,
        answer: WeightedSamples,
        generator: Randomness = None,
        *,
        check_samples: int = CHECK_SAMPLES,
    ) -> Verdict:
        """Judge samples of :meth:`posterior`: by their weights, and by a second opinion.

        Parameters
        ----------
        answer : weighted samples.
        check_samples : samples of the second opinion; more see smaller missing parts, and with
            none there is no check.
        """
        generator = as_generator(generator) or fresh_generator()
        check_samples = checked_count("check_samples", check_samples)
        with limited_threads(1):
            drawn = Drawn(answer, answer.refined(generator))
            return self._drawer.trust(drawn, check_samples, generator)[0]

    def judged(
        self,
        answer: WeightedSamples,
        generator: Randomness = None,
        *,
        check_samples: int = CHECK_SAMPLES,
        budget: Budget | None = None,
    ) -> Drawn:
        """Samples of :meth:`posterior` with a verdict, or better ones in their place.

        Given evidence, samples that are doubted give way to those of messages that are computed for
        this evidence, if nothing speaks against these.
        """
        generator = as_generator(generator) or fresh_generator()
        check_samples = checked_count("check_samples", check_samples)
        with limited_threads(1):
            return self._drawer.judged(answer, check_samples, generator, budget)

    def diagnose(self, seed: int = 0, *, budget: Budget | None = None) -> dict[str, Any]:
        """Judge the sampler once, without evidence, and keep what was found.

        A sampler for given values of some variables is asked with values from a Markov chain.
        """
        generator = generator_of(seed)
        evidence: Evidence = {}
        if isinstance(self.evidence, tuple):
            ends = annealed_chains(self.model, 1, *_CHAIN_STEPS, generator)[0].tolist()
            evidence = self.model.named_evidence({v: ends[v] for v in self.evidence})
        found = self.answer(evidence, generator=generator, budget=budget).partition
        values = {"log_partition": float(found), "doubts": list(found.doubts)}
        values |= {name: getattr(found, name) for name in DIAGNOSTICS if name not in values}
        self.kept_diagnostics = {
            # Files hold no numbers that are not finite.
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in values.items()
        }
        return self.kept_diagnostics

    @property
    def diagnostics(self) -> dict[str, Any]:
        """What :meth:`diagnose` found: asked for the first time, it is found out."""
        return self.kept_diagnostics or self.diagnose()

    def residuals(self, num_samples: int = 1000, generator: Randomness = None) -> dict[str, float]:
        """Mean squared Delta residual of each variable, at samples of q: where q is still wrong."""
        num_samples, generator = checked_samples(num_samples), as_generator(generator)
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

    @property
    def _columns_at_once(self) -> int:
        return columns_at_once(self.proposal.layout.num_slots, self.model.num_variables)

    @property
    def _drawer(self) -> EvidenceDrawer:
        """What draws given evidence; kept, unless the model has parameters that may change."""
        with self._turn:
            if self._kept_drawer is None or any(True for _ in self.model.parameters()):
                self._kept_drawer = EvidenceDrawer.of(self.model, self.proposal, self.orders)
            return self._kept_drawer

    def _checked(self, dag: Dag | None) -> Dag:
        if isinstance(self.evidence, tuple) and self.evidence:
            names = ", ".join(self.model.variables[v].name for v in self.evidence)
            raise StateError(f"this sampler is for given values of {names}: use posterior")
        if dag is None:
            return self.orders.fixed
        if self.orders.kind == "one" and dag.parents != self.orders.fixed.parents:
            raise StateError(
                "this sampler was trained for one order: fit with ",
                Setting("orders", "many"),
                " to use others",
            )
        if not self.orders.graph.contains(dag.skeleton):
            raise StateError("the order is no orientation of the sampler's chordal graph")
        return dag

    def _schedule(self, dag: Dag) -> Schedule:
        with self._turn:
            if dag.order not in self._schedules:
                schedule = Schedule.build(self.proposal, [dag], masks=self.has_masks)
                self._schedules[dag.order] = schedule
            return self._schedules[dag.order]

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | Path, *, budget: Budget | None = None) -> None:
        """Write the sampler, its model, settings and diagnostics to one file, all or nothing.

        Parameters
        ----------
        budget : what judging it may use, if it was not judged yet.
        """
        if not self.kept_diagnostics:
            self.diagnose(budget=budget)
        conditionals = self.proposal.conditionals
        stored, described = model_to_tensors(self.model)
        tensors = {f"model.{name}": value for name, value in stored.items()}
        tensors |= {f"q.{name}": value for name, value in conditionals.state_dict().items()}
        tensors["graph.edges"] = torch.from_numpy(self.orders.graph.edges())
        tensors["graph.order"] = torch.tensor(
            self.orders.graph.order, dtype=torch.long, device="cpu"
        )
        metadata = {
            "model": described,
            "model_hash": model_from_tensors(stored, described).content_hash(),
            "orders": self.orders.kind,
            "family": self.family,
            "hidden": self.hidden,
            "evidence": list(self.evidence) if isinstance(self.evidence, tuple) else self.evidence,
            "smoothing": self.smoothing,
            "is_informed": self.proposal.is_informed,
            "config": self.config.to_dict(),
            "history": self.history,
            "diagnostics": self.diagnostics,
        }
        save_tensors(path, tensors, metadata, kind=SAMPLER_KIND)
