"""Features of a column that every conditional sees: in the equation, in samples, in gradients."""

import pytest
import torch
from torch import nn

from deltaai.conditionals import Layout, Proposal, build_conditionals
from deltaai.graphs import chordal_completion
from deltaai.models import zoo
from deltaai.objectives import (
    DeltaObjective,
    LogVarianceObjective,
    SampledDeltaObjective,
    StochasticDeltaObjective,
    delta_residuals,
    prepare_delta,
)
from deltaai.sampling import ON_POLICY, Orders, Paths, Schedule, sample_ancestrally

MODEL = zoo.random_factor_graph(6, 8, max_arity=3, max_states=3, seed=3)
ORDERS = Orders.of(chordal_completion(MODEL.markov_graph()), "one")
GIVEN = torch.randn(40, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def proposal_with_context(family):
    layout = Layout.build(MODEL.num_states.tolist(), ORDERS.fixed.parents)
    networks = build_conditionals(family, layout, 6, takes_masks=False, num_context=3)
    body = nn.Linear(5, 3, dtype=torch.float64)
    proposal = Proposal(MODEL, networks.double(), context_network=body)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for value in proposal.trained.parameters():
            value.copy_(0.4 * torch.randn(value.shape, generator=generator, dtype=torch.float64))
    return proposal


def columns():
    chance = torch.rand(6, 40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return (chance * MODEL.num_states[:, None]).long()


@pytest.mark.parametrize("family", ["local", "mae"])
def test_residuals_are_the_equation_with_the_context_in_every_conditional(family):
    proposal, x = proposal_with_context(family), columns()
    others = proposal.layout.encoding.propose(x, torch.Generator().manual_seed(3))
    with torch.no_grad():
        context = proposal.context_of(GIVEN)
        found = delta_residuals(proposal, prepare_delta(proposal, x, others, context=GIVEN))
        for u in range(6):
            moved = x.clone()
            moved[u] = others[u]
            here, there = (
                MODEL.log_score(state.T) - proposal.log_prob(state, context=context)
                for state in (x, moved)
            )
            torch.testing.assert_close(found[u], here - there, rtol=1e-8, atol=1e-8)
        without = delta_residuals(proposal, prepare_delta(proposal, x, others))
    assert not torch.allclose(found, without, atol=1e-3)


@pytest.mark.parametrize("family", ["local", "mae"])
def test_samples_have_the_probability_they_report(family):
    proposal = proposal_with_context(family)
    schedule = Schedule.build(proposal, [ORDERS.fixed], masks=False)
    with torch.no_grad():
        context = proposal.context_of(GIVEN)
    states, log_q = sample_ancestrally(
        proposal,
        schedule,
        40,
        policy=ON_POLICY,
        generator=torch.Generator().manual_seed(0),
        context=context,
    )
    with torch.no_grad():
        expected = proposal.log_prob(states.flatten(1), context=context)
    torch.testing.assert_close(log_q.flatten(), expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("family", ["local", "mae"])
@pytest.mark.parametrize("name", ["delta", "stochastic", "sampled", "log-variance"])
def test_its_network_is_trained_with_q(family, name):
    proposal = proposal_with_context(family)
    objective = {
        "delta": DeltaObjective,
        "stochastic": StochasticDeltaObjective,
        "sampled": lambda: SampledDeltaObjective(proposal, 3),
        "log-variance": LogVarianceObjective,
    }[name]()
    paths = Paths(columns(), (ORDERS.fixed,), context=GIVEN)
    batch = objective.prepare(proposal, paths, torch.Generator().manual_seed(4))
    objective.losses(proposal, batch).mean().backward()
    assert all(bool(value.grad.any()) for value in proposal.context_network.parameters())
    grouped = [p for group in proposal.parameter_groups(1e-3) for p in group["params"]]
    assert {id(p) for p in grouped} == {id(p) for p in proposal.trained.parameters()}
