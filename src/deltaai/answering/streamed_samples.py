"""States drawn and handed on some at a time, so that any number of them needs little memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from deltaai.budget import Budget
from deltaai.errors import StateError, TimeLimitError
from deltaai.exact import ExactInference, GaussianInference, Remainder
from deltaai.fitting import DRAWN_PER_SAMPLE, Sampler, posteriors_given, samples_given
from deltaai.models import Evidence, FactorGraph, States

_AT_ONCE = 8192  # samples of a block, if memory allows
# Bytes of a variable in a sample of a block: while it is drawn, as labels in lists, and as text.
_BYTES_PER_VALUE, _BLOCK_SHARE = 160, 8

SampleBlock = tuple[States, Float[Tensor, "batch"] | None]


def sample_stream(
    source: FactorGraph | Sampler,
    num_samples: int,
    generator: torch.Generator,
    *,
    evidence: Evidence | None = None,
    budget: Budget,
) -> Iterator[SampleBlock]:
    """Draw from a sampler, or exactly from a model that is narrow or Gaussian, in blocks.

    Parameters
    ----------
    source : a model, or a sampler that was trained for one.
    num_samples : how many in all.
    evidence : what was observed: names to labels or state indices.
    budget : bytes and seconds that may be used.

    Yields
    ------
    States, and their log q where a sampler draws without evidence.

    Raises
    ------
    TimeLimitError
        If the time was over before the last sample; those before it have been handed on.
    """
    if num_samples < 0:
        raise StateError(f"the number of samples cannot be {num_samples}")
    model = source.model if isinstance(source, Sampler) else source
    observed = model.resolve_evidence(evidence)
    at_once = block_size(source, budget, has_evidence=bool(observed))
    engine = None
    if not isinstance(source, Sampler):
        block_bytes = at_once * _BYTES_PER_VALUE * source.num_variables
        with budget.watched("the first sample"):
            left, memory = Remainder.given(source, observed), max(budget.memory - block_bytes, 1)
            engine = (
                ExactInference(
                    left, memory_limit=memory, progress=budget.watching("the first sample")
                )
                if left.reduced.is_discrete
                else GaussianInference(left, memory_limit=memory)
            )
    for start in range(0, num_samples, at_once):
        count = min(at_once, num_samples - start)
        if budget.time_limit is not None and budget.is_over:
            raise TimeLimitError(f"sample {start + 1} of {num_samples}", budget.time_limit)
        if engine is not None:
            with budget.watched(f"sample {start + 1} of {num_samples}"):
                drawn = engine.sample(count, generator)
            yield drawn, None
        else:
            assert isinstance(source, Sampler)
            yield _drawn(source, count, generator, observed, budget, is_judged=start == 0)


def block_size(source: FactorGraph | Sampler, budget: Budget, *, has_evidence: bool) -> int:
    """Samples of a block; given evidence a sampler draws several for one that it keeps."""
    is_sampler = isinstance(source, Sampler)
    model = source.model if isinstance(source, Sampler) else source
    bytes_per_value = _BYTES_PER_VALUE * (DRAWN_PER_SAMPLE if is_sampler and has_evidence else 1)
    each = bytes_per_value * max(model.num_variables, 1)
    return min(max(budget.memory // _BLOCK_SHARE // each, 1), _AT_ONCE)


def _drawn(
    sampler: Sampler,
    count: int,
    generator: torch.Generator,
    observed: dict[int, int],
    budget: Budget,
    *,
    is_judged: bool,
) -> SampleBlock:
    if not observed:
        return sampler.sample_with_log_prob(count, generator, budget=budget)
    if is_judged:  # one block tells what all are worth
        return samples_given(sampler, observed, count, generator, budget=budget), None
    num_drawn = DRAWN_PER_SAMPLE * count
    (drawn,) = posteriors_given(sampler, [observed], num_drawn, generator, budget=budget)
    return drawn.sample_apart(count, generator), None
