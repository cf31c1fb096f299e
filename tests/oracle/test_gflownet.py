"""Structured GFlowNets: exact conditionals and exact flows leave no residual, anywhere."""

import numpy as np
import pytest
import torch

from deltaai.conditionals import exact_proposal
from deltaai.exact import Enumeration
from deltaai.graphs import chordal_completion, random_dag
from deltaai.models import FactorGraph, TableFactor, Variable, zoo
from deltaai.objectives.balance import path_potentials, sub_trajectory_balance
from deltaai.objectives.base import Paths
from deltaai.objectives.gflownet import BalanceObjective

MODELS = {
    "ising": zoo.ising_lattice(side=3, sigma=0.6, seed=0),
    "three states": zoo.potts_lattice(side=2, states=3, sigma=0.8, seed=1),
    "neural": zoo.factor_lattice(side=3, sigma=0.7, seed=0),
    "mixed": zoo.random_factor_graph(6, 8, max_arity=3, max_states=4, seed=3),
    "one variable": FactorGraph([Variable("a", 3)], [TableFactor(["a"], [0.0, 1.0, 2.0])]),
    "no factors": FactorGraph([Variable("a", 2), Variable("b", 3)], []),
}
NAMES = ["tb", "db", "subtb", "fl-db", "fl-subtb"]


def exact_log_flows(oracle, dag):
    """Log Σ of the scores that agree on the first i variables, for every state and i."""
    states, scores = oracle.states, oracle.log_scores
    flows = []
    for step in range(states.shape[1] + 1):
        group = torch.zeros(len(states), dtype=torch.long)
        if step:
            seen = states[:, list(dag.order[:step])]
            _, group = torch.unique(seen, dim=0, return_inverse=True)
        size = int(group.max()) + 1
        total = torch.zeros(size, dtype=torch.float64).index_add(0, group, scores.exp())
        flows.append(total.log()[group])
    return torch.stack(flows)


class GivenFlow(torch.nn.Module):
    """Flows that are known, less the reward that a forward-looking objective adds."""

    def __init__(self, log_flows, log_rewards):
        super().__init__()
        self.inner = (log_flows - log_rewards)[1:-1]

    def forward(self, features, ranks, num_set):
        return self.inner


def everywhere(model, name, seed, partial_energy):
    """An objective at all states of a model in one order, with all exact."""
    oracle = Enumeration(model)
    dag = random_dag(chordal_completion(model.markov_graph()), np.random.default_rng(seed))
    proposal = exact_proposal(model, dag)
    objective = BalanceObjective(name, proposal, partial_energy=partial_energy).double()
    paths = Paths(oracle.states.T.contiguous(), (dag,))
    batch = objective.prepare(proposal, paths, None)
    log_flows = exact_log_flows(oracle, dag)
    objective.log_partition.data = (log_flows - batch.log_rewards)[0, 0]
    if name != "tb":
        objective.flow = GivenFlow(log_flows, batch.log_rewards)
    return proposal, objective, batch


@pytest.mark.parametrize("partial_energy", ["completed", "zero-filled"])
@pytest.mark.parametrize("objective_name", NAMES)
@pytest.mark.parametrize("name", MODELS)
def test_exact_flows_leave_no_residual_in_any_state_and_order(name, objective_name, partial_energy):
    for seed in range(3):
        proposal, objective, batch = everywhere(MODELS[name], objective_name, seed, partial_energy)
        with torch.no_grad():
            assert float(objective.losses(proposal, batch).max()) < 1e-16


@pytest.mark.parametrize("objective_name", NAMES)
def test_a_perturbed_conditional_leaves_some(objective_name):
    proposal, objective, batch = everywhere(MODELS["three states"], objective_name, 0, "completed")
    with torch.no_grad():
        next(iter(proposal.conditionals.parameters()))[0] += 0.1
        assert float(objective.losses(proposal, batch).max()) > 1e-6


@pytest.mark.parametrize("objective_name", NAMES[1:])
def test_a_perturbed_flow_leaves_some(objective_name):
    proposal, objective, batch = everywhere(MODELS["ising"], objective_name, 0, "zero-filled")
    objective.flow.inner[3, 5] += 0.1
    with torch.no_grad():
        losses = objective.losses(proposal, batch)
    assert float(losses[5]) > 1e-6
    assert float(losses[:5].max()) < 1e-16


@pytest.mark.parametrize("decay", [0.5, 0.9, 1.0, 1.3])
def test_sub_trajectory_balance_is_the_sum_over_sub_ranges(decay):
    generator = torch.Generator().manual_seed(0)
    potentials = torch.randn(7, 3, generator=generator, dtype=torch.float64) + 1000
    total, weight = torch.zeros(3, dtype=torch.float64), 0.0
    for i in range(7):
        for j in range(i + 1, 7):
            total += decay ** (j - i) * (potentials[i] - potentials[j]) ** 2
            weight += decay ** (j - i)
    torch.testing.assert_close(sub_trajectory_balance(potentials, decay), total / weight)


def test_potentials_follow_the_order_of_each_sample():
    """Several orders in one batch are each of them alone."""
    model = MODELS["ising"]
    graph = chordal_completion(model.markov_graph())
    dags = tuple(random_dag(graph, np.random.default_rng(seed)) for seed in range(3))
    columns = Enumeration(model).states[:12].T.contiguous()
    together = Paths(columns, dags)
    for number, dag in enumerate(dags):
        alone = Paths(columns[:, 4 * number : 4 * number + 4], (dag,))
        here = slice(4 * number, 4 * number + 4)
        assert torch.equal(together.orders()[:, here], alone.orders())
        assert torch.equal(together.ranks()[:, here], alone.ranks())
        assert alone.orders()[:, 0].tolist() == list(dag.order)


def test_path_potentials_start_at_the_first_flow():
    flows = torch.tensor([[5.0], [3.0], [1.0]])
    log_q = torch.tensor([[-1.0], [-2.0]])
    assert path_potentials(flows, log_q).flatten().tolist() == [5.0, 4.0, 4.0]
