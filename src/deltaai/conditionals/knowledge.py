"""What q knows before training, as numbers that are added to those of its networks.

A component of q, like the networks, and it answers the same three questions: at full states; with
each input changed in turn; for some variables at inputs that are handed over. Two kinds are here:
nothing, and the log-factors inside what is known. A third needs no more than a subclass: tables
over any of a variable's inputs.

Given states, what is known does not depend on the networks, so it is computed once for a batch of
states and used for as many updates as are made on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from deltaai.conditionals.base import Known
from deltaai.conditionals.chosen_factors import ChosenFactors, FactorsByMember
from deltaai.conditionals.flat_tables import FlatTables
from deltaai.conditionals.folded import FoldedBlock, fold
from deltaai.conditionals.informed import FactorTerms, relative_slices
from deltaai.conditionals.layout import Layout
from deltaai.models import Columns, FactorGraph

# Whether an input is known to each of some pairs: the same in all samples, or not.
PairsKnown = Float[Tensor, "pair input"] | Float[Tensor, "pair input batch"] | None


class Knowledge(ABC):
    """What is added to the parameters of every variable's head."""

    layout: Layout

    @property
    def has_tables(self) -> bool:
        """Whether all that is known are tables that compiled drawing can read."""
        return False

    @abstractmethod
    def logits(
        self, model: FactorGraph, columns: Columns, known: Known
    ) -> Float[Tensor, "row batch"]:
        """What is known of every variable at full states."""

    @abstractmethod
    def logits_and_flips(
        self,
        model: FactorGraph,
        columns: Columns,
        others: Columns,
        known: Known,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """The same, and with each input in turn at its value in ``others``."""

    @abstractmethod
    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> Any:  # noqa: ANN401
        """Prepare for being asked about some members of a block, again and again.

        Parameters
        ----------
        known : which inputs are known, if that will be the same every time.
        """

    @abstractmethod
    def logits_at(
        self,
        model: FactorGraph,
        chosen: Any,  # noqa: ANN401
        inputs: Inputs,
    ) -> Float[Tensor, "pair logit batch"] | None:
        """What is known of chosen members at given inputs; ``None`` for nothing."""

    def tables_for_drawing(self, model: FactorGraph) -> list[Tensor]:
        """All that is known, as compiled drawing reads it, if :attr:`has_tables`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Inputs:
    """Values of the inputs of some members of a block.

    Parameters
    ----------
    block, members : whose.
    features : encoded.
    values : a table of values, one row a cell.
    cells : where the value of each input stands in it; anywhere for inputs that are not there.
    known : which of them are known; ``None`` for all.
    """

    block: int
    members: Int[Tensor, "pair"]
    features: Float[Tensor, "pair input feature batch"]
    values: Num[Tensor, "cell batch"]
    cells: Int[Tensor, "pair input"]
    known: PairsKnown = None

    def at(
        self, pairs: Int[Tensor, "some"], inputs: Int[Tensor, "other some"]
    ) -> Num[Tensor, "other some batch"]:
        """Values of some inputs of some of the members."""
        cells = self.cells[pairs, inputs]
        chosen = self.values.index_select(0, cells.flatten())
        return chosen.view(*cells.shape, self.values.shape[1])

    @property
    def mask(self) -> Float[Tensor, "pair input batch"] | None:
        """What is known in each sample."""
        if self.known is None or self.known.ndim == 3:
            return self.known
        return self.known[:, :, None].expand(-1, -1, self.features.shape[3])


class NoKnowledge(Knowledge):
    """Nothing: the networks learn all of it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @property
    def has_tables(self) -> bool:
        """There are none, and none are needed."""
        return True

    def logits(
        self, model: FactorGraph, columns: Columns, known: Known
    ) -> Float[Tensor, "row batch"]:
        """Zeros."""
        return columns.new_zeros(self.layout.num_rows, columns.shape[1], dtype=model.dtype)

    def logits_and_flips(
        self,
        model: FactorGraph,
        columns: Columns,
        others: Columns,
        known: Known,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """Zeros."""
        flips = columns.new_zeros(self.layout.num_flips, columns.shape[1], dtype=model.dtype)
        return self.logits(model, columns, known), flips

    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> None:
        """Nothing to prepare."""

    def logits_at(self, model: FactorGraph, chosen: None, inputs: Inputs) -> None:
        """Nothing."""

    def tables_for_drawing(self, model: FactorGraph) -> list[Tensor]:
        """None at all."""
        return []


class FactorKnowledge(Knowledge):
    """Log-factors inside a variable and its known inputs.

    Parameters
    ----------
    model : the target; only which variables its factors have is kept of it.
    layout : variables and their inputs.
    """

    def __init__(self, model: FactorGraph, layout: Layout) -> None:
        self.layout = layout
        self.terms = FactorTerms(model, layout)
        self._folded: tuple[FactorGraph, tuple[FoldedBlock, ...]] | None = None
        self._flat: FlatTables | None = None
        if FlatTables.is_possible(layout, model):
            self._flat = FlatTables(self.terms.terms, layout, model)

    @property
    def has_tables(self) -> bool:
        """Whether the compiled pass is made for these factors."""
        return self._flat is not None

    def logits(
        self, model: FactorGraph, columns: Columns, known: Known
    ) -> Float[Tensor, "row batch"]:
        """Sum of the log-factors inside each variable and its known inputs."""
        flat = self.flat(columns.shape[1], with_flips=False) if known is None else None
        if flat is not None:
            return flat.logits(model, columns)
        return self.terms.logits(model.groups, columns, known, model.dtype)

    def logits_and_flips(
        self,
        model: FactorGraph,
        columns: Columns,
        others: Columns,
        known: Known,
    ) -> tuple[Float[Tensor, "row batch"], Float[Tensor, "flip batch"]]:
        """The sums at full states, and what a change of one input makes of them."""
        flat = self.flat(columns.shape[1]) if known is None else None
        if flat is not None:
            return flat.logits_and_flips(model, columns, others)
        base = self.logits(model, columns, known)
        repeated = [
            block.rows_of(base)[:, None].expand(-1, block.num_flipped, -1, -1).flatten(0, 2)
            for block in self.layout.blocks
        ]
        with torch.no_grad():
            changes = self.terms.flipped_changes(model.groups, columns, others, known, model.dtype)
        return base, torch.cat([base[:0], *repeated]) + changes

    def flat(self, num_columns: int, *, with_flips: bool = True) -> FlatTables | None:
        """The compiled pass, if it is made for these factors and so many columns are worth it."""
        if self._flat is None or not self._flat.is_worth_it(num_columns, with_flips=with_flips):
            return None
        return self._flat

    def choose(
        self,
        block: int,
        members: Int[Tensor, "pair"],
        known: Float[Tensor, "pair input"] | None = None,
    ) -> tuple[ChosenFactors, ...]:
        """Find the wide factors that may enter the logits of the members."""
        return self._wide.choose(block, members, known)

    def logits_at(
        self, model: FactorGraph, chosen: tuple[ChosenFactors, ...], inputs: Inputs
    ) -> Float[Tensor, "pair logit batch"]:
        """Log-factors inside chosen members and their known inputs."""
        with torch.no_grad():
            mask = inputs.mask
            folded = self._folded_for(model)[inputs.block]
            logits = folded.logits(inputs.members, inputs.features, mask)
            for wide in chosen:
                values = inputs.at(wide.pairs, wide.inputs)
                group = model.groups[wide.group]
                slices = relative_slices(group, wide.factors, values, wide.place)
                if mask is not None:
                    slices = slices * mask[wide.pairs, wide.others].prod(0)[:, None]
                logits = logits.index_add(0, wide.pairs, slices)
            return logits

    def tables_for_drawing(self, model: FactorGraph) -> list[Tensor]:
        """All factors inside the known, as compiled drawing reads them."""
        assert self._flat is not None
        return self._flat.for_drawing(model)

    def _folded_for(self, model: FactorGraph) -> tuple[FoldedBlock, ...]:
        """Unary and pairwise factors as weights; kept while the target is the same value."""
        kept = self._folded
        if kept is None or kept[0] is not model:
            kept = model, fold(self.terms, model.groups, model.dtype)
            self._folded = kept
        return kept[1]

    @cached_property
    def _wide(self) -> FactorsByMember:
        wide = [term for term in self.terms.terms if term.is_wide]
        return FactorsByMember(wide, self.layout)
