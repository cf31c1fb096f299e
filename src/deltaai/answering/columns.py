"""The columns of a table of answers: a probability a state, some figures a real variable."""

from __future__ import annotations

from typing import Any

import numpy as np

from deltaai.models import FactorGraph
from deltaai.real_marginals import RealMarginal

# Of a real variable; the last two hold 95 % of it between them.
FIGURES = ("mean", "deviation", "2.5%", "97.5%")
_ENDS = (0.025, 0.975)


def columns_of(model: FactorGraph, name: str) -> tuple[str, ...]:
    """``name=state`` for each state; for a real variable ``name mean`` and so on.

    >>> from deltaai.models import FactorGraph, Variable
    >>> columns_of(FactorGraph([Variable("x", support="line")]), "x")
    ('x mean', 'x deviation', 'x 2.5%', 'x 97.5%')
    """
    variable = model.variables[model.index(name)]
    if variable.is_real:
        return tuple(f"{name} {figure}" for figure in FIGURES)
    return tuple(f"{name}={state}" for state in variable.states)


def figures_of(marginal: Any) -> np.ndarray:  # noqa: ANN401
    """What stands in the columns of a variable."""
    if not isinstance(marginal, RealMarginal):
        return np.asarray(marginal)
    return np.array([marginal.mean, marginal.deviation, *marginal.quantile(np.array(_ENDS))])


def errors_of(marginal: RealMarginal) -> np.ndarray:
    """Standard errors of :func:`figures_of` for a real variable."""
    ends = marginal.quantile_stderr(np.array(_ENDS))
    return np.array([marginal.stderr, marginal.deviation_stderr, *ends])
