"""q started at the messages of belief propagation: exact on forests, nearer to p on lattices."""

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.conditionals import known_given, known_under
from deltaai.errors import ConfigError, TrainingError
from deltaai.exact import Enumeration, exact
from deltaai.fitting.defaults import suitable_graph
from deltaai.fitting.initial import start_from_messages
from deltaai.fitting.spec import SamplerSpec
from deltaai.messages import loopy_belief_propagation
from deltaai.models import FactorGraph, TableFactor, Variable, zoo
from resuming import assert_resumes_to_the_same_weights

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = ["local", "table", "mae"]


def random_forest(seed, num_variables=7, fewest=1, scale=1.2):
    """Pairs and fields in a forest; variables have one to four states, in any order of scopes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(fewest, 5, num_variables)
    names = [f"v{number}" for number in range(num_variables)]
    factors = [TableFactor([], 0.3)]
    for later in range(1, num_variables):
        if rng.random() < 0.85:  # otherwise a new tree begins
            scope = rng.permutation([later, rng.integers(0, later)])
            table = rng.normal(scale=scale, size=sizes[scope])
            factors.append(TableFactor([names[v] for v in scope], table))
        factors.append(TableFactor([names[later]], rng.normal(size=sizes[later])))
    variables = [Variable(name, int(size)) for name, size in zip(names, sizes, strict=True)]
    return FactorGraph(variables, factors)


def started(model, **settings):
    """A sampler that has not been trained."""
    return dai.fit(model, steps=0, initial="bp", **settings)


def weights_of(sampler):
    return {name: value.clone() for name, value in sampler.proposal.conditionals.named_parameters()}


def log_p(truth):
    return truth.probabilities().log()


def divergence(model, sampler, dag=None):
    """KL(q || p) by enumeration."""
    truth = Enumeration(model)
    log_q = sampler.log_prob(truth.states, dag=dag).double()
    return float((log_q.exp() * (log_q - log_p(truth))).sum())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(6))
def test_q_is_exact_on_forests(seed, family):
    model = random_forest(seed)
    truth = Enumeration(model)
    sampler = started(model, family=family, hidden=8)
    found = sampler.log_prob(truth.states).double()
    torch.testing.assert_close(found, log_p(truth), atol=1e-4, rtol=0)
    before = dai.fit(model, steps=0, family=family, hidden=8).log_prob(truth.states).double()
    assert float((before - log_p(truth)).abs().max()) > 0.01


def test_q_is_exact_in_every_order_of_a_forest():
    """Factors that are inside the known take their message back."""
    model = random_forest(11)
    truth = Enumeration(model)
    sampler = started(model, orders="many", hidden=8)
    for seed in range(5):
        found = sampler.log_prob(truth.states, dag=sampler.random_order(seed)).double()
        torch.testing.assert_close(found, log_p(truth), atol=1e-4, rtol=0)


def test_q_for_any_evidence_is_exact_without_evidence_and_next_to_it():
    """A later neighbour that is observed sends no message: its factor is inside the known."""
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    tables = [TableFactor(names[v : v + 2], rng.normal(size=(3, 3))) for v in (0, 1)]
    model = FactorGraph([Variable(name, 3) for name in names], tables)
    truth = Enumeration(model)
    sampler = started(model, evidence="any", hidden=8)
    torch.testing.assert_close(
        sampler.log_prob(truth.states).double(), log_p(truth), atol=1e-4, rtol=0
    )
    dag, columns = sampler.orders.fixed, truth.states.T.contiguous()
    num_seen = 0
    for observed, variable in [(0, 1), (1, 0), (1, 2), (2, 1)]:
        if observed in dag.parents[variable]:
            continue  # seen anyway
        shown = torch.zeros(columns.shape, dtype=torch.bool)
        shown[observed] = True
        layout = sampler.proposal.layout
        before = known_under(layout, [dag]).expand(-1, columns.shape[1])
        known = known_given(layout, before, shown)
        log_q = sampler.proposal.log_conditionals(columns, known)[variable].double()
        expected = log_conditional(truth, variable, [*dag.parents[variable], observed])
        torch.testing.assert_close(log_q, expected, atol=1e-4, rtol=0)
        num_seen += 1
    assert num_seen == 2  # one for each edge


def log_conditional(truth, variable, given):
    """Log p(x_v | x_given) at every state, by enumeration."""
    alike = (truth.states[:, None, given] == truth.states[None][:, :, given]).all(2)
    same = alike & (truth.states[:, None, variable] == truth.states[None, :, variable])
    probs = log_p(truth).exp()
    return ((same * probs).sum(1) / (alike * probs).sum(1)).log()


@pytest.mark.parametrize("family", FAMILIES)
def test_without_factors_in_the_logits_q_starts_as_the_product_of_marginals(family):
    model = random_forest(3)
    truth = Enumeration(model)
    sampler = started(model, family=family, hidden=8, is_informed=False)
    marginals = exact(model).marginals()
    expected = sum(
        torch.from_numpy(marginals[variable.name]).log()[truth.states[:, at]]
        for at, variable in enumerate(model.variables)
    )
    found = sampler.log_prob(truth.states).double()
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("orders", ["one", "many"])
@pytest.mark.parametrize(
    "model",
    [zoo.ising_lattice(side=3, sigma=0.2, seed=seed) for seed in range(3)]
    + [zoo.potts_lattice(side=2, states=3, sigma=0.2, seed=0)],
)
def test_q_starts_nearer_to_p_on_lattices(model, orders):
    plain = dai.fit(model, steps=0, orders=orders)
    better = started(model, orders=orders)
    dag = better.random_order(1)
    assert divergence(model, better, dag) < 0.95 * divergence(model, plain, dag)


def test_q_starts_nearer_to_p_on_a_large_lattice():
    model = zoo.ising_lattice(side=8, sigma=0.2, seed=0)
    log_z = exact(model).log_partition()
    gaps = [
        log_z - dai.fit(model, steps=0, initial=initial).log_partition(2000).elbo
        for initial in ("bp", None)
    ]
    assert gaps[0] < 0.8 * gaps[1]


def test_factors_over_three_variables_and_variables_with_one_state_are_a_start():
    rng = np.random.default_rng(5)
    sizes = {"a": 2, "b": 3, "c": 2, "d": 1, "e": 2}
    scopes = [("a", "b", "c"), ("c", "d", "e"), ("d", "b"), ("e",)]
    tables = [
        TableFactor(list(scope), rng.normal(scale=0.7, size=[sizes[name] for name in scope]))
        for scope in scopes
    ]
    model = FactorGraph([Variable(name, size) for name, size in sizes.items()], tables)
    for orders in ("one", "many"):
        plain = dai.fit(model, steps=0, orders=orders)
        assert divergence(model, started(model, orders=orders)) < divergence(model, plain)


def test_messages_are_those_at_the_temperature_training_begins_with():
    """A target whose log-factors are halved is the target at half the inverse temperature."""
    model = random_forest(2, scale=2.0)
    halved = FactorGraph(
        model.variables, [TableFactor(f.scope, f.log_table / 2) for f in model.factors]
    )
    truth = Enumeration(halved)
    proposal, _ = SamplerSpec(hidden=8).build(model, suitable_graph(model))
    tempered = proposal.tempered(0.5)
    assert start_from_messages(tempered)
    found = tempered.log_prob(truth.states.T.contiguous()).double()
    torch.testing.assert_close(found, log_p(truth), atol=1e-4, rtol=0)


def test_messages_that_do_not_converge_change_nothing():
    model = zoo.ising_lattice(side=8, sigma=1.0, seed=0)
    assert not loopy_belief_propagation(model, num_iterations=200, damping=0.5).is_converged
    plain, same = dai.fit(model, steps=0), started(model)
    for name, value in weights_of(plain).items():
        assert torch.equal(value, weights_of(same)[name])


def test_training_goes_on_from_there_and_resumes(tmp_path):
    model = zoo.ising_lattice(side=3, sigma=0.3, seed=0)
    settings = {"initial": "bp", "steps": 30, "checkpoint_every": 10, "target_ess": None}
    assert_resumes_to_the_same_weights(model, tmp_path, stop_at=15, **settings)
    assert divergence(model, dai.fit(model, **settings)) < divergence(model, started(model))
    path = tmp_path / "run.checkpoint"
    with pytest.raises(TrainingError, match="another kind"):
        dai.fit(model, checkpoint=path, resume=True, **settings | {"initial": None})


def test_what_cannot_be_started_is_refused():
    model = zoo.ising_lattice(side=3, sigma=0.2, seed=0)
    with pytest.raises(ConfigError, match="did you mean 'bp'"):
        dai.fit(model, steps=0, initial="bps")
    with pytest.raises(ConfigError, match="one of bp"):
        dai.fit(model, steps=0, initial="messages")
    with pytest.raises(ConfigError, match="evidence='any'"):
        started(model, evidence=[model.variables[0].name])
    with pytest.raises(ConfigError, match="family='local'"):
        started(model, family="mae", orders="many", hidden=8)


def test_messages_are_handed_out_by_factor_and_variable():
    """Fields and messages of a forest add up to the beliefs."""
    model = random_forest(4, fewest=2)
    found = loopy_belief_propagation(model)
    totals = {v.name: np.zeros(v.num_states) for v in model.variables}
    for factor in model.factors:
        if len(factor.scope) == 1:
            totals[factor.scope[0]] += np.asarray(factor.log_table)
    for part in found.factor_messages():
        for number, variable, message in zip(
            part.ids.tolist(), part.variables.tolist(), part.log_messages, strict=True
        ):
            name = model.variables[variable].name
            assert name in model.factors[number].scope
            totals[name] += message.numpy()
    for name, belief in found.marginals().items():
        weights = np.exp(totals[name] - totals[name].max())
        np.testing.assert_allclose(weights / weights.sum(), belief, atol=1e-9)
