"""MMD against the naive n x n formula; no bias; power."""

import math

import pytest
import torch

from deltaai.errors import ConfigError, StateError
from deltaai.metrics import kernel_means, linear_mmd, linear_mmd_distance, median_bandwidth, rbf_mmd


def draw(num_samples, sizes, seed, tilt=0.0):
    """Independent variables; tilt makes their first state more likely."""
    generator = torch.Generator().manual_seed(seed)
    columns = []
    for size in sizes:
        weights = torch.ones(size)
        weights[0] += tilt
        columns.append(torch.multinomial(weights, num_samples, True, generator=generator))
    return torch.stack(columns, 1)


def encode(x, sizes):
    columns = []
    for variable, size in enumerate(sizes):
        value = x[:, variable]
        if size == 2:
            columns.append((2 * value - 1).double()[:, None])
        else:
            columns.append(torch.nn.functional.one_hot(value, size).double())
    return torch.cat(columns, 1)


def naive(x, y, sizes, kernel):
    a, b = encode(x, sizes), encode(y, sizes)
    n, m = len(a), len(b)
    off = lambda matrix: matrix.sum() - matrix.diagonal().sum()  # noqa: E731
    within = off(kernel(a, a)) / (n * (n - 1)) + off(kernel(b, b)) / (m * (m - 1))
    return float(within - 2 * kernel(a, b).mean())


def linear(a, b):
    return a @ b.T


def rbf(bandwidth):
    return lambda a, b: torch.exp(-torch.cdist(a, b).square() / (2 * bandwidth**2))


SIZES = [(2,) * 7, (2, 3, 2, 5), (3, 3), (2, 1, 4)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("block", [1, 7, 1024])
def test_both_kernels_equal_the_naive_formula(monkeypatch, sizes, block):
    monkeypatch.setattr(kernel_means, "_BLOCK", block)
    x, y = draw(31, sizes, 0, tilt=1.0), draw(23, sizes, 1)
    assert linear_mmd(x, y, sizes) == pytest.approx(naive(x, y, sizes, linear), abs=1e-12)
    assert rbf_mmd(x, y, 1.5, sizes) == pytest.approx(naive(x, y, sizes, rbf(1.5)), abs=1e-12)
    difference = encode(x, sizes).mean(0) - encode(y, sizes).mean(0)
    assert linear_mmd_distance(x, y, sizes) == pytest.approx(float(difference.norm()), abs=1e-12)


def test_median_bandwidth_is_the_median_distance():
    x, y = draw(30, (2, 3, 2), 0), draw(31, (2, 3, 2), 1)
    pooled = encode(torch.cat((x, y)), (2, 3, 2))
    expected = torch.pdist(pooled).median()
    assert median_bandwidth(x, y, (2, 3, 2)) == pytest.approx(float(expected), abs=1e-12)
    assert rbf_mmd(x, y, None, (2, 3, 2)) == rbf_mmd(x, y, float(expected), (2, 3, 2))


def test_samples_of_one_state_only():
    same = torch.zeros(5, 3, dtype=torch.long)
    assert linear_mmd(same, same) == 0.0
    assert rbf_mmd(same, same) == pytest.approx(0.0, abs=1e-12)
    nearly = same.clone()
    nearly[0] = 1
    assert 0 < median_bandwidth(same, nearly) < math.inf


@pytest.mark.parametrize("measure", [linear_mmd, rbf_mmd])
def test_no_bias_and_power(measure):
    sizes = (2, 2, 3, 2)
    options = {} if measure is linear_mmd else {"bandwidth": 2.0}

    def repeated(tilt):
        pairs = ((draw(40, sizes, 2 * k), draw(25, sizes, 2 * k + 1, tilt)) for k in range(300))
        values = [measure(x, y, num_states=sizes, **options) for x, y in pairs]
        return torch.tensor(values, dtype=torch.float64)

    equal, different = repeated(0.0), repeated(1.0)
    assert abs(float(equal.mean())) < 4 * float(equal.std()) / math.sqrt(300)
    assert float((equal < 0).double().mean()) > 0.2  # the price of no bias
    assert float(different.mean()) > 10 * float(different.std()) / math.sqrt(300)


def test_the_rbf_kernel_sees_what_the_linear_one_does_not():
    generator = torch.Generator().manual_seed(0)
    first = torch.randint(2, (400, 1), generator=generator)
    equal = torch.cat((first, first), 1)
    independent = torch.randint(2, (400, 2), generator=generator)
    assert abs(linear_mmd(equal, independent)) < 0.02
    assert rbf_mmd(equal, independent) > 0.02


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        ((3, 2), (3, 4), {}, "cannot be compared"),
        ((1, 2), (3, 2), {}, "at least 2"),
        ((3, 2), (3, 2), {"num_states": [2]}, "1 entries for 2 variables"),
    ],
)
def test_bad_samples(x, y, options, message):
    zeros = lambda shape: torch.zeros(shape, dtype=torch.long)  # noqa: E731
    with pytest.raises(StateError, match=message):
        linear_mmd(zeros(x), zeros(y), **options)


def test_values_beyond_the_states_and_bad_bandwidths():
    x = torch.tensor([[0, 2], [1, 1]])
    with pytest.raises(StateError, match=r"value 2 for variable 1.*num_states=model"):
        linear_mmd(x, x)
    with pytest.raises(ConfigError, match="bandwidth is 0"):
        rbf_mmd(x, x, 0, (2, 3))
