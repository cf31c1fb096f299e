"""Factors that learn: gradients reach their parameters, and scores follow these."""

from __future__ import annotations

import pytest
import torch

from deltaai.models import FactorGraph, NeuralFactor, TableFactor, Variable
from deltaai.models.spin_group import SpinGroup
from factor_graphs import (
    Reference,
    all_states,
    assert_close,
    fill_in,
    network,
    networks,
    wide_model,
)


def test_gradients_reach_the_parameters_of_networks() -> None:
    module = network(2, seed=1)
    model = FactorGraph([Variable("a"), Variable("b")], [NeuralFactor(["a", "b"], module)])
    x = all_states(model)
    for call, expected in (
        (model.log_score, module(2.0 * x.double() - 1.0)[:, 0]),
        (
            lambda x: model.condition({"a": 1}).log_score(x[2:, 1:]),
            module(2.0 * x[2:].double() - 1),
        ),
    ):
        found = torch.autograd.grad(call(x).square().sum(), list(model.parameters()))
        wanted = torch.autograd.grad(expected.square().sum(), list(module.parameters()))
        for mine, theirs in zip(found, wanted, strict=True):
            assert_close(mine[0], theirs)


@pytest.mark.parametrize("call", ["log_ratios", "local_log_scores"])
def test_gradients_flow_through_local_scores(call: str) -> None:
    model = networks()
    x = all_states(model)[::5]
    gradients = torch.autograd.grad(
        getattr(model, call)(x).square().sum(), list(model.parameters())
    )
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)
    assert sum(float(gradient.abs().sum()) for gradient in gradients) > 0


def test_gradients_flow_through_large_scopes() -> None:
    model, module = wide_model(13)
    x = torch.randint(2, (5, 14), generator=torch.Generator().manual_seed(0))
    s = 2.0 * x.double() - 1.0
    mine = torch.autograd.grad(model.log_score(x).sum(), list(model.parameters()))
    shared = (module(s[:, :-1]) + module(s[:, 1:].flip(1))).sum()
    theirs = torch.autograd.grad(shared, list(module.parameters()))
    for found, wanted in zip(mine, theirs, strict=True):
        assert_close(found[0], wanted)


def test_gradients_of_spin_strengths() -> None:
    strengths = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    scopes = torch.tensor([[0, 1], [1, 2]])
    group = SpinGroup(torch.arange(2), scopes, strengths)
    model = FactorGraph.from_groups([Variable(name) for name in "abc"], [group])
    x = torch.tensor([[1, 1, 0]])
    (gradient,) = torch.autograd.grad(model.log_score(x).sum(), list(model.parameters()))
    assert gradient.tolist() == [1.0, -1.0]
    before = model.log_score(x).item()
    with torch.no_grad():
        strengths += 1.0
    assert model.log_score(x).item() == before + 1.0 - 1.0
    assert model.log_score(torch.tensor([[1, 1, 1]])).item() == pytest.approx(1.5 + 0.0)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        lambda parameters: torch.optim.Adam(parameters, lr=0.1),
        lambda parameters: torch.optim.Adam(parameters, lr=0.1, foreach=True),
        # gradients the old table is read: a wrong score and no error.
        lambda parameters: torch.optim.Adam(parameters, lr=0.1, fused=True),
    ],
    ids=["SGD", "Adam", "Adam foreach", "Adam fused"],
)
def test_an_optimizer_step_changes_every_score(optimizer) -> None:
    model = networks()
    reduced = model.condition({"a": 1})
    x = all_states(model)[:40]
    fixed, rest = fill_in(model, {0: 1})
    with torch.no_grad():
        before, before_ratios = model.log_score(x), model.log_ratios(x)
        before_reduced = reduced.log_score(rest)
    steps = optimizer(list(model.parameters()))
    model.log_score(x).sum().backward()
    steps.step()
    with torch.no_grad():
        after, after_ratios, after_reduced = (
            model.log_score(x), model.log_ratios(x), reduced.log_score(rest),
        )  # fmt: skip
    assert_close(after, model.log_score(x))  # the same with gradients recorded, so not from a cache
    assert not torch.allclose(after, before)
    assert not torch.allclose(after_ratios, before_ratios)
    assert not torch.allclose(after_reduced, before_reduced)
    assert_close(after_reduced, model.log_score(fixed))


def test_loading_parameters_in_place_changes_the_scores() -> None:
    model, other = networks(), networks()
    x = all_states(model)[:40]
    with torch.no_grad():
        before = model.log_score(x)
        for parameter in model.parameters():
            parameter.mul_(0.5)
        assert not torch.allclose(model.log_score(x), before)
        for parameter, source in zip(model.parameters(), other.parameters(), strict=True):
            parameter.copy_(source)
        assert_close(model.log_score(x), before)


def test_factors_follow_the_parameters() -> None:
    model = networks()
    x = all_states(model)
    assert_close(model.log_score(x), [Reference(model).log_score(s) for s in x.tolist()])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    assert_close(model.log_score(x), [Reference(model).log_score(s) for s in x.tolist()])


def test_tables_that_require_gradients_can_be_learned() -> None:
    tables = [torch.zeros(2, 2, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    model = FactorGraph(
        [Variable(name) for name in "abc"],
        [TableFactor(["a", "b"], tables[0]), TableFactor(["b", "c"], tables[1])],
    )
    x = torch.tensor([[0, 1, 1]])
    steps = torch.optim.SGD(list(model.parameters()), lr=1.0)
    (-model.log_score(x)).sum().backward()
    steps.step()
    assert model.log_score(x).item() == 2.0
    assert model.log_score(torch.tensor([[0, 0, 0]])).item() == 0.0


def test_gradients_flow_through_tables_that_are_computed() -> None:
    weight = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    table = weight * torch.tensor([[1.0, -1.0], [-1.0, 3.0]], dtype=torch.float64)
    model = FactorGraph([Variable("a"), Variable("b")], [TableFactor(["a", "b"], table)])
    model.log_score(torch.tensor([[1, 1], [0, 1]])).sum().backward()
    assert weight.grad is not None
    assert weight.grad.item() == 2.0


def test_models_made_in_inference_mode_can_be_evaluated() -> None:
    with torch.inference_mode():
        model = networks()
        inside = model.log_score(all_states(model))
    with torch.no_grad():
        assert_close(model.log_score(all_states(model)), inside)


def test_networks_that_require_no_gradient_give_no_parameters() -> None:
    module = network(2, seed=1).requires_grad_(False)
    model = FactorGraph([Variable("a"), Variable("b")], [NeuralFactor(["a", "b"], module)])
    assert list(model.parameters()) == []
    assert not model.log_score(all_states(model)).requires_grad
