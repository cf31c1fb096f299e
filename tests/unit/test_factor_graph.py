"""Factor graphs against plain loops over their factors, for every kind of factor."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
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
from deltaai.models.zoo import sprinkler
from factor_graphs import (
    MODELS,
    Reference,
    Scaled,
    all_states,
    assert_close,
    everything,
    fill_in,
    mixed_variables,
    network,
    networks,
    normal,
    tables,
)


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def model(request: pytest.FixtureRequest) -> FactorGraph:
    return request.param()


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
