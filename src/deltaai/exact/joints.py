"""Exact joint marginals of a few variables, wherever they stand in the model.

With S the variables asked for, b one of them and A the others,

    p(x_S | e) = p(x_A | e) p(x_b | x_A, e),    p(x_A = a | e) ∝ Z(a, e)

so the joint states of A are rows of evidence (:mod:`deltaai.exact.rows.engine`): their log Z gives
the first, and the marginals of b the second. Memory is that of single marginals or less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from deltaai.errors import ImpossibleEvidenceError, NotAffordableError
from deltaai.exact.remainder import Remainder
from deltaai.exact.rows.engine import RowInference
from deltaai.graphs import Elimination, eliminate
from deltaai.models import Evidence, FactorGraph

MOST_ENTRIES = 2**16  # of a joint table


def refuse_large(model: FactorGraph, names: Sequence[str]) -> None:
    """Raise an error if a joint table would be too large to be meant."""
    entries = math.prod(model.variables[model.index(name)].num_states for name in names)
    if entries > MOST_ENTRIES:
        raise NotAffordableError(
            f"the joint marginal of {', '.join(names)} has {entries:,} entries, and "
            f"{MOST_ENTRIES:,} are the most: ask for fewer variables at a time"
        )


def joint_marginal(
    model: FactorGraph,
    names: Sequence[str],
    evidence: Evidence | None = None,
    *,
    memory_limit: int | None = None,
) -> np.ndarray:
    """Joint probabilities of some variables given evidence, one axis a name.

    Parameters
    ----------
    model : the target.
    names : the variables, each once.
    evidence : names to labels or state indices of the observed variables.
    memory_limit : bytes the tables may take (default: half of what is free).

    Examples
    --------
    >>> from deltaai.models import zoo
    >>> joint_marginal(zoo.sprinkler(), ["rain", "sprinkler"], {"wet_grass": "yes"}).round(3)
    array([[0.   , 0.292],
           [0.57 , 0.138]])
    """
    return joint_of(Remainder.of(model, evidence), names, memory_limit=memory_limit)


def joint_of(
    left: Remainder,
    names: Sequence[str],
    *,
    elimination: Elimination | None = None,
    memory_limit: int | None = None,
) -> np.ndarray:
    """Do the same for what evidence leaves, if that has been found already.

    Parameters
    ----------
    left : what evidence leaves of the model.
    elimination : an order of the variables that are left, if one is known.
    """
    refuse_large(left.model, names)
    model, certain = left.reduced, left.fixed
    place_of = {v: place for place, v in enumerate(left.free)}
    asked = [left.model.index(name) for name in names]
    table = np.zeros([left.model.variables[v].num_states for v in asked])
    at = tuple(certain.get(v, slice(None)) for v in asked)
    wanted = [place_of[v] for v in asked if v in place_of]
    if not wanted:
        table[at] = 1.0
        return table
    *fixed, last = sorted(wanted, key=lambda v: model.variables[v].num_states)
    rows = torch.full((1, model.num_variables), -1, dtype=torch.long, device="cpu")
    choices = [
        torch.arange(model.variables[v].num_states, dtype=torch.long, device="cpu") for v in fixed
    ]
    if fixed:
        product = torch.cartesian_prod(*choices).view(-1, len(fixed))
        rows = rows.repeat(len(product), 1)
        rows[:, fixed] = product
    if elimination is not None:
        elimination = _without(fixed, model, elimination)
    engine = RowInference(model, fixed, memory_limit=memory_limit, elimination=elimination)
    found = engine.answer(rows)
    if bool((found.log_partition == -torch.inf).all()):
        raise ImpossibleEvidenceError("the evidence has probability zero under the model")
    first, end = model.state_offsets[last : last + 2].tolist()
    weights = found.log_partition.softmax(0)[:, None]
    joint = (weights * found.marginals[:, first:end].nan_to_num(0.0)).numpy()
    joint = joint.reshape([len(choice) for choice in choices] + [end - first])
    # From the order of work to the order of the question.
    table[at] = joint.transpose([[*fixed, last].index(v) for v in wanted])
    return table


def _without(fixed: Sequence[int], model: FactorGraph, elimination: Elimination) -> Elimination:
    """The order of the others, which are numbered among themselves."""
    others = [v for v in range(model.num_variables) if v not in fixed]
    number = {v: place for place, v in enumerate(others)}
    order = [number[v] for v in elimination.order if v in number]
    return eliminate(model.markov_graph().induced(others), order)
