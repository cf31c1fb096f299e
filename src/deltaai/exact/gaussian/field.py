"""A Gaussian field: log density, log Z, means, variances, covariances, samples, conditioning.

    p(x) ∝ exp(c + hᵀx - ½ xᵀQx),    log Z = c + ½ hᵀQ⁻¹h + ½ n log 2π - ½ log det Q

with a sparse precision matrix Q and a shift h, so the mean is Q⁻¹h and the covariance Q⁻¹. One
factor of Q serves all of these. Variables are numbers here; models, names of evidence and answers
are the matter of :mod:`deltaai.exact.gaussian.inference`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from deltaai.arguments import checked_count, checked_samples
from deltaai.budget import Budget
from deltaai.errors import MemoryLimitError, ModelError, StateError
from deltaai.exact.gaussian.factor import Factor
from deltaai.exact.gaussian.fill import GaussianCost, gaussian_cost, gaussian_elimination
from deltaai.exact.gaussian.precision import checked_precision, named
from deltaai.exact.gaussian.selected_inverse import variances
from deltaai.graphs import Elimination, UndirectedGraph, eliminate
from deltaai.randomness import Randomness, as_generator

_LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False)
class GaussianField:
    """A Gaussian density on the whole of R^n, not normalised.

    Nothing is factorised before a question is asked, and then once.

    Parameters
    ----------
    precision : Q, symmetric and positive definite; a matrix of numpy or scipy.
    shift : h, one number a variable.
    constant : c.
    names : of the variables, for errors.
    memory_limit : bytes it may take (default: half of what is free).
    order : of elimination, if one is known.

    Examples
    --------
    >>> walk = GaussianField([[2.0, -1.0], [-1.0, 2.0]], [0.0, 3.0])
    >>> walk.means().round(3), walk.variances().round(3)
    (array([1., 2.]), array([0.667, 0.667]))
    >>> round(walk.given({0: 1.0}).means().item(), 3)
    2.0
    """

    precision: Any
    shift: Any
    constant: float | int = 0.0
    names: Sequence[str] = ()
    memory_limit: int | None = field(default=None, repr=False)
    order: Sequence[int] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        precision = checked_precision(self.precision, self.names)
        shift = np.asarray(self.shift, dtype=np.float64)
        if shift.shape != (precision.shape[0],):
            raise ModelError(
                f"the shift has shape {shift.shape}, and the precision matrix is of "
                f"{precision.shape[0]} variables"
            )
        if not np.isfinite(shift).all():
            wrong = int((~np.isfinite(shift)).argmax())
            raise ModelError(f"the shift of {named(self.names, wrong)} is {shift[wrong]}")
        if not math.isfinite(self.constant):
            raise ModelError(f"the constant of the field is {self.constant}")
        object.__setattr__(self, "precision", precision)
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "constant", float(self.constant))

    @property
    def num_variables(self) -> int:
        """How many variables there are."""
        return len(self.shift)

    # -- answers -------------------------------------------------------------------------------

    def log_partition(self) -> float:
        """Log of the integral of the density."""
        with np.errstate(over="ignore"):  # what overflows is refused below
            half = 0.5 * float(self.shift @ self._means)
        total = self.constant + half + self.log_normaliser
        if not math.isfinite(total):
            raise ModelError(
                f"log Z is {total}: the shifts of the factors are too large for their precisions; "
                "use other units"
            )
        return total

    @property
    def log_normaliser(self) -> float:
        """½ n log 2π - ½ log det Q: log Z where shift and constant are zero."""
        return 0.5 * (self.num_variables * _LOG_TWO_PI - self.factor.log_determinant)

    def means(self) -> Float[np.ndarray, "var"]:
        """Q⁻¹ h."""
        return self._means.copy()

    def variances(self) -> Float[np.ndarray, "var"]:
        """The diagonal of Q⁻¹."""
        return self._variances.copy()

    def covariance(self, variables: Sequence[int]) -> Float[np.ndarray, "some some"]:
        """Joint covariance of some variables, which need not be neighbours."""
        last = self.num_variables - 1
        chosen = [checked_count("the number of a variable", v, 0, last) for v in variables]
        needed = 8 * 4 * self.num_variables * len(chosen)
        self._budget.refuse(f"covariances of {len(chosen)} variables", needed, "ask for fewer")
        units = np.zeros((self.num_variables, len(chosen)))
        units[chosen, range(len(chosen))] = 1.0
        found = self.factor.solve(units)[chosen]
        return np.asarray(found + found.T) / 2

    def sample(
        self, num_samples: int, generator: Randomness = None
    ) -> Float[np.ndarray, "sample var"]:
        """Draw independent exact samples; a seed makes a generator."""
        count, source = checked_samples(num_samples, 0), as_generator(generator)
        needed = 8 * 5 * count * self.num_variables
        self._budget.refuse(f"{count} samples", needed, "draw fewer at a time")
        return np.asarray(self.centred(count, source) + self._means[:, None]).T

    def centred(
        self, num_samples: int, generator: torch.Generator | None
    ) -> Float[np.ndarray, "var sample"]:
        """Samples less their mean, one column each."""
        shape = (self.num_variables, num_samples)
        where = "cpu" if generator is None else generator.device
        noise = torch.randn(shape, dtype=torch.float64, generator=generator, device=where)
        return self.factor.spread(noise.cpu().numpy())

    def log_density(self, x: Any) -> Float[np.ndarray, "sample"]:  # noqa: ANN401
        """Log of the density as it was given, without log Z."""
        x = self._checked(x)
        return np.asarray(self.constant + x @ self.shift) - 0.5 * self._squares(x)

    def log_prob(self, x: Any) -> Float[np.ndarray, "sample"]:  # noqa: ANN401
        """Log of the normalised density, from the distance to the mean: large means cancel."""
        away = self._checked(x) - self._means
        return -self.log_normaliser - 0.5 * self._squares(away)

    def given(self, values: Mapping[int, float | int]) -> GaussianField:
        """The field of the others where some variables have a value, in their order.

        Its integral is that over the others: log Z given the evidence.
        """
        last = self.num_variables - 1
        fixed = [checked_count("the number of a variable", v, 0, last) for v in values]
        held = np.array([float(value) for value in values.values()])
        if not np.isfinite(held).all():
            wrong = fixed[int((~np.isfinite(held)).argmax())]
            raise StateError(f"the value of {named(self.names, wrong)} is {values[wrong]}")
        is_free = np.ones(self.num_variables, dtype=bool)
        is_free[fixed] = False
        free = is_free.nonzero()[0]
        rows = self.precision[fixed] if fixed else self.precision[:0]
        inside = float(held @ self.shift[fixed] - 0.5 * held @ (rows[:, fixed] @ held))
        return GaussianField(
            self.precision[free][:, free],
            self.shift[free] - rows[:, free].T @ held,
            self.constant + inside,
            tuple(self.names[v] for v in free.tolist()) if self.names else (),
            self.memory_limit,
        )

    def shifted(self, shift: Float[np.ndarray, "var"], constant: float | int) -> GaussianField:
        """The same precision with another shift: what is known of the precision stays known."""
        other = replace(self, shift=shift, constant=constant)
        for name in ("elimination", "cost", "factor", "_variances"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    # -- inside --------------------------------------------------------------------------------

    @cached_property
    def graph(self) -> UndirectedGraph:
        """An edge between any two variables with an entry in the precision matrix."""
        entries = self.precision.tocoo()
        row, column = entries.coords
        is_upper = row < column
        edges = np.stack((row[is_upper], column[is_upper]), axis=1).astype(np.int64)
        return UndirectedGraph.from_edges(self.num_variables, edges)

    @cached_property
    def elimination(self) -> Elimination:
        """The order of elimination, with its fronts; refused where not even those would fit."""
        with self._budget.watched("the elimination order"):
            if self.order is not None:
                return eliminate(self.graph, self.order)
            return gaussian_elimination(self.graph)

    @cached_property
    def cost(self) -> GaussianCost:
        """What the factor takes: known before it is made."""
        return gaussian_cost(self.elimination)

    @cached_property
    def factor(self) -> Factor:
        """The factor of the precision matrix.

        Raises
        ------
        MemoryLimitError
            If it would not fit; raised before it is made.
        ModelError
            If the matrix is not positive definite, so that the density does not integrate.
        """
        if self.cost.peak_bytes > self._budget.memory:
            raise MemoryLimitError(self.cost.width, self.cost.peak_bytes, self._budget.memory)
        return Factor.of(self.precision, self.elimination.order, self.names)

    @property
    def _budget(self) -> Budget:
        return Budget.of(self.memory_limit)

    @cached_property
    def _means(self) -> Float[np.ndarray, "var"]:
        return self.factor.solve(self.shift)

    @cached_property
    def _variances(self) -> Float[np.ndarray, "var"]:
        return variances(self.factor, self.elimination)

    def _squares(self, x: Float[np.ndarray, "sample var"]) -> Float[np.ndarray, "sample"]:
        """Each xᵀQx."""
        product: np.ndarray = self.precision @ x.T
        return np.asarray((product.T * x).sum(1))

    def _checked(self, x: Any) -> Float[np.ndarray, "sample var"]:  # noqa: ANN401
        states = np.asarray(x, dtype=np.float64)
        if states.ndim != 2 or states.shape[1] != self.num_variables:
            raise StateError(
                f"states have shape {states.shape}: they must be (batch, {self.num_variables})"
            )
        return states
