"""A trained sampler: samples, log Z and marginals under any evidence, judged; and its file.

Drawing from q as it is and evaluating it are in :mod:`deltaai.fitting.network`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import torch

from deltaai.arguments import (
    MOST_SAMPLES,
    checked_bound,
    checked_count,
    checked_flag,
    checked_items,
    checked_object,
    checked_path,
    checked_samples,
)
from deltaai.budget import Budget
from deltaai.errors import ConfigError, EvidenceError, Setting, StateError
from deltaai.fitting.network import TrainedNetwork
from deltaai.fitting.posterior import EvidenceDrawer
from deltaai.graphs import Dag
from deltaai.heap import hand_back
from deltaai.mcmc import annealed_chains
from deltaai.models import (
    Evidence,
    States,
    model_from_tensors,
    model_to_tensors,
    on_cpu,
    states_frame,
)
from deltaai.randomness import (
    Randomness,
    as_generator,
    fresh_generator,
    generator_of,
)
from deltaai.threads import limited_threads
from deltaai.training import save_tensors
from deltaai.trust import (
    CHECK_SAMPLES,
    Answer,
    Drawn,
    Estimate,
    Marginals,
    Samples,
    Verdict,
    WeightedSamples,
    checked_joints,
    sampled_answer,
    sampled_joint,
    sampled_quality,
    with_joints,
)

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
_CHAIN_STEPS = 50, 10  # of the chain that a sampler for given values is judged at
# States drawn for one that is kept, and in any case: of a few, samples would be biased.
DRAWN_PER_SAMPLE, _FEWEST_DRAWN = 4, 4000


@dataclass(eq=False, repr=False)
class Sampler(TrainedNetwork):
    """A trained network that answers: samples, log Z and marginals, each with what it is worth.

    Its parameters are those of :class:`~deltaai.fitting.network.TrainedNetwork`.
    """

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
        as_frame = checked_flag("as_frame", as_frame)
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
        if not self.model.resolve_evidence(evidence):
            return self.sample_with_log_prob(num_samples, generator, dag=dag, budget=budget)[0]
        if dag is not None:
            raise ConfigError(
                Setting("dag"),
                " is for samples without evidence: leave it out, for evidence has an order of its "
                "own",
            )
        start = time.perf_counter()
        wanted = max(DRAWN_PER_SAMPLE * num_samples, _FEWEST_DRAWN)
        budget = Budget.given(budget)
        drawing = budget.part(_DRAWING_SHARE)
        posterior = self.posterior(evidence, wanted, generator, budget=drawing)
        drawn = self.judged(posterior, generator, budget=budget.part(_CHECKING_SHARE))
        with budget.watched("the samples"):
            chosen = drawn.samples.sample_apart(num_samples, generator)
        chosen = chosen.to(self.model.device)
        return Samples.of(chosen, sampled_quality(drawn, time.perf_counter() - start))

    def log_partition(
        self,
        num_samples: int = 10_000,
        generator: Randomness = None,
        *,
        evidence: Evidence | None = None,
        budget: Budget | None = None,
    ) -> Estimate:
        """Log Z, with evidence that of the states which agree: value, error, status and more."""
        return self.answer(evidence, num_samples, generator, budget=budget).partition

    def marginals(
        self,
        evidence: Evidence | None = None,
        num_samples: int = 10_000,
        generator: Randomness = None,
        *,
        budget: Budget | None = None,
    ) -> Marginals:
        """Posterior probabilities of every variable's states, with errors and status."""
        return self.answer(evidence, num_samples, generator, budget=budget).marginals

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
        num_samples, budget = checked_samples(num_samples), Budget.given(budget)
        upper = None if upper is None else checked_bound("upper", upper)
        joints = checked_joints(self.model, joints)
        drawing = budget.part(_DRAWING_SHARE)
        samples = self.posterior(evidence, num_samples, generator, budget=drawing)
        hand_back()
        drawn = self.judged(
            samples, generator, check_samples=check_samples, budget=budget.part(_CHECKING_SHARE)
        )
        answer = sampled_answer(drawn, time.perf_counter() - start, upper)
        found = {names: sampled_joint(drawn.refined, names) for names in joints}
        answer = with_joints(
            answer,
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
        (found,) = self.posteriors(
            [{} if evidence is None else evidence], num_samples, generator, budget=budget
        )
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
        rows, budget = checked_items("rows", rows, "evidence", EvidenceError), Budget.given(budget)
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
        budget: Budget | None = None,
    ) -> Verdict:
        """Judge samples of :meth:`posterior`: by their weights, and by a second opinion.

        Parameters
        ----------
        answer : weighted samples.
        check_samples : samples of the second opinion; more see smaller missing parts, and with
            none there is no check.
        budget : what it may use; if the time is short, there is no second opinion.
        """
        generator = as_generator(generator) or fresh_generator()
        check_samples = checked_count("check_samples", check_samples, 0, MOST_SAMPLES)
        self._check_own(answer)
        with limited_threads(1):
            drawn = Drawn(answer, answer.refined(generator))
            given = Budget.given(budget)
            return self._drawer.trust(drawn, check_samples, generator, given)[0]

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
        check_samples = checked_count("check_samples", check_samples, 0, MOST_SAMPLES)
        self._check_own(answer)
        with limited_threads(1):
            given = None if budget is None else Budget.given(budget)
            return self._drawer.judged(answer, check_samples, generator, given)

    def _check_own(self, answer: WeightedSamples) -> None:
        """Refuse what are no samples, and those of another model."""
        found = checked_object("answer", answer, WeightedSamples, "take that of posterior")
        if found.model.variables != self.model.variables:
            raise StateError("these samples are of another model: judge them with its own sampler")

    def diagnose(self, seed: int = 0, *, budget: Budget | None = None) -> dict[str, Any]:
        """Judge the sampler once, without evidence, and keep what was found.

        A sampler for given values of some variables is asked with values from a Markov chain.
        """
        generator, budget = generator_of(seed), Budget.given(budget)
        evidence: Evidence = {}
        if isinstance(self.evidence, tuple):
            steps = (1, 1) if budget.is_over else _CHAIN_STEPS
            ends = annealed_chains(on_cpu(self.model), 1, *steps, generator)[0].tolist()
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

    @property
    def _drawer(self) -> EvidenceDrawer:
        """What draws given evidence; kept, unless the model has parameters that may change."""
        with self._turn:
            if self._kept_drawer is None or any(True for _ in self.model.parameters()):
                self._kept_drawer = EvidenceDrawer.of(
                    self.model,
                    self.proposal,
                    self.orders,
                    is_for_evidence=self.evidence is not None,
                )
            return self._kept_drawer

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | Path, *, budget: Budget | None = None) -> None:
        """Write the sampler, its model, settings and diagnostics to one file, all or nothing.

        Parameters
        ----------
        budget : what judging it may use, if it was not judged yet.
        """
        path, budget = checked_path(path), Budget.given(budget)
        if not self.kept_diagnostics:
            self.diagnose(budget=budget)
            hand_back()
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
            "spec": self.spec.to_dict(),
            "config": self.config.to_dict(),
            "history": self.history,
            "diagnostics": self.diagnostics,
        }
        save_tensors(path, tensors, metadata, kind=SAMPLER_KIND)
