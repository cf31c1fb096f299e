"""Samplers from files: everything in them is checked, nothing is unpickled."""

from __future__ import annotations

from pathlib import Path

from deltaai.errors import ConfigError, FormatError, ModelError
from deltaai.graphs import ChordalGraph, UndirectedGraph
from deltaai.inference.proposals import build_proposal
from deltaai.inference.sampler import SAMPLER_KIND, Sampler
from deltaai.models.storage import model_from_tensors
from deltaai.sampling.orders import Orders
from deltaai.training.checkpoint import load_tensors
from deltaai.training.config import TrainingConfig


def load_sampler(path: str | Path) -> Sampler:
    """Read a sampler that :meth:`Sampler.save` wrote; anything else is refused."""
    tensors, metadata = load_tensors(path, SAMPLER_KIND)
    try:
        part = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        model = model_from_tensors(part, metadata["model"])
        edges = tensors["graph.edges"].numpy()
        graph = UndirectedGraph.from_edges(model.num_variables, edges)
        chordal = ChordalGraph(graph.offsets, graph.targets, tuple(tensors["graph.order"].tolist()))
        orders = Orders.of(chordal, metadata["orders"])
        family, hidden = metadata["family"], metadata["hidden"]
        evidence, smoothing = metadata["evidence"], metadata["smoothing"]
        evidence = tuple(evidence) if isinstance(evidence, list) else evidence
        proposal = build_proposal(
            model,
            orders,
            hidden,
            family=family,
            is_informed=metadata["is_informed"],
            evidence=evidence,
            smoothing=smoothing,
        )
        weights = {k.removeprefix("q."): v for k, v in tensors.items() if k.startswith("q.")}
        proposal.conditionals.load_state_dict(weights)
        config = TrainingConfig.from_dict(metadata["config"])
        history = list(metadata["history"])
        rest = (family, hidden, evidence, smoothing, history)
        return Sampler(model, proposal, orders, config, *rest)
    except (KeyError, TypeError, RuntimeError, ModelError, ConfigError) as error:
        raise FormatError(path, None, f"the sampler in it is incomplete: {error}") from error
