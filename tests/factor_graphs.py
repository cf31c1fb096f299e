"""Factor graphs of every kind of factor, and their scores from plain loops over the factors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from deltaai.models import (
    ConditionalTable,
    Factor,
    FactorGraph,
    NeuralFactor,
    SpinCoupling,
    SpinField,
    TableFactor,
    Variable,
)
from deltaai.models.zoo import random_factor_graph, sprinkler

# -- the reference: one factor and one state at a time -----------------------------------------


def reference_log_value(factor: Factor, sizes: Sequence[int], values: Sequence[int]) -> float:
    """One factor at one setting of its scope, straight from its definition."""
    match factor:
        case TableFactor() | ConditionalTable():
            return float(factor.log_table.detach().numpy()[tuple(values)])
        case SpinCoupling():
            return factor.strength * (2 * values[0] - 1) * (2 * values[1] - 1)
        case SpinField():
            return factor.strength * (2 * values[0] - 1)
        case NeuralFactor():
            encoded: list[float] = []
            for value, size in zip(values, sizes, strict=True):
                if size == 2:
                    encoded.append(2.0 * value - 1.0)
                else:
                    encoded += [float(value == state) for state in range(size)]
            with torch.no_grad():
                return float(factor.module(torch.tensor([encoded], dtype=torch.float64)))
    raise AssertionError(factor)


class Reference:
    """Scores of a model from a loop over its factors."""

    def __init__(self, model: FactorGraph) -> None:
        self.scopes = [[model.index(name) for name in factor.scope] for factor in model.factors]
        self.tables = []
        for factor, scope in zip(model.factors, self.scopes, strict=True):
            sizes = [model.variables[v].num_states for v in scope]
            table = np.zeros(sizes)
            for values in itertools.product(*map(range, sizes)):
                table[values] = reference_log_value(factor, sizes, values)
            self.tables.append(table)

    def log_score(self, state: Sequence[int], variable: int | None = None) -> float:
        """Sum over the factors, or over those that contain a variable."""
        return sum(
            float(table[tuple(state[v] for v in scope)])
            for scope, table in zip(self.scopes, self.tables, strict=True)
            if variable is None or variable in scope
        )


def all_states(model: FactorGraph) -> Tensor:
    sizes = [variable.num_states for variable in model.variables]
    listed = list(itertools.product(*map(range, sizes)))
    return torch.tensor(listed, dtype=torch.long).reshape(len(listed), len(sizes))


# -- the models --------------------------------------------------------------------------------


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(width: int, seed: int, hidden: int = 5) -> nn.Module:
    module = nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, 1)).double()
    for position, parameter in enumerate(module.parameters()):
        parameter.data = normal(*parameter.shape, seed=100 * seed + position)
    return module


class Flat(nn.Module):
    """Like its base, but the output has no last axis."""

    def __init__(self, base: nn.Module) -> None:
        super().__init__()
        self.base = base

    def forward(self, features: Tensor) -> Tensor:
        return self.base(features).squeeze(-1)


def mixed_variables() -> list[Variable]:
    return [
        Variable("a", 2),
        Variable("b", 3),
        Variable("c", 1),
        Variable("d", 2),
        Variable("e", ["low", "middle", "high"]),
        Variable("f", 2),
    ]


def tables() -> FactorGraph:
    return FactorGraph(
        mixed_variables(),
        [
            TableFactor(["a", "b"], normal(2, 3, seed=1)),
            TableFactor(["b", "a"], normal(3, 2, seed=2)),
            TableFactor([], 0.7),
            TableFactor(["e"], normal(3, seed=3)),
            TableFactor(["d", "c", "e"], normal(2, 1, 3, seed=4)),
            TableFactor(["c"], [0.25]),
            TableFactor(["a", "b"], normal(2, 3, seed=5)),
            TableFactor(["f", "d", "a", "b"], normal(2, 2, 2, 3, seed=6)),
            TableFactor([], -1.5),
        ],
    )


def tables_with_zeros() -> FactorGraph:
    return FactorGraph(
        mixed_variables(),
        [
            TableFactor.from_values(["a", "b"], [[1.0, 0.0, 2.0], [0.0, 3.0, 0.5]]),
            TableFactor.from_values(["b", "e"], [[1.0, 2.0, 0.0], [0.0, 0.0, 1.0], [1, 1, 1]]),
            TableFactor.from_values(["d"], [0.0, 2.0]),
            TableFactor.from_values(["f", "d"], [[1.0, 1.0], [4.0, 0.0]]),
        ],
    )


def spins() -> FactorGraph:
    return FactorGraph(
        [Variable(name) for name in "abcde"],
        [
            SpinCoupling("a", "b", 0.5),
            SpinField("b", -1.25),
            SpinCoupling("d", "b", -0.75),
            SpinCoupling("c", "a", 2.0),
            SpinField("a", 0.3),
            SpinCoupling("b", "a", 0.1),
        ],
    )


def networks() -> FactorGraph:
    shared = network(2, seed=7)
    return FactorGraph(
        mixed_variables(),
        [
            NeuralFactor(["a", "b"], network(4, seed=1)),
            NeuralFactor(["d", "f"], shared),
            NeuralFactor(["f", "a"], shared),
            NeuralFactor(["a", "d"], network(2, seed=2)),
            NeuralFactor(["c", "e", "f"], Flat(network(5, seed=3))),
            NeuralFactor(["d", "b"], network(4, seed=4)),
            NeuralFactor(["d", "f"], network(2, seed=5, hidden=3)),
        ],
    )


def everything() -> FactorGraph:
    factors = [*networks().factors, *tables().factors, *tables_with_zeros().factors]
    factors += [SpinCoupling("a", "f", 0.4), SpinField("d", -0.2)]
    factors += [ConditionalTable("e", ["a", "b"], normal(2, 3, 3, seed=8).softmax(-1))]
    shuffled = np.random.default_rng(0).permutation(len(factors))
    return FactorGraph(mixed_variables(), [factors[position] for position in shuffled])


def no_variables() -> FactorGraph:
    return FactorGraph([], [TableFactor([], 0.5), TableFactor([], -2.0)])


MODELS: dict[str, Callable[[], FactorGraph]] = {
    "tables": tables,
    "tables with zeros": tables_with_zeros,
    "conditional tables": sprinkler,
    "spins": spins,
    "networks": networks,
    "everything": everything,
    "random": lambda: random_factor_graph(5, 7, zero_fraction=0.3, max_states=4, seed=3),
    "no factors": lambda: FactorGraph([Variable("a", 3), Variable("b", 1)]),
    "one variable": lambda: FactorGraph([Variable("a", 3)], [TableFactor(["a"], [0.0, 1.0, 2.0])]),
    "one state": lambda: FactorGraph([Variable("a", 1)], [NeuralFactor(["a"], network(1, 1))]),
    "no variables": no_variables,
    "nothing": lambda: FactorGraph([]),
    "conditioned": lambda: everything().condition({"b": 2, "d": 1}),
    "conditioned on everything": lambda: networks().condition(
        {variable.name: 0 for variable in mixed_variables()}
    ),
}


def wide_model(num_variables: int) -> tuple[FactorGraph, nn.Module]:
    module = network(num_variables, seed=9)
    variables = [Variable(f"x{v}") for v in range(num_variables + 1)]
    names = [variable.name for variable in variables]
    factors = [
        NeuralFactor(names[:-1], module),
        NeuralFactor(names[1:], network(num_variables, seed=10)),
        NeuralFactor(names[:0:-1], module),
    ]
    return FactorGraph(variables, factors), module


class Scaled(nn.Module):
    """A module with a setting that is not a parameter."""

    def __init__(self, gain: float, base: nn.Module | None = None) -> None:
        super().__init__()
        self.gain = gain
        self.base = base

    def forward(self, features: Tensor) -> Tensor:
        return self.gain * (features.sum(-1) if self.base is None else self.base(features)[..., 0])


# -- comparing ---------------------------------------------------------------------------------


def fill_in(model: FactorGraph, evidence: dict[int, int]) -> tuple[Tensor, Tensor]:
    """Full states that agree with the evidence, and the same without the observed columns."""
    x = all_states(model)
    for v, state in evidence.items():
        x = x[x[:, v] == state]
    kept = [v for v in range(model.num_variables) if v not in evidence]
    return x, x[:, kept]


def assert_close(found: Tensor, expected: Tensor | list[float], tolerance: float = 1e-10) -> None:
    wanted = torch.as_tensor(expected, dtype=found.dtype).reshape(found.shape)
    torch.testing.assert_close(
        found.detach(), wanted.detach(), rtol=tolerance, atol=tolerance, equal_nan=True
    )
