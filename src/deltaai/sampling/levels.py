"""What is due when: the variables that ancestral sampling sets together.

Variables whose parents are all set can be set together, in one order or in several at once. Those
of one block are *due* together: pairs (variable, order), with the factors that enter their logits.
The state of a pair stands in a *cell*, ``variable * num_dags + dag``, and its features likewise,
since gathering whole rows of a flat table is several times faster than by two indices. This file
draws nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from deltaai.conditionals import LARGEST_ARITY, Proposal
from deltaai.graphs import Dag

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class WideFactors:
    """Factors over too many variables to be folded that enter the logits of what is due.

    Parameters
    ----------
    group, factors : which they are.
    place : where the variable whose logits they enter stands in their scope.
    pairs : whose logits each enters.
    cells : where the states of their scopes are.
    slots : slot of (that variable, each other variable of the scope).
    """

    group: int
    factors: Int[Tensor, "factor"]
    place: int
    pairs: Int[Tensor, "factor"]
    cells: Int[Tensor, "arity factor"]
    slots: Int[Tensor, "factor other"]


@dataclass(frozen=True, eq=False)
class Due:
    """Variables of one block that are due together, in the same order or in different ones.

    Parameters
    ----------
    block, members : the block, and places in it.
    variables, dags, cells : the pairs, and where their states are.
    input_rows : where the features of their inputs are.
    known : which inputs each pair sees; ``None`` if all, or if that is said when drawing.
    wide : factors that are not folded.
    """

    block: int
    members: Int[Tensor, "pair"]
    variables: Int[Tensor, "pair"]
    dags: Int[Tensor, "pair"]
    cells: Int[Tensor, "pair"]
    input_rows: Int[Tensor, "pair input feature"]
    known: Float[Tensor, "pair input"] | None
    wide: tuple[WideFactors, ...]


Levels = tuple[tuple[Due, ...], ...]


def due_by_level(
    proposal: Proposal,
    dags: Sequence[Dag],
    known: Float[Tensor, "slot dag"] | None = None,
    *,
    only_before: bool,
) -> Levels:
    """Work out which variables and factors are due when.

    Parameters
    ----------
    proposal : q.
    dags : the orders.
    known : which inputs come before their variable in each order; ``None`` if all do.
    only_before : whether a factor enters its variable's logits only where all its other variables
        come before. Otherwise it always may, and what is known is said when drawing.
    """
    layout = proposal.layout
    depth = np.zeros((layout.num_variables, len(dags)), dtype=np.int64)
    for number, dag in enumerate(dags):
        for level, layer in enumerate(dag.levels):
            depth[list(layer), number] = level
    num_blocks = len(layout.blocks)
    blocks = layout.block_of.numpy()[:, :1]
    runs = list(_runs((depth * num_blocks + blocks).ravel()))
    wide: list[list[WideFactors]] = [[] for _ in runs]
    if proposal.is_informed:
        due_of, pair_of = np.empty(depth.size, np.int64), np.empty(depth.size, np.int64)
        for number, (_, cells) in enumerate(runs):
            due_of[cells], pair_of[cells] = number, np.arange(len(cells))
        for number, entering in _wide_factors(proposal, dags, only_before, due_of, pair_of):
            wide[number].append(entering)
    levels: list[list[Due]] = [[] for _ in range(int(depth.max(initial=-1)) + 1)]
    for (key, cells), factors in zip(runs, wide, strict=True):
        level, block = divmod(key, num_blocks)
        levels[level].append(_due(proposal, block, cells, len(dags), known, tuple(factors)))
    return tuple(tuple(dues) for dues in levels)


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
    wide: tuple[WideFactors, ...],
) -> Due:
    layout, block = proposal.layout, proposal.layout.blocks[number]
    variables, dags = np.divmod(cells, num_dags)
    members = layout.block_of.numpy()[variables, 1]
    rows = block.feature_rows.numpy()[members] * num_dags + dags[:, None, None]
    mask = None
    if known is not None:
        by_variable = known[block.slots].view(block.size, block.num_inputs, num_dags)
        mask = by_variable[members, :, dags]
    return Due(
        block=number,
        members=torch.from_numpy(members),
        variables=torch.from_numpy(variables),
        dags=torch.from_numpy(dags),
        cells=torch.from_numpy(cells),
        input_rows=torch.from_numpy(rows),
        known=mask,
        wide=wide,
    )


def _wide_factors(
    proposal: Proposal,
    dags: Sequence[Dag],
    only_before: bool,
    due_of: IntArray,
    pair_of: IntArray,
) -> Iterator[tuple[int, WideFactors]]:
    """Yield what is due with factors that enter its logits, but for those that can be folded."""
    rank = np.zeros((proposal.layout.num_variables, len(dags)), dtype=np.int64)
    for number, dag in enumerate(dags):
        rank[list(dag.order), number] = np.arange(len(rank))
    for term in proposal.terms.terms:
        group = proposal.model.groups[term.group]
        if group.arity <= LARGEST_ARITY:
            continue
        scopes = group.scopes[term.factors].cpu().numpy()
        enters = np.ones((len(scopes), len(dags)), dtype=np.bool_)
        if only_before:
            others = np.delete(scopes, term.place, axis=1)
            enters = (rank[others] < rank[scopes[:, [term.place]]]).all(axis=1)
        factors, numbers = np.nonzero(enters)
        cells = scopes[factors].T * len(dags) + numbers
        owners = cells[term.place]
        of_group, slots = term.factors.numpy(), term.slots.numpy()
        for due, here in _runs(due_of[owners]):
            wide = WideFactors(
                group=term.group,
                factors=torch.from_numpy(of_group[factors[here]]),
                place=term.place,
                pairs=torch.from_numpy(pair_of[owners[here]]),
                cells=torch.from_numpy(cells[:, here]),
                slots=torch.from_numpy(slots[factors[here]]),
            )
            yield due, wide
