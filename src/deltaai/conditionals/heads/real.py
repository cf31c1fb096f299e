"""What heads of real variables share: one feature, proposals drawn afresh, wide exploration.

A head *reads* its parameters, that is, brings them into the range that is computed with, and says
in two parts how dense a value is:

    log q(x) = kernel(x) - normaliser

A log-ratio needs the kernel alone. Values are in standard coordinates: a box is [-1, 1], a
half-line begins at zero. Draws lie strictly inside the support, in the precision of the parameters.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals.heads.base import Exploration, Head, LogDensity, Parameters, Values
from deltaai.errors import ModelError, shown
from deltaai.randomness import normal, uniform

Read = tuple[Tensor, ...]  # what a head has read from its parameters
Known = Float[Tensor, "*lead batch"]
WIDE = 3.0  # deviation of the exploration of unbounded supports, in standard units


class RealHead(Head):
    """A kind of real variable."""

    @property
    def is_real(self) -> bool:
        """It is."""
        return True

    @property
    def num_features(self) -> int:
        """The value itself."""
        return 1

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """Ends of the interval of values; infinite where there is none."""

    @abstractmethod
    def known_parameters(self, location: Known, log_scale: Known) -> Parameters:
        """Parameters that say where a value is known to be, and how closely.

        What a body gives is added to them. Zeros are for a variable of which nothing is known.

        Parameters
        ----------
        location, log_scale : of a normal distribution, which is truncated to the support.
        """

    @abstractmethod
    def read(self, parameters: Parameters) -> Read:
        """What the parameters mean, in the range that is computed with."""

    @abstractmethod
    def log_kernel(self, read: Read, values: Values) -> LogDensity:
        """Log-density up to what does not depend on the value; values have the right dtype."""

    @abstractmethod
    def log_normaliser(self, read: Read) -> LogDensity:
        """Log-integral of the kernel."""

    @abstractmethod
    def draw(
        self,
        parameters: Parameters,
        inverse_temperature: float | Float[Tensor, "*lead batch"],
        generator: torch.Generator | None,
    ) -> Values:
        """Draw values, which may lie on an end of the support by rounding."""

    def log_density(self, parameters: Parameters, values: Values) -> LogDensity:
        """Log q of values inside the support."""
        read = self.read(parameters)
        return self.log_kernel(read, values.to(parameters.dtype)) - self.log_normaliser(read)

    def log_ratio(self, parameters: Parameters, values: Values, others: Values) -> LogDensity:
        """Difference of two kernels."""
        read = self.read(parameters)
        here = self.log_kernel(read, values.to(parameters.dtype))
        return here - self.log_kernel(read, others.to(parameters.dtype))

    @torch.no_grad()
    def sample(
        self,
        parameters: Parameters,
        exploration: Exploration,
        scale: Float[Tensor, "*lead batch"] | None,
        generator: torch.Generator | None,
    ) -> Values:
        """Draw values; gradients do not pass.

        A temperature T is for q^(1/T), normalised: the variance of a normal distribution times T.
        The uniform share is drawn from the box; where an end is infinite, from a normal
        distribution of deviation 3 around zero, folded at the end that there is.
        """
        inverse = 1 / exploration.temperature if scale is None else scale
        values = self.draw(parameters, inverse, generator)
        share = exploration.uniform_share
        if share:
            chance = uniform(values.shape, generator, dtype=values.dtype, device=values.device)
            values = torch.where(chance < share, _wide(values, *self.support, generator), values)
        return strictly_inside(values, *self.support)

    def propose(
        self,
        values: Values,
        generator: torch.Generator | None,
        parameters: Parameters | None = None,
    ) -> Values:
        """Draw from the conditional itself, whatever the values are."""
        if parameters is None:
            raise ModelError(
                f"another value of a real variable is drawn from its conditional, and {self!r} was "
                "given no parameters: pass those of the conditional"
            )
        others = self.sample(parameters, Exploration(), None, generator)
        return strictly_inside(others.to(values.dtype), *self.support)

    def encode(self, values: Values, dtype: torch.dtype) -> Float[Tensor, "*lead feature batch"]:
        """The value itself."""
        return values.to(dtype).unsqueeze(-2)


def strictly_inside(values: Values, low: float, high: float) -> Values:
    """Values that rounding put on an end, moved to the next number inside."""
    return values.clamp(*_innermost(low, high, values.dtype))


def checked_ends(kind: str, low: float | int, high: float | int) -> tuple[float, float]:
    """Ends of a support as numbers that print alike when they are equal.

    >>> checked_ends("Beta", 1, -1)
    Traceback (most recent call last):
    deltaai.errors.ModelError: Beta has a support from 1 to -1: its low end must be below its high
    one
    """
    for end in (low, high):
        if isinstance(end, bool) or not isinstance(end, int | float):
            raise ModelError(f"{kind} has a support with an end {shown(end)}: give two numbers")
    if not low < high:
        raise ModelError(
            f"{kind} has a support from {low} to {high}: its low end must be below its high one"
        )
    return float(low) + 0.0, float(high) + 0.0  # minus zero becomes zero


def _wide(like: Values, low: float, high: float, generator: torch.Generator | None) -> Values:
    """Draws from all over the support."""
    if math.isfinite(low) and math.isfinite(high):
        chance = uniform(like.shape, generator, dtype=like.dtype, device=like.device)
        return low + (high - low) * chance
    around = WIDE * normal(like.shape, generator, dtype=like.dtype, device=like.device)
    if math.isfinite(low):
        return low + around.abs()
    return high - around.abs() if math.isfinite(high) else around


@cache
def _innermost(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """The first and last number inside a support; beside zero, one that is not subnormal."""
    ends = torch.tensor([low, high], dtype=dtype, device="cpu")
    first, last = torch.nextafter(ends, ends.flip(0)).tolist()
    tiny = torch.finfo(dtype).tiny
    return (tiny if low == 0 else first), (-tiny if high == 0 else last)
