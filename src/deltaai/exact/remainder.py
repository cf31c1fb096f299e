"""What evidence leaves of a model: found once, and handed on to all that work with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deltaai.models import Evidence, FactorGraph, conditioned
from deltaai.real_marginals import RealMarginal


@dataclass(frozen=True, eq=False)
class Remainder:
    """A model, and what is left when observed variables and those of one state are taken out.

    Parameters
    ----------
    model : the whole model.
    observed : observed variables and their states or values.
    reduced : the model of the variables that are left.
    free : their numbers in the whole model.
    """

    model: FactorGraph
    observed: dict[int, Any]
    reduced: FactorGraph
    free: tuple[int, ...]

    @classmethod
    def of(cls, model: FactorGraph, evidence: Evidence | None = None) -> Remainder:
        """Take out what evidence names.

        >>> from deltaai.models import zoo
        >>> left = Remainder.of(zoo.sprinkler(), {"rain": "yes"})
        >>> left.observed, left.free
        ({2: 1}, (0, 1, 3))
        """
        return cls.given(model, model.resolve_evidence(evidence))

    @classmethod
    def given(cls, model: FactorGraph, observed: Mapping[int, int | float]) -> Remainder:
        """Take out what is observed, by numbers."""
        single = {v: 0 for v, variable in enumerate(model.variables) if variable.num_states == 1}
        fixed = single | dict(observed)
        free = tuple(v for v in range(model.num_variables) if v not in fixed)
        reduced = conditioned(model, dict(sorted(fixed.items())))
        return cls(model, dict(observed), reduced, free)

    @property
    def fixed(self) -> dict[int, Any]:
        """The variables that are not left, with their states: observed, or without a choice."""
        inferred = set(self.free)
        numbers = range(self.model.num_variables)
        return {v: self.observed.get(v, 0) for v in numbers if v not in inferred}

    def certain_marginals(self) -> dict[int, Any]:
        """Marginals of the variables that are not left, by their numbers.

        >>> from deltaai.models import zoo
        >>> Remainder.of(zoo.sprinkler(), {"rain": "yes"}).certain_marginals()
        {2: array([0., 1.])}
        """
        found: dict[int, Any] = {}
        for number, value in self.fixed.items():
            variable = self.model.variables[number]
            if variable.is_real:
                found[number] = RealMarginal.normal(value, 0.0)
            else:
                found[number] = np.eye(1, variable.num_states, int(value))[0]
        return found
