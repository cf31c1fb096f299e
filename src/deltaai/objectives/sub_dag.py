"""Partial inference: the local objective on sub-DAGs ("Amortizing over multiple DAG orders").

The residual at u needs u and its neighbours in the chordal graph. Orient only these, at random and
without immoralities: the result is the top of an orientation of the whole graph, so

    Σ_{k: u in S_k} log φ_k(x)/φ_k(x')  -  Σ_{v in {u} ∪ Ch(u)} log q(x_v | x_Pa)/q(x'_v | x'_Pa)

is the residual of ``delta-objective``, with parents in the sub-DAG, and samples of the sub-DAG are
samples of q. Nothing else is ever instantiated: values belong to *cells*, a cell being one variable
of one sub-DAG, and a local update costs the same whatever the size of the model.

A :class:`~deltaai.objectives.sub_dag_plan.SubDagPlan` arranges the cells; it serves many updates.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import Context, Inputs, Proposal
from deltaai.models import FactorGraph
from deltaai.objectives.sub_dag_plan import CellGroup, SubDagPlan
from deltaai.sampling import Policy


@dataclass(frozen=True, eq=False)
class SubDagBatch:
    """Samples of sub-DAGs with a change of each centre; columns before the change, then after.

    Parameters
    ----------
    states, features : values of all cells, and the same encoded with a cell of zeros at the end.
    log_ratio : log p(x) - log p(x').
    own, children : what q knows before training of each part; ``None`` for nothing.
    """

    states: Int[Tensor, "cell column"]
    features: Float[Tensor, "cell_plus_one feature column"]
    log_ratio: Float[Tensor, "u sample"]
    own: tuple[Tensor | None, ...]
    children: tuple[Tensor | None, ...]


def sample_sub_dags(
    proposal: Proposal,
    plan: SubDagPlan,
    num_samples: int,
    *,
    policy: Policy,
    generator: torch.Generator | None = None,
    context: Context | None = None,
) -> Int[Tensor, "cell sample"]:
    """Draw samples of every sub-DAG, and of nothing else.

    Parameters
    ----------
    context : what is given with each sample, those of the first sub-DAG first.
    """
    states = torch.zeros(len(plan.variables), num_samples, dtype=torch.long, device=proposal.device)
    features, model = _no_features(proposal, states), proposal.model
    choose = policy.prepare((len(plan.centres), num_samples), generator, proposal.device)
    with torch.no_grad():
        for step in plan.steps:
            for part in step:
                head = proposal.layout.blocks[part.block].head
                logits = _correction(proposal, part, features, len(plan.centres), context)
                inside = _knowledge(proposal, model, part, states, features)
                logits = logits if inside is None else logits + inside
                states[part.cells] = choose(head, logits, part.sub_dags)
                features[part.cells, : head.num_features] = head.encode(
                    states[part.cells], features.dtype
                )
    return states


def prepare_sub_dags(
    proposal: Proposal,
    plan: SubDagPlan,
    states: Int[Tensor, "cell sample"],
    alternatives: Int[Tensor, "u sample"],
    log_ratio: Float[Tensor, "u sample"] | None = None,
) -> SubDagBatch:
    """Compute what the states and the centres' new values fix, whatever the networks.

    Parameters
    ----------
    log_ratio : log p(x) - log p(x'), where p is not made of factors.
    """
    changed = states.index_copy(0, plan.centres, alternatives)
    both, num_samples = torch.cat((states, changed), dim=1), states.shape[1]
    if log_ratio is None:
        log_ratio = torch.zeros(alternatives.shape, dtype=proposal.dtype, device=proposal.device)
    model, features = proposal.model, _encode(proposal, plan, both)
    with torch.no_grad():
        for term in plan.ratios:
            group, values = model.groups[term.group], both[term.cells]
            factors = term.factors.repeat_interleave(values.shape[2])
            flat = group.log_values_at(factors, values.flatten(1))
            before, after = flat.view(-1, 2, num_samples).unbind(1)
            log_ratio.index_add_(0, term.items, before - after)
        first = features[..., :num_samples]
        own = tuple(_knowledge(proposal, model, part, states, first) for part in plan.own)
        children = tuple(
            _knowledge(proposal, model, part, both, features) for part in plan.children
        )
    return SubDagBatch(both, features, log_ratio, own, children)


def propose_centres(
    proposal: Proposal,
    plan: SubDagPlan,
    states: Int[Tensor, "cell sample"],
    generator: torch.Generator | None,
) -> Int[Tensor, "u sample"]:
    """Another value for the centre of every sub-DAG."""
    others = states[plan.centres].clone()
    for part in plan.own:
        head = proposal.layout.blocks[part.block].head
        others[part.sub_dags] = head.propose(states[part.cells], generator)
    return others


def sub_dag_residuals(
    proposal: Proposal,
    plan: SubDagPlan,
    batch: SubDagBatch,
    context: Context | None = None,
) -> Float[Tensor, "u sample"]:
    """Residual of the change of each sub-DAG's centre, in every sample.

    Parameters
    ----------
    context : what is given with each sample, those of the first sub-DAG first.
    """
    residual, num_samples = batch.log_ratio, batch.log_ratio.shape[1]
    for part, inside in zip(plan.own, batch.own, strict=True):
        logits = _correction(
            proposal, part, batch.features[..., :num_samples], len(plan.centres), context
        )
        logits = logits if inside is None else logits + inside
        before, after = batch.states[part.cells].chunk(2, dim=1)
        ratio = proposal.layout.blocks[part.block].head.log_ratio(logits, before, after)
        residual = residual.index_add(0, part.sub_dags, -ratio)
    for part, inside in zip(plan.children, batch.children, strict=True):
        logits = _correction(proposal, part, batch.features, len(plan.centres), context)
        logits = logits if inside is None else logits + inside
        head = proposal.layout.blocks[part.block].head
        before, after = head.log_density(logits, batch.states[part.cells]).chunk(2, dim=1)
        residual = residual.index_add(0, part.sub_dags, after - before)
    return residual


def _correction(
    proposal: Proposal,
    part: CellGroup,
    features: Float[Tensor, "cell_plus_one feature column"],
    num_sub_dags: int,
    context: Context | None,
) -> Float[Tensor, "pair logit column"]:
    inputs = _inputs(proposal, part, features)
    known, seen = part.known.to(features.dtype), None
    if context is not None:
        seen = context.of_pairs(part.block, part.members, part.sub_dags, num_sub_dags)
        seen = seen.repeat(1, 1, inputs.shape[3] // seen.shape[2])  # those after a change follow
    return proposal.conditionals.logits_at(part.block, part.members, inputs, known, seen)


def _knowledge(
    proposal: Proposal,
    model: FactorGraph,
    part: CellGroup,
    states: Int[Tensor, "cell column"],
    features: Float[Tensor, "cell_plus_one feature column"],
) -> Float[Tensor, "pair logit column"] | None:
    # The cell of zeros, where inputs are that are not there, has no value: any will do.
    cells = part.input_cells.clamp(max=len(states) - 1)
    inputs = _inputs(proposal, part, features)
    known = part.known.to(features.dtype)
    handed = Inputs(part.block, part.members, inputs, states, cells, known)
    return proposal.knowledge.logits_at(model, part.chosen, handed)


def _inputs(
    proposal: Proposal, part: CellGroup, features: Float[Tensor, "cell_plus_one feature column"]
) -> Float[Tensor, "pair input own_feature column"]:
    num_features = proposal.layout.blocks[part.block].num_features
    return features[:, :num_features][part.input_cells]


def _encode(
    proposal: Proposal, plan: SubDagPlan, states: Int[Tensor, "cell column"]
) -> Float[Tensor, "cell_plus_one feature column"]:
    """Encode the values of all cells; a cell of zeros follows."""
    features = _no_features(proposal, states)
    kinds = proposal.layout.block_of[plan.variables, 0]
    for number in torch.unique(kinds).tolist():
        cells, head = (kinds == number).nonzero().squeeze(1), proposal.layout.blocks[number].head
        features[cells, : head.num_features] = head.encode(states[cells], features.dtype)
    return features


def _no_features(
    proposal: Proposal, states: Int[Tensor, "cell column"]
) -> Float[Tensor, "cell_plus_one feature column"]:
    """Zeros, with room for the features of any variable in every cell."""
    most = max(proposal.layout.encoding.num_features, default=1)
    shape = (states.shape[0] + 1, most, states.shape[1])
    return torch.zeros(shape, dtype=proposal.dtype, device=states.device)
