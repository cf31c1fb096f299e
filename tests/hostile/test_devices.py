"""No tensor of ours is made without saying where: what holds devices where there is but one."""

import inspect

import pytest
import torch
from torch.overrides import TorchFunctionMode

import deltaai as dai
from deltaai.errors import ConfigError

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
        loaded = dai.load(tmp_path / "sampler.dai", device="cpu")
        dai.query(loaded, evidence, num_samples=50, device="cpu")
        dai.query(tmp_path / "sampler.dai", evidence, num_samples=50, device="cpu")


@pytest.mark.parametrize("method", ["auto", "exact", "sampler", "bp"])
def test_asking(method):
    with EveryTensorSaysWhere():
        settings = {"time_limit": 8} if method == "sampler" else {}
        dai.query(LATTICE, {"x_0_0": 1}, method=method, device="cpu", **settings)


def test_a_table_of_cases():
    with EveryTensorSaysWhere():
        dai.query_table(LATTICE, [{"x_0_0": 1}, {"x_2_2": 0}], device="cpu")


NOT_THERE = [
    ("meta", "its tensors hold no values"),
    ("vulkan", "Could not run"),
    ("cuda:x", "Invalid device string"),
    ("gpu", "Expected one of cpu, cuda"),
    ("privateuseone", "No module named"),
]


@pytest.mark.parametrize(("device", "reason"), NOT_THERE, ids=lambda value: str(value)[:12])
def test_devices_that_are_not_there(tmp_path, device, reason):
    calls = [
        lambda: LATTICE.to(device),
        lambda: dai.fit(LATTICE, steps=1, device=device),
        lambda: dai.query(LATTICE, device=device),
        lambda: dai.query(LATTICE, [{}], device=device),
        lambda: dai.query_table(LATTICE, [{}], device=device),
        lambda: dai.load(tmp_path / "there is none.dai", device=device),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match=f"device is .*{reason}.*'cpu' is always there$"):
            call()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_device_that_this_torch_does_not_have():
    with pytest.raises(ConfigError, match=r"device is 'cuda': .*'cpu' is always there"):
        dai.query(LATTICE, device="cuda")


@pytest.mark.parametrize("command", ["query", "sample", "fit"])
def test_devices_on_the_command_line(run, tmp_path, command):
    out = ["-o", tmp_path / "out.dai", "--steps", "2"] if command == "fit" else []
    code, shown, err = run(command, "sprinkler", *out, "--device", "meta")
    assert (code, shown) == (2, "")
    assert err == "error: --device is 'meta': its tensors hold no values; 'cpu' is always there\n"
    small = ["--smoothing", "1e-3"] if command == "fit" else []
    code, _, err = run(command, "sprinkler", *out, *small, "--device", "cpu")
    assert (code, err) == (0, "")
