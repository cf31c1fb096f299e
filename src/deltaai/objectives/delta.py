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
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.conditionals import Known, Layout, Observed, Proposal, log_ratios_of
from deltaai.models import Columns
from deltaai.objectives.base import Objective
from deltaai.randomness import uniform
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

    columns: Columns
    alternatives: Columns
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
    columns: Columns, num_states: Int[Tensor, "var"]
) -> tuple[Num[Tensor, "var copies"], Num[Tensor, "var copies"]]:
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
    columns: Columns,
    alternatives: Columns,
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
    step : how far real variables are moved, in standard coordinates and either direction; by
        default their other values are drawn anew from q.
    """

    def __init__(
        self, *, is_every_alternative: bool = False, step: float | int | None = None
    ) -> None:
        super().__init__()
        self.is_every_alternative, self.step = is_every_alternative, step

    def prepare(
        self, proposal: Proposal, paths: Paths, generator: torch.Generator | None
    ) -> DeltaBatch:
        """Draw alternatives and compute what they and the states fix."""
        if self.is_every_alternative and proposal.layout.is_discrete:
            columns, alternatives = every_alternative(paths.columns, proposal.target.num_states)
            copies = columns.shape[1] // max(paths.columns.shape[1], 1)
            return _prepare(proposal, _copied(paths, columns, copies), alternatives)
        alternatives = proposal.propose(paths.columns, generator, paths.known, paths.context)
        if self.step is not None:
            alternatives = stepped(proposal, paths.columns, alternatives, self.step, generator)
        return _prepare(proposal, paths, alternatives)

    def losses(self, proposal: Proposal, batch: DeltaBatch) -> Float[Tensor, "batch"]:
        """Squared residuals of each sample, over the number of variables that can change."""
        squares = delta_residuals(proposal, batch).square().sum(0)
        return squares / batch.num_free(proposal.layout).clamp(min=1)

    def drawn(self, batch: DeltaBatch) -> dict[str, Tensor]:
        """The alternatives, if they were drawn at random."""
        return {} if self._has_every(batch.alternatives) else {"alternatives": batch.alternatives}

    def prepare_again(
        self,
        proposal: Proposal,
        paths: Paths,
        drawn: Mapping[str, Tensor],
        generator: torch.Generator | None,
    ) -> DeltaBatch:
        """Prepare with the alternatives of a checkpoint."""
        if "alternatives" not in drawn:
            return self.prepare(proposal, paths, generator)
        return _prepare(proposal, paths, drawn["alternatives"])

    def _has_every(self, alternatives: Columns) -> bool:
        """Whether they are all that there are, so that nothing was drawn."""
        return self.is_every_alternative and not alternatives.is_floating_point()


def stepped(
    proposal: Proposal,
    columns: Columns,
    others: Columns,
    step: float | int,
    generator: torch.Generator | None,
) -> Columns:
    """States with real variables moved by a step, to where there is room; others as they are."""
    model = proposal.model
    low, high = (bound.to(columns.dtype)[:, None] for bound in model.bounds)
    chance = uniform(columns.shape, generator, dtype=torch.float32, device=columns.device)
    there = columns + torch.where(chance < 0.5, step, -step)
    back = 2 * columns - there
    is_inside = (there >= low) & (there <= high)
    moved = there.where(is_inside, back.clamp(low, high))
    return moved.where(model.is_real[:, None], others)


def _prepare(proposal: Proposal, paths: Paths, alternatives: Columns) -> DeltaBatch:
    return prepare_delta(
        proposal, paths.columns, alternatives, paths.known, paths.observed, paths.context
    )


def _copied(paths: Paths, columns: Num[Tensor, "var copies"], copies: int) -> Paths:
    """The same paths several times over."""
    known, observed, context = paths.known, paths.observed, paths.context
    return replace(
        paths,
        columns=columns,
        known=None if known is None else known.repeat(1, copies),
        observed=None if observed is None else observed.repeat(1, copies),
        context=None if context is None else context.repeat(copies, *[1] * (context.ndim - 1)),
    )
