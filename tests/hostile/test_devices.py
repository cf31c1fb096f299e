"""No tensor of ours is made without saying where: what holds devices where there is but one."""

import inspect

import pytest
import torch
from torch.overrides import TorchFunctionMode

import deltaai as dai

FACTORIES = {
    torch.arange, torch.empty, torch.eye, torch.full, torch.linspace, torch.ones, torch.rand,
    torch.randint, torch.randn, torch.randperm, torch.tensor, torch.zeros,
}  # fmt: skip
LATTICE = dai.zoo.ising_lattice(side=3, sigma=0.4, seed=0)


class EveryTensorSaysWhere(TorchFunctionMode):
    """Raises where a file of ours makes a tensor without a device; torch's own may."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in FACTORIES and kwargs.get("device") is None:
            caller = inspect.stack()[1]
            if "/deltaai/" in caller.filename:
                raise AssertionError(f"{caller.filename}:{caller.lineno} says no device")
        return func(*args, **kwargs)


def test_the_mode_sees_what_it_should():
    code = compile("import torch\ntorch.zeros(3)", "/somewhere/deltaai/wrong.py", "exec")
    with EveryTensorSaysWhere(), pytest.raises(AssertionError, match="says no device"):
        exec(code, {})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"orders": "many", "evidence": "any"},
        {"family": "mae", "hidden": 8, "objective": "fl-subtb", "evidence": ["x_1_1"]},
        pytest.param({"family": "table", "objective": "stochastic"}, marks=pytest.mark.slow),
        {"orders": "many", "objective": "sub-dags", "polish_steps": 2},
        pytest.param(
            {"objective": "sampled", "values": "chains", "values_share": 0.5},
            marks=pytest.mark.slow,
        ),
        pytest.param({"initial": "bp", "alternatives": "all"}, marks=pytest.mark.slow),
    ],
    ids=lambda settings: "-".join(map(str, settings.values())) or "default",
)
def test_training_sampling_and_loading(tmp_path, settings):
    with EveryTensorSaysWhere():
        sampler = dai.fit(LATTICE, steps=3, seed=0, device="cpu", **settings)
        evidence = {"x_1_1": 1} if isinstance(sampler.evidence, tuple) else {"x_0_0": 0}
        sampler.marginals(evidence, 200, 0)
        sampler.save(tmp_path / "sampler.dai")
        dai.load(tmp_path / "sampler.dai").posterior(evidence, 50, 0)


@pytest.mark.parametrize("method", ["auto", "exact", "sampler", "bp"])
def test_asking(method):
    with EveryTensorSaysWhere():
        settings = {"time_limit": 20} if method == "sampler" else {}
        dai.query(LATTICE, {"x_0_0": 1}, method=method, **settings)


def test_a_table_of_cases():
    with EveryTensorSaysWhere():
        dai.query_table(LATTICE, [{"x_0_0": 1}, {"x_2_2": 0}])
