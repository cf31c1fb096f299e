"""Residuals of some variables of full samples are rows of the residuals of all of them."""

import numpy as np
import pytest
import torch

from deltaai.errors import ConfigError
from deltaai.fitting.spec import SamplerSpec
from deltaai.graphs import chordal_completion
from deltaai.models import zoo
from deltaai.objectives.delta import delta_residuals, prepare_delta
from deltaai.objectives.sampled import SampledDeltaObjective, sampled_residuals
from deltaai.sampling import AnyEvidence, Paths, Source

MODELS = {
    "ising": zoo.ising_lattice(side=4, sigma=0.6, seed=0),
    "mixed": zoo.random_factor_graph(9, 12, max_arity=3, max_states=4, seed=3),
}


def set_up(name, kind, family, seed=0, evidence=None):
    """A proposal with random weights, and states in each of its orders."""
    model = MODELS[name]
    spec = SamplerSpec(orders=kind, family=family, hidden=8, evidence=evidence)
    graph = chordal_completion(model.markov_graph())
    proposal, orders = spec.build(model, graph, seed=seed, num_together=3)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in proposal.conditionals.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    objective = SampledDeltaObjective(proposal, 4)
    kind = None if evidence is None else AnyEvidence(4, model.num_variables)
    source = Source(proposal, orders, kind)
    source.redraw(np.random.default_rng(seed))
    chance = torch.rand(model.num_variables, 5 * len(source.dags), generator=generator)
    columns = (chance * model.num_states[:, None]).long()
    observed = None if kind is None else kind.choose(columns, generator)
    return proposal, objective, source.paths(columns, observed), generator


@pytest.mark.parametrize("evidence", [None, "any"])
@pytest.mark.parametrize("family", ["local", "mae"])
@pytest.mark.parametrize("kind", ["one", "many"])
@pytest.mark.parametrize("name", MODELS)
def test_residuals_are_those_of_all_variables(name, kind, family, evidence):
    proposal, objective, paths, generator = set_up(name, kind, family, evidence=evidence)
    batch = objective.prepare(proposal, paths, generator)
    with torch.no_grad():
        found = sampled_residuals(proposal, batch).view(*batch.variables.shape, -1)
    expected = []
    alternatives = batch.alternatives.view(*batch.variables.shape, -1)
    for number, chosen in enumerate(batch.variables.tolist()):
        here = slice(number * paths.each, (number + 1) * paths.each)
        columns = paths.columns[:, here]
        others = proposal.layout.encoding.propose(columns, generator)
        others[chosen] = alternatives[number]
        known = None if paths.known is None else paths.known[:, here]
        observed = None if paths.observed is None else paths.observed[:, here]
        with torch.no_grad():
            prepared = prepare_delta(proposal, columns, others, known, observed)
            expected.append(delta_residuals(proposal, prepared)[chosen])
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-4, atol=1e-5)
    if evidence is None:
        losses = objective.losses(proposal, batch)
        torch.testing.assert_close(losses, found.square().mean(1).flatten())


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
        SampledDeltaObjective(proposal, 0)
    assert isinstance(paths, Paths)
