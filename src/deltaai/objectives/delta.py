"""The local objective (equation keys ``delta-constraint`` and ``delta-objective``).

For a state x, a variable u and another value x'_u, the residual is

    Σ_{k: u in S_k} log φ_k(x)/φ_k(x')  -  Σ_{v in {u} ∪ Ch(u)} log q(x_v | x_Pa)/q(x'_v | x'_Pa)

and the loss its square. Here it is computed for one order or many, with or without evidence, for
all u of a full sample at once: base conditionals are shared by every u, u's own ratio needs no new
evaluation (its normaliser cancels), and each (child, parent) pair needs one flipped conditional.
All that depends on states and factors only is prepared once and serves as many updates as are made
on the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import Known, Layout, Observed, Proposal, log_ratios_of
from deltaai.objectives.base import Objective
from deltaai.sampling import Paths


@dataclass(frozen=True, eq=False)
class DeltaBatch:
    """States with one alternative value for every variable, and all that follows from them.

    Parameters
    ----------
    columns : the states.
    alternatives : the value each variable is changed to.
    known : which inputs each variable may see.
    features, flipped : both, encoded.
    log_ratio : log p(x) - log p(x') for each changed variable.
    known_logits, known_flips : what q knows before training, at the states and with each input
        changed.
    observed : which variables are evidence in each column, and so neither drawn nor changed.
    context : what else is given with each column.
    """

    columns: Int[Tensor, "var batch"]
    alternatives: Int[Tensor, "var batch"]
    known: Known
    features: Float[Tensor, "feature_row batch"]
    flipped: Float[Tensor, "feature_row batch"]
    log_ratio: Float[Tensor, "var batch"]
    known_logits: Float[Tensor, "row batch"]
    known_flips: Float[Tensor, "flip batch"]
    observed: Observed | None = None
    context: Float[Tensor, "batch *feature"] | None = None

    def num_free(self, layout: Layout) -> Float[Tensor, ""]:
        """Variables of a column that can change, on average."""
        is_free = layout.is_free[:, None]
        if self.observed is not None:
            is_free = is_free & ~self.observed
        return is_free.sum() / is_free.shape[1]


def every_alternative(
    columns: Int[Tensor, "var batch"], num_states: Int[Tensor, "var"]
) -> tuple[Int[Tensor, "var copies"], Int[Tensor, "var copies"]]:
    """Repeat the states so that each variable takes each of its other values in one copy.

    Variables with fewer states than the most keep theirs in the copies left over, where their
    residual is zero.
    """
    copies = max(int(num_states.max()) - 1, 1)
    steps = torch.arange(1, copies + 1, device=columns.device).repeat_interleave(columns.shape[1])
    repeated, sizes = columns.repeat(1, copies), num_states[:, None]
    return repeated, torch.where(steps < sizes, (repeated + steps) % sizes, repeated)


def prepare_delta(
    proposal: Proposal,
    columns: Int[Tensor, "var batch"],
    alternatives: Int[Tensor, "var batch"],
    known: Known = None,
    observed: Observed | None = None,
    context: Float[Tensor, "batch *feature"] | None = None,
) -> DeltaBatch:
    """Compute what a batch of states fixes: encodings, log-ratios, and what q knows."""
    proposal.conditionals.expect_flips(columns.shape[1])
    with torch.no_grad():
        log_ratio = -proposal.log_changes(columns, alternatives, context)
        known_logits, known_flips = proposal.knowledge.logits_and_flips(
            proposal.model, columns, alternatives, known
        )
    return DeltaBatch(
        columns,
        alternatives,
        known,
        proposal.features(columns),
        proposal.features(alternatives),
        log_ratio,
        known_logits,
        known_flips,
        observed,
        context,
    )


def delta_residuals(proposal: Proposal, batch: DeltaBatch) -> Float[Tensor, "var batch"]:
    """Residual of every variable's change, in every sample; zero for observed ones."""
    logits, flips = proposal.conditionals.logits_and_flips(
        batch.features, batch.flipped, batch.known, proposal.context_of(batch.context)
    )
    log_ratio = log_ratios_of(
        proposal.layout,
        logits + batch.known_logits,
        flips + batch.known_flips,
        batch.columns,
        batch.alternatives,
        batch.known,
        batch.observed,
    )
    residuals = batch.log_ratio - log_ratio
    return residuals if batch.observed is None else residuals * ~batch.observed


class DeltaObjective(Objective[DeltaBatch]):
    """The mean squared residual over all variables of full samples.

    Parameters
    ----------
    is_every_alternative : compare with every other value of a variable, not with one at random.
    """

    def __init__(self, *, is_every_alternative: bool = False) -> None:
        super().__init__()
        self.is_every_alternative = is_every_alternative

    def prepare(
        self, proposal: Proposal, paths: Paths, generator: torch.Generator | None
    ) -> DeltaBatch:
        """Draw alternatives and compute what they and the states fix."""
        if self.is_every_alternative:
            columns, alternatives = every_alternative(paths.columns, proposal.target.num_states)
            copies = columns.shape[1] // max(paths.columns.shape[1], 1)
            return _prepare(proposal, _copied(paths, columns, copies), alternatives)
        alternatives = proposal.layout.encoding.propose(paths.columns, generator)
        return _prepare(proposal, paths, alternatives)

    def losses(self, proposal: Proposal, batch: DeltaBatch) -> Float[Tensor, "batch"]:
        """Squared residuals of each sample, over the number of variables that can change."""
        squares = delta_residuals(proposal, batch).square().sum(0)
        return squares / batch.num_free(proposal.layout).clamp(min=1)

    def drawn(self, batch: DeltaBatch) -> dict[str, Tensor]:
        """The alternatives, if they were drawn at random."""
        return {} if self.is_every_alternative else {"alternatives": batch.alternatives}

    def prepare_again(
        self,
        proposal: Proposal,
        paths: Paths,
        drawn: Mapping[str, Tensor],
        generator: torch.Generator | None,
    ) -> DeltaBatch:
        """Prepare with the alternatives of a checkpoint."""
        if self.is_every_alternative:
            return self.prepare(proposal, paths, generator)
        return _prepare(proposal, paths, drawn["alternatives"])


def _prepare(
    proposal: Proposal, paths: Paths, alternatives: Int[Tensor, "var batch"]
) -> DeltaBatch:
    return prepare_delta(
        proposal, paths.columns, alternatives, paths.known, paths.observed, paths.context
    )


def _copied(paths: Paths, columns: Int[Tensor, "var copies"], copies: int) -> Paths:
    """The same paths several times over."""
    known, observed, context = paths.known, paths.observed, paths.context
    return replace(
        paths,
        columns=columns,
        known=None if known is None else known.repeat(1, copies),
        observed=None if observed is None else observed.repeat(1, copies),
        context=None if context is None else context.repeat(copies, *[1] * (context.ndim - 1)),
    )
