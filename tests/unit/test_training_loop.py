"""The loop: it converges, stops when told, guards against bad losses, and resumes exactly."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import torch

from deltaai.errors import ConfigError, FormatError, ModelError, StateError, TrainingError
from deltaai.exact import Enumeration
from deltaai.fitting.fit_model import fit
from deltaai.fitting.loading import load_sampler
from deltaai.models import FactorGraph, TableFactor, Variable, zoo
from deltaai.training import phases

LATTICE = zoo.ising_lattice(side=3, sigma=0.4, seed=0)


def divergence(model, sampler, **options):
    """Exact KL(p, q) by enumeration."""
    oracle = Enumeration(model)
    p = oracle.probabilities()
    log_q = sampler.log_prob(oracle.states, **options)
    return float((p * (p.log() - log_q)).sum())


def weights(sampler):
    return [value.clone() for value in sampler.proposal.conditionals.state_dict().values()]


@pytest.mark.parametrize(
    "model",
    [
        LATTICE,
        zoo.factor_lattice(side=3, sigma=1.0, seed=0),
        zoo.potts_lattice(side=2, states=4, sigma=0.8, seed=1),
        zoo.random_factor_graph(6, 8, max_arity=3, max_states=4, seed=3),
        zoo.random_factor_graph(7, 3, max_arity=2, max_states=3, seed=5),
        FactorGraph([Variable("a", 3)], [TableFactor(["a"], [0.0, 1.0, 2.0])]),
        FactorGraph([Variable("a", 2), Variable("b", 3)], []),
    ],
    ids=["ising", "neural", "potts", "mixed", "disconnected", "one-variable", "no-factors"],
)
def test_one_order_converges(model):
    sampler = fit(model, steps=150, seed=0)
    assert divergence(model, sampler) < 0.01


def test_many_orders_converge_in_every_order():
    sampler = fit(LATTICE, orders="many", steps=400, seed=0, target_kl=1e-6)
    for seed in range(6):
        assert divergence(LATTICE, sampler, dag=sampler.random_order(seed)) < 0.03


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "uniform"},
        {"policy": "tempered", "temperature": 3.0},
        {"policy": "uniform-mixture", "exploration": 0.3},
        {"policy": "tempered-mixture", "exploration": 0.5, "temperature": 4.0},
    ],
    ids=lambda settings: settings["policy"],
)
def test_off_policy_training_is_correct(settings):
    """The residual vanishes only at q = p, so states from anywhere train towards p."""
    sampler = fit(LATTICE, steps=200, seed=0, **settings)
    assert divergence(LATTICE, sampler) < 0.01


def test_a_data_set_of_states_trains_too():
    """The states need not come from p or q: here each of all joint states, once."""
    states = Enumeration(LATTICE).states
    sampler = fit(LATTICE, steps=200, seed=0, states=states)
    assert divergence(LATTICE, sampler) < 0.01
    with pytest.raises(StateError, match="there are none"):
        fit(LATTICE, states=states[:0])


@pytest.mark.parametrize("orders", ["one", "many"])
def test_all_other_values_at_once_train_too(orders):
    model = zoo.potts_lattice(side=2, states=4, sigma=0.8, seed=1)
    sampler = fit(model, steps=150, seed=0, alternatives="all", orders=orders, batch_size=64)
    assert divergence(model, sampler) < 0.02


def test_without_factors_in_the_logits_it_converges_too():
    sampler = fit(LATTICE, steps=300, seed=0, is_informed=False)
    assert divergence(LATTICE, sampler) < 0.02


def test_tables_and_the_masked_autoencoder_converge_too(tmp_path):
    small = zoo.ising_lattice(side=2, sigma=0.4, seed=0)
    for family, options in (("table", {}), ("mae", {"hidden": 48, "learning_rate": 5e-3})):
        sampler = fit(small, family=family, steps=200, seed=0, **options)
        assert divergence(small, sampler) < 0.02
        sampler.save(tmp_path / f"{family}.dai")
        again = load_sampler(tmp_path / f"{family}.dai")
        states = Enumeration(small).states
        assert torch.equal(again.log_prob(states), sampler.log_prob(states))
    with pytest.raises(ConfigError, match="one order"):
        fit(small, family="table", orders="many")
    with pytest.raises(ConfigError, match="did you mean 'local'"):
        fit(small, family="locale")


def test_annealing_reaches_a_peaked_target():
    model = zoo.ising_lattice(side=3, sigma=2.0, seed=1)
    sampler = fit(model, steps=400, seed=0)
    assert sampler.config.anneal_steps > 0
    assert divergence(model, sampler) < 0.05


def test_polishing_mends_what_local_updates_left(monkeypatch):
    """A peaked model: the weights of distant modes need full samples."""
    monkeypatch.setattr(phases, "WORTH_BELOW", 2.0)
    model = zoo.ising_lattice(side=3, sigma=2.0, seed=4)
    rough = fit(model, steps=120, seed=0)
    polished = fit(model, steps=120, polish_steps=200, target_kl=1e-6, seed=0)
    assert divergence(model, polished) < 0.01
    assert divergence(model, polished) <= divergence(model, rough) + 1e-4


def test_polishing_is_left_out_where_there_is_nothing_to_do_and_undone_where_it_harms(monkeypatch):
    settings = {"steps": 150, "polish_steps": 40, "target_kl": 1e-9, "seed": 0}
    assert fit(LATTICE, **settings).history[-1]["step"] == 150
    monkeypatch.setattr(phases, "WORTH_BELOW", 2.0)
    spoilt = fit(LATTICE, **settings, polish_rate=10.0)  # far too fast
    assert spoilt.history[-1]["step"] == 190
    assert divergence(LATTICE, spoilt) < 0.05


def test_same_seed_same_sampler():
    first, second = (fit(LATTICE, steps=20, seed=3) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(weights(first), weights(second), strict=True))
    other = fit(LATTICE, steps=20, seed=4)
    assert not all(torch.equal(a, b) for a, b in zip(weights(first), weights(other), strict=True))


def test_targets_and_time_stop_it():
    assert fit(LATTICE, steps=500, target_ess=0.5, evaluate_every=5).history[-1]["step"] == 5
    assert fit(LATTICE, steps=500, target_kl=5.0, evaluate_every=5).history[-1]["step"] == 5
    assert fit(LATTICE, steps=100_000, time_limit=0.3).history[-1]["step"] < 100_000


@pytest.mark.parametrize("steps", [30, 20, 10], ids=["local", "before-polishing", "polishing"])
@pytest.mark.parametrize("orders", ["one", "many"])
def test_an_interrupted_run_resumes_to_the_same_weights(tmp_path, monkeypatch, orders, steps):
    monkeypatch.setattr(phases, "WORTH_BELOW", 2.0)  # polish in any case
    settings = {"orders": orders, "steps": steps, "polish_steps": 30 - steps, "seed": 1}
    settings |= {"checkpoint_every": 7, "target_ess": None}
    whole = fit(LATTICE, **settings, target_kl=1e-9)

    class Stop(Exception):
        pass

    def interrupt(progress):
        if progress.step == 17:
            raise Stop

    path = tmp_path / "run.checkpoint"
    log = tmp_path / "run.jsonl"
    with pytest.raises(Stop):
        fit(LATTICE, **settings, target_kl=1e-9, checkpoint=path, metrics=log, watch=interrupt)
    resumed = fit(LATTICE, **settings, target_kl=1e-9, checkpoint=path, metrics=log, resume=True)
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(resumed), strict=True))


def test_a_killed_process_resumes_to_the_same_weights(tmp_path, one_thread):
    """kill -9 at an arbitrary moment, then the same run again in another process: this one."""
    script = textwrap.dedent(
        """
        import sys, torch
        from deltaai.fitting.fit_model import fit
        from deltaai.models import zoo
        torch.set_num_threads(1)
        model = zoo.ising_lattice(side=3, sigma=0.4, seed=0)
        fit(model, steps=150, seed=1, checkpoint=sys.argv[1], resume=True,
            checkpoint_every=5, target_kl=1e-12, evaluate_every=20)
        """
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    checkpoint = tmp_path / "victim.checkpoint"
    victim = subprocess.Popen([sys.executable, "-c", script, str(checkpoint)], env=environment)
    while not checkpoint.exists():
        assert victim.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    time.sleep(0.2)
    victim.send_signal(signal.SIGKILL)
    assert victim.wait() == -signal.SIGKILL
    settings = {"steps": 150, "seed": 1, "target_kl": 1e-12, "evaluate_every": 20}
    kept = {"checkpoint": checkpoint, "resume": True, "checkpoint_every": 5}
    resumed, whole = fit(LATTICE, **settings, **kept), fit(LATTICE, **settings)
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(resumed), strict=True))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path = tmp_path / "run.checkpoint"
    fit(LATTICE, steps=5, checkpoint=path)
    with pytest.raises(TrainingError, match="another model"):
        fit(zoo.ising_lattice(side=3, sigma=0.5, seed=0), steps=5, checkpoint=path, resume=True)
    with pytest.raises(TrainingError, match=r"other settings .*learning_rate"):
        fit(LATTICE, steps=5, learning_rate=0.5, checkpoint=path, resume=True)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FormatError):
        fit(LATTICE, steps=5, checkpoint=path, resume=True)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_checkpoint(tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(TrainingError, match=r"the loss is (nan|inf) at step \d+.*last good state"):
        fit(
            LATTICE,
            steps=50,
            learning_rate=1e30,
            gradient_clip=None,
            checkpoint=path,
            checkpoint_every=1,
        )
    from deltaai.io.tensor_files import load_tensors

    load_tensors(path, "checkpoint")  # complete, whatever happened after


def test_zeros_and_wrong_settings_are_refused():
    model = FactorGraph([Variable("a", 2)], [TableFactor.from_values(["a"], [1.0, 0.0])])
    with pytest.raises(ModelError, match="zero"):
        fit(model)
    with pytest.raises(ModelError, match="no variables"):
        fit(FactorGraph([], []))
    with pytest.raises(ConfigError, match="steps"):
        fit(LATTICE, steps=-1)
    with pytest.raises((ConfigError, TypeError)):
        fit(LATTICE, stepz=3)
