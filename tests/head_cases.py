"""Heads of every kind, and parameters for them: what the tests of heads share."""

import math

import torch

from deltaai.conditionals import Beta, Categorical, GivenStates, Mixture, Normal, TruncatedNormal

BOX, HALF_LINE = TruncatedNormal(-1, 1), TruncatedNormal(0, math.inf)
REAL = [
    Normal(),
    BOX,
    TruncatedNormal(0.5, 4),
    HALF_LINE,
    TruncatedNormal(-math.inf, 2),
    Beta(-1, 1),
    Beta(0, 3),
    Mixture(Normal(), 3),
    Mixture(BOX, 2),
    Mixture(HALF_LINE, 2),
    Mixture(Beta(-1, 1), 3),
    Mixture(BOX, 1),
]
DISCRETE = [Categorical(2), Categorical(5), Categorical(1), GivenStates(2)]


def plain_parameters(head, shape=(4, 50), seed=0, dtype=torch.float64):
    """Parameters as a trained body gives them: (lead, parameter, batch)."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(
        (shape[0], head.num_parameters, shape[1]), generator=generator, dtype=torch.float64
    )
    return drawn.to(dtype)


def extreme_parameters(head, shape, seed, dtype=torch.float32):
    """Numbers of every size and sign, zeros and infinities among them."""
    generator = torch.Generator().manual_seed(seed)
    size = (shape[0], head.num_parameters, shape[1])
    exponent = torch.rand(size, generator=generator) * 40 - 8
    sign = torch.randint(0, 2, size, generator=generator) * 2 - 1
    drawn = sign * (exponent.double() * math.log(10) / 4).exp()
    rare = torch.rand(size, generator=generator)
    drawn[rare < 0.03] = 0.0
    drawn[rare > 0.98] = 1e30
    drawn[rare > 0.99] = -1e30
    return drawn.to(dtype)


def inner_values(head, shape, seed=1, dtype=torch.float64):
    """Values spread over the support of a head."""
    generator = torch.Generator().manual_seed(seed)
    low, high = head.support
    if math.isfinite(low) and math.isfinite(high):
        chance = torch.rand(shape, generator=generator, dtype=torch.float64)
        return (low + (high - low) * (0.001 + 0.998 * chance)).to(dtype)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    if math.isfinite(low):
        return (low + drawn.abs() + 1e-3).to(dtype)
    return (high - drawn.abs() - 1e-3 if math.isfinite(high) else drawn).to(dtype)
