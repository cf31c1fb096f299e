"""Weighted samples given evidence, and what follows from them.

For states x that agree with evidence e, drawn from q with importance weights w, the mean of w
estimates Z(e) = Σ_{x agreeing with e} p~(x), and posterior marginals are weighted means. Each
sample stands for all values of a variable at once (Rao and Blackwell): with w̄ the weights divided
by their sum,

    m_vk = p(x_v = k | e) ≈ Σ_i w̄_i f_i,    f_i = p(x_v = k | all others in x_i)

where f needs the factors with v alone, and takes most of the noise of counting away. A real
variable has bins in place of states, and f is 1 in one of them (:mod:`deltaai.trust.cells`).
Samples come in groups g that are independent of each other (of one sample each, unless they were
resampled); the error of a mean is that of a ratio, by the delta method over groups:

    stderr² = Σ_g ( Σ_{i in g} w̄_i (f_i - m_vk) )²  G / (G - 1)
              +  (max_g w̄_g)² Var(f)  +  (max_i w̄_i  max_i |f_i - m_vk|)²  +  1 / N²

where the last terms stand for one more group as heavy as the heaviest, for one more sample as far
out as any, and for what is too rare to be among N samples: weights are skewed and counts of rare
states too, and a spread that was seen is too small just when they are missing. That of log Z has
such terms too: for one more group as heavy as the heaviest, and for half a group of no weight.

Moving samples (:mod:`deltaai.trust.moving`) leaves p(x | e) as it is, so samples drawn in
proportion to their weights and moved are as good as before, and differ from each other where they
were copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
import torch
from jaxtyping import Float64, Num
from torch import Tensor

from deltaai.arguments import checked_count, checked_flag, checked_object, checked_samples
from deltaai.errors import StateError
from deltaai.importance import (
    ImportanceEstimate,
    estimate_from_log_weights,
    log_means,
    normalised_weights,
)
from deltaai.models import FactorGraph, States
from deltaai.randomness import Randomness, as_generator
from deltaai.real_marginals import RealMarginal
from deltaai.trust.cells import Cells
from deltaai.trust.moving import moved

_CHUNK = 2048  # samples whose conditionals are held at once
_CHUNK_ENTRIES = 2**18  # of samples times pairs: several such tables are alive at once
_ROUNDING = 1e-9
_SWEEPS = 10  # that move resampled samples; halves the error where evidence is unlikely
_BOUND_GROUPS = 25
_BOUND_CONFIDENCE = 0.975
# Draws, times the share of a part, that find it with 95 % probability.
DRAWS_TO_FIND = -math.log(0.05)


@dataclass(frozen=True, eq=False)
class WeightedSamples:
    """States that agree with evidence, with importance weights.

    Parameters
    ----------
    model : the target.
    states : one row each.
    log_weights : log of p~(x) / q(x given the evidence).
    observed : observed variables and their states or values.
    group_size : successive samples that depend on each other; others are independent.
    method : how they were found.
    upper : what no log weight exceeds, and so an upper bound on log Z, if there is one.
    is_certain : whether only what ``upper`` makes certain counts as seen. Weights can be even and
        yet lack a part that is hardly ever drawn.
    given_cells : what marginals are told for, where it is not to follow from the samples.
    """

    model: FactorGraph
    states: Num[Tensor, "sample var"]
    log_weights: Float64[Tensor, "sample"]
    observed: dict[int, Any]
    group_size: int = 1
    method: str = "weighted samples"
    upper: float = math.inf
    is_certain: bool = False
    given_cells: Cells | None = None

    @cached_property
    def cells(self) -> Cells:
        """States of variables, and bins of real ones: what marginals are told for."""
        if self.given_cells is not None:
            return self.given_cells
        weights = normalised_weights(self.log_weights)
        return Cells.of(self.model, self.states, weights, self.observed)

    def on(self, cells: Cells) -> WeightedSamples:
        """The same with the cells of other samples, to be compared with these."""
        return self if self.model.is_discrete else replace(self, given_cells=cells)

    def joined(self, more: WeightedSamples) -> WeightedSamples:
        """These and further samples of the same posterior, drawn apart in groups of one size."""
        checked_object("more", more, WeightedSamples, "take that of posterior", StateError)
        if more.model.variables != self.model.variables or more.observed != self.observed:
            raise StateError("samples can be joined if they are of one model and one evidence")
        if more.group_size != self.group_size or len(self.states) % self.group_size:
            raise StateError("samples can be joined if their groups are whole and of one size")
        states = torch.cat((self.states, more.states))
        return replace(
            self, states=states, log_weights=torch.cat((self.log_weights, more.log_weights))
        )

    @property
    def is_possible(self) -> bool:
        """Whether any of them has a weight."""
        return bool((self.log_weights > -torch.inf).any())

    @property
    def effective(self) -> float:
        """Independent samples of the posterior that these are worth."""
        return self.estimate.ess_fraction * self.num_groups

    @property
    def visible_share(self) -> float:
        """Share of the posterior that a part must have to be among these, in 95 % of cases.

        N independent draws miss a part of share m with probability (1 - m)^N.
        """
        if self.is_certain:
            return self.certain_share
        return min(DRAWS_TO_FIND / self.effective, self.certain_share)

    @property
    def certain_share(self) -> float:
        """The same, however badly the draws represent the posterior; 1 if nothing is certain.

        Where weights have a ceiling exp(U), each draw hits a part of share m with probability
        m Z / exp(U) at least. An estimate of Z that is too low only makes this larger.
        """
        ceiling = math.exp(min(self.upper - self.estimate.log_partition, 700.0))
        return min(DRAWS_TO_FIND * ceiling / self.num_groups, 1.0)

    @property
    def largest_error(self) -> float:
        """The largest standard error of a marginal."""
        return float(self.moments[1].max()) if len(self.moments[1]) else 0.0

    @property
    def num_groups(self) -> int:
        """Independent groups."""
        return -(-len(self.states) // self.group_size)

    @cached_property
    def estimate(self) -> ImportanceEstimate:
        """Log Z given the evidence, with standard error, effective sample size and k-hat."""
        each = estimate_from_log_weights(self.log_weights)
        means = log_means(self.log_weights, self.group_size)
        groups = estimate_from_log_weights(means) if self.group_size > 1 else each
        share = min(each.ess_fraction, groups.ess_fraction)
        unseen = math.expm1(float(means.max()) - groups.log_partition) / len(means)
        # What is too rare to be among them may have no weight at all. How rare: half a draw of
        # them, which is what Jeffreys' prior makes of an event that was never seen.
        rounding = _ROUNDING * (1 + abs(each.log_partition))
        rare = 0.5 * float(means.max() - means.min() > rounding) / len(means)
        return replace(
            each,
            stderr=math.hypot(groups.stderr, unseen, rare, rounding),
            ess=share * each.num_samples,
            ess_fraction=share,
        )

    @cached_property
    def lower_bound(self) -> float:
        """A number that log Z exceeds with 97.5 % confidence, however bad q is.

        By Jensen's inequality the log of a mean of weights is below log Z on average, so the mean
        of such logs over independent parts, less its own error, is a lower bound.
        """
        size = max(self.group_size, len(self.log_weights) // _BOUND_GROUPS)
        logs = log_means(self.log_weights, -(-size // self.group_size) * self.group_size)
        if len(logs) < 2 or not bool(torch.isfinite(logs).all()):
            return -math.inf
        reach = scipy.special.stdtrit(len(logs) - 1, _BOUND_CONFIDENCE) / math.sqrt(len(logs))
        return float(logs.mean() - reach * logs.std())

    def marginals(self, *, is_weighted: bool = True) -> dict[str, Any]:
        """Probabilities of every variable's states, and real marginals; observed ones are certain.

        Without weights they are those of q, which is what a q to be judged is asked for.
        """
        if checked_flag("is_weighted", is_weighted):
            found = self._by_name(self.moments[0])
            return {
                variable.name: self._real_marginal(number)
                if variable.is_real
                else found[variable.name]
                for number, variable in enumerate(self.model.variables)
            }
        even = torch.zeros_like(self.log_weights)
        return replace(self, log_weights=even).marginals()

    def marginal_errors(self) -> dict[str, np.ndarray]:
        """Standard errors of :meth:`marginals`; real ones have their own."""
        errors = self._by_name(self.moments[1])
        return {v.name: errors[v.name] for v in self.model.variables if not v.is_real}

    def _real_marginal(self, number: int) -> RealMarginal:
        if number in self.observed:
            return RealMarginal.normal(self.observed[number], 0.0)
        weights = normalised_weights(self.log_weights).numpy()
        return RealMarginal.weighted(self.states[:, number].numpy(), weights, self.group_size)

    @cached_property
    def moments(self) -> tuple[Float64[Tensor, "pair"], Float64[Tensor, "pair"]]:
        """Means of all cells, and their standard errors."""
        weights, cells = normalised_weights(self.log_weights), self.cells
        mean, square, cross = torch.zeros(3, cells.num_cells, dtype=torch.float64, device="cpu")
        second, highest = torch.zeros_like(mean), torch.zeros_like(mean)
        lowest = torch.ones_like(mean)
        scale = heaviest = torch.zeros((), dtype=torch.float64, device="cpu")
        for part, conditionals in self._conditionals():
            sums = _group_sums(weights[part, None] * conditionals, self.group_size)
            totals = _group_sums(weights[part, None], self.group_size)
            mean += sums.sum(0)
            square += sums.square().sum(0)
            cross += (sums * totals).sum(0)
            second += (sums.square() / totals.clamp(min=torch.finfo(sums.dtype).tiny)).sum(0)
            scale = scale + totals.square().sum()
            heaviest = torch.maximum(heaviest, totals.max())
            highest = torch.maximum(highest, conditionals.amax(0))
            lowest = torch.minimum(lowest, conditionals.amin(0))
        # Where all samples agree, as if all neighbours are observed, rounding is left.
        variance = (square - 2 * mean * cross + mean.square() * scale).clamp(min=_ROUNDING**2)
        spread = self.num_groups / max(self.num_groups - 1, 1)
        for variable, value in self.observed.items():  # certain
            first, last = cells.offsets[variable : variable + 2].tolist()
            mean[first:last] = variance[first:last] = second[first:last] = 0.0
            place = cells.place_of(variable, value)
            mean[place] = second[place] = 1.0
        unseen = heaviest.square() * (second - mean.square()).clamp(min=0)
        # Probabilities given all others that agree are certain; samples in one bin may all be in it
        # because they are few, and one sample agrees with itself.
        may_agree = cells.is_counted | (self.num_groups < 2)
        highest, lowest = highest.where(~may_agree, 1.0), lowest.where(~may_agree, 0.0)
        reach = torch.maximum(highest - mean, mean - lowest).clamp(min=0) * (variance > 0)
        unseen += (weights.max() * reach).square()
        # What is that rare may not be among them; where all agree there is nothing to be missed.
        unseen += (reach > _ROUNDING) / len(weights) ** 2
        return mean, (variance * spread + unseen).sqrt()

    def _conditionals(self) -> Iterator[tuple[slice, Float64[Tensor, "sample pair"]]]:
        """F of all samples and cells, some whole groups of samples at a time."""
        at_once = min(_CHUNK, max(_CHUNK_ENTRIES // max(self.cells.num_cells, 1), 1))
        step = max(at_once // self.group_size, 1) * self.group_size
        for start in range(0, len(self.states), step):
            part = slice(start, start + step)
            yield part, self.cells.shares(self.model, self.states[part])

    def _by_name(self, pairs: Float64[Tensor, "pair"]) -> dict[str, np.ndarray]:
        parts = torch.split(pairs, self.cells.sizes.tolist())
        named = zip(self.model.variables, parts, strict=True)
        return {variable.name: part.numpy() for variable, part in named}

    def sample(self, num_samples: int, generator: Randomness = None) -> States:
        """Draw states with probabilities in proportion to their weights, with replacement."""
        num_samples, generator = checked_samples(num_samples, 0), as_generator(generator)
        weights = normalised_weights(self.log_weights)
        if num_samples == 0:  # which torch refuses
            return self.states[:0]
        chosen = torch.multinomial(weights, num_samples, replacement=True, generator=generator)
        return self.states[chosen]

    def sample_apart(self, num_samples: int, generator: Randomness = None) -> States:
        """Draw states in proportion to their weights and move them, so that copies differ."""
        generator = as_generator(generator)
        chosen = self.sample(num_samples, generator)
        return moved(self.model, chosen, self.observed, _SWEEPS, generator)

    def refined(self, generator: Randomness = None) -> WeightedSamples:
        """Samples for marginals: moved if they have been resampled, for then some are copies."""
        return self if self.group_size == 1 else self.rejuvenated(_SWEEPS, generator)

    def rejuvenated(self, num_sweeps: int, generator: Randomness = None) -> WeightedSamples:
        """Samples drawn in proportion to their weights within their group, then moved.

        A group keeps its mean weight, so log Z stays what it was; a sample that is a group of its
        own is only moved.

        Parameters
        ----------
        num_sweeps : Gibbs sweeps over the unobserved variables.
        """
        generator, num_sweeps = as_generator(generator), checked_count("num_sweeps", num_sweeps)
        index, log_weights = torch.arange(len(self.states), device="cpu"), self.log_weights
        if self.group_size > 1:
            groups = torch.split(log_weights, self.group_size)
            shares = [part.softmax(0).nan_to_num(1.0) for part in groups]  # all zero: keep any
            chosen = [
                torch.multinomial(share, len(share), replacement=True, generator=generator)
                for share in shares
            ]
            starts = index[:: self.group_size].tolist()
            index = torch.cat([first + part for first, part in zip(starts, chosen, strict=True)])
            means = log_means(log_weights, self.group_size)
            log_weights = means.repeat_interleave(
                torch.tensor([len(part) for part in groups], dtype=torch.long, device="cpu")
            )
        states = moved(self.model, self.states[index], self.observed, num_sweeps, generator)
        return replace(self, states=states, log_weights=log_weights)


def _group_sums(
    values: Float64[Tensor, "sample column"], size: int
) -> Float64[Tensor, "group column"]:
    if size == 1:
        return values
    return torch.stack([part.sum(0) for part in torch.split(values, size)])
