"""A trained sampler: honest estimates, residual map, files that come back or are refused."""

import pytest
import torch

import deltaai as dai
from deltaai.errors import ConfigError, FormatError, StateError
from deltaai.exact import Enumeration
from deltaai.models import zoo
from deltaai.sampling import kept_schedules


@pytest.fixture(scope="module")
def model():
    return zoo.random_factor_graph(6, 8, max_arity=3, max_states=3, min_states=2, seed=7)


@pytest.fixture(scope="module")
def sampler(model):
    return dai.fit(model, steps=100, seed=0)


@pytest.fixture(scope="module")
def flexible(model):
    return dai.fit(model, orders="many", steps=60, seed=0)


def test_log_q_is_normalised(model, sampler, flexible):
    states = Enumeration(model).states
    assert float(sampler.log_prob(states).exp().sum()) == pytest.approx(1.0, abs=1e-4)
    for seed in range(3):
        log_q = flexible.log_prob(states, dag=flexible.random_order(seed))
        assert float(log_q.exp().sum()) == pytest.approx(1.0, abs=1e-4)


def test_samples_come_with_their_log_q(sampler, flexible):
    for one in (sampler, flexible):
        x, log_q = one.sample_with_log_prob(500, torch.Generator().manual_seed(0))
        torch.testing.assert_close(one.log_prob(x), log_q, atol=1e-4, rtol=1e-4)


def test_log_partition_is_within_its_error(model, sampler):
    estimate = sampler.log_partition(5000, torch.Generator().manual_seed(1))
    truth = Enumeration(model).log_partition()
    assert abs(float(estimate) - truth) < 4 * estimate.stderr + 1e-4
    low, high = estimate.interval
    assert low < float(estimate) < high
    assert estimate.status == "estimated"
    weights = sampler.posterior({}, 5000, torch.Generator().manual_seed(1)).estimate
    assert estimate.elbo == weights.elbo
    assert weights.elbo <= truth + 4 * weights.elbo_stderr


def test_residuals_show_where_q_is_wrong(model):
    sampler = dai.fit(model, steps=200, seed=0)
    before = sampler.residuals(500, torch.Generator().manual_seed(0))
    assert set(before) == {variable.name for variable in model.variables}
    assert max(before.values()) < 0.05
    block = sampler.proposal.layout.block_of[2]
    with torch.no_grad():  # spoil the conditional of one variable
        networks = sampler.proposal.conditionals.networks[int(block[0])]
        networks.last_bias[int(block[1])] += 2.0
    after = sampler.residuals(500, torch.Generator().manual_seed(0))
    assert max(after, key=after.get) == model.variables[2].name


def test_saving_and_loading_is_identity(model, sampler, flexible, tmp_path):
    states = Enumeration(model).states
    for number, one in enumerate((sampler, flexible)):
        path = tmp_path / f"{number}.dai"
        one.save(path)
        again = dai.load(path)
        assert torch.equal(again.log_prob(states), one.log_prob(states))
        assert again.model.content_hash() == model.content_hash()
        assert again.config == one.config
        assert again.history == one.history
        a, b = (s.sample(50, torch.Generator().manual_seed(5)) for s in (one, again))
        assert torch.equal(a, b)


def test_neural_models_are_saved_as_tables(tmp_path):
    model = zoo.factor_lattice(side=3, sigma=0.5, seed=0)
    sampler = dai.fit(model, steps=10)
    sampler.save(tmp_path / "s.dai")
    states = Enumeration(model).states
    again = dai.load(tmp_path / "s.dai")
    torch.testing.assert_close(again.log_prob(states), sampler.log_prob(states), atol=1e-5, rtol=0)


def test_broken_and_foreign_files_are_refused(sampler, tmp_path):
    path = tmp_path / "s.dai"
    sampler.save(path)
    content = path.read_bytes()
    for number, broken in enumerate(
        (b"", b"hello", content[:100], content[:-1], content[:500] + b"x" + content[501:])
    ):
        bad = tmp_path / f"{number}.dai"
        bad.write_bytes(broken)
        with pytest.raises(FormatError, match=str(bad)):
            dai.load(bad)
    with pytest.raises(FormatError):
        dai.load(tmp_path / "missing.dai")
    checkpoint = tmp_path / "run.checkpoint"
    dai.fit(sampler.model, steps=2, checkpoint=checkpoint)
    with pytest.raises(FormatError):
        dai.load(checkpoint)


def test_a_sampler_of_one_order_refuses_others(sampler, flexible):
    states = sampler.sample(3)
    with pytest.raises(StateError, match="orders='many'"):
        sampler.log_prob(states, dag=flexible.random_order(11))
    with pytest.raises(ConfigError, match="-1"):
        sampler.sample(-1)
    assert sampler.sample(0).shape == (0, 6)


def test_orders_for_evidence_are_kept_but_not_all_of_them(flexible, monkeypatch):
    monkeypatch.setattr(kept_schedules, "_MOST", 4)
    names = [variable.name for variable in flexible.model.variables]
    pairs = [(first, second) for first in names for second in names if first < second]
    for first, second in pairs * 2:
        flexible.posterior({first: 0, second: 1}, 4, torch.Generator().manual_seed(0))
        assert len(flexible._drawer.schedules._kept) <= 4
    assert len(flexible._drawer.schedules._kept) == 4  # there are more orders than that
