"""Whether probabilities stay within what floating point holds, for rows of evidence.

Two answers, one before any row and one for each row.

*For all rows.* Let the spread of a factor be its largest log-value less its smallest. Changing the
variables of a clique changes the score of any joint state by at most the spreads of the factors
that touch them. So the entries of any message or product in the clique that the evidence allows lie
within that many nats of each other. Where that is little enough, nothing can be lost, whatever the
row; and where it is very little, scales need taking out only now and then.

*For one row.* Elsewhere, as where a factor has zeros or is very peaked, an operation on tables
whose largest entry is one loses at most 1e-305. A loss ε in what comes in becomes at most

    ε_out = (number of terms summed) · (Σ ε_in + 1e-305) / (scale taken out)

relative to what goes out. Followed up and down this bounds the share of each marginal that is lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from deltaai.exact.rows.cliques import Clique
from deltaai.exact.rows.passes import RowPasses
from deltaai.exact.rows.tables import SplitFactor

_LOG_TINY = math.log(1e-305)
# exp(-708) is the smallest number of full precision: products must stay above it. If scales are not
# taken out, those of two messages and of what is outside count too.
SAFE_SPREAD = 650.0
UNSCALED_SPREAD = 300.0
_MOST_DRIFT = 100.0  # of a log-scale


def clique_spreads(
    cliques: Sequence[Clique], factors: Sequence[SplitFactor], num_variables: int
) -> list[float]:
    """Nats that the variables of each clique can change a score by."""
    touching: list[list[int]] = [[] for _ in range(num_variables)]
    spreads = [factor.spread for factor in factors]
    for number, factor in enumerate(factors):
        for variable in factor.scope:
            touching[variable].append(number)
    found = []
    for clique in cliques:
        numbers = {k for v in (*clique.eliminated, *clique.separator) for k in touching[v]}
        found.append(math.fsum(spreads[number] for number in sorted(numbers)))
    return found


def drifting(
    cliques: Sequence[Clique], factors: Sequence[SplitFactor], sizes: Sequence[int]
) -> tuple[list[bool], list[bool]]:
    """Which scales must be taken out of safe messages, up and down, lest they drift too far."""

    def own(clique: Clique) -> float:
        numbers = (*clique.inside, *clique.outgoing, *clique.of_row)
        states = math.prod(sizes[v] for v in {*clique.known, *clique.separator})
        return math.log(states) + sum(factors[number].spread for number in numbers)

    drifts = [0.0] * len(cliques)  # bound on the log-scale, either way, after taking it out
    up, down = [False] * len(cliques), [False] * len(cliques)
    for number, clique in enumerate(cliques):
        drift = own(clique) + sum(drifts[child] for child in clique.children)
        up[number] = drift > _MOST_DRIFT
        drifts[number] = 0.0 if up[number] else drift
    outside = [0.0] * len(cliques)
    for number in reversed(range(len(cliques))):
        clique = cliques[number]
        for child in clique.children:
            others = sum(drifts[other] for other in clique.children if other != child)
            drift = own(clique) + outside[number] + others
            down[child] = drift > _MOST_DRIFT
            outside[child] = 0.0 if down[child] else drift
    return up, down


def log_loss(passes: RowPasses, is_lossy: Sequence[bool]) -> Float64[Tensor, "row"]:
    """Bound on the log of the share that a row's marginals and Z may have lost; NaN if all.

    Every scale must have been taken out.

    Parameters
    ----------
    passes : the messages of a chunk.
    is_lossy : cliques where something may be lost.
    """
    scales, outside_scales = passes.scales.log(), passes.outside_scales.log()
    nothing = torch.full((passes.rows,), -math.inf, dtype=torch.float64, device="cpu")
    own = [torch.full_like(nothing, _LOG_TINY if lossy else -math.inf) for lossy in is_lossy]
    below: list[Tensor] = []
    worst = nothing
    for number, step in enumerate(passes.steps):
        come_in = _log_sum([own[number], *(below[child] for child in step.clique.children)])
        below.append(come_in + math.log(step.num_eliminated) - scales[number])
        if passes.is_root[number]:
            worst = torch.maximum(worst, below[number])
    outside = [nothing] * len(below)
    for number in reversed(range(len(passes.steps))):
        step = passes.steps[number]
        children = step.clique.children
        come_in = _log_sum([own[number], outside[number], *(below[child] for child in children)])
        loss = come_in + math.log(step.num_new * math.prod(step.shape[:-1]))
        if step.clique.eliminated:
            total = passes.marginals_of[number].sum(0) / len(step.clique.eliminated)
            worst = torch.maximum(worst, loss - total.log())
        for child in children:
            outside[child] = loss - outside_scales[child]
    return worst


def _log_sum(parts: Sequence[Tensor]) -> Tensor:
    return torch.logsumexp(torch.stack(tuple(parts)), 0)
