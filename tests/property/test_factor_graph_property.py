"""What holds for every factor graph: order and names do not matter, conditioning commutes."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from deltaai.errors import ImpossibleEvidenceError
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
from deltaai.models.neural_group import encoded_width
from deltaai.models.zoo import random_factor_graph

SETTINGS = settings(max_examples=80, deadline=None, derandomize=True)


@st.composite
def models(draw: st.DrawFn, has_zeros: bool = True) -> FactorGraph:
    """Random tables, with and without zeros, and some spins and networks on top."""
    seed = draw(st.integers(0, 2**32))
    base = random_factor_graph(
        draw(st.integers(1, 6)),
        draw(st.integers(0, 8)),
        max_arity=draw(st.integers(1, 4)),
        max_states=draw(st.integers(1, 4)),
        zero_fraction=draw(st.sampled_from([0.0, 0.3])) if has_zeros else 0.0,
        seed=seed,
    )
    factors: list[Factor] = list(base.factors)
    names = [variable.name for variable in base.variables]
    binary = [variable.name for variable in base.variables if variable.num_states == 2]
    if binary:
        factors.append(SpinField(binary[0], draw(st.floats(-2, 2))))
    if len(binary) > 1:
        factors.append(SpinCoupling(binary[0], binary[-1], draw(st.floats(-2, 2))))
    for _ in range(draw(st.integers(0, 2))):
        scope = draw(st.permutations(names))[: draw(st.integers(1, 3))]
        sizes = [base.variables[base.index(name)].num_states for name in scope]
        factors.append(NeuralFactor(scope, random_network(encoded_width(sizes), seed)))
    if draw(st.booleans()):
        child, *parents = draw(st.permutations(names))[:2]
        sizes = [base.variables[base.index(name)].num_states for name in (*parents, child)]
        rows = torch.rand(sizes, generator=torch.Generator().manual_seed(seed)).softmax(-1)
        factors.append(ConditionalTable(child, parents, rows))
    return FactorGraph(base.variables, draw(st.permutations(factors)))


def random_network(width: int, seed: int) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    module = nn.Sequential(nn.Linear(width, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return module.requires_grad_(False)


def states_of(model: FactorGraph, count: int = 16) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    uniform = torch.rand(count, model.num_variables, generator=generator, dtype=torch.float64)
    return (uniform * model.num_states).long()


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True)


def renamed(factor: Factor, names: dict[str, str]) -> Factor:
    scope = [names[name] for name in factor.scope]
    match factor:
        case TableFactor():
            return TableFactor(scope, factor.log_table)
        case ConditionalTable():
            return ConditionalTable.from_log(scope[-1], scope[:-1], factor.log_table)
        case SpinCoupling():
            return SpinCoupling(*scope, factor.strength)
        case SpinField():
            return SpinField(*scope, factor.strength)
        case NeuralFactor():
            return NeuralFactor(scope, factor.module)


@SETTINGS
@given(model=models(), data=st.data())
def test_the_order_of_variables_does_not_matter(model: FactorGraph, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(model.num_variables)))
    other = FactorGraph([model.variables[v] for v in order], model.factors)
    x = states_of(model)
    assert_close(other.log_score(x[:, order]), model.log_score(x))
    # Column v of the original is column order.index(v) of the other.
    columns = [
        column
        for v in range(model.num_variables)
        for column in range(
            int(other.state_offsets[order.index(v)]), int(other.state_offsets[order.index(v) + 1])
        )
    ]
    assert_close(other.log_ratios(x[:, order])[:, columns], model.log_ratios(x))


@SETTINGS
@given(model=models(), data=st.data())
def test_names_and_the_order_of_factors_do_not_matter(
    model: FactorGraph, data: st.DataObject
) -> None:
    new = [f"y{v}" for v in data.draw(st.permutations(range(model.num_variables)))]
    names = {v.name: name for v, name in zip(model.variables, new, strict=True)}
    variables = [Variable(names[v.name], [f"state {k}" for k in v.states]) for v in model.variables]
    factors = data.draw(st.permutations([renamed(factor, names) for factor in model.factors]))
    x = states_of(model)
    other = FactorGraph(variables, factors)
    assert_close(other.log_score(x), model.log_score(x))
    assert_close(other.local_log_scores(x), model.local_log_scores(x))


@SETTINGS
@given(model=models(), data=st.data())
def test_relabelling_states_does_not_matter(model: FactorGraph, data: st.DataObject) -> None:
    """Swap the states of the tables' variables and the states alike."""
    tables = [factor for factor in model.factors if isinstance(factor, TableFactor)]
    plain = FactorGraph(model.variables, tables)
    orders = [data.draw(st.permutations(range(v.num_states))) for v in model.variables]
    swapped = []
    for factor in tables:
        table = factor.log_table
        for axis, name in enumerate(factor.scope):
            table = table.index_select(axis, torch.tensor(orders[model.index(name)]))
        swapped.append(TableFactor(factor.scope, table))
    other = FactorGraph(model.variables, swapped)
    x = states_of(model)
    # New state k is old state order[k].
    old = torch.stack([torch.tensor(order)[x[:, v]] for v, order in enumerate(orders)], dim=1)
    assert_close(other.log_score(x), plain.log_score(old))


@SETTINGS
@given(model=models(), data=st.data())
def test_conditioning_commutes(model: FactorGraph, data: st.DataObject) -> None:
    evidence = {
        variable.name: data.draw(st.integers(0, variable.num_states - 1))
        for variable in model.variables
        if data.draw(st.booleans())
    }
    names = data.draw(st.permutations(list(evidence)))
    cut = data.draw(st.integers(0, len(names)))
    first = {name: evidence[name] for name in names[:cut]}
    second = {name: evidence[name] for name in names[cut:]}

    x = states_of(model)
    for name, state in evidence.items():
        x[:, model.index(name)] = state
    kept = [v for v, variable in enumerate(model.variables) if variable.name not in evidence]
    expected = model.log_score(x)
    for parts in ([evidence], [first, second], [second, first]):
        reduced = model
        try:
            for part in parts:
                reduced = reduced.condition(part)
        except ImpossibleEvidenceError:
            assert not bool(expected.isfinite().any())
            continue
        assert reduced.variables == tuple(model.variables[v] for v in kept)
        assert_close(reduced.log_score(x[:, kept]), expected)
        entries = [
            column
            for v in kept
            for column in range(int(model.state_offsets[v]), int(model.state_offsets[v + 1]))
        ]
        local = model.local_log_scores(x)[:, entries]
        assert_close(reduced.local_log_scores(x[:, kept]), local)


@SETTINGS
@given(model=models(), data=st.data())
def test_ratios_are_antisymmetric_and_add_up(model: FactorGraph, data: st.DataObject) -> None:
    x = states_of(model)
    rows = torch.arange(len(x))
    variable = torch.tensor(
        data.draw(st.lists(st.integers(0, model.num_variables - 1), min_size=16, max_size=16))
    )
    sizes = model.num_states[variable].tolist()
    there = torch.tensor([data.draw(st.integers(0, size - 1)) for size in sizes])
    back = x[rows, variable]
    changed = x.clone()
    changed[rows, variable] = there
    forth = model.log_ratio(x, variable, there)
    assert_close(forth, -model.log_ratio(changed, variable, back))
    listed = model.log_ratios(x)[rows, model.state_offsets[variable] + there]
    assert_close(listed, forth)
    is_possible = model.log_score(x).isfinite()
    difference = model.log_score(changed) - model.log_score(x)
    assert_close(forth[is_possible], difference[is_possible])


@SETTINGS
@given(first=models(has_zeros=False), second=models(has_zeros=False))
def test_the_score_of_a_product_is_the_sum(first: FactorGraph, second: FactorGraph) -> None:
    """Two models side by side, on variables of their own."""
    names = {variable.name: f"other {variable.name}" for variable in second.variables}
    others = [Variable(names[variable.name], variable.states) for variable in second.variables]
    both = FactorGraph(
        [*first.variables, *others],
        [*first.factors, *(renamed(factor, names) for factor in second.factors)],
    )
    x, y = states_of(first), states_of(second)
    together = torch.cat((x, y), dim=1)
    assert_close(both.log_score(together), first.log_score(x) + second.log_score(y))
