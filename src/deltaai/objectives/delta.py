"""The local objective (equation keys ``delta-constraint`` and ``delta-objective``).

For a state x, a variable u and another value x'_u, the residual is

    Σ_{k: u in S_k} log φ_k(x)/φ_k(x')  -  Σ_{v in {u} ∪ Ch(u)} log q(x_v | x_Pa)/q(x'_v | x'_Pa)

and the loss its square. Here it is computed for one order or many, for all u of a full sample at
once: base conditionals are shared by every u, u's own ratio needs no new evaluation (its
normaliser cancels), and each (child, parent) pair needs one flipped conditional. All that depends
on states and factors only is prepared once and serves as many updates as are made on the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from deltaai.conditionals import Known, Proposal, log_softmax_at, logits_of_block, with_first
from deltaai.objectives.base import Objective, Paths


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
    factor_logits : log-factors inside the known, as logits.
    factor_flips : the same for every flip.
    observed : which variables are evidence in each column, and so neither drawn nor changed.
    """

    columns: Int[Tensor, "var batch"]
    alternatives: Int[Tensor, "var batch"]
    known: Known
    features: Float[Tensor, "feature_row batch"]
    flipped: Float[Tensor, "feature_row batch"]
    log_ratio: Float[Tensor, "var batch"]
    factor_logits: Float[Tensor, "row batch"]
    factor_flips: Float[Tensor, "flip batch"]
    observed: Bool[Tensor, "var batch"] | None = None


def draw_alternatives(
    columns: Int[Tensor, "var batch"],
    num_states: Int[Tensor, "var"],
    generator: torch.Generator | None,
) -> Int[Tensor, "var batch"]:
    """Another value for each variable, uniform over those it does not have.

    A variable with one state keeps it; its residual is zero.
    """
    others = (num_states - 1).clamp(min=1)[:, None]
    if not len(num_states) or int(num_states.max()) <= 2:
        step = torch.ones_like(columns)
    else:
        chance = torch.rand(
            columns.shape, generator=generator, device=columns.device, dtype=torch.float32
        )
        step = (chance * others).long().clamp(max=others - 1) + 1
    return (columns + step) % num_states[:, None]


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
    beta: float | int = 1.0,
    observed: Bool[Tensor, "var batch"] | None = None,
) -> DeltaBatch:
    """Compute what a batch of states fixes: encodings, log-ratios, and log-factors as logits."""
    model, layout = proposal.model, proposal.layout
    with torch.no_grad():
        scores = model.log_ratios(columns.T).T  # log p(x') - log p(x), a row a (variable, value)
        chosen = (model.state_offsets[:-1, None] + alternatives).long()
        log_ratio = -beta * scores.gather(0, chosen)
        factor_logits = proposal.factor_logits(columns, known, beta)
        base = [
            logits_of_block(block, factor_logits)[:, None]
            .expand(-1, block.num_flipped, -1, -1)
            .flatten(0, 2)
            for block in layout.blocks
        ]
        factor_flips = torch.cat(base)
        if proposal.is_informed:
            changes = proposal.terms.flipped_changes(model.groups, columns, alternatives, known)
            factor_flips = factor_flips + beta * changes
    encode = layout.encoding.encode
    return DeltaBatch(
        columns,
        alternatives,
        known,
        encode(columns, model.dtype),
        encode(alternatives, model.dtype),
        log_ratio,
        factor_logits,
        factor_flips,
        observed,
    )


def delta_residuals(proposal: Proposal, batch: DeltaBatch) -> Float[Tensor, "var batch"]:
    """Residual of every variable's change, in every sample; zero for observed ones."""
    layout, conditionals = proposal.layout, proposal.conditionals
    num_columns = batch.columns.shape[1]
    logits, flips = conditionals.logits_and_flips(batch.features, batch.flipped, batch.known)
    logits, flips = logits + batch.factor_logits, flips + batch.factor_flips
    own = logits.new_zeros(layout.num_variables, num_columns)
    children = logits.new_zeros(layout.num_variables + 1, num_columns)  # the last takes padding
    for block in layout.blocks:
        rows = logits_of_block(block, logits)
        states = batch.columns.index_select(0, block.variables)
        others = batch.alternatives.index_select(0, block.variables)
        own = own.index_copy(0, block.variables, _difference(rows, states, others))
        if block.num_flipped == 0:
            continue
        base = log_softmax_at(rows, states)
        shape = (block.size, block.num_flipped, block.num_logits, num_columns)
        flipped_states = states[:, None].expand(-1, block.num_flipped, -1)
        after = log_softmax_at(flips[block.flips].view(shape), flipped_states)
        ratio = base[:, None] - after  # log q(x_v | x_Pa) - log q(x_v | x'_Pa)
        if batch.known is not None:
            known = batch.known[block.slots].view(block.size, block.num_inputs, num_columns)
            ratio = ratio * known[:, : block.num_flipped]
        if batch.observed is not None:  # an observed variable has no conditional
            ratio = ratio * ~batch.observed[block.variables][:, None]
        inputs = block.inputs[:, : block.num_flipped]
        children = children.index_add(0, inputs.reshape(-1), ratio.flatten(0, 1))
    residuals = batch.log_ratio - own - children[:-1]
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
            columns, alternatives = every_alternative(paths.columns, proposal.model.num_states)
            copies = columns.shape[1] // max(paths.columns.shape[1], 1)
            known = None if paths.known is None else paths.known.repeat(1, copies)
            return prepare_delta(proposal, columns, alternatives, known, paths.beta)
        alternatives = draw_alternatives(paths.columns, proposal.model.num_states, generator)
        return prepare_delta(proposal, paths.columns, alternatives, paths.known, paths.beta)

    def losses(self, proposal: Proposal, batch: DeltaBatch) -> Float[Tensor, "batch"]:
        """Mean squared residual of each sample, over the variables that can change."""
        num_free = max(int((proposal.model.num_states > 1).sum()), 1)
        return delta_residuals(proposal, batch).square().sum(0) / num_free

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
        return prepare_delta(
            proposal, paths.columns, drawn["alternatives"], paths.known, paths.beta
        )


def _difference(
    logits: Float[Tensor, "variable logit batch"],
    states: Int[Tensor, "variable batch"],
    others: Int[Tensor, "variable batch"],
) -> Float[Tensor, "variable batch"]:
    """Log q(x_u) - log q(x'_u): the normaliser cancels."""
    if logits.shape[1] == 1:
        return (states - others).to(logits.dtype) * logits.squeeze(1)
    full = with_first(logits)
    here = full.gather(1, states.long()[:, None])
    there = full.gather(1, others.long()[:, None])
    return (here - there).squeeze(1)
