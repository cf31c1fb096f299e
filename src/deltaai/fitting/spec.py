"""What q is: one frozen value that ``fit``, files, checkpoints and experiments go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from deltaai.conditionals import (
    FAMILIES,
    MOST_CONTEXT,
    Layout,
    Proposal,
    build_conditionals,
    evidence_layout,
    fixed_evidence_layout,
    inputs_of,
)
from deltaai.errors import ModelError
from deltaai.graphs import ChordalGraph
from deltaai.models import FactorGraph, Target
from deltaai.randomness import generator_of
from deltaai.sampling import Orders, OrdersKind

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
    """

    orders: OrdersKind = "one"
    family: str = "local"
    hidden: int = 32
    is_informed: bool = True
    evidence: EvidenceFor = None
    smoothing: float | int | None = None

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
    ) -> tuple[Proposal, Orders]:
        """Untrained q for a model, in single precision, and the orders it is for.

        Parameters
        ----------
        model : the target, on the device that q is to be on.
        graph : a chordal graph that contains the model's Markov graph.
        seed : of the initial weights.
        num_together : random orders that share a batch.
        """
        orders = Orders.of(graph, self.orders, num_together)
        layout = self.layout(model, orders)
        conditionals = build_conditionals(
            self.family,
            layout,
            self.hidden,
            takes_masks=self.has_masks,
            generator=generator_of(seed),
        )
        target = Target(model, smoothing=self.smoothing)
        return Proposal(target, conditionals, knowledge=self.is_informed), orders

    def layout(self, model: FactorGraph, orders: Orders) -> Layout:
        """What each conditional may be given: variables of its orders, and perhaps evidence."""
        num_states, structure = model.num_states.tolist(), orders.structure
        if self.evidence == "any":
            return evidence_layout(num_states, structure, MOST_CONTEXT, model.device)
        if self.evidence is not None:
            graph = model.markov_graph()
            return fixed_evidence_layout(num_states, structure, graph, self.evidence, model.device)
        return Layout.build(num_states, inputs_of(structure), device=model.device)

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
        if set(values) != {field.name for field in fields(cls)}:
            raise ModelError("it does not say what kind of sampler it is")
        if values["orders"] not in get_args(OrdersKind):
            raise ModelError(f"its orders are {values['orders']!r}")
        if values["family"] not in tuple(FAMILIES):
            raise ModelError(f"its conditionals are of the family {values['family']!r}")
        if type(values["hidden"]) is not int or values["hidden"] < 1:
            raise ModelError(f"its networks are said to have {values['hidden']!r} hidden units")
        if type(values["is_informed"]) is not bool:
            raise ModelError(f"it is said to be informed: {values['is_informed']!r}")
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
