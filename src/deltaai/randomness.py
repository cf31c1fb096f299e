"""Where randomness comes from: a generator of one's own for every seed.

Torch's generator on the CPU takes the last 32 bits of a seed only, so 0 and 2^32 would be the same.
Seeds below 2^32 go to it as they are; larger ones are mixed first, so that every bit counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.arguments import checked_seed
from deltaai.errors import ConfigError, Setting, shown

Randomness = torch.Generator | int | None  # what a public function takes: a seed will do
_WORD = 2**32


def generator_of(seed: int) -> torch.Generator:
    """A generator for a seed, on the CPU; torch's global one stays as it is.

    >>> first, second = (torch.rand(2, generator=generator_of(seed)) for seed in (0, 2**32))
    >>> bool((first == second).any())
    False
    """
    number = checked_seed(seed)
    if number >= _WORD:
        number = int(np.random.SeedSequence(number).generate_state(1)[0])
    return torch.Generator().manual_seed(number)


def uniform(
    shape: Sequence[int],
    generator: torch.Generator | None,
    *,
    dtype: torch.dtype,
    device: torch.device | str,
) -> Float[Tensor, "..."]:
    """Numbers between 0 and 1, for any device: they are drawn where the generator is.

    A seed makes a generator on the CPU, so it gives the same numbers on every device.
    """
    where = device if generator is None else generator.device
    return torch.rand(shape, generator=generator, dtype=dtype, device=where).to(device)


def normal(
    shape: Sequence[int],
    generator: torch.Generator | None,
    *,
    dtype: torch.dtype,
    device: torch.device | str,
) -> Float[Tensor, "..."]:
    """Standard normal numbers, drawn like :func:`uniform` ones."""
    where = device if generator is None else generator.device
    return torch.randn(shape, generator=generator, dtype=dtype, device=where).to(device)


def integers(
    most: int, shape: Sequence[int], generator: torch.Generator | None, device: torch.device | str
) -> Int[Tensor, "..."]:
    """Whole numbers from 0 to below ``most``, drawn like :func:`uniform` ones."""
    where = device if generator is None else generator.device
    return torch.randint(most, shape, generator=generator, device=where).to(device)


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
