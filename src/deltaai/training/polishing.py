"""Polishing: further updates with a global objective, after the local ones.

The local objective makes q right between states that are a few flips apart; on peaked models small
errors add up between distant modes. Polishing takes the variance of the log weights over full
samples, half of them flattened, for a loss that is only taken where q already is would let q
forget the modes it visits seldom. It needs no flips, so its batches are large. What it made worse
is undone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from deltaai.sampling import ImportanceEstimate, Policy

BATCH = 256
RESAMPLE_EVERY = 2
POLICY = Policy(temperature=2.0, tempered_share=0.5)

WORTH_BELOW = 0.98  # effective sample size; above it there is nothing to polish
# Flattened states of a large model lie far from q and teach it little once it is roughly right.
WORTH_BELOW_IF_LARGE = 0.5
_LARGE = 500  # variables


@dataclass(frozen=True)
class Before:
    """q as it was before polishing: its weights and how good it was."""

    weights: dict[str, Tensor] = field(repr=False)
    ess_fraction: float
    log_partition: float
    stderr: float

    def is_worth_polishing(self, num_variables: int) -> bool:
        """Whether the effective sample size leaves anything to gain."""
        limit = WORTH_BELOW_IF_LARGE if num_variables > _LARGE else WORTH_BELOW
        return self.ess_fraction < limit

    def is_surpassed_by(self, estimate: ImportanceEstimate) -> bool:
        """Whether polishing helped: weights more even, and no part of the target lost.

        A q that collapsed has perfectly even weights; its estimate of log Z gives it away.
        """
        lost = self.log_partition - estimate.log_partition
        error = self.stderr + estimate.stderr
        return estimate.ess_fraction >= self.ess_fraction and lost <= 3 * error + 0.01
