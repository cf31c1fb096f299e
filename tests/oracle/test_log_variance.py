"""The variance of the log weights is zero exactly where q is p."""

import numpy as np
import pytest
import torch

from deltaai.conditionals import exact_proposal
from deltaai.exact import Enumeration
from deltaai.graphs import chordal_completion, random_dag
from deltaai.models import zoo
from deltaai.objectives import LogVarianceObjective
from deltaai.sampling import Paths

MODELS = {
    "ising": zoo.ising_lattice(side=3, sigma=0.6, seed=0),
    "mixed": zoo.random_factor_graph(6, 8, max_arity=3, max_states=4, seed=3),
}


def losses_of(proposal, dag, oracle):
    """The loss at every state."""
    objective, paths = LogVarianceObjective(), Paths(oracle.states.T.contiguous(), (dag,))
    with torch.no_grad():
        return objective.losses(proposal, objective.prepare(proposal, paths, None))


@pytest.mark.parametrize("name", MODELS)
def test_exact_conditionals_have_equal_weights_in_every_state_and_order(name):
    model = MODELS[name]
    graph = chordal_completion(model.markov_graph())
    oracle = Enumeration(model)
    for seed in range(4):
        dag = random_dag(graph, np.random.default_rng(seed))
        losses = losses_of(exact_proposal(model, dag), dag, oracle)
        assert float(losses.max()) < 1e-16


def test_a_perturbed_conditional_does_not():
    model = MODELS["ising"]
    dag = random_dag(chordal_completion(model.markov_graph()), np.random.default_rng(0))
    proposal = exact_proposal(model, dag)
    oracle = Enumeration(model)
    with torch.no_grad():
        next(iter(proposal.conditionals.parameters()))[0] += 0.1
    assert float(losses_of(proposal, dag, oracle).max()) > 1e-4
