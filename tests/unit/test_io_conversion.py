"""Conversions in memory: the other library's own inference must agree with enumeration."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
import torch

from deltaai.errors import ConversionError
from deltaai.io import from_pgmpy, from_pyagrum, to_pgmpy, to_pyagrum
from deltaai.models import (
    ConditionalTable,
    FactorGraph,
    SpinCoupling,
    SpinField,
    TableFactor,
    Variable,
)


def sprinkler() -> FactorGraph:
    """A Bayesian network whose variables are not listed parents first."""
    return FactorGraph(
        [
            Variable("wet", ["dry", "damp", "soaked"]),
            Variable("rain", ["no", "yes"]),
            Variable("sprinkler", ["off", "on", "broken"]),
            Variable("sky", ["only"]),
        ],
        [
            ConditionalTable(
                "wet",
                ["sprinkler", "rain"],
                [
                    [[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]],
                    [[0.25, 0.5, 0.25], [0.0, 0.1, 0.9]],
                    [[1.0, 0.0, 0.0], [0.15, 0.35, 0.5]],
                ],
            ),
            ConditionalTable("rain", ["sky"], [[0.7, 0.3]]),
            ConditionalTable("sprinkler", ["rain"], [[0.5, 0.4, 0.1], [0.85, 0.05, 0.1]]),
            ConditionalTable("sky", [], [1.0]),
        ],
    )


def loop() -> FactorGraph:
    """A Markov network with a loop, two factors over one scope, a constant, a free variable."""
    generator = torch.Generator().manual_seed(0)

    def table(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return FactorGraph(
        [
            Variable("a"),
            Variable("b", ["x", "y", "z"]),
            Variable("c", 2),
            Variable("d", 4),
            Variable("free", 3),
        ],
        [
            TableFactor(["a", "b"], table(2, 3)),
            TableFactor(["b", "a"], table(3, 2)),
            TableFactor.from_values(["c", "b"], [[1.0, 0.0, 2.0], [0.5, 3.0, 0.25]]),
            TableFactor(["d", "b", "a"], table(4, 3, 2)),
            SpinCoupling("c", "a", 0.8),
            SpinField("a", -0.4),
            TableFactor([], 0.7),
        ],
    )


def enumerated_marginals(model: FactorGraph) -> dict[str, np.ndarray]:
    grid = torch.cartesian_prod(*(torch.arange(v.num_states) for v in model.variables))
    weight = model.log_score(grid).softmax(0)
    return {
        variable.name: torch.zeros(variable.num_states, dtype=weight.dtype)
        .index_add_(0, grid[:, column], weight)
        .numpy()
        for column, variable in enumerate(model.variables)
    }


def pgmpy_marginals(made, model: FactorGraph) -> dict[str, np.ndarray]:
    inference = importlib.import_module("pgmpy.inference").VariableElimination(made)
    marginals = {}
    for variable in model.variables:
        answer = inference.query([variable.name], show_progress=False)
        states = answer.state_names[variable.name]
        order = [states.index(label) for label in variable.states]
        marginals[variable.name] = answer.values[order] / answer.values.sum()
    return marginals


def pyagrum_marginals(made, model: FactorGraph) -> dict[str, np.ndarray]:
    gum = importlib.import_module("pyagrum")
    is_bayesian = isinstance(made, gum.BayesNet)
    inference = gum.LazyPropagation(made) if is_bayesian else gum.ShaferShenoyMRFInference(made)
    inference.makeInference()
    return {v.name: inference.posterior(v.name).toarray() for v in model.variables}


PEERS = {
    "pgmpy": (to_pgmpy, from_pgmpy, pgmpy_marginals),
    "pyagrum": (to_pyagrum, from_pyagrum, pyagrum_marginals),
}


@pytest.fixture(params=PEERS)
def peer(request):
    pytest.importorskip(request.param)
    return PEERS[request.param]


@pytest.mark.parametrize("make", [sprinkler, loop])
def test_marginals_of_the_other_library_agree(peer, make):
    to_peer, _, marginals_of = peer
    model = make()
    expected, found = enumerated_marginals(model), marginals_of(to_peer(model), model)
    assert list(found) == list(expected)
    for name, probabilities in expected.items():
        np.testing.assert_allclose(found[name], probabilities, atol=1e-12, err_msg=name)


def test_bayesian_network_comes_back_the_same(peer):
    to_peer, from_peer, _ = peer
    model = sprinkler()
    again = from_peer(to_peer(model))
    assert again.variables == model.variables
    by_child = {factor.scope: factor.log_table for factor in again.factors}
    assert set(by_child) == {factor.scope for factor in model.factors}
    for factor in model.factors:
        assert isinstance(factor, ConditionalTable)
        assert torch.equal(by_child[factor.scope], factor.log_table)


def test_markov_network_comes_back_with_the_same_scores(peer):
    to_peer, from_peer, _ = peer
    model = loop()
    again = from_peer(to_peer(model))
    assert again.variables == model.variables
    assert all(isinstance(factor, TableFactor) for factor in again.factors)
    grid = torch.cartesian_prod(*(torch.arange(v.num_states) for v in model.variables))
    torch.testing.assert_close(again.log_score(grid), model.log_score(grid))


def test_unnormalised_conditional_tables_become_a_markov_network(peer):
    to_peer, from_peer, _ = peer
    model = FactorGraph([Variable("a")], [ConditionalTable("a", [], [2.0, 1.0])])
    again = from_peer(to_peer(model))
    assert isinstance(again.factors[0], TableFactor)
    assert again.log_score(torch.tensor([[0], [1]])).exp().tolist() == pytest.approx([2, 1])


def test_values_that_fit_no_double_are_refused(peer):
    model = FactorGraph([Variable("a")], [TableFactor(["a"], [0.0, 800.0])])
    with pytest.raises(ConversionError, match="does not fit in a double"):
        peer[0](model)


def test_a_model_without_variables_is_refused(peer):
    with pytest.raises(ConversionError, match="without variables"):
        peer[0](FactorGraph([], [TableFactor([], 0.5)]))


@pytest.mark.parametrize("thing", [None, "alarm.bif", object()])
def test_other_objects_are_refused(peer, thing):
    with pytest.raises(ConversionError, match="expected"):
        peer[1](thing)


@pytest.mark.parametrize("name", PEERS)
def test_missing_library(name, monkeypatch):
    for loaded in list(sys.modules):
        if loaded.split(".")[0] == name:
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, name, None)  # what Python does for "cannot be imported"
    to_peer, from_peer, _ = PEERS[name]
    with pytest.raises(ConversionError, match=r"pip install deltaai\[convert\]"):
        to_peer(sprinkler())
    with pytest.raises(ConversionError, match=r"pip install deltaai\[convert\]"):
        from_peer(object())


def test_pgmpy_network_made_by_its_own_means():
    models = pytest.importorskip("pgmpy.models")
    discrete = pytest.importorskip("pgmpy.factors.discrete")
    network = models.DiscreteBayesianNetwork([("rain", 7)])
    network.add_cpds(
        discrete.TabularCPD(7, 2, [[0.9, 0.2], [0.1, 0.8]], ["rain"], [2]),
        discrete.TabularCPD("rain", 2, [[0.75], [0.25]]),
    )
    model = from_pgmpy(network)
    assert model.variables == (Variable("rain", ["0", "1"]), Variable("7", ["0", "1"]))
    assert torch.allclose(
        model.factors[0].log_table.exp(), torch.tensor([[0.9, 0.1], [0.2, 0.8]]).double()
    )


def test_incomplete_pgmpy_networks_are_refused():
    models = pytest.importorskip("pgmpy.models")
    discrete = pytest.importorskip("pgmpy.factors.discrete")
    with pytest.raises(ConversionError, match="incomplete"):
        from_pgmpy(models.DiscreteBayesianNetwork([("a", "b")]))
    network = models.DiscreteMarkovNetwork([("a", "b"), ("b", "c")])
    for scope, states in ((["a", "b"], ["u", "v"]), (["b", "c"], ["v", "u"])):
        named = {name: states for name in scope}
        network.add_factors(discrete.DiscreteFactor(scope, [2, 2], [1, 2, 3, 4], named))
    with pytest.raises(ConversionError, match="differ about the states of 'b'"):
        from_pgmpy(network)


def test_pyagrum_variables_of_every_kind():
    gum = pytest.importorskip("pyagrum")
    network = gum.BayesNet()
    network.add(gum.RangeVariable("range", "", 3, 5))
    network.add(gum.IntegerVariable("integer", "", [1, 7]))
    network.add(gum.DiscretizedVariable("cut", "", [0, 1, 2]))
    network.addArc("range", "cut")
    network.generateCPTs()
    model = from_pyagrum(network)
    assert [variable.states for variable in model.variables] == [
        ("3", "4", "5"),
        ("1", "7"),
        tuple(network.variable("cut").labels()),
    ]
    found = pyagrum_marginals(network, model)
    for name, probabilities in enumerated_marginals(model).items():
        np.testing.assert_allclose(found[name], probabilities, atol=1e-12)
