"""Full conditionals of variables with few neighbours, tabulated once.

A variable whose neighbours have at most a thousand joint states has as many full conditionals. They
are listed beforehand, whatever the kind of the factors; a Gibbs update is then: pack the
neighbours' states into an index, look up, compare with a random number. The index of a
configuration is in mixed radix, the first neighbour fastest:

    index(v) = first_entry(v) + Σ_j stride(v, j) x_{neighbour j of v}

This file makes the tables; :mod:`deltaai.mcmc.table_updates` draws from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.graphs import IntArray, UndirectedGraph
from deltaai.mcmc.local_scores import BLOCK_ENTRIES, incidents, settle_zeros
from deltaai.models import FactorGraph

# Most joint states of a variable's neighbours for which all its conditionals are listed.
LARGEST_BLANKET = 1024


@dataclass(frozen=True, eq=False)
class Blankets:
    """Numbers the joint states of each variable's neighbours in the Markov graph.

    Parameters
    ----------
    graph : the Markov graph.
    strides : step in the index for each neighbour, in the rows of the graph.
    num_joint : joint states of each variable's neighbours; ``LARGEST_BLANKET + 1`` if more.
    """

    graph: UndirectedGraph
    strides: IntArray
    num_joint: IntArray

    @classmethod
    def of(cls, model: FactorGraph, graph: UndirectedGraph) -> Blankets:
        """Number them, for all variables together, one neighbour after the other."""
        sizes = model.num_states.cpu().numpy()
        degrees = np.diff(graph.offsets)
        strides = np.ones(len(graph.targets), dtype=np.int64)
        num_joint = np.ones(graph.num_vertices, dtype=np.int64)
        for slot in range(int(degrees.max(initial=0))):
            variables = np.flatnonzero(degrees > slot)
            entries = graph.offsets[variables] + slot
            strides[entries] = num_joint[variables]
            larger = num_joint[variables] * sizes[graph.targets[entries]]
            num_joint[variables] = np.minimum(larger, LARGEST_BLANKET + 1)
        return cls(graph, strides, num_joint)

    def slot(self, variables: IntArray, number: int) -> tuple[IntArray, IntArray]:
        """Neighbour of each variable with this number in its row, and its stride."""
        entries = self.graph.offsets[variables] + number
        return self.graph.targets[entries], self.strides[entries]

    def stride_of(self, variables: IntArray, neighbours: IntArray) -> IntArray:
        """Stride of given neighbours in the index of given variables."""
        wanted = variables * self.graph.num_vertices + neighbours
        found: IntArray = self.strides[np.searchsorted(self._keys, wanted)]
        return found

    @cached_property
    def _keys(self) -> IntArray:
        """One number for each entry in the rows of the graph, ascending."""
        owners = np.repeat(np.arange(self.graph.num_vertices), np.diff(self.graph.offsets))
        return owners * self.graph.num_vertices + self.graph.targets


def tabulate(
    model: FactorGraph, blankets: Blankets, members: Int[Tensor, "member"]
) -> Float[Tensor, "entry state"]:
    """Local log scores of each member for every joint state of its neighbours, zeros settled.

    The members have the same number of states and stand one after the other.
    """
    num_states = int(model.num_states[members[0]])
    entries = np.cumsum(blankets.num_joint[members.cpu().numpy()]) * num_states
    pieces = np.unique(entries // BLOCK_ENTRIES, return_index=True)[1].tolist()
    return torch.cat(
        [
            _tabulate_piece(model, blankets, members[start:stop], num_states)
            for start, stop in zip(pieces, [*pieces[1:], len(members)], strict=True)
        ]
    )


def _tabulate_piece(
    model: FactorGraph, blankets: Blankets, members: Int[Tensor, "member"], num_states: int
) -> Float[Tensor, "entry state"]:
    device = model.device
    numbers = members.cpu().numpy()
    num_joint = torch.from_numpy(blankets.num_joint[numbers]).to(device)
    first = num_joint.cumsum(0) - num_joint
    total = torch.zeros(int(num_joint.sum()), num_states, dtype=model.dtype, device=device)
    num_zeros = torch.zeros_like(total)
    for incident in incidents(model, members):
        group, owners = model.groups[incident.group], incident.owners
        # One row for each factor and joint state of its owner's neighbours.
        count = num_joint[owners]
        pair = torch.arange(len(owners), device=device).repeat_interleave(count)
        joint = torch.arange(len(pair), device=device) - (count.cumsum(0) - count)[pair]
        scopes = group.scopes[incident.factors]
        values = torch.empty(group.arity, len(pair), num_states, dtype=torch.long, device=device)
        for place, size in enumerate(group.sizes):
            if place == incident.place:
                values[place] = torch.arange(num_states, device=device)
                continue
            strides = blankets.stride_of(
                numbers[owners.cpu().numpy()], scopes[:, place].cpu().numpy()
            )
            value = joint // torch.from_numpy(strides).to(device)[pair] % size
            values[place] = value[:, None]
        factors = incident.factors[pair].repeat_interleave(num_states)
        logs = group.log_values_at(factors, values.flatten(1)).reshape(-1, num_states)
        is_zero = logs == -torch.inf
        entry = first[owners][pair] + joint
        total.index_add_(0, entry, logs.masked_fill(is_zero, 0))
        num_zeros.index_add_(0, entry, is_zero.to(model.dtype))
    return settle_zeros(total, num_zeros, 1)
