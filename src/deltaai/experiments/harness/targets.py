"""The targets of the synthetic figures, and how samplers are judged on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch

from deltaai.errors import ConfigError
from deltaai.fitting import Sampler, fit
from deltaai.metrics import GroundTruth, ground_truth, negative_log_likelihood
from deltaai.models import FactorGraph, zoo
from deltaai.sampling import AnyOrderPolicy

# Bytes for exact tables: fixed, so that what is exact does not depend on the machine.
EXACT_BYTES = 2 * 2**30
_TRUTH_SEED = 12345
_NUM_WEIGHTS = 20_000


def target(name: str, sigma: float, seed: int) -> FactorGraph:
    """Build a target from a name such as ``lattice-64``: a kind and its number of variables.

    >>> target("ladder-6", 0.2, 0).num_variables
    6
    """
    kind, _, size = name.partition("-")
    number = int(size)
    side = round(number**0.5)
    match kind:
        case "ladder":
            return zoo.ising_ladder(number, sigma=sigma, seed=seed)
        case "lattice":
            return zoo.ising_lattice(side=side, sigma=sigma, seed=seed)
        case "factor":
            return zoo.factor_lattice(side=side, sigma=sigma, seed=seed)
    raise ConfigError(f"there is no kind of target {kind!r}: ladder, lattice or factor")


@lru_cache(maxsize=1)
def _truth(name: str, sigma: float, seed: int, num_states: int) -> GroundTruth:
    model = target(name, sigma, seed)
    truth = ground_truth(model, num_states, _TRUTH_SEED + seed, memory_limit=EXACT_BYTES)
    if truth.is_exact:
        return truth
    # The states are from chains; what a perfect sampler would score needs log Z besides, which
    # importance weights give without bias in Z, whatever the sampler.
    estimate = fit(model, seed=_TRUTH_SEED).log_partition(_NUM_WEIGHTS)
    log_prob = model.log_score(truth.states).detach().double() - float(estimate)
    return replace(truth, log_prob=log_prob, log_partition=float(estimate))


def truth_of(name: str, sigma: float, seed: int, num_states: int) -> GroundTruth:
    """Ground-truth states of a target; methods on the same target are judged by the same."""
    return _truth(name, sigma, seed, num_states)


def structured_judge(sampler: Sampler, truth: GroundTruth) -> Callable[[], dict[str, float]]:
    """Mean NLL of the ground truth under q, halves of it in two orders if q has several."""
    dags = [sampler.random_order(1000), sampler.random_order(1001)]
    halves = truth.states.chunk(2)

    def measure() -> dict[str, float]:
        parts = [sampler.log_prob(x, dag=dag) for x, dag in zip(halves, dags, strict=False)]
        return _likelihood(lambda _: torch.cat(parts), truth)

    return measure


def any_order_judge(
    policy: AnyOrderPolicy, truth: GroundTruth, num_paths: int
) -> Callable[[], dict[str, float]]:
    """Mean NLL estimated from backward paths: on average an upper bound."""

    def measure() -> dict[str, float]:
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            return _likelihood(
                lambda x: policy.log_prob(x.T.contiguous(), num_paths, generator), truth
            )

    return measure


def _likelihood(
    log_prob: Callable[[torch.Tensor], torch.Tensor], truth: GroundTruth
) -> dict[str, float]:
    found = negative_log_likelihood(
        log_prob, truth.states, batch=len(truth.states), exact_log_prob=truth.log_prob
    )
    rows = {"nll": found.mean, "ground_truth_is_exact": float(truth.is_exact)}
    return rows if found.gap is None else {"gap": found.gap, **rows}
