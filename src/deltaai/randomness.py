"""Where randomness comes from: a generator of one's own for every seed.

Torch's generator on the CPU takes the last 32 bits of a seed only, so 0 and 2^32 would be the same.
Seeds below 2^32 go to it as they are; larger ones are mixed first, so that every bit counts.
"""

from __future__ import annotations

from numbers import Integral

import numpy as np
import torch

from deltaai.arguments import checked_seed
from deltaai.errors import ConfigError, Setting, shown

Randomness = torch.Generator | int | None  # what a public function takes: a seed will do
_WORD = 2**32


def generator_of(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator for a seed; torch's global one stays as it is.

    Parameters
    ----------
    device : where it draws.

    >>> first, second = (torch.rand(2, generator=generator_of(seed)) for seed in (0, 2**32))
    >>> bool((first == second).any())
    False
    """
    number = checked_seed(seed)
    if number >= _WORD:
        number = int(np.random.SeedSequence(number).generate_state(1)[0])
    return torch.Generator(device=device).manual_seed(number)


def as_generator(given: Randomness) -> torch.Generator | None:
    """What was given, with a generator instead of a seed."""
    if given is None or isinstance(given, torch.Generator):
        return given
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise ConfigError(
            Setting("generator"),
            f" is {shown(given)}: give a torch.Generator, or a seed from 0 to 2^63 - 1",
        )
    return generator_of(given)


def fresh_generator() -> torch.Generator:
    """A generator seeded by torch's own, for those who gave none."""
    return generator_of(int(torch.randint(_WORD, (), dtype=torch.long, device="cpu")))
