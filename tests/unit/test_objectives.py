"""Every objective is a choice of ``fit``: each trains a small model and resumes exactly."""

import pytest
import torch

from deltaai.errors import ConfigError
from deltaai.exact import Enumeration
from deltaai.fitting.fit_model import fit
from deltaai.models import zoo
from deltaai.training import phases
from deltaai.training.config import objective_names
from resuming import assert_resumes_to_the_same_weights

ISING = zoo.ising_lattice(side=3, sigma=0.4, seed=0)
POTTS = zoo.potts_lattice(side=2, states=3, sigma=0.6, seed=0)
OBJECTIVES = [name for name in objective_names() if name != "score"]  # which is for real values
ONE_ORDER = [name for name in OBJECTIVES if name != "sub-dags"]
QUICK = {"delta", "tb"}  # on two states; all are trained on three


def divergence(model, sampler):
    """Exact KL(p, q) by enumeration: the gap of the mean NLL."""
    oracle = Enumeration(model)
    p = oracle.probabilities()
    return float((p * (p.log() - sampler.log_prob(oracle.states))).sum())


def assert_trains(model, **settings):
    """The exact divergence is small in the end, and was not before."""
    sampler = fit(model, **settings, target_kl=1e-5, seed=0)
    assert divergence(model, sampler) <= 0.02
    assert sampler.config.objective == settings["objective"]
    untrained = fit(model, **settings | {"steps": 0}, seed=0)
    assert divergence(model, untrained) > 0.04


@pytest.mark.parametrize("objective", ONE_ORDER)
def test_each_objective_trains_a_model_of_three_states(objective):
    assert_trains(POTTS, objective=objective, steps=120, batch_size=96)


@pytest.mark.parametrize(
    ("objective", "steps"),
    [
        *[(name, 200) for name in ONE_ORDER if name in QUICK],
        *[
            pytest.param(name, 350 if name in {"db", "fl-db"} else 200, marks=pytest.mark.slow)
            for name in ONE_ORDER
            if name not in QUICK
        ],
    ],
)
def test_each_objective_trains_a_binary_model(objective, steps):
    assert_trains(ISING, objective=objective, steps=steps, batch_size=96)


@pytest.mark.parametrize("objective", ["sub-dags", "sampled", "stochastic"])
def test_local_objectives_train_many_orders(objective):
    assert_trains(ISING, orders="many", objective=objective, steps=140)


def test_fewer_samples_than_variables_take_turns():
    settings = {"steps": 180, "batch_size": 5, "redraw_orders_every": 1, "target_kl": 1e-5}
    sampler = fit(ISING, orders="many", objective="sub-dags", seed=0, **settings)
    untrained = fit(ISING, orders="many", objective="sub-dags", seed=0, **settings | {"steps": 0})
    assert divergence(ISING, sampler) <= 0.3 * divergence(ISING, untrained)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_interrupted_run_resumes_to_the_same_weights(tmp_path, objective):
    settings = {"orders": "many", "objective": objective, "steps": 12, "checkpoint_every": 5}
    settings |= {"batch_size": 32, "target_kl": 1e-9, "seed": 1}
    assert_resumes_to_the_same_weights(POTTS, tmp_path, stop_at=7, **settings)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ConfigError, match="orders='many'"):
        fit(ISING, objective="sub-dags", steps=2)
    states = torch.zeros(4, 9, dtype=torch.long)
    with pytest.raises(ConfigError, match="drawn alone"):
        fit(ISING, orders="many", objective="sub-dags", states=states, steps=2)


def test_any_objective_may_be_polished(monkeypatch):
    monkeypatch.setattr(phases, "WORTH_BELOW", 2.0)
    settings = {"steps": 2, "polish_steps": 3, "target_kl": 1e-9}
    trained = fit(ISING, orders="many", objective="sub-dags", **settings)
    assert trained.history[-1]["step"] == 5
