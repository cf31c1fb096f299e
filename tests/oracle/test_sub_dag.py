"""Sub-DAGs: exact conditionals leave no residual, and residuals are those of the equation."""

import math
from functools import cache

import numpy as np
import pytest
import torch

from deltaai.conditionals import Conditionals, Layout, LocalConditionals, NoKnowledge, Proposal
from deltaai.conditionals.mae import MaskedAutoencoder
from deltaai.errors import GraphError
from deltaai.exact import Enumeration
from deltaai.graphs import UndirectedGraph, chordal_completion
from deltaai.models import FactorGraph, TableFactor, Variable, zoo
from deltaai.models.groups import joint_states
from deltaai.objectives.sub_dag import (
    prepare_sub_dags,
    propose_centres,
    sample_sub_dags,
    sub_dag_residuals,
)
from deltaai.objectives.sub_dag_plan import SubDagPlanner
from deltaai.sampling.policies import ON_POLICY, Policy

pytestmark = pytest.mark.usefixtures("one_thread")


class ExactConditionals(Conditionals):
    """Answers from the joint marginals of a small model, for any known subset."""

    def __init__(self, layout, model):
        super().__init__()
        self.layout = layout
        self.oracle = Enumeration(model)
        self.log_joint = cache(lambda *variables: self.oracle.joint(variables).log())
        self.error = {}  # (variable, known inputs) -> what is wrongly added to its logits

    def logits(self, features, known=None):
        raise NotImplementedError

    def logits_and_flips(self, features, flipped, known=None):
        raise NotImplementedError

    def logits_at(self, block, members, inputs, known=None, context=None):
        where = self.layout.blocks[block]
        answers = []
        for pair, member in enumerate(members.tolist()):
            variable = int(where.variables[member])
            seen, states = [], []
            for slot, other in enumerate(where.inputs[member].tolist()):
                if other < self.layout.num_variables and bool(known[pair, slot]):
                    seen.append(other)
                    states.append(decoded(inputs[pair, slot], self.layout.num_states[other]))
            table = self.log_joint(*seen, variable)
            rows = table[tuple(states)] if seen else table.expand(inputs.shape[3], -1)
            logits = (rows[:, 1:] - rows[:, :1]).T
            answers.append(logits + self.error.get((variable, tuple(seen)), 0.0))
        return torch.stack(answers)


def decoded(features, num_states):
    return (features[0].long() + 1) // 2 if num_states == 2 else features[:num_states].argmax(0)


def one_state_among_others():
    variables = [Variable("a", 2), Variable("b", 1), Variable("c", 3), Variable("d", 4)]
    chances = torch.Generator().manual_seed(0)
    tables = [
        TableFactor(["a", "b", "c"], torch.randn(2, 1, 3, generator=chances).double()),
        TableFactor(["c"], torch.randn(3, generator=chances).double()),
    ]
    return FactorGraph(variables, tables)


MODELS = {
    "binary": lambda: zoo.ising_lattice(side=3, sigma=0.6, seed=1),
    "potts": lambda: zoo.potts_lattice(side=2, states=3, sigma=0.6, seed=2),
    "mixed": lambda: zoo.random_factor_graph(7, 7, min_states=2, max_states=3, seed=4),
    "one-state": one_state_among_others,
    "neural": lambda: zoo.factor_ladder(num_variables=6, sigma=0.8, seed=3),
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]()


def chordal_of(model):
    return chordal_completion(model.markov_graph(), model.num_states.tolist())


def layout_of(model, chordal):
    return Layout.build(model.num_states.tolist(), list(chordal))


def all_states(model, plan):
    """Every joint state of every sub-DAG, the smaller ones repeated to fill the columns."""
    blocks = [
        joint_states(model.num_states[plan.variables[cells]].tolist()).T for cells in cells_of(plan)
    ]
    most = max(block.shape[1] for block in blocks)
    return torch.cat([block[:, torch.arange(most) % block.shape[1]] for block in blocks])


def cells_of(plan):
    """Cells of each sub-DAG, in topological order."""
    owner = torch.full_like(plan.variables, -1)
    for step in plan.steps:
        for part in step:
            owner[part.cells] = part.sub_dags
    return [(owner == number).nonzero().squeeze(1) for number in range(len(plan.centres))]


def every_alternative(model, plan, states):
    num_states = model.num_states[plan.variables[plan.centres]][:, None]
    for step in range(1, int(num_states.max())):
        yield (states[plan.centres] + step) % num_states


def test_exact_conditionals_leave_no_residual(model):
    chordal = chordal_of(model)
    proposal = Proposal(model, ExactConditionals(layout_of(model, chordal), model))
    proposal.knowledge = NoKnowledge(proposal.layout)
    planner, rng = SubDagPlanner(proposal, chordal), np.random.default_rng(0)
    for _ in range(4):
        plan = planner.draw(range(model.num_variables), rng)
        states = all_states(model, plan)
        for alternatives in every_alternative(model, plan, states):
            batch = prepare_sub_dags(proposal, plan, states, alternatives)
            residuals = sub_dag_residuals(proposal, plan, batch)
            assert float(residuals.abs().max()) < 1e-9


def test_a_wrong_conditional_leaves_one():
    model = MODELS["potts"]()
    chordal = chordal_of(model)
    conditionals = ExactConditionals(layout_of(model, chordal), model)
    proposal = Proposal(model, conditionals, knowledge=False)
    plan = SubDagPlanner(proposal, chordal).draw(range(4), np.random.default_rng(0))
    states = all_states(model, plan)
    alternatives = next(every_alternative(model, plan, states))
    part = plan.children[0]
    variable = int(plan.variables[part.cells[0]])
    seen = plan.variables[part.input_cells[0][part.known[0]]].tolist()
    conditionals.error[variable, tuple(seen)] = torch.tensor([[0.01], [0.0]])
    batch = prepare_sub_dags(proposal, plan, states, alternatives)
    residuals = sub_dag_residuals(proposal, plan, batch).abs().amax(1)
    assert float(residuals[part.sub_dags[0]]) > 1e-3


def with_random_weights(conditionals):
    generator = torch.Generator().manual_seed(5)
    conditionals.double()
    for value in conditionals.parameters():
        value.data = 0.5 * torch.randn(value.shape, generator=generator, dtype=torch.float64)
    return conditionals


FAMILIES = {
    "local": lambda layout: LocalConditionals(layout, hidden=5, takes_masks=True),
    "mae": lambda layout: MaskedAutoencoder(layout, hidden=7, depth=2),
}


def reference_correction(conditionals, variable, known):
    """Logits of one variable given a dictionary of known states, straight from the formulas."""
    layout = conditionals.layout
    number, place = layout.block_of[variable].tolist()
    block = layout.blocks[number]
    columns = torch.zeros(layout.num_variables, 1, dtype=torch.long)
    for other, state in known.items():
        columns[other] = state
    features = layout.encoding.encode(columns, torch.float64)[:, 0]
    if isinstance(conditionals, MaskedAutoencoder):
        rows = layout.first_row_of[variable] + torch.arange(block.num_logits)
        if not known:
            return conditionals.marginals[rows]
        state = torch.zeros(layout.encoding.num_rows, dtype=torch.float64)
        for other in known:
            first = layout.encoding.first_row[other]
            state[first : first + layout.encoding.num_features[other]] = features[
                first : first + layout.encoding.num_features[other]
            ]
        for layer in conditionals.body.layers:
            state = layer.norm(layer.weight @ state + layer.bias).relu()
        return conditionals.heads[rows] @ state + conditionals.head_biases[rows]
    weights = conditionals.networks[number]
    mask = torch.tensor([float(w in known) for w in block.inputs[place].tolist()]).double()
    z = (features[block.feature_rows[place]] * mask[:, None]).flatten()
    inner = weights.first[place] @ z + weights.first_mask[place] @ mask
    hidden = torch.tanh(inner + weights.first_bias[place, :, 0])
    linear = weights.bypass[place] @ z + weights.bypass_mask[place] @ mask
    return linear + weights.last[place] @ hidden + weights.last_bias[place, :, 0]


def reference_log_q(proposal, variable, x, parents):
    """Log q(x_v | x_Pa)."""
    known = {parent: x[parent] for parent in parents}
    logits = reference_correction(proposal.conditionals, variable, known)
    logits = torch.cat((logits.new_zeros(1), logits))
    if proposal.is_informed:
        for scope, table in tables_of(proposal.model):
            if variable in scope and set(scope) <= {variable, *parents}:
                at = tuple(slice(None) if v == variable else x[v] for v in scope)
                logits = logits + table[at]
    return torch.log_softmax(logits, 0)[x[variable]]


def tables_of(model):
    for group in model.groups:
        yield from zip(group.scopes.tolist(), group.log_tables().detach(), strict=True)


def reference_residual(proposal, order, parents, u, x, changed):
    """Delta objective as printed, before the square."""
    total = 0.0
    for scope, table in tables_of(proposal.model):
        if u in scope:
            total += table[tuple(x[v] for v in scope)]
            total -= table[tuple(changed[v] for v in scope)]
    for v in order:
        if v == u or u in parents[v]:
            total -= reference_log_q(proposal, v, x, parents[v])
            total += reference_log_q(proposal, v, changed, parents[v])
    return float(total.detach())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("is_informed", [True, False])
def test_residuals_are_those_of_the_equation(model, family, is_informed):
    chordal, beta = chordal_of(model), 0.7
    conditionals = with_random_weights(FAMILIES[family](layout_of(model, chordal)))
    proposal = Proposal(model, conditionals, knowledge=is_informed).tempered(beta)
    generator = torch.Generator().manual_seed(1)
    variables = [*range(model.num_variables), 0]  # one of them twice
    plan = SubDagPlanner(proposal, chordal).draw(variables, np.random.default_rng(3))
    policy = Policy(temperature=2, tempered_share=0.5, uniform_share=0.1)
    states = sample_sub_dags(proposal, plan, 3, policy=policy, generator=generator)
    num_states = model.num_states[plan.variables]
    assert bool((states < num_states[:, None]).all())
    alternatives = propose_centres(proposal, plan, states, generator)
    batch = prepare_sub_dags(proposal, plan, states, alternatives)
    residuals = sub_dag_residuals(proposal, plan, batch).detach()
    for number, cells in enumerate(cells_of(plan)):
        order, u = plan.variables[cells].tolist(), variables[number]
        assert sorted(order) == list(chordal.closed_neighbourhood(u))
        parents = {
            v: [w for w in order[:position] if chordal.has_edge(v, w)]
            for position, v in enumerate(order)
        }
        for sample in range(3):
            x = dict(zip(order, states[cells, sample].tolist(), strict=True))
            changed = {**x, u: int(alternatives[number, sample])}
            expected = reference_residual(proposal, order, parents, u, x, changed)
            assert float(residuals[number, sample]) == pytest.approx(expected, abs=1e-9)


def test_samples_of_a_sub_dag_follow_the_model():
    """With exact conditionals, whatever the orientation."""
    model = MODELS["mixed"]()
    chordal = chordal_of(model)
    conditionals = ExactConditionals(layout_of(model, chordal), model)
    proposal = Proposal(model, conditionals, knowledge=False)
    plan = SubDagPlanner(proposal, chordal).draw([0, 3], np.random.default_rng(1))
    generator, count = torch.Generator().manual_seed(0), 20_000
    states = sample_sub_dags(proposal, plan, count, policy=ON_POLICY, generator=generator)
    for cells in cells_of(plan):
        expected = conditionals.oracle.joint(plan.variables[cells].tolist())
        index = torch.zeros(count, dtype=torch.long)
        for cell, size in zip(cells.tolist(), expected.shape, strict=True):
            index = index * size + states[cell]
        found = torch.bincount(index, minlength=expected.numel()) / count
        error = (found - expected.flatten()).abs()
        assert bool((error <= 5 * (expected.flatten() / count).sqrt() + 5 / count).all())


def test_only_closed_neighbourhoods_have_cells():
    model = zoo.ising_ladder(num_variables=300, sigma=0.5, seed=0)
    chordal = chordal_of(model)
    proposal = Proposal(model, LocalConditionals(layout_of(model, chordal), takes_masks=True))
    plan = SubDagPlanner(proposal, chordal).draw([0, 150], np.random.default_rng(1))
    sizes = [len(chordal.closed_neighbourhood(u)) for u in (0, 150)]
    assert len(plan.variables) == plan.num_sampled == sum(sizes)
    assert len(plan.steps) <= max(sizes)
    assert plan.num_evaluated <= sum(2 * size - 1 for size in sizes)


def test_training_on_sub_dags_removes_the_residuals():
    model = zoo.ising_ladder(num_variables=6, sigma=0.5, seed=0).to(dtype=torch.float32)
    chordal, generator = chordal_of(model), torch.Generator().manual_seed(0)
    conditionals = LocalConditionals(
        layout_of(model, chordal), 16, takes_masks=True, generator=generator
    )
    proposal = Proposal(model, conditionals)
    planner, rng = SubDagPlanner(proposal, chordal), np.random.default_rng(0)
    optimiser = torch.optim.Adam(conditionals.parameters(), lr=0.02)
    losses = []
    for update in range(200):
        if update % 10 == 0:
            plan = planner.draw([*range(6)] * 4, rng)
        states = sample_sub_dags(proposal, plan, 8, policy=Policy(2), generator=generator)
        batch = prepare_sub_dags(proposal, plan, states, 1 - states[plan.centres])
        loss = sub_dag_residuals(proposal, plan, batch).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert math.fsum(losses[-20:]) / 20 < 0.02 * losses[0]


def test_graphs_that_do_not_fit_are_refused():
    model = zoo.ising_lattice(side=3, sigma=0.5, seed=0)
    chordal = chordal_of(model)
    path = chordal_completion(UndirectedGraph.from_edges(9, [(v, v + 1) for v in range(8)]))
    proposal = Proposal(model, LocalConditionals(layout_of(model, path), takes_masks=True))
    with pytest.raises(GraphError, match="not joined in the chordal graph"):
        SubDagPlanner(proposal, path).draw(range(9), np.random.default_rng(0))
    with pytest.raises(GraphError, match="inputs of the conditionals"):
        SubDagPlanner(proposal, chordal).draw(range(9), np.random.default_rng(0))
