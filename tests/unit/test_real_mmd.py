"""MMD between real rows against double sums and closed forms; bias; bad rows."""

import math

import pytest
import torch

from deltaai.errors import ConfigError, StateError
from deltaai.metrics import (
    kernel_means,
    linear_mmd,
    linear_mmd_distance,
    rbf_mmd,
    real_linear_mmd,
    real_linear_mmd_distance,
    real_rbf_mmd,
    real_rbf_mmd_distance,
    reference_bandwidth,
)
from deltaai.randomness import generator_of


def normal(number, columns, seed, mean=0.0, deviation=1.0):
    generator = generator_of(seed)
    drawn = torch.randn(number, columns, generator=generator, dtype=torch.float64)
    return mean + deviation * drawn


def double_sums(x, y, kernel, is_biased):
    """Every pair by itself."""

    def within(rows):
        pairs = [
            kernel(rows[i], rows[j])
            for i in range(len(rows))
            for j in range(len(rows))
            if is_biased or i != j
        ]
        return sum(pairs) / len(pairs)

    between = sum(kernel(a, b) for a in x for b in y) / (len(x) * len(y))
    return float(within(x) - 2 * between + within(y))


def rbf(bandwidth):
    return lambda a, b: math.exp(-float((a - b).square().sum()) / (2 * bandwidth**2))


def linear(a, b):
    return float(a @ b)


@pytest.mark.parametrize("block", [1, 4, 1024])
def test_all_equal_double_sums(monkeypatch, block):
    monkeypatch.setattr(kernel_means, "_BLOCK", block)
    x, y = normal(9, 3, 0, mean=0.4), normal(7, 3, 1)
    assert real_linear_mmd(x, y) == pytest.approx(double_sums(x, y, linear, False), abs=1e-12)
    biased = double_sums(x, y, linear, True)
    assert real_linear_mmd_distance(x, y) ** 2 == pytest.approx(biased, abs=1e-12)
    for is_biased in (False, True):
        found = real_rbf_mmd(x, y, 1.3, is_biased=is_biased)
        assert found == pytest.approx(double_sums(x, y, rbf(1.3), is_biased), abs=1e-12)
    biased = double_sums(x, y, rbf(1.3), True)
    assert real_rbf_mmd_distance(x, y, 1.3) == pytest.approx(math.sqrt(biased), abs=1e-12)


def test_encoded_states_and_their_rows_are_equally_far_apart():
    generator = generator_of(0)
    x, y = (torch.randint(2, (size, 4), generator=generator) for size in (20, 30))
    real_x, real_y = 2.0 * x - 1, 2.0 * y - 1
    assert real_linear_mmd(real_x, real_y) == linear_mmd(x, y)
    assert real_linear_mmd_distance(real_x, real_y) == linear_mmd_distance(x, y)
    assert real_rbf_mmd(real_x, real_y, 2.0) == pytest.approx(rbf_mmd(x, y, 2.0), abs=1e-14)


def test_normals_have_the_discrepancies_of_closed_forms():
    columns, shift, deviation, bandwidth, number = 2, 0.5, 1.4, 1.5, 200
    pairs = [
        (normal(number, columns, 2 * k), normal(number, columns, 2 * k + 1, shift, deviation))
        for k in range(200)
    ]

    def estimates(measure):
        values = torch.tensor([measure(x, y) for x, y in pairs], dtype=torch.float64)
        return float(values.mean()), 4 * float(values.std()) / math.sqrt(len(pairs))

    found, error = estimates(real_linear_mmd)
    assert error < 0.1
    assert found == pytest.approx(columns * shift**2, abs=error)

    def expected(variance, distance):
        """E exp(-d²/2h²) for d normal in every column."""
        spread = bandwidth**2 + variance
        one = math.sqrt(bandwidth**2 / spread) * math.exp(-(distance**2) / (2 * spread))
        return one**columns

    squared = expected(2, 0) + expected(2 * deviation**2, 0)
    squared -= 2 * expected(1 + deviation**2, shift)
    found, error = estimates(lambda x, y: real_rbf_mmd(x, y, bandwidth))
    assert error < 0.01
    assert found == pytest.approx(squared, abs=error)


def test_bias_is_what_is_said():
    pairs = [(normal(30, 4, 2 * k), normal(20, 4, 2 * k + 1)) for k in range(400)]
    unbiased = torch.tensor([real_linear_mmd(x, y) for x, y in pairs])
    assert abs(float(unbiased.mean())) < 4 * float(unbiased.std()) / math.sqrt(400)
    squares = torch.tensor([real_linear_mmd_distance(x, y) ** 2 for x, y in pairs])
    assert float(squares.mean()) == pytest.approx(4 * (1 / 30 + 1 / 20), rel=0.1)
    unbiased = torch.tensor([real_rbf_mmd(x, y, 2.0) for x, y in pairs[:100]])
    assert abs(float(unbiased.mean())) < 4 * float(unbiased.std()) / math.sqrt(100)
    biased = [real_rbf_mmd(x, y, 2.0, is_biased=True) for x, y in pairs[:100]]
    assert min(biased) > 0


def test_rows_far_from_the_origin_are_not_lost_in_rounding():
    x = normal(50, 3, 0)
    near, far = (
        real_rbf_mmd(x, x.flip(0) + 0.1, 1.0),
        real_rbf_mmd(x + 1e5, x.flip(0) + 1e5 + 0.1, 1.0),
    )
    assert far == pytest.approx(near, abs=1e-4)
    assert real_rbf_mmd_distance(x, x, 1.0) == pytest.approx(0.0, abs=1e-7)
    assert real_rbf_mmd_distance(x.float(), x.float(), 1.0) == pytest.approx(0.0, abs=1e-7)


def test_the_bandwidth_is_the_median_distance_of_reference_rows():
    rows = normal(301, 3, 0)
    assert reference_bandwidth(rows) == pytest.approx(float(torch.pdist(rows).median()))
    many = normal(2500, 3, 1)
    assert reference_bandwidth(many) == pytest.approx(float(torch.pdist(many[::3]).median()))
    same = torch.zeros(5, 2)
    assert reference_bandwidth(same) == 1.0
    assert reference_bandwidth(same[:1]) == 1.0
    nearly = torch.zeros(9, 2)
    nearly[0] = 1
    assert 0 < reference_bandwidth(nearly) < 1


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(3, 4), "cannot be compared"),
        (torch.zeros(3), torch.zeros(3), "cannot be compared"),
        (torch.zeros(1, 2), torch.zeros(3, 2), "at least 2"),
        (torch.zeros(3, 2), torch.full((3, 2), math.nan), "row 0 has nan in column 0"),
        (torch.tensor([[0.0], [math.inf]]), torch.zeros(3, 1), "row 1 has inf"),
    ],
)
def test_bad_rows(x, y, message, as_a_user_runs_it):
    for measure in (real_linear_mmd, lambda x, y: real_rbf_mmd(x, y, 1.0)):
        with pytest.raises(StateError, match=message):
            measure(x, y)


@pytest.mark.parametrize("bandwidth", [0, -1.0, math.nan, math.inf])
def test_bad_bandwidths(bandwidth):
    with pytest.raises(ConfigError, match=f"the bandwidth is {bandwidth}"):
        real_rbf_mmd(torch.zeros(3, 2), torch.ones(3, 2), bandwidth)
