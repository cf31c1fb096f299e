"""The settings of an autoencoder: one frozen value, checked when it is made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from deltaai.arguments import MOST_SAMPLES, checked_count, checked_number


@dataclass(frozen=True)
class AutoencoderConfig:
    """How large an autoencoder is, and how it learns.

    Parameters
    ----------
    num_latents : dimensions of h; the paper takes as many as its graph has latent variables.
    hidden, depth : width and number of the hidden layers, of encoder and decoder alike.
    batch_size : images of an update.
    learning_rate : of Adam; falls on a line when 40 % of the budget are spent.
    seconds, updates : the budget, in either or in both; with neither the rate stays.

    Examples
    --------
    >>> AutoencoderConfig(num_latents=0)
    Traceback (most recent call last):
    ...
    deltaai.errors.ConfigError: num_latents is 0; it must be a whole number, at least 1 ...
    """

    num_latents: int = 164
    hidden: int = 512
    depth: int = 3
    batch_size: int = 128
    learning_rate: float | int = 1e-3
    seconds: float | int | None = None
    updates: int | None = None

    def __post_init__(self) -> None:
        for name in ("num_latents", "hidden", "depth", "batch_size"):
            checked_count(name, getattr(self, name), 1, MOST_SAMPLES)
        checked_number("learning_rate", self.learning_rate)
        if self.seconds is not None:
            checked_number("seconds", self.seconds)
        if self.updates is not None:
            checked_count("updates", self.updates, 1)

    def to_dict(self) -> dict[str, Any]:
        """All settings by name, in values that JSON has."""
        return asdict(self)
