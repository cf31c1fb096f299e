"""Draws of real heads against distribution functions of scipy, and wrong draws against the same."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from deltaai.conditionals import Beta, Exploration, Mixture, Normal, TruncatedNormal
from head_cases import BOX, HALF_LINE
from statistical.chi_square import FALSE_FAILURE

NUMBER = 20_000
PLAIN = Exploration()
INFINITY = math.inf


def draws(head, parameters, exploration=PLAIN, scale=None, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    given = torch.tensor(parameters, dtype=dtype)[None, :, None].expand(1, -1, NUMBER)
    return head.sample(given, exploration, scale, generator).double().numpy()[0]


def p_value(values, distribution):
    return stats.kstest(values, distribution).pvalue


def truncated(low, high, mean, log_scale):
    scale = math.exp(log_scale)
    return stats.truncnorm((low - mean) / scale, (high - mean) / scale, mean, scale).cdf


TRUNCATED = [  # mean and log-scale
    (0.3, -1.0),
    (-0.9, 0.0),
    (0.0, 9.0),  # flat
    (2.0, -1.0),
    (-1.7, -3.0),  # 14 deviations outside
    (4.0, -2.5),  # 37
    (1.5, -4.5),  # 45
    (-30.0, -2.0),  # 214
    (700.0, -2.0),  # 5000
    (-40.0, 2.0),
    (-1e4, 4.5),  # an exponential
]


@pytest.mark.parametrize("support", [(-1.0, 1.0), (0.0, INFINITY), (-INFINITY, 0.5)], ids=repr)
@pytest.mark.parametrize("parameters", TRUNCATED, ids=repr)
def test_truncated_draws(support, parameters):
    values = draws(TruncatedNormal(*support), parameters)
    assert p_value(values, truncated(*support, *parameters)) > FALSE_FAILURE


def test_single_precision_draws():
    for seed, parameters in enumerate(TRUNCATED[:5]):
        given = torch.tensor(parameters, dtype=torch.float32).tolist()
        values = draws(BOX, given, seed=seed, dtype=torch.float32)
        assert p_value(values, truncated(-1, 1, *given)) > FALSE_FAILURE


def test_normal_and_beta_draws():
    assert p_value(draws(Normal(), (0.3, -2.0)), stats.norm(0.3, math.exp(-2)).cdf) > FALSE_FAILURE
    for a, b in ((0.5, 0.7), (1.0, 1.0), (200.0, 3.0), (1e5, 1e6)):
        values = draws(Beta(-1, 1), (math.log(a), math.log(b)))
        assert p_value(values, stats.beta(a, b, -1, 2).cdf) > FALSE_FAILURE


def test_mixture_draws():
    parameters = (0.7, 0.1, -2.0, 0.2, -0.4)
    head = Mixture(BOX, 2)
    first, second = (truncated(-1, 1, mean, s) for mean, s in ((-0.4, -2.0), (0.7, -0.4)))
    offset = math.log(2)  # components begin half as wide as the box
    values = draws(head, (0.7, 0.1, -2.0 + offset, 0.2, -0.4 + offset))
    share = 1 / (1 + math.exp(-parameters[0]))

    def mixed(x):
        return (1 - share) * first(x) + share * second(x)

    assert p_value(values, mixed) > FALSE_FAILURE
    assert p_value(values, lambda x: 0.5 * first(x) + 0.5 * second(x)) < FALSE_FAILURE


def test_a_temperature_multiplies_the_variance():
    hot = (0.3, -1.0 + 0.5 * math.log(3))
    values = draws(BOX, (0.3, -1.0), Exploration(3.0))
    assert p_value(values, truncated(-1, 1, *hot)) > FALSE_FAILURE
    assert p_value(values, truncated(-1, 1, 0.3, -1.0)) < FALSE_FAILURE
    half = torch.ones(1, NUMBER, dtype=torch.float64)
    half[:, ::2] = 1 / 3
    values = draws(BOX, (0.3, -1.0), scale=half)
    assert p_value(values[::2], truncated(-1, 1, *hot)) > FALSE_FAILURE
    assert p_value(values[1::2], truncated(-1, 1, 0.3, -1.0)) > FALSE_FAILURE
    values = draws(Beta(-1, 1), (math.log(7), math.log(3)), Exploration(2.0))
    assert p_value(values, stats.beta(4, 2, -1, 2).cdf) > FALSE_FAILURE


def test_a_share_is_drawn_from_all_over_the_support():
    alone = truncated(-1, 1, 0.3, -3.0)
    values = draws(BOX, (0.3, -3.0), Exploration(1.0, 0.2))
    wide = stats.uniform(-1, 2).cdf
    assert p_value(values, lambda x: 0.8 * alone(x) + 0.2 * wide(x)) > FALSE_FAILURE
    assert p_value(values, alone) < FALSE_FAILURE
    values = draws(HALF_LINE, (0.3, -3.0), Exploration(1.0, 1.0))
    assert p_value(values, stats.halfnorm(0, 3).cdf) > FALSE_FAILURE


def test_wrong_samplers_are_found():
    for parameters in TRUNCATED[:2]:
        mean, log_scale = parameters
        right = truncated(-1, 1, mean, log_scale)
        wider = draws(BOX, (mean, log_scale + 0.2))
        clipped = np.clip(draws(Normal(), parameters), -1, 1)
        for wrong in (wider, clipped):
            assert p_value(wrong, right) < FALSE_FAILURE
    right = truncated(-1, 1, *TRUNCATED[6])
    assert p_value(draws(BOX, (1.5, -4.55)), right) < FALSE_FAILURE
