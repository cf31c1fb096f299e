"""All networks in one compiled pass: logits, flips, gradients and draws, against the other way."""

import pytest
import torch

from deltaai.conditionals import (
    Categorical,
    Context,
    GivenStates,
    LocalConditionals,
    Proposal,
    Stacked,
    flips,
    log_ratios_of,
)
from deltaai.conditionals.layout import Layout
from deltaai.graphs import UndirectedGraph, chordal_completion
from deltaai.learning import LatentConfig, LatentLearner
from deltaai.models import FactorGraph, Variable
from deltaai.sampling import ON_POLICY, Orders, Policy, Schedule, sample_ancestrally
from deltaai.threads import limited_threads, side_by_side

NUM_VARIABLES, NUM_CONTEXT = 13, 4


def shaken(conditionals, seed=0):
    """The same networks with weights all over, so that every one of them matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in conditionals.parameters():
            value.copy_(torch.randn(value.shape, generator=generator) * 0.5)
    return conditionals


def proposal_of(activation="hardswish", num_context=NUM_CONTEXT, hidden=5, spare=8, **options):
    pairs = [(u, (u * 5 + 3) % NUM_VARIABLES) for u in range(NUM_VARIABLES) if u != 9]
    pairs = [(u, v) for u, v in pairs if u != v]
    graph = chordal_completion(UndirectedGraph.from_edges(NUM_VARIABLES, pairs))
    orders = Orders.of(graph, "one")
    layout = Layout.build([2] * NUM_VARIABLES, orders.fixed.parents, spare=spare)
    networks = shaken(
        LocalConditionals(layout, hidden, activation=activation, num_context=num_context, **options)
    )
    variables = [Variable(f"x{number}", 2) for number in range(NUM_VARIABLES)]
    proposal = Proposal(FactorGraph(variables, []), networks, knowledge=False)
    return proposal, Schedule.build(proposal, [orders.fixed], masks=False)


def context_of(proposal, number, seed=1):
    features = torch.randn(NUM_CONTEXT, number, generator=torch.Generator().manual_seed(seed))
    return proposal.conditionals.context_terms(features)


@pytest.fixture(autouse=True)
def always_worth_it(monkeypatch):
    monkeypatch.setattr(flips, "_MANY", 1)
    monkeypatch.setattr(flips, "_MANY_A_THREAD", 1)


@pytest.mark.parametrize("activation", ["tanh", "silu", "hardswish"])
@pytest.mark.parametrize("number", [1, 7, 128, 300])
def test_states_are_those_that_the_logits_and_numbers_give(activation, number, monkeypatch):
    proposal, schedule = proposal_of(activation)
    context = context_of(proposal, number)
    chance = torch.rand(NUM_VARIABLES, number, generator=torch.Generator().manual_seed(2))
    scale = torch.linspace(0.2, 1.0, number)
    stacked = proposal.conditionals.in_one_pass(number)
    states, logits = stacked.draw(schedule.dags[0].order, chance, scale, context)
    with torch.no_grad():
        again = proposal.conditionals.logits(proposal.features(states), None, context)
        monkeypatch.setattr(flips, "_MANY", 10**12)
        rows = proposal.conditionals.logits(proposal.features(states), None, context)
    torch.testing.assert_close(again, rows, atol=2e-5, rtol=1e-5)
    assert number == 1 or not torch.equal(again, rows)  # or the other pass was not taken
    wanted = rows[proposal.layout.first_row_of]
    torch.testing.assert_close(logits, wanted, atol=2e-5, rtol=1e-5)
    probability = (scale * wanted).sigmoid()
    is_clear = (chance - probability).abs() > 1e-5
    assert torch.equal(states[is_clear], (chance < probability).long()[is_clear])
    assert is_clear.float().mean() > 0.99


def test_log_q_and_shapes_are_those_of_the_other_way(monkeypatch):
    proposal, schedule = proposal_of()
    context = context_of(proposal, 200)
    found = {}
    for way, least in (("compiled", 1), ("steps", 10**12)):
        monkeypatch.setattr(flips, "_MANY", least)
        states, log_q = sample_ancestrally(
            proposal,
            schedule,
            200,
            policy=Policy(4.0, num_tempered=20),
            generator=torch.Generator().manual_seed(0),
            context=context,
        )
        assert states.shape == (NUM_VARIABLES, 1, 200)
        assert log_q.shape == (1, 200)
        with torch.no_grad():
            wanted = proposal.log_prob(states[:, 0], context=context)
        torch.testing.assert_close(log_q[0], wanted, atol=1e-4, rtol=1e-5)
        found[way] = states
    # Each draws its numbers in another order: what they have in common is the distribution.
    assert not torch.equal(found["compiled"], found["steps"])


def test_frequencies_are_those_of_q():
    proposal, schedule = proposal_of(num_context=0)
    number = 40_000
    states, _ = sample_ancestrally(
        proposal, schedule, number, policy=ON_POLICY, generator=torch.Generator().manual_seed(3)
    )
    columns = states[:, 0]
    with torch.no_grad():
        rows = proposal.conditionals.logits(proposal.features(columns))
    expected = rows[proposal.layout.first_row_of].sigmoid()
    apart = (columns - expected).sum(1) / (expected * (1 - expected)).sum(1).sqrt()
    assert apart.abs().max() < 4.5


def test_threads_change_nothing():
    proposal, schedule = proposal_of(hidden=8)
    context, found = context_of(proposal, 500), []
    for threads in (1, 3):
        torch.set_num_threads(3)
        try:
            with limited_threads(threads):
                found.append(
                    sample_ancestrally(
                        proposal,
                        schedule,
                        500,
                        policy=ON_POLICY,
                        generator=torch.Generator().manual_seed(0),
                        context=context,
                    )
                )
        finally:
            torch.set_num_threads(1)
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])


def test_what_it_is_not_made_for_is_drawn_step_by_step(monkeypatch):
    monkeypatch.setattr(Stacked, "draw", lambda *_, **__: pytest.fail("compiled"))
    for options in ({"depth": 2}, {"takes_masks": True}):
        proposal, schedule = proposal_of(**options)
        sample_ancestrally(proposal, schedule, 3, policy=ON_POLICY, context=context_of(proposal, 3))
    proposal, schedule = proposal_of()
    context = context_of(proposal, 3)
    sample_ancestrally(proposal, schedule, 3, policy=Policy(uniform_share=0.1), context=context)


def test_blocks_join_while_padding_lasts():
    inputs = [tuple(range(v)) for v in range(30)]
    apart = Layout.build([2] * 30, inputs)
    joined = Layout.build([2] * 30, inputs, spare=40)
    assert len(joined.blocks) < len(apart.blocks)
    assert joined.num_slots <= apart.num_slots + 40 * len(joined.blocks)
    assert sorted(torch.cat([b.variables for b in joined.blocks]).tolist()) == list(range(30))
    one = Layout.build([2] * 30, inputs, spare=10**6)
    assert len(one.blocks) == 1
    mixed = Layout.build([2] * 15 + [3] * 15, [()] * 30, spare=10**6)
    assert len(mixed.blocks) == 2  # other heads, other blocks


def gradients(proposal, features, flipped, context_features):
    """Logits and flips, and the gradient of a random sum of both in everything that is learned."""
    conditionals = proposal.conditionals
    given = context_features.clone().requires_grad_()
    context = conditionals.context_terms(given) if given.numel() else None
    rows, flips = conditionals.logits_and_flips(features, flipped, None, context)
    generator = torch.Generator().manual_seed(5)
    loss = sum(
        (value * torch.randn(value.shape, generator=generator)).sum() for value in (rows, flips)
    )
    learned = [*conditionals.parameters(), *([given] if given.numel() else [])]
    return rows, flips, torch.autograd.grad(loss, learned, allow_unused=True)


@pytest.mark.parametrize("activation", ["tanh", "silu", "hardswish"])
@pytest.mark.parametrize(("number", "num_context"), [(1, 0), (9, 3), (130, 3), (257, 0)])
def test_flips_and_gradients_are_those_of_the_other_way(
    activation, number, num_context, monkeypatch
):
    proposal, _ = proposal_of(activation, num_context=num_context)
    generator = torch.Generator().manual_seed(4)
    columns = torch.randint(2, (NUM_VARIABLES, number), generator=generator)
    features, flipped = proposal.features(columns), proposal.features(1 - columns)
    given = torch.randn(num_context, number if num_context else 0, generator=generator)
    found = gradients(proposal, features, flipped, given)
    plain = proposal.conditionals.logits(features, None, None)
    monkeypatch.setattr(flips, "_MANY", 10**12)
    wanted = gradients(proposal, features, flipped, given)
    others = proposal.conditionals.logits(features, None, None)
    pairs = [*zip(found[:2], wanted[:2], strict=True), *zip(found[2], wanted[2], strict=True)]
    for one, other in [*pairs, (plain, others)]:
        if other is None:
            assert one is None or not one.any()
            continue
        size = max([1.0, *other.detach().abs().flatten().tolist()])
        torch.testing.assert_close(one, other, atol=3e-6 * size, rtol=1e-4)
    learned = list(proposal.conditionals.parameters())
    monkeypatch.setattr(flips, "_MANY", 1)
    slopes = torch.autograd.grad(plain.square().sum(), learned, allow_unused=True)
    wanted = torch.autograd.grad(others.square().sum(), learned, allow_unused=True)
    for one, other in zip(slopes, wanted, strict=True):
        assert (one is None) == (other is None)
        if other is not None:
            size = max([1.0, *other.abs().flatten().tolist()])
            torch.testing.assert_close(one, other, atol=3e-6 * size, rtol=1e-4)


def test_context_that_is_shared_by_columns_stands_once():
    proposal, schedule = proposal_of()
    context = context_of(proposal, 6).repeated(3)
    assert all(terms.shape[-1] == 6 for terms in context.terms)
    spread = Context(tuple(context.of_block(n) for n in range(len(proposal.layout.blocks))))
    found = [
        sample_ancestrally(
            proposal,
            schedule,
            18,
            policy=ON_POLICY,
            generator=torch.Generator().manual_seed(0),
            context=one,
        )
        for one in (context, spread)
    ]
    assert torch.equal(found[0][0], found[1][0])
    torch.testing.assert_close(found[0][1], found[1][1])


def test_a_run_does_not_depend_on_threads():
    from latent_oracle import SMALL, STRUCTURE, rows_of

    found = []
    for passes in (1, 3):
        config = LatentConfig(**{**SMALL, "updates": 6})
        learner = LatentLearner(STRUCTURE, rows_of(64), config, seed=0)
        with limited_threads(1, passes=passes):
            learner.run()
        parts = (learner.model, learner.posterior.trained)
        found.append([value for part in parts for value in part.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_errors_of_pieces_come_back_from_either_side():
    for number in range(2):
        pieces = [lambda: None, lambda: None]
        pieces[number] = lambda: 1 / 0
        for passes in (1, 2):
            with limited_threads(1, passes=passes), pytest.raises(ZeroDivisionError):
                side_by_side(*pieces)


@pytest.mark.parametrize("number", [1, 9, 130, 257])
def test_ratios_and_their_slopes_are_those_of_the_other_way(number, monkeypatch):
    inputs = [(), (), (0, 1), (2,), (0, 2, 3), (1, 4)]
    heads = [GivenStates(2), *[Categorical(2)] * 5]  # the first is given, and changes too
    layout = Layout.build(heads, inputs, spare=3)
    generator = torch.Generator().manual_seed(0)
    columns = torch.randint(2, (6, number), generator=generator)
    others = 1 - columns
    others[3] = columns[3]  # that stays as it is
    found = []
    for least in (1, 10**12):
        monkeypatch.setattr(flips, "_MANY", least)
        shapes = (layout.num_rows, number), (layout.num_flips, number)
        given = [
            (40 * torch.randn(shape, generator=torch.Generator().manual_seed(7))).requires_grad_()
            for shape in shapes
        ]
        ratios = log_ratios_of(layout, *given, columns, others)
        weights = torch.randn(ratios.shape, generator=torch.Generator().manual_seed(8))
        found.append([ratios, *torch.autograd.grad((ratios * weights).sum(), given)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=2e-6)
    assert number == 1 or not torch.equal(found[0][0], found[1][0])  # or it was the same pass


def test_logarithms_of_the_ratios_are_exact_far_out():
    x = torch.cat((torch.linspace(-90, 90, 5001), torch.tensor([0.0, 1e-8, -1e-8, 1e4, -1e4])))
    layout = Layout.build([2, 2], [(), (0,)])
    logits, other = torch.stack((torch.zeros_like(x), x)), torch.zeros(1, len(x))
    columns = torch.zeros(2, len(x), dtype=torch.long)
    ratio = log_ratios_of(layout, logits, other, columns, 1 - columns)[0]
    wanted = torch.nn.functional.logsigmoid(-x.double()) + torch.log(torch.tensor(2.0).double())
    torch.testing.assert_close(ratio.double(), wanted, atol=1e-6, rtol=1e-6)
    lost = torch.full_like(logits, torch.nan)
    assert log_ratios_of(layout, lost, other, columns, 1 - columns).isnan().all()
