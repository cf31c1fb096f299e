"""What q knows of real variables before training: the normal density that touches p at a mode.

    log p~(x) ≈ hᵀx - ½ xᵀAx      to second order about a mode

Its conditionals along the order of q come out of eliminating one variable after another, which on a
chordal graph fills in nothing: with a = A_{v,parents} and Λ = A_vv when all that comes after v is
gone,

    x_v | parents ~ N( (h_v - aᵀx_parents) / Λ, 1/Λ ),     A -= a aᵀ/Λ,   h -= a h_v/Λ  (parents)

In a Gaussian model that is q itself; elsewhere networks learn the rest. It is made for one order
without evidence, since what is known must not vary, and for models all of whose variables are real.
"""

from __future__ import annotations

import graphlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from deltaai.conditionals.base import Known
from deltaai.conditionals.heads import RealHead
from deltaai.conditionals.knowledge import Inputs, Knowledge
from deltaai.conditionals.layout import Block, Layout
from deltaai.models import Columns, FactorGraph, FactorGroup
from deltaai.watch import look

MOST_VARIABLES = 4000  # whose matrix is held as a whole
_LEAST_PRECISION = 0.05  # in standard coordinates

Array = npt.NDArray[np.float64]


class _Linear(NamedTuple):
    """Locations of a block's variables, linear in their inputs, and their log-scales."""

    weights: Float[Tensor, "variable 1 input"]
    own: Float[Tensor, "variable 1 1"]
    log_scale: Float[Tensor, "variable 1"]


class GaussianKnowledge(Knowledge):
    """Location and scale of every variable given its parents, from a normal density.

    Parameters
    ----------
    layout : variables and their parents.
    anchor : where the density touches p.
    """

    def __init__(self, layout: Layout, anchor: Float64[Tensor, "var"]) -> None:
        self.layout, self.anchor = layout, anchor
        parents = dict(enumerate(layout.inputs))
        self._order = tuple(graphlib.TopologicalSorter(parents).static_order())
        self._kept: tuple[FactorGraph, tuple[_Linear, ...]] | None = None

    @staticmethod
    def is_possible(model: FactorGraph, layout: Layout) -> bool:
        """Whether it is made for a model and layout."""
        return (
            not layout.has_context
            and len(layout.heads) <= MOST_VARIABLES
            and all(isinstance(head, RealHead) for head in layout.heads)
        )

    def logits(
        self, model: FactorGraph, columns: Columns, known: Known
    ) -> Float[Tensor, "row batch"]:
        """Parameters of every variable's head at full states."""
        parts = [
            self._head_of(block).known_parameters(*self._at(linear, self._seen(block, columns)))
            for block, linear in zip(self.layout.blocks, self._linear(model), strict=True)
        ]
        return torch.cat([part.flatten(0, 1) for part in parts])

    def logits_and_flips(
        self, model: FactorGraph, columns: Columns, others: Columns, known: Known
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """The same, and with each input in turn at its value in ``others``."""
        rows, flips = [], []
        for block, linear in zip(self.layout.blocks, self._linear(model), strict=True):
            head, seen = self._head_of(block), self._seen(block, columns)
            location, log_scale = self._at(linear, seen)
            rows.append(head.known_parameters(location, log_scale).flatten(0, 1))
            moves = (self._seen(block, others) - seen)[:, : block.num_flipped]
            slopes = linear.weights.transpose(1, 2)[:, : block.num_flipped]
            moved = location[:, None] + slopes * moves
            repeated = log_scale[:, None].expand_as(moved)
            flips.append(head.known_parameters(moved, repeated).flatten(0, 2))
        return torch.cat(rows), torch.cat(flips)

    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> None:
        """Nothing to prepare."""

    def logits_at(
        self, model: FactorGraph, chosen: None, inputs: Inputs
    ) -> Float[Tensor, "pair logit batch"]:
        """Parameters of chosen members at given inputs."""
        linear = self._linear(model)[inputs.block]
        some = _Linear(*(part.index_select(0, inputs.members) for part in linear))
        head = self._head_of(self.layout.blocks[inputs.block])
        return head.known_parameters(*self._at(some, inputs.features[:, :, 0]))

    def _at(
        self, linear: _Linear, seen: Float[Tensor, "some input batch"]
    ) -> tuple[Float[Tensor, "some batch"], Float[Tensor, "some batch"]]:
        location = torch.baddbmm(linear.own, linear.weights, seen).squeeze(1)
        return location, linear.log_scale.expand_as(location)

    def _seen(self, block: Block, columns: Columns) -> Float[Tensor, "variable input batch"]:
        """Values of all inputs; of padding any, for its weights are zero."""
        inputs = block.inputs.where(block.inputs < self.layout.num_variables, 0)
        chosen = columns.index_select(0, inputs.flatten())
        return chosen.view(*inputs.shape, columns.shape[1])

    def _head_of(self, block: Block) -> RealHead:
        assert isinstance(block.head, RealHead)
        return block.head

    def _linear(self, model: FactorGraph) -> tuple[_Linear, ...]:
        """The conditionals; kept while the target is the same value."""
        kept = self._kept
        if kept is None or kept[0] is not model:
            precision, shift = touching(model, self.anchor)
            found = _eliminated(precision, shift, self.layout, self._order)
            kept = (
                model,
                tuple(self._block_of(block, *found, model) for block in self.layout.blocks),
            )
            self._kept = kept
        return kept[1]

    def _block_of(
        self, block: Block, weights: list[Array], own: Array, sharpness: Array, model: FactorGraph
    ) -> _Linear:
        padded = np.zeros((block.size, 1, block.num_inputs))
        variables = block.variables.tolist()
        for place, variable in enumerate(variables):
            padded[place, 0, : len(weights[variable])] = weights[variable]
        parts = padded, own[variables][:, None, None], -0.5 * np.log(sharpness[variables])[:, None]
        return _Linear(*(torch.from_numpy(p).to(model.device, model.dtype) for p in parts))


def touching(model: FactorGraph, anchor: Float64[Tensor, "var"]) -> tuple[Array, Array]:
    """A and h of log p~ to second order about a point, as one matrix and one vector."""
    number = model.num_variables
    precision, shift = np.zeros((number, number)), np.zeros(number)
    point = anchor.to(model.device, torch.float64)
    for group in model.groups:
        look()
        if group.arity == 0 or group.has_tables:
            continue
        slope, curvature = _derivatives(group, point[group.scopes.T])
        scopes = group.scopes.cpu().numpy()
        here = anchor.numpy()[scopes]
        # log φ ≈ slope (x - m) - ½ (x - m)ᵀ C (x - m) is quadratic in x with shift slope + C m.
        np.add.at(shift, scopes, slope + np.einsum("fij,fj->fi", curvature, here))
        np.add.at(precision, (scopes[:, :, None], scopes[:, None, :]), curvature)
    return precision, shift


def _derivatives(
    group: FactorGroup, values: Float64[Tensor, "arity factor"]
) -> tuple[Array, Array]:
    """Slope, and minus the second derivative, of every factor at values of its scope."""
    group = group.to(None, torch.float64)
    every = torch.arange(group.num_factors, device=values.device)
    with torch.enable_grad():
        values = values.detach().clone().requires_grad_(True)
        total = group.log_values_at(every, values).sum()
        if not total.requires_grad:
            zeros = np.zeros((group.num_factors, group.arity))
            return zeros, np.zeros((*zeros.shape, group.arity))
        (slope,) = torch.autograd.grad(total, values, create_graph=True)
        rows = []
        for place in range(group.arity):
            row = None
            if slope.requires_grad:
                (row,) = torch.autograd.grad(
                    slope[place].sum(), values, retain_graph=True, allow_unused=True
                )
            rows.append(torch.zeros_like(values) if row is None else -row)
    curvature = torch.stack(rows).permute(2, 0, 1).detach().nan_to_num(0.0, 0.0, 0.0)
    return slope.detach().T.nan_to_num(0.0, 0.0, 0.0).cpu().numpy(), curvature.cpu().numpy()


def _eliminated(
    precision: Array, shift: Array, layout: Layout, order: tuple[int, ...]
) -> tuple[list[Array], Array, Array]:
    """Weights of the parents, own location and precision of every variable."""
    own, sharpness = np.zeros_like(shift), np.zeros_like(shift)
    weights: list[Array] = [np.zeros(0)] * len(shift)
    for variable in reversed(order):
        parents = np.array(layout.inputs[variable], dtype=np.int64)
        across = precision[variable, parents].copy()
        sharpness[variable] = pivot = max(precision[variable, variable], _LEAST_PRECISION)
        own[variable] = shift[variable] / pivot
        weights[variable] = -across / pivot
        precision[np.ix_(parents, parents)] -= np.outer(across, across) / pivot
        shift[parents] -= across * own[variable]
    return weights, own, sharpness
