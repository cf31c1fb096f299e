"""Every head by the same examples, then what is peculiar to real ones."""

import math
import pickle
from dataclasses import FrozenInstanceError

import pytest
import torch

from deltaai.conditionals import (
    REAL_HEADS,
    Beta,
    Categorical,
    Exploration,
    Mixture,
    Normal,
    TruncatedNormal,
    head_for,
    register_head,
)
from deltaai.errors import ConfigError, ModelError
from deltaai.models import Interval
from head_cases import BOX, DISCRETE, HALF_LINE, REAL, extreme_parameters, inner_values
from head_cases import plain_parameters as plain

HEADS = [*DISCRETE, *REAL]
PLAIN = Exploration()


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def drawn(head, parameters, exploration=PLAIN, scale=None, seed=0):
    return head.sample(parameters, exploration, scale, generator(seed))


def is_inside(head, values):
    low, high = head.support
    return bool(((values > low) & (values < high)).all())


@pytest.mark.parametrize("head", HEADS, ids=repr)
class TestEveryHead:
    def test_shapes_and_types(self, head):
        for dtype in (torch.float32, torch.float64):
            parameters = plain(head, (3, 7), dtype=dtype)
            if not head.num_parameters and type(head) is not Categorical:
                values = torch.zeros(3, 7, dtype=torch.long)
            else:
                values = drawn(head, parameters)
            assert values.dtype == (dtype if head.is_real else torch.long)
            others = head.propose(values, generator(1), parameters)
            assert others.dtype == values.dtype
            log_q = head.log_density(parameters, values)
            ratio = head.log_ratio(parameters, values, others)
            features = head.encode(values, dtype)
            assert log_q.shape == ratio.shape == values.shape == others.shape == (3, 7)
            assert features.shape == (3, head.num_features, 7)
            assert log_q.dtype == ratio.dtype == features.dtype == dtype

    def test_log_ratios_are_differences_of_log_densities(self, head):
        if not head.num_parameters:
            return
        parameters = plain(head)
        values, others = drawn(head, parameters), drawn(head, parameters, seed=1)
        expected = head.log_density(parameters, values) - head.log_density(parameters, others)
        found = head.log_ratio(parameters, values, others)
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-10)

    def test_several_leading_axes_are_as_good_as_one(self, head):
        if not head.num_parameters:
            return
        parameters = plain(head, (6, 5))
        values = drawn(head, parameters)
        expected = head.log_density(parameters, values)
        found = head.log_density(parameters.unflatten(0, (2, 3)), values.unflatten(0, (2, 3)))
        torch.testing.assert_close(found, expected.unflatten(0, (2, 3)))
        sampled = drawn(head, parameters.unflatten(0, (2, 3)))
        assert torch.equal(sampled, values.unflatten(0, (2, 3)))

    def test_equal_heads_are_equal_and_print_alike(self, head):
        same = pickle.loads(pickle.dumps(head))
        assert same == head
        assert hash(same) == hash(head)
        assert repr(same) == repr(head)
        assert sum(other == head for other in HEADS) == 1
        with pytest.raises(FrozenInstanceError):
            head.support = 3

    def test_the_same_seed_gives_the_same_draws(self, head):
        if not head.num_parameters:
            return
        parameters = plain(head)
        for exploration in (PLAIN, Exploration(2.0, 0.3)):
            first, second = (drawn(head, parameters, exploration) for _ in range(2))
            assert torch.equal(first, second)


@pytest.mark.parametrize("head", REAL, ids=repr)
class TestRealHeads:
    def test_they_are_real(self, head):
        assert head.is_real
        assert not Categorical(2).is_real
        values = inner_values(head, (2, 3))
        assert torch.equal(head.encode(values, torch.float64)[:, 0], values)

    def test_draws_are_inside_and_carry_no_gradient(self, head):
        for exploration in (PLAIN, Exploration(3.0), Exploration(1.0, 0.5), Exploration(0.3, 1.0)):
            values = drawn(head, plain(head).float().requires_grad_(), exploration)
            assert is_inside(head, values)
            assert not values.requires_grad

    def test_a_temperature_is_as_good_as_a_scale(self, head):
        parameters = plain(head)
        scale = torch.full((4, 50), 1 / 3.0, dtype=torch.float64)
        first = drawn(head, parameters, Exploration(3.0))
        torch.testing.assert_close(drawn(head, parameters, PLAIN, scale), first)

    def test_the_whole_uniform_share_forgets_the_parameters(self, head):
        parameters = plain(head)
        wide = drawn(head, parameters, Exploration(1.0, 1.0))
        low, high = head.support
        if math.isfinite(low) and math.isfinite(high):
            assert float(wide.mean()) == pytest.approx((low + high) / 2, abs=0.3 * (high - low))
        else:
            assert float(wide.std()) > 1.5
        other = drawn(head, parameters - 3, Exploration(1.0, 0.0))
        assert not torch.equal(wide, other)

    def test_a_proposal_ignores_the_values_and_needs_parameters(self, head):
        parameters, values = plain(head), inner_values(head, (4, 50))
        first = head.propose(values, generator(), parameters)
        assert torch.equal(head.propose(values / 2, generator(), parameters), first)
        assert is_inside(head, first)
        single = head.propose(values.float(), generator(), parameters)
        assert single.dtype == torch.float32
        assert is_inside(head, single)
        with pytest.raises(ModelError, match="given no parameters: pass those of the conditional"):
            head.propose(values, generator())

    def test_zeros_are_a_place_to_begin(self, head):
        zeros = torch.zeros(1, head.num_parameters, 4000, dtype=torch.float64)
        values = drawn(head, zeros)
        assert 0.2 < float(values.std()) < 2

    def test_what_is_known_has_its_location_and_scale(self, head):
        low, high = head.support
        middle = 1.0 if math.isinf(low) or math.isinf(high) else (low + high) / 2
        location = torch.full((2, 20_000), middle, dtype=torch.float64)
        log_scale = torch.full_like(location, math.log(0.1))
        known = head.known_parameters(location, log_scale)
        assert known.shape == (2, head.num_parameters, 20_000)
        values = drawn(head, known)
        assert float(values.mean()) == pytest.approx(middle, abs=0.01)
        assert float(values.std()) == pytest.approx(0.1, rel=0.55)

    def test_extreme_knowledge_is_finite(self, head):
        ends = torch.tensor([-1e30, -3.0, 0.0, 1e30])
        location, log_scale = (
            part.flatten()[None] for part in torch.meshgrid(ends, ends, indexing="ij")
        )
        assert bool(head.known_parameters(location, log_scale).isfinite().all())

    def test_nothing_that_a_body_gives_makes_anything_infinite(self, head):
        for dtype in (torch.float32, torch.float64):
            check_extremes(head, 2000, 0, dtype)


def check_extremes(head, number, seed, dtype):
    """Density, ratio, draws, gradients and their gradients of extreme parameters are finite."""
    parameters = extreme_parameters(head, (4, number // 4), seed, dtype).requires_grad_()
    for exploration in (PLAIN, Exploration(4.0, 0.2)):
        values = drawn(head, parameters, exploration, seed=seed)
        assert is_inside(head, values)
    values = inner_values(head, values.shape, seed, dtype)
    low, high = head.support
    values[:, ::7] = drawn(head, parameters, seed=seed)[:, ::7]
    for end in (low, high):  # exactly on an end
        if math.isfinite(end):
            values[0, :5] = end
    values.requires_grad_()
    others = drawn(head, parameters, seed=seed + 1)
    log_q = head.log_density(parameters, values)
    ratio = head.log_ratio(parameters, values, others)
    found = [log_q, ratio]
    slopes = torch.autograd.grad((log_q + ratio).sum(), (parameters, values), create_graph=True)
    found += slopes
    scaled = sum((slope / (1 + slope.detach().abs())).sum() for slope in slopes)
    found += torch.autograd.grad(scaled, (parameters, values))
    for part in found:
        assert bool(part.isfinite().all())


@pytest.mark.slow
@pytest.mark.parametrize("head", REAL, ids=repr)
def test_a_million_evaluations_are_finite(head):
    for seed in range(8):
        check_extremes(head, 125_000, seed, torch.float32 if seed % 4 else torch.float64)


def test_a_normal_one_is_flattened_by_its_variance():
    parameters = torch.zeros(1, 2, 40_000, dtype=torch.float64)
    assert float(drawn(Normal(), parameters, Exploration(4.0)).std()) == pytest.approx(2, rel=0.02)
    wide = drawn(Normal(), parameters, Exploration(1.0, 1.0))
    assert float(wide.std()) == pytest.approx(3, rel=0.02)
    half = drawn(HALF_LINE, parameters, Exploration(1.0, 1.0))
    assert float(half.square().mean()) == pytest.approx(9, rel=0.03)


def test_components_of_a_mixture_start_apart_and_cover_the_support():
    zeros = torch.zeros(1, Mixture(BOX, 3).num_parameters, 9, dtype=torch.float64)
    values = torch.linspace(-0.99, 0.99, 9, dtype=torch.float64)[None]
    density = Mixture(BOX, 3).log_density(zeros, values).exp()
    assert float(density.min()) > 0.3
    assert float(density.max()) < 0.7
    parameters = zeros.clone().requires_grad_()
    Mixture(BOX, 3).log_density(parameters, values + 0.01).sum().backward()
    slopes = parameters.grad[0, 2:].view(3, 2, 9)
    assert float((slopes[0] - slopes[1]).abs().max()) > 0.1
    assert torch.equal(
        Mixture(Normal(), 4).known_parameters(zeros[:, 0], zeros[:, 1]),
        torch.zeros(1, 11, 9, dtype=torch.float64),
    )


def test_a_sampler_with_one_value_in_an_end_stays_inside():
    far = torch.tensor([[[1e6], [-12.0]], [[-1e6], [-12.0]]])
    for head in (BOX, HALF_LINE, TruncatedNormal(-math.inf, 0), Mixture(BOX, 1)):
        assert is_inside(head, drawn(head, far))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TruncatedNormal(1, -1), "from 1 to -1: its low end must be below"),
        (lambda: TruncatedNormal(1, 1), "its low end must be below"),
        (lambda: TruncatedNormal(math.nan, 1), "its low end must be below"),
        (lambda: TruncatedNormal("a", 1), "an end 'a': give two numbers"),
        (lambda: TruncatedNormal(True, 2), "an end True: give two numbers"),
        (lambda: TruncatedNormal(-math.inf, math.inf), r"use Normal\(\)"),
        (lambda: Beta(0, math.inf), "it needs two finite ends"),
        (lambda: Mixture(Normal(), 0), "Mixture has 0 components: give a number from 1 up"),
        (lambda: Mixture(Normal(), 2.5), r"Mixture has 2\.5 components"),
        (lambda: Mixture(Categorical(2), 2), r"a component of Mixture is Categorical\(num_states"),
        (lambda: Mixture(Mixture(Normal(), 2), 2), "a component of Mixture is Mixture"),
    ],
)
def test_what_is_no_head_is_refused(build, message, as_a_user_runs_it):
    with pytest.raises(ModelError, match=message):
        build()


def test_equal_supports_print_alike():
    assert repr(TruncatedNormal(-0.0, 1)) == repr(TruncatedNormal(0, 1.0))


def test_a_head_is_found_by_its_name_and_support():
    assert head_for(Interval()) == Normal()
    assert head_for(Interval(-1, 1)) == TruncatedNormal(-1, 1)
    assert head_for(Interval(0), "mixture", 2) == Mixture(HALF_LINE, 2)
    assert head_for(Interval(-1, 1), "beta") == Beta(-1, 1)
    with pytest.raises(ModelError, match="it needs two finite ends"):
        head_for(Interval(0), "beta")
    with pytest.raises(ConfigError, match="no head 'bta'; did you mean 'beta'"):
        head_for(Interval(), "bta")


def test_a_head_can_be_registered(as_a_user_runs_it):
    before = dict(REAL_HEADS)
    try:
        register_head("broad", lambda low, high, components: Normal())
        assert head_for(Interval(), "broad") == Normal()
        with pytest.raises(ConfigError, match="there is a head 'broad' already"):
            register_head("broad", lambda low, high, components: Normal())
        with pytest.raises(ConfigError, match="the builder of a head is 3"):
            register_head("other", 3)
    finally:
        REAL_HEADS.clear()
        REAL_HEADS.update(before)
