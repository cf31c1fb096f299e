"""What zeros rule out: nothing possible is lost, and log Z and marginals stay as they are."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import deltaai as dai
from data_folder import data_folder
from deltaai.errors import EvidenceError, ImpossibleEvidenceError, ModelError, StateError
from deltaai.exact import Enumeration
from deltaai.models import (
    ConditionalTable,
    Factor,
    FactorGraph,
    NeuralFactor,
    SpinCoupling,
    SpinField,
    TableFactor,
    Variable,
    zoo,
)
from deltaai.models.neural_group import encoded_width
from deltaai.models.table_group import ConditionalTableGroup, TableGroup
from deltaai.models.zeros import determinism
from deltaai.models.zeros.determinism import possible_states, propagate_zeros
from deltaai.models.zeros.reduction import Reduction
from deltaai.models.zeros.smoothing import has_zeros, zero_share

SETTINGS = settings(max_examples=120, deadline=None, derandomize=True)

# -- random models -----------------------------------------------------------------------------


def random_table(
    sizes: list[int], zero_fraction: float, generator: torch.Generator
) -> torch.Tensor:
    """Normal log-values with zeros, but never zero everywhere; some tables are constant."""
    table = torch.randn(sizes, generator=generator, dtype=torch.float64)
    if torch.rand(1, generator=generator) < 0.2:
        table = torch.full_like(table, 0.3)
    is_zero = torch.rand(sizes, generator=generator) < zero_fraction
    if bool(is_zero.all()):
        is_zero = torch.zeros_like(is_zero)
    return table.masked_fill(is_zero, -torch.inf)


def random_network(width: int, generator: torch.Generator) -> nn.Module:
    module = nn.Sequential(nn.Linear(width, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return module.requires_grad_(False)


@st.composite
def table_models(draw: st.DrawFn) -> FactorGraph:
    """Up to 6 variables with 1 to 4 states, and tables with few or many zeros."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=6))
    names = [f"v{position}" for position in range(len(sizes))]
    zero_fraction = draw(st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8]))
    factors: list[Factor] = []
    for _ in range(draw(st.integers(0, 8))):
        scope = draw(st.permutations(range(len(sizes))))[: draw(st.integers(0, 3))]
        table = random_table([sizes[v] for v in scope], zero_fraction, generator)
        is_conditional = scope and draw(st.booleans())
        scope_names = [names[v] for v in scope]
        factors.append(
            ConditionalTable.from_log(scope_names[-1], scope_names[:-1], table)
            if is_conditional
            else TableFactor(scope_names, table)
        )
    return FactorGraph([Variable(n, k) for n, k in zip(names, sizes, strict=True)], factors)


@st.composite
def mixed_models(draw: st.DrawFn) -> FactorGraph:
    """The same with spin and neural factors among the tables."""
    base = draw(table_models())
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    factors: list[Factor] = list(base.factors)
    binary = [variable.name for variable in base.variables if variable.num_states == 2]
    factors += [SpinField(name, 0.7) for name in binary[:1]]
    factors += [SpinCoupling(a, b, -0.4) for a, b in itertools.pairwise(binary)]
    for _ in range(draw(st.integers(0, 2))):
        scope = draw(st.permutations(base.variables))[: draw(st.integers(1, 2))]
        width = encoded_width([variable.num_states for variable in scope])
        network = random_network(width, generator)
        factors.append(NeuralFactor([variable.name for variable in scope], network))
    return FactorGraph(base.variables, draw(st.permutations(factors)))


@st.composite
def cases(draw: st.DrawFn, with_others: bool = True) -> tuple[FactorGraph, dict[str, int]]:
    model = draw(mixed_models() if with_others and draw(st.booleans()) else table_models())
    observed = draw(st.lists(st.sampled_from(model.variables), unique=True, max_size=3))
    return model, {v.name: draw(st.integers(0, v.num_states - 1)) for v in observed}


def log_partition(model: FactorGraph, evidence: dict[str, int] | None = None) -> float:
    """Log Z by enumeration, -inf when nothing is possible."""
    return float(torch.logsumexp(Enumeration(model, evidence).log_scores, 0))


# -- what holds for every model ----------------------------------------------------------------


@SETTINGS
@given(cases())
def test_the_distribution_is_the_same(case: tuple[FactorGraph, dict[str, int]]) -> None:
    model, evidence = case
    expected = log_partition(model, evidence)
    try:
        reduction = propagate_zeros(model, evidence)
    except ImpossibleEvidenceError:
        assert expected == -math.inf
        return
    found = log_partition(reduction.model) + reduction.log_scale
    assert found == pytest.approx(expected, abs=1e-9)
    if expected == -math.inf:
        return  # a contradiction that no single factor shows
    marginals = reduction.expand_marginals(Enumeration(reduction.model).marginals())
    wanted = Enumeration(model, evidence).marginals()
    assert list(marginals) == list(wanted)
    for name, row in wanted.items():
        np.testing.assert_allclose(marginals[name], row, atol=1e-9)


@SETTINGS
@given(cases())
def test_states_go_there_and_back(case: tuple[FactorGraph, dict[str, int]]) -> None:
    model, evidence = case
    try:
        reduction = propagate_zeros(model, evidence)
    except ImpossibleEvidenceError:
        return
    small = Enumeration(reduction.model)
    full = reduction.expand(small.states)
    assert torch.equal(reduction.reduce(full), small.states)
    assert bool(reduction.is_possible(full).all())
    scores = small.log_scores + reduction.log_scale
    torch.testing.assert_close(scores, model.log_score(full), rtol=1e-9, atol=1e-9)
    # Sound: every state of positive probability is among them.
    everything = Enumeration(model, evidence)
    is_positive = everything.log_scores > -math.inf
    assert bool(reduction.is_possible(everything.states)[is_positive].all())
    # And the map back is defined nowhere else.
    assert int(reduction.is_possible(Enumeration(model).states).sum()) == len(full)


def slow_possible(model: FactorGraph, fixed: dict[int, int]) -> list[list[int]]:
    """Arc consistency by loops over factors and joint states."""
    left = [list(range(v.num_states)) for v in model.variables]
    for v, state in fixed.items():
        left[v] = [state]
    tables = [(f.scope, f.log_table) for f in model.factors]
    is_changing = True
    while is_changing:
        is_changing = False
        for scope, table in tables:
            places = [model.index(name) for name in scope]
            alive = [
                joint
                for joint in itertools.product(*(left[v] for v in places))
                if float(table[joint]) > -math.inf
            ]
            for place, v in enumerate(places):
                supported = sorted({joint[place] for joint in alive})
                is_changing |= supported != left[v]
                left[v] = supported
            if not alive:
                return [[] for _ in left]
    return left


@SETTINGS
@given(cases(with_others=False))
def test_it_finds_what_plain_loops_find(case: tuple[FactorGraph, dict[str, int]]) -> None:
    model, evidence = case
    fixed = {model.index(name): state for name, state in evidence.items()}
    expected = slow_possible(model, fixed)
    try:
        flags = possible_states(model, fixed).tolist()
    except ImpossibleEvidenceError:
        assert not all(expected)
        return
    bounds = model.state_offsets.tolist()
    found = [
        [state for state, flag in enumerate(flags[start:stop]) if flag]
        for start, stop in itertools.pairwise(bounds)
    ]
    assert found == expected


@SETTINGS
@given(cases())
def test_twice_is_once(case: tuple[FactorGraph, dict[str, int]]) -> None:
    model, evidence = case
    try:
        once = propagate_zeros(model, evidence)
    except ImpossibleEvidenceError:
        return
    twice = propagate_zeros(once.model)
    assert twice.model is once.model
    assert twice.log_scale == 0.0


@SETTINGS
@given(cases())
def test_tables_that_are_too_large_to_ask_cost_nothing_but_strength(
    case: tuple[FactorGraph, dict[str, int]],
) -> None:
    model, evidence = case
    expected = log_partition(model, evidence)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(determinism, "LARGEST_TABLE", 2)
        try:
            reduction = propagate_zeros(model, evidence)
        except ImpossibleEvidenceError:
            assert expected == -math.inf
            return
    found = log_partition(reduction.model) + reduction.log_scale
    assert found == pytest.approx(expected, abs=1e-9)


# -- single cases ------------------------------------------------------------------------------


def implications(length: int, dtype: torch.dtype = torch.float64) -> FactorGraph:
    """A chain in which each variable that is 1 forces the next to be 1."""
    names = [f"v{position}" for position in range(length)]
    factors = [
        TableFactor.from_values([a, b], [[1.0, 2.0], [0.0, 3.0]])
        for a, b in itertools.pairwise(names)
    ]
    return FactorGraph([Variable(name) for name in names], factors, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_chain_of_implications_is_followed_to_its_end(dtype: torch.dtype) -> None:
    model = implications(100, dtype)
    reduction = propagate_zeros(model, {"v10": 1})
    assert reduction.fixed == {f"v{position}": 1 for position in range(10, 100)}
    assert reduction.model.num_variables == 10
    assert reduction.log_scale == pytest.approx(89 * math.log(3), rel=1e-6)
    assert reduction.model.dtype == dtype
    assert all(group.dtype == dtype for group in reduction.model.groups)


def test_everything_may_be_fixed() -> None:
    reduction = propagate_zeros(implications(4), {"v0": 1})
    assert reduction.model.num_variables == reduction.model.num_factors == 0
    assert reduction.log_scale == pytest.approx(3 * math.log(3))
    nothing = torch.zeros(2, 0, dtype=torch.long)
    assert reduction.expand(nothing).tolist() == [[1, 1, 1, 1]] * 2
    assert [row.tolist() for row in reduction.expand_marginals({}).values()] == [[0, 1]] * 4


def test_nothing_to_do_returns_the_model_itself() -> None:
    model = zoo.ising_lattice(side=3, sigma=0.5, seed=0)
    reduction = propagate_zeros(model)
    assert reduction.model is model
    assert (reduction.fixed, reduction.log_scale) == ({}, 0.0)
    x = Enumeration(model).states[:5]
    assert torch.equal(reduction.expand(x), x)
    assert torch.equal(reduction.reduce(x), x)
    nothing = FactorGraph([])
    assert propagate_zeros(nothing).model is nothing
    with_zeros = implications(3)
    assert propagate_zeros(with_zeros).model is with_zeros


def test_variables_with_one_state_are_taken_out() -> None:
    model = FactorGraph(
        [Variable("a", 1), Variable("b", 2)], [TableFactor(["a", "b"], [[0.5, 1.0]])]
    )
    reduction = propagate_zeros(model)
    assert reduction.fixed == {"a": 0}
    assert reduction.model.variables == (Variable("b", 2),)
    assert log_partition(reduction.model) + reduction.log_scale == log_partition(model)


def three_states() -> FactorGraph:
    return FactorGraph(
        [Variable("a", ["x", "y", "z"]), Variable("b", ["low", "middle", "high"]), Variable("c")],
        [
            TableFactor.from_values(["a"], [1.0, 0.0, 2.0]),
            TableFactor.from_values(["a", "b"], [[1, 0, 2], [0, 1, 0], [3, 0, 4]]),
            ConditionalTable("c", ["b"], [[0.5, 0.5], [0.1, 0.9], [0.5, 0.5]]),
        ],
    )


def test_states_keep_their_labels_and_constants_leave() -> None:
    reduction = propagate_zeros(three_states())
    assert [v.states for v in reduction.model.variables] == [
        ("x", "z"),
        ("low", "high"),
        ("0", "1"),
    ]
    assert reduction.kept_states == ((0, 2), (0, 2), (0, 1))
    assert reduction.model.num_factors == 2  # c given b is one half wherever it is asked
    assert reduction.log_scale == pytest.approx(math.log(0.5))
    assert not has_zeros(reduction.model)
    assert reduction.model.factors[1].log_table.exp().tolist() == [
        pytest.approx([1, 2]),
        pytest.approx([3, 4]),
    ]


def test_factors_are_numbered_anew_so_that_errors_find_them() -> None:
    reduction = propagate_zeros(three_states())
    ids = torch.cat([group.ids for group in reduction.model.groups])
    assert sorted(ids.tolist()) == list(range(reduction.model.num_factors))
    assert reduction.model.content_hash()  # every group can be written out
    assert reduction.model.to(dtype=torch.float32).dtype == torch.float32


def test_conditional_tables_stay_conditional_unless_their_child_loses_states() -> None:
    rows = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.7, 0.3]])
    variables = [Variable("a", 3), Variable("b"), Variable("c", 3)]
    prior = TableFactor.from_values(["a"], [1.0, 0.0, 2.0])
    parent_shrinks = FactorGraph(variables, [prior, ConditionalTable("b", ["a"], rows)])
    (group,) = [g for g in propagate_zeros(parent_shrinks).model.groups if g.arity == 2]
    assert type(group) is ConditionalTableGroup
    child_shrinks = FactorGraph(
        variables, [prior, ConditionalTable("a", ["b"], (rows / rows.sum(0)).T)]
    )
    (group,) = [g for g in propagate_zeros(child_shrinks).model.groups if g.arity == 2]
    assert type(group) is TableGroup


def test_tables_of_one_shape_share_a_group() -> None:
    model = zoo.random_factor_graph(
        30, 60, max_arity=2, min_states=2, max_states=2, zero_fraction=0.1, seed=1
    )
    evidence = {v.name: int(k) for v, k in zip(model.variables, planted(model), strict=True)}
    some = {name: evidence[name] for name in list(evidence)[::3]}
    groups = propagate_zeros(model, some).model.groups
    assert len({(type(group), group.sizes) for group in groups}) == len(groups)


def planted(model: FactorGraph) -> torch.Tensor:
    return dai.exact(model).map().state


def test_a_variable_of_a_neural_factor_keeps_its_states_until_it_is_fixed() -> None:
    network = random_network(4, torch.Generator().manual_seed(0))
    variables = [Variable("a", 3), Variable("b")]
    neural = NeuralFactor(["a", "b"], network)
    some = FactorGraph(variables, [neural, TableFactor.from_values(["a"], [1.0, 0.0, 2.0])])
    assert propagate_zeros(some).model is some
    one = FactorGraph(variables, [neural, TableFactor.from_values(["a"], [0.0, 0.0, 2.0])])
    reduction = propagate_zeros(one)
    assert reduction.fixed == {"a": 2}
    assert log_partition(reduction.model) + reduction.log_scale == pytest.approx(log_partition(one))


def test_learned_tables_are_not_folded_into_a_number() -> None:
    learned = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    model = FactorGraph([Variable("a"), Variable("b")], [TableFactor(["a", "b"], learned)])
    reduction = propagate_zeros(model, {"a": 0, "b": 1})
    assert reduction.log_scale == 0.0
    (table,) = model.parameters()
    reduction.model.log_score(torch.zeros(1, 0, dtype=torch.long)).sum().backward()
    assert table.grad is not None
    assert table.grad[0].tolist() == [[0.0, 1.0], [0.0, 0.0]]


# -- refusals ----------------------------------------------------------------------------------


def test_a_dead_factor_is_named() -> None:
    with pytest.raises(ImpossibleEvidenceError, match=r"'v0'.*factor over \(v0, v1\)"):
        propagate_zeros(implications(3), {"v0": 1, "v1": 0})


def test_a_variable_without_states_is_named_with_a_factor() -> None:
    factors = [
        TableFactor.from_values(["a", "b"], [[1.0, 0.0], [1.0, 0.0]]),
        TableFactor.from_values(["b", "c"], [[0.0, 0.0], [1.0, 1.0]]),
    ]
    model = FactorGraph([Variable(name) for name in "abc"], factors)
    with pytest.raises(ImpossibleEvidenceError, match=r"no state of 'b'.*factor over \(b, c\)"):
        propagate_zeros(model)


def test_unknown_evidence_is_refused() -> None:
    with pytest.raises(EvidenceError, match="no variable 'w0'"):
        propagate_zeros(implications(3), {"w0": 1})


def test_states_that_are_ruled_out_are_refused() -> None:
    reduction = propagate_zeros(three_states())
    x = torch.tensor([[0, 0, 1], [1, 2, 0]])
    assert reduction.is_possible(x).tolist() == [True, False]
    with pytest.raises(StateError, match="row 2 gives variable 'a' the state 'y'"):
        reduction.reduce(x)
    with pytest.raises(StateError, match="states are 0 to 1"):
        reduction.expand(torch.tensor([[0, 2, 0]]))


def test_marginals_must_be_complete() -> None:
    reduction = propagate_zeros(three_states())
    half = np.array([0.5, 0.5])
    with pytest.raises(ModelError, match="marginal of 'b' is missing"):
        reduction.expand_marginals({"a": half})
    with pytest.raises(ModelError, match=r"marginal of 'a' has shape \(3,\): give 2"):
        reduction.expand_marginals({"a": np.ones(3), "b": half, "c": half})


# -- real files --------------------------------------------------------------------------------

# Variables and zero entries that are left, given the file's evidence.
LEFT = {
    "Pedigree_11": (308, 907),
    "Promedus_11": (453, 924),
    "Promedus_13": (890, 1539),
    "Promedus_16": (710, 1107),
    "Promedus_21": (469, 955),
    "Promedus_24": (196, 293),
    "Promedus_26": (608, 916),
    "Promedus_33": (376, 577),
    "Promedus_34": (412, 820),
    "ObjectDetection_11": (60, 0),
    "ObjectDetection_34": (60, 0),
    "linkage_11": (888, 3220),
    "linkage_21": (387, 3817),
    "c880.isc.cnf": (417, 1060),
}
TOO_WIDE = ("linkage_11", "linkage_21", "c880.isc.cnf")


def reduction_of(name: str) -> Reduction:
    folder = data_folder("uai")
    model = dai.read(folder / f"{name}.uai")
    return propagate_zeros(model, dai.read_evidence(folder / f"{name}.uai.evid", model))


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_of_real_files(name: str) -> None:
    reduction = reduction_of(name)
    assert (reduction.model.num_variables, zero_share(reduction.model).num_zeros) == LEFT[name]
    assert len(reduction.fixed) + reduction.model.num_variables == reduction.original.num_variables


@pytest.mark.parametrize("name", [name for name in LEFT if name not in TOO_WIDE])
def test_partition_functions_of_real_files(name: str) -> None:
    reduction = reduction_of(name)
    index = json.loads((data_folder("uai") / "index.json").read_text())
    answer = dai.exact(reduction.model, memory_limit=2**30)
    found = (answer.log_partition() + reduction.log_scale) / math.log(10)
    assert found == pytest.approx(index[name]["recomputed_log10Z"], abs=1e-8)


@pytest.mark.parametrize("name", ["Pedigree_11", "Promedus_21"])
def test_marginals_of_real_files(name: str) -> None:
    reduction = reduction_of(name)
    found = reduction.expand_marginals(dai.exact(reduction.model).marginals())
    evidence = dai.read_evidence(data_folder("uai") / f"{name}.uai.evid", reduction.original)
    wanted = dai.exact(reduction.original, evidence, memory_limit=2**30).marginals()
    for variable, row in wanted.items():
        np.testing.assert_allclose(found[variable], row, atol=1e-9)


def test_in_a_circuit_it_is_unit_propagation() -> None:
    model = dai.read(data_folder("uai") / "c880.isc.cnf.uai")
    fixed = propagate_zeros(model, {"x0": 0}).fixed
    expected = slow_possible(model, {model.index("x0"): 0})
    assert len(fixed) == 62
    assert fixed == {f"x{v}": left[0] for v, left in enumerate(expected) if len(left) == 1}
