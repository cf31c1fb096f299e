"""The zoo: sizes, conventions, seeds, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from jaxtyping import config
from torch import Tensor, nn

from deltaai.errors import ConfigError, ModelError
from deltaai.models import ConditionalTable, FactorGraph, NeuralFactor, SpinCoupling, SpinField
from deltaai.models.zoo import (
    factor_ladder,
    factor_lattice,
    ising_ladder,
    ising_lattice,
    ising_torus,
    potts_lattice,
    pyramid,
    random_bayesian_network,
    random_factor_graph,
    spin_glass_grid,
    sprinkler,
)

SEEDED: dict[str, Callable[[int], FactorGraph]] = {
    "ising_ladder": lambda seed: ising_ladder(num_variables=20, sigma=0.2, seed=seed),
    "ising_lattice": lambda seed: ising_lattice(side=5, sigma=0.2, seed=seed),
    "ising_torus": lambda seed: ising_torus(side=5, sigma=0.2, seed=seed),
    "spin_glass_grid": lambda seed: spin_glass_grid(side=5, seed=seed, scale=0.5),
    "factor_ladder": lambda seed: factor_ladder(num_variables=12, sigma=0.5, seed=seed),
    "factor_lattice": lambda seed: factor_lattice(side=5, sigma=0.5, seed=seed),
    "potts_lattice": lambda seed: potts_lattice(side=5, states=3, sigma=0.5, seed=seed),
    "random_factor_graph": lambda seed: random_factor_graph(8, 12, zero_fraction=0.2, seed=seed),
    "random_bayesian_network": lambda seed: random_bayesian_network(
        8, max_parents=3, max_states=4, seed=seed
    ),
}


def some_states(model: FactorGraph, count: int = 50) -> Tensor:
    uniform = torch.rand(
        count, model.num_variables, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    return (uniform * model.num_states).long()


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED.keys())
def test_a_seed_says_it_all(make: Callable[[int], FactorGraph]) -> None:
    before = torch.random.get_rng_state()
    first = make(3).content_hash()
    torch.randn(7)  # other people's random numbers do not matter ...
    assert make(3).content_hash() == first
    assert make(4).content_hash() != first
    torch.random.set_rng_state(before)
    make(3)
    assert torch.equal(torch.random.get_rng_state(), before)  # ... and are left alone


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED.keys())
def test_models_are_constants_in_double_precision(make: Callable[[int], FactorGraph]) -> None:
    model = make(0)
    assert list(model.parameters()) == []
    assert model.log_score(some_states(model)).dtype == torch.float64


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED.keys())
def test_models_can_be_rebuilt_from_their_factors(make: Callable[[int], FactorGraph]) -> None:
    model = make(0)
    again = FactorGraph(model.variables, model.factors)
    assert again.content_hash() == model.content_hash()


# -- Ising -------------------------------------------------------------------------------------


def dense(model: FactorGraph) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric matrix J and the vector b, each factor's strength spread over them."""
    J = np.zeros((model.num_variables, model.num_variables))
    b = np.zeros(model.num_variables)
    for factor in model.factors:
        if isinstance(factor, SpinCoupling):
            u, v = model.index(factor.first), model.index(factor.second)
            J[u, v] += factor.strength / 2
            J[v, u] += factor.strength / 2
        else:
            assert isinstance(factor, SpinField)
            b[model.index(factor.variable)] += factor.strength
    return J, b


@pytest.mark.parametrize(
    ("make", "size", "num_variables", "num_edges"),
    [
        (ising_ladder, 12, 12, 11 + 10),
        (ising_ladder, 2, 2, 1),
        (ising_ladder, 1, 1, 0),
        (ising_lattice, 6, 36, 2 * 6 * 5),
        (ising_lattice, 1, 1, 0),
        (ising_torus, 6, 36, 2 * 36),
        (ising_torus, 3, 9, 18),
    ],
)
def test_the_energy_of_the_paper(make, size: int, num_variables: int, num_edges: int) -> None:
    sigma = 0.3
    model = make(size, sigma=sigma, seed=1)
    assert model.num_variables == num_variables
    assert model.num_factors == num_edges + num_variables
    assert model.markov_graph().num_edges == num_edges
    J, b = dense(model)
    J, b = J / sigma, b / sigma
    np.testing.assert_allclose(J, J.T)
    np.testing.assert_allclose(np.abs(J[J != 0]), 1.0)
    np.testing.assert_allclose(np.abs(b), 1.0)
    x = some_states(model)
    s = 2.0 * x.numpy() - 1.0
    energy = sigma * (-np.einsum("ni,ij,nj->n", s, J, s) - s @ b)
    np.testing.assert_allclose(model.log_score(x).numpy(), -energy, atol=1e-9)


def test_the_neighbours_in_a_ladder_and_a_lattice() -> None:
    ladder = ising_ladder(7, sigma=1.0, seed=0).markov_graph()
    assert ladder.neighbours(0) == (1, 2)
    assert ladder.neighbours(3) == (1, 2, 4, 5)
    lattice = ising_lattice(4, sigma=1.0, seed=0).markov_graph()
    assert lattice.neighbours(0) == (1, 4)
    assert lattice.neighbours(5) == (1, 4, 6, 9)
    torus = ising_torus(4, sigma=1.0, seed=0).markov_graph()
    assert torus.neighbours(0) == (1, 3, 4, 12)
    assert torus.neighbours(5) == (1, 4, 6, 9)


def test_names_tell_where_a_variable_stands() -> None:
    assert ising_ladder(3, sigma=1.0, seed=0).variables[2].name == "x2"
    assert ising_lattice(4, sigma=1.0, seed=0).variables[6].name == "x_1_2"


def test_signs_are_fair() -> None:
    _, b = dense(ising_ladder(2000, sigma=1.0, seed=0))
    assert abs(b.mean()) < 4 / np.sqrt(2000)
    strengths = ising_ladder(2000, sigma=1.0, seed=0).groups[0].strengths
    assert abs(float((strengths / 2).mean())) < 4 / np.sqrt(len(strengths))


def test_a_spin_glass_counts_each_pair_once() -> None:
    model = spin_glass_grid(side=30, seed=0, scale=0.5)
    assert {type(factor) for factor in model.factors} == {SpinCoupling}
    assert model.num_factors == 2 * 30 * 29
    strengths = np.array([factor.strength for factor in model.factors])
    assert abs(strengths.mean()) < 4 * 0.5 / np.sqrt(len(strengths))
    assert abs(strengths.std() - 0.5) < 4 * 0.5 / np.sqrt(2 * len(strengths))
    doubled = spin_glass_grid(side=30, seed=0).groups[0].strengths
    torch.testing.assert_close(doubled, torch.from_numpy(2 * strengths))
    all_up = torch.ones(1, 900, dtype=torch.long)
    assert model.log_score(all_up).item() == pytest.approx(strengths.sum())
    assert model.log_score(1 - all_up).item() == pytest.approx(strengths.sum())


def test_a_ladder_of_a_hundred_thousand_variables() -> None:
    model = ising_ladder(num_variables=100_000, sigma=0.2, seed=0)
    assert model.num_factors == 100_000 + 99_999 + 99_998
    all_up = torch.ones(1, 100_000, dtype=torch.long)
    strengths = sum(float(group.strengths.sum()) for group in model.groups)
    assert model.log_score(all_up).item() == pytest.approx(strengths)
    change = model.log_ratio(all_up, torch.tensor([50_000]), torch.tensor([0]))
    flipped = all_up.clone()
    flipped[0, 50_000] = 0
    difference = model.log_score(flipped) - model.log_score(all_up)
    assert change.item() == pytest.approx(difference.item())


# -- networks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "scopes"),
    [
        (factor_ladder(6, sigma=0.5, seed=0), [(0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5)]),
        (
            factor_lattice(3, sigma=0.5, seed=0),
            [(0, 1, 3, 4), (1, 2, 4, 5), (3, 4, 6, 7), (4, 5, 7, 8)],
        ),
    ],
    ids=["ladder", "lattice"],
)
def test_networks_score_like_explicit_modules(model: FactorGraph, scopes) -> None:
    x = some_states(model)
    s = 2.0 * x.double() - 1.0
    total = torch.zeros(len(x), dtype=torch.float64)
    (group,) = model.groups
    assert group.num_factors == len(scopes)
    for position, scope in enumerate(scopes):
        module = nn.Sequential(nn.Linear(4, 10), nn.Tanh(), nn.Linear(10, 1)).double()
        module.load_state_dict({name: value[position] for name, value in group.stacked.items()})
        with torch.no_grad():
            total += module(s[:, scope])[:, 0]
        factor = model.factors[position]
        assert isinstance(factor, NeuralFactor)
        assert tuple(model.index(name) for name in factor.scope) == scope
    torch.testing.assert_close(model.log_score(x), total)


def test_weights_and_biases_have_the_deviation_asked_for() -> None:
    model = factor_lattice(side=21, sigma=0.5, seed=0)
    assert model.num_factors == 400
    for name, value in model.groups[0].stacked.items():
        standard_error = 0.5 / np.sqrt(value.numel())
        assert abs(float(value.mean())) < 4 * standard_error, name
        assert abs(float(value.std()) - 0.5) < 4 * standard_error, name
        assert value.dtype == torch.float64


def test_no_two_networks_are_alike() -> None:
    tables = factor_ladder(num_variables=30, sigma=0.5, seed=0).groups[0].log_tables()
    assert len(torch.unique(tables.flatten(1), dim=0)) == 27


# -- Potts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("states", [2, 3, 5])
def test_the_potts_convention(states: int) -> None:
    sigma = 0.4
    model = potts_lattice(side=3, states=states, sigma=sigma, seed=2)
    assert model.num_factors == 12 + 9
    couplings, fields = (group.tables.numpy() for group in model.groups)
    J, b = couplings[:, 0, 0] / (2 * sigma), fields / sigma
    assert set(J.tolist()) == set(np.unique(b).tolist()) == {-1.0, 1.0}
    x = some_states(model)
    pairs = [(r * 3 + c, r * 3 + c + 1) for r in range(3) for c in range(2)]
    pairs += [(r * 3 + c, r * 3 + c + 3) for r in range(2) for c in range(3)]
    for row, score in zip(x.tolist(), model.log_score(x).tolist(), strict=True):
        agreeing = sum(J[k] * (row[u] == row[v]) for k, (u, v) in enumerate(pairs))
        expected = sigma * (2 * agreeing + sum(b[u, state] for u, state in enumerate(row)))
        assert score == pytest.approx(expected)


def test_a_single_potts_variable() -> None:
    model = potts_lattice(side=1, states=3, sigma=1.0, seed=0)
    assert (model.num_variables, model.num_factors) == (1, 1)


# -- pyramid -----------------------------------------------------------------------------------


def test_the_pyramid_has_the_counts_of_the_paper() -> None:
    built = pyramid()
    assert built.graph.num_vertices == len(built.variables) == 948
    assert (len(built.pixels), len(built.latents), len(built.positions)) == (784, 164, 164)
    assert (built.pixels[0], built.pixels[-1], built.latents[0]) == (0, 783, 784)
    edges = built.graph.edges()
    is_latent = edges >= 784
    by_kind = np.bincount(is_latent.sum(axis=1), minlength=3).tolist()
    assert by_kind == [0, 9216, 7414]
    layers = [position.layer for position in built.positions]
    assert [layers.count(layer) for layer in (1, 2, 3)] == [144, 16, 4]


def test_every_edge_of_the_pyramid_lies_in_a_window() -> None:
    built = pyramid()
    position = dict(zip(built.latents, built.positions, strict=True))

    def place(vertex: int) -> tuple[int, int, int]:
        if vertex < 784:
            return (0, vertex // 28, vertex % 28)
        at = position[vertex]
        return (at.layer, at.row, at.column)

    stride, window, side = {1: 4, 2: 2, 3: 1}, {1: 8, 2: 4, 3: 2}, {1: 6, 2: 2, 3: 1}

    def is_in_window(node: tuple[int, int, int], above: tuple[int, int, int]) -> bool:
        if node == above:
            return True
        layer, row, column = above
        down, right = node[1] - row * stride[layer], node[2] - column * stride[layer]
        return node[0] == layer - 1 and 0 <= down < window[layer] and 0 <= right < window[layer]

    nodes = [
        (layer, row, column)
        for layer in (1, 2, 3)
        for row in range(side[layer])
        for column in range(side[layer])
    ]
    expected = set()
    members = {above: [v for v in range(948) if is_in_window(place(v), above)] for above in nodes}
    for inside in members.values():
        expected |= {(u, v) for u, v in itertools.combinations(inside, 2) if v >= 784}
    assert {tuple(edge) for edge in built.graph.edges().tolist()} == expected


def test_names_in_the_pyramid() -> None:
    built = pyramid()
    names = [variable.name for variable in built.variables]
    assert len(set(names)) == 948
    assert names[3 * 28 + 17] == "pixel_3_17"
    vertex = names.index("latent1_2_5_b3")
    assert built.positions[vertex - 784] == (1, 2, 5, 3)
    assert names[-1] == "latent3_0_0_b3"
    assert all(variable.num_states == 2 for variable in built.variables)


# -- random models -----------------------------------------------------------------------------


def log_scores_of_all_states(model: FactorGraph) -> Tensor:
    sizes = [range(variable.num_states) for variable in model.variables]
    return model.log_score(torch.tensor(list(itertools.product(*sizes)), dtype=torch.long))


@pytest.mark.parametrize("zero_fraction", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_random_models_are_possible(zero_fraction: float, seed: int) -> None:
    model = random_factor_graph(5, 9, zero_fraction=zero_fraction, max_arity=4, seed=seed)
    scores = log_scores_of_all_states(model)
    assert not bool(scores.isnan().any())
    assert bool(scores.isfinite().any())
    if zero_fraction == 0.0:
        assert bool(scores.isfinite().all())


def test_random_models_stay_within_what_was_asked_for() -> None:
    model = random_factor_graph(
        30, 200, max_arity=4, min_states=2, max_states=5, zero_fraction=0.25, scale=2.0, seed=0
    )
    assert {variable.num_states for variable in model.variables} == {2, 3, 4, 5}
    assert {len(factor.scope) for factor in model.factors} == {1, 2, 3, 4}
    entries = torch.cat([factor.log_table.flatten() for factor in model.factors])
    zeros = float((entries == -torch.inf).double().mean())
    assert 0.2 < zeros < 0.26
    assert 1.9 < float(entries[entries.isfinite()].std()) < 2.1


def test_random_models_may_be_disconnected_and_tiny() -> None:
    assert len(random_factor_graph(20, 4, seed=0).markov_graph().components()) > 1
    assert random_factor_graph(3, 0, seed=0).num_factors == 0
    one = random_factor_graph(1, 3, max_arity=5, max_states=1, seed=0)
    assert bool(one.log_score(torch.zeros(1, 1, dtype=torch.long)).isfinite().all())


@pytest.mark.parametrize("seed", range(5))
def test_random_bayesian_networks_are_normalised(seed: int) -> None:
    model = random_bayesian_network(6, max_parents=3, max_states=3, seed=seed)
    assert float(log_scores_of_all_states(model).exp().sum()) == pytest.approx(1.0)
    children = [factor.child for factor in model.factors if isinstance(factor, ConditionalTable)]
    assert sorted(children) == [variable.name for variable in model.variables]
    assert all(len(factor.scope) <= 4 for factor in model.factors)


def test_the_columns_of_a_random_bayesian_network_are_in_no_particular_order() -> None:
    model = random_bayesian_network(30, max_parents=2, seed=0)
    directions = {
        model.index(parent) < model.index(factor.child)
        for factor in model.factors
        if isinstance(factor, ConditionalTable)
        for parent in factor.parents
    }
    assert directions == {True, False}


def test_the_sprinkler() -> None:
    model = sprinkler()
    scores = log_scores_of_all_states(model).exp()
    assert float(scores.sum()) == pytest.approx(1.0)
    assert sum(scores.reshape(2, 2, 2, 2)[..., 1].flatten().tolist()) == pytest.approx(0.6471)
    assert model.log_score(torch.tensor([[1, 0, 0, 1]])).item() == -torch.inf
    assert model.variables[0].states == ("no", "yes")
    assert {factor.scope for factor in model.factors} == {
        ("cloudy",), ("cloudy", "sprinkler"), ("cloudy", "rain"), ("sprinkler", "rain", "wet_grass")
    }  # fmt: skip


# -- what is refused ---------------------------------------------------------------------------


@pytest.fixture
def _as_a_user_runs_it() -> Iterator[None]:
    """Switch the tests' own type checks off: users do not have them, and must see our errors."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", before)


@pytest.mark.usefixtures("_as_a_user_runs_it")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ising_ladder(0, sigma=1.0, seed=0), "num_variables .* at least 1, not 0"),
        (lambda: ising_ladder(2.5, sigma=1.0, seed=0), "num_variables must be an integer, not 2.5"),
        (lambda: ising_ladder("9", sigma=1.0, seed=0), "num_variables must be an integer, not '9'"),
        (lambda: ising_lattice(-3, sigma=1.0, seed=0), "side .* at least 1, not -3"),
        (lambda: ising_lattice(True, sigma=1.0, seed=0), "side .* not True"),
        (lambda: ising_lattice(3, sigma=-1.0, seed=0), "sigma must be finite and not negative"),
        (lambda: ising_lattice(3, sigma=float("nan"), seed=0), "sigma must be finite .* not nan"),
        (lambda: ising_lattice(3, sigma=float("inf"), seed=0), "sigma must be finite .* not inf"),
        (lambda: ising_lattice(3, sigma="x", seed=0), "sigma must be a number, not 'x'"),
        (lambda: ising_torus(2, sigma=1.0, seed=0), "side .* at least 3 .*doubled edges.* not 2"),
        (lambda: spin_glass_grid(3, seed=0, scale=-1.0), "scale must be finite and not negative"),
        (lambda: factor_ladder(3, sigma=1.0, seed=0), "num_variables .* at least 4 .*not 3"),
        (lambda: factor_lattice(1, sigma=1.0, seed=0), "side .* at least 2 .*2 x 2 block.*not 1"),
        (lambda: potts_lattice(3, states=1, sigma=1.0, seed=0), "states .* at least 2, not 1"),
        (lambda: random_factor_graph(0, 3, seed=0), "num_variables .* at least 1"),
        (lambda: random_factor_graph(3, -1, seed=0), "num_factors .* at least 0"),
        (lambda: random_factor_graph(3, 1, max_arity=0, seed=0), "max_arity .* at least 1"),
        (lambda: random_factor_graph(3, 1, min_states=0, seed=0), "min_states .* at least 1"),
        (lambda: random_factor_graph(3, 1, min_states=4, seed=0), "max_states .* at least 4"),
        (lambda: random_factor_graph(3, 1, zero_fraction=1.5, seed=0), "between 0 and 1, not 1.5"),
        (lambda: random_factor_graph(3, 1, zero_fraction=-0.1, seed=0), "zero_fraction .* not neg"),
        (lambda: random_bayesian_network(3, max_parents=-1, seed=0), "max_parents .* at least 0"),
        (lambda: random_bayesian_network(3, max_states=1, seed=0), "max_states .* at least 2"),
    ],
)
def test_arguments_are_checked(make: Callable[[], FactorGraph], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        make()


@pytest.mark.usefixtures("_as_a_user_runs_it")
@pytest.mark.parametrize("seed", [-1, None, 2**63, True, 0.5])
def test_seeds_are_checked(seed: object) -> None:
    with pytest.raises(ConfigError, match=r"seed is .*: it must be a whole number from 0 to 2\^63"):
        ising_lattice(3, sigma=1.0, seed=seed)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_as_a_user_runs_it")
def test_numpy_numbers_are_numbers() -> None:
    model = ising_lattice(side=np.int64(4), sigma=np.float32(0.5), seed=np.int32(0))
    assert model.content_hash() == ising_lattice(side=4, sigma=0.5, seed=0).content_hash()
