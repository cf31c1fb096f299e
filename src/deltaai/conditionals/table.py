"""One learnable entry for every joint state of a variable's inputs.

    correction_v(k) = T_v[entry(inputs of v), k],    entry = first_v + Σ_i stride_vi · state_i

Entries are numbered by mixed radix, the last input fastest. For encoded inputs the number of an
entry is linear in the signs of the features: a two-state input is one feature, positive in its
second state, and any other input is one-hot. So entries are read off features directly, and a
flip changes one term of the sum.

Tables of a block stand behind one another without padding. They hold every conditional of one
order exactly, which makes them the oracle of the tests and a choice for small widths; their size
grows exponentially with the number of inputs, and they know no masks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from deltaai.conditionals.base import Conditionals, Known
from deltaai.conditionals.context import Context
from deltaai.conditionals.layout import Block, Layout
from deltaai.conditionals.local import gather_inputs
from deltaai.conditionals.proposal import Proposal
from deltaai.errors import ConfigError, DeltaAIError, GraphError, ModelError, scientific
from deltaai.exact import exact_conditionals
from deltaai.graphs import Dag
from deltaai.models import FactorGraph

MOST_ENTRIES = 2**24


class TableSizeError(DeltaAIError, MemoryError):
    """Tables that would be too large, refused before anything is allocated."""


class TableConditionals(Conditionals):
    """A table a variable, for one order; all entries start at zero.

    Parameters
    ----------
    layout : variables and their inputs, all of which are always known.

    Examples
    --------
    >>> tables = TableConditionals(Layout.build([2, 3], [(), (0,)]))
    >>> [tuple(table.shape) for table in tables.tables]  # (entries, logits) of each block
    [(1, 1), (2, 2)]
    """

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        _refuse_large(layout)
        self.layout = layout
        self._index = [_Index(block, layout.num_states) for block in layout.blocks]
        self.indices = nn.ModuleList(self._index)
        self.tables = nn.ParameterList(
            torch.zeros(
                index.num_entries, block.num_logits, dtype=torch.float32, device=layout.device
            )
            for block, index in zip(layout.blocks, self._index, strict=True)
        )

    def logits(
        self,
        features: Float[Tensor, "feature_row batch"],
        known: Known = None,
        context: Context | None = None,
    ) -> Float[Tensor, "row batch"]:
        """Correction of every variable at full states."""
        _refuse_masks(known, context)
        rows = [features.new_zeros(0, features.shape[1])]
        for number, block in enumerate(self.layout.blocks):
            entries = self._index[number].entries(gather_inputs(block, features))
            rows.append(self._read(number, entries).flatten(0, 1))
        return torch.cat(rows)

    def logits_and_flips(
        self,
        features: Float[Tensor, "feature_row batch"],
        flipped: Float[Tensor, "feature_row batch"],
        known: Known = None,
        context: Context | None = None,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """Corrections at full states, and with each input in turn at its value in ``flipped``."""
        _refuse_masks(known, context)
        rows = [features.new_zeros(0, features.shape[1])]
        flips = list(rows)
        for number, block in enumerate(self.layout.blocks):
            index = self._index[number]
            here = index.terms(gather_inputs(block, features))
            there = index.terms(gather_inputs(block, flipped))
            entries = index.first[:, None] + here.sum(1)
            rows.append(self._read(number, entries).flatten(0, 1))
            flips.append(self._read(number, entries[:, None] + there - here).flatten(0, 2))
        return torch.cat(rows), torch.cat(flips)

    def logits_at(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        inputs: Float[Tensor, "pair input feature batch"],
        known: Float[Tensor, "pair input"] | Float[Tensor, "pair input batch"] | None = None,
        context: Float[Tensor, "pair term batch"] | None = None,
    ) -> Float[Tensor, "pair logit batch"]:
        """Correction of some members of a block at given encoded inputs."""
        _refuse_masks(known, context)
        return self._read(block, self.entries(block, members, inputs))

    def entries(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        inputs: Float[Tensor, "pair input feature batch"],
    ) -> Int[Tensor, "pair batch"]:
        """Entries of ``tables[block]`` that some members ask for at given encoded inputs."""
        return self._index[block].entries(inputs, members)

    @torch.no_grad()
    def set_constant(
        self,
        rows: Float[Tensor, "row"],
        when_known: Sequence[Float[Tensor, "_variable _logit _input"]] | None = None,
    ) -> None:
        """Make every correction constant: all entries of a variable are the same."""
        if when_known is not None:
            raise ConfigError("tables know one order, in which every input is known")
        for block, index, table in zip(self.layout.blocks, self._index, self.tables, strict=True):
            each = rows[block.rows].view(block.size, block.num_logits)
            table.copy_(each.repeat_interleave(index.counts, 0))

    def assign(self, conditionals: Sequence[Float[Tensor, "..."]]) -> None:
        """Set all entries to given conditionals.

        Parameters
        ----------
        conditionals : positive probabilities for each variable: an axis for each input in the
            layout's order, then the variable's own.
        """
        sizes = self.layout.num_states
        with torch.no_grad():
            for block, index, table in zip(
                self.layout.blocks, self._index, self.tables, strict=True
            ):
                for variable, first in zip(
                    block.variables.tolist(), index.first.tolist(), strict=True
                ):
                    given = conditionals[variable]
                    wanted = (*(sizes[u] for u in self.layout.inputs[variable]), sizes[variable])
                    if tuple(given.shape) != wanted:
                        raise ModelError(
                            f"the conditional of variable {variable} must have shape {wanted}, "
                            f"one axis an input and then its own, not {tuple(given.shape)}"
                        )
                    rows = given.reshape(-1, sizes[variable]).log()
                    table[first : first + len(rows)] = rows[:, 1:] - rows[:, :1]

    def _read(self, number: int, entries: Int[Tensor, "*lead"]) -> Float[Tensor, "..."]:
        """Rows of a table, the logit's axis before the batch's."""
        read = self.tables[number].index_select(0, entries.reshape(-1))
        rows: Tensor = read.view(*entries.shape, read.shape[1]).transpose(-1, -2)
        return rows


class _Index(nn.Module):
    """Numbers of the entries of one block's tables. Axes: variable, input, feature, column."""

    first: Tensor
    counts: Tensor
    weights: Tensor

    def __init__(self, block: Block, num_states: Sequence[int]) -> None:
        super().__init__()
        device = block.inputs.device
        counted = torch.tensor([*num_states, 1], dtype=torch.long, device=device)
        sizes = counted[block.inputs]  # padding has one state
        after = torch.cat((sizes, torch.ones_like(sizes[:, :1])), 1)[:, 1:]
        strides = after.flip(1).cumprod(1).flip(1)
        counts = sizes.prod(1)
        self.num_entries = int(counts.sum())
        # A positive feature f says "state f" if one-hot and "state 1" if it is the only one.
        digit = torch.arange(block.num_features, device=device).expand(*sizes.shape, -1)
        digit = torch.where((sizes == 2)[..., None], torch.ones_like(digit), digit)
        self.register_buffer("first", counts.cumsum(0) - counts, persistent=False)
        self.register_buffer("counts", counts, persistent=False)
        self.register_buffer("weights", strides[..., None] * digit, persistent=False)

    def entries(
        self, inputs: Float[Tensor, "pair input feature batch"], members: Tensor | None = None
    ) -> Int[Tensor, "pair batch"]:
        first = self.first if members is None else self.first[members]
        return first[:, None] + self.terms(inputs, members).sum(1)

    def terms(
        self, inputs: Float[Tensor, "pair input feature batch"], members: Tensor | None = None
    ) -> Int[Tensor, "pair input batch"]:
        """What each input adds to the number of the entry."""
        weights = self.weights if members is None else self.weights[members]
        return (weights[..., None] * (inputs > 0)).sum(2)


def exact_proposal(model: FactorGraph, dag: Dag) -> Proposal:
    """Build the q that equals p: tables with the exact conditionals of the model in one order.

    Parameters
    ----------
    model : the target, all of whose factors are positive.
    dag : an I-map of it.

    Examples
    --------
    >>> import numpy as np
    >>> from deltaai.graphs import chordal_completion, random_dag
    >>> from deltaai.models import zoo
    >>> model = zoo.ising_ladder(num_variables=6, sigma=0.5, seed=0)
    >>> dag = random_dag(chordal_completion(model.markov_graph()), np.random.default_rng(0))
    >>> columns = torch.tensor([[0, 1]] * 6)
    >>> log_weights = model.log_score(columns.T) - exact_proposal(model, dag).log_prob(columns)
    >>> bool(log_weights[0].isclose(log_weights[1]))  # both are log Z
    True
    """
    layout = Layout.build(model.num_states.tolist(), dag.parents, device=model.device)
    tables = TableConditionals(layout).to(dtype=model.dtype)
    tables.assign(exact_conditionals(model, dag))
    return Proposal(model, tables, knowledge=False)


def _refuse_large(layout: Layout) -> None:
    sizes = [
        math.prod((layout.num_states[u] for u in inputs), start=states - 1)
        for states, inputs in zip(layout.num_states, layout.inputs, strict=True)
    ]
    total = sum(sizes)
    if total > MOST_ENTRIES:
        widest = max(len(inputs) for inputs in layout.inputs)
        raise TableSizeError(
            f"tables of all conditionals would have {scientific(total)} entries (up to {widest} "
            f"inputs a variable) and at most {scientific(MOST_ENTRIES)} are allowed: use a family "
            "of networks, such as LocalConditionals"
        )


def _refuse_masks(known: Tensor | None, context: Context | Tensor | None) -> None:
    if context is not None:
        raise GraphError("tables see no context: use a family of networks")
    if known is not None:
        raise GraphError(
            "tables know one order, in which every input is known: build the layout from the "
            "parents in that order and pass known=None, or use LocalConditionals for many orders"
        )
