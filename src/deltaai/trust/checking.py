"""How sampled answers are checked: what second opinions on them may take.

Settled where a check is asked for, and handed as it is to those who judge.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch

from deltaai.budget import Budget
from deltaai.errors import NotAffordableError
from deltaai.heap import hand_back
from deltaai.models import FactorGraph
from deltaai.trust.opinions import second_opinion
from deltaai.trust.weighted import WeightedSamples

# Share of the time for a check that a second opinion may take; the rest is for comparing.
_OPINION_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Check:
    """What the check of an answer may take.

    Parameters
    ----------
    num_samples : samples of a second opinion; none if there is to be none.
    generator : the randomness, also of samples that are added to the answer.
    budget : bytes and seconds.
    """

    num_samples: int
    generator: torch.Generator
    budget: Budget

    def opinion(self, model: FactorGraph, observed: dict[int, Any]) -> WeightedSamples | None:
        """A second opinion, if one is wanted, and if there is time for it and then to compare."""
        if self.num_samples == 0:
            return None
        found, within = None, self.budget.part(_OPINION_SHARE)
        with suppress(NotAffordableError), within.watched("the second opinion"):
            found = second_opinion(
                model, observed, self.generator, num_samples=self.num_samples, budget=within
            )
        hand_back()
        return None if self.budget.is_over else found
