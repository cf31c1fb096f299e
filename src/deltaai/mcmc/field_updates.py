"""Gibbs updates of dense pairwise models, from local fields that are kept up to date.

Where nearly every variable is a neighbour of every other, no two can be redrawn at once, and
looking up all factors of one variable at a time is slow. With one indicator z_{vk} = [x_v = k] for
every state k but the first, any model of factors over at most two variables is

    log p~(x) = constant + b · z + ½ zᵀ W z,        log p(x_v = k | rest) - log p(x_v = 0 | rest)
                                                        = b_vk + (W z)_vk =: f_vk,

so the fields f of a few variables in a row are one product with W, for all chains. Within this row
a change of x_v moves the fields of those behind it along columns of W, a rank-one update for two
states. States are drawn as the largest of β f plus Gumbel noise, which has the right probabilities.

Arrays are small and steps are many, so this is in numpy, whose calls cost less than torch's. It is
for constant models without zeros on a CPU; :meth:`FieldSweeps.of` says no to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from deltaai.models import FactorGraph

# Variables whose fields are found by one product, chains at once, and most rows of W.
_TOGETHER, _CHAINS, MOST_FIELDS = 16, 1024, 2048


@dataclass(frozen=True, eq=False)
class FieldSweeps:
    """A pairwise model as a bias and a matrix of couplings between indicators.

    Parameters
    ----------
    couplings : W, symmetric, zero between indicators of one variable.
    bias : b.
    constant : log score of the state in which every variable is at its first state.
    offsets : where the indicators of each variable begin; it has one less than states.
    """

    couplings: Float64[np.ndarray, "field field"]
    bias: Float64[np.ndarray, "field"]
    constant: float
    offsets: Int[np.ndarray, "one_more"]

    @classmethod
    def of(cls, model: FactorGraph) -> FieldSweeps | None:
        """Write a model in this form; none if it has not got it, or is too large for it."""
        sizes = model.num_states.cpu().numpy()
        offsets = np.concatenate(([0], np.cumsum(sizes - 1)))
        if (
            model.device.type != "cpu"
            or offsets[-1] > MOST_FIELDS
            or any(group.arity > 2 for group in model.groups)
            or any(True for _ in model.parameters())
        ):
            return None
        couplings = np.zeros((offsets[-1], offsets[-1]))
        bias, constant = np.zeros(offsets[-1]), 0.0
        for group in model.groups:
            tables = group.log_tables().detach().double().numpy()
            if not np.isfinite(tables).all():
                return None
            constant += float(tables.reshape(len(tables), -1)[:, 0].sum())
            scopes = group.scopes.numpy()
            if group.arity == 1:
                alone = tables[:, 1:] - tables[:, :1]
                np.add.at(bias, _indices(offsets[scopes[:, 0]], alone.shape[1]), alone)
            elif group.arity == 2:
                first, second = offsets[scopes[:, 0]], offsets[scopes[:, 1]]
                alone = tables[:, 1:, 0] - tables[:, :1, 0]
                np.add.at(bias, _indices(first, alone.shape[1]), alone)
                other = tables[:, 0, 1:] - tables[:, 0, :1]
                np.add.at(bias, _indices(second, other.shape[1]), other)
                both = tables[:, 1:, 1:] - tables[:, 1:, :1] - tables[:, :1, 1:] + tables[:, :1, :1]
                rows = _indices(first, both.shape[1])[:, :, None]
                columns = _indices(second, both.shape[2])[:, None]
                np.add.at(couplings, (rows, columns), both)
        return cls(couplings + couplings.T, bias, constant, offsets)

    def sweep(
        self,
        columns: Int[Tensor, "var chain"],
        order: Sequence[int],
        beta: float,
        generator: torch.Generator,
        held: Bool[Tensor, "var chain"] | None = None,
    ) -> None:
        """Draw variables anew, one after the other in an order, in place.

        Parameters
        ----------
        order : variables to update; one may come several times, or not at all.
        held : variables that a chain leaves as they are.
        """
        counts = np.diff(self.offsets)
        moving = [v for v in order if counts[v] > 0]
        states = columns.numpy()
        for start in range(0, states.shape[1], _CHAINS):
            part = slice(start, start + _CHAINS)
            kept = None if held is None else held[:, part].numpy()
            indicators = self._indicators(states[:, part])
            for first in range(0, len(moving), _TOGETHER):
                some = moving[first : first + _TOGETHER]
                self._update(some, indicators, states[:, part], beta, generator, kept)

    def log_score(self, columns: Int[Tensor, "var chain"]) -> Float64[Tensor, "chain"]:
        """Log score of every chain."""
        indicators = self._indicators(columns.numpy())
        fields = 0.5 * (self.couplings @ indicators) + self.bias[:, None]
        return torch.from_numpy(self.constant + np.einsum("fc,fc->c", indicators, fields))

    def _indicators(self, states: Int[np.ndarray, "var chain"]) -> Float64[np.ndarray, "f chain"]:
        counts = np.diff(self.offsets)
        owners = np.repeat(np.arange(len(counts)), counts)
        values = np.arange(self.offsets[-1]) - self.offsets[owners] + 1
        found: np.ndarray = (states[owners] == values[:, None]).astype(np.float64)
        return found

    def _update(
        self,
        some: Sequence[int],
        indicators: Float64[np.ndarray, "field chain"],
        states: Int[np.ndarray, "var chain"],
        beta: float,
        generator: torch.Generator,
        held: Bool[np.ndarray, "var chain"] | None,
    ) -> None:
        """Draw a few variables in a row."""
        ranges = [np.arange(self.offsets[v], self.offsets[v + 1]) for v in some]
        rows = np.concatenate(ranges)
        couplings = beta * self.couplings[rows]
        fields = couplings @ indicators
        fields += beta * self.bias[rows, None]
        fields += _noise([len(own) + 1 for own in ranges], states.shape[1], generator)
        within = couplings[:, rows]
        last = 0
        for variable, own in zip(some, ranges, strict=True):
            first, last = last, last + len(own)
            if len(own) == 1:
                new = fields[first] > 0
                drawn = new.astype(np.float64)[None]
            else:
                best = fields[first:last].argmax(0)
                new = np.where(fields[first:last].max(0) > 0, best + 1, 0)
                drawn = (np.arange(1, len(own) + 1)[:, None] == new).astype(np.float64)
            old = slice(own[0], own[-1] + 1)
            if held is not None:
                new = np.where(held[variable], states[variable], new)
                drawn = np.where(held[variable], indicators[old], drawn)
            if last < len(rows):
                change = drawn - indicators[old]
                fields[last:] += (
                    within[last:, first, None] * change
                    if len(own) == 1
                    else within[last:, first:last] @ change
                )
            indicators[old] = drawn
            states[variable] = new


def _indices(starts: Int[np.ndarray, "factor"], count: int) -> Int[np.ndarray, "factor {count}"]:
    """Indicators of each factor's variable."""
    found: np.ndarray = starts[:, None] + np.arange(count)
    return found


def _noise(
    sizes: Sequence[int], num_chains: int, generator: torch.Generator
) -> Float64[np.ndarray, "field chain"]:
    """Gumbel noise of every state but the first, less that of the first, variable by variable."""
    if all(size == 2 for size in sizes):  # the difference of two has a name and is cheaper
        shape = (len(sizes), num_chains)
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu")
        logistic: np.ndarray = uniform.logit_().numpy()
        return logistic
    shape = (sum(sizes), num_chains)
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu")
    gumbel = uniform.log_().neg_().log_().neg_().numpy()
    starts = np.cumsum(sizes, dtype=np.int64) - np.array(sizes, dtype=np.int64)
    base = np.repeat(gumbel[starts], np.array(sizes) - 1, 0)
    others: np.ndarray = np.delete(gumbel, starts, 0) - base
    return others
