"""Models with zeros: trained on floored tables, judged by the true ones."""

import pytest
import torch

from deltaai.errors import ConfigError, ModelError
from deltaai.exact import Enumeration, exact
from deltaai.fitting.fit_model import fit
from deltaai.fitting.loading import load_sampler
from deltaai.models import FactorGraph, TableFactor, Variable


def constrained():
    """Four variables in a ring, no two neighbours both on; fields that pull them on."""
    variables = [Variable(f"x{v}", 2) for v in range(4)]
    never_both = [[1.0, 1.0], [1.0, 0.0]]
    factors = [TableFactor.from_values([f"x{v}", f"x{(v + 1) % 4}"], never_both) for v in range(4)]
    factors += [TableFactor.from_values([f"x{v}"], [1.0, 1.5 + v]) for v in range(4)]
    return FactorGraph(variables, factors)


@pytest.fixture(scope="module")
def sampler():
    return fit(constrained(), smoothing=1e-3, steps=400, seed=0)


def test_zeros_are_refused_unless_smoothed():
    with pytest.raises(ModelError, match=r"smoothing=0\.001"):
        fit(constrained(), steps=2)
    with pytest.raises(ConfigError, match="smoothing is 2"):
        fit(constrained(), smoothing=2, steps=2)


def test_estimates_use_the_true_factors(sampler):
    model = constrained()
    estimate = sampler.log_partition(5000, torch.Generator().manual_seed(0))
    truth = exact(model).log_partition()
    assert abs(float(estimate) - truth) < 4 * estimate.stderr + 1e-3
    assert estimate.ess_fraction > 0.9
    found = sampler.posterior({"x3": 0}, 5000, torch.Generator().manual_seed(0))
    answer = exact(model, {"x3": 0})
    assert abs(found.estimate.log_partition - answer.log_partition()) < (
        4 * found.estimate.stderr + 1e-3
    )
    for name, expected in answer.marginals().items():
        assert found.marginals()[name] == pytest.approx(expected, abs=0.03)


def test_impossible_states_are_rare_and_have_no_weight(sampler):
    model = constrained()
    states = Enumeration(model).states
    is_possible = model.log_score(states) > -torch.inf
    assert float(sampler.log_prob(states).exp()[~is_possible].sum()) < 0.05


def test_saving_keeps_the_floor(sampler, tmp_path):
    sampler.save(tmp_path / "ring.dai")
    loaded = load_sampler(tmp_path / "ring.dai")
    assert loaded.spec.smoothing == 1e-3
    states = Enumeration(constrained()).states
    assert torch.equal(loaded.log_prob(states), sampler.log_prob(states))
