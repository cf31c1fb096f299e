"""Sub-DAGs arranged for batched sampling and residuals (see :mod:`deltaai.objectives.sub_dag`).

States belong to *cells*, a cell being one variable of one sub-DAG. Cells of a sub-DAG stand in
topological order, so "earlier" is "a smaller number". Cells that can be set together, of all
sub-DAGs at once, form a step; those of one block are evaluated together. Drawing a plan is the
only part that loops over sub-DAGs; it serves many updates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from deltaai.conditionals import Proposal
from deltaai.errors import GraphError
from deltaai.graphs import ChordalGraph, random_sub_order
from deltaai.models import Incidence


@dataclass(frozen=True, eq=False)
class Term:
    """Factors of one group at cells, each with the centre of one sub-DAG."""

    group: int
    place: int
    factors: Int[Tensor, "factor"]
    cells: Int[Tensor, "arity factor"]
    items: Int[Tensor, "factor"]


@dataclass(frozen=True, eq=False)
class CellGroup:
    """Cells whose variables share a block.

    Parameters
    ----------
    block : the block.
    cells, sub_dags, members : each cell, its sub-DAG, and its variable's place in the block.
    input_cells : cell of each known input; for others the cell of zeros, which follows the last.
    known : which inputs are parents in the sub-DAG.
    chosen : what the proposal's knowledge prepared for the members.
    """

    block: int
    cells: Int[Tensor, "pair"]
    sub_dags: Int[Tensor, "pair"]
    members: Int[Tensor, "pair"]
    input_cells: Int[Tensor, "pair input"]
    known: Bool[Tensor, "pair input"]
    chosen: Any


@dataclass(frozen=True, eq=False)
class SubDagPlan:
    """Some sub-DAGs, arranged for sampling and for residuals.

    Parameters
    ----------
    variables, sub_dags : the variable and the sub-DAG of each cell.
    centres : the cell of u in each sub-DAG.
    steps : parts to sample, step by step.
    own, children : parts of the centres and of their children.
    ratios : factors that contain the centre of each sub-DAG.
    """

    variables: Int[Tensor, "cell"]
    sub_dags: Int[Tensor, "cell"]
    centres: Int[Tensor, "u"]
    steps: tuple[tuple[CellGroup, ...], ...]
    own: tuple[CellGroup, ...]
    children: tuple[CellGroup, ...]
    ratios: tuple[Term, ...]

    @property
    def num_sampled(self) -> int:
        """Conditionals evaluated to draw one sample of every sub-DAG."""
        return len(self.variables)

    @property
    def num_evaluated(self) -> int:
        """Conditionals evaluated for one residual of every sub-DAG: children count twice."""
        return len(self.centres) + 2 * sum(len(part.cells) for part in self.children)


class SubDagPlanner:
    """Draws sub-DAGs of a proposal whose inputs are the neighbours in a chordal graph.

    Parameters
    ----------
    proposal : the conditionals and the target.
    chordal : a chordal graph that contains the target's Markov graph.
    """

    def __init__(self, proposal: Proposal, chordal: ChordalGraph) -> None:
        self.proposal = proposal
        self.chordal = chordal
        num_variables = proposal.layout.num_variables
        self._incidences = [
            Incidence.build(group.scopes, num_variables) for group in proposal.model.groups
        ]

    def draw(self, variables: Sequence[int], rng: np.random.Generator) -> SubDagPlan:
        """Orient the closed neighbourhood of each of the variables, which may repeat."""
        orders = [random_sub_order(self.chordal, variable, rng) for variable in variables]
        return self._plan(orders, variables)

    def _plan(self, orders: Sequence[Sequence[int]], variables: Sequence[int]) -> SubDagPlan:
        cells = _Cells.of(orders, self.proposal.layout.num_variables, self.proposal.device)
        sub_dags = torch.arange(len(orders), device=cells.variables.device)
        centred = torch.tensor(variables, dtype=torch.long, device=cells.variables.device)
        centres = cells.find(sub_dags, centred)
        everything = torch.arange(len(cells.variables), device=cells.variables.device)
        ratios = list(self._factors_with(cells, centres))
        if any(bool((term.cells < 0).any()) for term in ratios):
            raise GraphError("a factor joins variables that are not joined in the chordal graph")
        bare = list(self._parts(cells, everything))
        num_arcs = sum(num_edges_inside(self.chordal, order) for order in orders)
        if sum(int(part.known.sum()) for part in bare) != num_arcs:
            raise GraphError("the inputs of the conditionals are not the neighbours of their graph")
        depth = _depths(cells, bare)
        is_child = everything > centres[cells.sub_dags]  # all others are joined to the centre
        return SubDagPlan(
            cells.variables,
            cells.sub_dags,
            centres,
            tuple(
                tuple(self._parts(cells, (depth == step).nonzero().squeeze(1)))
                for step in range(int(depth.max()) + 1 if len(depth) else 0)
            ),
            tuple(self._parts(cells, centres)),
            tuple(self._parts(cells, is_child.nonzero().squeeze(1))),
            tuple(ratios),
        )

    def _factors_with(self, cells: _Cells, chosen: Int[Tensor, "item"]) -> Iterator[Term]:
        """Every factor with the variable of a chosen cell; -1 for what is outside the sub-DAG."""
        for number, incidence in enumerate(self._incidences):
            item, factor, place = incidence.of(cells.variables[chosen])
            for at in range(self.proposal.model.groups[number].arity):
                here = (place == at).nonzero().squeeze(1)
                if not len(here):
                    continue
                scopes = self.proposal.model.groups[number].scopes[factor[here]]
                found = cells.find(cells.sub_dags[chosen[item[here]]][:, None], scopes)
                yield Term(number, at, factor[here], found.T, item[here])

    def _parts(self, cells: _Cells, chosen: Int[Tensor, "cell"]) -> Iterator[CellGroup]:
        layout = self.proposal.layout
        places = layout.block_of[cells.variables[chosen]]
        for number in torch.unique(places[:, 0]).tolist():
            here = places[:, 0] == number
            some, members = chosen[here], places[here, 1]
            sub_dags = cells.sub_dags[some]
            found = cells.find(sub_dags[:, None], layout.blocks[number].inputs[members])
            known = (found >= 0) & (found < some[:, None])
            input_cells = found.where(known, len(cells.variables))
            inside = self.proposal.knowledge.choose(number, members, known.to(self.proposal.dtype))
            yield CellGroup(number, some, sub_dags, members, input_cells, known, inside)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Variable and sub-DAG of each cell, and the way back."""

    variables: Int[Tensor, "cell"]
    sub_dags: Int[Tensor, "cell"]
    sorted_keys: Int[Tensor, "cell"]
    by_key: Int[Tensor, "cell"]
    num_variables: int

    @classmethod
    def of(
        cls, orders: Sequence[Sequence[int]], num_variables: int, device: torch.device
    ) -> _Cells:
        variables = torch.tensor(
            [v for order in orders for v in order], dtype=torch.long, device=device
        )
        lengths = torch.tensor([len(order) for order in orders], dtype=torch.long, device=device)
        sub_dags = torch.arange(len(orders), device=device).repeat_interleave(lengths)
        keys, by_key = (sub_dags * (num_variables + 1) + variables).sort()
        return cls(variables, sub_dags, keys, by_key, num_variables)

    def find(self, sub_dags: Tensor, variables: Tensor) -> Tensor:
        """Cells of variables in sub-DAGs; -1 where there is none."""
        wanted = sub_dags * (self.num_variables + 1) + variables
        at = torch.searchsorted(self.sorted_keys, wanted).clamp(max=len(self.sorted_keys) - 1)
        return self.by_key[at].where(self.sorted_keys[at] == wanted, -1)


def _depths(cells: _Cells, parts: Sequence[CellGroup]) -> Int[Tensor, "cell"]:
    """Step at which each cell can be set: one after the last of its parents."""
    parents = [part.input_cells[part.known] for part in parts]
    children = [part.cells.repeat_interleave(part.known.sum(1)) for part in parts]
    parent, child = (torch.cat([cells.variables[:0], *found]) for found in (parents, children))
    first = torch.searchsorted(cells.sub_dags, cells.sub_dags)
    position = torch.arange(len(first), device=first.device) - first
    by_position = position[child].argsort(stable=True)
    counts = torch.bincount(position[child])
    depth = torch.zeros_like(cells.variables)
    for arcs in torch.split(by_position, counts.tolist()):
        above = depth[parent[arcs]] + 1
        depth.scatter_reduce_(0, child[arcs], above, "amax")
    return depth


def num_edges_inside(graph: ChordalGraph, vertices: Sequence[int]) -> int:
    """Number of edges between some vertices."""
    inside = set(vertices)
    return sum(v in inside for u in vertices for v in graph.neighbours(u)) // 2
