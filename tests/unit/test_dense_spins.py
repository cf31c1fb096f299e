"""Spins that are nearly all coupled: scores by products are those of the couplings one by one."""

import pytest
import torch

from deltaai.models import FactorGraph, SpinCoupling, SpinField, Variable
from deltaai.models.spin_group import SpinGroup


@pytest.fixture
def model():
    """Twenty spins and a variable with three states in their midst; one pair is coupled twice."""
    generator = torch.Generator().manual_seed(0)
    spins = [f"x{v}" for v in range(20)]
    variables = [Variable(name) for name in spins]
    variables.insert(7, Variable("other", 3))
    pairs = [(a, b) for i, a in enumerate(spins) for b in spins[i + 1 :]]
    drawn = torch.randn(len(pairs) + 1, generator=generator, dtype=torch.float64).tolist()
    factors = [
        SpinCoupling(a, b, w) for (a, b), w in zip([*pairs, ("x3", "x2")], drawn, strict=True)
    ]
    return FactorGraph(variables, [*factors, SpinField("x4", 0.3)])


def test_products_and_single_couplings_agree(model, monkeypatch):
    generator = torch.Generator().manual_seed(1)
    states = torch.randint(2, (30, 21), generator=generator)
    states[:, 7] += torch.randint(2, (30,), generator=generator)
    assert model.groups[0]._is_dense(model.columns(states))
    strengths = model.groups[0].strengths.requires_grad_(True)

    def answers():
        found = [model.log_score(states), model.local_log_scores(states)]
        weights = [torch.arange(one.numel(), dtype=torch.float64).view(one.shape) for one in found]
        total = sum((one * w).sum() for one, w in zip(found, weights, strict=True))
        (slope,) = torch.autograd.grad(total, strengths)
        return [*found, slope]

    by_products = answers()
    monkeypatch.setattr(SpinGroup, "_is_dense", lambda self, columns: False)
    for one, other in zip(by_products, answers(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
