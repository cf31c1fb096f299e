"""The two-term estimator: averaged over its choices, its gradient is that of the whole square."""

import itertools

import numpy as np
import pytest
import torch

from deltaai.conditionals import Layout, LocalConditionals, Proposal, known_under
from deltaai.conditionals.table import TableConditionals, exact_proposal
from deltaai.errors import StateError
from deltaai.graphs import chordal_completion, random_dag
from deltaai.models import zoo
from deltaai.objectives import stochastic
from deltaai.objectives.delta import delta_residuals, prepare_delta
from deltaai.objectives.stochastic import stochastic_delta_losses, stochastic_square, two_term_loss

MODELS = {
    "binary": zoo.random_factor_graph(5, 7, min_states=2, max_states=2, seed=0),
    "mixed": zoo.random_factor_graph(5, 6, min_states=1, max_states=4, seed=2),
    "disconnected": zoo.random_factor_graph(6, 3, min_states=2, max_arity=2, seed=5),
    "no-factors": zoo.random_factor_graph(3, 0, min_states=2, max_states=3, seed=6),
    "ising": zoo.ising_lattice(side=3, sigma=0.7, seed=1),
}


def random_proposal(model, dags, family):
    """Random weights: tables or networks of one order, or networks of many orders."""
    inputs = dags[0].parents
    if family == "many-orders":
        graph = dags[0].skeleton
        inputs = [
            tuple(u for u in graph.closed_neighbourhood(v) if u != v)
            for v in range(model.num_variables)
        ]
    layout = Layout.build(model.num_states.tolist(), inputs)
    if family == "tables":
        conditionals = TableConditionals(layout)
    else:
        conditionals = LocalConditionals(layout, 4, takes_masks=family == "many-orders")
    conditionals.double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in conditionals.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator).double() * 0.7)
    return Proposal(model, conditionals)


def dags_of(model, count):
    graph = chordal_completion(model.markov_graph())
    return [random_dag(graph, np.random.default_rng(seed)) for seed in range(count)]


def random_batch(proposal, count, known=None):
    model, generator = proposal.model, torch.Generator().manual_seed(0)
    chance = torch.rand(model.num_variables, count, generator=generator).double()
    columns = (chance * model.num_states[:, None]).long()
    alternatives = proposal.layout.encoding.propose(columns, generator)
    return prepare_delta(proposal, columns, alternatives, known)


def gradient(loss, parameters):
    parts = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
    return torch.cat(
        [
            (torch.zeros_like(value) if part is None else part).reshape(-1)
            for value, part in zip(parameters, parts, strict=True)
        ]
    )


# -- on tensors --------------------------------------------------------------------------------


@pytest.mark.parametrize("num_terms", range(6))
def test_the_average_over_all_choices_is_the_whole_gradient(num_terms):
    """Exactly, for terms that share their parameters."""
    generator = torch.Generator().manual_seed(num_terms)
    theta = torch.randn(4, generator=generator, dtype=torch.float64, requires_grad=True)
    mixing = torch.randn(num_terms + 1, 4, generator=generator, dtype=torch.float64)
    g, *terms = (mixing @ theta).tanh().unbind()
    count = torch.tensor(num_terms)
    pairs = list(itertools.permutations(range(num_terms), 2))
    zero = torch.zeros((), dtype=torch.float64)
    losses = [two_term_loss(g, terms[i], terms[j], count) for i, j in pairs]
    if num_terms < 2:
        losses = [two_term_loss(g, zero, terms[0] if terms else zero, count)]
    found = gradient(sum(losses) / len(losses), [theta])
    expected = gradient(0.5 * (g + sum(terms)) ** 2, [theta])
    torch.testing.assert_close(found, expected)


def test_samples_average_to_the_whole_gradient():
    """Rows with 0 to 4 real terms among four places; five standard errors allowed."""
    generator = torch.Generator().manual_seed(0)
    repeats, most = 4000, 4
    counts = torch.arange(most + 1)
    g = torch.randn(most + 1, generator=generator, dtype=torch.float64)
    f = torch.randn(most + 1, most, generator=generator, dtype=torch.float64)
    mask = torch.arange(most) >= most - counts[:, None]
    leaves = [
        value.expand(repeats, *value.shape).clone().requires_grad_()
        for value in (g, torch.where(mask, f, 1e9))
    ]
    losses = stochastic_square(*leaves, mask.expand(repeats, -1, -1), generator)
    assert losses.shape == (repeats, most + 1)
    of_g, of_f = torch.autograd.grad(losses.sum(), leaves)
    whole = g + torch.where(mask, f, 0).sum(1)
    expected = torch.where(mask, whole[:, None], 0)
    for found, wanted in ((of_g, whole), (of_f, expected)):
        allowed = 5 * found.std(0) / repeats**0.5 + 1e-12
        assert bool(((found.mean(0) - wanted).abs() <= allowed).all())
    assert bool((of_f[:, ~mask] == 0).all())
    exact = counts <= 1
    torch.testing.assert_close(losses[:, exact], (0.5 * whole**2)[exact].expand(repeats, 2))


# -- on the residual ---------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["tables", "one-order"])
@pytest.mark.parametrize("name", MODELS)
def test_the_average_over_all_children_is_the_gradient_of_the_residuals(name, family, monkeypatch):
    """Every variable goes through all ordered pairs of its children, all variables in step."""
    model = MODELS[name]
    (dag,) = dags_of(model, 1)
    proposal = random_proposal(model, [dag], family)
    parameters = list(proposal.conditionals.parameters())
    batch = random_batch(proposal, 6)
    layout = proposal.layout
    children = [(layout.slot_input == u).nonzero().squeeze(1) for u in range(model.num_variables)]
    assert [sorted(layout.slot_variable[slots].tolist()) for slots in children] == [
        list(row) for row in dag.children
    ]
    pairs = []
    for slots in children:
        every = list(itertools.permutations(slots.tolist(), 2))
        pairs.append(every or [(int(slots[0]), 0)] if len(slots) else [(0, 0)])
    rounds = int(np.lcm.reduce([len(every) for every in pairs]))
    count = torch.tensor([[len(slots)] for slots in children])
    total = 0.0
    for number in range(rounds):
        chosen = torch.tensor([every[number % len(every)] for every in pairs]).T[:, :, None]
        monkeypatch.setattr(
            stochastic._Draws, "choose_children", lambda *_, chosen=chosen: (chosen, count)
        )
        total = total + stochastic_delta_losses(proposal, batch, samples_per_draw=6).sum()
    expected = gradient(0.5 * delta_residuals(proposal, batch).square().sum(), parameters)
    torch.testing.assert_close(gradient(total / rounds, parameters), expected)


@pytest.mark.parametrize("samples_per_draw", [1, 2])
@pytest.mark.parametrize("family", ["one-order", "many-orders"])
@pytest.mark.parametrize("name", ["mixed", "disconnected", "ising"])
def test_sampled_children_average_to_the_gradient_of_the_residuals(name, family, samples_per_draw):
    """Along random directions of the weights; five standard errors allowed."""
    model = MODELS[name]
    dags = dags_of(model, 2)
    proposal = random_proposal(model, dags, family)
    parameters = list(proposal.conditionals.parameters())
    known = None
    if family == "many-orders":
        known = known_under(proposal.layout, dags).double().repeat_interleave(2, 1)
    batch = random_batch(proposal, 4, known)
    generator = torch.Generator().manual_seed(3)
    found = torch.stack(
        [
            gradient(
                stochastic_delta_losses(
                    proposal, batch, generator, samples_per_draw=samples_per_draw
                ).sum(),
                parameters,
            )
            for _ in range(60)
        ]
    )
    expected = gradient(0.5 * delta_residuals(proposal, batch).square().sum(), parameters)
    directions = torch.randn(found.shape[1], 10, generator=generator).double()
    along, wanted = found @ directions, expected @ directions
    standard_errors = along.std(0) / len(found) ** 0.5
    assert bool(((along.mean(0) - wanted).abs() <= 5 * standard_errors + 1e-9).all())


def test_children_are_drawn_uniformly_without_repeats():
    model = MODELS["ising"]
    dags = dags_of(model, 2)
    proposal = random_proposal(model, dags, "many-orders")
    layout = proposal.layout
    known = known_under(layout, dags).double().repeat_interleave(3000, 1)
    draws = stochastic._Draws.of(random_batch(proposal, 6000, known), 1)
    slots, count = draws.choose_children(layout, torch.Generator().manual_seed(0))
    for number, dag in enumerate(dags):
        part = slice(3000 * number, 3000 * (number + 1))
        for u, children in enumerate(dag.children):
            assert bool((count[u, part] == len(children)).all())
            if len(children) > 1:
                assert bool((layout.slot_input[slots[:, u, part]] == u).all())
                chosen = layout.slot_variable[slots[:, u, part]]
                pairs, times = torch.unique(chosen, dim=1, return_counts=True)
                expected = 3000 / (len(children) * (len(children) - 1))
                assert sorted(map(tuple, pairs.T.tolist())) == sorted(
                    itertools.permutations(children, 2)
                )
                assert float((times - expected).abs().max()) < 6 * expected**0.5


def test_exact_conditionals_have_no_expected_gradient_and_wrong_batches_are_refused():
    model = MODELS["binary"]
    (dag,) = dags_of(model, 1)
    proposal = exact_proposal(model, dag)
    batch = random_batch(proposal, 6)
    losses = stochastic_delta_losses(proposal, batch, torch.Generator().manual_seed(0))
    few = torch.tensor([len(children) < 2 for children in dag.children])
    assert float(losses[few].detach().max()) < 1e-12
    with pytest.raises(StateError, match="6 samples cannot be cut into draws of 4"):
        stochastic_delta_losses(proposal, batch, samples_per_draw=4)
    dags = dags_of(MODELS["ising"], 2)
    proposal = random_proposal(MODELS["ising"], dags, "many-orders")
    known = known_under(proposal.layout, dags).double()
    with pytest.raises(StateError, match="do not all have the same order"):
        stochastic_delta_losses(proposal, random_batch(proposal, 2, known), samples_per_draw=2)
