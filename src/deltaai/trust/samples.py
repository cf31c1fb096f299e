"""States drawn from a posterior, with how far they can be trusted.

They are an integer tensor like any other, (sample, variable), and carry their quality beside: what
is computed from them is a plain tensor again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from deltaai.trust.estimate import Quality
from deltaai.trust.verdicts import Status


class Samples(Tensor):
    """States with a quality.

    Examples
    --------
    >>> drawn = Samples.of(torch.tensor([[0, 1], [1, 1]]), Quality(status="estimated"))
    >>> drawn.status, drawn.shape, type(drawn + 0).__name__
    ('estimated', torch.Size([2, 2]), 'Tensor')
    """

    quality: Quality

    # As torch's own parameters do it: results of operations are plain tensors.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def of(cls, states: Tensor, quality: Quality) -> Samples:
        """Put a quality beside states."""
        made: Samples = states.as_subclass(cls)
        made.quality = quality
        return made

    @property
    def status(self) -> Status:
        """What they are worth."""
        return self.quality.status

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why they are not to be trusted, one sentence each, with the remedy."""
        return self.quality.doubts
