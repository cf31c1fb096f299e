"""Importance-weighted bounds on the log-likelihood of a model with latent variables.

With h_1..h_K drawn from q(h | x) and log-weights log w_k = log p(x, h_k) - log q(h_k | x),

    bound_K(x) = log (1/K) Σ_k w_k,   E bound_K <= E bound_(K+1) <= log p(x)

(Burda, Grosse and Salakhutdinov, *Importance weighted autoencoders*). One set of weights gives the
bounds of several K: that of a smaller K is averaged over all groups of K weights, which takes noise
out of it and makes it no larger than that of any multiple of K, always. This file draws nothing: a
learner's own function does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from deltaai.arguments import checked_count
from deltaai.errors import ConfigError, WeightError

# Images of zeros and ones, samples of each, and randomness -> log weights (sample, batch).
DrawWeights = Callable[[Tensor, int, torch.Generator | None], Tensor]


def importance_bound(
    log_weights: Float[Tensor, "sample batch"],
) -> Float64[Tensor, "batch"]:
    """The bound of each image, from all of its weights.

    >>> importance_bound(torch.tensor([[0.0, 1.0], [0.0, 1.0]]))
    tensor([0., 1.], dtype=torch.float64)
    """
    if not len(log_weights):
        raise WeightError("there are no weights: give at least one for each image")
    if bool(log_weights.isnan().any()) or bool((log_weights == math.inf).any()):
        raise WeightError("a log weight is NaN or infinite: p or q is not a distribution")
    return log_weights.double().logsumexp(0) - math.log(len(log_weights))


def importance_bounds(
    draw: DrawWeights,
    images: Float[Tensor, "image pixel"],
    sizes: Sequence[int],
    generator: torch.Generator | None,
    *,
    rows_at_once: int = 4096,
) -> dict[int, Float64[Tensor, "image"]]:
    """Bounds of several K for each image, from one set of weights drawn in pieces.

    Weights are drawn for a few images at a time, and as many as the smallest K at a time; what is
    kept is one number for each such group.

    Parameters
    ----------
    draw : a learner's ``log_weights``.
    images : zeros and ones.
    sizes : the K; each a multiple of the smallest, and a divisor of the largest.
    generator : randomness of the latents.
    rows_at_once : weights that are drawn at once; bounds the memory.

    Examples
    --------
    >>> draw = lambda images, number, generator: torch.zeros(number, len(images))
    >>> bounds = importance_bounds(draw, torch.zeros(3, 4), (2, 6), None)
    >>> [(size, bound.tolist()) for size, bound in bounds.items()]
    [(2, [0.0, 0.0, 0.0]), (6, [0.0, 0.0, 0.0])]
    """
    smallest, largest = _checked_sizes(sizes)
    checked_count("rows_at_once", rows_at_once, 1)
    found: dict[int, list[Tensor]] = {size: [] for size in sizes}
    for block in torch.split(images, max(rows_at_once // smallest, 1)):
        groups = torch.stack(
            [importance_bound(draw(block, smallest, generator)) for _ in range(largest // smallest)]
        )
        for size in sizes:
            # Groups of equal size: the mean weight is the mean of their means.
            merged = groups.view(-1, size // smallest, len(block))
            means = [importance_bound(group) for group in merged]
            found[size].append(torch.stack(means).mean(0))
    return {size: torch.cat(parts) for size, parts in found.items()}


def _checked_sizes(sizes: Sequence[int]) -> tuple[int, int]:
    """The smallest and the largest K."""
    if not sizes:
        raise ConfigError("there is no number of samples: give at least one")
    smallest, largest = (
        choose(checked_count("sizes", size, 1) for size in sizes) for choose in (min, max)
    )
    if any(size % smallest or largest % size for size in sizes):
        raise ConfigError(
            f"the numbers of samples are {', '.join(map(str, sizes))}: each must be a multiple of "
            f"{smallest} and a divisor of {largest}"
        )
    return smallest, largest
