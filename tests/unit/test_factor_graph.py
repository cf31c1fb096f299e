"""Factor graphs against plain loops over their factors, for every kind of factor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deltaai.errors import ImpossibleEvidenceError, ModelError
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
from deltaai.models.neural_group import LARGEST_TABULATED
from deltaai.models.spin_group import SpinGroup
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


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def model(request: pytest.FixtureRequest) -> FactorGraph:
    return request.param()


def assert_close(found: Tensor, expected: Tensor | list[float], tolerance: float = 1e-10) -> None:
    wanted = torch.as_tensor(expected, dtype=found.dtype).reshape(found.shape)
    torch.testing.assert_close(
        found.detach(), wanted.detach(), rtol=tolerance, atol=tolerance, equal_nan=True
    )


# -- evaluation --------------------------------------------------------------------------------


def test_log_score(model: FactorGraph) -> None:
    x, reference = all_states(model), Reference(model)
    assert_close(model.log_score(x), [reference.log_score(state) for state in x.tolist()])


def test_local_log_scores(model: FactorGraph) -> None:
    x, reference = all_states(model), Reference(model)
    found = model.local_log_scores(x)
    assert found.shape == (len(x), sum(variable.num_states for variable in model.variables))
    expected = [
        reference.log_score([*state[:u], k, *state[u + 1 :]], variable=u)
        for state in x.tolist()
        for u, variable in enumerate(model.variables)
        for k in range(variable.num_states)
    ]
    assert_close(found, expected)


def single_changes(model: FactorGraph) -> tuple[Tensor, Tensor, Tensor]:
    """All states with all changes of one variable, the change to the same value included."""
    rows = [
        (state, u, k)
        for state in all_states(model).tolist()
        for u, variable in enumerate(model.variables)
        for k in range(variable.num_states)
    ]
    x = torch.tensor([row[0] for row in rows], dtype=torch.long)
    x = x.reshape(len(rows), model.num_variables)
    variable = torch.tensor([row[1] for row in rows], dtype=torch.long)
    value = torch.tensor([row[2] for row in rows], dtype=torch.long)
    return x, variable, value


def test_log_ratio(model: FactorGraph) -> None:
    x, variable, value = single_changes(model)
    changed = x.clone()
    changed[torch.arange(len(x)), variable] = value
    found = model.log_ratio(x, variable, value)
    before, after = model.log_score(x), model.log_score(changed)
    # From a possible state the ratio is the difference of scores, -inf when the move is impossible.
    is_possible = before.isfinite()
    assert_close(found[is_possible], (after - before)[is_possible])
    # From an impossible one it is what the variable's own factors say.
    reference = Reference(model)
    local = np.array(
        [
            (reference.log_score(new, u), reference.log_score(old, u))
            for new, old, u in zip(changed.tolist(), x.tolist(), variable.tolist(), strict=True)
        ]
    ).reshape(-1, 2)
    with np.errstate(invalid="ignore"):
        assert_close(found, torch.from_numpy(local[:, 0] - local[:, 1]))


def test_log_ratios(model: FactorGraph) -> None:
    x, variable, value = single_changes(model)
    expected = model.log_ratio(x, variable, value)
    assert_close(model.log_ratios(all_states(model)), expected)


def test_log_ratios_of_possible_states_are_zero_where_nothing_changes(model: FactorGraph) -> None:
    x = all_states(model)
    x = x[model.log_score(x).isfinite()]
    kept = model.log_ratios(x).gather(1, x + model.state_offsets[:-1])
    assert_close(kept, torch.zeros_like(kept))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32], ids=str)
def test_states_may_come_in_any_integer_type(dtype: torch.dtype) -> None:
    model = everything()
    x = all_states(model)
    for call in (model.log_score, model.local_log_scores, model.log_ratios):
        assert_close(call(x.to(dtype)), call(x))


def test_states_may_be_a_view_and_are_not_changed() -> None:
    model = everything()
    x = all_states(model)
    view = x.T.contiguous().T
    kept = x.clone()
    assert_close(model.log_score(view), model.log_score(x))
    model.log_ratio(view, torch.zeros(len(x), dtype=torch.long), 1 - x[:, 0])
    model.log_ratios(view)
    assert torch.equal(view, kept)


def test_an_empty_batch(model: FactorGraph) -> None:
    x = torch.zeros(0, model.num_variables, dtype=torch.long)
    none = torch.zeros(0, dtype=torch.long)
    assert model.log_score(x).shape == (0,)
    assert model.log_ratio(x, none, none).shape == (0,)
    assert model.log_ratios(x).shape == (0, int(model.state_offsets[-1]))


@pytest.mark.parametrize("num_states", [127, 128, 129, 200, 300])
def test_many_states(num_states: int) -> None:
    table = normal(num_states, 2, seed=1)
    model = FactorGraph(
        [Variable("a", num_states), Variable("b")], [TableFactor(["a", "b"], table)]
    )
    x = all_states(model)
    assert_close(model.log_score(x), table)
    assert_close(model.log_ratios(x[-1:])[0, :num_states], table[:, 1] - table[-1, 1])


def test_the_markov_graph_joins_what_shares_a_factor() -> None:
    graph = tables().markov_graph()
    assert graph.num_vertices == 6
    assert [tuple(edge) for edge in graph.edges().tolist()] == [
        (0, 1), (0, 3), (0, 5), (1, 3), (1, 5), (2, 3), (2, 4), (3, 4), (3, 5),
    ]  # fmt: skip


# -- conditioning ------------------------------------------------------------------------------


def fill_in(model: FactorGraph, evidence: dict[int, int]) -> tuple[Tensor, Tensor]:
    """Full states that agree with the evidence, and the same without the observed columns."""
    x = all_states(model)
    for v, state in evidence.items():
        x = x[x[:, v] == state]
    kept = [v for v in range(model.num_variables) if v not in evidence]
    return x, x[:, kept]


def evidence_sets(model: FactorGraph) -> list[dict[int, int]]:
    """Nothing, every single state, some pairs, and the first and last full states."""
    chosen: list[dict[int, int]] = [{}]
    each = [(v, k) for v, var in enumerate(model.variables) for k in range(var.num_states)]
    chosen += [{v: k} for v, k in each]
    chosen += [{v: k, w: j} for (v, k), (w, j) in itertools.combinations(each, 2) if v != w][::7]
    x = all_states(model)
    chosen += [dict(enumerate(state)) for state in x[[0, -1]].tolist()]
    chosen += [dict(enumerate(state)) for state in x[model.log_score(x).isfinite()][:2].tolist()]
    return chosen


def test_condition_is_filling_in(model: FactorGraph) -> None:
    for evidence in evidence_sets(model):
        named = {model.variables[v].name: k for v, k in evidence.items()}
        full, rest = fill_in(model, evidence)
        expected = model.log_score(full)
        try:
            reduced = model.condition(named)
        except ImpossibleEvidenceError:
            assert not bool(expected.isfinite().any())
            continue
        assert reduced.num_variables == model.num_variables - len(evidence)
        assert reduced.num_factors == model.num_factors
        assert reduced.dtype == model.dtype
        assert_close(reduced.log_score(rest), expected)


def test_condition_twice_is_condition_once(model: FactorGraph) -> None:
    possible = all_states(model)
    possible = possible[model.log_score(possible).isfinite()]
    state = possible[len(possible) // 2].tolist()
    for first, second in [*itertools.permutations(range(model.num_variables), 2)][::4]:
        names = [model.variables[v].name for v in (first, second)]
        once = model.condition({names[0]: state[first], names[1]: state[second]})
        twice = model.condition({names[0]: state[first]}).condition({names[1]: state[second]})
        assert twice.variables == once.variables
        x = all_states(once)
        assert_close(twice.log_score(x), once.log_score(x))
        assert_close(twice.log_ratios(x), once.log_ratios(x))


def test_condition_on_one_variable_after_the_other() -> None:
    model = everything()
    x = all_states(model)
    state = x[model.log_score(x).isfinite()][0]
    reduced = model
    for variable, value in zip(model.variables, state.tolist(), strict=True):
        reduced = reduced.condition({variable.name: value})
    nothing_left = torch.zeros(1, 0, dtype=torch.long)
    assert reduced.num_variables == 0
    assert_close(reduced.log_score(nothing_left), model.log_score(state[None]))


def test_conditioning_on_nothing_changes_nothing(model: FactorGraph) -> None:
    assert model.condition({}).content_hash() == model.content_hash()
    assert model.condition(None).content_hash() == model.content_hash()


def test_evidence_by_label_and_by_index() -> None:
    model = everything()
    by_label, by_index = model.condition({"e": "high"}), model.condition({"e": 2})
    assert by_label.content_hash() == by_index.content_hash()
    assert model.resolve_evidence({"e": "high", "a": "1"}) == {0: 1, 4: 2}


def test_conditioning_keeps_the_original() -> None:
    model = everything()
    before = model.content_hash()
    model.condition({"a": 1, "e": 0})
    assert model.content_hash() == before


def test_a_conditional_table_stays_one_while_its_child_is_free() -> None:
    model = sprinkler()
    given_clouds = model.condition({"cloudy": "yes"})
    kinds = [type(factor) for factor in given_clouds.factors]
    assert kinds == [TableFactor, ConditionalTable, ConditionalTable, ConditionalTable]
    wet = model.condition({"wet_grass": "yes"}).factors[-1]
    assert isinstance(wet, TableFactor)
    assert wet.scope == ("sprinkler", "rain")


# -- neural factors ----------------------------------------------------------------------------


def pair_model(modules: Sequence[nn.Module]) -> FactorGraph:
    scopes = [("a", "b"), ("b", "c"), ("c", "a")]
    return FactorGraph(
        [Variable(name) for name in "abc"],
        [NeuralFactor(scope, module) for scope, module in zip(scopes, modules, strict=True)],
    )


def test_a_shared_module_is_stored_once_and_scores_like_copies() -> None:
    shared = pair_model([network(2, seed=1)] * 3)
    separate = pair_model([network(2, seed=1) for _ in range(3)])
    x = all_states(shared)
    assert_close(shared.log_score(x), separate.log_score(x))
    assert_close(shared.log_ratios(x), separate.log_ratios(x))
    assert [len(parameter) for parameter in shared.parameters()] == [1] * 4
    assert [len(parameter) for parameter in separate.parameters()] == [3] * 4
    shared.log_score(x).square().sum().backward()
    separate.log_score(x).square().sum().backward()
    for one, three in zip(shared.parameters(), separate.parameters(), strict=True):
        assert one.grad is not None
        assert three.grad is not None
        assert_close(one.grad[0], three.grad.sum(0))


class Scaled(nn.Module):
    """A module with a setting that is not a parameter."""

    def __init__(self, gain: float, base: nn.Module | None = None) -> None:
        super().__init__()
        self.gain = gain
        self.base = base

    def forward(self, features: Tensor) -> Tensor:
        return self.gain * (features.sum(-1) if self.base is None else self.base(features)[..., 0])


class PrivatelyScaled(nn.Module):
    def __init__(self, gain: float) -> None:
        super().__init__()
        self._gain = gain
        self.base = network(2, seed=1)

    def forward(self, features: Tensor) -> Tensor:
        return self._gain * self.base(features)[..., 0]


class WeightedSum(nn.Module):
    """A module whose weights are a plain attribute, neither parameter nor buffer."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, features: Tensor) -> Tensor:
        return features @ self.weights


def assert_scores_like_the_modules(modules: Sequence[nn.Module]) -> None:
    model = pair_model(modules)
    x = all_states(model)
    spins = 2.0 * x.double() - 1.0
    scopes = [[0, 1], [1, 2], [2, 0]]
    expected = sum(
        module(spins[:, scope]).reshape(-1) for scope, module in zip(scopes, modules, strict=True)
    )
    assert_close(model.log_score(x), expected)


def test_modules_that_differ_in_a_setting_are_kept_apart() -> None:
    assert_scores_like_the_modules([Scaled(gain, network(2, seed=1)) for gain in (1.0, 2.0, 3.0)])


def test_modules_that_differ_in_a_private_setting_are_kept_apart() -> None:
    # name begins with an underscore, so the first module's setting is used for all.
    assert_scores_like_the_modules([PrivatelyScaled(gain) for gain in (1.0, 2.0, 3.0)])


def test_modules_that_differ_in_the_digits_of_a_plain_tensor_are_kept_apart() -> None:
    weights = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert_scores_like_the_modules([WeightedSum(weights + step * 1e-6) for step in range(3)])


def test_modules_without_parameters() -> None:
    assert_scores_like_the_modules([Scaled(2.0) for _ in range(3)])


def test_a_module_without_parameters_in_single_precision() -> None:
    module = Scaled(2.0)
    model = FactorGraph(
        [Variable("a"), Variable("b")], [NeuralFactor(["a", "b"], module)], dtype=torch.float32
    )
    x = all_states(model)
    assert model.log_score(x).dtype == torch.float32
    assert model.log_ratios(x).dtype == torch.float32
    assert model.condition({"a": 1}).log_score(x[:2, 1:]).dtype == torch.float32


def test_a_module_in_training_mode_is_evaluated_and_left_as_it_is() -> None:
    module = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.9), nn.Linear(4, 1)).double().train()
    model = FactorGraph([Variable("a"), Variable("b")], [NeuralFactor(["a", "b"], module)])
    x = all_states(model)
    assert_close(model.log_score(x), model.log_score(x))
    assert module.training
    module.eval()
    assert_close(model.log_score(x), module(2.0 * x.double() - 1.0)[:, 0])


def test_buffers_are_part_of_the_factor() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).double().eval()
    module[1].running_mean.copy_(normal(3, seed=1))
    module[1].running_var.copy_(normal(3, seed=2).square() + 0.1)
    model = FactorGraph([Variable("a"), Variable("b")], [NeuralFactor(["a", "b"], module)])
    x = all_states(model)
    assert_close(model.log_score(x), module(2.0 * x.double() - 1.0)[:, 0])


def test_a_buffer_that_is_not_saved_is_part_of_the_factor() -> None:
    class Gained(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            gain = torch.tensor([1.0, 3.0], dtype=torch.float64)
            self.register_buffer("gain", gain, persistent=False)

        def forward(self, features: Tensor) -> Tensor:
            return features @ self.gain

    assert_scores_like_the_modules([Gained()] * 3)


@pytest.mark.parametrize("is_one_layer", [True, False])
def test_tied_parameters_stay_tied_or_are_refused(is_one_layer: bool) -> None:
    # one weight are taken, and learning would give them two.
    first, second = nn.Linear(2, 2).double(), nn.Linear(2, 2).double()
    second = first if is_one_layer else second
    second.weight = first.weight
    module = nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), nn.Linear(2, 1).double())
    try:
        model = pair_model([module] * 3)
    except ModelError:
        with pytest.raises(ModelError, match="has tied parameters"):
            pair_model([module] * 3)
        return
    assert_scores_like_the_modules([module] * 3)
    assert len(list(model.parameters())) == len(list(module.parameters()))


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


def test_a_scope_too_large_for_a_table_is_evaluated_directly() -> None:
    num_variables = 13
    assert 2**num_variables > LARGEST_TABULATED
    model, module = wide_model(num_variables)
    other = model.factors[1].module
    x = torch.randint(2, (20, num_variables + 1), generator=torch.Generator().manual_seed(0))
    s = 2.0 * x.double() - 1.0
    expected = module(s[:, :-1]) + other(s[:, 1:]) + module(s[:, 1:].flip(1))
    assert_close(model.log_score(x), expected[:, 0])
    assert not model.groups[0]._cache  # no table was made on the way

    variable = torch.arange(20) % (num_variables + 1)
    changed = x.clone()
    changed[torch.arange(20), variable] ^= 1
    difference = model.log_score(changed) - model.log_score(x)
    value = changed[torch.arange(20), variable]
    assert_close(model.log_ratio(x, variable, value), difference)
    flipped = model.log_ratios(x)[torch.arange(20), model.state_offsets[variable] + value]
    assert_close(flipped, difference)


def test_a_large_scope_with_evidence() -> None:
    model, _ = wide_model(13)
    x = torch.randint(2, (20, 14), generator=torch.Generator().manual_seed(0))
    x[:, [0, 3, 12]] = torch.tensor([1, 0, 1])
    kept = [v for v in range(14) if v not in (0, 3, 12)]
    reduced = model.condition({"x0": 1, "x3": 0}).condition({"x12": 1})
    assert_close(reduced.log_score(x[:, kept]), model.log_score(x))
    assert_close(reduced.log_ratios(x[:, kept])[:, :2], model.log_ratios(x)[:, 2:4])


# -- learning ----------------------------------------------------------------------------------


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


# -- the model as a value ----------------------------------------------------------------------


def test_moving_to_single_precision_and_back(model: FactorGraph) -> None:
    x, before = all_states(model), model.content_hash()
    single = model.to(dtype=torch.float32)
    for call in ("log_score", "local_log_scores", "log_ratios"):
        found, expected = getattr(single, call)(x), getattr(model, call)(x)
        assert found.dtype == torch.float32
        assert expected.dtype == torch.float64
        assert_close(found, expected.float(), tolerance=1e-4)
    assert single.variables == model.variables
    assert single.num_factors == model.num_factors
    assert model.content_hash() == before
    assert single.to(dtype=torch.float64).log_score(x).dtype == torch.float64


def test_learning_a_moved_model_leaves_the_original() -> None:
    model = networks()
    before = model.content_hash()
    single = model.to(dtype=torch.float32)
    with torch.no_grad():
        for parameter in single.parameters():
            parameter.add_(1.0)
    assert model.content_hash() == before
    assert len(list(single.parameters())) == len(list(model.parameters()))


def test_learning_a_model_moved_to_its_own_type_leaves_the_original() -> None:
    model = networks()
    before = model.content_hash()
    with torch.no_grad():
        for parameter in model.to(dtype=torch.float64).parameters():
            parameter.add_(1.0)
    assert model.content_hash() == before


def test_changing_what_was_handed_over_leaves_the_model() -> None:
    table, module = torch.zeros(2, 2, dtype=torch.float64), network(2, seed=1)
    model = FactorGraph(
        [Variable("a"), Variable("b")],
        [TableFactor(["a", "b"], table), NeuralFactor(["a", "b"], module)],
    )
    before = model.content_hash()
    table += 1.0
    with torch.no_grad():
        module[0].weight.add_(1.0)
    assert model.content_hash() == before


def test_equal_models_have_equal_hashes(model: FactorGraph, request) -> None:
    again = MODELS[request.node.callspec.id]()
    assert again is not model
    assert again.content_hash() == model.content_hash() == model.content_hash()


def chain(
    names: str = "ab",
    labels: tuple[str, str] = ("no", "yes"),
    table: Sequence[float] = (0.0, 1.0),
    swap: bool = False,
    dtype: torch.dtype = torch.float64,
    scope: str | None = None,
) -> FactorGraph:
    factors: list[Factor] = [
        TableFactor([(scope or names)[0]], table),
        SpinCoupling(names[0], names[1], 0.5),
        SpinField(names[1], 0.25),
    ]
    variables = [Variable(name, labels) for name in names]
    return FactorGraph(variables, factors[::-1] if swap else factors, dtype=dtype)


def test_different_models_have_different_hashes() -> None:
    models = {
        "original": chain(),
        "another entry": chain(table=(0.0, 1.0 + 1e-15)),
        "another name": chain(names="ac"),
        "another label": chain(labels=("no", "Yes")),
        "variables in another order": chain(names="ba"),
        "factors in another order": chain(swap=True),
        "another scope": chain(scope="ba"),
        "another type": chain(dtype=torch.float32),
        "no factors": FactorGraph(chain().variables),
        "tables instead of spins": FactorGraph(
            chain().variables,
            [
                chain().factors[0],
                TableFactor(["a", "b"], [[0.5, -0.5], [-0.5, 0.5]]),
                TableFactor(["b"], [-0.25, 0.25]),
            ],
        ),
    }
    hashes = {model.content_hash() for model in models.values()}
    assert len(hashes) == len(models)


def test_networks_with_other_weights_or_settings_have_other_hashes() -> None:
    def one(module: nn.Module) -> str:
        variables = [Variable("a"), Variable("b")]
        return FactorGraph(variables, [NeuralFactor(["a", "b"], module)]).content_hash()

    assert one(network(2, seed=1)) == one(network(2, seed=1))
    assert one(network(2, seed=1)) != one(network(2, seed=2))
    relu = nn.Sequential(*network(2, seed=1))
    relu[1] = nn.ReLU()
    assert one(relu) != one(network(2, seed=1))
    assert one(Scaled(1.0, network(2, seed=1))) != one(Scaled(2.0, network(2, seed=1)))


def test_factors_come_back_as_they_were_given() -> None:
    given = everything().factors
    model = FactorGraph(mixed_variables(), given)
    assert [type(factor) for factor in model.factors] == [type(factor) for factor in given]
    assert [factor.scope for factor in model.factors] == [factor.scope for factor in given]


def test_a_model_can_be_rebuilt_from_its_factors(model: FactorGraph, request) -> None:
    again = FactorGraph(model.variables, model.factors)
    x = all_states(model)
    assert_close(again.log_score(x), model.log_score(x))
    assert_close(again.log_ratios(x), model.log_ratios(x))
    # Conditioned networks come back as tables, which score the same and hash otherwise.
    if not request.node.callspec.id.startswith("conditioned"):
        assert again.content_hash() == model.content_hash()


def test_repr_and_counts() -> None:
    model = everything()
    assert repr(model) == "FactorGraph(6 variables, 23 factors)"
    assert model.num_states.tolist() == [2, 3, 1, 2, 3, 2]
    assert model.state_offsets.tolist() == [0, 2, 5, 6, 8, 11, 13]
    assert model.index("e") == 4
