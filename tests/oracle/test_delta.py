"""The local objective against exact conditionals and against a plain reading of its equation."""

import numpy as np
import pytest
import torch

from deltaai.conditionals import Encoding, Layout, LocalConditionals, Proposal, known_under
from deltaai.conditionals.table import TableConditionals, TableSizeError, exact_proposal
from deltaai.errors import GraphError, ModelError
from deltaai.exact import Enumeration, exact_conditionals
from deltaai.graphs import chordal_completion, random_dag
from deltaai.models import FactorGraph, TableFactor, Variable, zoo
from deltaai.objectives.delta import delta_residuals, prepare_delta
from deltaai.sampling.ancestral import Schedule, sample_ancestrally
from deltaai.sampling.policies import Policy
from statistical.chi_square import FALSE_FAILURE, chi_square_p_value

TOLERANCE = 1e-9


def random_model(seed, num_factors=8, num_variables=6, **options):
    return zoo.random_factor_graph(num_variables, num_factors, seed=seed, **options)


MODELS = {
    "binary": random_model(0, min_states=2, max_states=2),
    "three-state": random_model(1, min_states=3, max_states=3, num_variables=5),
    "mixed": random_model(2, min_states=1, max_states=4, num_variables=5),
    "mixed-wide": random_model(3, min_states=2, max_states=3, max_arity=4),
    "dense": random_model(6, 60, 8, min_states=2, max_states=2),  # its blocks have padding
    "peaked": random_model(4, min_states=2, max_states=3, scale=4.0, num_variables=5),
    "disconnected": random_model(5, min_states=2, max_states=3, num_factors=3, max_arity=2),
    "one-variable": FactorGraph([Variable("a", 3)], [TableFactor(["a"], [0.0, 1.0, 2.0])]),
    "one-state": FactorGraph([Variable("a", 1)], [TableFactor(["a"], [2.0])]),
    "one-state-parent": FactorGraph(
        [Variable("a", 1), Variable("b", 2), Variable("c", 3)],
        [TableFactor(["a", "b", "c"], [[[0.3, -1.2, 0.8], [1.1, 0.4, -0.5]]])],
    ),
    "no-factors": FactorGraph([Variable("a", 3), Variable("b", 2)], []),
    "ising": zoo.ising_lattice(side=3, sigma=0.7, seed=1),
    "potts": zoo.potts_lattice(side=2, states=3, sigma=0.8, seed=1),
    "neural": zoo.factor_lattice(side=3, sigma=1.0, seed=1),
    "clamped": zoo.factor_lattice(side=3, sigma=1.0, seed=2).condition({"x_1_1": 1}),
}
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)


def double(name):
    return MODELS[name].to(dtype=torch.float64)


def all_columns(model):
    return Enumeration(model).states.T.contiguous()


def chordal_graph(model):
    return chordal_completion(model.markov_graph())


def dags_of(model, count):
    graph = chordal_graph(model)
    return [random_dag(graph, np.random.default_rng(seed)) for seed in range(count)]


def every_alternative(model, columns):
    """Alternatives that together change each variable to each of its other values."""
    sizes = model.num_states[:, None]
    for step in range(1, int(sizes.max())):
        yield (columns + torch.minimum(torch.tensor(step), sizes - 1)) % sizes


def informed_exact_proposal(model, dag):
    """The same q, with the log-factors taken out of the tables and put in front of them."""
    exact = exact_proposal(model, dag)
    layout, columns = exact.layout, all_columns(model)
    informed = Proposal(model, TableConditionals(layout).double())
    features = layout.encoding.encode(columns, model.dtype)
    rest = exact.conditionals.logits(features) - informed.known_logits(columns)
    with torch.no_grad():
        for number, block in enumerate(layout.blocks):
            inputs = features[block.feature_rows]
            entries = informed.conditionals.entries(number, torch.arange(block.size), inputs)
            rows = rest[block.rows].view(block.size, block.num_logits, len(columns.T))
            informed.conditionals.tables[number][entries] = rows.transpose(1, 2)
    return informed


def random_weights(conditionals, seed):
    """Random values for all weights: those that training starts at zero too."""
    generator = torch.Generator().manual_seed(seed)
    conditionals.double()
    with torch.no_grad():
        for parameter in conditionals.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator).double() * 0.7)
    return conditionals


def local_proposal(model, dag, *, is_informed=True, hidden=5):
    """Random networks for one order."""
    layout = Layout.build(model.num_states.tolist(), dag.parents)
    networks = random_weights(LocalConditionals(layout, hidden), seed=1)
    return Proposal(model, networks, knowledge=is_informed)


def many_orders_proposal(model, *, is_informed=True, hidden=5):
    """Random networks that may be asked with any known neighbours."""
    graph = chordal_graph(model)
    neighbours = [
        tuple(u for u in graph.closed_neighbourhood(v) if u != v)
        for v in range(model.num_variables)
    ]
    layout = Layout.build(model.num_states.tolist(), neighbours)
    networks = random_weights(LocalConditionals(layout, hidden, takes_masks=True), seed=2)
    return Proposal(model, networks, knowledge=is_informed)


def random_columns(model, count, seed=0):
    chance = torch.rand(
        model.num_variables, count, generator=torch.Generator().manual_seed(seed)
    ).double()
    return (chance * model.num_states[:, None]).long()


def draw_alternatives(columns, num_states, generator):
    return Encoding.of(num_states.tolist()).propose(columns, generator)


def reference_residuals(proposal, dag, columns, alternatives, known=None):
    """Equation ``delta-constraint``, one changed variable and one conditional at a time."""
    residuals = torch.zeros(columns.shape, dtype=torch.float64)
    for u in range(len(columns)):
        changed = columns.clone()
        changed[u] = alternatives[u]
        model = proposal.model
        residuals[u] = model.log_score(columns.T) - model.log_score(changed.T)
        here = proposal.log_conditionals(columns, known)
        there = proposal.log_conditionals(changed, known)
        for v in (u, *dag.children[u]):
            residuals[u] -= here[v] - there[v]
    return residuals


# -- exact conditionals ------------------------------------------------------------------------


@pytest.mark.parametrize("build", [exact_proposal, informed_exact_proposal])
@EVERY_MODEL
def test_exact_conditionals_leave_no_residual(name, build):
    """Keystone: zero for every state, variable, value and DAG."""
    model = double(name)
    columns = all_columns(model)
    for dag in dags_of(model, 5):
        proposal = build(model, dag)
        for alternatives in every_alternative(model, columns):
            residuals = delta_residuals(proposal, prepare_delta(proposal, columns, alternatives))
            assert float(residuals.detach().abs().max()) < TOLERANCE


@pytest.mark.parametrize("build", [exact_proposal, informed_exact_proposal])
@EVERY_MODEL
def test_exact_proposals_are_the_model(name, build):
    model = double(name)
    oracle = Enumeration(model)
    for dag in dags_of(model, 2):
        found = build(model, dag).log_prob(oracle.states.T.contiguous()).detach()
        torch.testing.assert_close(found.exp(), oracle.probabilities(), atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ["binary", "mixed", "disconnected", "one-variable"])
def test_one_wrong_entry_leaves_a_residual(name):
    """Power: whichever entry it is, some state and variable notice."""
    model = double(name)
    columns = all_columns(model)
    proposal = exact_proposal(model, dags_of(model, 1)[0])
    batches = [
        prepare_delta(proposal, columns, other) for other in every_alternative(model, columns)
    ]
    num_checked = 0
    for table in proposal.conditionals.tables:
        for position in range(table.numel()):
            with torch.no_grad():
                table.view(-1)[position] += 0.01
                largest = max(
                    float(delta_residuals(proposal, batch).abs().max()) for batch in batches
                )
                table.view(-1)[position] -= 0.01
            assert largest > 1e-4
            num_checked += 1
    assert num_checked > 0


def test_tables_refuse_what_they_cannot_hold():
    wide = Layout.build([2] * 40, [(), *[tuple(range(v)) for v in range(1, 40)]])
    with pytest.raises(TableSizeError, match=r"1\.1e\+12 entries \(up to 39 inputs"):
        TableConditionals(wide)
    small = TableConditionals(Layout.build([2, 2], [(), (0,)]))
    features, known = torch.ones(3, 4), torch.ones(1, 4)
    for question in (
        lambda: small.logits(features, known),
        lambda: small.logits_and_flips(features, features, known),
        lambda: small.logits_at(1, torch.tensor([0]), torch.ones(1, 1, 1, 4), known[:, :1]),
    ):
        with pytest.raises(GraphError, match="one order"):
            question()
    with pytest.raises(ModelError, match=r"variable 1 must have shape \(2, 2\)"):
        small.assign([torch.ones(2), torch.ones(2)])


# -- the equation ------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_informed", "beta"), [(True, 1.0), (True, 0.3), (False, 1.0)])
@EVERY_MODEL
def test_residuals_of_one_order_follow_the_equation(name, is_informed, beta):
    model = double(name)
    columns = random_columns(model, 20)
    alternatives = draw_alternatives(columns, model.num_states, torch.Generator().manual_seed(3))
    for dag in dags_of(model, 2):
        proposal = local_proposal(model, dag, is_informed=is_informed).tempered(beta)
        found = delta_residuals(proposal, prepare_delta(proposal, columns, alternatives))
        expected = reference_residuals(proposal, dag, columns, alternatives)
        torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
        losses = [expected[u].square().sum() for u in range(model.num_variables)]
        torch.testing.assert_close(found.square().sum(), sum(losses))


@pytest.mark.parametrize("is_informed", [True, False])
@EVERY_MODEL
def test_residuals_of_many_orders_follow_the_equation(name, is_informed):
    model = double(name)
    dags, samples = dags_of(model, 4), 6
    columns = random_columns(model, samples * len(dags))
    alternatives = draw_alternatives(columns, model.num_states, torch.Generator().manual_seed(3))
    proposal = many_orders_proposal(model, is_informed=is_informed)
    known = known_under(proposal.layout, dags).double().repeat_interleave(samples, 1)
    found = delta_residuals(proposal, prepare_delta(proposal, columns, alternatives, known))
    for number, dag in enumerate(dags):
        part = slice(number * samples, (number + 1) * samples)
        expected = reference_residuals(
            proposal, dag, columns[:, part], alternatives[:, part], known[:, part]
        )
        torch.testing.assert_close(found[:, part], expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("family", ["tables", "one-order", "many-orders"])
@EVERY_MODEL
def test_flips_equal_plain_evaluation(name, family):
    model = double(name)
    dag, other_dag = dags_of(model, 2)
    columns = random_columns(model, 8)
    alternatives = draw_alternatives(columns, model.num_states, torch.Generator().manual_seed(3))
    known = None
    if family == "tables":
        layout = Layout.build(model.num_states.tolist(), dag.parents)
        conditionals = random_weights(TableConditionals(layout), seed=3)
    elif family == "one-order":
        conditionals = local_proposal(model, dag).conditionals
    else:
        conditionals = many_orders_proposal(model).conditionals
        known = known_under(conditionals.layout, [dag, other_dag]).double().repeat(1, 4)
    layout = conditionals.layout
    encode = layout.encoding.encode
    features = encode(columns, torch.float64)
    base, flips = conditionals.logits_and_flips(
        features, encode(alternatives, torch.float64), known
    )
    torch.testing.assert_close(base, conditionals.logits(features, known))
    for slot, (v, u) in enumerate(
        zip(layout.slot_variable.tolist(), layout.slot_input.tolist(), strict=True)
    ):
        changed = columns.clone()
        if u < model.num_variables:  # padding changes nothing
            changed[u] = alternatives[u]
        plain = conditionals.logits(encode(changed, torch.float64), known)
        rows = torch.arange(layout.num_states[v] - 1)
        found = flips[layout.first_flip_of[slot] + rows]
        torch.testing.assert_close(found, plain[layout.first_row_of[v] + rows])


@pytest.mark.parametrize("family", ["tables", "one-order", "many-orders"])
@pytest.mark.parametrize("name", ["mixed", "disconnected", "ising"])
def test_some_members_equal_all(name, family):
    """``logits_at`` answers as ``logits`` does, each order with its own known inputs."""
    model = double(name)
    dag = dags_of(model, 1)[0]
    known = None
    if family == "tables":
        layout = Layout.build(model.num_states.tolist(), dag.parents)
        conditionals = random_weights(TableConditionals(layout), seed=3)
    elif family == "one-order":
        conditionals = local_proposal(model, dag).conditionals
    else:
        conditionals = many_orders_proposal(model).conditionals
        known = known_under(conditionals.layout, [dag]).double()
    layout = conditionals.layout
    features = layout.encoding.encode(random_columns(model, 8), torch.float64)
    every = conditionals.logits(features, None if known is None else known.expand(-1, 8))
    for number, block in enumerate(layout.blocks):
        members = torch.arange(block.size).flip(0).repeat(2)
        mask = None
        if known is not None:
            mask = known[block.slots].view(block.size, block.num_inputs)[members]
        inputs = features[block.feature_rows[members]]
        found = conditionals.logits_at(number, members, inputs, mask)
        expected = every[block.rows].view(block.size, block.num_logits, 8)[members]
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("orders", ["one", "many"])
def test_gradients_agree_with_finite_differences(orders):
    model = random_model(7, min_states=2, max_states=3, num_variables=4, num_factors=4)
    dags = dags_of(model, 2)
    columns = random_columns(model, 4)
    alternatives = draw_alternatives(columns, model.num_states, torch.Generator().manual_seed(3))
    if orders == "one":
        proposal, known = local_proposal(model, dags[0], hidden=3), None
    else:
        proposal = many_orders_proposal(model, hidden=3)
        known = known_under(proposal.layout, dags).double().repeat(1, 2)
    batch = prepare_delta(proposal, columns, alternatives, known)
    parameters = tuple(proposal.conditionals.parameters())

    # gradcheck moves the parameters in place, so the function need not look at its arguments.
    def loss(*_):
        return delta_residuals(proposal, batch).square().mean()

    assert torch.autograd.gradcheck(loss, parameters, atol=1e-6)


# -- log-factors in the logits -----------------------------------------------------------------


@EVERY_MODEL
def test_conditionals_of_leaves_are_exact_before_training(name):
    model = double(name)
    columns = all_columns(model)
    for dag in dags_of(model, 3):
        layout = Layout.build(model.num_states.tolist(), dag.parents)
        proposal = Proposal(model, LocalConditionals(layout).double())
        found = proposal.log_conditionals(columns)
        expected = exact_proposal(model, dag).log_conditionals(columns)
        leaves = [v for v in range(model.num_variables) if not dag.children[v]]
        assert leaves
        torch.testing.assert_close(found[leaves], expected[leaves], atol=TOLERANCE, rtol=0)


@EVERY_MODEL
def test_each_factor_enters_the_logits_of_its_last_variable(name):
    """So those of all variables add up to the score, less each factor at a first state."""
    model = double(name)
    columns = random_columns(model, 10)
    proposal = many_orders_proposal(model)
    layout = proposal.layout
    for dag in dags_of(model, 3):
        rank = {v: position for position, v in enumerate(dag.order)}
        known = known_under(layout, [dag]).double().expand(-1, 10)
        rows = proposal.known_logits(columns, known)
        found = torch.zeros(10, dtype=torch.float64)
        for v in range(model.num_variables):
            logits = torch.cat((found.new_zeros(1, 10), rows[layout.first_row_of[v] :]))
            found += logits[: layout.num_states[v]].gather(0, columns[[v]])[0]
        expected = model.log_score(columns.T)
        for factor in model.factors:
            alone = FactorGraph(model.variables, [factor])
            if factor.scope:
                at_first = columns.clone()
                at_first[max((model.index(u) for u in factor.scope), key=rank.__getitem__)] = 0
                expected = expected - alone.log_score(at_first.T).double()
        torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)


# -- samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("is_informed", "beta"), [(True, 1.0), (True, 0.4), (False, 1.0)])
@EVERY_MODEL
def test_sampling_reports_the_log_probability_of_its_samples(name, is_informed, beta):
    model = double(name)
    dags = dags_of(model, 3)
    cases = [(local_proposal(model, dag, is_informed=is_informed), [dag], False) for dag in dags]
    cases.append((many_orders_proposal(model, is_informed=is_informed), dags, True))
    for policy in (Policy(), Policy(temperature=2, uniform_share=0.1, tempered_share=0.5)):
        for untempered, orders, masks in cases:
            proposal = untempered.tempered(beta)
            schedule = Schedule.build(proposal, orders, masks=masks)
            generator = torch.Generator().manual_seed(0)
            columns, log_q = sample_ancestrally(
                proposal, schedule, 12, policy=policy, generator=generator
            )
            known = known_under(proposal.layout, orders).double()
            for number in range(len(orders)):
                seen = known[:, [number]].expand(-1, 12) if masks else None
                expected = proposal.log_prob(columns[:, number], seen)
                torch.testing.assert_close(log_q[number], expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ["mixed-wide", "ising", "potts", "one-state-parent"])
@pytest.mark.parametrize("build", [exact_proposal, informed_exact_proposal])
def test_samples_of_exact_proposals_pass_chi_square(name, build):
    model = double(name)
    oracle = Enumeration(model)
    dag = dags_of(model, 1)[0]
    proposal = build(model, dag)
    columns, _ = sample_ancestrally(
        proposal,
        Schedule.build(proposal, [dag], masks=False),
        20_000,
        policy=Policy(),
        generator=torch.Generator().manual_seed(1),
    )
    p_value = chi_square_p_value(oracle.states, columns[:, 0].T, oracle.probabilities())
    assert p_value > FALSE_FAILURE


@pytest.mark.parametrize("num_states", [2, 3])
@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(temperature=2.0),
        Policy(uniform_share=0.3),
        Policy(temperature=3.0, tempered_share=0.4),
        Policy(temperature=2.0, uniform_share=0.2, tempered_share=0.5),
    ],
    ids=str,
)
def test_policies_draw_with_the_stated_probabilities(policy, num_states):
    log_table = torch.tensor([0.0, 1.5, -1.0][:num_states]).double()
    model = FactorGraph([Variable("a", num_states)], [TableFactor(["a"], log_table.tolist())])
    dag = dags_of(model, 1)[0]
    proposal = exact_proposal(model, dag)
    columns, _ = sample_ancestrally(
        proposal,
        Schedule.build(proposal, [dag], masks=False),
        20_000,
        policy=policy,
        generator=torch.Generator().manual_seed(1),
    )
    on_policy, tempered = log_table.softmax(0), (log_table / policy.temperature).softmax(0)
    mixed = policy.tempered_share * tempered + (1 - policy.tempered_share) * on_policy
    wanted = (1 - policy.uniform_share) * mixed + policy.uniform_share / num_states
    states = torch.arange(num_states)[:, None]
    assert chi_square_p_value(states, columns[:, 0].T, wanted) > FALSE_FAILURE
    if policy != Policy():  # power: the policies can be told apart from q
        assert chi_square_p_value(states, columns[:, 0].T, on_policy) < FALSE_FAILURE


def test_alternatives_are_uniform_over_other_values():
    sizes = torch.tensor([1, 2, 4])
    columns = torch.tensor([[0], [1], [2]]).expand(-1, 20_000)
    others = draw_alternatives(columns, sizes, torch.Generator().manual_seed(1))
    assert bool((others[0] == 0).all())
    assert bool((others[1] == 0).all())
    wanted = torch.tensor([1.0, 1.0, 0.0, 1.0]) / 3
    p_value = chi_square_p_value(torch.arange(4)[:, None], others[2][:, None], wanted)
    assert p_value > FALSE_FAILURE


def test_models_with_zeros_are_refused():
    model = zoo.sprinkler()
    layout = Layout.build(model.num_states.tolist(), dags_of(model, 1)[0].parents)
    with pytest.raises(ModelError, match="positive everywhere"):
        Proposal(model, TableConditionals(layout))


def test_conditionals_of_the_wrong_order_are_refused():
    model = double("ising")
    dag, other = dags_of(model, 2)
    tables = TableConditionals(Layout.build(model.num_states.tolist(), dag.parents))
    with pytest.raises(ModelError, match="must have shape"):
        tables.assign(exact_conditionals(model, other))
