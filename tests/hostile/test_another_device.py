"""Every way to an answer with a model and a sampler on a device that is not the CPU."""

import numpy as np
import pytest
import torch

import deltaai as dai
from pretend_device import NAME, pretend_device

LATTICE = dai.zoo.ising_lattice(side=3, sigma=0.4, seed=0)
NETWORK = dai.example("asia")


@pytest.fixture(autouse=True)
def there():
    with pretend_device() as name:
        yield name


def test_the_device_refuses_what_a_card_refuses(there):
    x = torch.zeros(3, dtype=torch.float64, device=there)
    with pytest.raises(RuntimeError, match="two devices"):
        x + torch.ones(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="generator is on the CPU"):
        torch.rand(3, generator=torch.Generator(), device=there)
    with pytest.raises((RuntimeError, TypeError)):
        x.numpy()
    assert x.device.type == NAME
    assert (x + 1).sum().item() == 3


@pytest.mark.parametrize(
    ("method", "of"), [("auto", None), ("exact", [("x_0_1", "x_2_2")]), ("bp", None)]
)
def test_exact_parts_are_computed_on_the_cpu(there, method, of):
    here = dai.query(LATTICE, {"x_0_0": 1}, of, method=method)
    found = dai.query(LATTICE, {"x_0_0": 1}, of, method=method, device=there)
    assert found.log_partition == pytest.approx(here.log_partition, abs=1e-12)
    assert all(np.allclose(row, here.marginals[name]) for name, row in found.marginals.items())


def test_exact_states_are_where_the_model_is(there):
    engine = dai.exact(NETWORK.to(there), {"smoke": "yes"})
    best, drawn = engine.map(), engine.sample(5, 0)
    assert best.state.device.type == drawn.device.type == NAME
    here = dai.exact(NETWORK, {"smoke": "yes"})
    assert best.labels == here.map().labels
    assert drawn.tolist() == here.sample(5, 0).tolist()


def test_zeros_and_parts(there):
    model = NETWORK.to(there)
    dai.plan(model, {"smoke": "yes"})
    dai.check(model)
    wide = dai.zoo.ising_lattice(side=6, sigma=0.5, seed=0)
    here, found = (dai.query(wide, memory_limit=3000, device=name) for name in ("cpu", there))
    assert found.plan.method == "exact in parts"
    assert found.log_partition == pytest.approx(here.log_partition)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"orders": "many", "evidence": "any"},
        {"family": "mae", "hidden": 8, "objective": "fl-subtb", "evidence": ["x_1_1"]},
        pytest.param({"family": "table", "objective": "stochastic"}, marks=pytest.mark.slow),
        pytest.param({"orders": "many", "objective": "sub-dags"}, marks=pytest.mark.slow),
        {"objective": "sampled", "values": "chains", "values_share": 0.5},
        pytest.param({"initial": "bp", "alternatives": "all"}, marks=pytest.mark.slow),
        pytest.param({"states": torch.zeros(4, 9, dtype=torch.long)}, marks=pytest.mark.slow),
    ],
    ids=lambda settings: "-".join(map(str, settings)) or "default",
)
def test_training_asking_saving_and_loading(tmp_path, there, settings):
    sampler = dai.fit(LATTICE, steps=3, seed=0, device=there, **settings)
    assert sampler.model.device.type == sampler.proposal.device.type == NAME
    evidence = {"x_1_1": 1} if isinstance(sampler.evidence, tuple) else {"x_0_0": 0}
    found = sampler.marginals(evidence, 200, 0)
    drawn = sampler.sample(7, 0, evidence=evidence)
    assert drawn.shape == (7, 9)
    if sampler.evidence is None:
        assert len(sampler.residuals(20, 0)) == 9
        assert sampler.log_prob(sampler.sample(5, 0)).device.type == NAME
    sampler.save(tmp_path / "sampler.dai")
    here = dai.load(tmp_path / "sampler.dai")
    again = dai.load(tmp_path / "sampler.dai", device=there)
    assert here.model.device.type == "cpu"
    assert again.proposal.device.type == NAME
    for loaded in (here, again):  # a seed says the same everywhere
        rows = loaded.marginals(evidence, 200, 0)
        assert all(np.allclose(row, found[name], atol=1e-6) for name, row in rows.items())


def test_training_is_the_same_as_on_the_cpu(there):
    losses = [
        [row["loss"] for row in dai.fit(LATTICE, steps=20, seed=3, device=name).history]
        for name in ("cpu", there)
    ]
    assert np.allclose(*losses)


@pytest.mark.parametrize(
    "settings",
    [
        {"orders": "many", "evidence": "any", "values": "chains", "values_share": 0.5},
        pytest.param({"orders": "many", "objective": "sub-dags"}, marks=pytest.mark.slow),
    ],
    ids=["evidence", "sub-dags"],
)
def test_a_run_goes_on_on_another_device(there, tmp_path, settings):
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 4, "seed": 1, **settings}

    def stop(progress):
        if progress.step == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dai.fit(LATTICE, steps=8, watch=stop, **kept)
    resumed = dai.fit(LATTICE, steps=8, resume=True, device=there, **kept)
    del kept["checkpoint"], kept["checkpoint_every"]
    whole = dai.fit(LATTICE, steps=8, **kept)
    assert resumed.history[-1]["loss"] == pytest.approx(whole.history[-1]["loss"], rel=1e-4)


def test_asking_by_samplers(there, tmp_path):
    dai.query(LATTICE, {"x_0_0": 1}, method="sampler", time_limit=3, device=there)
    sampler = dai.fit(LATTICE, steps=3, seed=0)
    sampler.save(tmp_path / "sampler.dai")
    for source in (sampler, tmp_path / "sampler.dai"):
        answer = dai.query(source, {"x_0_0": 1}, num_samples=200, device=there)
        assert answer.marginals["x_0_0"][1] == 1
    assert sampler.model.device.type == "cpu"  # a copy was moved


@pytest.mark.parametrize("method", ["exact", "sampler"])
def test_tables_of_cases(there, method):
    settings = {"steps": 3, "num_samples": 100} if method == "sampler" else {}
    rows = [{"x_0_0": 1}, {"x_2_2": 0}]
    dai.query_table(LATTICE, rows, method=method, samples=2, device=there, **settings)
    states = torch.full((2, 9), -1, dtype=torch.long, device=there)
    dai.query_table(LATTICE, states, method=method, device=there, **settings)
