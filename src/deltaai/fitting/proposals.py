"""Untrained q for a model: conditionals laid out for its orders, and perhaps for evidence."""

from __future__ import annotations

from typing import Literal

import torch

from deltaai.conditionals import (
    MOST_CONTEXT,
    Layout,
    Proposal,
    build_conditionals,
    evidence_layout,
    fixed_evidence_layout,
)
from deltaai.models import FactorGraph, smoothed
from deltaai.randomness import generator_of
from deltaai.sampling import Orders

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
    num_states = model.num_states.tolist()
    if evidence == "any":
        layout = evidence_layout(num_states, orders.fixed, MOST_CONTEXT)
    elif evidence is not None:
        layout = fixed_evidence_layout(num_states, orders.fixed, model.markov_graph(), evidence)
    else:
        layout = Layout.build(num_states, orders.inputs())
    generator = generator_of(seed)
    takes_masks = orders.kind == "many" or layout.has_context
    conditionals = build_conditionals(
        family, layout, hidden, takes_masks=takes_masks, generator=generator
    )
    return Proposal(model.to(dtype=torch.float32), conditionals, is_informed=is_informed)
