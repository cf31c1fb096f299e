"""q that begins at messages: exact where nothing is split, elsewhere the sampler of messages."""

import pytest
import torch

from deltaai.conditionals import MessageKnowledge, Proposal, flips
from deltaai.errors import ConfigError, ModelError
from deltaai.exact import Enumeration, exact, sorted_tables
from deltaai.fitting import SamplerSpec, fit, load_sampler, suitable_graph
from deltaai.graphs import eliminate
from deltaai.messages import MessagePlan, affordable_messages
from deltaai.messages.mini_buckets.passes import MiniBucketPasses
from deltaai.messages.mini_buckets.sampling import MessageSampler, Tables
from deltaai.models import FactorGraph, TableFactor, Target, Variable, zoo
from deltaai.objectives import delta_residuals, prepare_delta
from deltaai.sampling import ON_POLICY, Policy, Schedule, sample_ancestrally
from resuming import assert_resumes_to_the_same_weights
from statistical.chi_square import FALSE_FAILURE, chi_square_p_value

LARGE, SMALL = 2**20, 4
APART = FactorGraph(
    [Variable("a", 2), Variable("b", 1), Variable("c", 2), Variable("d", 2), Variable("e", 2)],
    [
        TableFactor(["a", "c", "b"], torch.tensor([[[0.3], [1.0]], [[-0.7], [0.2]]]).double()),
        TableFactor(["d"], torch.tensor([0.4, -0.4]).double()),
        TableFactor(["b"], torch.tensor([2.0]).double()),
    ],
)
MODELS = {
    "ising": zoo.ising_lattice(side=3, sigma=0.8, seed=1),
    "torus": zoo.ising_torus(side=3, sigma=0.7, seed=1),
    "potts": zoo.potts_lattice(side=2, states=3, sigma=0.8, seed=1),
    "wide": zoo.random_factor_graph(
        num_variables=8, num_factors=12, max_arity=3, max_states=3, seed=5
    ),
    "binary": zoo.random_factor_graph(
        num_variables=9, num_factors=14, max_arity=3, max_states=2, seed=2
    ),
    "factors": zoo.factor_lattice(side=3, sigma=1.0, seed=0),
    "apart": APART,
    "free": FactorGraph([Variable("a", 2), Variable("b", 2)], []),
    "one": FactorGraph([Variable("a", 2)], [TableFactor(["a"], torch.tensor([0.0, 1.0]))]),
}


@pytest.fixture(params=["compiled", "plain"])
def way(request, monkeypatch):
    """Both ways of evaluating, where there are two."""
    monkeypatch.setattr(flips, "_MANY", 1 if request.param == "compiled" else 2**60)
    return request.param


def built(model, entries, hidden=4, seed=0):
    spec = SamplerSpec(hidden=hidden, message_entries=entries)
    return spec.build(model, suitable_graph(model), seed=seed)


def shaken(proposal, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in proposal.conditionals.parameters():
            value.copy_(0.3 * torch.randn(value.shape, generator=generator))
    return proposal


@pytest.mark.parametrize("name", MODELS)
def test_unsplit_messages_are_the_distribution(name, way):
    model = MODELS[name]
    oracle = Enumeration(model)
    proposal, orders = built(model, LARGE)
    assert proposal.knowledge.plan.is_exact
    columns = torch.as_tensor(oracle.states).T.contiguous()
    log_p = torch.as_tensor(oracle.probabilities()).log()
    log_q = proposal.log_prob(columns).double()
    torch.testing.assert_close(log_q, log_p, rtol=1e-5, atol=2e-5)
    schedule = Schedule.build(proposal, [orders.fixed], masks=False)
    generator = torch.Generator().manual_seed(0)
    states, log_drawn = sample_ancestrally(
        proposal, schedule, 20_000, policy=ON_POLICY, generator=generator
    )
    wanted = proposal.log_prob(states[:, 0])
    torch.testing.assert_close(log_drawn[0], wanted, rtol=1e-5, atol=2e-5)
    p_value = chi_square_p_value(oracle.states, states[:, 0].T, oracle.probabilities())
    assert p_value > FALSE_FAILURE


@pytest.mark.parametrize("name", MODELS)
def test_the_residual_is_zero_everywhere_and_only_then(name, way):
    model = MODELS[name]
    states = torch.as_tensor(Enumeration(model).states).T.contiguous()
    num_states = model.num_states[:, None]
    proposal, _ = built(model, LARGE)
    for step in range(1, int(model.num_states.max())):
        others = (states + step) % num_states
        batch = prepare_delta(proposal, states, others)
        assert float(delta_residuals(proposal, batch).detach().abs().max()) < 5e-5
    if int(model.num_states.max()) > 1:
        shaken(proposal)
        batch = prepare_delta(proposal, states, (states + 1) % num_states)
        assert float(delta_residuals(proposal, batch).detach().abs().max()) > 1e-2


@pytest.mark.parametrize("name", ["ising", "torus", "potts", "wide", "factors"])
def test_split_messages_are_what_their_sampler_draws_from(name, way):
    """Which has its own code, and weights that are proven against enumeration."""
    model = MODELS[name]
    proposal, _ = built(model, SMALL)
    plan = proposal.knowledge.plan
    assert not plan.is_exact
    sampler = sampler_of(model, plan)
    states, log_weights = sampler.draw(500, 1, torch.Generator().manual_seed(0))
    log_q = proposal.log_prob(states.T.contiguous()).double()
    wanted = model.log_score(states).double() - log_weights
    torch.testing.assert_close(log_q, wanted, rtol=1e-5, atol=5e-5)
    whole = proposal.log_prob(torch.as_tensor(Enumeration(model).states).T.contiguous())
    assert float(whole.detach().double().logsumexp(0)) == pytest.approx(0.0, abs=1e-4)
    assert all(set(later) <= set(range(model.num_variables)) for later in plan.inputs)


def sampler_of(model, plan):
    """The sampler of the same messages."""
    factors, constant = sorted_tables(model, plan.order)
    passes = MiniBucketPasses(plan.plan, factors, model.device)
    elimination = eliminate(model.markov_graph(), plan.order)
    tables = Tables(model, elimination, plan.plan, passes, constant)
    return MessageSampler.drawing_from(tables, passes.up(is_matching=True))


@pytest.mark.parametrize("name", ["ising", "torus", "binary", "factors", "apart", "one"])
@pytest.mark.parametrize("entries", [None, SMALL, LARGE])
def test_the_compiled_pass_is_the_other_way_in_fewer_steps(name, entries, monkeypatch):
    """Logits, flips and draws of models with two states, by tables of factors or of messages."""
    model = MODELS[name]
    proposal, orders = built(model, entries)
    shaken(proposal)
    generator = torch.Generator().manual_seed(1)
    columns = (torch.rand(model.num_variables, 70, generator=generator) < 0.5).long()
    columns = columns.minimum(model.num_states[:, None] - 1)
    others = (1 - columns).minimum(model.num_states[:, None] - 1)
    found = {}
    for many in (1, 2**60):
        monkeypatch.setattr(flips, "_MANY", many)
        inside = proposal.knowledge.logits_and_flips(proposal.model, columns, others, None)
        found[many] = [*inside, proposal.known_logits(columns), proposal.log_prob(columns)]
    for one, other in zip(found[1], found[2**60], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(flips, "_MANY", 1)
    schedule = Schedule.build(proposal, [orders.fixed], masks=False)
    states, log_q = sample_ancestrally(
        proposal, schedule, 20_000, policy=ON_POLICY, generator=torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(log_q[0], proposal.log_prob(states[:, 0]), rtol=1e-4, atol=1e-4)
    every = torch.as_tensor(Enumeration(model).states)
    chance = proposal.log_prob(every.T.contiguous()).double().exp()
    assert chi_square_p_value(every, states[:, 0].T, chance.detach()) > FALSE_FAILURE
    # At another temperature of the policy log q is that of q itself.
    flat, log_q = sample_ancestrally(
        proposal, schedule, 50, policy=Policy(temperature=3.0), generator=generator
    )
    torch.testing.assert_close(log_q[0], proposal.log_prob(flat[:, 0]), rtol=1e-4, atol=1e-4)


def test_messages_are_those_of_the_temperature():
    model = MODELS["torus"]
    proposal, _ = built(model, LARGE)
    states = torch.as_tensor(Enumeration(model).states).T.contiguous()
    for beta in (0.3, 1.0, 0.7):
        log_p = beta * model.log_score(states.T).double()
        log_q = proposal.tempered(beta).log_prob(states).double()
        torch.testing.assert_close(log_q, log_p - log_p.logsumexp(0), rtol=1e-5, atol=2e-5)


def test_a_target_that_moves_gets_new_messages():
    table = torch.tensor([[0.3, -0.2], [0.1, 0.9]]).double().requires_grad_(True)
    names = ["a", "b", "c"]
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]
    model = FactorGraph([Variable(n, 2) for n in names], [TableFactor(p, table) for p in pairs])
    proposal, _ = built(model, LARGE)
    states = torch.as_tensor(Enumeration(model).states).T.contiguous()
    for _ in range(2):
        log_p = model.log_score(states.T).double().detach()
        log_q = proposal.log_prob(states).double()
        torch.testing.assert_close(log_q, log_p - log_p.logsumexp(0), rtol=1e-5, atol=2e-5)
        with torch.no_grad():
            for value in model.parameters():
                value.mul_(-2.0)


def test_the_largest_tables_that_are_allowed():
    model = zoo.ising_lattice(side=8, sigma=0.5, seed=0)
    order = suitable_graph(model).order
    entries, plan = affordable_messages(model, order, memory=2**30, most_total_entries=2**24)
    assert plan.is_exact
    for most in (2**10, 2**11, 2**12):
        entries, plan = affordable_messages(model, order, memory=2**30, most_total_entries=most)
        assert plan.plan.total_entries <= most
        assert MessagePlan.of(model, order, 2 * entries).plan.total_entries > most
    small = affordable_messages(model, order, memory=2**16, most_total_entries=2**24)[1]
    assert small.plan.memory <= 2**16


# -- samplers ----------------------------------------------------------------------------------


def test_a_sampler_that_is_right_before_training_is_not_trained():
    model = MODELS["torus"]
    sampler = fit(model, message_entries=LARGE, evaluate_first=True, target_ess=0.99)
    assert [row["step"] for row in sampler.history] == [0]
    assert float(sampler.log_partition()) == pytest.approx(exact(model).log_partition(), abs=1e-5)


def test_networks_learn_what_split_messages_lost():
    model = zoo.ising_lattice(side=5, sigma=1.0, seed=3)
    sampler = fit(model, message_entries=8, steps=200, evaluate_first=True, target_ess=0.999)
    first, last = sampler.history[0], sampler.history[-1]
    gaps = [row["log_partition"] - row["elbo"] for row in (first, last)]
    assert gaps[1] < 0.2 * gaps[0]
    oracle = exact(model)
    assert float(sampler.log_partition()) == pytest.approx(oracle.log_partition(), abs=0.02)


def test_wide_models_begin_at_messages_and_narrow_ones_do_not():
    wide = zoo.ising_lattice(side=24, sigma=0.2, seed=0)
    quiet = {"steps": 0, "progress": False}
    assert fit(wide, **quiet).spec.message_entries is not None
    assert fit(wide, message_entries=0, **quiet).spec.message_entries is None
    for settings in ({"orders": "many"}, {"family": "mae"}, {"is_informed": False}):
        assert fit(wide, **quiet, **settings, hidden=2).spec.message_entries is None
    assert fit(MODELS["ising"], **quiet).spec.message_entries is None


def test_training_goes_on_from_a_sampler_with_messages():
    model = zoo.ising_lattice(side=5, sigma=1.0, seed=3)
    sampler = fit(model, message_entries=8, steps=10)
    more = fit(model, start=sampler, steps=0)
    states = more.sample(20, 0)
    assert torch.equal(more.log_prob(states), sampler.log_prob(states))
    with pytest.raises(ConfigError, match="message_entries"):
        fit(model, start=sampler, message_entries=0, steps=1)
    with pytest.raises(ConfigError, match="two starts"):
        fit(model, message_entries=8, initial="bp", steps=1)
    fewer = FactorGraph(model.variables, [f for f in model.factors if len(f.scope) == 1])
    with pytest.raises(ModelError, match="between other variables"):
        fit(fewer, start=sampler, steps=1)


def test_files_keep_messages(tmp_path):
    model = zoo.ising_lattice(side=5, sigma=1.0, seed=3)
    sampler = fit(model, message_entries=8, steps=20)
    sampler.save(tmp_path / "q.dai")
    again = load_sampler(tmp_path / "q.dai")
    assert again.spec == sampler.spec
    states = sampler.sample(50, 0)
    assert torch.equal(sampler.log_prob(states), again.log_prob(states))
    assert torch.equal(states, again.sample(50, 0))


def test_a_run_resumes_to_the_same_weights(tmp_path):
    model = zoo.ising_lattice(side=5, sigma=1.0, seed=3)
    settings = {"message_entries": 8, "steps": 12, "checkpoint_every": 3, "evaluate_first": True}
    assert_resumes_to_the_same_weights(model, tmp_path, stop_at=7, **settings)


def test_what_cannot_have_messages_is_refused():
    model = MODELS["ising"]
    for settings in ({"orders": "many"}, {"evidence": "any"}, {"is_informed": False}):
        with pytest.raises(ModelError, match="messages are for models of states"):
            fit(model, message_entries=8, **settings)
    for entries in (-1, 2**40):
        with pytest.raises(ConfigError, match="message_entries"):
            fit(model, message_entries=entries)
    values = {**SamplerSpec().to_dict(), "message_entries": 2**40}
    with pytest.raises(ModelError, match="tables of"):
        SamplerSpec.from_dict(values, 3)
    assert SamplerSpec.from_dict({**values, "message_entries": 8}, 3).message_entries == 8
    del values["message_entries"]  # of an earlier version
    assert SamplerSpec.from_dict(values, 3).message_entries is None


def test_a_proposal_may_be_given_messages():
    model = MODELS["torus"]
    proposal, _ = built(model, LARGE)
    target = Target(model)
    knowledge = MessageKnowledge(
        target.now(torch.float32), proposal.layout, proposal.knowledge.plan
    )
    other = Proposal(target, proposal.conditionals, knowledge=knowledge)
    columns = torch.as_tensor(Enumeration(model).states).T.contiguous()
    torch.testing.assert_close(other.log_prob(columns), proposal.log_prob(columns))
