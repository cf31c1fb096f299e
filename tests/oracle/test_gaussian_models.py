"""Gaussian models through every way to ask, against dense linear algebra over all variables."""

import math

import numpy as np
import pytest
import torch

import deltaai as dai
from deltaai.errors import DeltaAIError
from deltaai.exact import Enumeration
from deltaai.trust import RealMarginal


def chain_model(count=6, seed=0):
    """A chain of linear Gaussians with a vector and an extra quadratic factor."""
    rng = np.random.default_rng(seed)
    variables = [dai.Variable(f"x{n}", support="line") for n in range(count)]
    variables.append(dai.Variable("hand", support="line", dimension=2))
    factors = [dai.LinearGaussian("x0", bias=1.0, scale=0.5)]
    for n in range(1, count):
        weight, bias, scale = rng.normal(), rng.normal(), rng.uniform(0.3, 2.0)
        factors.append(dai.LinearGaussian(f"x{n}", [f"x{n - 1}"], [weight], bias, scale))
    factors.append(dai.GaussianFactor("hand", [1.0, -1.0], [[1.0, 0.3], [0.3, 2.0]]))
    factors.append(dai.QuadraticFactor(["x2", "hand"], 0.1 * np.ones((3, 3)), [1, 0, 0.5], 0.3))
    return dai.FactorGraph(variables, factors)


def mixed_model():
    """Gaussian once a switch and a variable in a box are observed."""
    variables = [
        dai.Variable("s", ["a", "b"]),
        dai.Variable("x", support="line"),
        dai.Variable("share", support=(0, 1)),
        dai.Variable("only", ["one"]),
    ]
    return dai.FactorGraph(
        variables,
        [
            dai.TableFactor(["s", "only"], [[0.3], [-0.2]]),
            dai.LinearGaussian("x", given=["s"], bias=[0.0, 2.0], scale=[1.0, 0.5]),
            dai.LinearGaussian("share", ["x"], [0.2], 0.5, 0.3),
        ],
    )


def dense(model):
    """Precision, shift and constant from scores alone: a quadratic is known by its differences."""
    count = model.num_variables
    eye = torch.eye(count, dtype=torch.float64)
    zero = torch.zeros(1, count, dtype=torch.float64)
    constant = float(model.log_score(zero))
    plus, minus = model.log_score(eye), model.log_score(-eye)
    shift = ((plus - minus) / 2).numpy()
    pairs = torch.stack([eye[i] + eye[j] for i in range(count) for j in range(count)])
    joint = model.log_score(pairs).reshape(count, count)
    single = plus - constant
    precision = -(joint - constant - single[:, None] - single[None]).numpy()
    np.fill_diagonal(precision, (2 * constant - plus - minus).numpy())
    return precision, shift, constant


def truth(model, observed):
    """Means and covariance of all variables, zero for the observed, and log Z."""
    precision, shift, constant = dense(model)
    free = [v for v in range(len(shift)) if v not in observed]
    held = list(observed)
    value = np.array([observed[v] for v in held])
    rest = precision[np.ix_(free, free)]
    moved = shift[free] - precision[np.ix_(free, held)] @ value
    constant += value @ shift[held] - 0.5 * value @ precision[np.ix_(held, held)] @ value
    covariance = np.zeros_like(precision)
    covariance[np.ix_(free, free)] = np.linalg.inv(rest)
    means = np.zeros(len(shift))
    means[free], means[held] = np.linalg.solve(rest, moved), value
    half = 0.5 * moved @ means[free] + 0.5 * len(free) * math.log(2 * math.pi)
    return means, covariance, constant + half - 0.5 * np.linalg.slogdet(rest)[1]


CASES = [{}, {"x3": 0.7}, {"hand": [0.5, 0.0]}, {"x0": -1.0, "x5": 2.0, "hand[1]": 0.3}]


@pytest.fixture(params=CASES, ids=["none", "one", "vector", "three"])
def case(request):
    model, evidence = chain_model(), request.param
    observed = model.resolve_evidence(evidence)
    return model, evidence, observed, truth(model, observed)


def test_exact_answers(case):
    model, evidence, observed, (means, covariance, log_partition) = case
    answer = dai.exact(model, evidence)
    assert isinstance(answer, dai.GaussianInference)
    assert answer.log_partition() == pytest.approx(log_partition, abs=1e-9)
    found = answer.marginals()
    assert list(found) == [variable.name for variable in model.variables]
    np.testing.assert_allclose([m.mean for m in found.values()], means, atol=1e-9)
    np.testing.assert_allclose([m.variance for m in found.values()], covariance.diagonal())
    for number in observed:
        assert found[model.variables[number].name].is_certain
    names = [name for name, _ in model.nodes]
    np.testing.assert_allclose(answer.covariance(names), covariance, atol=1e-9)
    best = answer.map()
    np.testing.assert_allclose(best.state.numpy(), means, atol=1e-9)
    assert best.log_score == pytest.approx(float(model.log_score(best.state[None])), abs=1e-9)
    assert best.labels["x1"] == pytest.approx(means[1])


def test_samples_and_densities(case):
    model, evidence, observed, (means, covariance, log_partition) = case
    answer = dai.exact(model, evidence)
    x = answer.sample(20_000, 3)
    assert x.dtype == torch.float64
    assert torch.equal(x, answer.sample(20_000, 3))
    deviations = np.sqrt(covariance.diagonal())
    error = np.abs(x.mean(0).numpy() - means)
    assert (error <= 5 * deviations / math.sqrt(20_000) + 1e-12).all()
    np.testing.assert_allclose(np.cov(x.numpy().T), covariance, atol=0.05 * covariance.max())
    wanted = model.log_score(x) - log_partition
    np.testing.assert_allclose(answer.log_prob(x).numpy(), wanted.numpy(), atol=1e-8)
    if observed:
        other = x[:1].clone()
        other[0, next(iter(observed))] += 1.0
        assert float(answer.log_prob(other)) == -math.inf


def test_query_and_plan(case):
    model, evidence, _, (means, covariance, log_partition) = case
    planned = dai.plan(model, evidence)
    assert planned.is_exact
    assert 0 < planned.predicted_bytes < 10**6
    assert "Gaussian" in planned.reason
    found = dai.query(model, evidence)
    assert found.status == "exact"
    assert found.log_partition == pytest.approx(log_partition, abs=1e-9)
    for number, variable in enumerate(model.variables):
        marginal = found.marginals[variable.name]
        assert marginal.mean == pytest.approx(means[number], abs=1e-9)
        assert marginal.variance == pytest.approx(covariance[number, number])
    hand = dai.query(model, evidence, of=["hand"])
    assert list(hand.marginals) == ["hand[0]", "hand[1]"]
    assert hand.marginals["hand"][0].mean == found.marginals["hand[0]"].mean


@pytest.mark.parametrize("switch", ["a", "b"])
def test_evidence_may_make_a_model_gaussian(switch):
    """By hand: x ~ N(m, s²) and share | x ~ N(0.2 x + 0.5, 0.3²), at share = 0.9."""
    mean, spread, log_table = {"a": (0.0, 1.0, 0.3), "b": (2.0, 0.5, -0.2)}[switch]
    evidence = {"s": switch, "share": 0.9}
    answer = dai.query(mixed_model(), evidence)
    precision = 1 / spread**2 + 0.2**2 / 0.3**2
    expected = (mean / spread**2 + 0.2 * 0.4 / 0.3**2) / precision
    assert answer.marginals["x"].mean == pytest.approx(expected)
    assert answer.marginals["x"].variance == pytest.approx(1 / precision)
    variance = 0.3**2 + (0.2 * spread) ** 2
    density = -0.5 * (0.9 - 0.5 - 0.2 * mean) ** 2 / variance - 0.5 * math.log(
        2 * math.pi * variance
    )
    assert answer.log_partition == pytest.approx(log_table + density)
    assert answer.marginals["s"].tolist() == ([1.0, 0.0] if switch == "a" else [0.0, 1.0])
    assert answer.marginals["only"].tolist() == [1.0]
    assert answer.marginals["share"].mean == 0.9


def test_evidence_may_leave_states_alone():
    model = mixed_model()
    evidence = {"x": 1.2, "share": 0.4}
    reduced = Enumeration(model.condition(evidence))
    answer = dai.query(model, evidence)
    assert answer.status == "exact"
    assert answer.log_partition == pytest.approx(reduced.log_partition())
    np.testing.assert_allclose(answer.marginals["s"], reduced.marginals()["s"])
    assert answer.marginals["x"].mean == 1.2
    exact = dai.exact(model, evidence)
    assert exact.map().labels["share"] == 0.4
    x = exact.sample(50, 0)
    assert x[:, 1].unique().tolist() == [1.2]
    wanted = model.log_score(x) - exact.log_partition()
    np.testing.assert_allclose(exact.log_prob(x).numpy(), wanted.numpy())


def test_all_observed():
    model = chain_model()
    evidence = {variable.name: 0.5 for variable in model.variables}
    state = torch.full((1, model.num_variables), 0.5, dtype=torch.float64)
    answer = dai.query(model, evidence)
    assert answer.log_partition == pytest.approx(float(model.log_score(state)))
    assert answer.marginals["x0"].is_certain


def test_single_precision_models():
    model = chain_model()
    found = dai.query(model.to(dtype=torch.float32), {"x3": 0.7})
    expected = dai.query(model, {"x3": 0.7})
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-4)


def test_frames():
    pandas = pytest.importorskip("pandas")
    frame = dai.exact(mixed_model(), {"s": "b", "share": 0.9}).sample(3, 0, as_frame=True)
    assert list(frame.columns) == ["s", "x", "share", "only"]
    assert frame["s"].tolist() == ["b"] * 3
    assert pandas.api.types.is_float_dtype(frame["x"])


LINE = [dai.Variable("x", support="line"), dai.Variable("y", support="line")]


def held(name="x"):
    return dai.GaussianFactor(name, 0.0, 1.0)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: dai.exact(dai.FactorGraph(LINE, [held()])).log_partition(), "'y' is in no factor"),
        (
            lambda: dai.query(
                dai.FactorGraph(LINE, [dai.QuadraticFactor(["x", "y"], [[1, -1], [-1, 1]])])
            ),
            "not positive definite",
        ),
        (lambda: dai.exact(mixed_model()), "'s' has states"),
        (lambda: dai.exact(mixed_model(), {"s": "a"}), "'share' is a number from 0 to 1"),
        (
            lambda: dai.exact(
                dai.FactorGraph(
                    LINE, [held("x"), dai.FunctionFactor(["x", "y"], lambda v: v.sum(1))]
                )
            ),
            r"over \(x, y\) stands a function",
        ),
        (
            lambda: dai.exact(
                dai.FactorGraph(LINE, [dai.MixtureFactor([held(), held()]), held("y")])
            ),
            "stands a mixture",
        ),
        (lambda: dai.query(chain_model(), {"x0": math.nan}), "any number, not nan"),
        (lambda: dai.query(chain_model(), {"x0": "tall"}), "any number, not 'tall'"),
        (lambda: dai.query(mixed_model(), {"s": "a", "share": 1.5}), "from 0 to 1, not 1.5"),
        (lambda: dai.exact(chain_model()).covariance(["x0", "x0"]), "each once"),
        (lambda: dai.exact(chain_model()).covariance(["z"]), "no variable 'z'"),
        (lambda: dai.exact(chain_model()).covariance("x0"), "give a list"),
        (lambda: dai.exact(chain_model()).sample(-1), "num_samples is -1"),
        (lambda: dai.exact(chain_model()).log_prob(torch.zeros(2, 3)), "shape"),
        (lambda: dai.exact(chain_model(), memory_limit=100), "memory limit"),
        (lambda: dai.query(chain_model(), method="bp"), "is real"),
        (lambda: dai.query(chain_model(), of=[("x0", "x1")]), "covariance"),
        (lambda: dai.ExactInference(chain_model()), "is real"),
    ],
)
def test_what_cannot_be_answered_is_said_in_a_line(make, says):
    with pytest.raises(DeltaAIError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.fixture
def known_cost(monkeypatch):
    """Training takes a known time, whatever the model."""
    from deltaai.answering import real_ways
    from deltaai.fitting.defaults import TrainingCost

    monkeypatch.setattr(real_ways, "training_cost", lambda model: TrainingCost(10**6, 40.0))


def test_other_models_are_planned_as_samplers(known_cost):
    planned = dai.plan(mixed_model(), {"s": "a"}, memory_limit=10**9)
    assert (planned.method, planned.predicted_seconds) == ("amortised", 40.0)
    assert "not Gaussian, for 'share' is a number from 0 to 1" in planned.reason
    assert "training a sampler" in planned.reason
    assert dai.plan(mixed_model(), {"s": "a"}, memory_limit=10**3).method == "cannot"
    with pytest.raises(dai.NotAffordableError, match="not Gaussian"):
        dai.query(mixed_model(), {"s": "a"}, method="exact", memory_limit=10**9)


def test_an_exact_answer_that_does_not_fit(known_cost):
    with pytest.raises(dai.MemoryLimitError, match="memory limit"):
        dai.query(chain_model(), method="exact", memory_limit=100)
    assert dai.plan(chain_model(), memory_limit=100).method == "cannot"
    assert dai.plan(chain_model(), memory_limit=10**9, time_limit=1e-6).method == "cannot"


def test_a_marginal_shows_itself():
    found = dai.query(chain_model(), {"x3": 0.7})
    assert isinstance(found.marginals["x0"], RealMarginal)
    assert "x3       0.7" in str(found)
    assert dai.exact(chain_model())._repr_html_().startswith("<table>")
