"""Exact answers about a Gaussian model: log Z, marginals, the mode, samples, densities.

The same verbs as :class:`~deltaai.exact.inference.ExactInference` has for models of states; names
and evidence are dealt with here, the arithmetic in :mod:`deltaai.exact.gaussian.field`. Evidence is
taken out of the model first, so a model may be Gaussian because of it: switches that choose between
normal densities, or variables in a box, are no obstacle once they are observed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.arguments import (
    checked_bytes,
    checked_flag,
    checked_items,
    checked_object,
    checked_samples,
)
from deltaai.budget import Budget, default_memory_limit
from deltaai.display import Card, Shown, plural
from deltaai.errors import (
    EvidenceError,
    GraphError,
    MemoryLimitError,
    ModelError,
    format_bytes,
)
from deltaai.exact.gaussian.assembly import INSTEAD, gaussian_field, not_gaussian
from deltaai.exact.gaussian.fill import GaussianCost
from deltaai.exact.likeliest import MostLikely
from deltaai.exact.remainder import Remainder
from deltaai.graphs import Elimination
from deltaai.io import as_model
from deltaai.models import Evidence, FactorGraph, States, states_frame
from deltaai.randomness import Randomness
from deltaai.real_marginals import RealMarginal


class GaussianInference(Shown):
    """Exact inference by one sparse factor of the precision matrix, within a memory limit.

    Nothing is factorised before a question is asked; the factor is kept for the next one.

    Parameters
    ----------
    model : the target, or the path of a file with one; or what evidence leaves of it, if that has
        been found already.
    evidence : names to values of the observed variables.
    memory_limit : bytes it may take, also as ``"4GB"`` (default: half of what is free).
    elimination : order to use, over the free variables; found here by default.

    Raises
    ------
    ModelError
        If the model is not Gaussian, or its density does not integrate.
    MemoryLimitError
        If the factor would not fit; raised before it is made.

    Examples
    --------
    >>> from deltaai.models import LinearGaussian, Variable
    >>> height, reading = Variable("height", support="line"), Variable("reading", support="line")
    >>> prior = LinearGaussian("height", bias=1.7, scale=0.1)
    >>> noise = LinearGaussian("reading", ["height"], [1.0])
    >>> model = FactorGraph([height, reading], [prior, noise])
    >>> answer = GaussianInference(model, {"reading": 2.7})
    >>> print(answer.marginals()["height"])
    1.710 ± 0.100 [1.515, 1.905]
    """

    def __init__(
        self,
        model: FactorGraph | Remainder | str | Path,
        evidence: Evidence | None = None,
        *,
        memory_limit: int | str | None = None,
        elimination: Elimination | None = None,
    ) -> None:
        memory_limit = checked_bytes(memory_limit)
        if not isinstance(model, Remainder):
            model = Remainder.of(as_model(model), evidence)
        self.model, self.observed, self.free = model.model, model.observed, model.free
        self._fixed, self._certain = model.fixed, model.certain_marginals()
        problem = not_gaussian(model.reduced)
        if problem is not None:
            raise ModelError(
                f"the model is not Gaussian, for {problem}: no exact answer is known, so {INSTEAD}"
            )
        limit = default_memory_limit() if memory_limit is None else memory_limit
        order = None
        if elimination is not None:
            remedy = "leave it out, or make one with eliminate"
            order = checked_object(
                "elimination", elimination, Elimination, remedy, GraphError
            ).order
            if len(order) != len(self.free):
                raise GraphError(
                    f"the elimination is over {len(order)} variables, and {len(self.free)} are "
                    "free: leave it out, or make one for these"
                )
        self.field = gaussian_field(model.reduced, limit, order)
        self.cost: GaussianCost = self.field.cost
        if self.cost.peak_bytes > limit:
            raise MemoryLimitError(self.cost.width, self.cost.peak_bytes, limit)
        self._limit = limit

    def _card(self) -> Card:
        given = f", {len(self.observed)} observed" if self.observed else ""
        title = (
            f"Exact Gaussian inference for {plural(self.model.num_variables, 'variable')}{given}"
        )
        verbs = "log_partition(), marginals(), covariance(names), map(), sample(n), log_prob(x)"
        rows = (
            ("width", str(self.cost.width)),
            ("memory", format_bytes(self.cost.peak_bytes)),
            ("answers", verbs),
        )
        return Card(title, rows)

    # -- answers -------------------------------------------------------------------------------

    def log_partition(self) -> float:
        """Log Z: the log of the integral of the density; with evidence, over the free variables."""
        return self.field.log_partition()

    def marginals(self) -> dict[str, Any]:
        """Means, deviations and quantiles of every variable; observed ones are certain."""
        self.field.log_partition()  # refuses what is not finite
        means, variances = self.field.means().tolist(), self.field.variances().tolist()
        found: dict[int, Any] = {
            v: RealMarginal.normal(mean, variance)
            for v, mean, variance in zip(self.free, means, variances, strict=True)
        }
        found |= self._certain
        return {v.name: found[number] for number, v in enumerate(self.model.variables)}

    def covariance(self, names: Sequence[str]) -> Float[np.ndarray, "some some"]:
        """Joint covariance of some variables, in the order of their names; zero where observed.

        The name of a vector stands for all of its coordinates.
        """
        listed = checked_items("names", names, "names", EvidenceError)
        numbers = [number for name in listed for number in self.model.places(name)]
        if len(set(numbers)) < len(numbers):
            raise EvidenceError(f"the covariance of {listed} needs names, each once")
        place_of = {variable: place for place, variable in enumerate(self.free)}
        wanted = [n for n, number in enumerate(numbers) if number in place_of]
        found = np.zeros((len(numbers), len(numbers)))
        inside = self.field.covariance([place_of[numbers[n]] for n in wanted])
        found[np.ix_(wanted, wanted)] = inside
        return found

    def map(self) -> MostLikely:
        """Find the most likely state, which is the mean, and its log score."""
        self.field.log_partition()
        means = self.field.means()
        state = self._full_states(means[None])[0]
        score = self.field.constant + 0.5 * float(self.field.shift @ means)
        return MostLikely.of(self.model, state, score)

    def sample(
        self,
        num_samples: int,
        generator: Randomness = None,
        *,
        as_frame: bool = False,
    ) -> Any:  # noqa: ANN401
        """Draw independent exact samples, evidence filled in.

        Parameters
        ----------
        num_samples : how many.
        generator : the randomness, or a seed for it.
        as_frame : return a pandas ``DataFrame`` with a column a variable.
        """
        num_samples, as_frame = checked_samples(num_samples, 0), checked_flag("as_frame", as_frame)
        needed = 8 * num_samples * self.model.num_variables
        Budget(self._limit).refuse(f"{num_samples} samples", needed, "draw fewer at a time")
        self.field.log_partition()
        x = self._full_states(self.field.sample(num_samples, generator))
        return states_frame(self.model, x) if as_frame else x

    def log_prob(self, x: States) -> Float[Tensor, "batch"]:
        """Log density of full states given the evidence; -inf where they contradict it."""
        self.model.check_states(x)
        states = x.detach().double().cpu()
        found = torch.from_numpy(self.field.log_prob(states[:, list(self.free)].numpy()))
        for variable, value in self.observed.items():
            found = torch.where(states[:, variable] == value, found, -math.inf)
        return found.to(self.model.device)

    # -- inside --------------------------------------------------------------------------------

    def _full_states(self, free: Float[np.ndarray, "batch free"]) -> States:
        full = torch.zeros(len(free), self.model.num_variables, dtype=torch.float64, device="cpu")
        for variable, value in self._fixed.items():
            full[:, variable] = value
        full[:, list(self.free)] = torch.from_numpy(np.ascontiguousarray(free))
        return full.to(self.model.device)
