"""A mixture of heads: several modes, for conditionals that one normal distribution misses.

    log q(x) = log Σ_k w_k q_k(x),   w = softmax(0, logits)

Parameters are the logits of all components but the first, relative to it, then those of each
component. Bodies begin with zeros, and components that are alike stay alike, so each has an offset
of its own: over a *region* (the box; [-1.5, 1.5] on the line; two units from the end of a
half-line) cut into as many parts as there are components, component k begins in the middle of
part k, with half the part's length as its scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.conditionals.heads.base import Exploration, LogDensity, Parameters, Values
from deltaai.conditionals.heads.beta import Beta
from deltaai.conditionals.heads.categorical import Categorical, with_first
from deltaai.conditionals.heads.location_scale import MOST_LOG_SCALE, LocationScale
from deltaai.conditionals.heads.real import Known, Read, RealHead
from deltaai.errors import ModelError, shown

_MOST_LOGIT = 1e6
_SPREAD = 1.5  # half the region on the line, and around what is known, in units of its scale


@dataclass(frozen=True)
class Mixture(RealHead):
    """A mixture of several components of one kind.

    Parameters
    ----------
    component : what each is: Normal, TruncatedNormal or Beta.
    count : how many there are.
    """

    component: RealHead
    count: int

    def __post_init__(self) -> None:
        if not isinstance(self.component, LocationScale | Beta):
            raise ModelError(
                f"a component of Mixture is {shown(self.component)}: give Normal(), "
                "TruncatedNormal(low, high) or Beta(low, high)"
            )
        if isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1:
            raise ModelError(f"Mixture has {shown(self.count)} components: give a number from 1 up")

    @property
    def support(self) -> tuple[float, float]:
        """That of the components."""
        return self.component.support

    @property
    def num_parameters(self) -> int:
        """Relative logits, and what each component has."""
        return self.count - 1 + self.count * self.component.num_parameters

    def known_parameters(self, location: Known, log_scale: Known) -> Parameters:
        """No logits, and components spread over three scales around the location.

        Their variance together is about that of what is known. On a bounded region they are spread
        no further than it is long.
        """
        _, half = self._region
        spread = _SPREAD * log_scale.clamp(max=MOST_LOG_SCALE).exp()
        if not math.isinf(sum(map(abs, self.support))):
            spread = spread.clamp(max=half)
        places = location.new_tensor(self._places)[:, None]
        parts = self.component.known_parameters(
            location.unsqueeze(-2) + places * spread.unsqueeze(-2),
            (log_scale + math.log(_SPREAD / self.count)).unsqueeze(-2) + torch.zeros_like(places),
        )
        parts = (parts - self._offsets(parts)).flatten(-3, -2)
        logits = parts.new_zeros((*parts.shape[:-2], self.count - 1, parts.shape[-1]))
        return torch.cat((logits, parts), -2)

    def read(self, parameters: Parameters) -> Read:
        """Log-weights relative to the normalisers of the components, and what these have read."""
        logits, parts = self._split(parameters)
        read = self.component.read(parts)
        log_weights = torch.log_softmax(with_first(logits), -2)
        return log_weights - self.component.log_normaliser(read), *read

    def log_kernel(self, read: Read, values: Values) -> LogDensity:
        """The whole log-density: components have normalisers of their own."""
        log_weights, *parts = read
        repeated = values.unsqueeze(-2).expand(log_weights.shape)
        return (log_weights + self.component.log_kernel(tuple(parts), repeated)).logsumexp(-2)

    def log_normaliser(self, read: Read) -> LogDensity:
        """Zero."""
        return torch.zeros_like(read[0].select(-2, 0))

    def draw(
        self,
        parameters: Parameters,
        inverse_temperature: float | Float[Tensor, "*lead batch"],
        generator: torch.Generator | None,
    ) -> Values:
        """Draw a component, then from it.

        A temperature flattens the weights and each component, which is wider than the flattened
        mixture where components overlap, and has the same modes.
        """
        logits, parts = self._split(parameters)
        if isinstance(inverse_temperature, Tensor):
            logits = logits * inverse_temperature.unsqueeze(-2)
        else:
            logits = logits * inverse_temperature
        which = Categorical(self.count).sample(logits, Exploration(), None, generator)
        index = which[..., None, None, :].expand(*which.shape[:-1], 1, parts.shape[-2], -1)
        chosen = parts.gather(-3, index).squeeze(-3)
        return self.component.draw(chosen, inverse_temperature, generator)

    def _split(self, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """Logits, and the parameters of each component with its offset."""
        each = self.component.num_parameters
        sizes = [self.count - 1, self.count * each]
        logits, parts = torch.split(parameters, sizes, -2)
        parts = parts.reshape(*parts.shape[:-2], self.count, each, parts.shape[-1])
        return logits.clamp(-_MOST_LOGIT, _MOST_LOGIT), parts + self._offsets(parts)

    def _offsets(self, like: Tensor) -> Float[Tensor, "component parameter 1"]:
        """What is added to the parameters of each component."""
        centre, half = self._region
        places = like.new_tensor(self._places)[:, None]
        log_scale = torch.full_like(places, math.log(half / self.count))
        return self.component.known_parameters(centre + half * places, log_scale)

    @property
    def _places(self) -> list[float]:
        """Middles of as many equal parts of [-1, 1] as there are components."""
        return [(2 * k + 1) / self.count - 1 for k in range(self.count)]

    @property
    def _region(self) -> tuple[float, float]:
        """Centre and half the length of where components begin."""
        low, high = self.support
        if math.isinf(low) and math.isinf(high):
            return 0.0, _SPREAD
        if math.isinf(high):
            return low + 1, 1.0
        return ((low + high) / 2, (high - low) / 2) if math.isfinite(low) else (high - 1, 1.0)
