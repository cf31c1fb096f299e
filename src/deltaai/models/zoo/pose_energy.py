"""An energy of poses: a small network on the angles of every two joints that a bone joins.

The model of the paper's experiment on poses (appendix "Delta-AI with continuous variables"): joints
are vectors of one to three angles, scaled to [-1, 1], the graph is the tree of the body, and

    log φ_{uv}(x_u, x_v) = MLP_{uv}(x_u, x_v)

with a separate network of three layers and ReLU for every edge, of at most 6 arguments. The box is
bounded and the networks continuous, so the density can be normalised whatever they become. Their
parameters are there to be learned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from deltaai.arguments import checked_items
from deltaai.errors import ModelError, shown
from deltaai.models.factor_graph import FactorGraph, check_dtype
from deltaai.models.factors import NeuralFactor
from deltaai.models.interval import Interval
from deltaai.models.variable import Variable
from deltaai.models.zoo.arguments import checked_count
from deltaai.randomness import Randomness, as_generator

_NUM_HIDDEN = 64
_BOX = Interval(-1.0, 1.0)


def pose_energy(
    nodes: Sequence[tuple[str, int]],
    edges: Sequence[tuple[int, int]],
    generator: Randomness = None,
    *,
    hidden: int = _NUM_HIDDEN,
    dtype: torch.dtype = torch.float64,
) -> FactorGraph:
    """Vectors in a box, and a network on every edge between two of them.

    Parameters
    ----------
    nodes : name and number of coordinates of each joint, such as ``ScaledPoses.nodes``.
    edges : pairs of numbers of nodes. A node without any has a network of its own.
    generator : draws the weights, as torch draws those of its layers; or a seed.
    hidden : units of each of the two hidden layers.
    dtype : of all weights and values.

    Examples
    --------
    >>> model = pose_energy([("hip", 3), ("knee", 1), ("head", 2)], [(0, 1)], 0, hidden=8)
    >>> model, model.log_score(torch.zeros(5, 6, dtype=torch.float64)).shape
    (FactorGraph(6 variables, 2 factors), torch.Size([5]))
    """
    hidden = checked_count("hidden", hidden, least=1)
    check_dtype(dtype)
    drawn = as_generator(generator)
    named = [_checked_node(node) for node in checked_items("nodes", nodes, "pairs", ModelError)]
    if len({name for name, _ in named}) < len(named):
        raise ModelError(f"two of the nodes {shown([name for name, _ in named])} have one name")
    given = checked_items("edges", edges, "pairs", ModelError)
    pairs = [_checked_edge(edge, len(named)) for edge in given]
    if len({frozenset(pair) for pair in pairs}) < len(pairs):
        raise ModelError("an edge is there twice: its two factors would be one")
    joined = {node for pair in pairs for node in pair}
    scopes: list[tuple[int, ...]] = [*pairs]
    scopes += [(node,) for node in range(len(named)) if node not in joined]
    variables = [Variable(name, support=_BOX, dimension=size) for name, size in named]
    factors = [
        NeuralFactor(
            [named[node][0] for node in scope],
            _network(sum(named[node][1] for node in scope), hidden, drawn, dtype),
        )
        for scope in scopes
    ]
    return FactorGraph(variables, factors, dtype=dtype)


def _network(
    width: int, hidden: int, generator: torch.Generator | None, dtype: torch.dtype
) -> nn.Module:
    """Three layers, with weights between ±1/√inputs."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise((width, hidden, hidden, 1)):
        layer = nn.Linear(inputs, outputs, device="meta", dtype=dtype)
        for name, value in list(layer.named_parameters()):
            drawn = _drawn(value, 1 / math.sqrt(inputs), generator)
            setattr(layer, name, nn.Parameter(drawn))
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _drawn(like: Tensor, most: float, generator: torch.Generator | None) -> Tensor:
    where = "cpu" if generator is None else generator.device
    unit = torch.rand(like.shape, generator=generator, dtype=like.dtype, device=where)
    return (most * (2 * unit - 1)).cpu()


def _checked_node(node: object) -> tuple[str, int]:
    if not isinstance(node, tuple | list) or len(node) != 2:
        raise ModelError(f"a node is {shown(node)}: give a name and a number of coordinates")
    name, size = node
    if not isinstance(name, str):
        raise ModelError(f"a node has the name {shown(name)}: give a text")
    return name, checked_count(f"the number of coordinates of {name!r}", size, least=1)


def _checked_edge(edge: object, count: int) -> tuple[int, int]:
    ends = tuple(edge) if isinstance(edge, tuple | list) else ()
    are_nodes = all(type(end) is int and 0 <= end < count for end in ends)
    if len(ends) != 2 or not are_nodes or ends[0] == ends[1]:
        raise ModelError(
            f"an edge is {shown(edge)}: give two different numbers of nodes, from 0 to {count - 1}"
        )
    return ends[0], ends[1]
