"""Heads of real variables against scipy, quadrature, and finite differences."""

import itertools
import math

import pytest
import torch
from scipy import integrate, special, stats

from deltaai.conditionals import Beta, Exploration, Mixture, Normal, TruncatedNormal
from deltaai.conditionals.heads.mills import mills_ratio
from deltaai.conditionals.heads.truncation import log_normaliser
from head_cases import BOX, HALF_LINE, REAL, inner_values, plain_parameters

INFINITY = math.inf


def log_density(head, parameters, x, dtype=torch.float64):
    """Of one value, as a number."""
    given = torch.tensor(parameters, dtype=dtype)[:, None]
    return float(head.log_density(given, torch.tensor([x], dtype=dtype)))


@pytest.mark.parametrize("head", REAL, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_densities_integrate_to_one(head, seed):
    parameters = plain_parameters(head, (1, 1), seed)[0, :, 0].tolist()
    low, high = head.support
    pieces = [low, *(x for x in (-30, -6, -2, 0, 2, 6, 30) if low < x < high), high]
    total = sum(
        integrate.quad(lambda x: math.exp(log_density(head, parameters, x)), *ends)[0]
        for ends in itertools.pairwise(pieces)
    )
    is_beta = isinstance(head, Beta) or isinstance(getattr(head, "component", None), Beta)
    assert total == pytest.approx(1, abs=1e-4 if is_beta else 1e-7)


# where the mean is, in deviations or widths, for every size of scale
MEANS = (-1e5, -41.0, -2.0, -1.1, -1.0, -0.3, 0.0, 0.5, 0.999, 1.0, 1.02, 45.0, 3e4)
SCALES = (1e-4, 1e-2, 0.025, 0.3, 1.0, 30.0, 1e4)


def exact_log_mass(alpha, beta):
    """Log of the mass of a standard normal between two points, flipped to the left tail."""
    if alpha > 0:
        alpha, beta = -beta, -alpha
    if beta <= 0 or beta - alpha < 1e-3:
        middle, half = (alpha + beta) / 2, (beta - alpha) / 2
        if half * max(1, abs(middle)) < 1e-2:  # a flat piece: two terms of a series
            curve = 1 + half**2 * (middle**2 - 1) / 6
            return math.log(2 * half * curve) - middle**2 / 2 - 0.5 * math.log(2 * math.pi)
        upper, lower = special.log_ndtr(beta), special.log_ndtr(alpha)
        return upper + math.log1p(-math.exp(lower - upper))
    return math.log1p(-special.ndtr(alpha) - special.ndtr(-beta))


@pytest.mark.parametrize("head", [BOX, HALF_LINE, TruncatedNormal(-INFINITY, 1)], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_truncated_log_densities_are_exact_far_into_the_tails(head, dtype):
    low, high = head.support
    compared = 0
    for scale in SCALES:
        for mean in MEANS:
            m, log_s = torch.tensor([mean, math.log(scale)], dtype=dtype).tolist()
            s = math.exp(log_s)
            alpha, beta = (low - m) / s, (high - m) / s
            if max(alpha, -beta) > 3e5:
                continue  # squares of deviations have no digits left in scipy
            log_mass = exact_log_mass(alpha, beta)
            near = min(max(m, low), high)
            for step in (0.01, 0.3, 2.0):
                away = step * s / max(1, alpha, -beta)
                x = near + away if near < (high if math.isfinite(high) else near + 1) else near
                x = near - away if x == near or x >= high else x
                x = float(torch.tensor(x, dtype=dtype))
                if not low < x < high:
                    continue
                expected = stats.norm.logpdf(x, m, s) - log_mass
                # what scipy loses by taking large squares from one another
                loss = 1e-15 * max(alpha, -beta, 0) ** 2
                rounded = 1e-9 if dtype == torch.float64 else 4e-6
                limit = loss + rounded * max(1, abs(expected))
                if dtype == torch.float32:  # the density moves so much between two numbers
                    limit += 1.2e-7 * max(abs(x), abs(m)) * abs(x - m) / s**2
                assert log_density(head, [m, log_s], x, dtype) == pytest.approx(expected, abs=limit)
                compared += 1
    assert compared > 100


@pytest.mark.parametrize("deviations", [3.0, 10.0, 40.0, 200.0])
def test_truncated_log_densities_are_those_of_scipy(deviations):
    for scale in (0.01, 0.1, 1.0):
        mean = 1 + deviations * scale
        truncated = stats.truncnorm((-1 - mean) / scale, (1 - mean) / scale, mean, scale)
        for x in (1 - 0.5 * scale / deviations, 1 - scale * 1e-4, 0.9):
            expected = truncated.logpdf(x)
            found = log_density(BOX, [mean, math.log(scale)], x)
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_other_log_densities_are_those_of_scipy():
    for mean, scale, x in ((0.3, 0.01, 0.32), (0.0, 1.0, 45.0), (-20.0, 3.0, 4.0)):
        expected = stats.norm.logpdf(x, mean, scale)
        assert log_density(Normal(), [mean, math.log(scale)], x) == pytest.approx(expected)
    for a, b, x in ((0.5, 0.5, -0.999), (1.0, 1.0, 0.2), (300.0, 2.0, 0.1), (1e5, 3e5, -0.5)):
        expected = stats.beta.logpdf(x, a, b, -1, 2)
        found = log_density(Beta(-1, 1), [math.log(a), math.log(b)], x)
        assert found == pytest.approx(expected, rel=1e-8)


def test_a_mixture_is_the_mixture_of_its_components():
    head = Mixture(BOX, 2)
    parameters = [0.7, 0.1, -0.4, 0.3, 0.2]
    weights = special.softmax([0.0, 0.7])
    mixed = sum(
        weight * math.exp(log_density(BOX, [mean, log_scale], 0.25))
        for weight, mean, log_scale in zip(
            weights, (-0.5 + 0.1, 0.5 + 0.3), (-0.4 - math.log(2), 0.2 - math.log(2)), strict=True
        )
    )
    assert log_density(head, parameters, 0.25) == pytest.approx(math.log(mixed))


def test_the_mills_ratio_has_all_its_digits():
    x = torch.cat([torch.linspace(0, 30, 3001), torch.logspace(-8, 15, 500)]).double()
    expected = math.sqrt(math.pi / 2) * special.erfcx(x.numpy() / math.sqrt(2))
    torch.testing.assert_close(mills_ratio(x), torch.from_numpy(expected), rtol=2e-14, atol=0)


@pytest.mark.parametrize("head", REAL, ids=repr)
def test_gradients_are_right_and_theirs(head):
    parameters = (0.7 * plain_parameters(head, (2, 3))).requires_grad_()
    values = inner_values(head, (2, 3)).requires_grad_()
    others = inner_values(head, (2, 3), seed=5)
    assert torch.autograd.gradcheck(head.log_density, (parameters, values))
    assert torch.autograd.gradgradcheck(head.log_density, (parameters, values), atol=1e-4)
    assert torch.autograd.gradcheck(head.log_ratio, (parameters, values, others))


@pytest.mark.parametrize("head", [BOX, HALF_LINE, TruncatedNormal(-INFINITY, 0)], ids=repr)
def test_gradients_are_right_where_the_mean_is_on_an_end(head):
    ends = [end for end in head.support if math.isfinite(end)]
    means = torch.tensor([*ends, -0.0 if -0.0 in ends else ends[0]], dtype=torch.float64)
    parameters = torch.stack((means, torch.zeros_like(means)))[None].requires_grad_()
    values = inner_values(head, (1, len(means))).requires_grad_()
    assert torch.autograd.gradcheck(head.log_density, (parameters, values))
    assert torch.autograd.gradgradcheck(head.log_density, (parameters, values))


def test_nothing_is_as_good_as_something():
    for head in REAL:
        parameters = torch.zeros(3, head.num_parameters, 0, requires_grad=True)
        values = head.sample(parameters, Exploration(1.0, 0.5), None, None)
        log_q = head.log_density(parameters, values)
        torch.autograd.grad(log_q.sum(), parameters)
        assert log_q.shape == (3, 0)


def exact_moments(outside, start, stop):
    """Integrals of u^k exp(-u²/2 - outside u) from start to stop, k = 0, ..., 4, by quadrature."""
    unit = 1 / max(1, outside)
    ends = [max(start, -9), *(step * unit for step in (0, 1, 4, 12, 40)), stop]
    ends = sorted({min(max(end, ends[0]), stop, 40 * unit) for end in ends})
    return [
        sum(
            integrate.quad(
                lambda u, power=power: u**power * math.exp(-u * (u / 2 + outside)),
                *pair,
                epsabs=0,
                epsrel=1e-12,
            )[0]
            for pair in itertools.pairwise(ends)
        )
        for power in range(5)
    ]


@pytest.mark.parametrize("scale", [1e-4, 0.02, 0.3, 0.9, 3.0, 50.0, 1e4])
@pytest.mark.parametrize("mean", [-1e5, -40.0, -1.7, -1.001, -0.8, 0.1, 0.9999, 1.2, 700.0])
@pytest.mark.parametrize("head", [BOX, HALF_LINE], ids=repr)
def test_slopes_and_curvatures_of_the_normaliser_are_those_of_quadrature(head, mean, scale):
    low, high = head.support
    log_scale = math.log(scale)
    given = [torch.tensor([v], dtype=torch.float64, requires_grad=True) for v in (mean, log_scale)]
    value = log_normaliser(*given, low, high)
    slopes = torch.autograd.grad(value, given, create_graph=True)
    twice = [torch.autograd.grad(slope, given, retain_graph=True) for slope in slopes]
    mode = min(max(mean, low), high)
    is_mirrored = mean > (high if math.isfinite(high) else mean)
    start, stop = (-1e9 if math.isinf(end) else (end - mode) / scale for end in (low, high))
    if math.isinf(high):
        stop = 1e9
    if is_mirrored:
        start, stop = -stop, -start
    outside = abs(mode - mean) / scale
    mass, *sums = exact_moments(outside, start, stop)
    one, two, three, four = (each / mass for each in sums)
    kernel = two + 2 * outside * one
    sign = -1 if is_mirrored else 1
    expected = {
        "value": math.log(mass) + log_scale,
        "by location": one * sign,
        "by log-scale": kernel,
        "twice": two - one**2 - (mode == mean),
        "mixed": (three + 2 * outside * two - one * kernel - 2 * one) * sign,
        "scales": four + 4 * outside * three + 4 * outside**2 * two - kernel**2 - 2 * kernel,
    }
    found = {
        "value": value,
        "by location": slopes[0] * scale,
        "by log-scale": slopes[1],
        "twice": twice[0][0] * scale**2,
        "mixed": twice[0][1] * scale,
        "scales": twice[1][1],
    }
    for name, wanted in expected.items():
        assert found[name].item() == pytest.approx(wanted, rel=2e-6, abs=2e-9), name
    assert twice[1][0].item() == pytest.approx(twice[0][1].item())
