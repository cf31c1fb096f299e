"""Samplers from files: everything in them is checked, nothing is unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from deltaai.errors import FormatError, ModelError, one_line
from deltaai.fitting.proposals import EvidenceKind, build_proposal
from deltaai.fitting.sampler import DIAGNOSTICS, SAMPLER_KIND, Sampler
from deltaai.graphs import ChordalGraph, UndirectedGraph
from deltaai.models import model_from_tensors
from deltaai.sampling import Orders, OrdersKind
from deltaai.training import TrainingConfig, load_tensors


def load_sampler(path: str | Path) -> Sampler:
    """Read a sampler that :meth:`Sampler.save` wrote; anything else is refused."""
    tensors, metadata = load_tensors(path, SAMPLER_KIND)
    try:
        return _assembled(tensors, metadata)
    except Exception as error:  # the checksum is right, so whoever made the file is to blame
        raise FormatError(
            path,
            None,
            f"the sampler in it is incomplete or of another version: {one_line(error)}; fit it "
            "again",
        ) from error


def _assembled(tensors: dict[str, Tensor], metadata: dict[str, Any]) -> Sampler:
    part = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
    model = model_from_tensors(part, metadata["model"])
    if model.num_variables == 0:
        raise ModelError("its model has no variables")
    if model.content_hash() != metadata["model_hash"]:
        raise ModelError("its model is not the one that it was trained for")
    edges, order = tensors["graph.edges"], tensors["graph.order"]
    if edges.dtype != torch.long or order.dtype != torch.long:
        raise ModelError("its graph is not in whole numbers")
    graph = UndirectedGraph.from_edges(model.num_variables, edges.numpy())
    chordal = ChordalGraph(graph.offsets, graph.targets, tuple(order.tolist()))
    if metadata["orders"] not in get_args(OrdersKind):
        raise ModelError(f"its orders are {metadata['orders']!r}")
    orders = Orders.of(chordal, metadata["orders"])
    weights = {k.removeprefix("q."): v for k, v in tensors.items() if k.startswith("q.")}
    _check_weights(weights)
    family, hidden = metadata["family"], _hidden(metadata, weights)
    evidence, smoothing = _evidence(metadata, model.num_variables), metadata["smoothing"]
    is_informed, history = metadata["is_informed"], metadata["history"]
    if type(is_informed) is not bool or not _is_history(history):
        raise ModelError("its settings or its history are not what a sampler keeps")
    proposal = build_proposal(
        model,
        orders,
        hidden,
        family=family,
        is_informed=is_informed,
        evidence=evidence,
        smoothing=smoothing,
    )
    proposal.conditionals.load_state_dict(weights)
    config = TrainingConfig.from_dict(metadata["config"])
    diagnostics = metadata["diagnostics"]
    if not isinstance(diagnostics, dict) or diagnostics.keys() | {
        "visible_share"  # which files of before do not have
    } != set(DIAGNOSTICS):
        raise ModelError("its diagnostics are not what a sampler keeps")
    rest = (family, hidden, evidence, smoothing, history, diagnostics)
    return Sampler(model, proposal, orders, config, *rest)


def _check_weights(weights: dict[str, Tensor]) -> None:
    """Refuse weights from which every answer would be NaN."""
    for name, values in weights.items():
        if not values.is_floating_point() or not bool(values.isfinite().all()):
            raise ModelError(f"its weights {name!r} are not finite numbers")


def _hidden(metadata: dict[str, Any], weights: dict[str, Tensor]) -> int:
    """Width of the networks, which their weights bear out: a claim of more would take memory."""
    hidden = metadata["hidden"]
    num_weights = sum(values.numel() for values in weights.values())
    is_borne_out = metadata["family"] == "table" or (type(hidden) is int and hidden <= num_weights)
    if type(hidden) is not int or hidden < 1 or not is_borne_out:
        raise ModelError(f"its networks are said to have {hidden!r} hidden units")
    return hidden


def _evidence(metadata: dict[str, Any], num_variables: int) -> EvidenceKind:
    evidence = metadata["evidence"]
    if evidence is None:
        return None
    if evidence == "any":
        return "any"
    is_list = isinstance(evidence, list) and all(
        type(variable) is int and 0 <= variable < num_variables for variable in evidence
    )
    if not is_list or sorted(set(evidence)) != evidence or len(evidence) in (0, num_variables):
        raise ModelError(f"it is said to be for evidence on {evidence!r}")
    return tuple(evidence)


def _is_history(history: object) -> bool:
    return isinstance(history, list) and all(isinstance(row, dict) for row in history)
