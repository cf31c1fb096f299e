"""Latent-variable models against enumeration: p, q, every E-step, and what is said of both."""

import itertools
import math
import re

import numpy as np
import pytest
import torch

from deltaai.conditionals import known_under
from deltaai.errors import ConfigError, GraphError, StateError
from deltaai.graphs import Dag, UndirectedGraph
from deltaai.learning import E_STEPS, LatentConfig, LatentLearner, LatentStructure
from deltaai.learning.em.steps.base import Batch, Draws
from deltaai.learning.em.steps.partial import PartialDraws
from deltaai.learning.em.terms import TermsAround
from deltaai.objectives import delta_residuals, prepare_delta
from deltaai.sampling import ON_POLICY
from latent_oracle import (
    SMALL,
    STRUCTURE,
    all_states,
    joint,
    known_in_the_fixed_order,
    learner,
    log_posterior,
    rows_of,
)

STEPS = sorted(E_STEPS)


def test_p_is_a_distribution():
    made = learner()
    every_row = all_states(5).double()
    total = joint(made, every_row).flatten().logsumexp(0)
    torch.testing.assert_close(total.item(), 0.0, atol=1e-10, rtol=0)


@pytest.mark.parametrize("family", ["local", "mae"])
def test_p_is_the_product_of_its_conditionals(family):
    made = learner(family=family)
    rows = rows_of(6).double()
    latents = all_states(4)[3:9].T
    below = made.model.means(latents)
    expected = torch.where(rows == 1, below, 1 - below).log().sum(1)
    prior = joint(made, all_states(5).double()).logsumexp(1)
    places = (latents * torch.tensor([[8], [4], [2], [1]])).sum(0)
    torch.testing.assert_close(
        made.model.log_joint(latents, rows), expected + prior[places], rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("family", ["local", "mae"])
def test_log_ratios_are_differences_of_the_joint(family):
    made, rows = learner(family=family), rows_of(16).double()
    latents = all_states(4).T
    found = made.model.log_ratios(latents, 1 - latents, rows)
    for u in range(4):
        moved = latents.clone()
        moved[u] = 1 - moved[u]
        expected = made.model.log_joint(latents, rows) - made.model.log_joint(moved, rows)
        torch.testing.assert_close(found[u], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("orders", ["one", "many"])
def test_residuals_of_q_are_differences_of_log_weights(orders):
    made, rows = learner(orders=orders), rows_of(16).double()
    latents = all_states(4).T
    source = made.step.source
    source.redraw(np.random.default_rng(3))
    paths = source.paths(latents, context=rows)
    with torch.no_grad():
        context = made.posterior.context_of(rows)
        batch = prepare_delta(made.posterior, latents, 1 - latents, paths.known, context=rows)
        found = delta_residuals(made.posterior, batch)
        for u in range(4):
            moved = latents.clone()
            moved[u] = 1 - moved[u]
            here, there = (
                made.model.log_joint(state, rows)
                - made.posterior.log_prob(state, paths.known, context=context)
                for state in (latents, moved)
            )
            torch.testing.assert_close(found[u], here - there, rtol=1e-7, atol=1e-7)


def test_partial_scores_end_at_the_joint_and_skip_what_is_not_set():
    made, rows = learner(), rows_of(16).double()
    latents = all_states(4).T
    ranks = torch.argsort(torch.rand(4, 16, generator=torch.Generator().manual_seed(1)), 0)
    found = made.model.partial_log_joints(latents, ranks, rows, at_once=20)
    torch.testing.assert_close(found[-1], made.model.log_joint(latents, rows))
    # What is not set yet does not matter.
    other = torch.where(ranks < 2, latents, 1 - latents)
    again = made.model.partial_log_joints(other, ranks, rows)
    torch.testing.assert_close(found[:3], again[:3])
    assert not torch.allclose(found[3:], again[3:])


def test_terms_around_a_latent_give_the_ratio_of_the_joint():
    made, rows = learner(), rows_of(16).double()
    latents = all_states(4).T
    columns = torch.cat((latents, rows.T.long()))[:, None].repeat(1, 4, 1)
    changed = columns.clone()
    each = torch.arange(4)
    changed[each, each] = 1 - changed[each, each]
    among, below = (
        TermsAround(part, range(4)) for part in (made.model.prior, made.model.likelihood)
    )
    found = sum(
        sign * (among.log_sums(states[:4]) + below.log_sums(states))
        for sign, states in ((1, columns), (-1, changed))
    )
    expected = made.model.log_ratios(latents, 1 - latents, rows)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_terms_of_all_centres_add_up_to_the_joint():
    made = learner("delta-partial", orders="many", batch=4)
    latents, row = all_states(4)[5], rows_of(1).double()
    columns = torch.cat((latents, row[0].long()))[:, None, None].expand(-1, 4, 1)
    draws = PartialDraws(made.step.plan.variables[:, None], row.expand(4, -1), columns)
    found = made.step.model_loss(draws)
    expected = -made.model.log_joint(latents[:, None], row)[0]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_residuals_of_partial_draws_are_those_of_the_equation():
    made = learner("delta-partial", orders="many", batch=8)
    made.step.redraw(3)
    generator = torch.Generator().manual_seed(0)
    rows = rows_of(8).double()
    draws = made.step.draw(Batch(torch.arange(8), rows), generator)
    found = made.step.loss(draws, generator)
    squares = []
    for item, u in enumerate(made.step.centres):
        # The sub-DAG is the top of an order of all latents: the rest follows in any way.
        cells = (made.step.plan.sub_dags == item).nonzero().squeeze(1)
        top = made.step.plan.variables[cells].tolist()
        rest = [v for v in range(4) if v not in top]
        dag = Dag(made.structure.graph, (*top, *rest))
        known = known_under(made.posterior.layout, [dag], torch.float64).expand(-1, 2)
        latents, context = (
            draws.columns[:4, item],
            made.posterior.context_of(rows.view(4, 2, 5)[item]),
        )
        moved = latents.clone()
        moved[u] = 1 - moved[u]
        here, there = (
            made.model.log_joint(state, rows.view(4, 2, 5)[item])
            - made.posterior.log_prob(state, known, context=context)
            for state in (latents, moved)
        )
        squares.append((here - there) ** 2)
    torch.testing.assert_close(found, torch.stack(squares).mean(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("orders", ["one", "many"])
def test_weights_are_those_of_enumeration(orders):
    made, rows = learner(orders=orders, spread=0.4), rows_of(3).double()
    exact = joint(made, rows).logsumexp(0)
    generator = torch.Generator().manual_seed(0)
    weights = made.log_weights(rows, 20_000, generator)
    assert weights.shape == (20_000, 3)
    found = weights.logsumexp(0) - math.log(20_000)
    spread = (weights - exact).exp().std(0) / math.sqrt(20_000)
    assert bool(((found - exact).exp() - 1).abs().le(4 * spread).all())


def test_the_bound_rises_with_the_number_of_draws_towards_the_likelihood():
    made, rows = learner(spread=0.4), rows_of(8).double()
    exact = joint(made, rows).logsumexp(0).mean()
    weights = made.log_weights(rows, 60_000, torch.Generator().manual_seed(0))
    bounds = []
    for number in (1, 5, 50, 5000):
        groups = weights.view(-1, number, 8)
        bounds.append((groups.logsumexp(1) - math.log(number)).mean().item())
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1] <= exact + 0.01
    assert bounds[-1] == pytest.approx(exact.item(), abs=0.01)


def exact_gradient(made, loss):
    """Gradient of a loss with respect to q's parameters."""
    made.posterior.trained.zero_grad(set_to_none=True)
    loss.backward()
    parts = [p.grad.flatten() for p in made.posterior.trained.parameters() if p.grad is not None]
    return torch.cat(parts)


def mean_gradient(made, batch, number):
    total = 0.0
    generator = torch.Generator().manual_seed(11)
    for _ in range(number):
        draws = made.step.draw(batch, generator)
        total = total + exact_gradient(made, made.step.loss(draws, generator))
    return total / number


def test_mean_field_follows_the_gradient_of_the_bound():
    made = learner("mean-field", spread=0.4)
    rows = rows_of(1).double().expand(56, -1)
    batch = Batch(torch.zeros(56, dtype=torch.long), rows)
    log_q, log_p = log_posterior(made, rows[:1]), joint(made, rows[:1]).detach()
    expected = exact_gradient(made, (log_q.exp() * (log_q - log_p)).sum())
    found = mean_gradient(made, batch, 400)
    assert torch.nn.functional.cosine_similarity(found, expected, dim=0) > 0.99
    assert found.norm() == pytest.approx(expected.norm().item(), rel=0.1)


def test_sleep_follows_the_gradient_of_the_dreams():
    made = learner("sleep", spread=0.4)
    every_row = all_states(5).double()
    weights = joint(made, every_row).exp().detach()
    expected = exact_gradient(made, -(weights * log_posterior(made, every_row)).sum())
    batch = Batch(torch.zeros(56, dtype=torch.long), rows_of(56).double())
    found = mean_gradient(made, batch, 400)
    assert torch.nn.functional.cosine_similarity(found, expected, dim=0) > 0.98


def test_importance_weights_approach_the_posterior():
    made = learner("importance", spread=0.4, importance_samples=56)
    rows = rows_of(1).double().expand(56, -1)
    log_p = joint(made, rows[:1]).detach()
    posterior = (log_p - log_p.logsumexp(0)).exp()
    expected = exact_gradient(made, -(posterior * log_posterior(made, rows[:1])).sum())
    found = mean_gradient(made, Batch(torch.zeros(56, dtype=torch.long), rows), 200)
    assert torch.nn.functional.cosine_similarity(found, expected, dim=0) > 0.98


@pytest.mark.parametrize("orders", ["one", "many"])
def test_draws_that_are_chosen_by_weight_approach_the_posterior(orders):
    made, number = learner(orders=orders, spread=0.4), 6000
    row = rows_of(1).double()
    posterior, apart = joint(made, row)[:, 0].softmax(0).detach(), []
    source, generator = made.step.source, torch.Generator().manual_seed(0)
    for candidates in (1, 4, 100):
        paths = source.draw(
            made.posterior,
            number,
            ON_POLICY,
            generator,
            context=row.expand(number, -1),
            candidates=candidates,
        )
        places = (paths.columns * torch.tensor([[8], [4], [2], [1]])).sum(0)
        found = torch.bincount(places, minlength=16) / number
        apart.append(float((found - posterior).abs().sum() / 2))
    assert apart[0] > apart[1] > apart[2]
    assert apart[0] > 0.1
    assert apart[2] < 0.03


def test_flattened_draws_are_not_chosen_and_p_does_not_learn_from_them():
    settings = {"tempered_share": 0.2, "temperature": 9.0, "candidates": 7, "orders": "many"}
    made, rows = learner(**settings), rows_of(56).double()
    batch = Batch(torch.zeros(56, dtype=torch.long), rows)
    draws = made.step.draw(batch, torch.Generator().manual_seed(0))
    by_order = draws.weights.view(2, 28)
    assert not by_order[:, :6].any()  # a fifth of 28, rounded up
    assert torch.allclose(by_order[:, 6:], torch.tensor(1 / 44, dtype=torch.float64))
    assert draws.paths.columns.shape == (4, 56)


def test_gibbs_leaves_the_posterior_as_it_is():
    made, number = learner("gibbs", spread=1.0), 40_000
    row = rows_of(1).double()
    log_p = joint(made, row)[:, 0]
    posterior = log_p.softmax(0)
    generator = torch.Generator().manual_seed(0)
    at = torch.multinomial(posterior, number, replacement=True, generator=generator)
    latents = all_states(4)[at].T.contiguous()
    before = latents.clone()
    made.step.sweep(latents, row.expand(number, -1), generator)
    assert (latents != before).any()
    found = torch.bincount((latents * torch.tensor([[8], [4], [2], [1]])).sum(0), minlength=16)
    chi_square = ((found - number * posterior) ** 2 / (number * posterior)).sum()
    assert chi_square < 44  # 15 degrees of freedom, one in ten thousand
    # From anywhere, many sweeps lead there.
    latents = torch.zeros(4, 4000, dtype=torch.long)
    for _ in range(40):
        made.step.sweep(latents, row.expand(4000, -1), generator)
    found = torch.bincount((latents * torch.tensor([[8], [4], [2], [1]])).sum(0), minlength=16)
    chi_square = ((found - 4000 * posterior) ** 2 / (4000 * posterior)).sum()
    assert chi_square < 44


QUICK = {("delta", "one"), ("delta-partial", "many"), ("tb", "one")}
CASES = [
    pytest.param(
        method,
        orders,
        marks=[] if (method, orders) in QUICK else [pytest.mark.slow],
    )
    for method in STEPS
    for orders in ("one", "many")
    if (method, orders) not in {("mean-field", "many"), ("delta-partial", "one")}
]


@pytest.mark.parametrize(("method", "orders"), CASES)
def test_every_e_step_brings_q_to_the_posterior_of_a_p_that_stands_still(method, orders):
    """KL(q, p(h | x)), on average over rows, falls far below that of an untrained q."""
    # A loss at every step of a path is a slow teacher of many orders, and so are dreams.
    slow = {("db", "many"): 2000, ("fl-db", "many"): 2000, ("sleep", "many"): 1000}
    updates = slow.get((method, orders), 300)
    made = learner(method, orders=orders, learning_rate=1e-2, updates=updates, seed=2)
    rows = made.grey = rows_of(12).double()
    standing = [value.detach().clone() for value in made.model.parameters()]
    made.step.model_loss = lambda draws: torch.zeros((), dtype=torch.float64, requires_grad=True)

    def divergence():
        with torch.no_grad():
            log_q = log_posterior(made, rows, known_in_the_fixed_order(made, 12))
            log_p = joint(made, rows)
        log_p = log_p - log_p.logsumexp(0)
        return (log_q.exp() * (log_q - log_p)).sum(0).mean().item()

    before = divergence()
    made.run(updates=updates)
    after = divergence()
    assert all(map(torch.equal, standing, made.model.parameters()))
    # Independent latents cannot follow everything.
    assert after < (0.6 if method == "mean-field" else 0.15) * before, (before, after)


@pytest.mark.parametrize("method", STEPS)
def test_a_run_that_is_saved_and_restored_is_the_run_that_was_not(method, tmp_path):
    settings = {"orders": "one" if method == "mean-field" else "many", "redraw_every": 3}
    whole, half, rest = (
        LatentLearner(STRUCTURE, rows_of(64), small_config(method, **settings)) for _ in range(3)
    )
    whole.run(updates=11)
    half.run(updates=5)
    half.save(tmp_path / "half")
    rest.restore(tmp_path / "half")
    assert rest.num_updates == 5
    rest.run(updates=11)
    for mine, theirs in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    for mine, theirs in zip(
        whole.posterior.trained.parameters(), rest.posterior.trained.parameters(), strict=True
    ):
        assert torch.equal(mine, theirs)


def small_config(method="delta", **settings):
    return LatentConfig(**{**SMALL, "method": method, "updates": 30, **settings})


def test_likelihood_never_falls_when_the_e_step_is_exact():
    """Full batches, all posteriors exact, and an M-step that goes uphill a little."""
    rows = rows_of(20, seed=4).double()
    made = learner("exact", spread=0.3)
    batch = Batch(torch.arange(20), rows)
    found = []
    for _ in range(25):
        found.append(joint(made, rows).logsumexp(0).mean().item())
        draws = made.step.draw(batch, torch.Generator())
        made.model.zero_grad(set_to_none=True)
        made.step.model_loss(draws).backward()
        with torch.no_grad():
            for value in made.model.parameters():
                if value.grad is not None:
                    value.sub_(0.02 * value.grad)
    rises = [after - before for before, after in itertools.pairwise(found)]
    assert min(rises) > 0


def test_the_exact_e_step_gives_the_gradient_of_the_likelihood():
    rows = rows_of(6, seed=4).double()
    made = learner("exact", spread=0.5)

    def gradient(loss):
        made.model.zero_grad(set_to_none=True)
        loss.backward()
        return torch.cat([v.grad.flatten() for v in made.model.parameters() if v.grad is not None])

    draws = made.step.draw(Batch(torch.arange(6), rows), torch.Generator())
    found = gradient(made.step.model_loss(draws))
    expected = gradient(-joint(made, rows).logsumexp(0).mean())
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)


def test_turns_change_p_or_q_alone():
    made = learner(alternate=3)

    def copies():
        parts = (made.model, made.posterior.trained)
        return [torch.cat([v.detach().flatten().clone() for v in p.parameters()]) for p in parts]

    start = copies()
    made.run(updates=3)
    after_q = copies()
    assert torch.equal(start[0], after_q[0])
    assert not torch.equal(start[1], after_q[1])
    made.run(updates=6)
    after_p = copies()
    assert not torch.equal(after_q[0], after_p[0])
    assert torch.equal(after_q[1], after_p[1])


def test_draws_say_what_each_counts():
    made = learner(tempered_share=0.1, batch=8, posterior_batch=4)
    draws = made.step.draw(Batch(torch.arange(8), rows_of(8).double()), torch.Generator())
    assert draws.weights.tolist() == [0.0] + [1 / 7] * 7  # the first one is flattened
    assert Draws.even(draws.paths).weights.tolist() == [1 / 8] * 8


@pytest.mark.usefixtures("as_a_user_runs_it")
def test_what_does_not_fit_is_refused_in_one_line():
    for rows, words in (
        (torch.zeros(3, 4), "shape (3, 4): give at least one row of 5 values"),
        (torch.zeros(0, 5), "at least one row"),
        (torch.full((3, 5), float("nan")), "outside 0 to 1"),
        (torch.full((3, 5), 2), "outside 0 to 1"),
        ([[0] * 5], "it must be a Tensor"),
    ):
        with pytest.raises(StateError, match=re.escape(words)):
            LatentLearner(STRUCTURE, rows, small_config())
        with pytest.raises(StateError, match=re.escape(words)):
            LatentLearner(STRUCTURE, rows_of(4), small_config()).log_weights(rows, 2, None)
    with pytest.raises(ConfigError, match="orders"):
        LatentLearner(STRUCTURE, rows_of(4), small_config("delta-partial"))
    with pytest.raises(ConfigError, match="either updates or seconds"):
        LatentConfig()
    with pytest.raises(ConfigError, match="method"):
        LatentLearner(STRUCTURE, rows_of(4), small_config("dleta"))
    with pytest.raises(GraphError, match="observed variables 2 and 3 are joined"):
        LatentStructure.of(UndirectedGraph.from_edges(4, [(0, 2), (2, 3)]), [0, 1], [2, 3])
