"""q given evidence: weighted samples of a posterior, and what they are worth.

The weights take p as it is, so they say how far q is off; a second opinion says what q may have
missed. What is made of such samples, an answer, is in :mod:`deltaai.fitting.sampler`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from deltaai.arguments import (
    MOST_SAMPLES,
    checked_count,
    checked_items,
    checked_object,
    checked_samples,
)
from deltaai.budget import Budget
from deltaai.errors import EvidenceError, Setting, StateError
from deltaai.fitting.network import TrainedNetwork
from deltaai.fitting.posterior import EvidenceDrawer
from deltaai.models import Evidence
from deltaai.randomness import Randomness, as_generator, fresh_generator
from deltaai.threads import limited_threads
from deltaai.trust import CHECK_SAMPLES, Check, Drawn, Verdict, WeightedSamples


@dataclass(eq=False, repr=False)
class JudgedNetwork(TrainedNetwork):
    """A trained network that draws given evidence, and judges what it drew.

    Its parameters are those of :class:`~deltaai.fitting.network.TrainedNetwork`.
    """

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
        yield from posteriors_given(
            self,
            [self.model.resolve_evidence(row) for row in rows],
            num_samples,
            generator,
            budget=budget,
        )

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
        check = _check(check_samples, generator, budget)
        self._check_own(answer)
        with limited_threads(1):
            drawn = Drawn(answer, answer.refined(check.generator))
            return self._drawer.trust(drawn, check)[0]

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
        check = _check(check_samples, generator, budget)
        self._check_own(answer)
        with limited_threads(1):
            return self._drawer.judged(answer, check)

    def _check_own(self, answer: WeightedSamples) -> None:
        """Refuse what are no samples, and those of another model."""
        found = checked_object("answer", answer, WeightedSamples, "take that of posterior")
        if found.model.variables != self.model.variables:
            raise StateError("these samples are of another model: judge them with its own sampler")

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


def _check(check_samples: int, generator: Randomness, budget: Budget | None) -> Check:
    """What a check may take, from what a caller gave."""
    return Check(
        generator=as_generator(generator) or fresh_generator(),
        num_samples=checked_count("check_samples", check_samples, 0, MOST_SAMPLES),
        budget=Budget.given(budget),
    )


def posteriors_given(
    network: JudgedNetwork,
    rows: Sequence[dict[int, Any]],
    num_samples: int,
    generator: torch.Generator | None,
    *,
    budget: Budget,
) -> Iterator[WeightedSamples]:
    """Weighted samples like :meth:`JudgedNetwork.posteriors`, for rows of numbers, all checked."""
    needed = network.evidence if isinstance(network.evidence, tuple) else ()
    for row in rows:
        missing = [network.model.variables[v].name for v in needed if v not in row]
        if missing:
            raise EvidenceError(
                f"this sampler needs the values of {', '.join(missing)}: give them, or fit with ",
                Setting("evidence", "any"),
            )
    drawn = network._drawer.draw(rows, num_samples, generator, budget=budget)
    for _ in rows:
        with limited_threads(1):  # not while the caller looks at a row
            found = next(drawn)
        yield found
