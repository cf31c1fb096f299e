"""Models with real variables: what users write, and what factors over them say."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.stats
import torch
from jaxtyping import config

import deltaai as dai
from deltaai.models import QuadraticGroup, log_changes


def mixed_model() -> dai.FactorGraph:
    """Two states that switch a normal, a vector in a box, and one factor of every kind."""
    variables = [
        dai.Variable("x", support="line"),
        dai.Variable("s", ["a", "b"]),
        dai.Variable("hand", support=(-1, 1), dimension=2),
        dai.Variable("t", ["a", "b", "c"]),
    ]
    generator = torch.Generator().manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    for parameter in module.parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return dai.FactorGraph(
        variables,
        [
            dai.LinearGaussian("x", given=["s"], bias=[0.0, 1.0], scale=[1.0, 2.0]),
            dai.LinearGaussian("x", ["hand[0]"], [[0.5], [-1.0], [2.0]], given=["t"]),
            dai.QuadraticFactor(
                ["hand", "x"], [[2, 0.5, 0.1], [0.5, 3, 0], [0.1, 0, 1.0]], [1, 0, 2]
            ),
            dai.TableFactor(["s", "t"], [[0.0, 1.0, 0.5], [0.2, 0.3, -1.0]]),
            dai.SpinField("s", 0.3),
            dai.FunctionFactor(["x", "hand"], lambda v: -(v**2).sum(1).cos()),
            dai.MixtureFactor(
                [dai.GaussianFactor("x", -2.0, 1.0), dai.GaussianFactor("x", 2.0, 0.5)],
                [math.log(0.3), math.log(0.7)],
            ),
            dai.NeuralFactor(["s", "hand", "x"], module),
        ],
    )


def some_states(model: dai.FactorGraph, count: int = 6, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(count, model.num_variables, generator=generator, dtype=torch.float64)
    low, high = model.bounds
    low, high = low.clamp(min=-3), high.clamp(max=3)
    values = low + chance * (high - low)
    return torch.where(model.is_real, values, values.round())


@pytest.fixture
def as_a_user() -> Iterator[None]:
    """Switch the tests' own type checks off."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)


def two_named(name: str, vector: str) -> dai.FactorGraph:
    both = [dai.Variable(name), dai.Variable(vector, support="line", dimension=2)]
    return dai.FactorGraph(both)


def test_densities_are_those_of_scipy() -> None:
    variables = [dai.Variable("x", support="line"), dai.Variable("y", support="line")]
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    normal = dai.GaussianFactor(["x", "y"], [1.0, -1.0], covariance)
    child = dai.LinearGaussian("y", ["x"], [0.5], 1.0, 2.0)
    x = torch.tensor([[0.3, 0.4], [-2.0, 5.0]], dtype=torch.float64)
    found = dai.FactorGraph(variables, [normal, child]).log_score(x)
    wanted = scipy.stats.multivariate_normal([1, -1], covariance).logpdf(x.numpy())
    wanted += scipy.stats.norm(0.5 * x[:, 0].numpy() + 1, 2.0).logpdf(x[:, 1].numpy())
    assert np.allclose(found.numpy(), wanted)


def test_a_mixture_is_the_sum_of_its_components() -> None:
    parts = [dai.GaussianFactor("x", -1.0, 1.0), dai.GaussianFactor("x", 2.0, 0.25)]
    model = dai.FactorGraph(
        [dai.Variable("x", support="line")],
        [dai.MixtureFactor(parts, [math.log(0.2), math.log(0.8)])],
    )
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)[:, None]
    wanted = 0.2 * scipy.stats.norm(-1, 1).pdf(x) + 0.8 * scipy.stats.norm(2, 0.5).pdf(x)
    assert np.allclose(model.log_score(x).exp().numpy(), wanted[:, 0])


def test_states_by_name_and_factors_one_by_one_score_alike() -> None:
    model, x = mixed_model(), some_states(mixed_model())
    named = {name: x[:, list(at)].squeeze(1) for name, at in model.nodes}
    assert torch.equal(model.log_score(named), model.log_score(x))
    again = dai.FactorGraph(model.variables, model.factors)
    assert torch.allclose(again.log_score(x), model.log_score(x))


def test_changes_are_differences_of_scores() -> None:
    model, x, others = mixed_model(), some_states(mixed_model()), some_states(mixed_model(), seed=2)
    changes = log_changes(model, x.T.contiguous(), others.T.contiguous())
    for variable in range(model.num_variables):
        moved = x.clone()
        moved[:, variable] = others[:, variable]
        wanted = model.log_score(moved) - model.log_score(x)
        assert torch.allclose(changes[variable], wanted)
        number = torch.full((len(x),), variable)
        assert torch.allclose(model.log_ratio(x, number, others[:, variable]), wanted)


@pytest.mark.parametrize("names", [["hand"], ["s", "x"], ["hand[1]", "t"], ["x", "s", "t", "hand"]])
def test_evidence_keeps_the_scores(names: list[str]) -> None:
    model, x = mixed_model(), some_states(mixed_model())
    for row in x:
        evidence = {}
        for name in names:
            values = row[list(model.places(name))].tolist()
            states = model.variables[model.places(name)[0]].states
            evidence[name] = states[int(values[0])] if states else values
            if len(values) == 1 and not states:
                evidence[name] = values[0]
        reduced = model.condition(evidence)
        left = [n for n in range(model.num_variables) if n not in model.resolve_evidence(evidence)]
        rest = row[None, left].long() if reduced.is_discrete else row[None, left]
        assert torch.allclose(reduced.log_score(rest), model.log_score(row[None]))
        twice = model.condition({names[0]: evidence.pop(names[0])}).condition(evidence)
        assert torch.allclose(twice.log_score(rest), model.log_score(row[None]))


def test_quadratic_slices_are_the_precision_and_shift_of_one_variable() -> None:
    model, x = mixed_model(), some_states(mixed_model())
    for group in model.groups:
        if not isinstance(group, QuadraticGroup):
            continue
        values = x.T[group.scopes.T]
        for place in group.real_places:
            every = torch.arange(group.num_factors)
            precision, shift = group.quadratic_slices_at(every, values, place)
            moved = values.clone()
            moved[place] += 0.7
            flat = every.repeat_interleave(len(x))
            change = group.log_values_at(flat, moved.flatten(1))
            change = (change - group.log_values_at(flat, values.flatten(1))).view(-1, len(x))
            here = values[place]
            wanted = shift * 0.7 - 0.5 * precision * ((here + 0.7) ** 2 - here**2)
            assert torch.allclose(change, wanted)


def test_scores_have_gradients_and_precisions() -> None:
    model, x = mixed_model(), some_states(mixed_model()).requires_grad_(True)
    (slope,) = torch.autograd.grad(model.log_score(x).sum(), x)
    step = torch.zeros_like(x)
    step[:, 0] = 1e-6
    change = model.log_score(x + step) - model.log_score(x - step)
    assert torch.allclose(slope[:, 0], change / 2e-6, atol=1e-6)
    single = model.to(dtype=torch.float32).log_score(x.detach())
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), model.log_score(x), atol=1e-4)


def test_a_hash_tells_functions_and_supports_apart() -> None:
    def model(support: object, power: int) -> dai.FactorGraph:
        factor = dai.FunctionFactor(["x"], lambda v: -(v[:, 0] ** power))
        return dai.FactorGraph([dai.Variable("x", support=support)], [factor])

    hashes = {model(s, p).content_hash() for s in ("line", (0, 1)) for p in (2, 4)}
    assert len(hashes) == 4
    assert model("line", 2).content_hash() == model("line", 2).content_hash()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: dai.Variable("a", support=(2, 1)), "holds no numbers"),
        (lambda: dai.Variable("a", support=(0, math.nan)), "no number"),
        (lambda: dai.Variable("a", support="box"), "pair of ends"),
        (lambda: dai.Variable("a", 3, support=(0, 1)), "not both"),
        (lambda: dai.Variable("a", ["x", "y"], dimension=2), "may be vectors"),
        (lambda: dai.QuadraticFactor("x", [[1, 2], [3, 4.0]]), "not symmetric"),
        (lambda: dai.QuadraticFactor("x", math.nan), "holds nan"),
        (lambda: dai.QuadraticFactor("x", [1.0, 2.0]), "square matrix"),
        (lambda: dai.GaussianFactor("x", 0.0, -1.0), "not positive definite"),
        (lambda: dai.LinearGaussian("x", ["y"], [1.0, 2.0]), "one weight a parent"),
        (lambda: dai.LinearGaussian("x", scale=0.0), "above 0"),
        (lambda: dai.MixtureFactor([]), "at least one"),
        (lambda: dai.MixtureFactor(None), "components is None: give a list"),
        (lambda: dai.MixtureFactor(3), "components is 3: give a list"),
        (lambda: dai.MixtureFactor("x"), "components is 'x': give a list"),
        (lambda: dai.QuadraticFactor("x", torch.eye(1).to_sparse()), "it is sparse"),
        (lambda: dai.QuadraticFactor("x", torch.eye(1, device="meta")), "sparse or empty"),
        (lambda: dai.GaussianFactor("x", torch.ones(1).to_sparse(), 1.0), "mean .* it is sparse"),
        (lambda: dai.GaussianFactor("x", 0.0, torch.ones(1) + 1j), "it is complex"),
        (lambda: dai.LinearGaussian("x", ["y"], torch.ones(1).to_sparse()), "it is sparse"),
        (lambda: dai.LinearGaussian("x", scale=10**400), "not an array of numbers"),
        (lambda: dai.Variable("a").text_of(None), "has no value None"),
        (lambda: dai.Variable("a").text_of(10**5000), "has no value a whole number"),
        (lambda: dai.Variable("a").text_of(2), "no state 2"),
        (lambda: dai.zoo.pose_energy([("hip", 2)], [], dtype=3), "dtype is 3"),
        (lambda: dai.zoo.pose_energy([("hip", 2)], [], dtype=torch.long), "not torch.int64"),
        (lambda: dai.Variable("a").text_of(math.nan), "no state nan"),
        (lambda: dai.Variable("a", support="line").text_of(None), "has no value None"),
        (lambda: dai.Variable("a", support="line").text_of("tall"), "has no value 'tall'"),
        (lambda: two_named("a", vector="a"), "a vector and another variable are named 'a'"),
        (lambda: two_named("a[0]", vector="a"), r"two variables are named 'a\[0\]'"),
        (lambda: dai.FactorGraph([]).log_score({}), "without variables"),
        (lambda: mixed_model().log_score({"x": math.nan}), r"have shape \(\), .* \(batch,\)"),
        (lambda: mixed_model().log_score({"hand": 0.5}), r"have shape \(\), .* \(batch, 2\)"),
        (lambda: mixed_model().log_score({"x": torch.ones(2).to_sparse()}), "it is sparse"),
        (lambda: mixed_model().log_score({"x": [1j]}), "it is complex"),
        (lambda: dai.FunctionFactor("x", 3), "is none"),
        (lambda: mixed_model().condition({"hand": 3}), "2 coordinates"),
        (lambda: mixed_model().condition({"hand[0]": 3}), "from -1 to 1"),
        (lambda: mixed_model().condition({"x": math.nan}), "not nan"),
        (lambda: mixed_model().condition({"x": "tall"}), "any number, not 'tall'"),
        (lambda: mixed_model().condition({"hand": [0, 0], "hand[1]": 0}), "given twice"),
        (lambda: mixed_model().log_score(torch.zeros(1, 5) + 0.5), "state 0.5"),
        (lambda: mixed_model().log_score({"x": [1.0]}), "of every variable"),
        (lambda: mixed_model().log_score({"hand": [1.0]}), r"\(batch, 2\)"),
        (lambda: mixed_model().num_states, "is real"),
        (
            lambda: dai.FactorGraph(
                [dai.Variable("x", support="line")], [dai.TableFactor(["x"], [0.0, 1.0])]
            ),
            "a table is for variables with states",
        ),
        (
            lambda: dai.FactorGraph([dai.Variable("x")], [dai.QuadraticFactor("x", 1.0)]),
            "give a TableFactor",
        ),
        (
            lambda: dai.FactorGraph(
                [dai.Variable("x", support="line")], [dai.FunctionFactor("x", lambda v: v)]
            ).log_score(torch.zeros(2, 1)),
            "must map",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(make, says: str, as_a_user: None) -> None:
    with pytest.raises(dai.DeltaAIError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_numbers_of_python_keep_all_their_digits() -> None:
    factor = dai.QuadraticFactor(["x"], 0.1, 0.3, 0.7)
    assert [float(part) for part in (factor.precision, factor.shift, factor.constant)] == [
        0.1,
        0.3,
        0.7,
    ]
    model = dai.FactorGraph([dai.Variable("x", support="line")], [factor])
    x = torch.tensor([[1.1]], dtype=torch.float64)
    assert torch.equal(model.log_score({"x": [1.1]}), model.log_score(x))
