"""Annealing and parallel tempering: schedules, ladders, swaps, and errors."""

import itertools

import pytest
import torch

from deltaai.errors import ConfigError, StateError
from deltaai.mcmc import tempering
from deltaai.mcmc.chains import run_chains
from deltaai.mcmc.gibbs import GibbsKernel
from deltaai.mcmc.tempering import (
    ParallelTemperingKernel,
    annealed_chains,
    geometric_betas,
    tuned_betas,
)
from deltaai.models import FactorGraph, SpinCoupling, Variable, zoo

LATTICE = zoo.ising_lattice(side=4, sigma=0.5, seed=0)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_annealing_raises_beta_and_then_stays(monkeypatch):
    used = []

    class Watched(GibbsKernel):
        def step(self, state, generator, beta=1.0):
            used.append(beta)
            return super().step(state, generator, beta)

    monkeypatch.setattr(tempering, "GibbsKernel", Watched)
    seen = []
    states = annealed_chains(
        LATTICE, 5, 4, 3, seeded(), progress=lambda done, total: seen.append((done, total))
    )
    assert used == [0, 0.25, 0.5, 0.75, 1, 1, 1]
    assert seen == [(done, 7) for done in range(1, 8)]
    assert states.shape == (5, 16)
    assert states.dtype == torch.long


def test_annealing_without_steps_is_a_random_start():
    assert annealed_chains(LATTICE, 3, 0, 0, seeded()).shape == (3, 16)


def test_the_cold_replica_is_the_state():
    kernel, generator = ParallelTemperingKernel(LATTICE, (1.0, 0.5, 0.0)), seeded()
    state, info = run_chains(kernel, kernel.init(50, generator), 4, generator)
    assert state.replicas.shape == (3, 16, 50)
    assert torch.equal(state.columns, state.replicas[0])
    assert info.num_updates == 4 * 3 * 16 * 50
    _, swaps = kernel.step(state, generator)
    assert len(swaps.swap_rates) == 2
    assert swaps.acceptance == pytest.approx(sum(swaps.swap_rates) / 2)


def test_swaps_exchange_replicas_and_lose_none():
    replicas = torch.arange(2 * 3 * 4).reshape(2, 3, 4)
    scores = torch.tensor([[0.0, 5.0, 1.0, -torch.inf], [9.0, -9.0, 1.0, -torch.inf]]).double()
    before = replicas.clone()
    rate = tempering._swap(replicas, scores, 0, 100.0, seeded())
    # Better and equal scores are always swapped; two impossible states stay.
    assert rate == 0.5
    assert torch.equal(replicas[:, :, [0, 2]], before.flip(0)[:, :, [0, 2]])
    assert torch.equal(replicas[:, :, [1, 3]], before[:, :, [1, 3]])
    assert scores[0].tolist() == [9.0, 5.0, 1.0, -torch.inf]


def test_one_replica_is_plain_gibbs():
    alone, gibbs = ParallelTemperingKernel(LATTICE, [1]), GibbsKernel(LATTICE)
    start = gibbs.init(20, seeded()).states
    first, info = run_chains(alone, alone.init(20, seeded(), start), 3, seeded(1))
    # Swaps take no random numbers where there is no pair.
    second, _ = run_chains(gibbs, gibbs.init(20, seeded(), start), 3, seeded(1))
    assert torch.equal(first.columns, second.columns)
    assert info.acceptance == 1


def test_tempering_crosses_where_gibbs_is_stuck():
    """Six spins that all want to agree: a Gibbs sweep flips one of them once in e^30."""
    names = [str(v) for v in range(6)]
    model = FactorGraph(
        [Variable(name, 2) for name in names],
        [SpinCoupling(a, b, 3.0) for a, b in itertools.combinations(names, 2)],
    )
    start = torch.zeros(400, 6, dtype=torch.long)
    shares = []
    for kernel in (GibbsKernel(model), ParallelTemperingKernel(model, geometric_betas(8, 0.01))):
        generator = seeded()
        state, _ = run_chains(kernel, kernel.init(400, generator, start), 60, generator)
        shares.append(float(state.states.double().mean()))
    assert shares[0] < 0.01
    assert shares[1] == pytest.approx(0.5, abs=0.12)


def test_tuned_ladders_swap_evenly():
    model = zoo.ising_lattice(side=7, sigma=0.5, seed=0)
    generator = seeded()
    uneven = {}
    tuned = tuned_betas(model, 6, generator, lowest_beta=0.05, num_rounds=3)
    for name, betas in {"geometric": geometric_betas(6, 0.05), "tuned": tuned}.items():
        kernel = ParallelTemperingKernel(model, betas)
        state, _ = run_chains(kernel, kernel.init(400, generator), 40, generator)
        rates = []
        for _ in range(20):
            state, info = kernel.step(state, generator)
            rates.append(torch.tensor(info.swap_rates))
        mean = torch.stack(rates).mean(0)
        uneven[name] = float(mean.max() - mean.min())
    assert tuned[0] == 1
    assert tuned[-1] == 0.05
    assert uneven["tuned"] < 0.1 < uneven["geometric"]


def test_short_ladders_need_no_tuning():
    assert tuned_betas(LATTICE, 2, seeded(), lowest_beta=0.5) == (1.0, 0.5)
    assert geometric_betas(1, 0.5) == (1.0,)


@pytest.mark.parametrize("betas", [[], [0.5], [1, 1], [1, 0.2, 0.5], [1, -0.1], [1, float("nan")]])
def test_bad_ladders_are_refused(betas):
    with pytest.raises(ConfigError, match="betas must fall"):
        ParallelTemperingKernel(LATTICE, betas)


def test_other_bad_settings_are_refused():
    with pytest.raises(ConfigError, match="lowest_beta"):
        annealed_chains(LATTICE, 2, 1, 1, seeded(), lowest_beta=1.5)
    with pytest.raises(ConfigError, match="at least 0"):
        annealed_chains(LATTICE, 2, -1, 1, seeded())
    with pytest.raises(StateError, match="at least one chain"):
        annealed_chains(LATTICE, 0, 1, 1, seeded())
    for lowest in (0, 1, 2):
        with pytest.raises(ConfigError, match="lowest_beta"):
            geometric_betas(3, lowest)
    with pytest.raises(ConfigError, match="replica"):
        geometric_betas(0, 0.5)
    two, three = (ParallelTemperingKernel(LATTICE, geometric_betas(n, 0.5)) for n in (2, 3))
    with pytest.raises(ConfigError, match="replicas"):
        three.step(two.init(2, seeded()), seeded())
