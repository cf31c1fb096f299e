"""Lower a mini-bucket bound along its slopes.

The bound of :mod:`deltaai.messages.mini_buckets.passes` is convex in the shifts and, for positive
weights, in both together, so a quasi-Newton method (L-BFGS) goes to the best there is for a plan.
Its variables are changes of the matched shifts, taken less their mean over the mini-buckets so that
they sum to zero, and the logarithms of the weights, which a softmax makes sum to one: every point
it visits is a bound. There are few of them beside the tables, so its memory costs little.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import scipy  # its parts come when they are needed
import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.errors import TimeLimitError
from deltaai.messages.mini_buckets.passes import MiniBucketPasses

# Part of the weights that is spread evenly, since dividing by tiny ones costs digits.
_EVEN_WEIGHT = 1e-4
_NUM_CORRECTIONS = 6  # steps that the method remembers
_SMALLEST_GAIN = 1e-5  # of a step, as part of all gain so far (or of one nat), to go on


def tighten(
    passes: MiniBucketPasses,
    num_iterations: int,
    report: Callable[[int], None],
    *,
    leaves_best: bool = False,
) -> float:
    """Move shifts and weights along the slopes; return the lowest bound seen.

    Parameters
    ----------
    passes : tables of a plan that splits something; its matched bound must be finite.
    num_iterations : times the bound and its slopes are computed, about.
    report : told how many were.
    leaves_best : whether the tables are to be left as they were at the lowest bound, which takes
        one more pass; otherwise they are as at the last one.
    """
    matched = passes.up(is_matching=True)
    base = {variable: shifts.clone() for variable, shifts in passes.shifts.items()}
    seen = [matched]
    length = sum(shifts.numel() + len(shifts) for shifts in passes.shifts.values())
    best = np.zeros(length)

    def bound(x: Float[np.ndarray, "number"]) -> tuple[float, Float[np.ndarray, "number"]]:
        nonlocal best
        shares = _apply(passes, base, x)
        upper = passes.up()
        if upper < min(seen):
            best = x.copy()
        seen.append(upper)
        report(len(seen) - 1)
        # Counted from the matched bound, so that the stopping rule does not depend on log Z.
        return upper - matched, _slopes(passes, shares)

    options = {
        "maxfun": num_iterations,
        "maxcor": _NUM_CORRECTIONS,
        "ftol": _SMALLEST_GAIN,
        "gtol": 0.0,
    }
    with suppress(TimeLimitError):  # of the report: every number on the way is a bound
        scipy.optimize.minimize(bound, best, jac=True, method="L-BFGS-B", options=options)
    if leaves_best:
        _apply(passes, base, best)
        passes.up()
    return min(seen)


def _apply(
    passes: MiniBucketPasses, base: dict[int, Tensor], x: Float[np.ndarray, "number"]
) -> dict[int, Tensor]:
    """Set shifts and weights; return the softmax of each variable's log-weights."""
    numbers, shares, at = torch.from_numpy(x), {}, 0
    for variable, shifts in passes.shifts.items():
        middle = at + shifts.numel()
        end = middle + len(shifts)
        rows = numbers[at:middle].view(shifts.shape).to(shifts.device)
        torch.add(base[variable], rows - rows.mean(0), out=shifts)
        shares[variable] = torch.softmax(numbers[middle:end], 0)
        at = end
        even = _EVEN_WEIGHT / len(shifts)
        for number, share in zip(
            passes.plan.buckets[variable], shares[variable].tolist(), strict=True
        ):
            passes.weights[number] = (1 - _EVEN_WEIGHT) * share + even
    return shares


def _slopes(passes: MiniBucketPasses, shares: dict[int, Tensor]) -> Float[np.ndarray, "number"]:
    """Slopes by the numbers that ``_apply`` takes: the chain rule through mean and softmax."""
    found, parts = passes.down(), []
    for variable, share in shares.items():
        by_shift, by_weight = found[variable].shifts, found[variable].weights.cpu()
        parts.append((by_shift - by_shift.mean(0)).flatten().cpu())
        by_logit = share * (by_weight - (share * by_weight).sum())
        parts.append((1 - _EVEN_WEIGHT) * by_logit)
    return torch.cat(parts).numpy()
