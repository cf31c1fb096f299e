"""Before running anything: what an exact answer would cost, and whether it is affordable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from deltaai.errors import format_bytes
from deltaai.exact import default_memory_limit, exact_cost, without_fixed
from deltaai.graphs import Elimination, best_elimination
from deltaai.models import Evidence, FactorGraph

Method = Literal["exact", "approximate"]


@dataclass(frozen=True)
class Plan:
    """What a model would cost and which method is recommended.

    Parameters
    ----------
    method : ``"exact"`` if the tables fit, else ``"approximate"``.
    reason : why, in words, with the figures.
    num_variables : variables of the model.
    num_observed : how many of them the evidence fixes.
    width : largest number of neighbours at elimination, in the best order found.
    largest_table : entries of the largest table.
    total_entries : entries of all tables; time is proportional to it.
    predicted_bytes : peak memory of an exact answer.
    memory_limit : what may be used.
    elimination : the order behind the figures, over the variables still free.
    """

    method: Method
    reason: str
    num_variables: int
    num_observed: int
    width: int
    largest_table: int
    total_entries: int
    predicted_bytes: int
    memory_limit: int
    elimination: Elimination = field(repr=False)


def plan(
    model: FactorGraph, evidence: Evidence | None = None, *, memory_limit: int | None = None
) -> Plan:
    """Predict the cost of an exact answer and recommend a method.

    >>> from deltaai.models import zoo
    >>> plan(zoo.ising_lattice(side=6, sigma=0.2, seed=0), memory_limit=10**9).method
    'exact'
    """
    reduced, _ = without_fixed(model, evidence)
    states = reduced.num_states.tolist()
    elimination = best_elimination(reduced.markov_graph(), states)
    cost = exact_cost(elimination, states)
    limit = default_memory_limit() if memory_limit is None else memory_limit
    is_affordable = cost.peak_bytes <= limit
    needs = f"needs about {format_bytes(cost.peak_bytes)} of the {format_bytes(limit)} allowed"
    return Plan(
        method="exact" if is_affordable else "approximate",
        reason=(
            f"an exact answer {needs} (width {cost.width})"
            if is_affordable
            else f"an exact answer {needs} (width {cost.width}): raise the memory limit, give "
            "evidence that cuts the model, or approximate"
        ),
        num_variables=model.num_variables,
        num_observed=len(model.resolve_evidence(evidence)),
        width=cost.width,
        largest_table=cost.largest_table,
        total_entries=cost.total_entries,
        predicted_bytes=cost.peak_bytes,
        memory_limit=limit,
        elimination=elimination,
    )
