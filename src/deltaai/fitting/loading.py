"""Samplers from files, and onto devices: what is in a file is checked, nothing is unpickled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deltaai.conditionals import FAMILIES
from deltaai.devices import Device, checked_device
from deltaai.errors import FormatError, ModelError, one_line
from deltaai.fitting.sampler import DIAGNOSTICS, Sampler
from deltaai.fitting.spec import SamplerSpec
from deltaai.graphs import ChordalGraph, UndirectedGraph
from deltaai.io import SAMPLER_KIND, load_tensors
from deltaai.models import FactorGraph, StandardUnits, model_from_tensors, on_device
from deltaai.training import TrainingConfig


def load_sampler(path: str | Path, *, device: Device = None) -> Sampler:
    """Read a sampler that :meth:`Sampler.save` wrote; anything else is refused.

    Parameters
    ----------
    path : its file.
    device : where it is to be, such as ``"cuda"``, wherever it was trained (default: the CPU).
    """
    wanted = checked_device(device)
    tensors, metadata = load_tensors(path, SAMPLER_KIND)
    try:
        return moved_sampler(_assembled(tensors, metadata), wanted)
    except Exception as error:  # the checksum is right, so whoever made the file is to blame
        raise FormatError(
            path,
            None,
            f"the sampler in it is incomplete or of another version: {one_line(error)}; fit it "
            "again",
        ) from error


def moved_sampler(sampler: Sampler, device: torch.device | None) -> Sampler:
    """The sampler on a device: itself if it is there or none is named, else another like it."""
    if device is None or device == sampler.model.device:
        return sampler
    model = on_device(sampler.model, device)
    units = sampler.proposal.target.units
    proposal, orders = sampler.spec.build(model, sampler.orders.graph, units=units)
    proposal.conditionals.load_state_dict(sampler.proposal.conditionals.state_dict())
    return replace(sampler, model=model, proposal=proposal, orders=orders)


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
    spec = SamplerSpec.from_dict(metadata["spec"], model.num_variables)
    weights = {k.removeprefix("q."): v for k, v in tensors.items() if k.startswith("q.")}
    _check_weights(weights, spec)
    proposal, orders = spec.build(
        model, chordal, units=_units(tensors, model, metadata.get("has_one_mode"))
    )
    proposal.conditionals.load_state_dict(weights)
    config = TrainingConfig.from_dict(metadata["config"])
    history, diagnostics = metadata["history"], metadata["diagnostics"]
    if not _is_history(history):
        raise ModelError("its history is not what a sampler keeps")
    if not isinstance(diagnostics, dict) or set(diagnostics) != set(DIAGNOSTICS):
        raise ModelError("its diagnostics are not what a sampler keeps")
    return Sampler(model, proposal, orders, config, spec, history, diagnostics)


def _units(
    tensors: dict[str, Tensor], model: FactorGraph, has_one_mode: object
) -> StandardUnits | None:
    """The units that the sampler sees real variables in."""
    if model.is_discrete:
        return None
    centre, unit, anchor = (tensors[f"units.{name}"] for name in ("centre", "unit", "anchor"))
    shape = (model.num_variables,)
    for values in (centre, unit, anchor):
        if values.shape != shape or values.dtype != torch.float64:
            raise ModelError("its units are not one number for each variable")
        if not bool(values.isfinite().all()):
            raise ModelError("its units are not finite numbers")
    if bool((unit == 0).any()):
        raise ModelError("a unit of its variables is zero")
    return StandardUnits(centre, unit, anchor, bool(has_one_mode))


def _check_weights(weights: dict[str, Tensor], spec: SamplerSpec) -> None:
    """Refuse weights from which every answer would be NaN, or a width that they do not bear out."""
    for name, values in weights.items():
        if not values.is_floating_point() or not bool(values.isfinite().all()):
            raise ModelError(f"its weights {name!r} are not finite numbers")
    num_weights = sum(values.numel() for values in weights.values())
    has_hidden = FAMILIES[spec.family].has_hidden
    if has_hidden and spec.hidden > num_weights:  # a claim of more would take memory
        raise ModelError(f"its networks are said to have {spec.hidden} hidden units")


def _is_history(history: object) -> bool:
    return isinstance(history, list) and all(isinstance(row, dict) for row in history)
