"""What q is: one frozen value that ``fit``, files, checkpoints and experiments go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import torch

from deltaai.conditionals import (
    FAMILIES,
    MOST_CONTEXT,
    REAL_HEADS,
    Head,
    Layout,
    MessageKnowledge,
    Proposal,
    build_conditionals,
    evidence_layout,
    fixed_evidence_layout,
    head_for,
    inputs_of,
    normal_places,
    refuse_zeros,
    settled_variables,
)
from deltaai.errors import ModelError
from deltaai.graphs import ChordalGraph
from deltaai.messages import MessagePlan
from deltaai.models import FactorGraph, StandardUnits, Target, standard_units
from deltaai.randomness import generator_of
from deltaai.sampling import Orders, OrdersKind

_MOST = 1000  # components of a mixture
MOST_ENTRIES = 2**28  # of a table of messages
EvidenceFor = Literal["any"] | tuple[int, ...] | None


@dataclass(frozen=True)
class SamplerSpec:
    """All that decides what q is, but for its graph and its weights.

    Parameters
    ----------
    orders : one order or many.
    family, hidden : which conditionals q has, and their width.
    is_informed : whether log-factors among the known are part of the conditionals.
    evidence : what evidence q is for: ``"any"``, some variables every time, or none.
    smoothing : what zeros of the tables are floored at, as a share of the largest entry; the model
        keeps its zeros.
    head : conditionals of real variables: ``"normal"``, truncated where they are bounded,
        ``"mixture"``, ``"beta"`` (in boxes), or one registered.
    components : of a mixture.
    message_entries : entries of the tables in which messages from what comes later are computed,
        with which q begins; none for no messages, so that q begins at the log-factors alone.
    """

    orders: OrdersKind = "one"
    family: str = "local"
    hidden: int = 32
    is_informed: bool = True
    evidence: EvidenceFor = None
    smoothing: float | int | None = None
    head: str = "normal"
    components: int = 3
    message_entries: int | None = None

    @property
    def has_masks(self) -> bool:
        """Whether conditionals must be told which of their inputs are known."""
        return self.orders == "many" or self.evidence is not None

    def build(
        self,
        model: FactorGraph,
        graph: ChordalGraph,
        *,
        seed: int = 0,
        num_together: int = 16,
        units: StandardUnits | None = None,
    ) -> tuple[Proposal, Orders]:
        """Untrained q for a model, in single precision, and the orders it is for.

        Parameters
        ----------
        model : the target, on the device that q is to be on.
        graph : a chordal graph that contains the model's Markov graph.
        seed : of the initial weights.
        num_together : random orders that share a batch.
        units : of real variables, which are found if they are not given.
        """
        orders = Orders.of(graph, self.orders, num_together)
        if units is None and not model.is_discrete:
            units = standard_units(model)
        plan = self._messages(model, graph)
        layout = self.layout(model, orders, units, plan)
        conditionals = build_conditionals(
            self.family,
            layout,
            self.hidden,
            takes_masks=self.has_masks,
            generator=generator_of(seed),
        )
        target = Target(model, smoothing=self.smoothing, units=units)
        if plan is None:
            return Proposal(target, conditionals, knowledge=self.is_informed), orders
        refuse_zeros(target.now(torch.float32))
        knowledge = MessageKnowledge(target.now(torch.float32), layout, plan)
        return Proposal(target, conditionals, knowledge=knowledge), orders

    def _messages(self, model: FactorGraph, graph: ChordalGraph) -> MessagePlan | None:
        """Messages in the order of elimination that q draws in the reverse of."""
        if self.message_entries is None:
            return None
        if self.has_masks or not model.is_discrete or not self.is_informed:
            raise ModelError(
                "messages are for models of states, one order without evidence, and a q that "
                "knows the factors"
            )
        return MessagePlan.of(model, graph.order, self.message_entries)

    def layout(
        self,
        model: FactorGraph,
        orders: Orders,
        units: StandardUnits | None = None,
        plan: MessagePlan | None = None,
    ) -> Layout:
        """What each conditional may be given: variables of its orders, and perhaps evidence.

        With messages, these are the variables in the tables of each.
        """
        if plan is not None:
            return Layout.build(
                self._heads(model, units, frozenset()), plan.inputs, device=model.device
            )
        structure = orders.structure
        settled: list[int] = []
        if not self.has_masks and not model.is_discrete and self.is_informed:
            settled = settled_variables(model, inputs_of(structure), normal_places(model))
        variables = self._heads(model, units, frozenset(settled))
        if self.evidence == "any":
            return evidence_layout(variables, structure, MOST_CONTEXT, model.device)
        if self.evidence is not None:
            graph = model.markov_graph()
            return fixed_evidence_layout(variables, structure, graph, self.evidence, model.device)
        return Layout.build(variables, inputs_of(structure), device=model.device)

    def _heads(
        self, model: FactorGraph, units: StandardUnits | None, settled: frozenset[int]
    ) -> list[int | Head]:
        """Numbers of states, and heads of real variables in standard coordinates.

        What is known to be normal has a normal head where others have mixtures.
        """
        found: list[int | Head] = []
        for number, variable in enumerate(model.variables):
            if variable.support is None:
                found.append(variable.num_states)
                continue
            support = variable.support
            if units is not None:
                support = units.support_of(number, support)
            kind = "normal" if number in settled and self.head == "mixture" else self.head
            kind = kind if support.is_box or kind != "beta" else "normal"
            found.append(head_for(support, kind, self.components))
        return found

    def to_dict(self) -> dict[str, Any]:
        """All of it by name, in values that JSON has."""
        evidence = list(self.evidence) if isinstance(self.evidence, tuple) else self.evidence
        return {**asdict(self), "evidence": evidence}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], num_variables: int) -> SamplerSpec:
        """What :meth:`to_dict` gave, checked: it may come from a file of somebody else's.

        Raises
        ------
        ModelError
            If a value is missing or cannot be.
        """
        # Samplers of models without real variables had no heads to choose.
        usual = {"head": cls.head, "components": cls.components, "message_entries": None}
        values = {**usual, **values}
        if set(values) != {field.name for field in fields(cls)}:
            raise ModelError("it does not say what kind of sampler it is")
        if values["head"] not in tuple(REAL_HEADS):
            raise ModelError(f"its real variables are said to have heads {values['head']!r}")
        if type(values["components"]) is not int or not 1 <= values["components"] <= _MOST:
            raise ModelError(f"its mixtures are said to have {values['components']!r} components")
        if values["orders"] not in get_args(OrdersKind):
            raise ModelError(f"its orders are {values['orders']!r}")
        if values["family"] not in tuple(FAMILIES):
            raise ModelError(f"its conditionals are of the family {values['family']!r}")
        if type(values["hidden"]) is not int or values["hidden"] < 1:
            raise ModelError(f"its networks are said to have {values['hidden']!r} hidden units")
        if type(values["is_informed"]) is not bool:
            raise ModelError(f"it is said to be informed: {values['is_informed']!r}")
        entries = values["message_entries"]
        if entries is not None and not (type(entries) is int and 1 <= entries <= MOST_ENTRIES):
            raise ModelError(f"its messages are said to be in tables of {entries!r} entries")
        evidence = _checked_evidence(values["evidence"], num_variables)
        return cls(**{**values, "evidence": evidence})


def _checked_evidence(evidence: object, num_variables: int) -> EvidenceFor:
    if evidence is None:
        return None
    if evidence == "any":
        return "any"
    is_list = isinstance(evidence, list) and all(
        type(variable) is int and 0 <= variable < num_variables for variable in evidence
    )
    if not isinstance(evidence, list) or not is_list:
        raise ModelError(f"it is said to be for evidence on {evidence!r}")
    if sorted(set(evidence)) != evidence or len(evidence) in (0, num_variables):
        raise ModelError(f"it is said to be for evidence on {evidence!r}")
    return tuple(evidence)
