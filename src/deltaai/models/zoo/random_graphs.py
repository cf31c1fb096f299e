"""Random models of no particular structure, for tests and benchmarks.

Their graphs may be disconnected and variables may be in no factor: code that works on these has
met the shapes it will meet in files.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from deltaai.errors import ModelError
from deltaai.models.factor_graph import FactorGraph
from deltaai.models.factors import ConditionalTable, TableFactor
from deltaai.models.variable import MOST_STATES, Variable
from deltaai.models.zoo.arguments import checked_count, checked_scale, refuse_large
from deltaai.randomness import generator_of


def random_factor_graph(
    num_variables: int,
    num_factors: int,
    *,
    max_arity: int = 3,
    max_states: int = 3,
    min_states: int = 1,
    zero_fraction: float = 0.0,
    scale: float = 1.0,
    seed: int,
) -> FactorGraph:
    """Random scopes, mixed numbers of states, normal log-tables, and zeros if wanted.

    One state is planted: no factor is zero there, so the model is never impossible.

    Parameters
    ----------
    num_variables, num_factors : the size of the model.
    max_arity : most variables in a scope; each factor has 1 to that many, as far as there are.
    max_states, min_states : range of the numbers of states, both included.
    zero_fraction : probability that a table entry is zero, from 0 to 1 (then only the planted
        state is left in each factor).
    scale : standard deviation of the log-tables.
    seed : everything random.

    Examples
    --------
    >>> random_factor_graph(6, 4, zero_fraction=0.2, seed=0)
    FactorGraph(6 variables, 4 factors)
    """
    num_variables = checked_count("num_variables", num_variables, least=1)
    num_factors = checked_count("num_factors", num_factors, least=0)
    max_arity = checked_count("max_arity", max_arity, least=1)
    zero_fraction = checked_scale("zero_fraction", zero_fraction)
    if zero_fraction > 1:
        raise ModelError(f"zero_fraction must lie between 0 and 1, not {zero_fraction}")
    scale, generator = checked_scale("scale", scale), generator_of(seed)
    variables = _random_variables(num_variables, min_states, max_states, generator)
    planted = [_integer(0, variable.num_states - 1, generator) for variable in variables]

    factors = []
    for _ in range(num_factors):
        arity = _integer(1, min(max_arity, num_variables), generator)
        scope = torch.randperm(num_variables, generator=generator, device="cpu")[:arity].tolist()
        sizes = [variables[v].num_states for v in scope]
        refuse_large(math.prod(sizes))
        table = scale * torch.randn(sizes, generator=generator, dtype=torch.float64, device="cpu")
        is_zero = (
            torch.rand(sizes, generator=generator, dtype=torch.float64, device="cpu")
            < zero_fraction
        )
        is_zero[tuple(planted[v] for v in scope)] = False
        names = [variables[v].name for v in scope]
        factors.append(TableFactor(names, table.masked_fill(is_zero, -torch.inf)))
    return FactorGraph(variables, factors)


def random_bayesian_network(
    num_variables: int,
    *,
    max_parents: int = 2,
    max_states: int = 3,
    min_states: int = 2,
    seed: int,
) -> FactorGraph:
    """Random conditional tables along a random order, which is not the order of the columns.

    Each row of a table is uniform over all distributions. The model is normalised: log Z = 0.

    Parameters
    ----------
    num_variables : the size of the model.
    max_parents : most parents; each variable has 0 to that many, as far as there are.
    max_states, min_states : range of the numbers of states, both included.
    seed : everything random.

    Examples
    --------
    >>> random_bayesian_network(6, max_parents=2, max_states=3, seed=0)
    FactorGraph(6 variables, 6 factors)
    """
    num_variables = checked_count("num_variables", num_variables, least=1)
    max_parents = checked_count("max_parents", max_parents, least=0)
    generator = generator_of(seed)
    variables = _random_variables(num_variables, min_states, max_states, generator)
    order = torch.randperm(num_variables, generator=generator, device="cpu")

    tables = []
    for position, child in enumerate(order.tolist()):
        num_parents = _integer(0, min(max_parents, position), generator)
        chosen = order[
            torch.randperm(position, generator=generator, device="cpu")[:num_parents]
        ].tolist()
        sizes = [variables[v].num_states for v in (*chosen, child)]
        refuse_large(math.prod(sizes))
        names = [variables[v].name for v in chosen]
        tables.append(
            ConditionalTable(variables[child].name, names, _random_rows(sizes, generator))
        )
    return FactorGraph(variables, tables)


def _random_variables(
    count: int, min_states: int, max_states: int, generator: torch.Generator
) -> list[Variable]:
    min_states = checked_count("min_states", min_states, least=1)
    max_states = checked_count(
        "max_states", max_states, least=min_states, why="min_states", most=MOST_STATES
    )
    return [
        Variable(f"x{position}", _integer(min_states, max_states, generator))
        for position in range(count)
    ]


def _random_rows(sizes: list[int], generator: torch.Generator) -> Tensor:
    """Distributions along the last axis: normalised exponential draws are uniform over them."""
    uniform = torch.rand(sizes, generator=generator, dtype=torch.float64, device="cpu")
    draws = -torch.log1p(-uniform) + torch.finfo(torch.float64).tiny  # never a row of zeros
    return draws / draws.sum(-1, keepdim=True)


def _integer(low: int, high: int, generator: torch.Generator) -> int:
    """A random integer, both bounds included."""
    return int(torch.randint(low, high + 1, (), generator=generator, device="cpu"))
