"""Partial inference: the local objective on sub-DAGs ("Amortizing over multiple DAG orders").

The residual at u needs u and its neighbours in the chordal graph. Orient only these, at random and
without immoralities: the result is the top of an orientation of the whole graph, so

    Σ_{k: u in S_k} log φ_k(x)/φ_k(x')  -  Σ_{v in {u} ∪ Ch(u)} log q(x_v | x_Pa)/q(x'_v | x'_Pa)

is the residual of ``delta-objective``, with parents in the sub-DAG, and samples of the sub-DAG are
samples of q. Nothing else is ever instantiated: states belong to *cells*, a cell being one variable
of one sub-DAG, and a local update costs the same whatever the size of the model.

A :class:`~deltaai.objectives.sub_dag_plan.SubDagPlan` arranges the cells; it serves many updates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import Proposal, log_softmax_at, relative_slices
from deltaai.objectives.sub_dag_plan import CellGroup, SubDagPlan
from deltaai.sampling import Policy


@dataclass(frozen=True, eq=False)
class SubDagBatch:
    """Samples of sub-DAGs with a change of each centre; columns before the change, then after.

    Parameters
    ----------
    states, features : states of all cells, and the same encoded with a cell of zeros at the end.
    log_ratio : log p(x) - log p(x').
    own, children : log-factors inside the known, as logits of each part.
    """

    states: Int[Tensor, "cell column"]
    features: Float[Tensor, "cell_plus_one feature column"]
    log_ratio: Float[Tensor, "u sample"]
    own: tuple[Tensor, ...]
    children: tuple[Tensor, ...]


def sample_sub_dags(
    proposal: Proposal,
    plan: SubDagPlan,
    num_samples: int,
    *,
    policy: Policy,
    beta: float | int = 1.0,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "cell sample"]:
    """Draw samples of every sub-DAG, and of nothing else."""
    states = torch.zeros(len(plan.variables), num_samples, dtype=torch.long, device="cpu")
    features = _no_features(proposal, states)
    choose = policy.prepare((len(plan.centres), num_samples), generator)
    with torch.no_grad():
        for step in plan.steps:
            for part in step:
                logits = _correction(proposal, part, features)
                logits = logits + _factor_logits(proposal, part, states, beta)
                states[part.cells], _ = choose(logits, part.sub_dags)
                num_states = proposal.layout.blocks[part.block].num_states
                encoded = _encoded(states[part.cells], num_states).to(features.dtype)
                features[part.cells, : encoded.shape[1]] = encoded
    return states


def prepare_sub_dags(
    proposal: Proposal,
    plan: SubDagPlan,
    states: Int[Tensor, "cell sample"],
    alternatives: Int[Tensor, "u sample"],
    beta: float | int = 1.0,
) -> SubDagBatch:
    """Compute what the states and the centres' new values fix, whatever the networks."""
    changed = states.index_copy(0, plan.centres, alternatives)
    both, num_samples = torch.cat((states, changed), dim=1), states.shape[1]
    log_ratio = torch.zeros(alternatives.shape, dtype=proposal.model.dtype, device="cpu")
    with torch.no_grad():
        for term in plan.ratios:
            group, values = proposal.model.groups[term.group], both[term.cells]
            factors = term.factors.repeat_interleave(values.shape[2])
            flat = group.log_values_at(factors, values.flatten(1))
            before, after = flat.view(-1, 2, num_samples).unbind(1)
            log_ratio.index_add_(0, term.items, before - after, alpha=beta)
        own = tuple(_factor_logits(proposal, part, states, beta) for part in plan.own)
        children = tuple(_factor_logits(proposal, part, both, beta) for part in plan.children)
    return SubDagBatch(both, _encode(proposal, plan, both), log_ratio, own, children)


def sub_dag_residuals(
    proposal: Proposal, plan: SubDagPlan, batch: SubDagBatch
) -> Float[Tensor, "u sample"]:
    """Residual of the change of each sub-DAG's centre, in every sample."""
    residual, num_samples = batch.log_ratio, batch.log_ratio.shape[1]
    for part, factor_logits in zip(plan.own, batch.own, strict=True):
        logits = _correction(proposal, part, batch.features[:, :, :num_samples]) + factor_logits
        here, there = batch.states[part.cells].chunk(2, dim=1)
        ratio = log_softmax_at(logits, here) - log_softmax_at(logits, there)
        residual = residual.index_add(0, part.sub_dags, -ratio)
    for part, factor_logits in zip(plan.children, batch.children, strict=True):
        logits = _correction(proposal, part, batch.features) + factor_logits
        before, after = log_softmax_at(logits, batch.states[part.cells]).chunk(2, dim=1)
        residual = residual.index_add(0, part.sub_dags, after - before)
    return residual


def _correction(
    proposal: Proposal, part: CellGroup, features: Float[Tensor, "cell_plus_one feature column"]
) -> Float[Tensor, "pair logit column"]:
    num_features = proposal.layout.blocks[part.block].num_features
    inputs = features[:, :num_features][part.input_cells]
    known = part.known.to(features.dtype)
    return proposal.conditionals.logits_at(part.block, part.members, inputs, known)


def _factor_logits(
    proposal: Proposal, part: CellGroup, states: Int[Tensor, "cell column"], beta: float | int
) -> Float[Tensor, "pair logit column"]:
    num_logits = proposal.layout.blocks[part.block].num_logits
    shape = (len(part.cells), num_logits, states.shape[1])
    logits = torch.zeros(shape, dtype=proposal.model.dtype, device="cpu")
    for term in part.terms:
        group = proposal.model.groups[term.group]
        slices = relative_slices(group, term.factors, states[term.cells], term.place)
        logits.index_add_(0, term.items, slices, alpha=beta)
    return logits


def _encode(
    proposal: Proposal, plan: SubDagPlan, states: Int[Tensor, "cell column"]
) -> Float[Tensor, "cell_plus_one feature column"]:
    """Encode the states of all cells; a cell of zeros follows."""
    features = _no_features(proposal, states)
    num_states = proposal.model.num_states[plan.variables]
    for count in torch.unique(num_states).tolist():
        cells = (num_states == count).nonzero().squeeze(1)
        encoded = _encoded(states[cells], count).to(features.dtype)
        features[cells, : encoded.shape[1]] = encoded
    return features


def _no_features(
    proposal: Proposal, states: Int[Tensor, "cell column"]
) -> Float[Tensor, "cell_plus_one feature column"]:
    """Zeros, with room for the features of any variable in every cell."""
    most = max((block.num_states for block in proposal.layout.blocks), default=1)
    shape = (states.shape[0] + 1, most if most > 2 else 1, states.shape[1])
    return torch.zeros(shape, dtype=proposal.model.dtype, device="cpu")


def _encoded(
    states: Int[Tensor, "cell column"], num_states: int
) -> Int[Tensor, "cell feature column"]:
    """Features as in :class:`~deltaai.conditionals.encoding.Encoding`."""
    if num_states <= 2:
        return (2 * states - 1)[:, None]
    return (states[:, None] == torch.arange(num_states, device="cpu")[:, None]).long()
