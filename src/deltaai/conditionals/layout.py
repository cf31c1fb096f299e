"""Which variables a conditional may see, arranged for batched evaluation.

Every variable v has *inputs*: the variables its conditional may be given (its parents under one
order, its neighbours in the chordal graph under many). There may be further ones, its *context*,
which are known only where they are observed and are never changed (evidence among its
descendants). Variables whose heads and numbers of inputs and context are alike share a block, in
which inputs are padded to the block's largest number, never to the model's; context follows the
other inputs. Three kinds of rows follow the order of blocks:

- a *row* for each parameter of each variable's head: with states, a logit for each but the first;
- a *slot* for each (variable, input);
- a *flip row* for each (parameter, input): the same number when that input has been changed; there
  is none for context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from deltaai.conditionals.encoding import Encoding
from deltaai.conditionals.heads import Categorical, Head
from deltaai.errors import ModelError
from deltaai.watch import look

# Numbers of inputs that share a block: up to the next of these.
_STEPS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128)

_Key = tuple[str, int, int, int]  # kind of head, features of an input, steps of inputs and context


@dataclass(frozen=True, eq=False)
class Block:
    """Variables that are evaluated together.

    Parameters
    ----------
    variables : the variables.
    inputs : their inputs, context last; padding is the number of variables of the model.
    num_flipped : how many of these come before the context.
    head : what their parameters mean.
    num_features : features of an input, the most of any input here.
    feature_rows : feature rows of each input; padding is the row of zeros.
    first_row, first_slot, first_flip : where its rows begin.
    """

    variables: Int[Tensor, "variable"]
    inputs: Int[Tensor, "variable input"]
    num_flipped: int
    head: Head
    num_features: int
    feature_rows: Int[Tensor, "variable input feature"]
    first_row: int
    first_slot: int
    first_flip: int

    @property
    def size(self) -> int:
        """Number of variables."""
        return self.inputs.shape[0]

    @property
    def num_inputs(self) -> int:
        """Number of inputs of each, padding included."""
        return self.inputs.shape[1]

    @property
    def num_logits(self) -> int:
        """Parameters of a variable's head; for states, relative logits."""
        return self.head.num_parameters

    @property
    def rows(self) -> slice:
        """Its rows."""
        return slice(self.first_row, self.first_row + self.size * self.num_logits)

    def rows_of(self, rows: Float[Tensor, "row batch"]) -> Float[Tensor, "variable logit batch"]:
        """Its rows among those of all blocks."""
        return rows[self.rows].view(self.size, self.num_logits, rows.shape[1])

    @property
    def slots(self) -> slice:
        """Its slots."""
        return slice(self.first_slot, self.first_slot + self.size * self.num_inputs)

    @property
    def flips(self) -> slice:
        """Its flip rows."""
        count = self.size * self.num_flipped * self.num_logits
        return slice(self.first_flip, self.first_flip + count)


@dataclass(frozen=True, eq=False)
class Layout:
    """All blocks of a model, and where each variable and slot stands."""

    heads: tuple[Head, ...]
    inputs: tuple[tuple[int, ...], ...]
    context: tuple[tuple[int, ...], ...]
    encoding: Encoding
    blocks: tuple[Block, ...]

    @classmethod
    def build(
        cls,
        variables: Sequence[int | Head],
        inputs: Sequence[Sequence[int]],
        context: Sequence[Sequence[int]] | None = None,
        device: torch.device | str = "cpu",
        spare: int = 0,
    ) -> Layout:
        """Arrange variables, by numbers of states or heads, with inputs and perhaps context.

        Parameters
        ----------
        spare : slots of padding for which blocks of few inputs join the next larger one; each block
            costs time of its own, whatever its size.
        """
        encoding = Encoding.of(variables, device)
        further = [()] * len(variables) if context is None else context
        members: dict[_Key, list[int]] = {}
        for variable, (seen, observed) in enumerate(zip(inputs, further, strict=True)):
            features = max((encoding.num_features[u] for u in (*seen, *observed)), default=1)
            head = encoding.heads[variable]
            key = (_kind(head), features, _step(len(seen)), _step(len(observed), 8))
            members.setdefault(key, []).append(variable)
        members = _joined(members, spare)
        blocks: list[Block] = []
        row = slot = flip = 0
        for (_, features, *_), alike in sorted(members.items()):
            firsts = (row, slot, flip)
            block = _block(alike, inputs, further, encoding, features, firsts)
            blocks.append(block)
            row, slot, flip = block.rows.stop, block.slots.stop, block.flips.stop
        return cls(
            encoding.heads,
            tuple(map(tuple, inputs)),
            tuple(map(tuple, further)),
            encoding,
            tuple(blocks),
        )

    @property
    def has_context(self) -> bool:
        """Whether any variable has context."""
        return any(self.context)

    @property
    def device(self) -> torch.device:
        """Where its indices are."""
        return self.encoding.device

    @property
    def num_variables(self) -> int:
        """Number of variables."""
        return len(self.heads)

    @cached_property
    def is_discrete(self) -> bool:
        """Whether all values are states."""
        return not any(head.is_real for head in self.heads)

    @cached_property
    def num_states(self) -> tuple[int, ...]:
        """Number of states of each variable, all of which must have some."""
        counts = []
        for variable, head in enumerate(self.heads):
            if not isinstance(head, Categorical):
                raise ModelError(f"variable {variable} has no list of states")
            counts.append(head.num_states)
        return tuple(counts)

    @cached_property
    def is_free(self) -> Bool[Tensor, "var"]:
        """Whether each variable can take another value than it has."""
        is_free = [head.num_parameters > 0 for head in self.heads]
        return torch.tensor(is_free, dtype=torch.bool, device=self.device)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.blocks[-1].rows.stop if self.blocks else 0

    @property
    def num_slots(self) -> int:
        """Number of slots, padding included."""
        return self.blocks[-1].slots.stop if self.blocks else 0

    @property
    def num_flips(self) -> int:
        """Number of flip rows, padding included."""
        return self.blocks[-1].flips.stop if self.blocks else 0

    @cached_property
    def block_of(self) -> Int[Tensor, "var 2"]:
        """Block of each variable and its place there."""
        where = torch.zeros(self.num_variables, 2, dtype=torch.long, device=self.device)
        for number, block in enumerate(self.blocks):
            where[block.variables, 0] = number
            where[block.variables, 1] = torch.arange(block.size, device=self.device)
        return where

    @cached_property
    def first_row_of(self) -> Int[Tensor, "var"]:
        """First row of each variable."""
        first = torch.zeros(self.num_variables, dtype=torch.long, device=self.device)
        for block in self.blocks:
            first[block.variables] = (
                block.first_row + torch.arange(block.size, device=self.device) * block.num_logits
            )
        return first

    @cached_property
    def is_binary(self) -> bool:
        """Whether all variables that have parameters have two states."""
        heads = [block.head for block in self.blocks if block.num_logits]
        return bool(heads) and all(head == Categorical(2) for head in heads)

    @cached_property
    def row_variable(self) -> Int[Tensor, "row"]:
        """Variable of each row."""
        parts = [b.variables.repeat_interleave(b.num_logits) for b in self.blocks]
        return torch.cat([torch.zeros(0, dtype=torch.long, device=self.device), *parts])

    @cached_property
    def row_flips(self) -> tuple[Int[Tensor, "row"], Int[Tensor, "row"]]:
        """Where the flips of each row begin and how many there are, if all have two states."""
        counts = [b.num_flipped for b in self.blocks for _ in range(b.size * b.num_logits)]
        number = torch.tensor(counts, dtype=torch.long, device=self.device)
        return number.cumsum(0) - number, number

    @cached_property
    def flip_input(self) -> Int[Tensor, "flip"]:
        """Input that is changed in each flip row, if all variables have two states."""
        parts = [b.inputs[:, : b.num_flipped].reshape(-1) for b in self.blocks if b.num_logits]
        return torch.cat([torch.zeros(0, dtype=torch.long, device=self.device), *parts])

    @cached_property
    def slot_variable(self) -> Int[Tensor, "slot"]:
        """Variable of each slot."""
        parts = [b.variables.repeat_interleave(b.num_inputs) for b in self.blocks]
        return torch.cat([torch.zeros(0, dtype=torch.long, device=self.device), *parts])

    @cached_property
    def slot_input(self) -> Int[Tensor, "slot"]:
        """Input of each slot; padding is the number of variables."""
        parts = [block.inputs.reshape(-1) for block in self.blocks]
        return torch.cat([torch.zeros(0, dtype=torch.long, device=self.device), *parts])

    @cached_property
    def first_flip_of(self) -> Int[Tensor, "slot"]:
        """First flip row of each slot; -1 for context."""
        parts = [torch.zeros(0, dtype=torch.long, device=self.device)]
        for block in self.blocks:
            first = torch.full(
                (block.size, block.num_inputs), -1, dtype=torch.long, device=self.device
            )
            flips = (
                torch.arange(block.size * block.num_flipped, device=self.device) * block.num_logits
            )
            first[:, : block.num_flipped] = (block.first_flip + flips).view(block.size, -1)
            parts.append(first.reshape(-1))
        return torch.cat(parts)

    @cached_property
    def _slot_keys(self) -> tuple[np.ndarray, np.ndarray]:
        """One number for each (variable, input), and the order that sorts them."""
        variable, seen = self.slot_variable.cpu().numpy(), self.slot_input.cpu().numpy()
        key = variable * (self.num_variables + 1) + seen
        return key, np.argsort(key, kind="stable")

    def slots_of(self, variables: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        """Slots of (variable, input) pairs; -1 where there is none."""
        key, by_key = self._slot_keys
        wanted = np.asarray(variables) * (self.num_variables + 1) + np.asarray(inputs)
        if not len(key):
            return np.full(wanted.shape, -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(key, wanted, sorter=by_key), len(key) - 1)
        found = by_key[at]
        return np.where(key[found] == wanted, found, -1)


def _joined(members: Mapping[_Key, list[int]], spare: int) -> dict[_Key, list[int]]:
    """Let blocks join the next that differs in the number of inputs alone, while padding lasts."""
    found: dict[_Key, list[int]] = {}
    waiting: _Key | None = None  # the last block, which may join the one at hand
    padding = 0
    for key in sorted(members, key=lambda key: (*key[:2], key[3], key[2])):
        alike = members[key]
        if waiting is not None and (*waiting[:2], waiting[3]) == (*key[:2], key[3]):
            added = len(found[waiting]) * (key[2] - waiting[2])
            if padding + added <= spare:
                alike, padding = sorted([*found.pop(waiting), *alike]), padding + added
            else:
                padding = 0
        found[key], waiting = alike, key
    return found


def _kind(head: Head) -> str:
    """Heads that compare equal have the same; those of fewer states come first."""
    return f"{head.num_parameters:09d} {head!r}"


def _step(number: int, finest: int = 1) -> int:
    """Numbers that share a block are those with the same step."""
    rounded = -(-number // finest) * finest
    return next((step for step in _STEPS if rounded <= step), rounded)


def _block(
    variables: Sequence[int],
    inputs: Sequence[Sequence[int]],
    context: Sequence[Sequence[int]],
    encoding: Encoding,
    num_features: int,
    firsts: tuple[int, int, int],
) -> Block:
    num_variables = len(encoding.first_row)
    num_flipped = max(len(inputs[v]) for v in variables)
    width = num_flipped + max(len(context[v]) for v in variables)
    seen = np.full((len(variables), width), num_variables, dtype=np.int64)
    for place, variable in enumerate(variables):
        look()
        seen[place, : len(inputs[variable])] = inputs[variable]
        last = num_flipped + len(context[variable])
        seen[place, num_flipped:last] = context[variable]
    first = np.array([*encoding.first_row, encoding.zero_row])[seen]
    count = np.array([*encoding.num_features, 0])[seen]
    feature = np.arange(num_features)
    rows = np.where(feature < count[..., None], first[..., None] + feature, encoding.zero_row)
    return Block(
        torch.tensor(variables, dtype=torch.long, device=encoding.device),
        torch.from_numpy(seen).to(encoding.device),
        num_flipped,
        encoding.heads[variables[0]],
        num_features,
        torch.from_numpy(rows).to(encoding.device),
        *firsts,
    )
