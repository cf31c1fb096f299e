"""Conditionals that are normal though factors are functions, beside those of quadratic factors."""

from __future__ import annotations

import math

import pytest
import torch

import deltaai as dai
from deltaai.conditionals import bent_variables, normal_places, settled_variables
from deltaai.conditionals.normal_given import parabola_at
from deltaai.importance import estimate_from_log_weights


def bent_chain() -> dai.FactorGraph:
    """A normal x; y about x², not y² about x; a scale t, in the same way; and z about y."""
    variables = [dai.Variable("t", support=(0, None))]
    variables += [dai.Variable(name, support="line") for name in "xyz"]
    factors = [
        dai.GaussianFactor("x", 0.0, 1.0),
        dai.FunctionFactor(["t"], lambda v: -v[:, 0]),
        dai.FunctionFactor(["x", "y"], lambda v: -2 * (v[:, 1] - v[:, 0] ** 2) ** 2),
        dai.FunctionFactor(
            ["y", "t", "z"], lambda v: -0.5 * ((v[:, 2] - v[:, 0]) / v[:, 1]) ** 2 - v[:, 1].log()
        ),
    ]
    return dai.FactorGraph(variables, factors)


def test_what_is_no_parabola_is_told_from_what_is() -> None:
    model = bent_chain()
    assert bent_variables(model) == [0, 1]
    places = normal_places(model)
    inputs = [(), (), (1,), (2, 0)]
    assert settled_variables(model, inputs, places) == [3]  # of y, z is no input
    assert settled_variables(model, [(), (), (1, 3, 0), (2, 0)], places) == [2, 3]


@pytest.mark.parametrize("support", [(None, 2), (-1, 3), (0, None), "line"])
def test_on_every_support(support) -> None:
    variables = [dai.Variable("x", support=support), dai.Variable("s", 3)]
    bent = dai.FunctionFactor(["x", "s"], lambda v: -(v[:, 0] ** 4) * (1 + v[:, 1]))
    straight = dai.FunctionFactor(["x", "s"], lambda v: -(v[:, 0] ** 2) * (1 + v[:, 1]) + v[:, 0])
    assert bent_variables(dai.FactorGraph(variables, [bent])) == [0]
    assert bent_variables(dai.FactorGraph(variables, [straight])) == []


@pytest.mark.parametrize("supports", [("line", "line"), ((0, None), (-2, 5)), ((None, 1), "line")])
def test_functions_say_what_quadratic_factors_do(supports) -> None:
    variables = [dai.Variable(n, support=s) for n, s in zip("xy", supports, strict=True)]
    quadratic = dai.LinearGaussian("y", ["x"], [0.5], 0.3, 0.7)
    written = dai.FunctionFactor(
        ["x", "y"], lambda v: -0.5 * ((v[:, 1] - 0.5 * v[:, 0] - 0.3) / 0.7) ** 2
    )
    values = torch.rand(2, 1, 50, generator=torch.Generator().manual_seed(0)).double()
    factor = torch.zeros(1, dtype=torch.long)
    for place in (0, 1):
        found = []
        for one in (quadratic, written):
            model = dai.FactorGraph(variables, [one])
            found.append(parabola_at(model, model.groups[0], factor, values, place))
        for wanted, got in zip(*found, strict=True):
            assert torch.allclose(wanted, got, atol=1e-9)


def test_a_banana_is_nearly_exact_from_its_root() -> None:
    variables = [dai.Variable(name, support="line") for name in "xy"]
    bent = dai.FunctionFactor(["x", "y"], lambda v: -2 * (v[:, 1] - v[:, 0] ** 2) ** 2)
    model = dai.FactorGraph(variables, [dai.GaussianFactor("x", 0.0, 1.0), bent])
    sampler = dai.fit(model, steps=100, polish_steps=0, progress=False)
    x, log_q = sampler.sample_with_log_prob(5000, 0)
    estimate = estimate_from_log_weights(model.log_score(x) - log_q)
    assert abs(estimate.log_partition - 0.5 * math.log(math.pi / 2)) < 0.02
    assert estimate.ess_fraction > 0.9


def test_many_orders_and_evidence_go_on() -> None:
    model = bent_chain()
    for settings in ({"orders": "many"}, {"evidence": "any"}, {"evidence": ["z"]}):
        sampler = dai.fit(model, steps=2, polish_steps=0, progress=False, **settings)
        if "evidence" not in settings:
            x, log_q = sampler.sample_with_log_prob(100, 0)
            assert bool((model.log_score(x) - log_q).isfinite().all())
