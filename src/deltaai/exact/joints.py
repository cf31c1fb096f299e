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
from deltaai.exact.rows.engine import RowInference
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
    refuse_large(model, names)
    observed = model.resolve_evidence(evidence)
    variables = [model.index(name) for name in names]
    sizes = [model.variables[v].num_states for v in variables]
    free = sorted((v for v in variables if v not in observed), key=lambda v: model.num_states[v])
    table = np.zeros(sizes)
    place = tuple(observed.get(v, slice(None)) for v in variables)
    if not free:
        table[place] = 1.0
        return table
    *fixed, last = free
    rows = torch.full((1, model.num_variables), -1, dtype=torch.long, device="cpu")
    rows[0, list(observed)] = torch.tensor(list(observed.values()), dtype=torch.long, device="cpu")
    choices = [
        torch.arange(model.variables[v].num_states, dtype=torch.long, device="cpu") for v in fixed
    ]
    if fixed:
        product = torch.cartesian_prod(*choices).view(-1, len(fixed))
        rows = rows.repeat(len(product), 1)
        rows[:, fixed] = product
    engine = RowInference(model, [*observed, *fixed], memory_limit=memory_limit)
    found = engine.answer(rows)
    if bool((found.log_partition == -torch.inf).all()):
        raise ImpossibleEvidenceError("the evidence has probability zero under the model")
    first, end = model.state_offsets[last : last + 2].tolist()
    weights = found.log_partition.softmax(0)[:, None]
    joint = (weights * found.marginals[:, first:end].nan_to_num(0.0)).numpy()
    joint = joint.reshape([len(choice) for choice in choices] + [end - first])
    # From the order of work to the order of the question.
    table[place] = joint.transpose([free.index(v) for v in variables if v not in observed])
    return table
