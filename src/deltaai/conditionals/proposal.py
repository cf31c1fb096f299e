"""q itself: conditionals of every variable given what is known, as a product over an order.

    log q(x) = Σ_v log q(x_v | known of v),   parameters of v's head = knowledge + correction

A :class:`Proposal` joins what q knows before training with a family of corrections. It sees the
target live: where p learns, what q knows follows. Orders enter only through ``known``: which
inputs each variable may see, per slot and column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor, nn

from deltaai.conditionals.base import Conditionals, Known
from deltaai.conditionals.context import Context
from deltaai.conditionals.gaussian_knowledge import GaussianKnowledge
from deltaai.conditionals.heads import Exploration
from deltaai.conditionals.knowledge import FactorKnowledge, Knowledge, NoKnowledge
from deltaai.conditionals.layout import Layout
from deltaai.conditionals.normal_given import normal_places, settled_variables
from deltaai.conditionals.quadratic_knowledge import QuadraticKnowledge, SummedKnowledge
from deltaai.conditionals.settled_knowledge import SettledKnowledge
from deltaai.errors import ModelError, Setting
from deltaai.graphs import Dag
from deltaai.models import Columns, FactorGraph, Target

Observed = Bool[Tensor, "var batch"]


class Proposal:
    """A sampler's distribution: what is known of a target, and conditionals that correct it.

    Parameters
    ----------
    target : p, all of whose factors are positive.
    conditionals : the corrections.
    knowledge : what q knows before training; ``True`` for the log-factors inside the known,
        ``False`` for nothing.
    context_network : maps what is given with each column, one row each, to features that every
        conditional sees; trained with q.
    context_dtype : precision of the products by which that is done; ``None`` for that of the
        weights. What comes out, and all else, has the precision of the weights.
    """

    def __init__(
        self,
        target: Target | FactorGraph,
        conditionals: Conditionals,
        *,
        knowledge: Knowledge | bool = True,
        context_network: nn.Module | None = None,
        context_dtype: torch.dtype | None = None,
    ) -> None:
        self.target = target if isinstance(target, Target) else Target(target)
        self.conditionals, self.context_network = conditionals, context_network
        self.context_dtype = context_dtype
        self.layout: Layout = conditionals.layout
        first = next(iter(conditionals.parameters()), None)
        self.dtype = self.target.model.dtype if first is None else first.dtype
        refuse_zeros(self.model)
        if knowledge is True:
            knowledge = knowledge_of(self.target, self.layout, self.dtype)
        self.knowledge = knowledge or NoKnowledge(self.layout)

    @property
    def model(self) -> FactorGraph:
        """The target as it is at this moment, in the precision of the conditionals."""
        return self.target.now(self.dtype)

    @property
    def scorer(self) -> FactorGraph:
        """The target as it is at this moment, in double: scores are sums of many factors."""
        return self.target.now(torch.float64)

    @property
    def device(self) -> torch.device:
        """Where it is evaluated."""
        return self.layout.device

    @property
    def has_modes(self) -> bool:
        """Whether real variables may have several modes, as far as is known before training."""
        units = self.target.units
        return units is not None and not units.has_one_mode

    @property
    def is_informed(self) -> bool:
        """Whether q knows anything before training."""
        return not isinstance(self.knowledge, NoKnowledge)

    def tempered(self, beta: float | int) -> Proposal:
        """Return the same conditionals for the target at another inverse temperature."""
        target = self.target.tempered(beta)
        if target is self.target:
            return self
        return Proposal(
            target,
            self.conditionals,
            knowledge=self.knowledge,
            context_network=self.context_network,
            context_dtype=self.context_dtype,
        )

    @property
    def trained(self) -> nn.ModuleDict:
        """Everything of it that is trained."""
        parts: dict[str, nn.Module] = {"conditionals": self.conditionals}
        if self.context_network is not None:
            parts["context_network"] = self.context_network
        return nn.ModuleDict(parts)

    def parameter_groups(self, learning_rate: float | int) -> list[dict[str, Any]]:
        """Groups for an optimiser; some parameters may have another rate."""
        groups = self.conditionals.parameter_groups(learning_rate)
        if self.context_network is not None:
            learned = list(self.context_network.parameters())
            groups.append({"params": learned, "lr": learning_rate})
        return groups

    def context_of(self, given: Float[Tensor, "batch *feature"] | None) -> Context | None:
        """What its conditionals see of what is given with each column; computed once for all."""
        if self.context_network is None or given is None:
            return None
        if self.context_dtype is None:
            return self.conditionals.context_terms(self.context_network(given).T)
        with torch.autocast(self.device.type, self.context_dtype, cache_enabled=False):
            context = self.conditionals.context_terms(self.context_network(given).T)
        return context.to(self.dtype)

    @property
    def value_dtype(self) -> torch.dtype:
        """Type of values as they are drawn: whole numbers if all are states."""
        return torch.long if self.layout.is_discrete else self.dtype

    def anything(
        self, num_columns: int, generator: torch.Generator | None
    ) -> Num[Tensor, "var batch"]:
        """Values of all variables that have nothing to do with p: uniform, or widely spread."""
        shape = (self.layout.num_variables, num_columns)
        columns = torch.zeros(shape, dtype=self.value_dtype, device=self.device)
        wide = Exploration(1.0, 1.0)
        for block in self.layout.blocks:
            nothing = (block.size, block.num_logits, num_columns)
            zeros = torch.zeros(nothing, dtype=self.dtype, device=self.device)
            drawn = block.head.sample(zeros, wide, None, generator)
            columns.index_copy_(0, block.variables, drawn.to(columns.dtype))
        return columns

    def propose(
        self,
        columns: Columns,
        generator: torch.Generator | None,
        known: Known = None,
        given: Float[Tensor, "batch *feature"] | None = None,
    ) -> Columns:
        """Another value for every variable; real ones are drawn anew from their conditionals."""
        if self.layout.is_discrete:
            return self.layout.encoding.propose(columns, generator)
        with torch.no_grad():
            context = self.context_of(given)
            logits = self.conditionals.logits(self.features(columns), known, context)
            logits = logits + self.known_logits(columns, known)
            others = columns.clone()
            for block in self.layout.blocks:
                values = columns.index_select(0, block.variables)
                drawn = block.head.propose(values, generator, block.rows_of(logits))
                others.index_copy_(0, block.variables, drawn.to(others.dtype))
        return others

    def features(self, columns: Columns) -> Float[Tensor, "feature_row batch"]:
        """Full states, encoded."""
        return self.layout.encoding.encode(columns, self.dtype)

    def log_changes(
        self,
        columns: Columns,
        others: Columns,
        given: Float[Tensor, "batch *feature"] | None = None,
    ) -> Float[Tensor, "var batch"]:
        """Change of log p when one variable takes its value in ``others``, for each alone."""
        return self.target.log_changes(columns, others, self.dtype, given)

    def known_logits(self, columns: Columns, known: Known = None) -> Float[Tensor, "row batch"]:
        """What q knows of every variable before training, at full states."""
        return self.knowledge.logits(self.model, columns, known)

    def log_conditionals(
        self,
        columns: Columns,
        known: Known = None,
        context: Context | None = None,
    ) -> Float[Tensor, "var batch"]:
        """Log q(x_v | known) of every variable at full states."""
        logits = self.conditionals.logits(self.features(columns), known, context)
        return log_conditionals_of(self.layout, logits + self.known_logits(columns, known), columns)

    def log_prob(
        self,
        columns: Columns,
        known: Known = None,
        observed: Observed | None = None,
        context: Context | None = None,
    ) -> Float[Tensor, "batch"]:
        """Log q(x) of full states under the order that ``known`` describes, given what is observed.

        Parameters
        ----------
        observed : variables that are given in each column, and so have no conditional.
        """
        log_q = self.log_conditionals(columns, known, context)
        return log_q.sum(0) if observed is None else (log_q * ~observed).sum(0)


def knowledge_of(target: Target, layout: Layout, dtype: torch.dtype) -> Knowledge:
    """What is known before training: log-factors inside the known, and normal densities if real."""
    model, units = target.now(dtype), target.units
    if layout.is_discrete:
        return FactorKnowledge(model, layout)
    if units is not None and units.has_one_mode and GaussianKnowledge.is_possible(model, layout):
        touching = GaussianKnowledge(layout, units.anchor)
        if all(group.is_quadratic or not group.arity or group.has_tables for group in model.groups):
            return touching
        places = normal_places(target.now(torch.float64))
        settled = settled_variables(model, layout.inputs, places)
        exact = QuadraticKnowledge(model, layout, places)
        return SettledKnowledge(exact, touching, settled) if settled else touching
    places = normal_places(target.now(torch.float64))
    quadratic = QuadraticKnowledge(model, layout, places)
    return SummedKnowledge(FactorKnowledge(model, layout), quadratic)


def log_conditionals_of(
    layout: Layout, logits: Float[Tensor, "row batch"], columns: Columns
) -> Float[Tensor, "var batch"]:
    """Log q of each variable's value, from the parameters of all heads in the layout's order."""
    result = logits.new_zeros(layout.num_variables, columns.shape[1])
    for block in layout.blocks:
        values = columns.index_select(0, block.variables)
        log_q = block.head.log_density(block.rows_of(logits), values)
        result = result.index_copy(0, block.variables, log_q)
    return result


def known_under(
    layout: Layout, dags: Sequence[Dag], dtype: torch.dtype = torch.float32
) -> Float[Tensor, "slot dag"]:
    """Which inputs come before their variable, in each of several orders; context never does."""
    rank = np.empty((layout.num_variables + 1, len(dags)), dtype=np.int64)
    rank[-1] = layout.num_variables  # padding comes after everything
    for number, dag in enumerate(dags):
        rank[list(dag.order), number] = np.arange(layout.num_variables)
    variable, seen = layout.slot_variable.cpu().numpy(), layout.slot_input.cpu().numpy()
    before = rank[seen] < rank[variable]
    before &= (layout.first_flip_of >= 0).cpu().numpy()[:, None]
    return torch.from_numpy(before).to(layout.device, dtype)


def known_given(
    layout: Layout, before: Float[Tensor, "slot batch"], observed: Observed
) -> Float[Tensor, "slot batch"]:
    """Which inputs are known: those that come before their variable, and those observed.

    Parameters
    ----------
    before : which inputs come before, in each column's order, as :func:`known_under` has it.
    observed : which variables are observed in each column.
    """
    padded = torch.cat((observed, torch.zeros_like(observed[:1])))
    return torch.maximum(before, padded.index_select(0, layout.slot_input).to(before.dtype))


def refuse_zeros(model: FactorGraph) -> None:
    """Refuse a target with zeros: log-ratios between its states are not all defined."""
    for group in model.groups:
        for name, value in group.content():
            if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                raise ModelError(
                    f"the model has zero or non-finite entries ({type(group).__name__}.{name}): "
                    "training needs factors that are positive everywhere; use exact inference, or "
                    "fit with ",
                    Setting("smoothing", 1e-3),
                    " to train on tables without zeros",
                )
