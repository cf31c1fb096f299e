"""Which variables a conditional may see, arranged for batched evaluation.

Every variable v has *inputs*: the variables its conditional may be given (its parents under one
order, its neighbours in the chordal graph under many). There may be further ones, its *context*,
which are known only where they are observed and are never changed (evidence among its
descendants). Variables whose numbers of states, inputs and context are alike share a bucket, in
which inputs are padded to the bucket's largest number, never to the model's; context follows the
other inputs. Three kinds of rows follow the order of buckets:

- a *row* for each (variable, state but the first): its logit relative to the first state;
- a *slot* for each (variable, input);
- a *flip row* for each (variable, input, state but the first): the same logit when that input has
  been changed; there is none for context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from deltaai.conditionals.encoding import Encoding
from deltaai.watch import look

# Numbers of inputs that share a bucket: up to the next of these.
_STEPS = (0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 128)


@dataclass(frozen=True, eq=False)
class Bucket:
    """Variables that are evaluated together.

    Parameters
    ----------
    variables : the variables.
    inputs : their inputs, context last; padding is the number of variables of the model.
    num_flipped : how many of these come before the context.
    num_states : number of states of each of the variables.
    num_features : features of an input, the most of any input here.
    feature_rows : feature rows of each input; padding is the row of zeros.
    first_row, first_slot, first_flip : where its rows begin.
    """

    variables: Int[Tensor, "variable"]
    inputs: Int[Tensor, "variable input"]
    num_flipped: int
    num_states: int
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
        """Logits of a variable: one fewer than it has states."""
        return self.num_states - 1

    @property
    def rows(self) -> slice:
        """Its rows."""
        return slice(self.first_row, self.first_row + self.size * self.num_logits)

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
    """All buckets of a model, and where each variable and slot stands."""

    num_states: tuple[int, ...]
    inputs: tuple[tuple[int, ...], ...]
    context: tuple[tuple[int, ...], ...]
    encoding: Encoding
    buckets: tuple[Bucket, ...]

    @classmethod
    def build(
        cls,
        num_states: Sequence[int],
        inputs: Sequence[Sequence[int]],
        context: Sequence[Sequence[int]] | None = None,
    ) -> Layout:
        """Arrange variables with given numbers of states, inputs and perhaps context."""
        encoding = Encoding.of(num_states)
        further = [()] * len(num_states) if context is None else context
        members: dict[tuple[int, int, int, int], list[int]] = {}
        for variable, (seen, observed) in enumerate(zip(inputs, further, strict=True)):
            features = max((encoding.num_features[u] for u in (*seen, *observed)), default=1)
            key = (num_states[variable], features, _step(len(seen)), _step(len(observed), 8))
            members.setdefault(key, []).append(variable)
        buckets: list[Bucket] = []
        row = slot = flip = 0
        for (states, features, *_), variables in sorted(members.items()):
            firsts = (row, slot, flip)
            bucket = _bucket(variables, inputs, further, encoding, states, features, firsts)
            buckets.append(bucket)
            row, slot, flip = bucket.rows.stop, bucket.slots.stop, bucket.flips.stop
        return cls(
            tuple(num_states),
            tuple(map(tuple, inputs)),
            tuple(map(tuple, further)),
            encoding,
            tuple(buckets),
        )

    @property
    def has_context(self) -> bool:
        """Whether any variable has context."""
        return any(self.context)

    @property
    def num_variables(self) -> int:
        """Number of variables."""
        return len(self.num_states)

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.buckets[-1].rows.stop if self.buckets else 0

    @property
    def num_slots(self) -> int:
        """Number of slots, padding included."""
        return self.buckets[-1].slots.stop if self.buckets else 0

    @property
    def num_flips(self) -> int:
        """Number of flip rows, padding included."""
        return self.buckets[-1].flips.stop if self.buckets else 0

    @cached_property
    def bucket_of(self) -> Int[Tensor, "var 2"]:
        """Bucket of each variable and its place there."""
        where = torch.zeros(self.num_variables, 2, dtype=torch.long, device="cpu")
        for number, bucket in enumerate(self.buckets):
            where[bucket.variables, 0] = number
            where[bucket.variables, 1] = torch.arange(bucket.size, device="cpu")
        return where

    @cached_property
    def first_row_of(self) -> Int[Tensor, "var"]:
        """First row of each variable."""
        first = torch.zeros(self.num_variables, dtype=torch.long, device="cpu")
        for bucket in self.buckets:
            first[bucket.variables] = (
                bucket.first_row + torch.arange(bucket.size, device="cpu") * bucket.num_logits
            )
        return first

    @cached_property
    def slot_variable(self) -> Int[Tensor, "slot"]:
        """Variable of each slot."""
        parts = [b.variables.repeat_interleave(b.num_inputs) for b in self.buckets]
        return torch.cat([torch.zeros(0, dtype=torch.long, device="cpu"), *parts])

    @cached_property
    def slot_input(self) -> Int[Tensor, "slot"]:
        """Input of each slot; padding is the number of variables."""
        parts = [bucket.inputs.reshape(-1) for bucket in self.buckets]
        return torch.cat([torch.zeros(0, dtype=torch.long, device="cpu"), *parts])

    @cached_property
    def first_flip_of(self) -> Int[Tensor, "slot"]:
        """First flip row of each slot; -1 for context."""
        parts = [torch.zeros(0, dtype=torch.long, device="cpu")]
        for bucket in self.buckets:
            first = torch.full((bucket.size, bucket.num_inputs), -1, dtype=torch.long, device="cpu")
            flips = torch.arange(bucket.size * bucket.num_flipped, device="cpu") * bucket.num_logits
            first[:, : bucket.num_flipped] = (bucket.first_flip + flips).view(bucket.size, -1)
            parts.append(first.reshape(-1))
        return torch.cat(parts)

    @cached_property
    def _slot_keys(self) -> tuple[np.ndarray, np.ndarray]:
        """One number for each (variable, input), and the order that sorts them."""
        key = self.slot_variable.numpy() * (self.num_variables + 1) + self.slot_input.numpy()
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


def _step(number: int, finest: int = 1) -> int:
    """Numbers that share a bucket are those with the same step."""
    rounded = -(-number // finest) * finest
    return next((step for step in _STEPS if rounded <= step), rounded)


def _bucket(
    variables: Sequence[int],
    inputs: Sequence[Sequence[int]],
    context: Sequence[Sequence[int]],
    encoding: Encoding,
    num_states: int,
    num_features: int,
    firsts: tuple[int, int, int],
) -> Bucket:
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
    return Bucket(
        torch.tensor(variables, dtype=torch.long, device="cpu"),
        torch.from_numpy(seen),
        num_flipped,
        num_states,
        num_features,
        torch.from_numpy(rows),
        *firsts,
    )
