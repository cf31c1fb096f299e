"""Joint marginals of a few variables from weighted samples.

With w̄ the weights divided by their sum and s a joint state of the variables S,

    p(x_S = s | e) ≈ Σ_i w̄_i 1[x_iS = s]

and the error is that of :mod:`deltaai.trust.weighted`: over groups of samples that are
independent, with one more group as heavy as the heaviest for what was not seen. At a state that no
sample hit there is no spread, so the weight of such a group is the error itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from deltaai.importance import normalised_weights
from deltaai.models import Reduction
from deltaai.trust.estimate import Marginals
from deltaai.trust.weighted import WeightedSamples


def sampled_joint(samples: WeightedSamples, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Joint probabilities of some variables and their standard errors, one axis a name.

    Parameters
    ----------
    samples : given the evidence.
    names : the variables, each once.
    """
    model = samples.model
    variables = [model.index(name) for name in names]
    sizes = [model.variables[v].num_states for v in variables]
    is_possible = np.ones(sizes, dtype=bool)  # as far as the evidence says
    codes = torch.zeros(len(samples.states), dtype=torch.long, device="cpu")
    for axis, (variable, size) in enumerate(zip(variables, sizes, strict=True)):
        codes = codes * size + samples.states[:, variable].long()
        if variable in samples.observed:
            shape = [size if axis == other else 1 for other in range(len(sizes))]
            is_possible &= (np.arange(size) == samples.observed[variable]).reshape(shape)
    entries = is_possible.size
    weights = normalised_weights(samples.log_weights)
    groups = torch.arange(len(codes), dtype=torch.long, device="cpu") // samples.group_size
    totals = torch.zeros(samples.num_groups, dtype=torch.float64, device="cpu").index_add(
        0, groups, weights
    )
    # Sums over the samples of a group in one state, only where there are any.
    pairs, place = torch.unique(groups * entries + codes, return_inverse=True)
    sums = torch.zeros(len(pairs), dtype=torch.float64, device="cpu").index_add(0, place, weights)
    state, weight = pairs % entries, totals[pairs // entries]

    def over_groups(values: torch.Tensor) -> torch.Tensor:
        return torch.zeros(entries, dtype=torch.float64, device="cpu").index_add(0, state, values)

    mean = over_groups(sums)
    square, cross = over_groups(sums.square()), over_groups(sums * weight)
    variance = (square - 2 * mean * cross + mean.square() * totals.square().sum()).clamp(min=0)
    second = over_groups(sums.square() / weight.clamp(min=torch.finfo(torch.float64).tiny))
    spread = (second - mean.square()).clamp(min=0)
    spread = torch.where(mean > 0, spread, 1.0)
    variance = variance * samples.num_groups / max(samples.num_groups - 1, 1)
    error = (variance + totals.max().square() * spread).sqrt().reshape(sizes).numpy()
    is_certain = is_possible.sum() == 1
    return mean.reshape(sizes).numpy(), np.where(is_possible & ~is_certain, error, 0.0)


def expanded_joints(
    marginals: Marginals,
    reduction: Reduction,
    joints: Mapping[tuple[str, ...], tuple[str, ...]],
) -> tuple[dict[Any, np.ndarray], dict[Any, np.ndarray]]:
    """Joint marginals of the original model and their errors, from those of a smaller one.

    Parameters
    ----------
    marginals : of the smaller model.
    reduction : how it was made.
    joints : what is wanted, with the variables that the smaller model has of each.
    """
    means: dict[Any, np.ndarray] = {}
    errors: dict[Any, np.ndarray] = {}
    for names, left in joints.items():
        mean = marginals.get(left, np.array(math.nan)) if left else np.ones(())
        error = marginals.stderr.get(left, np.zeros(())) if left else np.zeros(())
        means[names] = reduction.expand_joint(names, mean)
        errors[names] = reduction.expand_joint(names, error)
    return means, errors
