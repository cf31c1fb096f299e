"""Everything that can be wrong with a model, its states or its evidence is refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from jaxtyping import config
from torch import Tensor, nn

from deltaai.errors import (
    DeltaAIError,
    EvidenceError,
    ImpossibleEvidenceError,
    ModelError,
    StateError,
)
from deltaai.models import (
    ConditionalTable,
    FactorGraph,
    NeuralFactor,
    SpinCoupling,
    SpinField,
    TableFactor,
    Variable,
)
from deltaai.models.zoo import sprinkler

NAN, INFINITY = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _as_a_user_runs_it() -> Iterator[None]:
    """Switch the tests' own type checks off: users do not have them, and must see our errors."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)


def weather() -> list[Variable]:
    return [
        Variable("rain", ["no", "yes"]),
        Variable("wet", ["no", "yes"]),
        Variable("wind", ["calm", "breeze", "storm"]),
    ]


# -- factors on their own ----------------------------------------------------------------------


@pytest.mark.parametrize("make", [TableFactor, TableFactor.from_values])
def test_a_scope_names_each_variable_once(make) -> None:
    with pytest.raises(ModelError, match=r"the scope \(rain, rain\) names 'rain' twice"):
        make(["rain", "rain"], [[0.0, 1.0], [1.0, 0.0]])


def test_a_conditional_table_has_distinct_parents_and_child() -> None:
    with pytest.raises(ModelError, match="names 'wet' twice"):
        ConditionalTable("wet", ["rain", "wet"], np.ones((2, 2, 2)))
    with pytest.raises(ModelError, match="names 'rain' twice"):
        ConditionalTable.from_log("wet", ["rain", "rain"], np.zeros((2, 2, 2)))


def test_a_scope_holds_names() -> None:
    with pytest.raises(ModelError, match="holds variable names, not 3"):
        TableFactor(["rain", 3], np.zeros((2, 2)))  # type: ignore[list-item]


def test_a_table_has_one_axis_a_variable() -> None:
    with pytest.raises(ModelError, match=r"over \(rain, wet\) has 1 axes for 2 variables"):
        TableFactor(["rain", "wet"], [0.0, 1.0])


@pytest.mark.parametrize("values", ["many", [[0.0], [1.0, 2.0]], [None, 1.0], {"no": 1.0}])
def test_a_table_holds_numbers(values: object) -> None:
    with pytest.raises(ModelError, match=r"over \(rain\) (is not an array of numbers|has a NaN)"):
        FactorGraph(weather(), [TableFactor(["rain"], values)])


def test_complex_tables_are_refused() -> None:
    with pytest.raises(ModelError, match=r"over \(rain\)"):
        TableFactor(["rain"], torch.tensor([1.0 + 1.0j, 1.0]))


def test_negative_values_are_refused_with_the_value() -> None:
    with pytest.raises(ModelError, match=r"over \(rain\) has the negative entry -0\.5"):
        TableFactor.from_values(["rain"], [1.5, -0.5])
    with pytest.raises(ModelError, match=r"over \(rain, wet\) has the negative entry -1\.0"):
        ConditionalTable("wet", ["rain"], [[2.0, -1.0], [0.5, 0.5]])


def test_a_neural_factor_needs_a_module_and_a_scope() -> None:
    with pytest.raises(ModelError, match=r"needs a torch\.nn\.Module, not <function"):
        NeuralFactor(["rain"], lambda features: features.sum(-1))  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="at least one variable"):
        NeuralFactor([], nn.Linear(1, 1))
    with pytest.raises(ModelError, match="names 'rain' twice"):
        NeuralFactor(["rain", "rain"], nn.Linear(2, 1))


def test_a_flipped_array_is_a_table_like_any_other() -> None:
    table = TableFactor(["rain"], np.array([1.0, 2.0])[::-1]).log_table
    assert table.tolist() == [2.0, 1.0]


# -- factors in a model ------------------------------------------------------------------------


def test_variable_names_are_distinct() -> None:
    with pytest.raises(ModelError, match="two variables are named 'rain'"):
        FactorGraph([Variable("rain"), Variable("wet"), Variable("rain", 3)])


def test_variables_are_variables() -> None:
    with pytest.raises(ModelError, match="variable 1 is a str, not a Variable"):
        FactorGraph([Variable("rain"), "wet"])  # type: ignore[list-item]


@pytest.mark.parametrize("thing", ["rain", 3, np.zeros(2), None])
def test_factors_are_factors(thing: object) -> None:
    with pytest.raises(ModelError, match=f"factor 0 is a {type(thing).__name__}, not a factor"):
        FactorGraph(weather(), [thing])  # type: ignore[list-item]


@pytest.mark.parametrize(
    "factor",
    [
        TableFactor(["rain", "wett"], np.zeros((2, 2))),
        ConditionalTable("wett", ["rain"], np.ones((2, 2)) / 2),
        SpinCoupling("rain", "wett", 1.0),
        NeuralFactor(["rain", "wett"], nn.Linear(2, 1)),
    ],
    ids=lambda factor: type(factor).__name__,
)
def test_an_unknown_variable_is_named_with_a_guess(factor) -> None:
    constant = TableFactor([], 0.0)
    with pytest.raises(
        ModelError,
        match=r"factor 1 over \(rain, wett\): no variable 'wett'; did you mean 'wet'\?",
    ):
        FactorGraph(weather(), [constant, factor])


@pytest.mark.parametrize("make", [TableFactor, TableFactor.from_values])
def test_a_table_has_the_shape_of_its_variables(make) -> None:
    with pytest.raises(
        ModelError, match=r"factor 0 over \(rain, wind\): its table has shape \(3, 2\).*\(2, 3\)"
    ):
        FactorGraph(weather(), [make(["rain", "wind"], np.ones((3, 2)))])


def test_the_child_axis_of_a_conditional_table_is_last() -> None:
    with pytest.raises(ModelError, match=r"over \(wind, rain\): its table has shape \(2, 3\)"):
        FactorGraph(weather(), [ConditionalTable("rain", ["wind"], np.ones((2, 3)))])


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([0.0, NAN], "has a NaN entry"),
        ([INFINITY, 0.0], "has an infinite entry"),
        ([-INFINITY, -INFINITY], "is zero everywhere, so every state is impossible"),
    ],
)
def test_bad_entries_name_the_factor(entries: list[float], problem: str) -> None:
    fine = TableFactor(["rain"], [0.0, -INFINITY])
    with pytest.raises(ModelError, match=re.escape(f"factor 2 over (wet) {problem}")):
        FactorGraph(weather(), [fine, fine, TableFactor(["wet"], entries)])


def test_bad_entries_of_conditional_tables_and_constants_are_found_too() -> None:
    with pytest.raises(ModelError, match=r"factor 0 over \(rain, wet\) has a NaN entry"):
        FactorGraph(weather(), [ConditionalTable("wet", ["rain"], [[0.5, NAN], [0.5, 0.5]])])
    with pytest.raises(ModelError, match=r"factor 0 over \(\) is zero everywhere"):
        FactorGraph(weather(), [TableFactor.from_values([], 0.0)])


def test_entries_that_overflow_in_the_floating_type_are_refused() -> None:
    with pytest.raises(ModelError, match="has an infinite entry"):
        FactorGraph(weather(), [TableFactor(["rain"], [0.0, 1e300])], dtype=torch.float32)


@pytest.mark.parametrize("factor", [SpinField("wind", 1.0), SpinCoupling("rain", "wind", 1.0)])
def test_spins_need_two_states(factor) -> None:
    with pytest.raises(ModelError, match=r"wind\): spins need variables with 2 states, not .*3"):
        FactorGraph(weather(), [factor])


@pytest.mark.parametrize("strength", [NAN, INFINITY, -INFINITY])
def test_strengths_are_finite(strength: float) -> None:
    with pytest.raises(ModelError, match=rf"factor 0 over \(rain\): its strength is {strength}"):
        FactorGraph(weather(), [SpinField("rain", strength)])
    with pytest.raises(ModelError, match=rf"over \(rain, wet\): its strength is {strength}"):
        FactorGraph(weather(), [SpinCoupling("rain", "wet", strength)])


def test_strengths_are_numbers() -> None:
    with pytest.raises(
        ModelError, match=r"over \(rain\) have the strength 'strong': give a number"
    ):
        SpinField("rain", "strong")  # type: ignore[arg-type]


def test_a_variable_is_not_coupled_to_itself() -> None:
    with pytest.raises(ModelError, match=r"factor 0 over \(rain, rain\) couples a variable to its"):
        FactorGraph(weather(), [SpinCoupling("rain", "rain", 1.0)])


def test_the_floating_type_is_one() -> None:
    with pytest.raises(ModelError, match="int64"):
        FactorGraph(weather(), [SpinField("rain", 1.5)], dtype=torch.int64)


# -- neural factors ----------------------------------------------------------------------------


class Sum(nn.Module):
    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain

    def forward(self, features: Tensor) -> Tensor:
        return self.gain * features.sum()


class Pair(nn.Module):
    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return features.sum(-1), features.sum(-1)


def test_a_module_takes_the_encoded_width() -> None:
    # One number for rain, three for wind.
    with pytest.raises(ModelError, match="must take inputs of width 4"):
        FactorGraph(weather(), [NeuralFactor(["rain", "wind"], nn.Linear(2, 1))])


@pytest.mark.parametrize(
    ("module", "output"),
    [(nn.Linear(1, 2), r"\(1, 2\)"), (Sum(), r"\(\)"), (Pair(), "tuple")],
    ids=["two outputs", "no batch", "a tuple"],
)
def test_a_module_gives_one_number_a_row(module: nn.Module, output: str) -> None:
    with pytest.raises(ModelError, match=rf"must map \(batch, 1\) to \(batch,\).*not to {output}"):
        FactorGraph(weather(), [NeuralFactor(["rain"], module)])


# -- states ------------------------------------------------------------------------------------


def weather_model() -> FactorGraph:
    return FactorGraph(weather(), [TableFactor(["rain", "wind"], np.zeros((2, 3)))])


CALLS = [FactorGraph.log_score, FactorGraph.local_log_scores, FactorGraph.log_ratios]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize("shape", [(2,), (4, 2), (4, 4), (1, 4, 3)])
def test_states_of_the_wrong_shape(call, shape: tuple[int, ...]) -> None:
    with pytest.raises(
        StateError, match=r"must have shape \(batch, 3\), not " + re.escape(f"{shape}")
    ):
        call(weather_model(), torch.zeros(shape, dtype=torch.long))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_states_of_the_wrong_type(call, dtype: torch.dtype) -> None:
    with pytest.raises(StateError, match=f"must be integers, not {dtype}"):
        call(weather_model(), torch.zeros(4, 3, dtype=dtype))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
@pytest.mark.parametrize(("value", "highest"), [(-1, 1), (2, 1), (300, 1), (256, 1), (2**40, 1)])
def test_a_state_out_of_range_names_row_variable_and_value(call, value: int, highest: int) -> None:
    x = torch.zeros(4, 3, dtype=torch.long)
    x[:, 2] = 2  # allowed there, though it is more than the other variables have
    x[3, 1] = value
    message = (
        f"row 4 (x[3]) gives variable 'wet' the state {value}, but its states are 0 to {highest}"
    )
    with pytest.raises(StateError, match=re.escape(message)):
        call(weather_model(), x)


@pytest.mark.parametrize(
    "x", [[[0, 0, 0]], np.zeros((1, 3), dtype=np.int64)], ids=["list", "numpy"]
)
def test_states_that_are_no_tensor(x: object) -> None:
    with pytest.raises(StateError, match="tensor"):
        weather_model().log_score(x)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64])
def test_unsigned_states_are_states_or_refused_by_us(dtype: torch.dtype) -> None:
    try:
        score = weather_model().log_score(torch.zeros(4, 3).to(dtype))
    except StateError:
        return
    assert score.tolist() == [0.0] * 4


def test_a_change_has_one_variable_and_value_a_row() -> None:
    model, x = weather_model(), torch.zeros(4, 3, dtype=torch.long)
    with pytest.raises(StateError, match=r"must have shape \(4,\).*\(3,\) and \(4,\)"):
        model.log_ratio(x, torch.zeros(3, dtype=torch.long), torch.zeros(4, dtype=torch.long))
    with pytest.raises(StateError, match=r"\(4,\) and \(4, 1\)"):
        model.log_ratio(x, torch.zeros(4, dtype=torch.long), torch.zeros(4, 1, dtype=torch.long))


@pytest.mark.parametrize("variable", [-1, 3])
def test_a_change_is_of_a_variable_there_is(variable: int) -> None:
    x = torch.zeros(1, 3, dtype=torch.long)
    with pytest.raises(StateError, match="variables are numbered 0 to 2"):
        weather_model().log_ratio(x, torch.tensor([variable]), torch.tensor([0]))


@pytest.mark.parametrize(("variable", "value"), [(0, 2), (1, -1), (2, 3)])
def test_a_change_is_to_a_state_there_is(variable: int, value: int) -> None:
    x = torch.zeros(1, 3, dtype=torch.long)
    with pytest.raises(StateError, match="outside the states"):
        weather_model().log_ratio(x, torch.tensor([variable]), torch.tensor([value]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_a_change_may_come_in_any_integer_type(dtype: torch.dtype) -> None:
    model, x = weather_model(), torch.zeros(2, 3, dtype=dtype)
    change = torch.tensor([2, 0], dtype=dtype)
    assert model.log_ratio(x, change, torch.ones_like(change)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("bad", [torch.tensor([0.0]), torch.tensor([True])])
def test_a_change_of_the_wrong_type(bad: Tensor) -> None:
    x, fine = torch.zeros(1, 3, dtype=torch.long), torch.tensor([0])
    with pytest.raises(StateError, match="integers"):
        weather_model().log_ratio(x, bad, fine)
    with pytest.raises(StateError, match="integers"):
        weather_model().log_ratio(x, fine, bad)


# -- evidence ----------------------------------------------------------------------------------


def test_evidence_on_an_unknown_variable() -> None:
    with pytest.raises(
        EvidenceError, match=r"no variable 'rian' in the model; did you mean 'rain'"
    ):
        weather_model().condition({"rian": "yes"})
    with pytest.raises(EvidenceError, match=r"no variable 'snow' in the model$"):
        weather_model().resolve_evidence({"snow": 1})
    with pytest.raises(EvidenceError, match="did you mean 'wind'"):
        weather_model().index("wnd")


@pytest.mark.parametrize("state", ["gale", 3, -1, "3"])
def test_evidence_of_an_unknown_state(state: str | int) -> None:
    with pytest.raises(EvidenceError, match=f"variable 'wind' has no state {state!r}"):
        weather_model().condition({"rain": 0, "wind": state})


def test_evidence_of_a_misspelt_label_comes_with_a_guess() -> None:
    with pytest.raises(EvidenceError, match=r"did you mean 'storm'\? \(its states: calm, breeze"):
        weather_model().condition({"wind": "strom"})


def test_impossible_evidence_says_what_is_impossible() -> None:
    evidence = {"wet_grass": "yes", "sprinkler": "no", "rain": "no"}
    with pytest.raises(
        ImpossibleEvidenceError,
        match="probability zero: sprinkler=no, rain=no, wet_grass=yes is impossible under the "
        r"factor over \(sprinkler, rain, wet_grass\)",
    ):
        sprinkler().condition(evidence)


def test_impossible_evidence_in_two_steps() -> None:
    partly = sprinkler().condition({"wet_grass": "yes", "rain": "no"})
    with pytest.raises(ImpossibleEvidenceError, match="sprinkler=no"):
        partly.condition({"sprinkler": "no"})


def test_evidence_with_one_possible_state_left_is_possible() -> None:
    assert sprinkler().condition({"wet_grass": "yes", "rain": "no"}).num_variables == 2


@pytest.mark.parametrize(
    "kind",
    [ModelError, StateError, EvidenceError, ImpossibleEvidenceError],
    ids=lambda k: k.__name__,
)
def test_every_error_is_ours_and_a_value_error(kind: type[Exception]) -> None:
    assert issubclass(kind, DeltaAIError)
    assert issubclass(kind, ValueError)
