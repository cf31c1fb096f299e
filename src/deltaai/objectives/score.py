"""Scores in place of ratios (equation key ``score-form``).

For real variables the local residual of a change by h, divided by h, tends to

    ∂ log p(x)/∂x_u  -  Σ_{v in {u} ∪ Ch(u)} ∂ log q(x_v | x_Pa)/∂x_u        as h → 0,

which depends on the Markov blanket of u alone, as the ratios do. The loss is its square, the mean
over variables: Fisher's divergence of q from p at the states where it is taken, over their number.
There is no other value to compare with. States, which have no derivative, are not for this.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals import Proposal
from deltaai.errors import ConfigError, Setting
from deltaai.models import Columns
from deltaai.objectives.base import Objective
from deltaai.sampling import Paths


@dataclass(frozen=True, eq=False)
class ScoreBatch:
    """States, and the slopes of log p there.

    Parameters
    ----------
    paths : the states.
    slopes : derivative of log p by each variable.
    """

    paths: Paths
    slopes: Float[Tensor, "var batch"]


def score_residuals(proposal: Proposal, batch: ScoreBatch) -> Float[Tensor, "var batch"]:
    """Difference of the derivatives of log p and log q; zero for observed variables."""
    paths = batch.paths
    with torch.enable_grad():
        columns = paths.columns.detach().clone().requires_grad_(True)
        context = proposal.context_of(paths.context)
        log_q = proposal.log_conditionals(columns, paths.known, context)
        if paths.observed is not None:  # an observed variable has no conditional
            log_q = log_q * ~paths.observed
        (slopes,) = torch.autograd.grad(log_q.sum(), columns, create_graph=True)
    residuals = batch.slopes - slopes
    return residuals if paths.observed is None else residuals * ~paths.observed


def slopes_of(proposal: Proposal, columns: Columns) -> Float[Tensor, "var batch"]:
    """Derivative of log p by each variable."""
    with torch.enable_grad():
        states = columns.detach().T.clone().requires_grad_(True)
        total = proposal.model.log_score(states).sum()
        if not total.requires_grad:  # p is the same everywhere
            return torch.zeros_like(columns)
        (slopes,) = torch.autograd.grad(total, states)
    return slopes.T.contiguous()


class ScoreObjective(Objective[ScoreBatch]):
    """The mean squared difference of scores over all variables of full samples."""

    def __init__(self, proposal: Proposal) -> None:
        super().__init__()
        if not all(head.is_real for head in proposal.layout.heads):
            raise ConfigError(
                "scores are derivatives, and variables with states have none: choose ",
                Setting("objective", "delta"),
            )

    def prepare(
        self, proposal: Proposal, paths: Paths, generator: torch.Generator | None
    ) -> ScoreBatch:
        """Compute the slopes of log p, which do not depend on the networks."""
        return ScoreBatch(paths, slopes_of(proposal, paths.columns))

    def losses(self, proposal: Proposal, batch: ScoreBatch) -> Float[Tensor, "batch"]:
        """Squared residuals of each sample, over the number of variables."""
        squares = score_residuals(proposal, batch).square()
        if batch.paths.observed is None:
            return squares.mean(0)
        num_free = (~batch.paths.observed).sum() / squares.shape[1]
        return squares.sum(0) / num_free.clamp(min=1)
