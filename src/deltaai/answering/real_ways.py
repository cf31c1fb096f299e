"""The ways to an answer about a model whose evidence leaves real variables.

A Gaussian one is answered exactly, by one sparse factor (:func:`gaussian`); any other needs a
sampler (:func:`sampled`). There are no tables here, no zeros to propagate, and no parts.
"""

from __future__ import annotations

from deltaai.answering.ways import Limits, Method, Option, Way, amortised, needs
from deltaai.exact import ExactCost, GaussianCost, gaussian_cost, gaussian_elimination, not_gaussian
from deltaai.fitting import training_cost
from deltaai.models import FactorGraph

# Seconds for a multiplication and for a variable, of the factor and of the variances.
_SECONDS_PER_OPERATION, _SECONDS_PER_VARIABLE = 5e-9, 2e-4


def real_ways(method: Method, model: FactorGraph, limits: Limits) -> tuple[Way, list[Option]]:
    """The first way, with its order, and all that were looked at.

    Parameters
    ----------
    method : what an exact answer is called here.
    model : what evidence leaves, with real variables.
    """
    problem = not_gaussian(model)
    way = gaussian(method, model, limits, problem)
    options = [way.option]
    if not way.option.is_affordable:
        options.append(amortised(training_cost(model), limits))
    return way, options


def gaussian(method: Method, model: FactorGraph, limits: Limits, problem: str | None) -> Way:
    """One factor of the precision matrix; of no use if a problem is known."""
    elimination = gaussian_elimination(model.markov_graph())
    cost = gaussian_cost(elimination)
    total = ExactCost(cost.width, cost.largest_block, cost.factor_entries, cost.peak_bytes)
    if problem is not None:
        reason = f"not Gaussian, for {problem}"
        return Way(Option(method, cost.peak_bytes, 0.0, False, reason), total, elimination)
    seconds = gaussian_seconds(cost, model.num_variables)
    words = needs("an exact answer", cost.peak_bytes, seconds, limits)
    given = " after the evidence" if method == "exact after evidence" else ""
    reason = f"{words} (Gaussian, width {cost.width}{given})"
    is_affordable = limits.allow(cost.peak_bytes, seconds)
    return Way(Option(method, cost.peak_bytes, seconds, is_affordable, reason), total, elimination)


def gaussian_seconds(cost: GaussianCost, num_variables: int) -> float:
    """Time of an exact answer about a Gaussian model, roughly."""
    return _SECONDS_PER_OPERATION * cost.operations + _SECONDS_PER_VARIABLE * num_variables
