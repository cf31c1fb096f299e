"""Residuals of some variables of full samples are rows of the residuals of all of them."""

import numpy as np
import pytest
import torch

from deltaai.errors import ConfigError
from deltaai.fitting.proposals import build_proposal
from deltaai.graphs import chordal_completion
from deltaai.models import zoo
from deltaai.objectives.base import Paths
from deltaai.objectives.delta import delta_residuals, draw_alternatives, prepare_delta
from deltaai.objectives.sampled import SampledDeltaObjective
from deltaai.sampling.orders import Orders
from deltaai.training.full_samples import FullSamples

MODELS = {
    "ising": zoo.ising_lattice(side=4, sigma=0.6, seed=0),
    "mixed": zoo.random_factor_graph(9, 12, max_arity=3, max_states=4, seed=3),
}


def set_up(name, kind, family, seed=0):
    """A proposal with random weights, and states in each of its orders."""
    model = MODELS[name]
    orders = Orders.of(chordal_completion(model.markov_graph()), kind, 3)
    proposal = build_proposal(model, orders, 8, family=family, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in proposal.conditionals.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    objective = SampledDeltaObjective(proposal, orders.graph, 4)
    task = FullSamples(proposal, orders, objective)
    task.redraw(np.random.default_rng(seed))
    chance = torch.rand(model.num_variables, 5 * len(task.dags), generator=generator)
    columns = (chance * model.num_states[:, None]).long()
    return proposal, objective, task._paths(columns, 1.0), generator


@pytest.mark.parametrize("family", ["local", "mae"])
@pytest.mark.parametrize("kind", ["one", "many"])
@pytest.mark.parametrize("name", MODELS)
def test_residuals_are_those_of_all_variables(name, kind, family):
    proposal, objective, paths, generator = set_up(name, kind, family)
    batch = objective.prepare(proposal, paths, generator)
    with torch.no_grad():
        losses = objective.losses(proposal, batch)
    num_states = proposal.model.num_states
    expected = []
    alternatives = batch.alternatives.view(*batch.variables.shape, -1)
    for number, chosen in enumerate(batch.variables.tolist()):
        here = slice(number * paths.each, (number + 1) * paths.each)
        columns = paths.columns[:, here]
        others = draw_alternatives(columns, num_states, generator)
        others[chosen] = alternatives[number]
        known = None if paths.known is None else paths.known[:, here]
        with torch.no_grad():
            full = delta_residuals(proposal, prepare_delta(proposal, columns, others, known))
        expected.append(full[chosen].square().mean(0))
    torch.testing.assert_close(losses, torch.cat(expected), rtol=1e-4, atol=1e-5)


def test_a_checkpoint_holds_the_choice():
    proposal, objective, paths, generator = set_up("mixed", "many", "local")
    batch = objective.prepare(proposal, paths, generator)
    again = objective.prepare_again(proposal, paths, objective.drawn(batch), None)
    with torch.no_grad():
        first, second = (objective.losses(proposal, one) for one in (batch, again))
    assert torch.equal(first, second)


def test_no_variables_are_refused():
    proposal, _, paths, _ = set_up("ising", "one", "local")
    with pytest.raises(ConfigError, match="at least 1"):
        SampledDeltaObjective(proposal, chordal_completion(MODELS["ising"].markov_graph()), 0)
    assert isinstance(paths, Paths)
