"""A target that moves: residuals, weights and what q knows follow it, and runs resume."""

import pytest
import torch

from deltaai.conditionals import Layout, LocalConditionals, Proposal
from deltaai.exact import exact
from deltaai.fitting import SamplerSpec, fit, set_up_run, suitable_graph
from deltaai.fitting.sampler import Sampler
from deltaai.graphs import chordal_completion
from deltaai.models import (
    FactorGraph,
    NeuralFactor,
    SpinCoupling,
    TableFactor,
    Target,
    Variable,
    zoo,
)
from deltaai.objectives import delta_residuals, prepare_delta
from deltaai.sampling import Orders
from deltaai.training import TrainingConfig


def learnable(kind):
    """A small model of one kind of factors, with parameters that require gradients."""
    names = ["a", "b", "c", "d"]
    variables = [Variable(name, 2) for name in names]
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    generator = torch.Generator().manual_seed(0)
    if kind == "tables":
        tables = [torch.randn(2, 2, generator=generator, dtype=torch.float64) for _ in pairs]
        factors = [TableFactor(list(p), t) for p, t in zip(pairs, tables, strict=True)]
    elif kind == "spins":
        factors = [SpinCoupling(*pair, 0.3 + 0.1 * n) for n, pair in enumerate(pairs)]
    else:
        torch.manual_seed(0)
        layers = [torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)]
        factors = [NeuralFactor(list(pair), torch.nn.Sequential(*layers)) for pair in pairs]
    model = FactorGraph(variables, factors)
    for group in model.groups:
        for value in group.tensors():
            if value.is_floating_point():
                value.requires_grad_(True)
    assert any(True for _ in model.parameters())
    return model


def proposal_for(model, **options):
    graph = chordal_completion(model.markov_graph())
    orders = Orders.of(graph, "one")
    layout = Layout.build(model.num_states.tolist(), orders.fixed.parents)
    networks = LocalConditionals(layout, 4, generator=torch.Generator().manual_seed(1))
    return Proposal(model, networks, **options), orders


@torch.no_grad()
def move(model, how="in place"):
    """What an optimizer does: a step that version counters see, or one that they do not."""
    for value in model.parameters():
        change = 0.5 * torch.linspace(-1, 1, value.numel(), dtype=value.dtype).view(value.shape)
        if how == "in place":
            value.add_(change)
        else:
            value.data.add_(change)


@pytest.mark.parametrize("how", ["in place", "unseen"])
@pytest.mark.parametrize("kind", ["tables", "spins", "neural"])
def test_residuals_scores_and_knowledge_follow(kind, how):
    model = learnable(kind)
    proposal, _ = proposal_for(model)
    columns = torch.tensor([[0, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 1]])
    others = 1 - columns

    def seen():
        with torch.no_grad():
            batch = prepare_delta(proposal, columns, others)
            residuals = delta_residuals(proposal, batch)
        return residuals, proposal.known_logits(columns), proposal.scorer.log_score(columns.T)

    def expected():
        """The same by a proposal that never saw the model before."""
        fresh = FactorGraph(model.variables, model.factors)
        other = Proposal(fresh, proposal.conditionals)
        with torch.no_grad():
            batch = prepare_delta(other, columns, others)
            residuals = delta_residuals(other, batch)
        return residuals, other.known_logits(columns), other.scorer.log_score(columns.T)

    before = seen()
    move(model, how)
    for was, now, wanted in zip(before, seen(), expected(), strict=True):
        assert not torch.allclose(was, now, atol=1e-3)
        torch.testing.assert_close(now, wanted.detach(), rtol=1e-5, atol=1e-5)


def test_gradients_of_q_do_not_reach_p():
    model = learnable("tables")
    proposal, _ = proposal_for(model)
    columns = torch.tensor([[0, 1], [1, 1], [0, 0], [1, 0]])
    batch = prepare_delta(proposal, columns, 1 - columns)
    delta_residuals(proposal, batch).square().mean().backward()
    assert all(value.grad is None for value in model.parameters())
    assert all(value.grad is not None for value in proposal.conditionals.parameters())


def test_tempered_and_smoothed_targets_are_live():
    model = learnable("tables")
    target = Target(model, smoothing=1e-3).tempered(0.5)
    x = torch.tensor([[0, 1, 0, 1]])
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(
                target.now(torch.float64).log_score(x), 0.5 * model.log_score(x)
            )
        move(model)


def run_of(model, steps, **settings):
    spec = SamplerSpec(hidden=8, **settings)
    proposal, orders = spec.build(model, suitable_graph(model), seed=0)
    config = TrainingConfig(steps=steps, batch_size=64, resample_every=4, evaluate_every=0)
    return set_up_run(Sampler(model, proposal, orders, config, spec))


@pytest.mark.parametrize("objective", ["delta", "tb", "sub-dags"])
def test_updates_between_moves_are_made_for_the_target_as_it_is(objective):
    """States stay, what was prepared from the old p is dropped."""
    model = learnable("tables")
    orders = "many" if objective == "sub-dags" else "one"
    spec = SamplerSpec(hidden=8, orders=orders)
    proposal, sources = spec.build(model, suitable_graph(model), seed=0)
    config = TrainingConfig(steps=8, batch_size=64, objective=objective, evaluate_every=0)
    run = set_up_run(Sampler(model, proposal, sources, config, spec))
    task = run.phase.task
    task.redraw(run.rng)
    task.draw(64, run.phase.policy_at(0), 1.0, run.generator)
    before = float(task.loss().detach())
    move(model)
    after = float(task.loss().detach())
    assert after != pytest.approx(before, rel=1e-3)
    assert float(task.loss().detach()) == pytest.approx(after)


def test_a_sampler_of_a_moving_model_weighs_with_the_model_as_it_is():
    model = learnable("spins")
    sampler = fit(model, steps=60, seed=0)
    for _ in range(2):
        found = sampler.log_partition(4000, 0)
        wanted = exact(FactorGraph(model.variables, model.factors)).log_partition()
        assert float(found) == pytest.approx(wanted, abs=5 * found.stderr + 1e-3)
        move(model)


def test_a_run_resumes_after_the_target_has_moved(tmp_path):
    """A learner moves p between the updates of q; a checkpoint holds both."""
    path = tmp_path / "run.checkpoint"

    def trained(resume_at=None):
        model = learnable("tables")
        run = run_of(model, 12)

        def learn(progress):
            if progress.step % 3 == 0:
                move(model)
            if progress.step == resume_at:
                from deltaai.training.run_files import save_run

                save_run(run, path)
                raise StopIteration

        if resume_at is not None:
            with pytest.raises(StopIteration):
                run.run(watch=learn)
            model = learnable("tables")  # as it was at the very beginning
            run = run_of(model, 12)
            run.resume(path)
        run.run(watch=learn)
        return model, run.phase.task.trained

    (whole, weights), (again, resumed) = trained(), trained(resume_at=7)
    for first, second in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(first, second)
    for name, value in weights.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_a_sampler_is_trained_on_for_an_edited_model(tmp_path):
    """Warm: from a sampler, or from a file of one, with a graph that still holds."""
    model = zoo.ising_lattice(side=4, sigma=0.5, seed=0)
    first = fit(model, steps=150, seed=0)
    edited = zoo.ising_lattice(side=4, sigma=0.55, seed=0)
    warm = fit(edited, start=first, steps=10, seed=1)
    cold = fit(edited, steps=10, seed=1)
    gaps = [exact(edited).log_partition() - one.log_partition(4000, 0).elbo for one in (warm, cold)]
    assert gaps[0] < 0.5 * gaps[1]
    first.save(tmp_path / "first.dai")
    from deltaai.fitting import load_sampler

    again = fit(edited, start=load_sampler(tmp_path / "first.dai"), steps=10, seed=1)
    states = warm.proposal.conditionals.state_dict()
    for name, value in again.proposal.conditionals.state_dict().items():
        assert torch.equal(value, states[name])
