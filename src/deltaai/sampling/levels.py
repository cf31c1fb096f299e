"""What is due when: the variables that ancestral sampling sets together.

Variables whose parents are all set can be set together, in one order or in several at once. Those
of one block are *due* together: pairs (variable, order). The value of a pair stands in a *cell*,
``variable * num_dags + dag``, and its features likewise, since gathering whole rows of a flat
table is several times faster than by two indices. This file draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import Proposal, known_under
from deltaai.graphs import Dag
from deltaai.watch import look

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Due:
    """Variables of one block that are due together, in the same order or in different ones.

    Parameters
    ----------
    block, members : the block, and places in it.
    variables, dags, cells : the pairs, and where their values are.
    input_rows, input_cells : where the features and the values of their inputs are.
    known : which inputs each pair sees; ``None`` if all, or if that is said when drawing.
    chosen : what the proposal's knowledge prepared for the members.
    """

    block: int
    members: Int[Tensor, "pair"]
    variables: Int[Tensor, "pair"]
    dags: Int[Tensor, "pair"]
    cells: Int[Tensor, "pair"]
    input_rows: Int[Tensor, "pair input feature"]
    input_cells: Int[Tensor, "pair input"]
    known: Float[Tensor, "pair input"] | None
    chosen: Any


Levels = tuple[tuple[Due, ...], ...]


@dataclass(frozen=True, eq=False)
class Schedule:
    """Steps of ancestral sampling for some orders.

    Parameters
    ----------
    levels : what is due, step by step.
    dags : the orders.
    is_given : whether what is known is said when drawing, as it depends on evidence.
    """

    levels: Levels
    dags: tuple[Dag, ...]
    is_given: bool

    @property
    def num_dags(self) -> int:
        """Number of orders."""
        return len(self.dags)

    @classmethod
    def build(
        cls, proposal: Proposal, dags: Sequence[Dag], *, masks: bool, is_given: bool = False
    ) -> Schedule:
        """Work out which variables are due when.

        Parameters
        ----------
        proposal : q.
        dags : the orders.
        masks : whether the inputs that a variable sees differ between orders.
        is_given : whether they differ between samples, too, and are said when drawing.
        """
        known = None
        if masks and not is_given:
            known = known_under(proposal.layout, dags, proposal.dtype)
        return cls(_levels(proposal, dags, known), tuple(dags), is_given)


def _levels(
    proposal: Proposal, dags: Sequence[Dag], known: Float[Tensor, "slot dag"] | None
) -> Levels:
    layout = proposal.layout
    depth = np.zeros((layout.num_variables, len(dags)), dtype=np.int64)
    for number, dag in enumerate(dags):
        look()
        for level, layer in enumerate(dag.levels):
            depth[list(layer), number] = level
    num_blocks = len(layout.blocks)
    blocks = layout.block_of.cpu().numpy()[:, :1]
    levels: list[list[Due]] = [[] for _ in range(int(depth.max(initial=-1)) + 1)]
    for key, cells in _runs((depth * num_blocks + blocks).ravel()):
        look()
        level, block = divmod(key, num_blocks)
        levels[level].append(_due(proposal, block, cells, len(dags), known))
    return tuple(map(tuple, levels))


def _runs(keys: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield each key, ascending, with all places where it stands."""
    in_turn = np.argsort(keys, kind="stable")
    found, starts = np.unique(keys[in_turn], return_index=True)
    for key, (start, stop) in zip(
        found.tolist(), pairwise([*starts.tolist(), len(keys)]), strict=True
    ):
        yield key, in_turn[start:stop]


def _due(
    proposal: Proposal,
    number: int,
    cells: IntArray,
    num_dags: int,
    known: Float[Tensor, "slot dag"] | None,
) -> Due:
    layout, block = proposal.layout, proposal.layout.blocks[number]
    at = torch.from_numpy(cells).to(layout.device)
    variables, dags = at // num_dags, at % num_dags
    members = layout.block_of[variables, 1]
    inputs = block.inputs[members]
    inputs = inputs.where(inputs < layout.num_variables, 0)  # any cell will do for padding
    mask = None
    if known is not None:
        by_variable = known[block.slots].view(block.size, block.num_inputs, num_dags)
        mask = by_variable[members, :, dags]
    return Due(
        block=number,
        members=members,
        variables=variables,
        dags=dags,
        cells=at,
        input_rows=block.feature_rows[members] * num_dags + dags[:, None, None],
        input_cells=inputs * num_dags + dags[:, None],
        known=mask,
        chosen=proposal.knowledge.choose(number, members, mask),
    )
