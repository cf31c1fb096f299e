"""Evidence: exact conditionals leave no residual under any of it, and posteriors are right."""

import itertools

import numpy as np
import pytest
import torch

from deltaai.conditionals import (
    Conditionals,
    Encoding,
    LocalConditionals,
    Proposal,
    known_given,
    known_under,
)
from deltaai.conditionals.evidence import evidence_layout
from deltaai.errors import ConfigError, EvidenceError, StateError
from deltaai.exact import Enumeration, exact
from deltaai.fitting.fit_model import fit
from deltaai.fitting.loading import load_sampler
from deltaai.graphs import chordal_completion, maximum_cardinality_order, random_dag
from deltaai.models import FactorGraph, TableFactor, Variable, zoo
from deltaai.objectives.delta import delta_residuals, prepare_delta
from deltaai.sampling import ON_POLICY, Given, Schedule, sample_ancestrally
from resuming import assert_resumes_to_the_same_weights

MODELS = {
    "ising": zoo.ising_lattice(side=2, sigma=0.7, seed=0),
    "mixed": zoo.random_factor_graph(4, 5, max_arity=3, max_states=3, seed=3),
    "disconnected": zoo.random_factor_graph(5, 2, max_arity=2, max_states=2, seed=5),
}


def dag_of(model, seed=0):
    return random_dag(chordal_completion(model.markov_graph()), np.random.default_rng(seed))


class ExactGiven(Conditionals):
    """Answers p(x_v | known inputs) from the joint distribution of a small model."""

    def __init__(self, layout, model):
        super().__init__()
        self.layout, self.model, self.oracle = layout, model, Enumeration(model)
        self.columns = None  # of the batch that is asked for

    def _logits(self, variable, seen):
        """Relative logits of a variable given a mapping of known variables to states."""
        states, p = self.oracle.states, self.oracle.probabilities()
        agrees = torch.ones(len(states), dtype=torch.bool)
        for other, state in seen.items():
            agrees &= states[:, other] == state
        count = self.layout.num_states[variable]
        mass = torch.stack([p[agrees & (states[:, variable] == k)].sum() for k in range(count)])
        return (mass.log() - mass[0].log())[1:]

    def _rows(self, known, flipped=None):
        rows, flips = [], []
        for block in self.layout.blocks:
            mask = known[block.slots].view(block.size, block.num_inputs, known.shape[1])
            for place, variable in enumerate(block.variables.tolist()):
                inputs = block.inputs[place].tolist()
                for number, target in [
                    (None, rows),
                    *((n, flips) for n in range(block.num_flipped)),
                ]:
                    answers = []
                    for column in range(self.columns.shape[1]):
                        seen = {
                            u: int(self.columns[u, column])
                            for slot, u in enumerate(inputs)
                            if mask[place, slot, column] > 0
                        }
                        if number is not None and inputs[number] in seen:
                            u = inputs[number]
                            seen[u] = int(flipped[u, column])
                        answers.append(self._logits(variable, seen))
                    target.append(torch.stack(answers, 1))
        empty = torch.zeros(0, self.columns.shape[1], dtype=torch.float64)
        return torch.cat([empty, *rows]), torch.cat([empty, *flips])

    def logits(self, features, known=None, context=None):
        return self._rows(known)[0]

    def logits_and_flips(self, features, flipped, known=None, context=None):
        return self._rows(known, self.alternatives)

    def logits_at(self, block, members, inputs, known=None, context=None):
        raise NotImplementedError


def every_case(model, seed):
    """Every state with every set of observed variables."""
    oracle = Enumeration(model)
    sets = list(itertools.product([False, True], repeat=model.num_variables))
    columns = oracle.states.T.repeat_interleave(len(sets), dim=1).contiguous()
    observed = torch.tensor(sets).T.repeat(1, len(oracle.states))
    generator = torch.Generator().manual_seed(seed)
    keep = torch.randperm(columns.shape[1], generator=generator)[:300]
    columns, observed = columns[:, keep].contiguous(), observed[:, keep].contiguous()
    others = Encoding.of(model.num_states.tolist()).propose(columns, generator)
    return columns, observed, others


def known_of(layout, dag, observed):
    """What each conditional sees: what comes before it, and what is observed."""
    before = known_under(layout, [dag], torch.float64).expand(-1, observed.shape[1])
    return known_given(layout, before, observed)


@pytest.mark.parametrize("name", MODELS)
def test_exact_conditionals_leave_no_residual_under_any_evidence(name):
    model = MODELS[name]
    for seed in range(2):
        dag = dag_of(model, seed)
        layout = evidence_layout(model.num_states.tolist(), dag, 99)
        conditionals = ExactGiven(layout, model)
        proposal = Proposal(model, conditionals, knowledge=False)
        columns, observed, alternatives = every_case(model, seed)
        conditionals.columns, conditionals.alternatives = columns, alternatives
        known = known_of(layout, dag, observed)
        batch = prepare_delta(proposal, columns, alternatives, known, observed)
        assert float(delta_residuals(proposal, batch).abs().max()) < 1e-9


def random_proposal(model, dag, most=99, seed=0):
    """Informed local networks with random weights, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    layout = evidence_layout(model.num_states.tolist(), dag, most)
    conditionals = LocalConditionals(layout, 6, takes_masks=True, generator=generator).double()
    with torch.no_grad():
        for parameter in conditionals.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return Proposal(model, conditionals)


def log_given(proposal, dag, columns, observed):
    """Log q of the unobserved variables, one conditional each."""
    known = known_of(proposal.layout, dag, observed)
    return proposal.log_conditionals(columns, known).masked_fill(observed, 0)


@pytest.mark.parametrize("most", [99, 1])
@pytest.mark.parametrize("name", MODELS)
def test_residuals_are_the_equation_written_out(name, most):
    model = MODELS[name]
    dag = dag_of(model)
    proposal = random_proposal(model, dag, most)
    columns, observed, alternatives = every_case(model, 0)
    known = known_of(proposal.layout, dag, observed)
    with torch.no_grad():
        batch = prepare_delta(proposal, columns, alternatives, known, observed)
        found = delta_residuals(proposal, batch)
        here = model.log_score(columns.T) - log_given(proposal, dag, columns, observed).sum(0)
        for u in range(model.num_variables):
            moved = columns.clone()
            moved[u] = alternatives[u]
            there = model.log_score(moved.T) - log_given(proposal, dag, moved, observed).sum(0)
            expected = (here - there).masked_fill(observed[u], 0)
            torch.testing.assert_close(found[u], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_samples_given_evidence_have_the_probability_they_report(name):
    model = MODELS[name]
    dag = dag_of(model)
    proposal = random_proposal(model, dag)
    columns, observed, _ = every_case(model, 1)
    given = Given(columns, observed, known_of(proposal.layout, dag, observed))
    schedule = Schedule.build(proposal, [dag], masks=True, is_given=True)
    states, log_q = sample_ancestrally(
        proposal,
        schedule,
        columns.shape[1],
        policy=ON_POLICY,
        generator=torch.Generator().manual_seed(0),
        given=given,
    )
    states, log_q = states.flatten(1), log_q.flatten()
    assert torch.equal(states[observed], columns[observed])
    with torch.no_grad():
        expected = log_given(proposal, dag, states, observed).sum(0)
    torch.testing.assert_close(log_q, expected, rtol=1e-9, atol=1e-9)


def test_probabilities_given_evidence_sum_to_one():
    model = MODELS["mixed"]
    dag = dag_of(model)
    proposal = random_proposal(model, dag)
    states = Enumeration(model).states
    for first in range(model.num_variables):
        observed = torch.zeros(model.num_variables, len(states), dtype=torch.bool)
        observed[first] = True
        with torch.no_grad():
            q = log_given(proposal, dag, states.T.contiguous(), observed).sum(0).exp()
        for value in range(model.variables[first].num_states):
            assert float(q[states[:, first] == value].sum()) == pytest.approx(1)


@pytest.mark.parametrize("preferred", [(), (4,), (3, 7), (0, 8), tuple(range(9))])
def test_preferred_variables_come_first_in_a_valid_order(preferred):
    graph = chordal_completion(zoo.ising_lattice(side=3, sigma=1.0, seed=0).markov_graph())
    order = maximum_cardinality_order(graph, preferred)[::-1]
    assert sorted(order) == list(range(9))
    if preferred:
        assert order[0] in preferred


# -- samplers ----------------------------------------------------------------------------------

LATTICE = zoo.ising_lattice(side=3, sigma=0.5, seed=0)
CASES = [{}, {"x4": 1}, {"x0": 0, "x8": 1}, {"x1": 1, "x3": 1, "x5": 0, "x7": 0}]


def named(model, evidence):
    """Evidence by place, with the names that the model has."""
    return {model.variables[int(key[1:])].name: state for key, state in evidence.items()}


def worst_error(model, evidence, found):
    """Largest total variation of a single marginal."""
    truth = exact(model, evidence).marginals()
    return max(0.5 * float(np.abs(truth[name] - found[name]).sum()) for name in truth)


@pytest.fixture(scope="module")
def samplers():
    settings = {"steps": 150, "target_kl": 1e-5, "seed": 0}
    return {
        "one": fit(LATTICE, **settings),
        "many": fit(LATTICE, orders="many", **settings),
        "any": fit(LATTICE, evidence="any", steps=400, seed=0),
    }


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["one", "many", "any"])
def test_posteriors_agree_with_exact_inference(samplers, kind, case):
    evidence = named(LATTICE, case)
    generator = torch.Generator().manual_seed(1)
    found = samplers[kind].posterior(evidence, 4000, generator)
    truth = exact(LATTICE, evidence).log_partition()
    estimate = found.estimate
    assert abs(estimate.log_partition - truth) < 4 * estimate.stderr + 0.005
    assert worst_error(LATTICE, evidence, found.marginals()) < 0.02
    columns = [LATTICE.index(name) for name in evidence]
    assert bool((found.states[:, columns] == torch.tensor(list(evidence.values()))).all())


@pytest.mark.parametrize("case", CASES)
def test_training_for_evidence_gives_even_weights(samplers, case):
    evidence = named(LATTICE, case)
    found = samplers["any"].posterior(evidence, 2000, torch.Generator().manual_seed(0))
    assert found.estimate.ess_fraction > 0.6
    assert worst_error(LATTICE, evidence, found.marginals(is_weighted=False)) < 0.05


def test_many_rows_are_answered_together(samplers):
    rows = [named(LATTICE, case) for case in CASES] * 3
    generator = torch.Generator().manual_seed(0)
    found = list(samplers["any"].posteriors(rows, 500, generator))
    assert len(found) == len(rows)
    for row, answer in zip(rows, found, strict=True):
        assert answer.states.shape == (500, 9)
        assert worst_error(LATTICE, row, answer.marginals()) < 0.06


def test_saving_keeps_what_was_trained_for_evidence(samplers, tmp_path):
    path = tmp_path / "any.dai"
    samplers["any"].save(path)
    loaded = load_sampler(path)
    evidence = named(LATTICE, CASES[2])
    answers = [
        one.posterior(evidence, 200, torch.Generator().manual_seed(3))
        for one in (samplers["any"], loaded)
    ]
    assert torch.equal(answers[0].states, answers[1].states)
    assert torch.equal(answers[0].log_weights, answers[1].log_weights)


def test_without_evidence_it_is_an_ordinary_sampler(samplers):
    sampler = samplers["any"]
    oracle = Enumeration(LATTICE)
    assert float(sampler.log_prob(oracle.states).exp().sum()) == pytest.approx(1, abs=1e-4)
    assert sampler.log_partition(2000).ess_fraction > 0.9
    assert max(sampler.residuals(200).values()) < 0.1


@pytest.mark.parametrize("evidence", ["any", [LATTICE.variables[3].name]])
def test_an_interrupted_run_for_evidence_resumes_to_the_same_weights(tmp_path, evidence):
    settings = {
        "evidence": evidence,
        "steps": 12,
        "checkpoint_every": 5,
        "batch_size": 16,
        "seed": 1,
    }
    assert_resumes_to_the_same_weights(LATTICE, tmp_path, stop_at=7, **settings)


def test_what_cannot_be_is_refused(samplers):
    with pytest.raises(EvidenceError, match="no variable"):
        samplers["any"].posterior({"nobody": 1})
    with pytest.raises(ConfigError, match="no entry for an input that is not known"):
        fit(LATTICE, evidence="any", family="table", steps=2)
    with pytest.raises(ConfigError, match="what is observed does not vary"):
        fit(LATTICE, most_observed=3, steps=2)
    with pytest.raises(ConfigError, match="most_observed is 99"):
        fit(LATTICE, evidence="any", most_observed=99, steps=2)


def test_one_variable():
    model = FactorGraph([Variable("a", 3)], [TableFactor(["a"], [0.0, 1.0, 2.0])])
    sampler = fit(model, evidence="any", steps=20, most_observed=1)
    assert sampler.posterior({"a": 2}, 10).marginals()["a"].tolist() == [0, 0, 1]


# -- evidence that is the same every time ------------------------------------------------------

FIXED = [LATTICE.variables[v].name for v in (1, 4, 6)]


@pytest.fixture(scope="module")
def conditioned():
    return fit(LATTICE, evidence=FIXED, steps=200, seed=0)


@pytest.mark.parametrize("values", [(0, 0, 0), (1, 1, 1), (0, 1, 0), (1, 0, 1)])
def test_a_fixed_set_is_conditioned_on(conditioned, values):
    evidence = dict(zip(FIXED, values, strict=True))
    found = conditioned.posterior(evidence, 2000, torch.Generator().manual_seed(0))
    truth = exact(LATTICE, evidence).log_partition()
    assert abs(found.estimate.log_partition - truth) < 4 * found.estimate.stderr + 0.005
    assert found.estimate.ess_fraction > 0.9
    assert worst_error(LATTICE, evidence, found.marginals()) < 0.02


def test_observed_variables_leave_the_graph(conditioned):
    graph = conditioned.orders.graph
    assert all(not graph.neighbours(LATTICE.index(name)) for name in FIXED)
    layout = conditioned.proposal.layout
    for variable, seen in enumerate(layout.context):
        names = {LATTICE.variables[other].name for other in seen}
        assert names <= set(FIXED)
        assert not (seen and LATTICE.variables[variable].name in FIXED)


def test_further_evidence_is_weighted_and_missing_evidence_refused(conditioned):
    more = {**dict.fromkeys(FIXED, 1), LATTICE.variables[8].name: 0}
    found = conditioned.posterior(more, 4000, torch.Generator().manual_seed(0))
    assert worst_error(LATTICE, more, found.marginals()) < 0.03
    with pytest.raises(EvidenceError, match="needs the values of"):
        conditioned.posterior({FIXED[0]: 1})
    with pytest.raises(StateError, match="use posterior"):
        conditioned.sample(3)


def test_saving_keeps_a_fixed_set(conditioned, tmp_path):
    conditioned.save(tmp_path / "fixed.dai")
    loaded = load_sampler(tmp_path / "fixed.dai")
    evidence = dict.fromkeys(FIXED, 0)
    answers = [
        one.posterior(evidence, 100, torch.Generator().manual_seed(0))
        for one in (conditioned, loaded)
    ]
    assert torch.equal(answers[0].log_weights, answers[1].log_weights)


def test_a_fixed_set_is_some_of_the_variables():
    with pytest.raises(ConfigError, match="0 of 9"):
        fit(LATTICE, evidence=[], steps=2)
    with pytest.raises(ConfigError, match="some, not all"):
        fit(LATTICE, evidence=[v.name for v in LATTICE.variables], steps=2)
    with pytest.raises(ConfigError, match="a list of names"):
        fit(LATTICE, evidence="x_0_0", steps=2)
    with pytest.raises(EvidenceError, match="no variable"):
        fit(LATTICE, evidence=["nobody"], steps=2)
