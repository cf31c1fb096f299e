"""Smoothed models: zeros become small, and nothing else changes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import deltaai as dai
from data_folder import data_folder
from deltaai.conditionals.proposal import refuse_zeros
from deltaai.errors import ConfigError, ModelError
from deltaai.exact import Enumeration
from deltaai.models import FactorGraph, SpinCoupling, TableFactor, Variable
from deltaai.models.table_group import ConditionalTableGroup, TableGroup
from deltaai.models.zeros.determinism import propagate_zeros
from deltaai.models.zeros.smoothing import ZeroShare, has_zeros, smoothed, zero_share
from deltaai.models.zoo import ising_lattice, random_factor_graph, sprinkler

SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)


def with_zeros(dtype: torch.dtype = torch.float64) -> FactorGraph:
    return FactorGraph(
        [Variable("a"), Variable("b", 3), Variable("c")],
        [
            TableFactor.from_values(["a", "b"], [[4.0, 0.0, 2.0], [0.0, 3.0, 1.0]]),
            TableFactor.from_values(["a", "b"], [[1.0, 0.0, 1e-9], [1.0, 1.0, 1.0]]),
            TableFactor.from_values(["b"], [1.0, 2.0, 3.0]),
            SpinCoupling("a", "c", 0.5),
        ],
        dtype=dtype,
    )


def test_zeros_become_a_share_of_the_largest_entry() -> None:
    first, second, third, _ = smoothed(with_zeros(), 0.01).factors
    assert first.log_table.exp()[0].tolist() == pytest.approx([4.0, 0.04, 2.0])
    assert first.log_table.exp()[1].tolist() == pytest.approx([0.04, 3.0, 1.0])
    # Never more than the smallest positive entry of the same table.
    assert second.log_table.exp()[0].tolist() == pytest.approx([1.0, 1e-9, 1e-9])
    assert third.log_table.exp().tolist() == pytest.approx([1.0, 2.0, 3.0])


@SETTINGS
@given(st.integers(0, 2**32), st.sampled_from([1e-8, 1e-3, 0.5]))
def test_positive_entries_and_structure_stay(seed: int, epsilon: float) -> None:
    model = random_factor_graph(5, 6, zero_fraction=0.4, max_states=4, seed=seed)
    made = smoothed(model, epsilon)
    assert not has_zeros(made)
    assert made.variables == model.variables
    for group, before in zip(made.groups, model.groups, strict=True):
        assert torch.equal(group.scopes, before.scopes)
        assert torch.equal(group.ids, before.ids)
        old, new = before.log_tables(), group.log_tables()
        assert torch.equal(new[old.isfinite()], old[old.isfinite()])
        for table, floored in zip(old, new, strict=True):
            zeros = table == -math.inf
            assert bool((floored[zeros] <= table.max() + math.log(epsilon) + 1e-12).all())
            assert not bool(zeros.any()) or float(floored[zeros].max()) <= float(
                table[~zeros].min()
            )
    refuse_zeros(made)  # what training asks for


def test_it_tends_to_the_model_itself() -> None:
    model = sprinkler()
    exact = Enumeration(model).probabilities()
    gaps = [
        float((Enumeration(smoothed(model, epsilon)).probabilities() - exact).abs().sum())
        for epsilon in (1e-1, 1e-3, 1e-6)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_smoothed_models_work_like_others(dtype: torch.dtype) -> None:
    made = smoothed(with_zeros(dtype), 1e-6)
    assert made.dtype == dtype
    assert {group.dtype for group in made.groups} == {dtype}
    assert made.to(dtype=torch.float64).dtype == torch.float64
    reduced = made.condition({"a": 0, "b": 1})  # impossible before
    x = Enumeration(reduced).states
    full = torch.cat((torch.tensor([[0, 1]] * len(x)), x), 1)
    torch.testing.assert_close(reduced.log_score(x), made.log_score(full))
    assert bool(made.log_ratios(Enumeration(made).states).isfinite().all())
    assert made.content_hash() != with_zeros(dtype).content_hash()


def test_kinds_of_groups_stay() -> None:
    made = smoothed(sprinkler(), 1e-3)
    assert {type(group) for group in made.groups} == {ConditionalTableGroup}


def test_nothing_to_do_returns_the_model_itself() -> None:
    for model in (ising_lattice(side=3, sigma=1.0, seed=0), FactorGraph([])):
        assert smoothed(model, 0.1) is model
        assert not has_zeros(model)


def test_learned_tables_keep_their_gradients() -> None:
    learned = torch.tensor([0.3, -math.inf, 1.0], dtype=torch.float64, requires_grad=True)
    model = FactorGraph([Variable("a", 3)], [TableFactor(["a"], learned)])
    (table,) = model.parameters()
    smoothed(model, 0.1).log_score(torch.tensor([[0], [1], [2]])).sum().backward()
    assert table.grad is not None
    assert table.grad[0].tolist() == [1.0, 0.0, 1.0]


def test_zeros_are_counted() -> None:
    assert has_zeros(with_zeros())
    found = zero_share(with_zeros())
    assert found == ZeroShare(15, 3, 4, 2)
    assert found.share == pytest.approx(0.2)
    assert zero_share(FactorGraph([])).share == 0.0


@pytest.mark.parametrize("epsilon", [0, 1, -0.1, 2.0, math.nan, math.inf, True])
def test_epsilon_lies_between_zero_and_one(epsilon: float) -> None:
    with pytest.raises(ConfigError, match="smoothing is"):
        smoothed(with_zeros(), epsilon)


def test_a_table_of_zeros_is_refused() -> None:
    group = TableGroup(
        torch.tensor([0]), torch.tensor([[0]]), torch.full((1, 2), -math.inf, dtype=torch.float64)
    )
    with pytest.raises(ModelError, match=r"factor over \(a\) is zero everywhere"):
        smoothed(FactorGraph.from_groups([Variable("a")], [group]), 0.1)


@pytest.mark.parametrize("name", ["Pedigree_11", "Promedus_24", "ObjectDetection_11"])
def test_real_files(name: str) -> None:
    folder = data_folder("uai")
    model = dai.read(folder / f"{name}.uai")
    evidence = dai.read_evidence(folder / f"{name}.uai.evid", model)
    reduction = propagate_zeros(model, evidence)
    refuse_zeros(smoothed(reduction.model, 1e-4))
    has_none_left = zero_share(reduction.model).num_zeros == 0
    assert (smoothed(reduction.model, 1e-4) is reduction.model) == has_none_left
