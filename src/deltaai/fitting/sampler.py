"""A trained sampler: samples, log Z and marginals under any evidence, judged; and its file.

Drawing from q as it is and evaluating it are in :mod:`deltaai.fitting.network`; drawing from it
given evidence, and judging that, in :mod:`deltaai.fitting.judging`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import torch

from deltaai.arguments import (
    checked_bound,
    checked_flag,
    checked_path,
    checked_samples,
)
from deltaai.budget import Budget
from deltaai.errors import ConfigError, Setting
from deltaai.fitting.judging import JudgedNetwork, posteriors_given
from deltaai.graphs import Dag
from deltaai.heap import hand_back
from deltaai.io import SAMPLER_KIND, save_tensors
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
    generator_of,
)
from deltaai.trust import (
    CHECK_SAMPLES,
    Answer,
    Estimate,
    Marginals,
    Samples,
    checked_joints,
    sampled_answer,
    sampled_joint,
    sampled_quality,
    with_joints,
)

NUM_SAMPLES = 10_000  # of an answer
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
class Sampler(JudgedNetwork):
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
        observed = self.model.resolve_evidence(evidence)
        if not observed:
            return self.sample_with_log_prob(num_samples, generator, dag=dag, budget=budget)[0]
        if dag is not None:
            raise ConfigError(
                Setting("dag"),
                " is for samples without evidence: leave it out, for evidence has an order of its "
                "own",
            )
        return samples_given(self, observed, num_samples, generator, budget=Budget.given(budget))

    def log_partition(
        self,
        num_samples: int = NUM_SAMPLES,
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
        num_samples: int = NUM_SAMPLES,
        generator: Randomness = None,
        *,
        budget: Budget | None = None,
    ) -> Marginals:
        """Posterior probabilities of every variable's states, with errors and status."""
        return self.answer(evidence, num_samples, generator, budget=budget).marginals

    def answer(
        self,
        evidence: Evidence | None = None,
        num_samples: int = NUM_SAMPLES,
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
        return answer_given(
            self,
            self.model.resolve_evidence(evidence),
            checked_samples(num_samples),
            as_generator(generator),
            upper=None if upper is None else checked_bound("upper", upper),
            check_samples=check_samples,
            joints=checked_joints(self.model, joints),
            budget=Budget.given(budget),
        )

    def diagnose(self, seed: int = 0, *, budget: Budget | None = None) -> dict[str, Any]:
        """Judge the sampler once, without evidence, and keep what was found.

        A sampler for given values of some variables is asked with values from a Markov chain.
        """
        generator, budget = generator_of(seed), Budget.given(budget)
        observed: dict[int, Any] = {}
        if isinstance(self.evidence, tuple):
            steps = (1, 1) if budget.is_over else _CHAIN_STEPS
            ends = annealed_chains(on_cpu(self.model), 1, *steps, generator)[0].tolist()
            observed = {v: ends[v] for v in self.evidence}
        found = answer_given(self, observed, NUM_SAMPLES, generator, budget=budget).partition
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
        units = self.proposal.target.units
        if units is not None:
            names = ("centre", "unit", "anchor")
            tensors |= {f"units.{name}": getattr(units, name) for name in names}
        metadata = {
            "model": described,
            "model_hash": model_from_tensors(stored, described).content_hash(),
            "spec": self.spec.to_dict(),
            "config": self.config.to_dict(),
            "history": self.history,
            "diagnostics": self.diagnostics,
            "has_one_mode": units is not None and units.has_one_mode,
        }
        save_tensors(path, tensors, metadata, kind=SAMPLER_KIND)


def samples_given(
    sampler: Sampler,
    observed: dict[int, Any],
    num_samples: int,
    generator: torch.Generator | None,
    *,
    budget: Budget,
) -> Samples:
    """States like those of :meth:`Sampler.sample`, for observed numbers, all checked."""
    start = time.perf_counter()
    wanted = max(DRAWN_PER_SAMPLE * num_samples, _FEWEST_DRAWN)
    drawing = budget.part(_DRAWING_SHARE)
    (posterior,) = posteriors_given(sampler, [observed], wanted, generator, budget=drawing)
    drawn = sampler.judged(posterior, generator, budget=budget.part(_CHECKING_SHARE))
    with budget.watched("the samples"):
        chosen = drawn.samples.sample_apart(num_samples, generator)
    chosen = chosen.to(sampler.model.device)
    return Samples.of(chosen, sampled_quality(drawn, time.perf_counter() - start))


def answer_given(
    sampler: Sampler,
    observed: dict[int, Any],
    num_samples: int,
    generator: torch.Generator | None,
    *,
    upper: float | None = None,
    check_samples: int = CHECK_SAMPLES,
    joints: Sequence[tuple[str, ...]] = (),
    budget: Budget,
) -> Answer:
    """Answer like :meth:`Sampler.answer`, for observed numbers, when all has been checked."""
    start = time.perf_counter()
    drawing = budget.part(_DRAWING_SHARE)
    (samples,) = posteriors_given(sampler, [observed], num_samples, generator, budget=drawing)
    hand_back()
    drawn = sampler.judged(
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
