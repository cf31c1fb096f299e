"""The local objective for real variables: zero where q is exact, in both forms."""

from __future__ import annotations

import math

import pytest
import torch

import deltaai as dai
from deltaai.conditionals import Proposal
from deltaai.fitting import SamplerSpec, suitable_graph
from deltaai.models import StandardUnits, standard_units
from deltaai.objectives import (
    ScoreObjective,
    delta_residuals,
    prepare_delta,
    score_residuals,
    stepped,
)
from deltaai.sampling import ON_POLICY, Paths, Source


def gaussian_model(edges, number: int, seed: int = 0) -> tuple[dai.FactorGraph, torch.Tensor]:
    """A field with random couplings on given edges; also its precision."""
    generator = torch.Generator().manual_seed(seed)
    variables = [dai.Variable(f"x{n}", support="line") for n in range(number)]
    precision = torch.diag(torch.full((number,), 0.5, dtype=torch.float64))
    factors = []
    for u, v in edges:
        weight = float(torch.randn(1, generator=generator, dtype=torch.float64))
        block = torch.tensor([[abs(weight), weight], [weight, abs(weight)]], dtype=torch.float64)
        factors.append(dai.QuadraticFactor([f"x{u}", f"x{v}"], block))
        precision[[[u, u], [v, v]], [[u, v], [u, v]]] += block
    for n in range(number):
        shift = float(torch.randn(1, generator=generator, dtype=torch.float64))
        factors.append(dai.QuadraticFactor([f"x{n}"], 0.5, shift))
    return dai.FactorGraph(variables, factors), precision


TREE = [(0, 1), (1, 2), (1, 3), (3, 4), (0, 5)]
GRID = [(3 * i + j, 3 * i + j + 1) for i in range(3) for j in range(2)]
GRID += [(3 * i + j, 3 * i + j + 3) for i in range(2) for j in range(3)]


def exact_q(model: dai.FactorGraph) -> tuple[Proposal, Source]:
    """q in double precision that knows the normal density, which is p: untrained, it is exact."""
    spec = SamplerSpec(hidden=8)
    proposal, orders = spec.build(model, suitable_graph(model), seed=0)
    proposal.conditionals.double()
    proposal = Proposal(proposal.target, proposal.conditionals)
    source = Source(proposal, orders)
    source.set_orders([orders.fixed])
    return proposal, source


def wide_columns(model: dai.FactorGraph, count: int = 50) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    shape = (model.num_variables, count)
    return 5 * torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("edges", [TREE, GRID])
def test_exact_conditionals_have_no_residual_in_either_form(edges) -> None:
    number = 1 + max(map(max, edges))
    model, _ = gaussian_model(edges, number)
    proposal, source = exact_q(model)
    columns, others = wide_columns(model), wide_columns(model).flip(1)
    residuals = delta_residuals(proposal, prepare_delta(proposal, columns, others))
    assert float(residuals.detach().abs().max()) < 1e-8
    small = stepped(proposal, columns, others, 1e-3, torch.Generator().manual_seed(0))
    residuals = delta_residuals(proposal, prepare_delta(proposal, columns, small))
    assert float(residuals.detach().abs().max()) < 1e-8
    objective = ScoreObjective(proposal)
    batch = objective.prepare(proposal, Paths(columns, source.dags), None)
    assert float(score_residuals(proposal, batch).detach().abs().max()) < 1e-8


@pytest.mark.parametrize("number", range(3))
def test_a_perturbed_conditional_shows_in_both_forms(number: int) -> None:
    model, _ = gaussian_model(TREE, 6)
    proposal, source = exact_q(model)
    with torch.no_grad():
        for block in proposal.conditionals.networks:
            block.last_bias[0, number % 2] += 0.01
    columns, others = wide_columns(model), wide_columns(model).flip(1)
    residuals = delta_residuals(proposal, prepare_delta(proposal, columns, others))
    assert float(residuals.detach().abs().max()) > 1e-3
    batch = ScoreObjective(proposal).prepare(proposal, Paths(columns, source.dags), None)
    assert float(score_residuals(proposal, batch).detach().abs().max()) > 1e-3


def test_the_finite_form_becomes_the_score_form() -> None:
    """d/h² times the squared residual of a step h tends to the squared difference of scores."""
    model, _ = gaussian_model(GRID, 9)
    proposal, source = exact_q(model)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in proposal.conditionals.parameters():
            noise = torch.randn(value.shape, generator=generator, dtype=value.dtype)
            value.add_(0.1 * noise)
    columns = source.draw(proposal, 200, ON_POLICY, generator).columns
    batch = ScoreObjective(proposal).prepare(proposal, Paths(columns, source.dags), None)
    wanted = score_residuals(proposal, batch).detach().square().mean()
    gaps = []
    for step in (0.1, 0.01, 0.001):
        others = columns + step
        residuals = delta_residuals(proposal, prepare_delta(proposal, columns, others))
        found = residuals.detach().square().mean() / step**2
        gaps.append(float((found / wanted - 1).abs()))
    assert gaps[0] < 0.5
    assert gaps[1] < 0.3 * gaps[0]
    assert gaps[2] < 0.3 * gaps[1]
    assert gaps[2] < 5e-3


@pytest.mark.parametrize("objective", ["tb", "db", "subtb", "log-variance"])
def test_balance_holds_for_an_exact_q(objective: str) -> None:
    """With the true log Z, and flows that q's own conditionals give, nothing is out of balance."""
    model, precision = gaussian_model(TREE, 6)
    sampler = dai.fit(model, steps=0, progress=False)
    x, log_q = sampler.sample_with_log_prob(500, 0)
    log_weights = model.log_score(x) - log_q
    assert float(log_weights.std()) < 1e-4
    shift = torch.autograd.functional.jacobian(
        lambda y: model.log_score(y[None])[0], torch.zeros(6, dtype=torch.float64)
    )
    wanted = 0.5 * 6 * math.log(2 * math.pi) - 0.5 * float(torch.logdet(precision))
    wanted += 0.5 * float(shift @ torch.linalg.solve(precision, shift))
    assert abs(float(log_weights.mean()) - wanted) < 1e-4
    trained = dai.fit(
        model, steps=3, objective=objective, start=sampler, learning_rate=1e-6, progress=False
    )
    assert trained.history[-1]["ess"] > 0.99


def test_units_leave_log_z_and_scores_as_they_are() -> None:
    variables = [
        dai.Variable("low", support=(2, None)),
        dai.Variable("high", support=(None, -1.0)),
        dai.Variable("box", support=(10, 30)),
        dai.Variable("line", support="line"),
        dai.Variable("state", ["a", "b"]),
    ]
    factors = [
        dai.FunctionFactor(["low"], lambda v: 2 - v[:, 0]),
        dai.FunctionFactor(["high"], lambda v: (v[:, 0] + 1) / 3),
        dai.GaussianFactor("box", 20.0, 4.0),
        dai.LinearGaussian("line", ["low"], [[1.0], [2.0]], [0.0, 100.0], 5.0, given=["state"]),
    ]
    model = dai.FactorGraph(variables, factors)
    units = standard_units(model)
    again = standard_units(model)
    assert torch.equal(units.centre, again.centre)
    assert torch.equal(units.unit, again.unit)
    proposal, _ = SamplerSpec().build(model, suitable_graph(model), seed=0, units=units)
    there = proposal.target.now(torch.float64)
    x = torch.tensor([[3.0, -4.0, 21.0, 7.0, 1.0], [2.0, -1.0, 10.0, -3.0, 0.0]]).double()
    scores = there.log_score(units.inward(x.T).T)
    assert torch.allclose(scores, model.log_score(x) + units.log_volume)
    assert torch.allclose(units.outward(units.inward(x.T)).T, x)


def test_trivial_units_are_no_change_at_all() -> None:
    zeros = torch.zeros(2, dtype=torch.float64)
    assert StandardUnits(zeros, torch.ones_like(zeros), zeros).are_trivial
