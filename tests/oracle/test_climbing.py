"""Climbers find modes and how wide they are; references span them."""

import math

import numpy as np
import pytest
import torch

from deltaai.mcmc import Reference, wide_reference
from deltaai.mcmc.climbing import Climbers
from deltaai.models import (
    FactorGraph,
    FunctionFactor,
    GaussianFactor,
    MixtureFactor,
    QuadraticFactor,
    Variable,
)
from deltaai.trust import second_opinion


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def line(count):
    return [Variable(f"x{number}", support="line") for number in range(count)]


def test_widths_are_deviations_given_all_others():
    """A chain of couplings: two colours, and exact second derivatives."""
    factors = [
        QuadraticFactor([f"x{v}", f"x{v + 1}"], [[2.0, -0.5], [-0.5, 1.0]]) for v in range(5)
    ]
    model = FactorGraph(line(6), factors)
    climbers = Climbers(
        model, Reference.normal(model, *torch.tensor([[1.0], [3.0]]).double().expand(2, 6))
    )
    assert len(climbers._colours) == 2
    modes, widths = climbers.modes(climbers.climbed(generator()), 5)
    assert len(modes.scores) == 1
    np.testing.assert_allclose(modes.columns[:, 0].numpy(), 0.0, atol=0.05)
    wanted = torch.tensor([2.0, 3.0, 3.0, 3.0, 3.0, 1.0]).double().rsqrt()
    torch.testing.assert_close(widths[:, 0], wanted, rtol=0.01, atol=0)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
def test_modes_of_any_scale_are_told_apart(scale):
    names = ["x0", "x1", "x2"]
    places = [[0.0, 0.0, 0.0], [40.0, 0.0, -20.0], [0.0, 30.0, 0.0]]
    spreads = [1.0, 0.5, 2.0]
    parts = [
        GaussianFactor(names, scale * np.array(place), (scale * spread) ** 2 * np.eye(3))
        for place, spread in zip(places, spreads, strict=True)
    ]
    found = wide_reference(FactorGraph(line(3), [MixtureFactor(parts)]), generator())
    assert found.num_components == 4
    for place, spread in zip(places, spreads, strict=True):
        away = (found.centre[1:] / scale - torch.tensor(place)).abs().amax(1)
        mode = int(away.argmin())
        assert float(away[mode]) < 0.1
        torch.testing.assert_close(
            found.unit[1 + mode] / scale, torch.full((3,), 2 * spread).double(), rtol=0.02, atol=0
        )


def test_modes_in_boxes_and_at_walls():
    model = FactorGraph(
        [Variable("b", support=(-10, 10)), Variable("u", support=(1, None))],
        [
            FunctionFactor(
                ["b"],
                lambda v: torch.logaddexp(
                    -0.5 * ((v[:, 0] - 7) / 0.1) ** 2, -0.5 * ((v[:, 0] + 6) / 0.2) ** 2
                ),
            ),
            QuadraticFactor("u", 0.0, [-5.0]),
        ],
    )
    found = wide_reference(model, generator())
    assert bool(found.is_flat[0, 0])
    assert found.num_components == 3
    assert sorted(round(float(centre), 1) for centre in found.centre[1:, 0]) == [-6.0, 7.0]
    np.testing.assert_allclose(found.centre[1:, 1].numpy(), 1.0)
    np.testing.assert_allclose(found.unit[1:, 1].numpy(), 2 / 5, rtol=0.01)


def test_too_many_modes_are_not_listed():
    wells = [FunctionFactor([f"x{v}"], lambda x: -4 * (x[:, 0] ** 2 - 4) ** 2) for v in range(4)]
    model = FactorGraph(line(4), wells)
    found = wide_reference(model, generator())
    assert found.num_components == 1
    opinion = second_opinion(model, {}, generator(), num_samples=400)
    grid = torch.linspace(-5, 5, 20001).double()
    wanted = 4 * math.log(float(torch.trapezoid((-4 * (grid**2 - 4) ** 2).exp(), grid)))
    assert abs(opinion.estimate.log_partition - wanted) < 4 * opinion.estimate.stderr
    signs = (opinion.states > 0).double() @ (2.0 ** torch.arange(4)).double()
    assert len(torch.unique(signs[opinion.log_weights > -torch.inf])) == 16


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
def test_what_is_no_density_has_no_opinion(value):
    model = FactorGraph(
        [Variable("x", support=(0, 1)), Variable("y", support="line")],
        [FunctionFactor(["x", "y"], lambda v: torch.full_like(v[:, 0], value))],
    )
    assert second_opinion(model, {}, generator(), num_samples=100) is None
