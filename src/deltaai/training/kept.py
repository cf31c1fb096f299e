"""q as it was before a phase, to go back to if the phase made it worse."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from deltaai.importance import ImportanceEstimate


@dataclass(frozen=True)
class Kept:
    """Weights of what is trained, and how good they were."""

    weights: dict[str, Tensor] = field(repr=False)
    ess_fraction: float
    log_partition: float
    stderr: float

    @classmethod
    def of(cls, trained: nn.Module, estimate: ImportanceEstimate) -> Kept:
        """Copy the weights."""
        weights = {name: value.clone() for name, value in trained.state_dict().items()}
        stderr = min(estimate.stderr, 1.0)
        return cls(weights, estimate.ess_fraction, estimate.log_partition, stderr)

    def is_surpassed_by(self, estimate: ImportanceEstimate) -> bool:
        """Whether the phase helped: weights more even, and no part of the target lost.

        A q that collapsed has perfectly even weights; its estimate of log Z gives it away.
        """
        lost = self.log_partition - estimate.log_partition
        error = self.stderr + estimate.stderr
        return estimate.ess_fraction >= self.ess_fraction and lost <= 3 * error + 0.01
