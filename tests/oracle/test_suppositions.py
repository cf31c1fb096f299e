"""Interventions, uncertain observations, and questions that are several, against enumeration."""

import itertools
import math

import numpy as np
import pytest

import deltaai as dai
from deltaai.models import zoo

NAMES = [f"x{number}" for number in range(6)]


def network(seed):
    """A Bayesian network of six variables with two or three states."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, size=6).tolist()
    tables = []
    for child, size in enumerate(sizes):
        parents = sorted(rng.choice(child, size=min(child, 2), replace=False).tolist())
        above = [sizes[parent] for parent in parents]
        rows = rng.dirichlet(np.ones(size), size=above) if above else rng.dirichlet(np.ones(size))
        tables.append(dai.ConditionalTable(f"x{child}", [f"x{p}" for p in parents], rows))
    return dai.FactorGraph([dai.Variable(*pair) for pair in zip(NAMES, sizes, strict=True)], tables)


class Joint:
    """All states of a model, with their scores: what may be asked of it is a sum."""

    def __init__(self, model, factors=None):
        sizes = [variable.num_states for variable in model.variables]
        self.states = np.array(list(itertools.product(*map(range, sizes))))
        self.values = np.ones(len(self.states))
        for factor in model.factors if factors is None else factors:
            places = [model.index(name) for name in factor.scope]
            table = factor.log_table.exp().numpy()
            self.values = self.values * table[tuple(self.states[:, places].T)]

    def at(self, observed):
        """Only what agrees with evidence by number."""
        for place, state in observed.items():
            self.values = self.values * (self.states[:, place] == state)
        return self

    def times(self, place, numbers):
        self.values = self.values * np.array(numbers)[self.states[:, place]]
        return self

    @property
    def total(self):
        return float(self.values.sum())

    def of(self, *places):
        """Joint marginal of some variables."""
        sizes = [int(self.states[:, place].max()) + 1 for place in places]
        found = np.zeros(sizes)
        np.add.at(found, tuple(self.states[:, places].T), self.values)
        return found / found.sum()


def assert_agrees(answer, joint):
    assert answer.status == "exact"
    assert answer.log_partition == pytest.approx(math.log(joint.total), abs=1e-9)
    for place, name in enumerate(NAMES):
        np.testing.assert_allclose(answer.marginals[name], joint.of(place), atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_set_is_not_learned_from(seed):
    model, do = network(seed), {"x3": "#1", "x1": "#0"}
    kept = [factor for factor in model.factors if factor.child not in do]
    joint = Joint(model, kept).at({3: 1, 1: 0, 5: 1})
    assert_agrees(dai.query(model, {"x5": "#1"}, do=do), joint)
    left = dai.intervened(model, do)
    assert [variable.name for variable in left.variables] == ["x0", "x2", "x4", "x5"]
    assert float(dai.exact(left, {"x5": "#1"}).log_partition()) == pytest.approx(
        math.log(joint.total)
    )
    rows = dai.query_table(model, [{"x5": "#1"}], ["x0"], do=do)
    np.testing.assert_allclose(rows.probabilities[0], joint.of(0), atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_uncertain_observations_are_one_more_factor(seed):
    model = network(seed)
    numbers = [0.7, 0.2, 0.4][: model.variables[2].num_states]
    joint = Joint(model).times(2, numbers).times(4, [0, 1, 0]).at({5: 0})
    listed = {"x2": numbers, "x4": {"#1": 1.0}}
    assert_agrees(dai.query(model, {"x5": "#0"}, likelihood=listed), joint)
    assert_agrees(dai.query(dai.with_likelihoods(model, listed), {"x5": "#0"}), joint)
    (row,) = dai.query_table(model, [{"x5": "#0"}], ["x0"], likelihood=listed).probabilities
    np.testing.assert_allclose(row, joint.of(0), atol=1e-9)
    assert dai.with_likelihoods(model, {}) is model


@pytest.mark.parametrize("seed", range(3))
def test_conditional_tables(seed):
    model = network(seed)
    found = dai.conditional(model, "x4", ["x1", "x0"], {"x5": "#1"})
    joint = Joint(model).at({5: 1}).of(1, 0, 4)
    np.testing.assert_allclose(found.table, joint / joint.sum(2, keepdims=True), atol=1e-9)
    assert found.status == "exact"
    assert len(found.labels) == found.table[..., 0].size
    # And under what is set: as if tables were gone.
    kept = [factor for factor in model.factors if factor.child != "x2"]
    joint = Joint(model, kept).at({2: 0}).of(0, 4)
    found = dai.conditional(model, "x4", ["x0"], do={"x2": "#0"})
    np.testing.assert_allclose(found.table, joint / joint.sum(1, keepdims=True), atol=1e-9)


def information(table):
    """Mutual information of a joint marginal of two variables."""
    table = table[table.sum(1) > 0][:, table.sum(0) > 0]
    apart = table.sum(1, keepdims=True) * table.sum(0, keepdims=True)
    return float((table * np.log(np.where(table > 0, table / apart, 1.0))).sum())


@pytest.mark.parametrize("seed", range(3))
def test_information_is_that_of_the_joint_marginals(seed):
    model = network(seed)
    found = dai.informative(model, "x2", {"x5": "#0"})
    joint = Joint(model).at({5: 0})
    for place in (0, 1, 3, 4):
        assert found.information[f"x{place}"] == pytest.approx(
            information(joint.of(2, place)), abs=1e-9
        )
    assert list(found.information.values()) == sorted(found.information.values(), reverse=True)
    share = joint.of(2)
    assert found.entropy == pytest.approx(-(share * np.log(share)).sum())
    some = dai.informative(model, "x2", {"x5": "#0"}, among=["x1", "x3"])
    assert set(some.information) == {"x1", "x3"}


@pytest.mark.parametrize("seed", range(3))
def test_conflict_is_that_of_the_definition(seed):
    model = network(seed)
    findings = {1: 0, 3: 1, 5: 1}
    found = dai.conflict(model, {f"x{place}": f"#{state}" for place, state in findings.items()})
    alone = {place: Joint(model).at({place: state}).total for place, state in findings.items()}
    together = Joint(model).at(findings).total
    wanted = sum(map(math.log, alone.values())) - math.log(together)
    assert found.value == pytest.approx(wanted, abs=1e-9)
    for place in findings:
        others = {other: state for other, state in findings.items() if other != place}
        given = together / Joint(model).at(others).total
        assert found.findings[f"x{place}"] == pytest.approx(
            (math.log(alone[place]), math.log(given)), abs=1e-9
        )


def test_the_same_as_pyagrum():
    gum = pytest.importorskip("pyagrum")
    model = dai.example("asia")
    network = dai.to_pyagrum(model)
    engine = gum.LazyPropagation(network)
    engine.setEvidence({"dysp": [0.3, 0.8], "smoke": 0})
    engine.makeInference()
    found = dai.query(model, {"smoke": "yes"}, likelihood={"dysp": [0.3, 0.8]})
    for name in ("lung", "tub", "bronc", "either"):
        np.testing.assert_allclose(
            found.marginals[name], engine.posterior(name).toarray(), atol=1e-6
        )
    engine = gum.LazyPropagation(network)
    engine.addJointTarget({"lung", "xray"})
    engine.makeInference()
    shared = engine.jointMutualInformation({"lung", "xray"}) * math.log(2)  # it counts in bits
    assert dai.informative(model, "lung").information["xray"] == pytest.approx(shared, abs=1e-6)
    engine.addEvidence("smoke", 0)
    engine.makeInference()
    shared = information(engine.jointPosterior({"lung", "xray"}).toarray())
    told = dai.informative(model, "lung", {"smoke": "yes"}).information["xray"]
    assert told == pytest.approx(shared, abs=1e-6)


def test_questions_to_a_sampler_have_its_status():
    model = network(0)
    sampler = dai.fit(model, evidence="any", steps=400, seed=0, progress=False)
    exact = dai.informative(model, "x2", {"x5": "#0"})
    found = dai.informative(sampler, "x2", {"x5": "#0"}, num_samples=4000)
    assert found.status in {"estimated", "unchecked"}
    for name, value in exact.information.items():
        assert found.information[name] == pytest.approx(value, abs=0.02)
    table = dai.conditional(sampler, "x4", ["x0"], num_samples=4000)
    wanted = dai.conditional(model, "x4", ["x0"])
    np.testing.assert_allclose(table.table, wanted.table, atol=0.05)
    assert table.status != "exact"
    value = dai.conflict(sampler, {"x0": "#0", "x4": "#1"}, num_samples=4000)
    assert value.value == pytest.approx(
        dai.conflict(model, {"x0": "#0", "x4": "#1"}).value, abs=0.05
    )
    with pytest.raises(dai.ConfigError, match="give the model"):
        dai.query(sampler, do={"x0": "#0"})


def test_impossible_states_are_no_rows():
    same = dai.TableFactor.from_values(["a", "b"], [[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    model = dai.FactorGraph([dai.Variable("a", 3), dai.Variable("b", 2)], [same])
    found = dai.conditional(model, "b", ["a"])
    assert np.isnan(found.table[1]).all()
    np.testing.assert_allclose(found.table[[0, 2]], np.eye(2))
    assert found.status == "exact"
    told = dai.informative(model, "a")
    assert told.information["b"] == pytest.approx(told.entropy)
    with pytest.raises(dai.ImpossibleEvidenceError):
        dai.informative(model, "b", {"a": "#1"})
    with pytest.raises(dai.ImpossibleEvidenceError, match="exclude each other"):
        dai.conflict(model, {"a": "#0", "b": "#1"})


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda m: dai.query(m, do={"a": 0}), "no direction"),
        (lambda m: dai.query(zoo.sprinkler(), {"rain": "no"}, do={"rain": "yes"}), "both observed"),
        (lambda m: dai.query(zoo.sprinkler(), do={"snow": "yes"}), "no variable 'snow'"),
        (lambda m: dai.query(zoo.sprinkler(), do={"rain": "perhaps"}), "perhaps"),
        (lambda m: dai.query(m, likelihood={"a": [1.0]}), "give 2 numbers"),
        (lambda m: dai.query(m, likelihood={"a": [0.0, 0.0]}), "zero at every state"),
        (lambda m: dai.query(m, likelihood={"a": [-1.0, 1.0]}), "from 0 on"),
        (lambda m: dai.query(m, likelihood={"a": [math.nan, 1.0]}), "from 0 on"),
        (lambda m: dai.query(m, likelihood={"a": {"#5": 1.0}}), "#5"),
        (lambda m: dai.query(m, likelihood={"a": {"#0": 1.0, dai.StateIndex(0): 2.0}}), "twice"),
        (lambda m: dai.conflict(m, {"a": "#1", "b": "#0"}, time_limit=1e-9), "time limit"),
        (lambda m: dai.query(m, likelihood={"z": [1, 1]}), "no variable 'z'"),
        (lambda m: dai.conditional(m, "a", []), "name one at least"),
        (lambda m: dai.conditional(m, "a", ["a"]), "named twice"),
        (lambda m: dai.conditional(m, "a", ["b"], {"b": "#1"}), "observed"),
        (lambda m: dai.informative(m, "a", {"a": "#1"}), "nothing left to know"),
        (lambda m: dai.informative(m, "a", among=["a"]), "named twice"),
        (lambda m: dai.conflict(m, {"a": "#1"}), "two findings"),
    ],
)
def test_what_cannot_be_asked_is_said(ask, said):
    model = dai.FactorGraph(
        [dai.Variable("a", 2), dai.Variable("b", 2)],
        [dai.TableFactor(["a", "b"], [[0.0, 1.0], [1.0, 0.0]])],
    )
    with pytest.raises(dai.DeltaAIError, match=said):
        ask(model)
    only = dai.FactorGraph([dai.Variable("a", 2), dai.Variable("x", support="line")], [])
    with pytest.raises(dai.EvidenceError, match="is real"):
        dai.informative(only, "x")
    assert dai.informative(only.condition({"x": 0.0}), "a").information == {}
