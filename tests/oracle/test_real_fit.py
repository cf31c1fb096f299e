"""Samplers of models with real variables, beside closed forms, quadrature and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch

import deltaai as dai
from deltaai.fitting import Sampler
from deltaai.training import TrainingConfig

Box = tuple[float, float]


def weighted(sampler: Sampler, count: int = 20_000) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Log Z, samples, and their normalised weights."""
    x, log_q = sampler.sample_with_log_prob(count, 0)
    log_weights = sampler.model.log_score(x) - log_q
    log_partition = float(log_weights.logsumexp(0)) - math.log(count)
    return log_partition, x, (log_weights - log_weights.logsumexp(0)).exp()


def quadrature(model: dai.FactorGraph, boxes: list[Box], points: int = 801):
    """Log Z, and the mean and deviation of each variable, by sums over a grid."""
    axes = [np.linspace(*box, points) for box in boxes]
    grid = torch.tensor(np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(boxes)))
    density = model.log_score(grid).detach().exp().reshape([points] * len(boxes)).numpy()
    cell = math.prod(axis[1] - axis[0] for axis in axes)
    ends = [np.where((axis == axis[0]) | (axis == axis[-1]), 0.5, 1.0) for axis in axes]
    for number, weights in enumerate(ends):
        shape = [1] * len(boxes)
        shape[number] = points
        density = density * weights.reshape(shape)
    moments = []
    for number, axis in enumerate(axes):
        others = tuple(other for other in range(len(axes)) if other != number)
        marginal = density.sum(others) / density.sum()
        mean = float((marginal * axis).sum())
        moments.append((mean, float((marginal * (axis - mean) ** 2).sum()) ** 0.5))
    return math.log(density.sum() * cell), moments


def in_a_box() -> tuple[dai.FactorGraph, list[Box]]:
    variables = [dai.Variable("x", support=(0, 1)), dai.Variable("y", support=(0, None))]
    factor = dai.QuadraticFactor(["x", "y"], [[4, 1.5], [1.5, 2.0]], [2.0, 1.0])
    return dai.FactorGraph(variables, [factor]), [(0, 1), (0, 8)]


def banana() -> tuple[dai.FactorGraph, list[Box]]:
    variables = [dai.Variable(name, support="line") for name in ("x", "y")]
    bent = dai.FunctionFactor(["x", "y"], lambda v: -2 * (v[:, 1] - v[:, 0] ** 2) ** 2)
    return dai.FactorGraph(variables, [dai.GaussianFactor("x", 0.0, 1.0), bent]), [
        (-5, 5),
        (-3, 27),
    ]


def two_modes() -> tuple[dai.FactorGraph, list[Box]]:
    variables = [dai.Variable(name, support="line") for name in ("x", "y")]
    parts = [
        dai.GaussianFactor(["x", "y"], [-3.0, 0.0], [[1, 0.5], [0.5, 1.0]]),
        dai.GaussianFactor(["x", "y"], [3.0, 1.0], [[0.5, -0.3], [-0.3, 1.0]]),
    ]
    mixture = dai.MixtureFactor(parts, [math.log(0.3), math.log(0.7)])
    return dai.FactorGraph(variables, [mixture]), [(-8, 8), (-6, 6)]


def check(sampler: Sampler, boxes: list[Box], tolerance: float = 0.02) -> None:
    log_partition, x, weights = weighted(sampler)
    wanted, moments = quadrature(sampler.model, boxes)
    assert abs(log_partition - wanted) < tolerance
    for number, (mean, deviation) in enumerate(moments):
        found = float((weights * x[:, number]).sum())
        spread = float((weights * (x[:, number] - found) ** 2).sum()) ** 0.5
        assert abs(found - mean) < 0.05 * deviation
        assert abs(spread / deviation - 1) < 0.05


@pytest.mark.parametrize("model", [in_a_box, two_modes])
def test_small_densities_agree_with_quadrature(model) -> None:
    target, boxes = model()
    check(dai.fit(target, steps=400, polish_steps=0, progress=False), boxes)


@pytest.mark.slow
@pytest.mark.parametrize("model", [in_a_box, banana, two_modes])
def test_small_densities_agree_with_quadrature_to_a_hundredth(model) -> None:
    target, boxes = model()
    check(dai.fit(target, progress=False), boxes, 0.01)


@pytest.mark.slow
def test_none_of_three_modes_is_lost() -> None:
    variables = [dai.Variable("x", support=(-10, 10)), dai.Variable("y", support="line")]
    places = ([-6.0, 0.0], [0.0, 4.0], [5.0, -4.0])
    shares = (0.2, 0.5, 0.3)
    parts = [dai.GaussianFactor(["x", "y"], place, [[0.4, 0.1], [0.1, 0.5]]) for place in places]
    model = dai.FactorGraph(variables, [dai.MixtureFactor(parts, np.log(shares))])
    log_partition, x, weights = weighted(dai.fit(model, progress=False))
    assert abs(log_partition) < 0.01
    distances = torch.stack([(x - torch.tensor(p).double()).square().sum(1) for p in places])
    nearest = distances.argmin(0)
    for number, share in enumerate(shares):
        assert abs(float(weights[nearest == number].sum()) - share) < 0.02


def test_a_switch_over_real_children_agrees_with_enumeration() -> None:
    """p(s) Π_n N(x_n; m_ns, d_s²) times a coupling of the children, state by state Gaussian."""
    variables = [dai.Variable("s", ["a", "b", "c"])]
    variables += [dai.Variable(f"x{n}", support="line") for n in range(2)]
    bias = torch.tensor([[-2.0, 0.0, 3.0], [1.0, -1.0, 2.0]]).double()
    scale = torch.tensor([0.5, 1.0, 2.0]).double()
    factors = [dai.TableFactor(["s"], [0.0, 1.0, 0.5])]
    factors += [dai.LinearGaussian(f"x{n}", given=["s"], bias=bias[n], scale=scale) for n in (0, 1)]
    factors.append(dai.QuadraticFactor(["x0", "x1"], [[0.5, 0.3], [0.3, 0.5]]))
    model = dai.FactorGraph(variables, factors)
    parts = []
    for state in range(3):
        precision = torch.eye(2).double() / scale[state] ** 2
        joint = precision + torch.tensor([[0.5, 0.3], [0.3, 0.5]]).double()
        shift = precision @ bias[:, state]
        part = [0.0, 1.0, 0.5][state] - 2 * math.log(scale[state]) - 0.5 * torch.logdet(joint)
        part = part + 0.5 * shift @ torch.linalg.solve(joint, shift)
        parts.append(float(part - 0.5 * bias[:, state] @ precision @ bias[:, state]))
    wanted = float(np.logaddexp.reduce(parts))
    sampler = dai.fit(model, steps=400, polish_steps=0, progress=False)
    log_partition, x, weights = weighted(sampler)
    assert abs(log_partition - wanted) < 0.01
    for state in range(3):
        found = float(weights[x[:, 0] == state].sum())
        assert abs(found - math.exp(parts[state] - wanted)) < 0.01


def hidden_chain(length: int) -> tuple[dai.FactorGraph, dict[str, float], float, np.ndarray]:
    """A hidden Markov chain with observations; log-likelihood and posteriors, forward-backward."""
    move = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]])
    start, means, scales = np.array([0.5, 0.3, 0.2]), np.array([-1.0, 0.5, 2.0]), [0.5, 0.7, 1.0]
    variables, factors = [], []
    rng, state, evidence, likelihoods = np.random.default_rng(0), 0, {}, []
    for t in range(length):
        variables += [dai.Variable(f"z{t}", ["a", "b", "c"]), dai.Variable(f"y{t}", support="line")]
        given = [f"z{t - 1}"] if t else []
        factors.append(dai.ConditionalTable(f"z{t}", given, move if t else start))
        factors.append(dai.LinearGaussian(f"y{t}", given=[f"z{t}"], bias=means, scale=scales))
        state = rng.choice(3, p=move[state])
        evidence[f"y{t}"] = float(rng.normal(means[state], scales[state]))
        likelihoods.append(scipy.stats.norm(means, scales).pdf(evidence[f"y{t}"]))
    forward, total = [start * likelihoods[0]], 0.0
    for likelihood in likelihoods[1:]:
        total += math.log(forward[-1].sum())
        forward[-1] = forward[-1] / forward[-1].sum()
        forward.append(forward[-1] @ move * likelihood)
    total += math.log(forward[-1].sum())
    backward = np.ones(3)
    posteriors = [forward[-1] / forward[-1].sum()]
    for t in range(length - 1, 0, -1):
        backward = move @ (likelihoods[t] * backward)
        backward /= backward.sum()
        both = forward[t - 1] * backward
        posteriors.append(both / both.sum())
    return dai.FactorGraph(variables, factors), evidence, total, np.array(posteriors[::-1])


def test_a_hidden_chain_given_observations_agrees_with_forward_and_backward() -> None:
    model, evidence, wanted, posteriors = hidden_chain(8)
    reduced = model.condition(evidence)  # only states are left
    assert reduced.is_discrete
    exact = dai.exact(reduced)
    assert abs(exact.log_partition() - wanted) < 1e-9
    found = np.stack([exact.marginals()[f"z{t}"] for t in range(8)])
    assert np.abs(found - posteriors).max() < 1e-9


@pytest.mark.slow
def test_one_sampler_of_a_hidden_chain_for_any_evidence() -> None:
    model, evidence, wanted, _ = hidden_chain(50)
    sampler = dai.fit(model, evidence=list(evidence), steps=600, progress=False)
    rows = [model.resolve_evidence(evidence)]
    (drawn,) = sampler._drawer.draw(rows, 4000, torch.Generator().manual_seed(0))
    assert abs(drawn.estimate.log_partition - wanted) < 0.01 + 3 * drawn.estimate.stderr


def test_evidence_on_real_variables_integrates_over_the_rest() -> None:
    variables = [dai.Variable(f"x{n}", support="line") for n in range(3)]
    covariance = torch.tensor([[2.0, 0.8, 0.3], [0.8, 1.0, 0.4], [0.3, 0.4, 1.5]]).double()
    model = dai.FactorGraph(
        variables, [dai.GaussianFactor(["x0", "x1", "x2"], [1, 0, -1], covariance)]
    )
    sampler = dai.fit(model, evidence="any", steps=400, progress=False)
    rows = [{1: 0.7}, {0: -1.0, 2: 0.5}, {}]
    for row, drawn in zip(
        rows, sampler._drawer.draw(rows, 20_000, torch.Generator().manual_seed(0)), strict=True
    ):
        at = list(row)
        wanted = 0.0
        if at:
            seen = scipy.stats.multivariate_normal(np.array([1, 0, -1])[at], covariance[at][:, at])
            wanted = seen.logpdf([row[v] for v in at])
        assert abs(drawn.estimate.log_partition - wanted) < 0.02
        assert all(bool((drawn.states[:, v] == row[v]).all()) for v in at)
        assert drawn.estimate.ess_fraction > 0.5


@pytest.mark.parametrize(
    ("objective", "orders", "family"),
    [
        *itertools.product(("delta", "score"), ("one", "many"), ("local", "mae")),
        ("sampled", "many", "local"),
        ("stochastic", "one", "local"),
        ("log-variance", "one", "local"),
        ("tb", "one", "local"),
        ("subtb", "one", "local"),
        ("fl-subtb", "one", "local"),
    ],
)
def test_every_objective_brings_q_nearer(objective: str, orders: str, family: str) -> None:
    """From nothing known: the divergence of q from p falls to less than half of what it was."""
    variables = [dai.Variable(f"x{n}", support="line") for n in range(4)]
    factors = [dai.QuadraticFactor([f"x{n}"], 1.0, float(n)) for n in range(4)]
    factors += [dai.QuadraticFactor([f"x{n}", f"x{n + 1}"], [[1, 0.9], [0.9, 1]]) for n in range(3)]
    model = dai.FactorGraph(variables, factors)
    precision = torch.diag(torch.tensor([2.0, 3, 3, 2])).double()
    for n in range(3):
        precision[n, n + 1] = precision[n + 1, n] = 0.9
    shift = torch.arange(4).double()
    wanted = 2 * math.log(2 * math.pi) - 0.5 * torch.logdet(precision)
    wanted = float(wanted + 0.5 * shift @ torch.linalg.solve(precision, shift))
    gaps = []
    for steps in (0, 120):
        sampler = dai.fit(
            model,
            objective=objective,
            orders=orders,
            family=family,
            hidden=16,
            is_informed=False,
            steps=steps,
            polish_steps=0,
            target_ess=None,
            progress=False,
        )
        x, log_q = sampler.sample_with_log_prob(2000, 0)
        gaps.append(wanted - float((model.log_score(x) - log_q).mean()))
    assert gaps[1] < 0.5 * gaps[0]
    assert gaps[1] > -0.05


def test_steps_of_a_given_size_train_as_well() -> None:
    target, boxes = in_a_box()
    check(dai.fit(target, step_size=0.3, steps=300, is_informed=False, progress=False), boxes)
    with pytest.raises(dai.ConfigError, match="step_size"):
        TrainingConfig(step_size=-1.0)


def test_scores_are_for_real_variables_alone() -> None:
    model = dai.example("sprinkler")
    with pytest.raises(dai.ConfigError, match="derivatives"):
        dai.fit(model, objective="score", smoothing=1e-3, progress=False)
