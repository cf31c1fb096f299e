"""What every learner of images offers, whatever its latent variables are.

A learner has a model p(x, h) of pixels x and latents h, and some q(h | x) to draw latents from.
It is trained and stopped like any other (:mod:`deltaai.learning.timed_learner`), and judged by its
weights log p(x, h) - log q(h | x), h ~ q, and by what it draws. Whoever compares learners knows of
this interface and of nothing else.
"""

from __future__ import annotations

from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.arguments import checked_count, checked_number
from deltaai.errors import ConfigError, Setting
from deltaai.learning.timed_learner import TimedLearner

Decay = Literal["line", "steps"]  # how learning rates fall
LEAST_RATE = 0.01  # where a line ends
HALVED_AT = (0.4, 0.7, 0.9)  # of the budget: the paper's schedule

End = tuple[float | int | None, int | None]  # seconds and updates; both None for no end


@runtime_checkable
class ImageLearner(TimedLearner, Protocol):
    """A model of images that learns, and how to judge it."""

    def log_weights(
        self,
        images: Float[Tensor, "batch pixel"],
        num_samples: int,
        generator: torch.Generator | None,
    ) -> Float[Tensor, "sample batch"]:
        """Give log p(x, h) - log q(h | x) of latents drawn for each image of zeros and ones."""

    def sample(
        self, number: int, generator: torch.Generator | None
    ) -> Float[Tensor, "number pixel"]:
        """Probabilities of the pixels of new images, given latents drawn from p."""

    def reconstruct(
        self, images: Float[Tensor, "batch pixel"], generator: torch.Generator | None
    ) -> Float[Tensor, "batch pixel"]:
        """Probabilities of the pixels given latents drawn from q for each image."""


def rate_at(progress: float | int, decay: Decay = "line") -> float:
    """What learning rates are multiplied by when a share of the budget is spent.

    Parameters
    ----------
    progress : the share.
    decay : ``"line"``, which begins at the first of the paper's steps and ends at a hundredth
        with the budget; or ``"steps"``, the paper's.

    Examples
    --------
    >>> [rate_at(progress, "steps") for progress in (0.0, 0.5, 0.7, 0.95)]
    [1.0, 0.5, 0.25, 0.125]
    >>> [round(rate_at(progress), 3) for progress in (0.0, 0.4, 0.7, 1.0)]
    [1.0, 1.0, 0.5, 0.01]
    """
    if decay == "steps":
        return float(0.5 ** sum(progress >= share for share in HALVED_AT))
    line = (1 - progress) / (1 - HALVED_AT[0])
    return float(min(max(line, LEAST_RATE), 1))


def progress_of(learner: TimedLearner, end: End) -> float:
    """Share of a budget that a learner has spent: the larger of that of time and of updates."""
    return max(_share(learner.seconds, end[0]), _share(learner.num_updates, end[1]))


def _share(spent: float | int, whole: float | int | None) -> float:
    if whole is None:
        return 0.0
    return spent / whole if whole else 1.0


def checked_end(seconds: float | int | None, updates: int | None, budget: End) -> End:
    """Where a run ends: what was asked for, or else the budget.

    Raises
    ------
    ConfigError
        If there is no end, or it is no number.
    """
    if seconds is not None:
        checked_number("seconds", seconds, is_zero_allowed=True)
    if updates is not None:
        checked_count("updates", updates)
    found = budget if seconds is None and updates is None else (seconds, updates)
    if found == (None, None):
        raise ConfigError("say how long to train: ", Setting("seconds"), " or ", Setting("updates"))
    return found
