"""Untrained q for a model: conditionals laid out for its orders, and perhaps for evidence."""

from __future__ import annotations

from typing import Literal

import torch

from deltaai.conditionals import Layout, Proposal, build_conditionals
from deltaai.conditionals.evidence import MOST_CONTEXT, evidence_layout, fixed_evidence_layout
from deltaai.models import FactorGraph
from deltaai.models.smoothing import smoothed
from deltaai.randomness import generator_of
from deltaai.sampling.orders import Orders

EvidenceKind = Literal["any"] | tuple[int, ...] | None


def build_proposal(
    model: FactorGraph,
    orders: Orders,
    hidden: int,
    *,
    family: str = "local",
    is_informed: bool = True,
    evidence: EvidenceKind = None,
    smoothing: float | int | None = None,
    seed: int = 0,
) -> Proposal:
    """Untrained conditionals for a model and its orders, in single precision.

    Parameters
    ----------
    model : the target.
    orders : one order or many.
    hidden, family : of the conditionals.
    is_informed : whether log-factors among the known are part of the logits.
    evidence : ``"any"``, or the variables that are observed every time.
    smoothing : what zeros of the tables are floored at, as a share of the largest entry.
    seed : of the initial weights.
    """
    if smoothing is not None:
        model = smoothed(model, smoothing)
    layout = layout_of(model, orders, evidence)
    generator = generator_of(seed)
    takes_masks = orders.kind == "many" or layout.has_context
    conditionals = build_conditionals(
        family, layout, hidden, takes_masks=takes_masks, generator=generator
    )
    return Proposal(model.to(dtype=torch.float32), conditionals, is_informed=is_informed)


def layout_of(model: FactorGraph, orders: Orders, evidence: EvidenceKind = None) -> Layout:
    """What each conditional may be given: other variables of its orders, and perhaps evidence."""
    num_states = model.num_states.tolist()
    if evidence == "any":
        return evidence_layout(num_states, orders.fixed, MOST_CONTEXT)
    if evidence is not None:
        return fixed_evidence_layout(num_states, orders.fixed, model.markov_graph(), evidence)
    return Layout.build(num_states, orders.inputs())
