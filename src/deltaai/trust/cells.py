"""What marginals are compared by: the states of a variable, or bins of a real one.

A set of weighted samples tells of each variable the probabilities of its cells. For a variable with
states these are the states, and f_i = p(x_v = k | all others in x_i) takes most of the noise out of
counting. A real variable has bins, between quantiles of the samples themselves, and f_i is 1 in the
bin where x_iv lies: no integral is needed, and errors, doubts and their false alarms are those of
any probability. Two sets of samples are compared on the cells of one of them. Where a set lost a
mode, all that is there falls in one of its bins; where its scale is wrong, in the outer ones.

What users see of a real variable is no bins: it is in :mod:`deltaai.real_marginals`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float64, Int, Num
from torch import Tensor

from deltaai.models import FactorGraph

NUM_BINS = 16


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of all variables, in one row.

    Parameters
    ----------
    edges : of each real variable the inner edges of its bins, ascending, none where it is observed;
        ``None`` for variables with states.
    sizes : how many cells each variable has.
    """

    edges: tuple[Float64[Tensor, "edge"] | None, ...]
    sizes: Int[Tensor, "var"]

    @classmethod
    def of(
        cls,
        model: FactorGraph,
        states: Num[Tensor, "sample var"],
        weights: Float64[Tensor, "sample"],
        observed: dict[int, Any],
    ) -> Cells:
        """Bins that share the weight of some samples evenly.

        Parameters
        ----------
        weights : which sum to one.
        """
        edges = tuple(
            _quantiles(states[:, number].double(), weights, number in observed)
            if variable.is_real
            else None
            for number, variable in enumerate(model.variables)
        )
        sizes = [
            variable.num_states if edge is None else len(edge) + 1
            for variable, edge in zip(model.variables, edges, strict=True)
        ]
        return cls(edges, torch.tensor(sizes, dtype=torch.long, device="cpu"))

    @cached_property
    def offsets(self) -> Int[Tensor, "var_plus_one"]:
        """Where each variable's cells begin."""
        zero = torch.zeros(1, dtype=torch.long, device="cpu")
        return torch.cat((zero, self.sizes.cumsum(0)))

    @cached_property
    def is_counted(self) -> Bool[Tensor, "cell"]:
        """Whether a cell is a bin, in which samples are counted."""
        is_real = [edge is not None for edge in self.edges]
        return torch.tensor(is_real, dtype=torch.bool, device="cpu").repeat_interleave(self.sizes)

    @property
    def num_cells(self) -> int:
        """Cells of all variables."""
        return int(self.sizes.sum())

    def place_of(self, variable: int, value: int | float) -> int:
        """The cell of a value."""
        edge = self.edges[variable]
        if edge is None:
            place = int(value)
        else:
            place = int(
                torch.searchsorted(
                    edge,
                    torch.tensor(float(value), dtype=torch.float64, device="cpu").double(),
                    right=True,
                )
            )
        return int(self.offsets[variable]) + place

    def name_of(self, model: FactorGraph, cell: int) -> str:
        """A cell as a person reads it.

        >>> from deltaai.models import Variable
        >>> model = FactorGraph([Variable("x", support=(0, 1)), Variable("rain", ["no", "yes"])])
        >>> cells = Cells((torch.tensor([0.25]).double(), None), torch.tensor([2, 2]))
        >>> [cells.name_of(model, cell) for cell in range(4)]
        ['x below 0.25', 'x above 0.25', 'rain=no', 'rain=yes']
        """
        number = int(torch.searchsorted(self.offsets, cell, right=True)) - 1
        variable, place = model.variables[number], cell - int(self.offsets[number])
        edge = self.edges[number]
        if edge is None:
            return f"{variable.name}={variable.states[place]}"
        if len(edge) == 0:
            return f"{variable.name} anywhere"
        if place == 0:
            return f"{variable.name} below {float(edge[0]):.4g}"
        if place == len(edge):
            return f"{variable.name} above {float(edge[-1]):.4g}"
        return f"{variable.name} from {float(edge[place - 1]):.4g} to {float(edge[place]):.4g}"

    def shares(
        self, model: FactorGraph, states: Num[Tensor, "sample var"]
    ) -> Float64[Tensor, "sample cell"]:
        """F of every sample and cell: a probability given all others, or whether it is there."""
        with torch.no_grad():
            scores = self._scores(model, states)
        is_real = torch.tensor(
            [edge is not None for edge in self.edges], dtype=torch.bool, device="cpu"
        )
        for size in sorted(set(self.sizes[~is_real].tolist())):
            chosen: Bool[Tensor, "var"] = ~is_real & (self.sizes == size)
            cells = self.offsets[:-1][chosen, None] + torch.arange(size, device="cpu")
            # Where no value is possible the sample has no weight, and nothing to say.
            scores[:, cells] = scores[:, cells].softmax(2).nan_to_num(0.0)
        for number, edge in enumerate(self.edges):
            if edge is not None:
                first, last = self.offsets[number : number + 2].tolist()
                values = states[:, number].double().contiguous()
                place = torch.searchsorted(edge, values, right=True)
                scores[:, first:last] = torch.nn.functional.one_hot(place, last - first).double()
        return scores

    def _scores(
        self, model: FactorGraph, states: Num[Tensor, "sample var"]
    ) -> Float64[Tensor, "sample cell"]:
        """Log score of every state of every variable that has some, up to a constant for each."""
        if model.is_discrete:
            return model.local_log_scores(states).double()
        columns = model.columns(states)
        scores = torch.zeros(self.num_cells, len(states), dtype=torch.float64, device="cpu")
        for group in model.groups:
            for place, size in enumerate(group.sizes):
                if size == 0:
                    continue
                slices = group.log_slices(columns, place).double()
                first = self.offsets[group.scopes[:, place]]
                rows = first[:, None] + torch.arange(size, device="cpu")
                scores.index_add_(0, rows.flatten(), slices.flatten(0, 1))
        return scores.T.contiguous()


def _quantiles(
    values: Float64[Tensor, "sample"], weights: Float64[Tensor, "sample"], is_observed: bool
) -> Float64[Tensor, "edge"]:
    """Values that part the weights evenly, each once."""
    if is_observed or len(values) == 0:
        return values[:0]
    order = torch.argsort(values)
    cumulative = weights[order].cumsum(0)
    levels = torch.arange(1, NUM_BINS, dtype=torch.float64, device="cpu") / NUM_BINS
    places = torch.searchsorted(cumulative, levels).clamp(max=len(values) - 1)
    edges: Float64[Tensor, "edge"] = torch.unique(values[order[places]])
    return edges
